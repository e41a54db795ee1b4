"""What live progress costs: ten small clients with their bars on a terminal, against the same without.

    python benchmarks/progress.py --json benchmarks/results/progress.json

The bars are drawn for real, into memory. Runs alternate. Compared is the processor time of the whole process, all its
threads together: it counts what the bars take, whatever else the machine is doing.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
from pathlib import Path

import torch
from _record import write
from rich.console import Console
from training import works

from fedol.report.progress import LiveProgress
from fedol.training import fit

EPOCHS = 200


def run(bars: bool) -> float:
    device = torch.device("cpu")
    jobs = works(device, 16, EPOCHS)["ten clients"](1)
    console = Console(file=io.StringIO(), force_terminal=True)
    start = time.process_time()
    with LiveProgress(console, quiet=not bars) as progress:
        progress.stage("clients", EPOCHS * len(jobs))
        list(fit(jobs, device, progress.epoch))
    return time.process_time() - start


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=15)
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    run(True)
    pairs = [(run(True), run(False)) for _ in range(options.repeats)]
    costs = [with_bars / without - 1 for with_bars, without in pairs]
    # The median of neighbours: the machine's clock drifts by more than the bars cost.
    cost, spread = statistics.median(costs), statistics.stdev(costs)
    print(f"with bars {100 * cost:+.2f} % (median of {len(costs)} pairs of runs, their std {100 * spread:.2f})")
    if options.json:
        results = {"with_bars": [a for a, _ in pairs], "without": [b for _, b in pairs], "cost": cost, "std": spread}
        write(options.json, seed=0, settings={"epochs": EPOCHS, "clients": 10}, results=results)


if __name__ == "__main__":
    main()
