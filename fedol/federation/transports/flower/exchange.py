"""One question to every node, and the answers as they come: the only code that talks to a ``Grid``."""

from __future__ import annotations

from collections.abc import Iterator

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

FOREVER = 7 * 86_400.0  # seconds that a message lives where no deadline ends the collection
UNAVAILABLE = 5  # the code of a reply that Flower gives for a node whose heartbeats have stopped
BODY = "fedol"

Values = dict[str, str | bytes | int | float]


def pack(values: Values) -> RecordDict:
    """Values as the content of a message."""
    return RecordDict({BODY: ConfigRecord(dict(values))})


def unpack(message: Message) -> dict[str, object]:
    """The values that a message brings; none where it is not one of ours."""
    record = message.content.config_records.get(BODY)
    return dict(record) if record is not None else {}


class Exchange:
    """Asks each node that shows up, once; one that went away and came back is asked again (and has its cache).

    A reply is known by the message that it answers: what it says about its sender can be wrong (that of a node that
    vanished names another), and must not decide whose reply it is.
    """

    def __init__(self, grid: Grid, question: Values, ttl: float = FOREVER) -> None:
        self._grid, self._question, self._ttl = grid, question, ttl
        self._asked: dict[str, int] = {}  # message -> node
        self.nodes: dict[int, str] = {}  # those connected now, by their registered names
        self.done: set[int] = set()  # those that have answered, whatever the answer was

    @property
    def waiting(self) -> set[int]:
        """The nodes that have been asked and have not answered."""
        return set(self._asked.values())

    def look(self) -> Iterator[tuple[int, dict[str, object] | str]]:
        """Ask who is new, and yield (node, answer) for each reply; a string says why there is none."""
        self.nodes = {info.node_id: info.name for info in self._grid.get_nodes()}
        self.done &= set(self.nodes)
        for node in sorted(set(self.nodes) - self.waiting - self.done):
            message = Message(pack(self._question), node, MessageType.TRAIN, ttl=self._ttl)
            for identity in self._grid.push_messages([message]):
                self._asked[identity] = node
        for reply in self._grid.pull_messages(list(self._asked)) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id)
            if not reply.has_error() or reply.error.code != UNAVAILABLE:  # else: again, as soon as it is back
                self.done.add(node)
            yield node, f"{reply.error.reason} (code {reply.error.code})" if reply.has_error() else unpack(reply)
