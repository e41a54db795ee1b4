"""An inbox that clients also reach over HTTPS: what comes that way becomes a file of the same folder.

So a file is read by the one function that reads all, wherever it comes from, and folder and network mix in one
federation. The server (``https_server``, ``https_tls``) has a thread; the requests are in ``https_app``, what they keep
in ``https_desk``, and a client's side in ``https_client``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from fedol.errors import FedolError
from fedol.federation.roster import Roster
from fedol.federation.transports import Inbox
from fedol.federation.transports.https_app import Intake
from fedol.federation.transports.https_desk import ENDING, Desk
from fedol.federation.transports.https_server import DEFAULT, Limits, WebServer
from fedol.federation.transports.https_tls import Address
from fedol.knowledge.task import Task

KEPT = "intake"  # the folder of a run with parts, receipts and the server's key
CLOSED = "coordinator"  # why a roster is closed that the coordinator closed by hand


class HttpsInbox(Inbox):
    """The folder, and a server that fills it while this is entered; ``close_now`` ends the waiting."""

    def __init__(
        self,
        desk: Desk,
        address: Address,
        intake: Intake,
        pages: Sequence[BaseRoute],
        close_now: Event,
        limits: Limits = DEFAULT,
    ) -> None:
        super().__init__(desk.inbox)
        self.desk, self._close_now = desk, close_now
        app = Starlette(routes=[*intake.routes, *pages], exception_handlers={Exception: intake.failed})
        self.server = WebServer(app, address, limits)
        self._looked: set[str] = set()  # whose uploads the last look has seen

    def __enter__(self) -> HttpsInbox:
        self.server.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.stop()

    @property
    def ended(self) -> str:
        """Set once the coordinator closes the intake."""
        return CLOSED if self._close_now.is_set() and self.desk.roster.clients else ""

    def sender(self, name: str) -> str:
        """An upload is by the client that its file is named after."""
        return name.removesuffix(ENDING) if name.endswith(ENDING) else ""

    def scan(self, roster: Roster, task: Task, into: Path) -> Iterator[Roster]:
        """As the folder does; an error where the server is gone, since clients would send in vain."""
        if not self.server.running:
            raise FedolError(f"The server at {self.server.url} has stopped; rerun the command, which goes on.")
        there = set(self.desk.waiting)
        yield from super().scan(roster, task, into)
        self._looked = there

    def show(self, roster: Roster) -> None:
        """What has become of the files, once it is written down; clients are told from now on."""
        self.desk.look(roster)
        self.desk.waiting -= self._looked
        self._looked = set()
