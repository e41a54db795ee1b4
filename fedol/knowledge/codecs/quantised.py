"""Log-probabilities on a few levels, laid where Algorithm 1 and the mixture look.

Per sample: which class is on top (code 0), how far the runner-up is below it (float16), and how far every other class
is below the runner-up (codes 1 and up). So the vote is exact, and so, nearly, is the entropy of a confident sample,
which the runner-up alone decides. A plain grid over log-probabilities of the same size changes three times as many
labels (``benchmarks/results/codecs.json``).
The grid is fine for the next few classes and coarse in the tail, yet reaches far: pooling of log-probabilities needs
to know whether a class is 10 or 40 nats down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedol.errors import InputError

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
    """``bits`` per value (2 to 8), clipped ``clip`` nats below the runner-up."""

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
        log_probs = np.concatenate([[0], -levels.numpy()]).astype(np.float32).take(codes)
        np.subtract(log_probs, gap, out=log_probs, where=~top)
        return torch.from_numpy(log_probs.T.copy())
