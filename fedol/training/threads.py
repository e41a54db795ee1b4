"""How many cores one piece of work may use; fixed per piece, because the number of threads can change rounding."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedol.training.job import ALL_CORES


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch's CPU kernels on ``count`` threads (``ALL_CORES``: all of them) for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(cores() if count == ALL_CORES else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
