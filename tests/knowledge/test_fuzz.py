"""A bounded dose of hostile bytes; ``python benchmarks/fuzz.py --seconds N`` gives more."""

from __future__ import annotations

import random

import pytest
from fuzzing import LAYERS, SEEDS, collected, decoded
from hypothesis import given, settings
from hypothesis import strategies as st


def test_the_seeds_are_good() -> None:
    assert all(decoded(data) for data in SEEDS)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    decoded(data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 2000), st.binary(max_size=40), st.integers(0, 40))
def test_good_files_with_other_bytes_in_them(data: bytes, at: int, new: bytes, gone: int) -> None:
    decoded(data[:at] + new + data[at + gone :])


@pytest.mark.parametrize(
    ("layer", "count"),
    {"decoder": 3000, "inbox": 600, "inspect": 400, "public": 600, "task": 400, "model": 400}.items(),
)
def test_mutations(layer: str, count: int) -> None:
    rng, tried = random.Random(0), LAYERS[layer]
    taken = sum(tried.attempt(tried.make(rng)) for _ in range(count))
    assert 0 < taken < count / 2  # some changes are harmless (a body's last bits), most are not


def test_an_inbox_takes_what_a_decoder_takes() -> None:
    """But for names that are not UTF-8: nothing is lost on the way through the roster."""
    taken = [collected(data) for data in SEEDS]
    assert any(taken)
