"""Signed knowledge: OpenFL's lesson, the wrong key must be refused and the test proves it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="signing needs the package cryptography")

from fedol import Knowledge, Task
from fedol.admission import check_sender
from fedol.container import Container
from fedol.errors import InputError
from fedol.signing import check_public_key, new_key, public_key, sign

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
        ("alice", "float16", tmp_path / "none.key"): "none.key is no private key",
        ("alice", "float16", other): "bob.key is not the key that the task lists for 'alice'",
    }.items():
        with pytest.raises(InputError, match=refusal):
            check_sender(*sender, narrow)


def test_a_key_is_private_and_never_overwritten(keys: dict[str, str], tmp_path: Path) -> None:
    assert os.stat(tmp_path / "alice.key").st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="exists already"):
        new_key(tmp_path / "alice.key")


def test_what_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "no.key").write_text("hello")
    with pytest.raises(InputError, match="no private key"):
        sign(tmp_path / "no.key", b"")
    with pytest.raises(InputError, match="no public key"):
        check_public_key("xyz")
