"""A web server in a thread of its own, for clients that nobody vouches for: uvicorn, with TLS, time limits and bounds.

What uvicorn leaves open is closed here: a connection that sends no request in time, one that goes on sending what was
refused, and more connections of one address than anybody needs. A client's certificate is handed to the application.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import h11
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedol.errors import FedolError
from fedol.federation.transports.https_tls import Address

HEAD_LIMIT = 16_384  # bytes of a request's head
UNWANTED = 1 << 20  # bytes of a refused body that are thrown away before the connection is
SHUTDOWN = 3  # seconds that requests under way have at the end


@dataclass(frozen=True)
class Limits:
    """What a client, or a stranger, may take of the server; far more than one that behaves needs."""

    head: float = 10.0  # seconds for a TLS handshake, and for the head of a request
    stall: float = 20.0  # seconds without a byte of a body
    slowest: int = 1024  # bytes a second that a body must have had on average, after ``stall``
    connections: int = 1000
    per_address: int = 400
    requests: tuple[float, float] = (50.0, 1000.0)  # a second in the long run, and at once: of an address
    own_requests: tuple[float, float] = (2.0, 60.0)  # of a client
    wrong: tuple[float, float] = (0.2, 20.0)  # of an address, with a wrong token or none


DEFAULT = Limits()


class Connection(H11Protocol):
    """A connection within the limits, which tells the application the name in the client's certificate."""

    def __init__(self, *args: Any, limits: Limits, counts: Counter[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limits, self.counts = limits, counts  # of open connections, by address
        self._timer: asyncio.TimerHandle | None = None
        self._unwanted = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Known by its address and, where it showed one, its certificate."""
        super().connection_made(transport)
        self._from = self.client[0] if self.client else ""
        self.counts[self._from] += 1
        shown = transport.get_extra_info("ssl_object")
        self.app = partial(_with_peer, self.app, _common_name(shown.getpeercert() if shown else None))
        if self.counts[self._from] > self.limits.per_address or len(self.connections) > self.limits.connections:
            transport.abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self.counts[self._from] -= 1
        if not self.counts[self._from]:
            del self.counts[self._from]
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what nobody wants any more, and time what is not a whole head yet."""
        if self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY:
            self._unwanted += len(data)
            if self._unwanted > UNWANTED:
                self.transport.abort()
                return
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        """A head must come in time; a body is timed by whoever reads it."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._timer:
                self._timer.cancel()
            self._timer = None
        elif self._timer is None:
            self._timer = self.loop.call_later(self.limits.head, self._late)

    def _late(self) -> None:
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


async def _with_peer(app: Any, peer: str | None, scope: Any, receive: Any, send: Any) -> None:
    scope["state"]["peer"] = peer
    await app(scope, receive, send)


def _common_name(certificate: Any) -> str | None:
    """The name in a certificate that was checked; None where none was shown."""
    parts = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    return next((value for name, value in parts if name == "commonName"), None)


class _Loop(asyncio.SelectorEventLoop):
    """A TLS handshake must end in time, too, which uvicorn has no setting for."""

    handshake = DEFAULT.head

    def create_server(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("ssl"):
            kwargs["ssl_handshake_timeout"] = self.handshake
        return super().create_server(*args, **kwargs)


def _make_room(connections: int) -> None:
    """Let this process have more files open than there are connections: a crowd must not keep it from its own."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * connections if hard == resource.RLIM_INFINITY else min(hard, 4 * connections)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class WebServer:
    """An application at an address, from ``start`` to ``stop``."""

    def __init__(self, app: Any, address: Address, limits: Limits) -> None:
        self.context = context = address.context()
        self._socket = address.bind()
        port = self._socket.getsockname()[1]
        name = address.host if address.host not in ("0.0.0.0", "::") else socket.gethostname()
        self.url = f"{'https' if context else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"
        _make_room(limits.connections)
        config = Config(
            app,
            http=partial(Connection, limits=limits, counts=Counter()),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # what a stranger sends wrongly is no news; what is, the application says
            access_log=False,
            proxy_headers=False,  # else anybody could claim any address
            server_header=False,
            h11_max_incomplete_event_size=HEAD_LIMIT,
            timeout_graceful_shutdown=SHUTDOWN,
            ssl_context_factory=(lambda config, default: context) if context else None,
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self._run, args=(limits,), name="https", daemon=True)
        self._failed: BaseException | None = None

    def start(self) -> None:
        """Listen; an error where that fails."""
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
            if not self._thread.is_alive():
                raise FedolError(f"The server at {self.url} did not start ({self._failed}).")

    @property
    def running(self) -> bool:
        """Whether it still listens."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Take no new request, let those under way end, and be gone."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self, limits: Limits) -> None:
        def loop() -> _Loop:
            made = _Loop()
            made.handshake = limits.head
            return made

        try:
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(self._server.serve(sockets=[self._socket]))
        except BaseException as error:
            self._failed = error
