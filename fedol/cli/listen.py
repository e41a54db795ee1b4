"""``fedol serve --listen``: the inbox and, where it is asked for, a server that fills it and shows how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedol.errors import FedolError, InputError
from fedol.progress import NOBODY, Observer

if TYPE_CHECKING:
    from fedol.federation.coordinator import Coordinator, OnRoster
    from fedol.federation.roster import Roster
    from fedol.federation.taskfolder import TaskFolder
    from fedol.federation.transports import Inbox
    from fedol.federation.transports.https_tls import Address

HTTPS = "Over HTTPS"
Listen = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Take uploads here, too, and show a page.", rich_help_panel=HTTPS),
]
Cert = Annotated[Path | None, typer.Option(help="The server's certificate, with its chain.", rich_help_panel=HTTPS)]
Key = Annotated[Path | None, typer.Option(help="The certificate's private key.", rich_help_panel=HTTPS)]
ClientCa = Annotated[
    Path | None,
    typer.Option(
        "--client-ca",
        help="Clients may show a certificate of this authority, in their name, instead of a token.",
        rich_help_panel=HTTPS,
    ),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without TLS, on this machine alone.", rich_help_panel=HTTPS)
]
Stay = Annotated[
    bool, typer.Option("--stay", help="Go on showing the page after the training, until Ctrl-C.", rich_help_panel=HTTPS)
]
LOGIN = "login.txt"  # beside the uploads' parts: the coordinator's link, for where nobody sees the terminal


@dataclass(frozen=True)
class Wanted:
    """The options."""

    listen: str | None
    cert: Path | None
    key: Path | None
    client_ca: Path | None
    insecure: bool
    stay: bool

    def address(self, inbox: Path | None) -> Address | None:
        """Where to listen, if anywhere; whatever is wrong with the options and certificates is said now."""
        given: dict[str, object] = {"--cert": self.cert, "--key": self.key, "--client-ca": self.client_ca}
        given |= {"--insecure": self.insecure, "--stay": self.stay}
        if self.listen is None:
            if said := [name for name, value in given.items() if value]:
                raise InputError(f"{said[0]} is about a server; say where it is to listen: --listen HOST:PORT.")
            if inbox is None:
                raise InputError("Say where clients' files arrive: --inbox FOLDER, --listen HOST:PORT or both.")
            return None
        try:
            import uvicorn  # noqa: F401 (whether it is there)

            from fedol.federation.transports.https_tls import Address
        except ImportError as error:
            raise FedolError(f"--listen needs the package {error.name}: pip install 'fedol[https]'.") from None
        address = Address.parse(self.listen, self.cert, self.key, self.client_ca, self.insecure)
        address.context()
        return address


@dataclass(frozen=True)
class Collection:
    """What ``serve`` watches, and whom it tells of the roster and of the training."""

    inbox: Inbox
    show: OnRoster = lambda roster, arriving: None
    observer: Observer = NOBODY

    def watch(self, coordinator: Coordinator, quorum: int | None, deadline: float | None, view: OnRoster) -> None:
        """Collect; clients hear of the end, too."""

        def told(roster: Roster, arriving: dict[str, str]) -> None:
            self.show(roster, arriving)
            view(roster, arriving)

        self.show(coordinator.watch(self.inbox, quorum, deadline, told), {})


@contextmanager
def listening(
    address: Address | None,
    folder: TaskFolder,
    coordinator: Coordinator,
    inbox: Path | None,
    quorum: int | None,
    deadline: float | None,
    console: Console,
) -> Iterator[Collection]:
    """The folder alone; or with a server beside it, for as long as this is entered."""
    from fedol.federation.transports import Inbox

    if address is None:
        assert inbox is not None
        yield Collection(Inbox(inbox))
        return
    from fedol.federation.tokens import Tokens
    from fedol.federation.transports.https import KEPT, HttpsInbox
    from fedol.federation.transports.https_app import Intake
    from fedol.federation.transports.https_desk import Desk
    from fedol.files import private_folder, write_atomically
    from fedol.report.status import Status
    from fedol.report.status_pages import StatusPages
    from fedol.report.terminal import plain

    tokens = Tokens(folder.path)
    if not tokens.hashes() and address.client_ca is None:
        raise InputError(
            f"No client could be known: make tokens (fedol keys token {folder.path} NAME --out NAME.token), or give "
            "--client-ca."
        )
    place = inbox or coordinator.out / "inbox"
    if inbox is None:
        private_folder(place)
    desk = Desk(folder.task, place, coordinator.out / KEPT)
    status = Status(folder.task, quorum, deadline, desk.arriving)

    def note(where: str, client: str, sentence: str) -> None:
        if status.turned_away(where, client, sentence):
            console.print(plain(f"turned away: {client} from {where}: {sentence}"), soft_wrap=True)

    intake = Intake(desk, tokens, note)
    pages = StatusPages(status, desk, intake.wait, secure=address.cert is not None)
    https = HttpsInbox(desk, address, intake, pages.routes, status.close_now)

    def show(roster: Roster, arriving: dict[str, str]) -> None:
        https.show(roster)
        status.show(roster, arriving)

    show(coordinator.roster, {})
    with https:
        link = f"{https.server.url}/login?code={pages.login.code}"
        write_atomically(coordinator.out / KEPT / LOGIN, f"{link}\n".encode(), private=True)
        console.print(
            plain(f"Listening at {https.server.url}; receipts are signed by {desk.public_key}."), soft_wrap=True
        )
        console.print(plain(f"To log in, once: {link}"), soft_wrap=True)
        try:
            yield Collection(https, show, status)
        finally:
            pages.over = True
            (coordinator.out / KEPT / LOGIN).unlink(missing_ok=True)


def until_interrupted() -> None:
    """Wait for Ctrl-C, which here is no failure."""
    with suppress(KeyboardInterrupt):
        Event().wait()
