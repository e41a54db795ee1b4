"""What waiting threads cost: `fedol run` with OpenMP's usual wait policy and with ours, beside busy cores and without.

    python benchmarks/threads.py --json benchmarks/results/threads.json

OpenMP's threads spin for some milliseconds before they sleep, unless the wait policy is passive, which `import fedol`
makes it where nobody has said otherwise. A core is kept busy by a loop in another process. The runs of a round follow
each other, in an order that changes from round to round; compared are the medians.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _record import ROOT, script, seconds, table, write

from fedol.training.cpu import cores

USUAL, OURS = "usual", "passive"
# torch reads the policy as it is imported: before fedol's import it is as the system has it.
BEGIN = {USUAL: "import torch; ", OURS: ""}
BUSY = "while True: pass"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many cores that have something else to do."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run(policy: str, words: list[str]) -> float:
    """Seconds of a whole `fedol run`, from Python's start to its end."""
    unsaid = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    env = {name: value for name, value in os.environ.items() if name not in unsaid} | {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{BEGIN[policy]}from fedol.cli import main; main()"
        command = [sys.executable, "-c", program, "run", "--quiet", f"--out={folder}/run", "--device=cpu", *words]
        started = time.perf_counter()
        subprocess.run(command, check=True, env=env)
        return time.perf_counter() - started


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--busy", type=int, nargs="*", default=[0, 1], help="how many other cores are kept busy")
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("settings", nargs="*", help="of the run, after --")
    options = arguments.parse_args()
    draw = random.Random(0)
    results = []
    for count in options.busy:
        times: dict[str, list[float]] = {USUAL: [], OURS: []}
        load = os.getloadavg()[0]
        with busy(count):
            for _ in range(options.repeats):
                for policy in draw.sample([USUAL, OURS], 2):
                    times[policy].append(run(policy, options.settings))
        medians = {policy: statistics.median(taken) for policy, taken in times.items()}
        ratio = medians[USUAL] / medians[OURS]
        results.append({"busy": count, "load_before": load, "seconds": times, "medians": medians, "ratio": ratio})
    rows = [
        [
            str(found["busy"]),
            *(f"{seconds(min(taken))} to {seconds(max(taken))}" for taken in found["seconds"].values()),
            f"{found['ratio']:.2f}",
        ]
        for found in results
    ]
    table(["busy", "usual", "passive", "times"], rows)
    if options.json:
        settings = {"repeats": options.repeats, "cores": cores(), "words": options.settings}
        write(options.json, seed=0, settings=settings, results=results)


if __name__ == "__main__":
    script(main)
