"""Codecs: what comes back, how large it is, and what a stranger's bytes cannot do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol.errors import InputError
from fedol.knowledge import codecs
from fedol.knowledge.plain import grid

NAMES = ["float32", "float16", "q8c60", "q7c60", "q3c12", "q2c20", "top1", "top3", "top10", "top300"]
# The largest error of a probability that each may make, from its step where it is coarsest and matters.
WORST = {"float32": 1e-6, "float16": 2e-3, "q8c60": 0.01, "q7c60": 0.02, "q3c12": 0.3, "q2c20": 0.5}


def predictions(samples: int, classes: int, seed: int, sharpness: float = 4.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(sharpness * torch.randn(samples, classes, generator=generator), 1)


def through(name: str, log_probs: torch.Tensor) -> torch.Tensor:
    codec = codecs.find(name)
    return torch.log_softmax(codec.decode(codec.encode(log_probs), *log_probs.shape), 1)


@pytest.mark.parametrize("name", [*NAMES, *(f"{name}+zstd" for name in NAMES)])
@pytest.mark.parametrize("shape", [(1, 2), (37, 10), (5, 300)])
def test_round_trip(name: str, shape: tuple[int, int]) -> None:
    codec, log_probs = codecs.find(name), predictions(*shape, seed=1)
    data = codec.encode(log_probs)
    assert codec.name == name
    if not name.endswith("+zstd"):
        assert len(data) == codec.size(*shape)
    decoded = torch.log_softmax(codec.decode(data, *shape), 1)
    assert torch.isfinite(decoded).all()
    assert torch.equal(decoded.argmax(1), log_probs.argmax(1))
    bound = WORST.get(name.removesuffix("+zstd"))
    if bound:
        assert (decoded.exp() - log_probs.exp()).abs().max() < bound


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["q7c60", "q4c20", "q2c20"]), st.floats(0.0, 60.0))
def test_quantised_keeps_every_vote(seed: int, name: str, sharpness: float) -> None:
    log_probs = predictions(50, 7, seed, sharpness)
    assert torch.equal(through(name, log_probs).argmax(1), log_probs.argmax(1))


def test_quantised_keeps_ties_with_the_lowest_class() -> None:
    log_probs = torch.full((3, 4), 0.25).log()
    assert through("q7c60", log_probs).argmax(1).tolist() == [0, 0, 0]


def test_quantised_keeps_the_entropy_order_of_confident_samples() -> None:
    """The gap is exact to float16, so samples whose runner-ups differ by one per cent keep their order."""
    below = torch.linspace(3, 30, 300)
    log_probs = torch.log_softmax(torch.stack([torch.zeros(300), -below, -below - 5, -below - 9], 1), 1)
    decoded = through("q7c60", log_probs).double().softmax(1)
    entropy = -torch.special.xlogy(decoded, decoded).sum(1)
    assert (entropy.diff() < 0).all()


def test_grid_is_monotone_and_reaches_from_zero_to_the_clip() -> None:
    for bits, clip in [(8, 60), (7, 60), (2, 20), (2, 1), (8, 99)]:
        levels, borders = grid(bits, clip)
        assert len(levels) == 2**bits - 1 and len(borders) == len(levels) - 1
        assert levels[0] == 0 and levels[-1] == pytest.approx(clip)
        assert (levels.diff() > 0).all() and (borders > levels[:-1]).all() and (borders < levels[1:]).all()


def test_extreme_logits_stay_finite() -> None:
    log_probs = torch.log_softmax(torch.tensor([[1e30, -1e30, 0.0], [0.0, 0.0, 0.0]]), 1)
    for name in ("float16", "float32", "q7c60", "top2"):
        assert torch.isfinite(through(name, log_probs)).all(), name


def test_top_k_spreads_the_rest() -> None:
    decoded = through("top1", torch.tensor([[0.4, 0.3, 0.3]]).log()).exp()
    torch.testing.assert_close(decoded, torch.tensor([[0.4, 0.3, 0.3]]), atol=1e-3, rtol=0)


@pytest.mark.parametrize("sharpness", [1.0, 10.0, 100.0])
def test_top_k_ranks_what_was_not_sent_below_what_was(sharpness: float) -> None:
    """Also where the rest is far below what rounding leaves of 1: it is as far down as it was, on average."""
    log_probs = predictions(50, 20, seed=2, sharpness=sharpness).double()
    sent, classes = log_probs.topk(5, 1)
    decoded = through("top5", log_probs.float()).double()
    torch.testing.assert_close(decoded.gather(1, classes), sent, rtol=1e-3, atol=1e-2)
    others = decoded.scatter(1, classes, torch.nan)
    mean = log_probs.exp().scatter(1, classes, 0).sum(1).clamp_min(1e-300).log() - np.log(15)
    for row, value in zip(others, mean, strict=True):
        torch.testing.assert_close(row[~row.isnan()], value.expand(15), rtol=1e-3, atol=1e-2)


def test_top_k_takes_what_it_wrote_where_all_others_are_alike() -> None:
    """There their mean is the last value that is sent, but for rounding, which must not look like disorder."""
    for count, k in ((100, 10), (10, 2), (10, 7), (3, 5)):
        top = torch.linspace(1 / count, 1, 5000)[:, None]
        log_probs = torch.cat([top, ((1 - top) / (count - 1)).expand(-1, count - 1)], 1).clamp_min(1e-30).log()
        decoded = through(f"top{k}", torch.log_softmax(log_probs, 1))
        torch.testing.assert_close(decoded.exp(), log_probs.exp(), atol=2e-3, rtol=0)


def test_top_k_names_any_class() -> None:
    log_probs = torch.log_softmax(torch.nn.functional.one_hot(torch.tensor([66_000]), 70_000) * 20.0, 1)
    assert through("top1", log_probs).argmax(1).tolist() == [66_000]


@pytest.mark.parametrize("name", ["", "q9c60", "q7", "q7c0", "float64", "top0", "zstd", "q7c60+zstd+zstd", "q７c60"])
def test_unknown_codec(name: str) -> None:
    with pytest.raises(InputError, match="There is no codec"):
        codecs.find(name)


def test_floats_that_are_no_distribution() -> None:
    good = predictions(4, 5, seed=0).numpy()
    for change, words in [
        (lambda a: a.__setitem__((2, 1), np.nan), "NaN"),
        (lambda a: a.__setitem__((2, 1), -np.inf), "infinity"),
        (lambda a: a.__setitem__((2, 1), 0.7), "above 1"),
        (lambda a: a.__setitem__(2, -9.0), "do not sum to 1"),
    ]:
        bad = good.copy()
        change(bad)
        with pytest.raises(InputError, match=words):
            codecs.find("float32").decode(bad.astype("<f4").tobytes(), 4, 5)


def test_quantised_bytes_that_mean_nothing() -> None:
    codec, log_probs = codecs.find("q3c12"), predictions(4, 5, seed=0)
    good = bytearray(codec.encode(log_probs))
    off_grid, no_top, wild_gap = bytearray(good), bytearray(good), bytearray(good)
    off_grid[good.index(max(good[:20]))] = 200
    no_top[good.index(0)] = 3
    wild_gap[-4:] = b"\xff" * 4
    for bad in (off_grid, no_top):
        with pytest.raises(InputError, match="codes"):
            codec.decode(bytes(bad), 4, 5)
    with pytest.raises(InputError, match="gap"):
        codec.decode(bytes(wild_gap), 4, 5)


def test_top_k_bytes_that_mean_nothing() -> None:
    codec = codecs.find("top2")
    values = np.log(np.array([[0.5], [0.3], [0.1]]))  # the last is that of each of the two others
    assert codec.decode(values.astype("<f2").tobytes() + bytes([2, 0]), 1, 4)[0].argmax() == 2
    for bad, index in [
        (values + 1, [0, 1]),
        (-values, [0, 1]),
        (values * np.nan, [0, 1]),
        (values - 9, [0, 1]),
        (values[::-1], [0, 1]),
        (np.array([[0.0], [-np.inf], [-np.inf]]), [0, 1]),
        (values, [0, 9]),
        (values, [1, 1]),
    ]:
        with pytest.raises(InputError, match="top"):
            codec.decode(bad.astype("<f2").tobytes() + bytes(index), 1, 4)
    with pytest.raises(InputError, match="top values"):  # all classes sent, so that nothing is left for the others
        codecs.find("top5").decode(np.full((4, 1), 1000.0).astype("<f2").tobytes() + bytes([0, 1, 2]), 1, 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no frame at all",
        zstandard.ZstdCompressor().compress(b"\0" * 10**7),  # a bomb: 10 MB in 1 kB
        zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * 120),  # hides its size
        zstandard.ZstdCompressor().compress(b"\0" * 120)[:-3],
        zstandard.ZstdCompressor().compress(b"\0" * 120) + b"more",
    ],
)
def test_zstd_bodies_that_do_not_keep_their_promise(body: bytes) -> None:
    with pytest.raises(InputError):
        codecs.find("q7c60+zstd").decode(body, 10, 10)


def test_a_frame_that_lies_about_its_size() -> None:
    """The header of a bomb's frame, patched to promise what is expected."""
    honest = zstandard.ZstdCompressor().compress(b"\0" * 120)
    bomb = bytearray(zstandard.ZstdCompressor().compress(b"\0" * 200))
    assert honest[4] & 0xE0 == bomb[4] & 0xE0 == 0x20  # one byte of content size follows
    bomb[5] = 120
    with pytest.raises(InputError):
        codecs.find("q7c60+zstd").decode(bytes(bomb), 10, 10)
