"""Two hundred clients at once, slow and broken ones among them, at a real server: nothing is lost."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("starlette", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("cryptography", reason="receipts are signed, which needs the package cryptography")

from certificates import issue
from relay import Relay
from small_federation import Federation
from small_intake import Serving, until

from fedol import Knowledge
from fedol.federation.deploy import Authority, write_certificate
from fedol.federation.receipts import Receipt
from fedol.federation.sending import look
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.tokens import new_token, read_token
from fedol.federation.transports.https_client import Sender, Server

CLIENTS, SLOW, CUT, GONE = 200, 20, 20, 15  # in all; that drip; on a bad network; that send half and vanish


@pytest.mark.slow
def test_two_hundred_at_once(federation: Federation, tmp_path: Path) -> None:
    task = TaskFolder.create(tmp_path / "task", federation.task, federation.public)
    authority = Authority.new("ours")
    write_certificate(tmp_path / "ca.crt", authority.certificate)
    issue(tmp_path, "server", authority, "127.0.0.1")
    names = [f"site-{number:03d}" for number in range(CLIENTS)]
    knowledge = Knowledge.load(federation.file("alice"))
    for name in names:
        new_token(task, name, tmp_path / "tokens" / f"{name}.token")
        Knowledge(knowledge.log_probs, knowledge.task, name).save(tmp_path / "files" / f"{name}.fedol")
    gone, slow, cut = names[:GONE], names[GONE : GONE + SLOW], names[GONE + SLOW : GONE + SLOW + CUT]
    staying = names[GONE:]
    serving = Serving(tmp_path, "--quorum", len(staying), "--defence", "none", "--stay")
    try:
        url = serving.url()
        context = ssl.create_default_context(cafile=tmp_path / "ca.crt")

        def data(name: str) -> bytes:
            return (tmp_path / "files" / f"{name}.fedol").read_bytes()

        def raw(name: str) -> Any:
            """A connection on which the head of an upload has been sent."""
            plain = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 60)
            connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
            token = read_token(tmp_path / "tokens" / f"{name}.token")
            head = f"PUT /inbox/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            connection.sendall(f"{head}Content-Length: {len(data(name))}\r\n\r\n".encode())
            return connection

        def vanish(name: str) -> None:
            connection = raw(name)
            connection.sendall(data(name)[: len(data(name)) // 2])
            connection.close()

        def drip(name: str) -> None:
            connection, rest = raw(name), data(name)
            for place in range(0, len(rest), len(rest) // 10 + 1):
                connection.sendall(rest[place : place + len(rest) // 10 + 1])
                time.sleep(0.3)
            assert connection.recv(12) == b"HTTP/1.1 201"
            connection.close()

        def send(name: str, to: str = url) -> Receipt:
            outgoing = look(tmp_path / "files" / f"{name}.fedol")
            token = read_token(tmp_path / "tokens" / f"{name}.token")
            server = Server(to, token, ca=tmp_path / "ca.crt")
            receipt, _ = Sender(server, outgoing.data, name, lambda line: None, 120.0).send(federation.task.id)
            receipt.check(federation.task.id, name, sha256(data(name)).hexdigest())
            return receipt

        def over_a_bad_network(name: str) -> Receipt:
            with Relay(url, cuts=[2500, 3500], scheme="https") as relay:
                return send(name, relay.url)

        def attempt(name: str) -> Any:
            kinds = [(gone, vanish), (slow, drip), (cut, over_a_bad_network)]
            return next((do for group, do in kinds if name in group), send)(name)

        with ThreadPoolExecutor(CLIENTS) as together:
            found = dict(zip(names, together.map(attempt, names), strict=True))
        assert {receipt.state for receipt in found.values() if receipt} <= {"accepted", "waiting"}
        until(lambda: "stays until Ctrl-C" in serving.said(), 240)
        serving.process.send_signal(signal.SIGINT)  # not before: whose answer was lost comes back for its receipt
        assert serving.process.wait(60) == 0, serving.said()
    finally:
        serving.end()
    roster = json.loads((tmp_path / "run" / "roster.json").read_text())
    assert sorted(roster["clients"]) == staying and roster["refused"] == {}
    for name in staying:
        assert (tmp_path / "run" / "clients" / f"{name}.fedol").read_bytes() == data(name)
