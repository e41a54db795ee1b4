"""The fixed test part of a dataset that comes without one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def holdout(keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Mark one in five for testing (at least one of two or more): those whose key has the smallest SHA-256.

    The same on every machine and with every library version, and unrelated to the order the samples come in.
    """
    rank = sorted(range(len(keys)), key=lambda i: hashlib.sha256(keys[i].encode("utf-8", "surrogateescape")).digest())
    marked = np.zeros(len(keys), dtype=bool)
    marked[rank[: max(len(keys) // 5, 1 if len(keys) > 1 else 0)]] = True
    return marked
