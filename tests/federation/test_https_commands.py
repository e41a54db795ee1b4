"""``fedol serve --listen`` and ``fedol client send`` in processes of their own: together, killed, wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("starlette", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("cryptography", reason="receipts are signed, which needs the package cryptography")

from certificates import issue
from commands import Command, exit_code, refusal
from small_federation import SMALL, Federation
from small_intake import Serving

from fedol.federation.deploy import Authority, write_certificate
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.tokens import new_token


@pytest.fixture
def place(federation: Federation, tmp_path: Path) -> Path:
    """A folder with the task, tokens, and certificates of a server."""
    task = TaskFolder.create(tmp_path / "task", federation.task, federation.public)
    for name in ("alice", "bob", "carol"):
        new_token(task, name, tmp_path / f"{name}.token")
    authority = Authority.new("ours")
    write_certificate(tmp_path / "ca.crt", authority.certificate)
    issue(tmp_path, "server", authority, "127.0.0.1")
    issue(tmp_path, "old", authority, "127.0.0.1", days=-1)
    return tmp_path


@pytest.fixture
def serving(place: Path) -> Iterator[list[Serving]]:
    begun: list[Serving] = []
    yield begun
    for each in begun:
        each.end()


@pytest.mark.slow
def test_killed_and_begun_again_with_a_folder_beside_it(
    place: Path, serving: list[Serving], federation: Federation, command: Command
) -> None:
    """kill -9 after one upload and in the middle of another; the same command goes on, and ends in a model."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = ("--listen", f"127.0.0.1:{free.getsockname()[1]}", "--quorum", 3)
    serving.append(Serving(place, *listen))
    url = serving[0].url()
    send = ("client", "send", "--ca", place / "ca.crt", "--json")
    alice = command(
        *send, federation.file("alice"), url, "--token-file", place / "alice.token", "--receipt", place / "a.json"
    )
    receipt = json.loads((place / "a.json").read_text())
    assert alice.code == 0 and receipt["state"] == "accepted" and json.loads(alice.out)["receipt"] == receipt
    data = federation.file("bob").read_bytes()
    serving[0].process.send_signal(signal.SIGKILL)
    serving[0].process.wait()
    assert not (place / "run" / "summary.json").exists()
    digest = sha256(data).hexdigest()
    (place / "run" / "intake" / f"bob.{digest}.part").write_bytes(data[:200])  # as a kill leaves it
    federation.inbox(place / "run" / "inbox", "carol")
    serving.append(Serving(place, *listen))
    assert serving[1].url() == url
    bob = command(
        *send, federation.file("bob"), url, "--token-file", place / "bob.token", "--receipt", place / "b.json"
    )
    assert bob.code == 0, bob.err
    assert json.loads((place / "b.json").read_text())["server"] == receipt["server"]
    assert serving[1].process.wait(120) == 0, (place / "serve.log").read_text()
    summary = json.loads((place / "run" / "summary.json").read_text())
    files = {entry["client"]: entry["file"] for entry in summary["clients"]}
    assert files == {"alice": "alice.https.fedol", "bob": "bob.https.fedol", "carol": "carol.fedol"}
    assert (place / "run" / "clients" / "bob.fedol").read_bytes() == data
    for kept in (place / "run" / "intake").iterdir():
        assert kept.stat().st_mode & 0o077 == 0, kept
    late = command(*send, federation.file("dave"), url, "--token-file", place / "bob.token", "--patience", "1s")
    assert late.code == 2 and "Given up; the same command goes on." in late.err


