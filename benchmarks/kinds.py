"""Does it work on tables and texts? Every kind of client on four hospitals, Adult and AG News, through the product.

    python benchmarks/kinds.py --json benchmarks/results/kinds.json

Each federation is a ``fedol.compare`` on CSV files: clients and server of one kind, which are networks of FedOL's
(``mlp``, server ``mlp-large``) or the same estimator. Methods hear the same clients; the union's learn the class
"public" as well. Beside the methods' servers stand

    local     the mean client
    ensemble  the clients' λ mixture on the test set, nothing trained; "ensemble, pooled" is their pool
    central   a model of the server's kind on all private rows: the one client of a federation of one

"Targets" is how many of the public samples a method's targets have right, whose labels nothing else sees. Nothing was
decided on the seeds 70 to 72; epochs, sizes and the number of iterations were set on 160, how masses are tamed on 160
to 165, that ``logistic`` scales nothing on 160 to 162.

Small enough for a core of which others have half: the sizes are in ``SIZES`` (private, public, test), drawn anew for
each seed from the files under ``--data``. FedOL and FedOL+ train in 2 iterations instead of 10, forests have 100 trees
instead of 300. With ``--json`` every federation is kept as it is done, and a second start of the same commit and
settings goes on.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightgbm
import sklearn
import torch
import xgboost
from _record import ROOT, asked, kept, over_seeds, script, table, write
from sklearn.ensemble import RandomForestClassifier

import fedol
from fedol.bench.store import BenchFolder
from fedol.errors import InputError
from fedol.seeding import numpy_generator

sys.path.append(str(ROOT / "examples"))
from hospitals import COLUMNS, patients

SEEDS = (70, 71, 72)
CLIENTS, ITERATIONS = 10, 2
METHODS = ("fedol", "fedol+", "pooled", "union")
SHOWN = ("local", "ensemble", *METHODS, "central")
SIZES = {"heart": (500, 250, 170), "adult": (4000, 1000, 3000), "ag-news": (4000, 1000, 1500)}
TABLES = ("mlp", "logistic", "forest", "hist-boosting", "lightgbm", "xgboost")
KINDS = {"heart": TABLES, "adult": TABLES, "ag-news": ("mlp", "logistic")}
PARTITIONS = {
    "heart": ("column:hospital",),
    "adult": ("column:occupation", "dirichlet:0.1"),
    "ag-news": ("dirichlet:0.05", "dirichlet:1", "iid"),
}
COMMON: dict[str, Any] = {"preset": "quick", "iterations": ITERATIONS, "device": "cpu"}
SETTINGS: dict[str, dict[str, Any]] = {
    "heart": {
        "label": "diagnosis",
        "categories": "cp,restecg,slope,thal",
        "missing": "-9",
        "clients": 4,
        "epochs": 30,
        "lr": 0.003,
    },
    "adult": {"label": "classification", "clients": CLIENTS, "epochs": 10, "batch_size": 64},
    "ag-news": {"label": "class", "text": "title,text", "clients": CLIENTS, "epochs": 5, "batch_size": 64},
}
FOREST = RandomForestClassifier(100, min_samples_leaf=2)  # FedOL's has 300 trees
PACKAGES = {package.__name__: package.__version__ for package in (sklearn, lightgbm, xgboost)}
Row = list[str]


def heart(folder: Path) -> tuple[Row, list[Row], list[Row]]:
    """Four hospitals, whose patients are training and test rows alike."""
    return [*COLUMNS, "hospital", "diagnosis"], patients(folder / "heart"), []


def adult(folder: Path) -> tuple[Row, list[Row], list[Row]]:
    """Income, with UCI's own test rows."""
    header, *train = _rows(folder / "adult" / "adult.data.gz")
    _, *test = _rows(folder / "adult" / "adult.test.gz")
    return header, train, [[*row[:-1], row[-1].rstrip(".")] for row in test]


def news(folder: Path) -> tuple[Row, list[Row], list[Row]]:
    """Titles and texts."""
    return ["class", "title", "text"], _rows(folder / "ag_news" / "test.csv.gz"), []


def _rows(file: Path) -> list[Row]:
    with gzip.open(file, "rt", newline="", encoding="utf-8") as stream:
        return [row for row in csv.reader(stream, skipinitialspace=True) if row]


READERS = {"heart": heart, "adult": adult, "ag-news": news}


