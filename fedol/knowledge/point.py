"""Predictions as a point of a lattice, z = mean + q·B with whole numbers q: what a reader does.

Log-probabilities of C classes, centred, lie near a space of few dimensions r: a net's last layer is one. A file holds
that space and, for each sample, its place there on a grid; ``fedol.knowledge.transform`` chooses both. Little-endian:

    u16 r | i16 mean[W] in 1/256 nat | u8 exponent[r] | u8 model of B[r] | u8 model of q[r] | B's rows, q's columns

B[j, c] = b[j, c] / 2^exponent[j] with whole b. W is C and, where the client sends masses, one more: the last column is
then u = mean_c log r_kc, which is linear in a net's outputs as the others are, and log m_k = u + log Σ_c e^(z_c). Every
sum is one of multiples of 2^-15 below 2^35, which float64 holds exactly, in whatever order a machine adds: all read the
same numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedol.errors import InputError
from fedol.knowledge import rans
from fedol.knowledge.rans import Integers

Floats = npt.NDArray[np.float64]

GRAIN = 256  # of the mean, to a nat
EXPONENTS = 16
MOST_AXES = 1023  # so that sums stay exact


@dataclass(frozen=True)
class Point:
    """What is sent, in whole numbers."""

    mean: Integers  # [W]
    exponent: Integers  # [r]
    b: Integers  # [r, W]
    q: Integers  # [N, r]

    def values(self, rows: slice = slice(None)) -> Floats:
        """z [N, W] of these rows, exactly."""
        return self.q[rows].astype(np.float64) @ basis(self.b, self.exponent) + self.mean / GRAIN

    def pack(self) -> bytes:
        """As a body."""
        columns = [*self.b, *self.q.T]
        models = [rans.cheapest(column) for column in columns]
        r = len(self.b)
        sides = np.array([self.exponent, models[:r], models[r:]], np.uint8).tobytes()
        head = struct.pack("<H", r) + self.mean.astype("<i2").tobytes() + sides
        return head + rans.encode(columns, models) if r else head

    @classmethod
    def unpack(cls, data: bytes, samples: int, width: int) -> Point:
        """The reverse for a stranger's bytes; nothing is allocated that this many samples and columns do not need."""
        head = 2 + 2 * width
        r = struct.unpack_from("<H", data)[0] if len(data) >= head else MOST_AXES + 1
        if r > min(samples, width, MOST_AXES):
            raise InputError("its body names no possible number of axes")
        if len(data) < head + 3 * r or (not r and len(data) > head):
            raise InputError("its body has no possible size")
        mean = np.frombuffer(data, "<i2", width, 2).astype(np.int64)
        exponent, *models = np.frombuffer(data, np.uint8, 3 * r, head).reshape(3, r).astype(np.int64)
        if (exponent >= EXPONENTS).any() or (np.array(models) >= rans.MODELS).any():
            raise InputError("its body names a grid or a model that there is not")
        if not r:
            return cls(mean, exponent, np.zeros((0, width), np.int64), np.zeros((samples, 0), np.int64))
        columns = rans.decode(data[head + 3 * r :], lengths(r, samples, width), np.concatenate(models).tolist())
        return cls(mean, exponent, np.stack(columns[:r]), np.stack(columns[r:], 1))


def basis(b: Integers, exponent: Integers) -> Floats:
    """B [r, W]."""
    return b * 2.0 ** -exponent[:, None]


def lengths(r: int, samples: int, width: int) -> Sequence[int]:
    """Of the columns that are coded."""
    return [width] * r + [samples] * r