def test_wrong_options(place: Path, federation: Federation, capsys: pytest.CaptureFixture[str]) -> None:
    serve = ["serve", str(place / "task"), "--out", str(place / "run"), "--quorum", "1", *SMALL]
    cert, key = ["--cert", str(place / "server.crt")], ["--key", str(place / "server.pem")]
    at = ["--listen", "127.0.0.1:0"]
    (place / "none.pem").write_text("nothing")
    bare = place / "bare"
    shutil.copytree(place / "task", bare, ignore=shutil.ignore_patterns("tokens.json"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, said in (
            ([], "Say where clients' files arrive"),
            (cert, "--cert is about a server"),
            (["--listen", "8443", *cert, *key], "is not HOST:PORT"),
            (["--listen", "x:99999", *cert, *key], "is not HOST:PORT"),
            (at, "give --cert and --key"),
            ([*at, *cert], "give --cert and --key"),
            (["--listen", "0.0.0.0:0", "--insecure"], "is for this machine alone"),
            ([*at, "--insecure", *cert, *key], "--insecure means no certificates"),
            ([*at, *cert, "--key", str(place / "old.pem")], "is not the key of"),
            ([*at, "--cert", str(place / "old.crt"), "--key", str(place / "old.pem")], "expired on"),
            ([*at, *cert, "--key", str(place / "none.pem")], "is not a private key"),
            ([*at, "--cert", str(place / "none.pem"), *key], "is not a certificate"),
            ([*at, "--cert", str(place / "nowhere.crt"), *key], "cannot be read"),
            ([*at, *cert, *key, "--client-ca", str(place / "none.pem")], "holds no certificates"),
            (["--listen", f"127.0.0.1:{port}", *cert, *key], "Nothing can listen at 127.0.0.1"),
        ):
            assert said in refusal([*serve, *words], capsys), words
    serve[1] = str(bare)
    serve[3] = str(place / "other")
    assert "No client could be known" in refusal([*serve, *at, *cert, *key], capsys)
    file, token = str(federation.file("alice")), ["--token-file", str(place / "alice.token")]
    send = ["client", "send"]
    for words, said in (
        ([file, "https://127.0.0.1:1"], "give --token-file, or --cert and --key"),
        ([file, "https://127.0.0.1:1", *cert], "belong together"),
        ([file, "https://127.0.0.1:1", "--token-file", str(place / "none")], "cannot be read"),
        ([file, "https://127.0.0.1:1", "--token-file", file], "token"),
        ([file, "http://127.0.0.1:1", *token], "shows token and file to everybody"),
        ([file, "http://fedol.example:1", *token, "--insecure"], "is another; use https://"),
        ([file, "https://127.0.0.1:1", *token, "--ca", str(place / "none.pem")], "holds no certificates"),
        ([file, "https://127.0.0.1:1", *token, "--patience", "soon"], "is not a time"),
        ([str(place / "none.pem"), "https://127.0.0.1:1", *token], "is not a file to send"),
        ([file, str(place / "nowhere")], "There is no folder"),
        ([file, str(place), *token], "--token-file is for a server"),
    ):
        assert said in refusal([*send, *words], capsys), words


def test_into_a_folder(place: Path, federation: Federation, command: Command) -> None:
    for _ in range(2):  # the same again is the same
        assert command("client", "send", federation.file("alice"), place).code == 0
    assert (place / "alice.fedol").read_bytes() == federation.file("alice").read_bytes()
    (place / "bob.fedol").write_bytes(b"another")
    assert "the first one counts" in command("client", "send", federation.file("bob"), place).err


def test_tokens_are_made_with_the_task(place: Path, federation: Federation, command: Command) -> None:
    import numpy as np

    np.savez(place / "public.npz", images=federation.public)
    new = ("task", "new", place / "made", "--public", place / "public.npz", "--classes", "0,1,2,3,4,5,6,7,8,9")
    assert "give each one with --client" in command(*new, "--tokens", place / "tokens").err
    done = command(*new, "--client", "alice", "--client", "bob", "--tokens", place / "tokens")
    assert done.code == 0 and "Give each client its own" in done.out
    tokens = sorted((place / "tokens").iterdir())
    assert [path.name for path in tokens] == ["alice.token", "bob.token"]
    assert {path.stat().st_mode & 0o777 for path in tokens} == {0o600}
    assert exit_code("keys", "token", place / "made", "carol", "--out", place / "carol2.token") == 2
    assert exit_code("keys", "token", place / "made", "bob", "--out", place / "bob.token") == 2  # there is one
    assert exit_code("keys", "token", place / "made", "bob", "--out", place / "bob2.token") == 0
    assert os.listdir(place / "made") and len(json.loads((place / "made" / "tokens.json").read_text())["sha256"]) == 2
