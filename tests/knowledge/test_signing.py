"""Signed knowledge: OpenFL's lesson, the wrong key must be refused and the test proves it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("cryptography", reason="signing needs the package cryptography")

from fedol import Knowledge, Task
from fedol.cli import app
from fedol.errors import FedolError, InputError
from fedol.federation.roster import Roster
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge.container import Container
from fedol.knowledge.header import check_sender
from fedol.knowledge.signing import check_public_key, new_key, public_key, sign, verify

IMAGES = np.zeros((4, 1, 2, 2), np.uint8)
KNOWLEDGE_ROWS = np.full((4, 2), 0.5)


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    return {name: new_key(tmp_path / f"{name}.key") for name in ("alice", "bob")}


@pytest.fixture
def task(keys: dict[str, str]) -> Task:
    return dataclasses.replace(Task.of(IMAGES, ["a", "b"], "signed"), clients=keys)


def file(task: Task, client: str, key: Path | None) -> bytes:
    return Knowledge.from_probabilities(KNOWLEDGE_ROWS, task, client).encode(key=key)


def test_the_right_key_is_accepted(task: Task, tmp_path: Path) -> None:
    knowledge, header = Knowledge.decode(file(task, "alice", tmp_path / "alice.key"), task)
    assert knowledge.client == "alice" and len(header.signature) == 128


def test_unsigned(task: Task) -> None:
    with pytest.raises(InputError, match="not signed"):
        Knowledge.decode(file(task, "alice", None), task)


def test_signed_by_someone_else(task: Task, tmp_path: Path) -> None:
    """Bob puts a file in Alice's place."""
    with pytest.raises(InputError, match="not by the key"):
        Knowledge.decode(file(task, "alice", tmp_path / "bob.key"), task)


def test_replayed_from_another_task(task: Task, tmp_path: Path) -> None:
    """Same images, classes and keys, another federation: the signature is right, the task is not."""
    other = dataclasses.replace(task, name="last year")
    with pytest.raises(InputError, match="another task"):
        Knowledge.decode(file(other, "alice", tmp_path / "alice.key"), task)


@pytest.mark.parametrize("entry", [{"client": "bob"}, {"codec": "q6c60+zstd"}, {"signature": "00" * 64}])
def test_a_changed_header_breaks_the_signature(task: Task, tmp_path: Path, entry: dict[str, str]) -> None:
    container = Container.unpack(file(task, "alice", tmp_path / "alice.key"))
    with pytest.raises(InputError, match="not by the key"):
        Knowledge.decode(Container({**container.header, **entry}, container.body).pack(), task)


def test_a_changed_body_breaks_the_signature(task: Task, tmp_path: Path) -> None:
    data = bytearray(file(task, "alice", tmp_path / "alice.key"))
    data[-1] ^= 1
    with pytest.raises(InputError, match="not by the key"):
        Knowledge.decode(bytes(data), task)


def test_a_client_hears_it_before_it_has_worked(task: Task, keys: dict[str, str], tmp_path: Path) -> None:
    narrow = dataclasses.replace(task, codecs=("float16",))
    mine, other = tmp_path / "alice.key", tmp_path / "bob.key"
    assert public_key(mine) == keys["alice"]
    check_sender("alice", "float16", mine, narrow)
    check_sender("anyone", "float32", None, Task.of(IMAGES, ["a", "b"]))
    for sender, refusal in {
        ("alice", "float16", None): "would not take your file: it is not signed",
        ("alice", "float32", mine): "would not take your file: it uses the codec float32",
        ("eve", "float16", mine): "would not take your file: the task does not list the client 'eve'",
        ("_alice", "float16", mine): "_alice",
        ("alice", "flaot16", mine): "There is no codec 'flaot16'",
        ("alice", "float16", tmp_path / "none.key"): "none.key is not a private key",
        ("alice", "float16", other): "bob.key is not the key that the task lists for 'alice'",
    }.items():
        with pytest.raises(InputError, match=refusal):
            check_sender(*sender, narrow)


