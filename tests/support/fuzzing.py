"""Hostile bytes for everything that reads a stranger's file, for the suite and for benchmarks/fuzz.py.

A layer is a way to make an input and a way to hand it to the product. Whatever comes out of the latter but a clean
refusal or sound content is a finding: an exception of another kind, a reason that is long or cannot be printed, a
roster that cannot be written or read back.
"""

from __future__ import annotations

import json
import os
import random
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from fedol import Knowledge, Task
from fedol.data import Normalisation
from fedol.data.own import load_images
from fedol.errors import FedolError, InputError
from fedol.federation.roster import Roster
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports import Inbox
from fedol.knowledge.inspection import inspect
from fedol.model import Architecture, ServerModel, load
from fedol.report.inspection import inspection_view

PUBLIC = np.arange(40, dtype=np.uint8).reshape(10, 1, 2, 2)
TASK = Task.of(PUBLIC, ["a", "b", "c", "d"], "fuzz")
_PROBS = np.random.default_rng(0).dirichlet(np.ones(4) / 2, 10)
_ALICE = Knowledge.from_probabilities(_PROBS, TASK, "alice")
SEEDS = [
    _ALICE.encode(codec)
    for codec in ("float32", "float16+zstd", "q7c60", "q7c60+zstd", "q2c20+zstd", "top2", "top2+zstd", "lattice20")
]
_MASSES = _ALICE.with_mass(np.linspace(-4, 3, 10), private=30, folds=2)
SEEDS += [_MASSES.encode(codec) for codec in ("float32", "q7c60", "q7c60+zstd", "top2+zstd", "lattice20")]
SEEDS.append(Knowledge.from_probabilities(np.eye(4)[np.arange(10) % 4], TASK, "alice").encode("lattice20"))
_FEW = Knowledge.from_probabilities(
    np.array([[3, 1, 1, 0], [2, 2, 1, 0], [0, 0, 1, 4]])[np.arange(10) % 3] / 5, TASK, "alice"
)
_SURE = Knowledge.from_logits(40 * np.log(_PROBS), TASK, "alice")
SEEDS += [each.encode("lattice20") for each in (_FEW, _SURE, _SURE.with_mass(np.linspace(-320, -290, 10), 30, 2))]
_SOME = Knowledge.from_probabilities(_PROBS[:, :1] ** 0, TASK, "bob", classes=["c"]).with_mass(np.zeros(10), 9, 2)
SEEDS += [_SOME.encode("q7c60+zstd")]
_SOME = Knowledge.from_probabilities(
    _PROBS[:, :2] / _PROBS[:, :2].sum(1, keepdims=True), TASK, "bob", classes=["d", "b"]
)
SEEDS += [_SOME.encode(codec) for codec in ("float32", "q7c60+zstd", "top2", "lattice20")]
WORDS = [b"0", b"-1", b"1e999", b"null", b"[]", b"{}", b'""', b"true", b"NaN", b"99999999999999999999", b"\xff\xfe"]
WORDS += [b"\\ud800", b'"\\udfff"', b"\\u202e", b"\x1b[2J"]
VALUES: list[Any] = [0, -1, 10, 4, 2**63, 10**400, 1.5, None, True, [], {}, "", "top2", "q8c60", "../x", "é" * 99]
VALUES += [
    "\ud800",
    "\udfff" * 500,
    "\x1b]0;x\x07",
    "<img src=x>",
    "\u202ecod.exe",
    "x" * 5000,
    ["\ud800"],
    {"\ud800": 1},
    float("nan"),
    float("inf"),
    10**9,
    "os:abort",
    "fedol.privacy.converted:x.py:f",
]
NAMES = [b"x", b"\xff\xfe", b"\x1b[2J", b"a\nb", "\u202e".encode(), b"=1+1", b"alice", b"y" * 240]


@dataclass(frozen=True)
class Layer:
    """Where an input goes in: how to make one, and whether it is taken."""

    title: str
    make: Callable[[random.Random], bytes]
    attempt: Callable[[bytes], bool]


