"""The entropy coder: what comes back, the same tables everywhere, and what a stranger's bytes cannot do."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol.errors import InputError
from fedol.knowledge import rans
from fedol.knowledge.rans import LARGEST, MODELS, ONE, model

STORED = bytes.fromhex("fd6d1400b2d3")  # of COLUMNS under these models, whatever the machine
COLUMNS, UNDER = [np.array([0, -1, 2, 1, 0]), np.array([7, -3])], [16, 24]


def columns(seed: int, lengths: list[int], models: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=length) * rans.sigma(i) for length, i in zip(lengths, models, strict=True)]
    return [np.clip(np.round(x), -model(i).n, model(i).n).astype(np.int64) for x, i in zip(drawn, models, strict=True)]


@pytest.mark.parametrize("i", [0, 1, 7, 20, 39, 55])
def test_a_model_is_the_gaussian_it_says_it_is(i: int) -> None:
    n, frequency, below = model(i)
    x = np.arange(-n, n + 1)
    weight = np.exp(-((x / rans.sigma(i)) ** 2) / 2)
    assert frequency.sum() == ONE and frequency.min() >= 1 and below[0] == 0 and len(frequency) == 2 * n + 1
    np.testing.assert_array_equal(frequency, frequency[::-1])
    np.testing.assert_allclose(frequency / ONE, weight / weight.sum(), atol=(2 * n + 2) / ONE)


def test_the_tables_are_the_same_on_every_machine() -> None:
    """Files written elsewhere depend on every one of these numbers."""
    tables = b"".join(model(i).frequency.astype("<i4").tobytes() for i in range(MODELS))
    assert hashlib.sha256(tables).hexdigest() == "d4cceed119d3d6e55e5144c373320ddb61808597fa1e00f1b9a634030996f389"
    assert LARGEST == model(MODELS - 1).n == 5168


def test_bytes_that_were_stored() -> None:
    assert rans.encode(COLUMNS, UNDER) == STORED
    for found, column in zip(rans.decode(STORED, [5, 2], UNDER), COLUMNS, strict=True):
        np.testing.assert_array_equal(found, column)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31),
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, MODELS - 1)), min_size=1, max_size=6),
)
def test_round_trip_near_the_entropy(seed: int, drawn: list[tuple[int, int]]) -> None:
    lengths, models = [length for length, _ in drawn], [i for _, i in drawn]
    before = columns(seed, lengths, models)
    data = rans.encode(before, models)
    for found, column in zip(rans.decode(data, lengths, models), before, strict=True):
        np.testing.assert_array_equal(found, column)
    bits = sum(float(model(i).bits[x + model(i).n].sum()) for x, i in zip(before, models, strict=True))
    assert bits / 8 - 1 <= len(data) <= bits / 8 * 1.001 + 4 * rans.coders(lengths) + 1
    assert len(data) <= rans.most_bytes(lengths)


def test_the_cheapest_model_is_the_one_that_numbers_were_drawn_from() -> None:
    for i in (12, 20, 33, 50):
        (column,) = columns(1, [20_000], [i])
        assert abs(rans.cheapest(column) - i) <= 1
    assert model(rans.cheapest(np.array([0, LARGEST]))).n == LARGEST


def test_damaged_bytes_are_refused() -> None:
    """Nearly all of them: every coder must end where it began, and every word be used."""
    lengths, models = [500, 500], [16, 30]
    good, refused = rans.encode(columns(0, lengths, models), models), 0
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(good) * 8, 200).tolist():
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        try:
            rans.decode(bytes(bad), lengths, models)
        except InputError:
            refused += 1
    assert refused == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: b"", "no possible size"),
        (lambda data: data[:-1], "no possible size"),
        (lambda data: data + bytes(10**6), "no possible size"),
        (lambda data: data[:-2], "end too early"),
        (lambda data: data + b"\0\0", "do not end where they should"),
    ],
)
def test_bytes_of_a_wrong_length(change: object, words: str) -> None:
    data = rans.encode(columns(0, [300], [30]), [30])
    with pytest.raises(InputError, match=words):
        rans.decode(change(data), [300], [30])  # type: ignore[operator]
