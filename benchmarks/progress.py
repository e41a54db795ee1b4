"""What live progress costs: ten small clients with their bars on a terminal, against the same without.

    python benchmarks/progress.py --json benchmarks/results/progress.json

The bars are drawn for real, into memory. Runs alternate. Compared is the processor time of the whole process, all its
threads together: it counts what the bars take, whatever else the machine is doing. Their difference is smaller than its
noise, so one picture of all bars is also timed by itself: it is drawn so many times a second, however fast one trains.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
from pathlib import Path

import torch
from _record import script, write
from rich.console import Console
from training import works

from fedol.report.live import LiveProgress
from fedol.training import Epoch, fit

EPOCHS, PICTURES = 200, 500


def run(bars: bool) -> float:
    device = torch.device("cpu")
    jobs = works(device, 16, EPOCHS)["ten clients"](1)
    console = Console(file=io.StringIO(), force_terminal=True)
    start = time.process_time()
    with LiveProgress(console, quiet=not bars) as progress:
        progress.stage("clients", EPOCHS * len(jobs))
        list(fit(jobs, device, progress.epoch))
    return time.process_time() - start


def drawing() -> float:
    """The share of one core that drawing takes, with all ten clients under way."""
    with LiveProgress(Console(file=io.StringIO(), force_terminal=True)) as progress:
        progress.stage("clients", 10 * EPOCHS)
        for job in works(torch.device("cpu"), 16, EPOCHS)["ten clients"](1):
            progress.epoch(Epoch(job, 1, 1.0, job.samples))
        start = time.process_time()
        for _ in range(PICTURES):
            progress._progress.refresh()
        return (time.process_time() - start) / PICTURES * progress._progress.live.refresh_per_second


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
    share = drawing()
    print(f"drawing takes {100 * share:.2f} % of one core")
    if options.json:
        ends = {"with_bars": [a for a, _ in pairs], "without": [b for _, b in pairs]}
        results = {**ends, "cost": cost, "std": spread, "drawing": share}
        write(options.json, seed=0, settings={"epochs": EPOCHS, "clients": 10}, results=results)


if __name__ == "__main__":
    script(main)