def decoded(data: bytes) -> bool:
    """Whether the reader of knowledge files takes these bytes."""
    try:
        knowledge, _ = Knowledge.decode(data, TASK)
    except InputError as error:
        return _refused(str(error))
    probs, mass = knowledge.probabilities(), knowledge.log_mass
    assert (mass is None) == (knowledge.ratios is None)
    assert mass is None or (mass.shape == (10,) and bool(mass.isfinite().all()) and knowledge.mean_mass != np.inf)
    assert probs.shape == (10, 4) and bool((probs >= 0).all()) and bool(((probs.sum(1) - 1).abs() < 1e-4).all())
    return True


def collected(data: bytes) -> bool:
    """Whether a server takes them from its inbox: scan, roster, roster on disk, and the same again after a restart."""
    name = NAMES[len(data) % len(NAMES)] + b".fedol"
    with tempfile.TemporaryDirectory(dir=_scratch()) as scratch:
        folder = Path(scratch)
        (folder / "inbox").mkdir()
        with open(os.path.join(os.fsencode(scratch), b"inbox", name), "wb") as file:
            file.write(data)
        inbox = Inbox(folder / "inbox")
        *_, roster = inbox.scan(Roster(0.0), TASK, folder / "clients")
        for late, why in inbox.arriving.items():
            roster = roster.refuse(late, why)
        roster.write(folder / "roster.json")
        assert Roster.read(folder / "roster.json", 1.0) == roster
        for reason in roster.refused.values():
            _refused(reason)
        return bool(roster.clients)


def inspected(data: bytes) -> bool:
    """Whether ``fedol inspect`` can show them."""
    with tempfile.NamedTemporaryFile(suffix=".fedol", dir=_scratch()) as file:
        file.write(data)
        file.flush()
        try:
            found = inspect(Path(file.name), TASK)
            json.dumps(found, allow_nan=False)
            Console(file=StringIO()).print(inspection_view(found))
        except InputError:
            return False
    return True


