"""Hostile files for as long as you like, through every layer that reads one; records how many went through which.

    python benchmarks/fuzz.py --seconds 1200 --json benchmarks/results/fuzz.json

Layers take turns, so each has the same time. Anything but a clean refusal or sound content ends it: an exception of
another kind, a reason that is long or cannot be printed, a roster that cannot be read back (tests/support/fuzzing.py).
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from pathlib import Path

from _record import ROOT, script, table, write

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fuzzing import LAYERS, Layer

TURN = 1.0  # seconds that a layer has before the next one
FINDING = Path("fuzz-finding.bin")


def turn(layer: Layer, rng: random.Random, end: float) -> tuple[int, int]:
    """How many inputs a layer was given until then, and how many of them it took as sound."""
    tried = taken = 0
    while time.monotonic() < end:
        data = layer.make(rng)
        try:
            taken += layer.attempt(data)
        except Exception:
            FINDING.write_bytes(data)
            print(f"A finding in {layer.title}; its bytes are in {FINDING}.")
            raise
        tried += 1
    return tried, taken


def peak() -> float:
    """The most memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Mutate and read until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng, counts = random.Random(options.seed), {name: [0, 0] for name in LAYERS}
    end = time.monotonic() + options.seconds
    before = 0.0  # memory after the first turn of each, when everything is imported
    while time.monotonic() < end:
        for name, layer in LAYERS.items():
            for place, number in enumerate(turn(layer, rng, min(end, time.monotonic() + TURN))):
                counts[name][place] += number
        before = before or peak()
    layers = {
        name: {"layer": LAYERS[name].title, "tried": tried, "taken": taken, "refused": tried - taken}
        for name, (tried, taken) in counts.items()
    }
    tried, grown = sum(layer["tried"] for layer in layers.values()), peak() - before
    columns = ("layer", "tried", "taken", "refused")
    table(columns, [[f"{v:,}" if isinstance(v, int) else v for v in map(row.get, columns)] for row in layers.values()])
    print(f"\n{tried:,} inputs, 0 findings; memory +{grown:.1f} MiB after the first turns.")
    if options.json:
        results = {"tried": tried, "findings": 0, "layers": layers, "memory_growth_mib": grown}
        write(options.json, seed=options.seed, settings={"seconds": options.seconds}, results=results)


if __name__ == "__main__":
    script(main)
