"""Log-probabilities as plain floating-point numbers."""

from __future__ import annotations

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
