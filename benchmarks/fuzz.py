"""Hostile knowledge files for as long as you like; prints and records how many were tried.

    python benchmarks/fuzz.py --seconds 120 --json benchmarks/results/fuzz.json

Anything but a clean refusal or sound knowledge (an exception of another kind, a crash, more memory) ends it.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from pathlib import Path

from _record import ROOT, script, write

sys.path.insert(0, str(ROOT / "tests"))
from fuzzing import attempt, mutate


def main() -> None:
    """Mutate and read until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng, tried, taken = random.Random(options.seed), 0, 0
    attempt(mutate(rng))
    before, end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic() + options.seconds
    while time.monotonic() < end:
        data = mutate(rng)
        try:
            taken += attempt(data)
        except BaseException:
            Path("fuzz-finding.fedol").write_bytes(data)
            print(f"A finding after {tried:,} inputs; the bytes are in fuzz-finding.fedol.")
            raise
        tried += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{tried:,} inputs, {taken:,} taken as sound, {tried - taken:,} refused, 0 findings; memory +{grown:.1f} MiB."
    )
    if options.json:
        results = {"tried": tried, "taken": taken, "refused": tried - taken, "findings": 0, "memory_growth_mib": grown}
        write(options.json, seed=options.seed, settings={"seconds": options.seconds}, results=results)


if __name__ == "__main__":
    script(main)
