"""How a tensor is cut into programs for the kernels of ``fedol.models.cuda.kernels``."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from fedol.models.cuda.kernels import DEPENDENT

# "pdl": a kernel may be set up while the one before it still runs (programmatic dependent launch, from Hopper on); it
# waits for that one's results itself, so that only the launch is hidden.
LAUNCH = {"launch_pdl": bool(DEPENDENT)}


class Cut(NamedTuple):
    """How much a program takes in one turn: elements, how many of them in a row, by how many warps."""

    tile: int
    wide: int
    warps: int


# Measured on an H200 over the shapes of ResNet-56 at widths 16 and 64 (benchmarks/README.md).
ELEMENTWISE = Cut(4096, 64, 4)
SUMS = Cut(4096, 32, 4)
LARGE_SUMS, LARGE = Cut(4096, 64, 8), 1 << 22  # for many tensors of at least so many elements
PROGRAMS = 256  # that a sum is split over: about two per multiprocessor
GATHERED = 128  # of them over the rows, at the most: as many partial sums the last one adds up


class Shape:
    """How a channels-last tensor, seen as [rows, C], is cut into programs.

    Every other block size would be another kernel to compile. So the elementwise kernels see a tensor of few channels
    as rows of 64 elements, several of its own rows each, and all sums are gathered over the same number of programs.
    """

    def __init__(self, x: Tensor, sums: Cut) -> None:
        self._x = x
        self.elements, self.channels = x.numel(), x.shape[1]
        self.rows = self.elements // self.channels
        self.stride = ELEMENTWISE.wide if ELEMENTWISE.wide % self.channels == 0 else self.channels
        high, wide = self._block(ELEMENTWISE, self.stride)
        self.blocks = {"C": self.channels, "BM": high, "BC": wide, "num_warps": ELEMENTWISE.warps, **LAUNCH}
        self.grid = (triton.cdiv(self.elements, self.stride * high), triton.cdiv(self.stride, wide))
        high, wide = self._block(sums, self.channels)
        columns = triton.cdiv(self.channels, wide)
        programs = min(max(1, PROGRAMS // columns), GATHERED, triton.cdiv(self.rows, high))
        self.per_program = triton.cdiv(triton.cdiv(self.rows, programs), high) * high
        self.sum_grid = (triton.cdiv(self.rows, self.per_program), columns)
        self.sum_blocks = {"C": self.channels, "BM": high, "BC": wide, "P": GATHERED, "num_warps": sums.warps, **LAUNCH}

    @staticmethod
    def _block(cut: Cut, columns: int) -> tuple[int, int]:
        """Rows and columns of a program's block."""
        wide = min(cut.wide, triton.next_power_of_2(columns))
        return cut.tile // wide, wide

    def partial(self) -> Tensor:
        """Room for two sums per program and channel."""
        return torch.empty(self.sum_grid[0] * 2 * self.channels, device=self._x.device, dtype=torch.float32)
