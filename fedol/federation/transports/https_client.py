"""A client's side of an upload over HTTPS: ask how far it is, send the rest, keep the signed receipt.

Whatever may pass (a lost connection, a server that is started again, too many at once) is tried again, later each time;
what will not, such as a wrong token or certificate, is one sentence at once.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from fedol.errors import FedolError, InputError
from fedol.federation.receipts import DIGEST, Receipt
from fedol.progress import watched
from fedol.text import MOST, printable

CHUNK = 65_536
ANSWER_LIMIT = 65_536  # bytes of an answer that are read
TIMEOUT = 30.0  # seconds without a word from the server
HANGS_UP = 3  # connections in a row, after which that is no accident
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between two attempts
AGAIN = {408, 409, 423, 425, 429, 500, 502, 503, 504, 507}  # what may pass; at 409 the offset is asked for again
Say = Callable[[str], None]


class Passing(Exception):
    """What may be over soon: try again, after so many seconds where the server has said so."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True)
class Server:
    """Where to send, and how both sides show who they are."""

    url: str
    token: str | None = None
    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    insecure: bool = False

    def connect(self) -> http.client.HTTPConnection:
        """A connection that is not open yet; an error where the address or a file of ours is wrong."""
        try:
            parts = urlsplit(self.url)
            host, port, scheme = parts.hostname, parts.port, parts.scheme
        except ValueError:
            host = port = scheme = None
        if not host or scheme not in ("http", "https") or parts.username or parts.query or parts.path.strip("/"):
            raise InputError(f"'{printable(self.url, 200)}' is not a server to send to; write https://HOST:PORT.")
        if scheme == "http":
            if not self.insecure:
                raise InputError("http:// shows token and file to everybody on the way; send to https://.")
            if host not in ("localhost", "127.0.0.1", "::1"):
                raise InputError(f"--insecure is for a server on this machine, and {host} is another; use https://.")
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=self._context())

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"{self.ca} holds no certificates that can be read ({error}).") from None
        if self.cert:
            try:
                context.load_cert_chain(self.cert, self.key)
            except (OSError, ssl.SSLError) as error:
                why = "they do not belong together" if "MISMATCH" in str(error) else str(error)
                raise InputError(f"{self.cert} and its --key cannot be used: {why}.") from None
        return context