def test_each_task_that_is_made_is_another(keys: dict[str, str], tmp_path: Path) -> None:
    """The same name, images, classes and keys: last year's signed file is of no use, and takes nobody's place."""
    np.savez(tmp_path / "public.npz", images=IMAGES)
    options = ["--public", str(tmp_path / "public.npz"), "--classes", "a,b", "--name", "signed"]
    options += [part for name, key in keys.items() for part in ("--client", f"{name}={key}")]
    last, this = (made(tmp_path / year, options) for year in ("2025", "2026"))
    assert last.id != this.id and last.ref.classes == this.ref.classes and last.ref.public == this.ref.public
    stale = file(last, "alice", tmp_path / "alice.key")
    roster = Roster(0.0).take(stale, "first.fedol", this, tmp_path / "clients")
    assert "it answers another task" in roster.refused["first.fedol"] and not roster.clients
    roster = roster.take(file(this, "alice", tmp_path / "alice.key"), "second.fedol", this, tmp_path / "clients")
    assert roster.clients["alice"].file == "second.fedol"


def made(folder: Path, options: list[str]) -> Task:
    """What ``fedol task new`` writes, as a client opens it."""
    done = CliRunner().invoke(app, ["task", "new", str(folder), *options])
    assert done.exit_code == 0, done.output
    return TaskFolder.open(folder).task


def test_another_key_is_another_task(task: Task, keys: dict[str, str], tmp_path: Path) -> None:
    replaced = dataclasses.replace(task, clients={**keys, "bob": new_key(tmp_path / "new.key")})
    swapped = dataclasses.replace(task, clients={"alice": keys["bob"], "bob": keys["alice"]})
    unsigned = dataclasses.replace(task, clients=dict.fromkeys(keys))
    assert len({other.id for other in (task, replaced, swapped, unsigned)}) == 4
    assert dataclasses.replace(task, clients=dict(reversed(keys.items()))).id == task.id  # their order says nothing
    with pytest.raises(InputError, match="another task"):
        Knowledge.decode(file(task, "alice", tmp_path / "alice.key"), replaced)


P = 2**255 - 19
EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SIGN = 1 << 255


@pytest.mark.parametrize("y", [0, 1, P - 1, EIGHTH, P - EIGHTH, P, P + 1, 2**255 - 1], ids=hex)
@pytest.mark.parametrize("sign", [0, SIGN], ids=["plus", "minus"])
def test_keys_under_which_anybody_can_sign(y: int, sign: int, task: Task, tmp_path: Path) -> None:
    key = (y | sign).to_bytes(32, "little").hex()
    for way in (lambda: check_public_key(key), lambda: dataclasses.replace(task, clients={"alice": key})):
        with pytest.raises(InputError, match="anybody can sign; ask its owner for another"):
            way()
    place = TaskFolder.create(tmp_path / "task", task, None).path / "task.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "clients": {"alice": key}}))
    with pytest.raises(FedolError, match="anybody can sign"):
        TaskFolder.open(place.parent)


def test_that_anybody_can_sign_under_such_a_key() -> None:
    """Why they are refused: no private key was needed for this signature, which is one of every message."""
    identity = (1).to_bytes(32, "little").hex()
    forged = identity + "00" * 32
    assert verify(identity, forged, b"anything") and verify(identity, forged, b"anything else")


def test_a_key_is_private_and_never_overwritten(keys: dict[str, str], tmp_path: Path) -> None:
    assert os.stat(tmp_path / "alice.key").st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="exists already"):
        new_key(tmp_path / "alice.key")


def test_what_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "no.key").write_text("hello")
    with pytest.raises(InputError, match="not a private key"):
        sign(tmp_path / "no.key", b"")
    with pytest.raises(InputError, match="not a public key"):
        check_public_key("xyz")
