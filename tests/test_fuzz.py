"""A bounded dose of hostile bytes; ``python benchmarks/fuzz.py --seconds N`` gives more."""

from __future__ import annotations

import random

from fuzzing import SEEDS, attempt, mutate
from hypothesis import given, settings
from hypothesis import strategies as st


def test_the_seeds_are_good() -> None:
    assert all(attempt(data) for data in SEEDS)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    attempt(data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 2000), st.binary(max_size=40), st.integers(0, 40))
def test_good_files_with_other_bytes_in_them(data: bytes, at: int, new: bytes, gone: int) -> None:
    attempt(data[:at] + new + data[at + gone :])


def test_mutations() -> None:
    rng = random.Random(0)
    taken = sum(attempt(mutate(rng)) for _ in range(3000))
    assert 0 < taken < 1500  # some changes are harmless (a body's last bits), most are not
