"""The pages of a server that listens: the federation's state, live, and for each client a page of its own.

Pages are made here, whole or in parts: a part of a live page is a block of its template, sent again when it has
changed. Nothing is fetched from elsewhere, no script is inline, and whoever is not logged in can change nothing and
sees no names.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from fedol.knowledge.task import Task
from fedol.report.pages import asset, environment, render
from fedol.report.status import Status, client_view
from fedol.runs.folder import REPORT

OWN = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
OWN += "base-uri 'none'; frame-ancestors 'none'"
# The report has its script in itself. In a sandbox it is of no origin, so that it cannot act for whoever is logged in.
REPORTS = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
REPORTS += "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
EVERY = 1.0  # seconds between two looks for changes
VIEWERS = 100  # live pages at once; more have to reload
LASTS = 12 * 3600  # seconds that a login lasts
FORM_LIMIT, FORM_TIME = 2048, 10  # bytes and seconds of a form of ours
View = Callable[[], dict[str, Any]]


class Uploads(Protocol):
    """What a client's page is made of (``fedol.federation.transports.https_desk``)."""

    task: Task
    roster: Any

    def whose(self, page: str) -> str | None:
        """The client whose page this is."""

    def state(self, client: str) -> tuple[str | None, str]:
        """What became of a client's upload, and why."""

    def receipt(self, client: str) -> Any:
        """What the server signs about it."""


class Login:
    """One secret that logs in once, and the sessions that began so."""

    def __init__(self, secure: bool) -> None:
        self.code = secrets.token_urlsafe(24)
        self.used = False
        self._secure = secure
        self._cookie = "__Host-fedol" if secure else "fedol"  # the prefix: from this host alone, over TLS alone
        self._sessions: dict[str, float] = {}  # until when

    def begin(self, code: str) -> Response | None:
        """To the page, with a session; None where the secret is wrong or was used."""
        if self.used or not hmac.compare_digest(code.encode(), self.code.encode()):
            return None
        self.used = True
        session = secrets.token_urlsafe(32)
        self._sessions[session] = time.monotonic() + LASTS
        answer = RedirectResponse("/", 303, HEADERS)
        answer.set_cookie(self._cookie, session, LASTS, httponly=True, secure=self._secure, samesite="strict", path="/")
        return answer

    def session(self, request: Request) -> str:
        """The request's session; empty where nobody is logged in."""
        given = request.cookies.get(self._cookie, "")
        return given if self._sessions.get(given, 0.0) > time.monotonic() else ""

    def proof(self, session: str) -> str:
        """What a form of ours holds, and another site's cannot."""
        return hmac.digest(session.encode(), b"form", "sha256").hex() if session else ""

    def end(self, session: str) -> None:
        """Log out."""
        self._sessions.pop(session, None)