def files(name: str, data: Path, seed: int, out: Path) -> dict[str, Any]:
    """Training and test rows of a seed as two CSV files; a table's own test rows where it has some."""
    header, train, test = READERS[name](data)
    private, public, held = SIZES[name]
    rng = numpy_generator(seed, "split")
    rows = [train[place] for place in rng.permutation(len(train))]
    cut = private + public
    tested = [test[place] for place in rng.permutation(len(test))[:held]] if test else rows[cut : cut + held]
    for part, chosen in (("train", rows[:cut]), ("test", tested)):
        with (out / f"{part}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *chosen])
    return {"data": out / "train.csv", "test": str(out / "test.csv"), "public": public}


def federation(name: str, partition: str, kind: str, data: Path, seed: int) -> dict[str, Any]:
    """Accuracies in % of every method's server and targets, and of what stands beside them."""
    model = FOREST if kind == "forest" else kind
    server = "mlp-large" if kind == "mlp" else model
    with TemporaryDirectory() as folder:
        out = Path(folder)
        given = {**COMMON, **SETTINGS[name], **files(name, data, seed, out)}
        given |= {"partitions": partition, "seeds": [seed], "progress": False, "server_model": server}
        fedol.compare(methods=("local", "ensemble", *METHODS), out=out / "federation", client_models=(model,), **given)
        one = {**given, "clients": 1, "client_models": (server,)}
        fedol.compare(methods=("local",), out=out / "central", **one)
        found = {result["method"]: result for result in BenchFolder(out / "federation").results()}
        (central,) = BenchFolder(out / "central").results()
    scores = {method: 100 * result["accuracy"] for method, result in found.items()}
    scores["ensemble, pooled"] = 100 * found["ensemble"]["ensembles"]["pooled"]
    scores["central"] = 100 * central["accuracy"]
    targets = {m: 100 * found[m]["history"][-1]["diagnostics"]["target_accuracy"] for m in METHODS}
    return {"accuracy": scores, "targets": targets}


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    """Every federation, one seed after the other, of the data that are here."""
    here = [name for name in options.only or SIZES if (options.data / name.replace("-", "_")).is_dir()]
    if not here:
        raise InputError(f"There are no data in {options.data}; say with --data where they are.")
    for seed in options.seeds:
        for name in here:
            for partition in PARTITIONS[name]:
                for kind in KINDS[name]:
                    yield name, partition, kind, seed


def summary(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every number over its seeds."""
    numbers = (
        ((cell["data"], cell["partition"], cell["kind"], quantity, method), value)
        for cell in cells
        for quantity in ("accuracy", "targets")
        for method, value in cell[quantity].items()
    )
    return over_seeds(("data", "partition", "kind", "quantity", "method"), numbers)


def main() -> None:
    """Score every federation, keep it, print the table."""
    options = asked(__doc__, SIZES, SEEDS)
    os.nice(5)
    torch.set_num_threads(1)
    sizes = {name: list(size) for name, size in SIZES.items()}
    settings = {"seeds": options.seeds, "sizes": sizes, "common": COMMON, "own": SETTINGS, "versions": PACKAGES}
    cells = kept(options.json, settings)
    done = {(cell["data"], cell["partition"], cell["kind"], cell["seed"]) for cell in cells}
    for name, partition, kind, seed in wanted(options):
        if (name, partition, kind, seed) in done:
            continue
        start = time.perf_counter()
        found = federation(name, partition, kind, options.data, seed)
        about = {"data": name, "partition": partition, "kind": kind, "seed": seed}
        cells.append({**about, "seconds": time.perf_counter() - start, **found})
        shown = {method: round(found["accuracy"][method], 1) for method in SHOWN}
        print(*about.values(), f"{cells[-1]['seconds']:.0f} s", shown, flush=True)
        if options.json:
            results = {"summary": summary(cells), "cells": cells}
            write(options.json, seed=min(options.seeds), settings=settings, results=results)
    rows = {(row["data"], row["partition"], row["kind"], row["quantity"], row["method"]): row for row in summary(cells)}
    lines = []
    for key in dict.fromkeys(key[:3] for key in rows):
        mine = [rows[(*key, "accuracy", method)] for method in SHOWN]
        lines.append([*key, str(mine[0]["n"]), *(f"{row['mean']:.1f}" for row in mine)])
    table(["data", "partition", "kind", "n", *SHOWN], lines)


if __name__ == "__main__":
    script(main)
