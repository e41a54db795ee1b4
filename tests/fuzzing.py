"""Hostile bytes for the reader of knowledge files: mutations of good ones, for the suite and benchmarks/fuzz.py."""

from __future__ import annotations

import json
import random
import struct

import numpy as np

from fedol import Knowledge, Task
from fedol.errors import InputError

TASK = Task.of(np.arange(40, dtype=np.uint8).reshape(10, 1, 2, 2), ["a", "b", "c", "d"], "fuzz")
_PROBS = np.random.default_rng(0).dirichlet(np.ones(4) / 2, 10)
SEEDS = [
    Knowledge.from_probabilities(_PROBS, TASK, "alice").encode(codec)
    for codec in ("float32", "float16+zstd", "q7c60", "q7c60+zstd", "q2c20+zstd", "top2", "top2+zstd")
]
WORDS = [b"0", b"-1", b"1e999", b"null", b"[]", b"{}", b'""', b"true", b"NaN", b"99999999999999999999", b"\xff\xfe"]


def attempt(data: bytes) -> bool:
    """Whether a reader takes these bytes. Anything but knowledge or an ``InputError`` is a finding."""
    try:
        knowledge, _ = Knowledge.decode(data, TASK)
    except InputError:
        return False
    probs = knowledge.probabilities()
    assert probs.shape == (10, 4) and bool((probs >= 0).all()) and bool(((probs.sum(1) - 1).abs() < 1e-4).all())
    return True


def mutate(rng: random.Random) -> bytes:
    """A good file with one to four things wrong."""
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randint(1, 4)):
        rng.choice([_flip, _cut, _insert, _length, _word, _splice, _entry])(data, rng)
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
    """Another value for one entry of the header, and the header made whole again: what gets past the first checks."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        head = json.loads(bytes(data[8 : 8 + length]))
        header = json.loads(head["__metadata__"]["fedol"])
        key = rng.choice(sorted(header))
        header[key] = rng.choice([0, -1, 10, 4, 2**63, 1.5, None, True, [], {}, "", "top2", "q8c60", "../x", "é" * 99])
        head["__metadata__"]["fedol"] = json.dumps(header)
        new = json.dumps(head).encode()
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return
    data[: 8 + length] = struct.pack("<Q", len(new)) + new
