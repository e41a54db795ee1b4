"""Codecs that store every value by itself: floats, quantised steps, the largest few; and zstd around any of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
import zstandard
from torch import Tensor

from fedol.core.arrays import blocks
from fedol.errors import InputError


class Plain(Protocol):
    """Log-probabilities [samples, classes] to bytes and back."""

    @property
    def name(self) -> str:
        """What ``codecs.find`` knows it by."""

    def size(self, samples: int, classes: int) -> int:
        """Bytes before compression: known in advance, so that a reader allocates nothing on a stranger's word."""

    def encode(self, log_probs: Tensor) -> bytes:
        """To bytes."""

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """From bytes; an ``InputError`` says what is wrong with them. Rows need not be normalised."""


LOWEST = -60_000.0  # float16 ends at 65,504; e to this is zero anyway
SUM_TOLERANCE = 0.01  # float16 rounds a log-probability of -5 by up to 0.002, alike in a whole row at worst


@dataclass(frozen=True)
class Floats:
    """``float32`` (exact) or ``float16``: log-probabilities as they are."""

    bits: int

    @property
    def name(self) -> str:
        """For instance ``float16``."""
        return f"float{self.bits}"

    def size(self, samples: int, classes: int) -> int:
        """Bytes of the numbers."""
        return samples * classes * self.bits // 8

    def encode(self, log_probs: Tensor) -> bytes:
        """Little-endian, row by row."""
        return log_probs.clamp_min(LOWEST).numpy().astype(f"<f{self.bits // 8}").tobytes()

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """Here alone a file can hold numbers that are no distribution, so here they are checked."""
        array = np.frombuffer(data, f"<f{self.bits // 8}").reshape(samples, classes).astype(np.float32)
        if not np.isfinite(array).all():
            raise InputError("its predictions hold NaN or an infinity")
        if array.max() > 0.001:
            raise InputError(f"it holds a probability above 1 (sample {int(array.max(1).argmax())})")
        log_probs = torch.from_numpy(array)
        off = (log_probs.exp().sum(1) - 1).abs()
        if off.max() > SUM_TOLERANCE:
            raise InputError(f"the probabilities of sample {int(off.argmax())} do not sum to 1")
        return log_probs


@dataclass(frozen=True)
class TopK:
    """``k`` values per sample and their classes, and one value for the rest; float16.

    The mean of all others is sent beside the k largest, because it cannot be had from what the k leave of 1: where they
    are nearly all of it, a difference of roundings is left, and a pool of log-probabilities would be made of its
    logarithm.
    """

    k: int

    @property
    def name(self) -> str:
        """For instance ``top10``."""
        return f"top{self.k}"

    def size(self, samples: int, classes: int) -> int:
        """Two bytes per value, one, two or four per class index."""
        return samples * (self._kept(classes) * (2 + _index(classes).itemsize) + 2)

    def _kept(self, classes: int) -> int:
        return min(self.k, classes)

    def encode(self, log_probs: Tensor) -> bytes:
        """Values, the rest's the last, then classes, rank by rank (alike values lie together and compress better)."""
        count, k = log_probs.shape[1], self._kept(log_probs.shape[1])
        values, classes = log_probs.topk(k, 1)
        others = torch.logsumexp(log_probs.scatter(1, classes, -math.inf), 1) - math.log(max(1, count - k))
        others = others.minimum(values[:, -1])  # which it is, but for rounding, where these are all alike
        stored = torch.cat([values.T, others[None]]).clamp_min(LOWEST).numpy().astype("<f2")
        return stored.tobytes() + classes.T.numpy().astype(_index(count)).tobytes()

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """Numbers in descending order whose exponentials sum to 1, distinct classes that exist."""
        k = self._kept(classes)
        cut = 2 * samples * (k + 1)
        stored = torch.from_numpy(np.frombuffer(data[:cut], "<f2").reshape(k + 1, samples).T.astype(np.float32))
        index = torch.from_numpy(np.frombuffer(data[cut:], _index(classes)).reshape(k, samples).T.astype(np.int64))
        values, rest = stored[:, :k], stored[:, k:]
        ordered = (stored[:, 1:] <= stored[:, :-1]).all() and torch.isfinite(stored).all()
        total = values.exp().sum(1) + (classes - k) * rest[:, 0].exp()
        if not (ordered and ((total - 1).abs() <= SUM_TOLERANCE).all()):
            raise InputError("its top values are no probabilities")
        named = index.sort(1).values
        if (index >= classes).any() or (named[:, 1:] == named[:, :-1]).any():
            raise InputError("its top classes are not distinct classes of the task")
        return rest.expand(-1, classes).scatter(1, index, values)