class StatusPages:
    """The requests that a browser makes."""

    def __init__(self, status: Status, desk: Uploads, wait: Callable[[Request], int], secure: bool) -> None:
        self._status, self._desk, self._wait = status, desk, wait
        self.login = Login(secure)
        self.over = False  # set when the server ends: live pages do too
        self._viewers = 0

    @property
    def routes(self) -> list[Route]:
        """For the application."""
        pages = {
            "/": self._index,
            "/events": self._events,
            "/client/{page}": self._client,
            "/client/{page}/events": self._client_events,
            "/report": self._report,
            "/style.css": self._style,
            "/live.js": self._script,
            "/login": self._ask,
        }
        forms = {"/login": self._enter, "/close": self._closed, "/logout": self._leave}
        return [
            *(Route(path, self._within_limits(page), methods=["GET"]) for path, page in pages.items()),
            *(Route(path, self._within_limits(page), methods=["POST"]) for path, page in forms.items()),
        ]

    def _within_limits(self, page: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            if wait := self._wait(request):
                return Response("Too many requests.", 429, {**HEADERS, "retry-after": str(wait)}, "text/plain")
            return await page(request)  # type: ignore[no-any-return]

        return answer

    def _view(self, session: str) -> dict[str, Any]:
        return {**self._status.view(names=bool(session)), "proof": self.login.proof(session)}

    async def _index(self, request: Request) -> Response:
        view = self._view(self.login.session(request))
        return _page("status.html", {**view, "heading": view["task"], "events": "/events"})

    async def _events(self, request: Request) -> Response:
        session = self.login.session(request)
        return self._live("status.html", lambda: self._view(session if self.login.session(request) else ""))

    def _own(self, request: Request) -> tuple[str, View] | None:
        """The client whose page is asked for, and what it shows."""
        client = self._desk.whose(str(request.path_params["page"]))
        if client is None:
            return None

        def view() -> dict[str, Any]:
            state, _ = self._desk.state(client)
            receipt = self._desk.receipt(client)
            return client_view(client, self._desk.task, state, receipt and receipt.as_json(), self._desk.roster.closed)

        return client, view

    async def _client(self, request: Request) -> Response:
        if (own := self._own(request)) is None:
            return _missing("There is no such page; take the address that fedol client send printed.")
        client, view = own
        return _page("client.html", {**view(), "heading": client, "events": f"{request.url.path}/events"})

    async def _client_events(self, request: Request) -> Response:
        own = self._own(request)
        return _missing("There is no such page.") if own is None else self._live("client.html", own[1])

    def _live(self, template: str, view: View) -> Response:
        if self._viewers >= VIEWERS:
            return Response("Too many live pages are open.", 503, HEADERS, "text/plain")
        headers = {**HEADERS, "x-accel-buffering": "no"}
        return StreamingResponse(self._changes(template, view), 200, headers, "text/event-stream")

    async def _changes(self, template: str, view: View) -> AsyncIterator[str]:
        """Now and then the parts of the page that are not as they were."""
        self._viewers += 1
        shown: dict[str, str] = {}
        try:
            while not self.over:
                parts = await run_in_threadpool(_parts, template, view())
                if new := {name: html for name, html in parts.items() if shown.get(name) != html}:
                    shown |= new
                    yield f"data: {json.dumps(new)}\n\n"
                else:
                    yield ": nothing new\n\n"  # so that a connection that is gone is noticed
                await asyncio.sleep(EVERY)
            yield "event: end\ndata: over\n\n"
        finally:
            self._viewers -= 1

    async def _report(self, request: Request) -> Response:
        folder = self._status.folder
        if not self.login.session(request) or folder is None or not (folder / REPORT).exists():
            return _missing("There is no report for you here: it is the coordinator's, once the run is finished.")
        page = (folder / REPORT).read_text(encoding="utf-8")
        return HTMLResponse(page, 200, {**HEADERS, "content-security-policy": REPORTS})

    async def _style(self, request: Request) -> Response:
        return Response(asset("style.css") + asset("status.css"), 200, HEADERS, "text/css")

    async def _script(self, request: Request) -> Response:
        return Response(asset("live.js"), 200, HEADERS, "text/javascript")

    async def _ask(self, request: Request) -> Response:
        """A button: whoever looks a link over before it is opened must not use it up."""
        code = request.query_params.get("code", "")
        return _login(code) if code and not self.login.used else _login(why="This link was used, or is none.")

    async def _enter(self, request: Request) -> Response:
        answer = self.login.begin((await _form(request)).get("code", ""))
        return answer or _login(why="This link was used, or is none.", status=403)

    async def _closed(self, request: Request) -> Response:
        if not await self._proved(request):
            return _missing("Only the coordinator can do this; log in first.", 403)
        if self._status.ready:
            self._status.close_now.set()
        return RedirectResponse("/", 303, HEADERS)

    async def _leave(self, request: Request) -> Response:
        if not await self._proved(request):
            return _missing("Nobody is logged in here.", 403)
        self.login.end(self.login.session(request))
        return RedirectResponse("/", 303, HEADERS)

    async def _proved(self, request: Request) -> bool:
        """Whether a form is from a page of ours, shown to who is logged in."""
        proof = self.login.proof(self.login.session(request))
        given = (await _form(request)).get("proof", "")
        return bool(proof) and hmac.compare_digest(given.encode(), proof.encode())


def _parts(template: str, view: dict[str, Any]) -> dict[str, str]:
    """The parts of a live page that can change, as they are now."""
    made = environment().get_template(template)
    context = made.new_context(view)
    whole = {"title", "main"}
    live = {"news": environment().get_template("status_live.html").blocks["news"], **made.blocks}
    return {name: "".join(block(context)) for name, block in live.items() if name not in whole}


def _page(template: str, view: dict[str, Any], status: int = 200) -> Response:
    return HTMLResponse(render(template, view), status, {**HEADERS, "content-security-policy": OWN})


def _login(code: str = "", why: str = "", status: int = 200) -> Response:
    return _page("login.html", {"code": code, "why": why, "heading": "Log in"}, status)


def _missing(why: str, status: int = 404) -> Response:
    return _page("login.html", {"code": "", "why": why, "heading": "Not here"}, status)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; none where it is something else."""
    data = b""
    try:
        async with asyncio.timeout(FORM_TIME):
            async for part in request.stream():
                data += part
                if len(data) > FORM_LIMIT:
                    return {}
    except (TimeoutError, ClientDisconnect):
        return {}
    return dict(parse_qsl(data.decode("ascii", errors="replace")))
