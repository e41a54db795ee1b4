"""All randomness comes from one seed: each use derives a generator of its own by name.

Two uses never share a stream, so adding one (a new client, another iteration) changes no other.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for one named use, for instance ``derive(0, "client", 3, "init")``."""
    path = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "little") >> 1


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for one named use."""
    return np.random.default_rng(derive(seed, *names))
