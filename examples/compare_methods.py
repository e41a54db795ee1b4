"""Comparing methods on your own data: the same clients, the same uploads, one server per method.

    python examples/compare_methods.py comparison [DATA.npz]

DATA.npz has the arrays train_x, train_y, test_x and test_y; without it, the digits stand in. Clients train once for all
methods that send predictions, and a second start computes only what is new.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fedol.bench.plan import Progress
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.report.bench_pages import collect
from fedol.report.pages import write_report

METHODS = "local,feddf,fedet,fedkt,fedol,ensemble"


def compare(folder: Path, data: str = "digits", methods: str = METHODS, **settings: Any) -> dict[str, float]:
    """Test accuracy by method, for clients whose data are uneven."""
    wanted = {
        "kind": "one-round",
        "preset": "quick",
        "partitions": "dirichlet:0.3",
        "methods": methods,
        "seeds": "1",
        "settings": {"dataset": data, **settings},
    }
    outcome = Bench(Spec.from_json(wanted), folder).run(Progress())
    if outcome["failed"]:
        raise SystemExit("\n".join(outcome["failed"]))
    (table,) = collect(folder)["one_round"]
    (partition,) = table["partitions"]
    found = {row["label"]: row["cells"][partition]["mean"] for row in table["rows"]}
    for label, accuracy in sorted(found.items(), key=lambda pair: -pair[1]):
        print(f"{accuracy:7.1%}  {label}")
    print("Open", write_report(folder))
    return found


if __name__ == "__main__":
    compare(Path(sys.argv[1] if len(sys.argv) > 1 else "comparison"), *sys.argv[2:3])
