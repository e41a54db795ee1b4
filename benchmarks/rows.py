"""Public tables of a hundred columns and up to a million rows: what reading, answering and distilling them takes.

    nice python benchmarks/rows.py --json benchmarks/results/rows.json

Eighty columns of numbers, a tenth of them missing, and twenty of categories, in a Parquet file and, for the smallest
size, in a CSV file too. A size is a process of its own, whose largest memory is that of everything together: the file
is read, the encoding fitted, the rows fingerprinted, ten clients (``mlp``, trained on 2,000 rows of theirs) answer, and
a server (``mlp``) learns from their pool for one epoch of batches of 1,024. Seconds are the processor's, of one core:
what else the machine does costs few.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import ROOT, script, table, write

from fedol.data import Table
from fedol.data.stored import load_samples
from fedol.distillation import distill
from fedol.knowledge import Knowledge
from fedol.model import Architecture, ServerModel
from fedol.progress import watched
from fedol.seeding import derive, numpy_generator
from fedol.training import Job, Recipe, fit

SIZES = (62_500, 250_000, 1_000_000)
NUMBERS, CATEGORIES, LEVELS, CLIENTS, PRIVATE = 80, 20, 12, 10, 2_000
CPU = torch.device("cpu")


def make(rows: int, file: Path) -> None:
    """A table in a file, a column at a time."""
    import pyarrow
    from pyarrow import csv, parquet

    columns: dict[str, Any] = {}
    rng = numpy_generator(0, "rows")
    for place in range(NUMBERS):
        columns[f"number {place}"] = pyarrow.array(
            rng.normal(size=rows).astype(np.float32), mask=rng.random(rows) < 0.1
        )
    words = pyarrow.array([f"word {level}" for level in range(LEVELS)])
    for place in range(CATEGORIES):
        columns[f"category {place}"] = words.take(pyarrow.array(rng.integers(0, LEVELS, rows)))
    made = pyarrow.table(columns)
    if file.suffix == ".csv":
        csv.write_csv(made, file)
    else:
        parquet.write_table(made, file)


def measure(file: Path) -> dict[str, Any]:
    """Seconds of each stage, and the process's largest memory."""
    spent: dict[str, float] = {}
    began = time.process_time()

    def done(stage: str) -> None:
        nonlocal began
        now = time.process_time()
        spent[stage], began = now - began, now

    public, _ = load_samples(file)
    assert isinstance(public, Table)
    done("read")
    prepare = public.fit()
    done("fit")
    _ = public.fingerprint
    done("fingerprint")
    clients = []
    for number in watched(range(CLIENTS), "clients"):
        architecture = Architecture.on(public, "mlp", ["no", "yes"], 16, prepare)
        chosen = numpy_generator(number, "private").choice(len(public), PRIVATE, replace=False)
        private = public.take(np.sort(chosen))
        y = torch.from_numpy((np.nan_to_num(private.values[:, 0]) > 0).astype(np.int64))
        job = Job(f"client {number}", architecture.build(derive(number, "init")), private, y, prepare, Recipe(2, 64))
        list(fit([job], CPU))
        clients.append(Knowledge.from_logits(ServerModel(job.model, architecture).predict_log_proba(public).numpy()))
    done("ten clients")
    settings: dict[str, Any] = {"epochs": 1, "batch_size": 1024, "iterations": 1, "method": "pooled"}
    distill(clients, public, model="mlp", device="cpu", **settings)
    done("server")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"rows": len(public), "file": file.suffix, "features": prepare.prepared(public.shape)[0]} | {
        "seconds": spent,
        "peak_gib": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for rows, ending in [(min(options.sizes), ".csv"), *((rows, ".parquet") for rows in options.sizes)]:
            file = Path(folder) / f"table{ending}"
            make(rows, file)
            words = [sys.executable, __file__, "--measure", str(file)]
            said = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout
            results.append(json.loads(said.splitlines()[-1]))
            file.unlink()
    stages = list(results[0]["seconds"])
    lines = []
    for one in results:
        each = [f"{one['seconds'][stage]:.1f}" for stage in stages]
        rate = f"{one['rows'] / sum(one['seconds'].values()):,.0f}"
        lines.append([f"{one['rows']:,}", one["file"], *each, rate, f"{one['peak_gib']:.2f}"])
    table(["rows", "file", *(f"{stage}, s" for stage in stages), "rows/s", "peak, GiB"], lines)
    if options.json:
        settings = {"numbers": NUMBERS, "categories": CATEGORIES, "clients": CLIENTS, "private": PRIVATE}
        write(options.json, seed=0, settings=settings, results=results)


if __name__ == "__main__":
    script(main)
