"""Log-masses as a file holds them: in steps of a sixty-fourth of a nat."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedol.errors import InputError

STEPS = 64  # of a log mass to a nat: a ratio is off by at most 0.8 %
MASS_BYTES = 2  # of a sample's mass, where it is stored by itself


def coarse(log_mass: Tensor) -> Tensor:
    """Rounded to the steps, and no further from zero than two bytes reach."""
    return ((log_mass.double() * STEPS).round().clamp(-(1 << 15), (1 << 15) - 1) / STEPS).float()


def pack(log_mass: Tensor) -> bytes:
    """Two bytes each."""
    return (log_mass * STEPS).round().numpy().astype("<i2").tobytes()


def unpack(data: bytes, samples: int) -> tuple[Tensor, bytes]:
    """The masses, and what comes after them."""
    size = MASS_BYTES * samples
    if len(data) < size:
        raise InputError(f"it has masses of {len(data) // MASS_BYTES:,} samples instead of {samples:,}")
    return torch.from_numpy(np.frombuffer(data[:size], "<i2").astype(np.float32)) / STEPS, data[size:]
