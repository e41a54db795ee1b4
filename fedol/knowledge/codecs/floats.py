"""Log-probabilities as floating-point numbers: all of them, or the k largest of each sample.

The mean of all others is sent beside the k largest, because it cannot be had from what the k leave of 1: where they are
nearly all of it, a difference of roundings is left, and a pool of log-probabilities would be made of its logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedol.errors import InputError

LOWEST = -60_000.0  # float16 ends at 65,504; e to this is zero anyway
SUM_TOLERANCE = 0.01  # float16 rounds a log-probability of -5 by up to 0.002, alike in a whole row at worst


@dataclass(frozen=True)
class Floats:
    """``float32`` (exact) or ``float16``."""

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
    """``k`` values per sample and their classes, and one value for the rest; float16."""

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