class Sender:
    """One file on its way to one server."""

    def __init__(self, server: Server, data: bytes, client: str, say: Say, patience: float) -> None:
        self._server, self._data, self._client, self._say = server, data, client, say
        self._digest = hashlib.sha256(data).hexdigest()
        self._patience = patience
        self._connection = server.connect()
        self._hung_up = 0  # connections in a row that ended without a word

    def send(self, task: str, server_key: str | None = None, verdict: float = 30.0) -> tuple[Receipt, str]:
        """Send it, and wait ``verdict`` seconds for what becomes of it; the receipt, and the client's page."""
        told = self._until(self._ask)
        if told["task"] != task:
            raise InputError(
                f"The file answers another task ({printable(task, 20) or 'none'}) than the server's "
                f"({printable(told['task'], 20)}); make it again for that."
            )
        if len(self._data) > told["limit"]:
            raise InputError(f"The file has {len(self._data):,} bytes, but the server takes {told['limit']:,} at most.")
        told = self._until(self._upload)
        end = time.monotonic() + verdict
        pause = 0.2
        while self._receipt(told, task, server_key).state == "waiting" and time.monotonic() < end:
            time.sleep(pause)
            pause = min(2.0, pause * 1.5)
            told = self._until(self._ask)
        self._connection.close()
        return self._receipt(told, task, server_key), f"{self._server.url.rstrip('/')}{printable(told['page'], 200)}"

    def _receipt(self, told: dict[str, Any], task: str, server_key: str | None) -> Receipt:
        try:
            receipt = Receipt.from_json(told["receipt"])
            receipt.check(task, self._client, self._digest, server_key)
        except InputError as error:
            raise FedolError(f"The server's receipt cannot be trusted: {error}; ask the coordinator.") from None
        return receipt

    def _upload(self) -> dict[str, Any]:
        """Send what the server has not got; its answer once it has all."""
        told = self._ask()
        if told["receipt"] and told["receipt"].get("sha256") == self._digest:
            return told
        if not told["open"]:
            raise FedolError("The server takes no more files; its training has begun.")
        start, total = told["offset"], len(self._data)
        if not 0 <= start < total:
            start = 0
        headers = {"Content-Length": str(total - start), "Content-Range": f"bytes {start}-{total - 1}/{total}"}
        return self._request("PUT", headers, self._parts(start))

    def _parts(self, start: int) -> Iterator[bytes]:
        """The rest of the file, in view of a bar."""
        view = memoryview(self._data)
        places = range(start, len(view), CHUNK)
        for place in watched(places, "sending", len(places)):
            yield bytes(view[place : place + CHUNK])

    def _ask(self) -> dict[str, Any]:
        return self._request("GET", {}, None)

    def _request(self, method: str, headers: dict[str, str], body: Iterable[bytes] | None) -> dict[str, Any]:
        """One request and its answer: an error, or ``Passing``, where that is a refusal."""
        headers = {**headers, DIGEST: self._digest, "Accept": "application/json"}
        if self._server.token:
            headers["Authorization"] = f"Bearer {self._server.token}"
        try:
            try:
                self._connection.request(method, f"/inbox/{quote(self._client)}", body, headers)
            except (BrokenPipeError, ConnectionResetError):
                if self._connection.sock is None:
                    raise
            answer = self._connection.getresponse()  # also of a server that has said no before it had all
            said = answer.read(ANSWER_LIMIT)
        except (http.client.HTTPException, OSError) as error:
            raise self._failure(error) from None
        self._hung_up = 0
        told = _json(said)
        if answer.status in (200, 201, 202) and _sound(told):
            return told
        why = printable(told.get("error") or f"The server answers {answer.status} {answer.reason}.", MOST)
        if answer.status in AGAIN:
            raise Passing(why, float(_seconds(answer.headers.get("retry-after", ""))))
        raise FedolError(f"The server refuses: {why}")

    def _until(self, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Try until it works, or what is in its way will not pass, or the patience is at its end."""
        end, pause = time.monotonic() + self._patience, FIRST_WAIT
        while True:
            try:
                return attempt()
            except Passing as hindrance:
                self._connection.close()
                wait = max(hindrance.after, pause * secrets.SystemRandom().uniform(0.5, 1.0))
                if time.monotonic() + wait > end:
                    raise FedolError(f"{_ended(str(hindrance))} Given up; the same command goes on.") from None
                self._say(f"{_ended(str(hindrance))} Trying again in {wait:.0f} s.")
                time.sleep(wait)
                pause = min(LONGEST_WAIT, 2 * pause)

    def _failure(self, error: Exception) -> Exception:
        """What is to be done about a connection that failed."""
        url = self._server.url
        if isinstance(error, ssl.SSLCertVerificationError):
            why = printable(error.verify_message, MOST).rstrip(".")
            return FedolError(
                f"The certificate of {url} is not trusted ({why}); give its authority with --ca, or ask there."
            )
        if isinstance(error, ssl.SSLError):
            reason = error.reason or ""
            if "WRONG_VERSION" in reason or "HTTP_REQUEST" in reason or "RECORD" in reason:
                return FedolError(f"What answers at {url} does not speak TLS; ask for the right address.")
            if "ALERT" in reason and ("CERT" in reason or "CA" in reason):
                return FedolError(f"The server at {url} does not accept your certificate ({reason}).")
            return Passing(f"TLS with {url} failed ({reason or error}).")
        if isinstance(error, socket.gaierror):
            return FedolError(f"There is no server called {urlsplit(url).hostname}; check the address.")
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
            return FedolError(f"What answers at {url} is not a web server; ask for the right address.")
        self._hung_up += isinstance(error, ConnectionResetError)
        if self._hung_up >= HANGS_UP and url.startswith("http:"):
            return FedolError(f"What answers at {url} hangs up at once; it may want https://.")
        if self._hung_up >= HANGS_UP and self._server.cert:
            return FedolError(f"The server at {url} hangs up at once; it may not accept your certificate.")
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Passing(f"No connection to {url} ({printable(words, 100)}).")


def _json(said: bytes) -> dict[str, Any]:
    try:
        told = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _sound(told: dict[str, Any]) -> bool:
    """Whether an answer is one of ours."""
    kinds = {"task": str, "limit": int, "offset": int, "open": bool, "page": str}
    good = all(type(told.get(name)) is kind for name, kind in kinds.items())
    return good and "receipt" in told and isinstance(told["receipt"], dict | None)


def _seconds(words: str) -> int:
    return min(int(words), 3600) if words.isascii() and words.isdigit() and len(words) < 6 else 0


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."
