"""What a server says to clients that send over HTTPS: ``GET /inbox/NAME`` how far it is, ``PUT /inbox/NAME`` the file.

A client is known by its token or its certificate before a byte of its file is read, and so are its size and the place
where it goes on. Every refusal is one sentence, to the client and to the coordinator.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import IO, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedol.errors import FedolError, InputError, cause
from fedol.federation.receipts import DIGEST
from fedol.federation.tokens import Tokens
from fedol.federation.transports.https_desk import Busy, Desk
from fedol.federation.transports.https_server import DEFAULT, Limits
from fedol.text import MOST, check_name, printable

RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")
MOST_ADDRESSES = 10_000  # that are kept in mind; then those are forgotten that have behaved
Note = Callable[[str, str, str], None]
"""Told of refusals: the address, the client it was said to be, the sentence."""


class Refusal(Exception):
    """Why a request is refused, and after how many seconds to try again, where that may help."""

    def __init__(self, status: int, sentence: str, after: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.after = status, sentence, after


class Buckets:
    """How often each may do something: so many times at once, and so many a second in the long run."""

    def __init__(self, rate: tuple[float, float]) -> None:
        self._rate, self._most = rate
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> float:
        """0 where it is allowed; else the seconds until it is."""
        now = time.monotonic()
        if who not in self._left and len(self._left) >= MOST_ADDRESSES:
            self._left = {name: kept for name, kept in self._left.items() if self._now(*kept, now) < self._most}
            if len(self._left) >= MOST_ADDRESSES:
                return 1 / self._rate
        left = self._now(*self._left.get(who, (self._most, now)), now)
        self._left[who] = (left - 1 if left >= 1 else left), now
        return 0.0 if left >= 1 else (1 - left) / self._rate

    def _now(self, left: float, then: float, now: float) -> float:
        return min(self._most, left + (now - then) * self._rate)


class Intake:
    """The two requests that a client makes."""

    def __init__(self, desk: Desk, tokens: Tokens, note: Note, limits: Limits = DEFAULT) -> None:
        self._desk, self._tokens, self._limits, self._note = desk, tokens, limits, note
        self._requests, self._own = Buckets(limits.requests), Buckets(limits.own_requests)
        self._wrong = Buckets(limits.wrong)

    @property
    def routes(self) -> list[Route]:
        """For the application."""
        return [
            Route("/inbox/{name}", self._answered(self._look), methods=["GET"]),
            Route("/inbox/{name}", self._answered(self._put), methods=["PUT"]),
        ]

    def wait(self, request: Request) -> int:
        """0; where this address asks too often, the seconds until it may again."""
        wait = self._requests.take(address(request))
        return int(wait) + 1 if wait else 0

    async def failed(self, request: Request, error: Exception) -> Response:
        """The answer to a request that nobody foresaw; the coordinator is told what it was."""
        self._note(address(request), "", f"The server failed at {request.method}: {printable(cause(error), MOST)}.")
        return JSONResponse({"error": "The server failed at this; tell the coordinator."}, 500)

    def _answered(self, handle: Callable[[Request, str], Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            name = str(request.path_params["name"])
            try:
                if wait := self.wait(request):
                    raise Refusal(429, "Too many requests come from this address; try again a little later.", wait)
                return await handle(request, self._client(request, name))  # type: ignore[no-any-return]
            except Refusal as refusal:
                if refusal.status != 429:  # else a flood would be one of lines, too
                    self._note(address(request), printable(name, 64), refusal.sentence)
                headers = {"retry-after": str(refusal.after)} if refusal.after else {}
                return JSONResponse({"error": refusal.sentence}, refusal.status, headers)

        return answer

    def _client(self, request: Request, name: str) -> str:
        """The client that this request is by, or a refusal."""
        said = request.headers.get("authorization", "")
        scheme, _, token = said.partition(" ")
        try:
            known = self._tokens.fits(check_name(name), token if scheme.lower() == "bearer" else "")
        except InputError as error:
            self._strange(request)
            raise Refusal(404, str(error)) from None
        peer = request.scope["state"]["peer"]
        if not known and peer != name:
            self._strange(request)
            if said:
                why = f"The token is not that of '{name}'; use the one that you got for this task, and your own name."
            elif peer is not None:
                why = f"The certificate is that of '{printable(peer, 64)}', not of '{name}'; send under that name."
            else:
                why = "Nobody is known without a token or a client's certificate; give yours."
            raise Refusal(401, why)
        if self._desk.task.clients and name not in self._desk.task.clients:
            raise Refusal(403, f"The task does not list the client '{name}'; ask the coordinator.")
        if wait := self._own.take(name):
            raise Refusal(429, f"Too many requests come from '{name}'; try again a little later.", int(wait) + 1)
        return name

    def _strange(self, request: Request) -> None:
        """A refusal where this address has often been nobody."""
        if wait := self._wrong.take(address(request)):
            raise Refusal(429, "Too many requests with a wrong token come from this address.", int(wait) + 1)

    async def _look(self, request: Request, name: str) -> Response:
        return self._said(name, _digest(request))

    def _said(self, name: str, digest: str, status: int = 200) -> Response:
        """All that a client may know: the task, how much of its file is here, and what became of it."""
        desk = self._desk
        state, reason = desk.state(name)
        receipt = desk.receipt(name)
        offset = desk.offset(name, digest)
        told = {
            "task": desk.task.id,
            "limit": desk.task.limit,
            "offset": offset,
            "state": state,
            "reason": reason,
            "open": not desk.roster.closed,
            "receipt": receipt and receipt.as_json(),
            "page": f"/client/{desk.page(name)}",
        }
        return JSONResponse(told, status, {"upload-offset": str(offset)})

    async def _put(self, request: Request, name: str) -> Response:
        """Take a file, or the rest of one; what is wrong with it is said before its body is read."""
        digest = _digest(request)
        if (done := self._settled(name, digest)) is not None:
            return done
        start, total = _extent(request)
        limit = self._desk.task.limit
        if total > limit:
            raise Refusal(413, f"The file has {total:,} bytes, but at most {limit:,} are allowed by the task.")
        if start != (here := self._desk.offset(name, digest) if start else 0):
            raise Refusal(409, f"{here:,} bytes of this file are here, so go on from there, not from {start:,}.")
        length = int(request.headers["content-length"])
        try:
            with self._desk.receiving(name, digest, start, total) as file:
                await self._receive(request, name, file, (start, length, total))
                file.close()
                if start + length == total:
                    await asyncio.to_thread(self._desk.complete, name, digest)
        except Busy:
            raise Refusal(423, f"Another upload of '{name}' is under way; try again when it has ended.", 2) from None
        except (TimeoutError, ClientDisconnect):
            raise Refusal(408, "The connection was too slow or ended early; go on where it stopped.", 1) from None
        except OSError as error:
            raise Refusal(507, f"The server cannot keep the file ({error.strerror}).", 30) from None
        except InputError as error:
            raise Refusal(422, str(error)) from None
        except FedolError as error:
            raise Refusal(507, str(error), 30) from None
        return self._said(name, digest, 201 if start + length == total else 202)

    def _settled(self, name: str, digest: str) -> Response | None:
        """The answer where there is no upload to begin: to the same file again its receipt, to another a refusal."""
        state, reason = self._desk.state(name)
        receipt = self._desk.receipt(name)
        if receipt and digest == receipt.sha256:
            return self._said(name, digest)
        if state == "accepted":
            raise Refusal(410, f"The file of '{name}' is in, so its one upload is spent.")
        if state == "elsewhere":
            raise Refusal(410, f"Another file counts for '{name}': {reason}.")
        if closed := self._desk.roster.closed:
            raise Refusal(410, f"The server takes no more files ({closed}); its training has begun.")
        if state == "waiting":
            raise Refusal(423, f"A file of '{name}' is being looked at; try again when that is over.", 1)
        return None

    async def _receive(self, request: Request, name: str, file: IO[bytes], extent: tuple[int, int, int]) -> None:
        """Write the body as it comes; a timeout where it comes too slowly."""
        start, length, total = extent
        came, stream = 0, request.stream()
        async with asyncio.timeout(self._limits.stall + length / self._limits.slowest):
            while came < length:
                chunk = await asyncio.wait_for(anext(stream, b""), self._limits.stall)
                if not chunk:
                    raise ClientDisconnect
                file.write(chunk)
                came += len(chunk)
                self._desk.arriving[name] = start + came, total


def address(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else "unknown"


def _digest(request: Request) -> str:
    said = request.headers.get(DIGEST, "")
    if said and not re.fullmatch("[0-9a-f]{64}", said):
        raise Refusal(400, f"The header {DIGEST} is not a SHA-256 in 64 hexadecimal digits.")
    return said


def _extent(request: Request) -> tuple[int, int]:
    """Where the body begins in the file, and how long that is."""
    length = request.headers.get("content-length", "")
    if not re.fullmatch("[0-9]{1,15}", length):
        raise Refusal(411, "The request does not say how long its body is; send a Content-Length.")
    said = request.headers.get("content-range")
    if said is None:
        start, total = 0, int(length)
    else:
        match = RANGE.fullmatch(said)
        if match is None or int(match[2]) - int(match[1]) + 1 != int(length) or int(match[2]) >= int(match[3]):
            raise Refusal(400, "The header Content-Range does not fit the body: bytes FIRST-LAST/TOTAL.")
        start, total = int(match[1]), int(match[3])
        if not request.headers.get(DIGEST) and int(length) < total:
            raise Refusal(400, f"A part of a file needs the header {DIGEST}, which says of which.")
    if not total:
        raise Refusal(400, "The file is empty.")
    return start, total
