"""Clients whose models, and files, have the classes alone that each holds, against clients with all classes.

    python benchmarks/own_classes.py --json benchmarks/results/own-classes.json

Ten clients (mlp, cnn) and a cnn-large that learns from the same files by each method, as long by each: 80 epochs, those
of fedol and fedol+ in four iterations. Digits (1,038 private images, 400 public) and Fashion-MNIST at 14 x 14 (3,000
and 600). "Teacher" is the accuracy of the first targets on the public set, whose labels do nothing but score; "server"
is on the test set; "bytes" are those of one upload. Nothing was decided on the seeds 10 to 12.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _record import script, table, write

from fedol.config import configure
from fedol.data import Dataset, load
from fedol.errors import InputError
from fedol.federation.scenario import Scenario, Scheme
from fedol.runs.evaluation import accuracy, summary_statistics
from fedol.seeding import numpy_generator
from fedol.training import drive

SEEDS, PARTITIONS = (10, 11, 12), ("dirichlet:0.05", "classes:2")
DATA: dict[str, dict[str, Any]] = {
    "digits": {"public": 400, "epochs": 20},
    "fashion-mnist": {"public": 600, "epochs": 10},
}
TRAIN, TEST = 3600, 2000  # of Fashion-MNIST
METHODS = {"fedol": {"iterations": 4, "server_epochs": 20}, "fedol+": {"iterations": 4, "server_epochs": 20}}
METHODS |= {"union": {"server_epochs": 80}}


def dataset(name: str) -> Dataset:
    """Digits as they are; of Fashion-MNIST a part, of a quarter of the pixels."""
    data = load(name)
    if name == "digits":
        return data
    rng, parts = numpy_generator(0, "part"), []
    for part, count in ((data.train, TRAIN), (data.test, TEST)):
        index = np.sort(rng.permutation(len(part))[:count])
        x = part.x[index].reshape(count, 1, 14, 2, 14, 2).mean((3, 5))
        parts += [np.rint(x).astype(np.uint8), part.y[index]]
    return Dataset.from_arrays(*parts, data.classes, "fashion-mnist 14 x 14")


def federation(
    name: str, data: Dataset, partition: str, seed: int, own: bool
) -> Iterator[tuple[str, dict[str, float]]]:
    """Every method's numbers; fedol and fedol+ read the same files."""
    shared = {"partition": partition, "seed": seed, "own_classes": own, **DATA[name]}
    here = Scenario(configure("quick", overrides={"method": "fedol", **METHODS["fedol"], **shared}), data)
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, list[Path]] = {}
        for method, settings in METHODS.items():
            config = configure("quick", overrides={"method": method, **settings, **shared})
            scheme = Scheme.of(here.under(config))
            sends = scheme.method.client.sends
            if sends not in files:
                files[sends] = [Path(folder) / sends / f"{k}.fedol" for k in range(config.clients)]
                for k, client in drive([scheme.client(k) for k in range(config.clients)], here.device):
                    client.send(files[sends][k])
            soft = scheme.teacher(files[sends]).targets(1, None).soft
            ((_, learnt),) = drive([scheme.server(files[sends])], here.device)
            test = here.data.test
            yield (
                method,
                {
                    "teacher": 100 * accuracy(soft, here.data.public_labels),
                    "server": 100 * accuracy(learnt.server.predict_log_proba(test.samples), test.y),
                    "bytes": float(np.mean([file.stat().st_size for file in files[sends]])),
                },
            )


def main() -> None:
    """Measure every federation both ways, and print and record the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cells: dict[tuple[str, str, str, bool], list[dict[str, float]]] = {}
    for name in DATA:
        try:
            data = dataset(name)
        except InputError as error:
            print(f"skipped: {error}")
            continue
        for partition in PARTITIONS:
            for seed in options.seeds:
                for own in (False, True):
                    for method, found in federation(name, data, partition, seed, own):
                        cells.setdefault((name, partition, method, own), []).append(found)
                        print(name, partition, seed, "own" if own else "all", method, found, flush=True)
    names = ("data", "partition", "method", "own_classes")
    results = [
        dict(zip(names, key, strict=True))
        | {
            kind: {**summary_statistics([run[kind] for run in runs]), "values": [run[kind] for run in runs]}
            for kind in KINDS
        }
        for key, runs in cells.items()
    ]
    if options.json:
        settings = {"seeds": options.seeds, "clients": 10, "data": DATA, "methods": METHODS}
        write(options.json, seed=min(options.seeds), settings=settings, results=results)
    lines = [
        [
            r["data"],
            r["partition"],
            r["method"],
            "own" if r["own_classes"] else "all",
            *(text(r[kind]) for kind in KINDS),
        ]
        for r in results
    ]
    table(["data", "partition", "method", "classes", *KINDS], lines)


KINDS = ("teacher", "server", "bytes")


def text(found: dict[str, Any]) -> str:
    """The mean and, of several, the spread."""
    return f"{found['mean']:,.1f}" + ("" if found["std"] is None else f" ± {found['std']:,.1f}")


if __name__ == "__main__":
    script(main)
