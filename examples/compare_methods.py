"""Comparing methods on your own data: the same clients, the same uploads, one server per method.

    python examples/compare_methods.py comparison [DATA.npz]

DATA.npz has the arrays train_x, train_y, test_x and test_y; without it, the digits stand in. Clients train once for all
methods that send predictions, and a second start computes only what is new.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Unpack

import fedol
from fedol.methods import title
from fedol.settings.keywords import GridKeywords

METHODS = "local,feddf,fedet,fedkt,fedol,union,ensemble"


def compare(
    folder: Path, data: str = "digits", methods: str = METHODS, **settings: Unpack[GridKeywords]
) -> dict[str, float]:
    """Test accuracy by method, for clients whose data are uneven."""
    found = fedol.compare(data, methods, "dirichlet:0.3", seeds=1, out=folder, **settings)
    print(found)
    print("Open", found.report())
    return {title(record["method"]): record["accuracy"] for record in found.table.records()}


if __name__ == "__main__":
    compare(Path(sys.argv[1] if len(sys.argv) > 1 else "comparison"), *sys.argv[2:3])
