"""Properties of the fixed point."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol import Knowledge
from fedol.errors import InputError
from fedol.knowledge.terms import Terms
from fedol.secret.encoding import Encoding, Part

HELPERS = {"A": "ab" * 64, "B": "ac" * 64}
SAMPLES, CLASSES = 5, 3


def encoding(clients: int, bits: int, cap: float) -> Encoding:
    return Encoding(Terms(HELPERS, bits=bits, cap=cap), clients, SAMPLES, CLASSES)


widths = st.sampled_from([16, 24, 32])
caps = st.floats(0.01, 1e4)


@st.composite
def clients(draw: st.DrawFn) -> list[Knowledge]:
    """A few clients, from the very sure to the very strange."""
    made = []
    for number in range(draw(st.integers(1, 6))):
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        spread = draw(st.sampled_from([0.0, 1.0, 10.0, 60.0]))
        logs = rng.normal(draw(st.floats(-30, 30)), spread, (SAMPLES, CLASSES))
        logs[rng.random(logs.shape) < 0.2] = -np.inf
        made.append(Knowledge.from_log_ratios(logs, client=f"c{number}", private=draw(st.integers(0, 1 << 40))))
    return made


@settings(deadline=None, max_examples=60)
@given(clients(), widths, caps, st.integers(0, 3))
def test_any_clients_sums_open_within_a_step_each(known: list[Knowledge], bits: int, cap: float, more: int) -> None:
    code = encoding(len(known) + more, bits, cap)
    total = Part(np.zeros(2, np.uint64), np.zeros(code.size, np.uint32))
    expected = torch.zeros(code.size).double()
    for number, knowledge in enumerate(known):
        total.add(code.unpack(code.pack(code.encode(knowledge, np.random.default_rng(number)))))
        expected += code.values(knowledge)
    sums = code.decode(total, len(known))
    found = torch.cat([sums.ratios, sums.mixture * cap]).flatten()
    assert (found - expected).abs().max() <= len(known) / code.scale * (1 + 1e-9)
    assert (found >= 0).all() and (sums.ratios <= len(known) * (cap + 1 / code.scale)).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), widths)
def test_packing_is_undone(seed: int, bits: int) -> None:
    code, rng = encoding(3, bits, 1.0), np.random.default_rng(seed)
    counts = rng.integers(0, 2**64, 2, dtype=np.uint64)
    part = Part(counts, rng.integers(0, 2**32, code.size, dtype=np.uint32))
    data = code.pack(part)
    again = code.unpack(data)
    assert len(data) == code.packed and code.pack(again) == data
    np.testing.assert_array_equal(again.counts, counts)
    np.testing.assert_array_equal(again.values, part.values & np.uint32((1 << bits) - 1))


def test_rounding_is_right_on_average() -> None:
    code = encoding(3, 16, 1000.0)
    knowledge = Knowledge.from_ratios(np.full((SAMPLES, CLASSES), 0.3 / code.scale), client="c")
    rng = np.random.default_rng(0)
    mean = np.mean([code.encode(knowledge, rng).values[: SAMPLES * CLASSES] for _ in range(4000)])
    assert mean == pytest.approx(0.3, abs=0.02)


def test_values_stay_between_zero_and_the_cap() -> None:
    code = encoding(3, 24, 2.0)
    knowledge = Knowledge.from_ratios(np.exp(np.random.default_rng(0).normal(0, 9, (SAMPLES, CLASSES))), client="c")
    values = code.values(knowledge)
    assert values.min() >= 0 and values.max() <= 2.0
    rows = values.reshape(-1, CLASSES)[:SAMPLES].sum(1)
    expected = knowledge.log_mass.double().exp().clamp_max(2.0)  # type: ignore[union-attr]
    torch.testing.assert_close(rows, expected)


def test_a_client_that_says_not_how_many_counts_by_its_masses() -> None:
    code = encoding(3, 24, 64.0)
    knowledge = Knowledge.from_ratios(np.full((SAMPLES, CLASSES), 1.0), client="c")
    assert code.encode(knowledge, np.random.default_rng(0)).counts.tolist() == [1, 15]


def test_what_has_no_room_is_refused() -> None:
    with pytest.raises(InputError, match="16 bits have no room for 40,000 clients of up to 64 each"):
        _ = encoding(40_000, 16, 64.0).scale


def test_a_client_without_masses_is_refused() -> None:
    plain = Knowledge.from_probabilities(np.full((SAMPLES, CLASSES), 1 / CLASSES), client="bob")
    with pytest.raises(
        InputError, match="The task sums masses, but bob has none: train with fedol client fit --folds 2"
    ):
        encoding(3, 24, 64.0).values(plain)
