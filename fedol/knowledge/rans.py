"""Whole numbers to bytes under discrete Gaussians: interleaved rANS coders, alike on every machine.

A column of numbers is coded under one of ``MODELS`` Gaussians, σ = 2^(i/4 − 4), whose frequencies add up to 2^16 (J.
Duda, arXiv:1311.2540). Row i belongs to coder i mod L, so NumPy runs L coders at a time. Bytes are L states (u32), then
16-bit words in the order in which the reader needs them. Tables are made with ``decimal``, whose ``exp`` is rounded
correctly by its specification: no machine's floats are in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedol.errors import InputError

Integers = npt.NDArray[np.int64]

MODELS = 56
BITS = 16
ONE = 1 << BITS  # what all frequencies add up to; a state is at least this, and below its square
ROWS = 64  # a coder's share of a column: fewer make Python's loop short, and states many
MOST_CODERS = 512


class Model(NamedTuple):
    """Frequencies of the numbers −n to n, and their running sums."""

    n: int
    frequency: Integers
    below: Integers

    @property
    def bits(self) -> npt.NDArray[np.float64]:
        """What each number costs."""
        return BITS - np.log2(self.frequency.astype(np.float64))


def _sigma(i: int) -> Decimal:
    return Decimal(("1", "1.1892", "1.4142", "1.6818")[i % 4]) * (1 << i // 4) / 16


def sigma(i: int) -> float:
    """The i-th Gaussian's."""
    return float(_sigma(i))


LARGEST = int(6 * _sigma(MODELS - 1)) + 2  # of all numbers that can be coded


@lru_cache(MODELS)
def model(i: int) -> Model:
    """The i-th Gaussian; each number out to 6 σ has a frequency of at least one."""
    with localcontext() as context:
        context.prec = 20
        width = _sigma(i)
        n = int(6 * width) + 2
        weight = [(-((k / width) ** 2) / 2).exp() for k in map(Decimal, range(n + 1))]
        total = weight[0] + 2 * sum(weight[1:])
        half = [1 + int(w * (ONE - 2 * n - 1) / total) for w in weight]
    half[0] = ONE - 2 * sum(half[1:])
    frequency = np.array(half[:0:-1] + half, np.int64)
    return Model(n, frequency, np.cumsum(frequency) - frequency)


@lru_cache(MODELS)
def _numbers(i: int) -> npt.NDArray[np.uint16]:
    """Which number each of 2^16 slots stands for."""
    frequency = model(i).frequency
    return np.repeat(np.arange(len(frequency), dtype=np.uint16), frequency)


def cheapest(values: Integers) -> int:
    """The model under which a column, none of it beyond ``LARGEST``, takes the fewest bits."""
    count = np.bincount(np.abs(values))
    fits = [i for i in range(MODELS) if model(i).n >= len(count) - 1]
    return min(fits, key=lambda i: float(count @ model(i).bits[model(i).n :][: len(count)]))


def coders(lengths: Sequence[int]) -> int:
    """How many coders share columns of these lengths."""
    return min(MOST_CODERS, -(-max(lengths) // ROWS))


def most_bytes(lengths: Sequence[int]) -> int:
    """No stream of such columns is longer: a number takes one word at most."""
    return 4 * coders(lengths) + 2 * sum(lengths)


def encode(columns: Sequence[Integers], models: Sequence[int]) -> bytes:
    """All columns, last number first, because a rANS coder is read from its end."""
    lengths = [len(column) for column in columns]
    state, words = np.full(coders(lengths), ONE, np.int64), []
    for j, start, end in reversed(list(_groups(lengths))):
        n, frequency, below = model(models[j])
        number = columns[j][start:end] + n
        f, x = frequency[number], state[: end - start]
        full = x >= f << BITS
        words.append((x[full] & (ONE - 1)).astype("<u2").tobytes())
        x = np.where(full, x >> BITS, x)
        state[: end - start] = (x // f << BITS) + x % f + below[number]
    return state.astype("<u4").tobytes() + b"".join(reversed(words))


def decode(data: bytes, lengths: Sequence[int], models: Sequence[int]) -> list[npt.NDArray[np.int32]]:
    """The columns; an ``InputError`` unless every word is used and every coder ends where it began."""
    count = coders(lengths)
    if len(data) < 4 * count or len(data) % 2 or len(data) > most_bytes(lengths):
        raise InputError("its coded numbers have no possible size")
    state = np.frombuffer(data, "<u4", count).astype(np.int64)
    words = np.frombuffer(data, "<u2", offset=4 * count)
    used, columns = 0, [np.empty(length, np.int32) for length in lengths]
    for j, start, end in _groups(lengths):
        n, frequency, below = model(models[j])
        x = state[: end - start]
        slot = x & (ONE - 1)
        number = _numbers(models[j])[slot]
        x = frequency[number] * (x >> BITS) + slot - below[number]
        short = np.flatnonzero(x < ONE)
        if used + len(short) > len(words):
            raise InputError("its coded numbers end too early")
        x[short] = x[short] << BITS | words[used : used + len(short)]
        used += len(short)
        state[: end - start] = x
        columns[j][start:end] = number
        columns[j][start:end] -= n
    if used != len(words) or (state != ONE).any():
        raise InputError("its coded numbers do not end where they should")
    return columns


def _groups(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Which numbers of which column the coders take together."""
    step = coders(lengths)
    for j, length in enumerate(lengths):
        for start in range(0, length, step):
            yield j, start, min(start + step, length)
