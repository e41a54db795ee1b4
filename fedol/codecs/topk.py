"""The k largest probabilities of each sample; the rest of the mass is spread evenly over the other classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedol.errors import InputError

TINY = 1e-30  # per class, where the k values leave nothing: keeps logarithms finite


@dataclass(frozen=True)
class TopK:
    """``k`` values per sample as float16, with their classes."""

    k: int

    @property
    def name(self) -> str:
        """For instance ``top10``."""
        return f"top{self.k}"

    def size(self, samples: int, classes: int) -> int:
        """Two bytes per value, one or two per class index."""
        return samples * self._kept(classes) * (2 + _index(classes).itemsize)

    def _kept(self, classes: int) -> int:
        return min(self.k, classes)

    def encode(self, log_probs: Tensor) -> bytes:
        """Values, then classes, rank by rank (alike values lie together and compress better)."""
        values, classes = log_probs.topk(self._kept(log_probs.shape[1]), 1)
        index = _index(log_probs.shape[1])
        stored = values.T.exp().numpy().astype("<f2")
        return stored.tobytes() + classes.T.numpy().astype(index).tobytes()

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """Values in [0, 1] of at most 1 together, distinct classes that exist."""
        k = self._kept(classes)
        cut = 2 * samples * k
        values = torch.from_numpy(np.frombuffer(data[:cut], "<f2").reshape(k, samples).T.astype(np.float32))
        index = torch.from_numpy(np.frombuffer(data[cut:], _index(classes)).reshape(k, samples).T.astype(np.int64))
        total = values.sum(1, keepdim=True)
        if not ((values >= 0) & (values <= 1)).all() or (total > 1.01).any() or (total <= 0).any():
            raise InputError("its top values are no probabilities")
        ordered = index.sort(1).values
        if (index >= classes).any() or (ordered[:, 1:] == ordered[:, :-1]).any():
            raise InputError("its top classes are not distinct classes of the task")
        rest = (1 - total).clamp_min(0) / max(1, classes - k)
        return rest.expand(-1, classes).scatter(1, index, values).clamp_min(TINY).log()


def _index(classes: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("u1") if classes <= 256 else np.dtype("<u2")
