"""Hostile requests: whatever a stranger sends as HTTP, the server answers in one sentence or hangs up, and goes on."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("starlette", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("cryptography", reason="receipts are signed, which needs the package cryptography")

from small_federation import Federation
from small_intake import Listening

from fedol.federation.receipts import DIGEST
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports.https_server import Limits

REQUESTS = 800
NAMES = [
    "alice",
    "..",
    "%2e%2e%2f%2e%2e%2fevil",
    "../../evil",
    "a%00b",
    "%ff%fe",
    "alice%0d%0aX:1",
    "a" * 5000,
    "",
    "a/b",
]
NAMES += ["%F0%9F%98%80", "alice%20", "alice;x", "alice?digest=1", "CON", "%1b[2J", "alice.part", "~root", "\\evil"]
NUMBERS = ["0", "-1", "1", "10", "100000", "99999999999999999999", "1e3", "0x10", " 5", "５", "", "NaN", "9" * 4000]
RANGES = ["bytes 0-9/10", "bytes 9-0/10", "bytes */10", "bytes 0-9/*", "bytes=0-9", "bytes 0-9/10, 10-11/12", "\xff"]
VALUES = ["", "Bearer", "Bearer ", "Basic YTpi", "bearer \xff\xfe", "Bearer " + "x" * 9000, "Bearer a b", "\x1b[2J"]
METHODS = ["PUT", "GET", "HEAD", "POST", "PATCH", "DELETE", "TRACE", "CONNECT", "OPTIONS", "put", "P\x00T"]
PATHS = ["/inbox/", "/client/", "/", "/events", "/login?code=", "/close", "/logout", "/report", "/style.css", "//", "*"]


def request(rng: random.Random, token: str) -> bytes:
    """A request in which a few things are wrong, or all."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.choice([1, 20, 2000]))
    path = rng.choice(PATHS) if rng.random() < 0.3 else "/inbox/"
    lines = [
        f"{rng.choice(METHODS[:3] if rng.random() < 0.7 else METHODS)} {path}{rng.choice(NAMES)} HTTP/1.1",
        "Host: x",
    ]
    lines.append(f"Authorization: {f'Bearer {token}' if rng.random() < 0.6 else rng.choice(VALUES)}")
    for name, values, often in (
        ("Content-Length", NUMBERS, 0.8),
        ("Content-Range", RANGES, 0.5),
        (DIGEST, ["ab" * 32, "AB" * 32, "../x", *NUMBERS], 0.5),
        ("Transfer-Encoding", ["chunked", "gzip", "\x0b"], 0.1),
        ("Expect", ["100-continue", "x"], 0.1),
        ("Cookie", ["fedol=x", "fedol=" + "y" * 3000, "=;=", "\xff"], 0.2),
        ("Connection", ["close", "upgrade", "keep-alive"], 0.3),
        ("Upgrade", ["websocket", "h2c"], 0.1),
    ):
        if rng.random() < often:
            lines.append(f"{name}: {rng.choice(values)}")
    data = "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace") + rng.randbytes(
        rng.choice([0, 3, 10, 300])
    )
    return data[: rng.randrange(1, len(data))] if rng.random() < 0.1 else data


def test_whatever_comes(federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.json").write_bytes((federation.task_dir / "task.json").read_bytes())
    often = (1e6, 1e6)
    limits = Limits(head=0.2, stall=0.2, requests=often, own_requests=often, wrong=often)
    rng, statuses = random.Random(0), []
    with Listening(TaskFolder.open(tmp_path / "task"), tmp_path / "run", limits) as listening:
        where, token = ("127.0.0.1", int(listening.url.rpartition(":")[2])), listening.token("alice")
        before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
        for _ in range(REQUESTS):
            data = request(rng, token)
            with socket.create_connection(where, 20) as connection:
                answer = http.client.HTTPResponse(connection, method="HEAD" if data.startswith(b"HEAD") else "GET")
                with contextlib.suppress(http.client.HTTPException, ConnectionError):
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    answer.begin()
                    statuses.append(answer.status)
                    said = b"" if answer.headers.get_content_type() == "text/event-stream" else answer.read()
                    if answer.headers.get_content_type() == "application/json" and answer.status >= 400 and said:
                        sentence = json.loads(said)["error"]
                        assert sentence.isprintable() and len(sentence) < 400 and sentence.endswith(".")
        assert len(statuses) > REQUESTS / 2 and 500 not in statuses and {200, 400, 401, 404, 405} <= set(statuses)
        new = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} - before
        assert all(path.parts[:2] in (("run", "intake"), ("run", "inbox")) for path in new), new
        assert {path.name.split(".")[0] for path in new} <= {"alice"}, new
        assert listening.desk.arriving == {} and listening.send(federation.file("bob"), "bob")[0].state == "accepted"
        assert all(isinstance(line, str) and line.isprintable() for said in listening.said for line in said)
