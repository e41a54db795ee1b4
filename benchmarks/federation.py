"""What Flower costs over the in-process run: seconds, and bytes on the wire against the payload, for trivial clients.

    python benchmarks/federation.py --json benchmarks/results/federation.json

Seconds: the same job with K clients (an mlp, one epoch on a few digits; mixture, one iteration) in this process and as
Flower nodes on Ray, each in a process of its own; the results must be equal to the byte. Bytes: all that a deployed
node and its SuperLink exchange in one run, TLS, HTTP, the app and the waiting included (``_wire.py``).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _record import ROOT, script, seconds, table, write
from _wire import on_the_wire

JOB = {"partition": "iid", "public": 100, "client_models": "mlp", "server_model": "mlp", "width": 4, "device": "cpu"}
JOB |= {"epochs": 1, "method": "mixture", "iterations": 1}
PUBLIC = ((100, 10), (5_000, 100))  # images and classes: the job above, and the paper's CIFAR-100


def run(engine: str, clients: int, out: Path) -> float:
    """Wall seconds of one run in a new process, imports and start of the engine included."""
    options = [f"--{key.replace('_', '-')}={value}" for key, value in {**JOB, "clients": clients}.items()]
    command = [sys.executable, "-m", "fedol", "run", *options, "--engine", engine, "--out", str(out), "--json"]
    start = time.perf_counter()
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=where)
    return time.perf_counter() - start


def timed(clients: int, repeats: int, scratch: Path) -> dict[str, Any]:
    """Every engine's seconds, in turns; and the load of the machine, because other work is in every second here."""
    took: dict[str, list[float]] = {"process": [], "flower": []}
    for repeat in range(repeats):
        outs = {engine: scratch / f"{engine}-{clients}-{repeat}" for engine in took}
        for engine, out in outs.items():
            took[engine].append(run(engine, clients, out))
        one, two = ((out / "model.safetensors").read_bytes() for out in outs.values())
        assert one == two, "the engines differ"
    took["overhead"] = [b - a for a, b in zip(took["process"], took["flower"], strict=True)]
    mean = {name: statistics.mean(times) for name, times in took.items()}
    std = {name: statistics.stdev(times) if repeats > 1 else 0.0 for name, times in took.items()}
    return {"clients": clients, "seconds": took, "mean": mean, "std": std, "load": os.getloadavg()[1]}


def main() -> None:
    """Run every K, print the tables, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        times = [timed(clients, options.repeats, scratch) for clients in options.clients]
        wire = [on_the_wire(*size, scratch / f"wire-{number}") for number, size in enumerate(PUBLIC)]
    names = ["process", "flower", "overhead"]
    rows = [[f"{r['clients']}", *(f"{seconds(r['mean'][n])} ± {r['std'][n]:.2f}" for n in names)] for r in times]
    table(["clients", "in process", "on Flower", "overhead"], rows)
    print()
    columns = ["samples", "classes", "payload", "sent", "received"]
    table(
        [*columns, "sent / payload"],
        [[f"{w[c]:,}" for c in columns] + [f"{w['sent'] / w['payload']:.2f}"] for w in wire],
    )
    if options.json:
        settings = {"job": JOB, "repeats": options.repeats}
        write(options.json, seed=0, settings=settings, results={"seconds": times, "bytes": wire})


if __name__ == "__main__":
    script(main)
