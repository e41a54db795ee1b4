"""A server that listens on this machine: in this process, with a loop as ``serve`` has one, or ``serve`` itself."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commands import ENV, ROOT
from small_federation import SMALL

from fedol.federation.roster import Roster
from fedol.federation.sending import look
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.tokens import Tokens, new_token, read_token
from fedol.federation.transports.https import HttpsInbox
from fedol.federation.transports.https_app import Intake
from fedol.federation.transports.https_client import Sender, Server
from fedol.federation.transports.https_desk import Desk
from fedol.federation.transports.https_server import DEFAULT, Limits
from fedol.federation.transports.https_tls import Address
from fedol.report.status import Status
from fedol.report.status_pages import StatusPages


class Listening:
    """A run's intake. It can be stopped and begun again in the same folder."""

    def __init__(
        self, folder: TaskFolder, out: Path, limits: Limits = DEFAULT, quorum: int | None = None, **tls: Path | None
    ) -> None:
        self.folder, self.out, self.limits, self.quorum = folder, out, limits, quorum
        self.address = Address("127.0.0.1", 0, tls.get("cert"), tls.get("key"), tls.get("client_ca"))
        self.ca = tls.get("ca")
        self.roster = Roster(time.time())
        self.said: list[tuple[str, str, str]] = []
        self._end = threading.Event()
        self.looking = threading.Event()  # cleared: nothing is looked at
        self.looking.set()

    def __enter__(self) -> Listening:
        (self.out / "inbox").mkdir(parents=True, exist_ok=True)
        self.desk = Desk(self.folder.task, self.out / "inbox", self.out / "intake")
        self.status = Status(self.folder.task, self.quorum, None, self.desk.arriving)
        intake = Intake(self.desk, Tokens(self.folder.path), self._note, self.limits)
        self.pages = StatusPages(self.status, self.desk, intake.wait, secure=self.address.cert is not None)
        close_now = self.status.close_now
        self.https = HttpsInbox(self.desk, self.address, intake, self.pages.routes, close_now, self.limits)
        self.show()
        self.https.__enter__()
        self.url = self.https.server.url
        self._end.clear()
        self._loop = threading.Thread(target=self._run)
        self._loop.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.pages.over = True
        self._end.set()
        self._loop.join()
        self.https.__exit__()

    def _note(self, *said: str) -> None:
        self.said.append(said)  # type: ignore[arg-type]
        self.status.turned_away(*said)

    def _run(self) -> None:
        while not self._end.wait(0.02):
            if self.looking.is_set():
                for roster in self.https.scan(self.roster, self.folder.task, self.out / "clients"):
                    self.roster = roster
                self.show()

    def show(self) -> None:
        self.https.show(self.roster)
        self.status.show(self.roster, self.https.arriving)

    def close(self, why: str = "quorum") -> None:
        self.looking.clear()
        time.sleep(0.05)
        self.roster = self.roster.close(why)
        self.show()

    def token(self, client: str) -> str:
        file = self.out / "tokens" / f"{client}.token"
        if not file.exists():
            new_token(self.folder, client, file)
        return read_token(file)

    def server(self, client: str | None = None, **given: Any) -> Server:
        token = self.token(client) if client else None
        own = {"url": self.url, "token": token, "ca": self.ca, "insecure": self.address.cert is None}
        return Server(**{**own, **given})

    def send(self, file: Path, client: str, patience: float = 5.0, **given: Any) -> Any:
        """Send as ``fedol client send`` does: the receipt, and the client's page."""
        outgoing = look(file)
        sender = Sender(self.server(client, **given), outgoing.data, outgoing.client, self.heard.append, patience)
        return sender.send(outgoing.task)

    @property
    def heard(self) -> list[str]:
        return self.__dict__.setdefault("_heard", [])


class Serving:
    """``fedol serve --listen`` in a process."""

    def __init__(self, place: Path, *more: object) -> None:
        tls = ["--cert", place / "server.crt", "--key", place / "server.pem"]
        given = list(map(str, more))
        where = [] if "--listen" in given else ["--listen", "127.0.0.1:0"]
        words = ["serve", place / "task", *where, *tls, "--out", place / "run", *SMALL, *given]
        self.login = place / "run" / "intake" / "login.txt"
        self.login.unlink(missing_ok=True)
        self.log = open(place / "serve.log", "ab")  # noqa: SIM115
        command = [sys.executable, "-m", "fedol", *map(str, words)]
        self.process = subprocess.Popen(command, cwd=ROOT, env=ENV, stdout=self.log, stderr=subprocess.STDOUT)
        self.place = place

    def url(self) -> str:
        def said() -> Any:
            assert self.process.poll() is None, self.said()
            return self.login.exists() and re.match(r"(https?://[^/]+)/", self.login.read_text())

        return str(until(said, 120)[1])

    def said(self) -> str:
        return (self.place / "serve.log").read_text()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.log.close()


def until(done: Callable[[], Any], patience: float = 20.0) -> Any:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if result := done():
            return result
        time.sleep(0.02)
    raise AssertionError("waited in vain")
