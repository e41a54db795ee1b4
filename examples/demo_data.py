"""Stand-ins for a real federation's data: public images, four organisations' shares, a test set. From the digits.

python examples/demo_data.py demo
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fedol.data import load, partition, split

CLIENTS = ("alice", "bob", "carol", "dave")


def write_demo(folder: Path, public: int = 400) -> None:
    """``public.npz``, ``test.npz`` and one ``NAME.npz`` per organisation, each with few of the classes."""
    folder.mkdir(parents=True, exist_ok=True)
    data = load("digits")
    parts = split(data, public, seed=0)
    np.savez_compressed(folder / "public.npz", public=parts.public)
    np.savez_compressed(folder / "test.npz", test_x=parts.test.x, test_y=parts.test.y)
    for name, share in zip(CLIENTS, partition(parts.private.y, "dirichlet:0.5", len(CLIENTS), 0, 10), strict=True):
        mine = parts.private.take(share)
        held = len(mine) // 5  # what the organisation keeps back to test its own model
        np.savez_compressed(
            folder / f"{name}.npz",
            train_x=mine.x[held:],
            train_y=mine.y[held:],
            test_x=mine.x[:held],
            test_y=mine.y[:held],
        )


if __name__ == "__main__":
    write_demo(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