def opened(data: bytes) -> bool:
    """Whether they are a task that a client can open, with its public images."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as scratch:
        (Path(scratch) / "task.json").write_bytes(data)
        np.savez(Path(scratch) / "public.npz", public=PUBLIC)
        try:
            TaskFolder.open(scratch).public()
        except FedolError:
            return False
    return True


def loaded(data: bytes) -> bool:
    """Whether they are a model that can be loaded and asked."""
    with tempfile.NamedTemporaryFile(suffix=".safetensors", dir=_scratch()) as file:
        file.write(data)
        file.flush()
        try:
            model = load(file.name)
            model.known(model.predict_proba(np.zeros((2, *model.architecture.shape), np.uint8)))
        except FedolError:
            return False
    return True


def shared(data: bytes) -> bool:
    """Whether they are a public set that a client can read; whatever it is told of their number is true or refused."""
    with tempfile.NamedTemporaryFile(suffix=".npz", dir=_scratch()) as file:
        file.write(data)
        file.flush()
        try:
            images, names = load_images(Path(file.name), len(PUBLIC))
        except FedolError as error:
            assert str(error).isprintable() and len(str(error)) < 500, repr(error)
            return False
    assert images.dtype == np.uint8 and images.ndim == 4 and len(images) == len(names) == len(PUBLIC)
    return True


def mutate(rng: random.Random) -> bytes:
    """A good knowledge file with one to four things wrong."""
    return _changed(rng.choice(SEEDS), rng, [_flip, _cut, _insert, _length, _word, _splice, _entry, _entry])


def mutate_task(rng: random.Random) -> bytes:
    """A good ``task.json`` with one to four things wrong."""
    return _changed(_task(), rng, [_flip, _cut, _insert, _word, _json_entry, _json_entry])


def mutate_model(rng: random.Random) -> bytes:
    """A good model file with one to four things wrong."""
    return _changed(rng.choice(_models()), rng, [_flip, _cut, _insert, _length, _word, _entry, _entry])


def mutate_public(rng: random.Random) -> bytes:
    """A good archive of public images with one to four things wrong."""
    return _changed(rng.choice(_public()), rng, [_flip, _flip, _cut, _insert, _word])


LAYERS = {
    "decoder": Layer("Knowledge.decode", mutate, decoded),
    "inbox": Layer("a file in an inbox: scan, roster, roster.json, restart", mutate, collected),
    "inspect": Layer("fedol inspect", mutate, inspected),
    "public": Layer("public.npz at a client", mutate_public, shared),
    "task": Layer("task.json at a client", mutate_task, opened),
    "model": Layer("fedol.load and a prediction", mutate_model, loaded),
}


def _refused(reason: str) -> bool:
    assert 0 < len(reason) <= 300 and reason.isprintable(), repr(reason)
    return False


def _scratch() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # files that are synced to a disk would be the slow part


@cache
def _public() -> list[bytes]:
    """As they are, compressed, and as one array: a check sum hides less of what is inside."""
    files = [BytesIO() for _ in range(3)]
    np.savez(files[0], public=PUBLIC)
    np.savez_compressed(files[1], images=PUBLIC)
    np.save(files[2], PUBLIC)
    return [file.getvalue() for file in files]


@cache
def _task() -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        TaskFolder.create(Path(scratch), TASK, None)
        return (Path(scratch) / "task.json").read_bytes()


@cache
def _models() -> list[bytes]:
    """A server's, and one of a client that knows what is public."""
    shape = Architecture("mlp", TASK.classes, (1, 2, 2), 2, Normalisation((0.5,), (0.5,)))
    files = []
    with tempfile.TemporaryDirectory() as scratch:
        server = ServerModel(shape.build(), shape, [{"iteration": 1, "loss": 0.5, "unsure_above": 1.0}])
        folds = replace(shape, folds=2)
        client = ServerModel(folds.build(), folds, [{"ratios": {"private": 30, "folds": 2}}])
        for model in (server, client):
            model.save(Path(scratch) / "model.safetensors")
            files.append((Path(scratch) / "model.safetensors").read_bytes())
    return files


def _changed(good: bytes, rng: random.Random, changes: list[Callable[[bytearray, random.Random], None]]) -> bytes:
    data = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        rng.choice(changes)(data, rng)
    return bytes(data)


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.choice([1, 8, 64, len(data)])]


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice([1, 8, 64]))


def _length(data: bytearray, rng: random.Random) -> None:
    data[:8] = struct.pack("<Q", rng.choice([0, 1, 2**63, 2**64 - 1, len(data), rng.randrange(1000)]))


def _word(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    word = rng.choice(WORDS)
    data[at : at + len(word)] = word


def _splice(data: bytearray, rng: random.Random) -> None:
    other = rng.choice(SEEDS)
    at = rng.randrange(min(len(data), len(other)) + 1)
    data[at:] = other[at:]


def _entry(data: bytearray, rng: random.Random) -> None:
    """Another value somewhere in the header, and the header made whole again: what gets past the first checks."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        head = json.loads(bytes(data[8 : 8 + length]))
        header = json.loads(head["__metadata__"]["fedol"])
        head["__metadata__"]["fedol"] = json.dumps(_other(header, rng))
        new = json.dumps(head).encode()
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return
    data[: 8 + length] = struct.pack("<Q", len(new)) + new


def _json_entry(data: bytearray, rng: random.Random) -> None:
    """The same for a file that is JSON alone."""
    try:
        data[:] = json.dumps(_other(json.loads(bytes(data)), rng)).encode()
    except (ValueError, RecursionError):
        return


def _other(value: Any, rng: random.Random) -> Any:
    """The value with one of its entries, however deep, another."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(sorted(value))
        return {**value, key: _other(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.6:
        at = rng.randrange(len(value))
        return [*value[:at], _other(value[at], rng), *value[at + 1 :]]
    return rng.choice(VALUES)
