"""What makes too sure masses of estimators useful? Ways to tame them, on heart and Adult, on seeds that decided.

    python benchmarks/taming.py --json benchmarks/results/taming.json

The federations and kinds of ``benchmarks/kinds.py``, estimators alone. Each client is fitted as the method does it, and
the union of the same answers is scored on the public set, whose labels nothing else sees, under each way to tame a
client's masses relative to n_k / n_u:

    as they are        nothing
    factor             divided by their mean, where it is above one
    power              the power that gives them a mean of one
    power of a half    and divided by their mean, where it is above one
    both               that power, or a half where it would be lower, and then a factor: what the method does
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from _record import ROOT, over_seeds, script, table, write
from kinds import COMMON, FOREST, PARTITIONS, SETTINGS, SIZES, TABLES, files
from torch import Tensor

from fedol.config import configure
from fedol.core import union
from fedol.core.union import Union
from fedol.federation.scenario import Scenario
from fedol.methods import union as method
from fedol.models.openset import OpenSet
from fedol.runs.evaluation import accuracy
from fedol.seeding import derive
from fedol.training import fit
from fedol.training.job import folds_of

SEEDS = (160, 161, 162)
DATA, KINDS = ("heart", "adult"), tuple(kind for kind in TABLES if kind != "mlp")
FOLDS = 2


def factored(relative: Tensor) -> Tensor:
    """Divided by their mean, where it is above one; in logarithms."""
    return relative - (torch.logsumexp(relative, 0) - math.log(len(relative))).clamp_min(0)


def power(relative: Tensor) -> Tensor:
    """The power that gives them a mean of one, however low it is."""
    if relative.exp().mean() <= 1:
        return relative
    low, high = 0.0, 1.0
    for _ in range(union.HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if (middle * relative).exp().mean() <= 1 else (low, middle)
    return low * relative


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "as they are": lambda relative: relative,
    "factor": factored,
    "power": power,
    "power of a half": lambda relative: factored(relative / 2),
    "both": lambda relative: union.tamed(relative, 1.0),
}


def scenario(name: str, partition: str, kind: str, data: Path, seed: int, out: Path) -> Scenario:
    """A federation of ``benchmarks/kinds.py``."""
    given: dict[str, Any] = {**COMMON, **SETTINGS[name], **files(name, data, seed, out)}
    given |= {"dataset": str(given.pop("data")), "partition": partition, "seed": seed, "method": "union"}
    model = FOREST if kind == "forest" else kind
    return Scenario(configure(given.pop("preset"), overrides={**given, "client_models": (model,)}))


def answered(here: Scenario, k: int) -> Tensor:
    """A client's log r_kc as its folds give them."""
    architecture = replace(here.client(k), folds=FOLDS)
    model = architecture.build(derive(here.config.seed, f"client {k}", "init"))
    assert isinstance(model, OpenSet)
    jobs = folds_of(here.job(k, architecture, model), model, here.public, len(architecture.classes))
    for result in fit(list(jobs), here.device):
        if result.error:
            raise SystemExit(result.error)
    return method.answers(model, here.public, architecture, here.device).double()


def score(here: Scenario) -> dict[str, float]:
    """The union's targets that are right, in %, under each way."""
    sums = {way: Union() for way in WAYS}
    for k, share in enumerate(here.shares):
        logs = answered(here, k)
        mass = torch.logsumexp(logs, 1) - math.log(len(share) / len(here.public))
        for way, tame in WAYS.items():
            sums[way].add(logs + (tame(mass) - mass)[:, None])
    labels = here.data.public_labels
    return {way: 100 * accuracy(total.posterior().float(), labels) for way, total in sums.items()}


def main() -> None:
    """Score every way on every federation, record and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "real", help="tables")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    method.tamed = lambda log_mass, share: log_mass  # here masses are tamed afterwards
    numbers = []
    for name in DATA:
        for partition in PARTITIONS[name]:
            for kind in KINDS:
                for seed in options.seeds:
                    with TemporaryDirectory() as out:
                        found = score(scenario(name, partition, kind, options.data, seed, Path(out)))
                    numbers += [((name, partition, kind, way), value) for way, value in found.items()]
                    print(
                        name, partition, kind, seed, {way: round(value, 1) for way, value in found.items()}, flush=True
                    )
    results = over_seeds(("data", "partition", "kind", "way"), numbers)
    if options.json:
        sizes = {name: list(SIZES[name]) for name in DATA}
        write(options.json, seed=min(options.seeds), settings={"seeds": options.seeds, "sizes": sizes}, results=results)
    shown = {(row["data"], row["partition"], row["kind"], row["way"]): row["mean"] for row in results}
    lines = [[*key, *(f"{shown[*key, way]:.1f}" for way in WAYS)] for key in dict.fromkeys(key[:3] for key in shown)]
    table(["data", "partition", "kind", *WAYS], lines)


if __name__ == "__main__":
    script(main)