def _index(classes: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("u1") if classes <= 1 << 8 else np.dtype("<u2") if classes <= 1 << 16 else np.dtype("<u4")


GAP_LEAST = 2.0**-20  # keeps the top class on top in float32, even where two are equal
GAP_LIMIT = 80.0  # e^-80 is zero for every purpose, and far inside float16


@lru_cache
def grid(bits: int, clip: int) -> tuple[Tensor, Tensor]:
    """The levels in nats below the runner-up, and the borders between them.

    Companding: half of the levels are even in the cube root of the ratio of probabilities, half in the logarithm of
    the distance.
    """
    count = (1 << bits) - 1  # code 0 is the top class
    nats = np.linspace(0, clip, 100_001)
    even = (1 - np.exp(-nats / 3)) / (1 - np.exp(-clip / 3)) + np.log1p(nats) / np.log1p(clip)
    steps = np.linspace(0, 2, 2 * count - 1)  # levels at even, borders at odd positions
    values = torch.from_numpy(np.interp(steps, even, nats)).float()
    return values[::2].contiguous(), values[1::2].contiguous()


@dataclass(frozen=True)
class Quantised:
    """``bits`` per value (2 to 8), clipped ``clip`` nats below the runner-up: levels laid where Algorithm 1 looks.

    Per sample: which class is on top (code 0), how far the runner-up is below it (float16), and how far every other
    class is below the runner-up (codes 1 and up). So the vote is exact, and so, nearly, is the entropy of a confident
    sample, which the runner-up alone decides. A plain grid over log-probabilities of the same size changes three times
    as many labels (``benchmarks/results/codecs.json``). The grid is fine for the next few classes and coarse in the
    tail, yet reaches far: pooling of log-probabilities needs to know whether a class is 10 or 40 nats down.
    """

    bits: int
    clip: int

    @property
    def name(self) -> str:
        """For instance ``q7c60``."""
        return f"q{self.bits}c{self.clip}"

    def size(self, samples: int, classes: int) -> int:
        """One byte per value (compression finds the unused bits) and two per sample."""
        return samples * (classes + 2)

    def encode(self, log_probs: Tensor) -> bytes:
        """The codes class by class (a class's column compresses better than a sample's row), then the gaps."""
        top = log_probs.argmax(1, keepdim=True)
        first, second = log_probs.topk(2, 1).values.T
        gap = (first - second).clamp(GAP_LEAST, GAP_LIMIT).numpy().astype("<f2")
        below = second[:, None] - log_probs
        codes = torch.bucketize(below, grid(self.bits, self.clip)[1]).to(torch.uint8) + 1
        halves = gap.view(np.uint8).reshape(-1, 2).T  # low bytes, then high ones: these are alike
        columns = codes.scatter(1, top, 0).T.numpy()
        return b"".join([columns.tobytes(), halves.tobytes()])

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """Exactly one class on top per sample, gaps that are numbers, codes on the grid."""
        levels, _ = grid(self.bits, self.clip)
        raw = np.frombuffer(data, np.uint8)
        codes, halves = raw[: samples * classes].reshape(classes, samples), raw[samples * classes :].reshape(2, samples)
        gap = np.ascontiguousarray(halves.T).view("<f2")[:, 0].astype(np.float32)
        if not ((gap >= 0) & (gap <= GAP_LIMIT)).all():
            raise InputError(f"a sample's gap lies outside 0 to {GAP_LIMIT:g} nats")
        top = codes == 0
        if codes.max() > len(levels) or (top.sum(0, dtype=np.int32) != 1).any():
            raise InputError(f"its codes are none of {self.name}")
        values = np.concatenate([[0], -levels.numpy()]).astype(np.float32)
        log_probs = np.empty((samples, classes), np.float32)
        for rows in blocks(samples, classes):
            own = np.ascontiguousarray(codes[:, rows].T)
            log_probs[rows] = values.take(own) - gap[rows, None] * (own > 0)
        return torch.from_numpy(log_probs)


LEVEL = 19  # once per client; 5,000 x 100 predictions take under a second


@dataclass(frozen=True)
class Zstd:
    """``inner``, then zstd. What a stranger's frame claims to hold is compared before a byte of it is unpacked."""

    inner: Plain

    @property
    def name(self) -> str:
        """For instance ``q7c60+zstd``."""
        return f"{self.inner.name}+zstd"

    def size(self, samples: int, classes: int) -> int:
        """Bytes once unpacked."""
        return self.inner.size(samples, classes)

    def encode(self, log_probs: Tensor) -> bytes:
        """One frame that names its size."""
        return zstandard.ZstdCompressor(level=LEVEL, write_content_size=True).compress(self.inner.encode(log_probs))

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """The frame must promise exactly the size it must have (a bomb promises more), and keep the promise."""
        expected = self.size(samples, classes)
        try:
            promised = zstandard.frame_content_size(data)
            if promised != expected:
                raise InputError(f"its body unpacks to {promised:,} bytes instead of {expected:,}")
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=expected, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise InputError(f"its body is no zstd frame ({error})") from None
        if len(raw) != expected:
            raise InputError(f"its body unpacks to {len(raw):,} bytes instead of {expected:,}")
        return self.inner.decode(raw, samples, classes)
