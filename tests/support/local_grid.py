"""A Flower ``Grid`` in this process: nodes are threads that run the real ``ClientApp``; some are told to misbehave."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):
    """Nodes by id; each has a node config and answers through ``app`` unless it is in ``fate``."""

    def __init__(self, app: ClientApp, nodes: dict[int, dict[str, Any]]) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1  # what a message is stamped with
        self.app, self.nodes = app, nodes
        self.fate: dict[int, Callable[[Message], Message | None]] = {}  # instead of the app
        self.asked: list[int] = []
        self.replies: dict[str, Message] = {}
        self.offline: set[int] = set()
        self.threads: list[threading.Thread] = []

    def get_node_ids(self) -> Iterable[int]:
        return [node for node in self.nodes if node not in self.offline]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=node, name=self.nodes[node].get("client", "")) for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        identities = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid.uuid4())
            identities.append(message.metadata.message_id)
            self.asked.append(message.metadata.dst_node_id)
            thread = threading.Thread(target=self._work, args=(message,), daemon=True)
            self.threads.append(thread)
            thread.start()
        return identities

    def _work(self, message: Message) -> None:
        node = message.metadata.dst_node_id
        context = Context(1, node, self.nodes[node], RecordDict(), {})
        try:
            reply = self.fate[node](message) if node in self.fate else self.app(message, context)
        except Exception as error:  # what Flower makes of an app that raises
            reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        if reply is not None:
            self.replies[message.metadata.message_id] = reply

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.replies.pop(identity) for identity in message_ids if identity in self.replies]

    def send_and_receive(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def create_message(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError
