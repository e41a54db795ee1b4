"""What masses tell: a server, which samples are like nobody's data; an attacker, who was in the training. On digits.

    python benchmarks/masses.py --json benchmarks/results/masses.json

Unknown: some of the ten classes are missing from every client, though not from the public set and the test set. The
server of the method union flags test images by its own entropy (``ServerModel.known``). Recorded is how well that
entropy tells images of missing classes from the others (AUROC), which shares of both are flagged, and, to hold it to,
the same AUROC for the server of the pool. Membership: a client of 150 images that knows them by heart, attacked by
thresholds on the masses, on the predictions of the same model, and on those of one that was trained without folds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write

from fedol import Knowledge
from fedol.core.voting import shannon
from fedol.data import Labelled, load, partition, split
from fedol.data.samples import Samples
from fedol.distillation import learn
from fedol.methods import Distillation, knowing
from fedol.methods.union import answers
from fedol.model import Architecture, ServerModel
from fedol.models.openset import OpenSet
from fedol.privacy.audit import audit
from fedol.seeding import derive
from fedol.training import Job, Recipe, drive, fit
from fedol.training.job import folds_of

CPU, CLASSES, CLIENTS, SEEDS = torch.device("cpu"), 10, 5, 3
NAMES = [str(c) for c in range(CLASSES)]
SPLITS = [("dirichlet:0.3", 0), ("dirichlet:0.3", 1), ("dirichlet:0.3", 2), ("dirichlet:0.3", 5)]
SPLITS += [("dirichlet:0.05", 0), ("dirichlet:0.05", 5), ("iid", 0)]


def trained(mine: Labelled, public: Samples, name: str, model: str, seed: int, epochs: int, folds: int) -> ServerModel:
    """A client's model; with folds, one that also knows what is public."""
    architecture = replace(Architecture.on(mine.samples, model, NAMES, 16), folds=folds)
    net = architecture.build(derive(seed, name, "init"))
    labels, recipe = torch.from_numpy(mine.y), Recipe(epochs=epochs, batch_size=32)
    whole = Job(name, net, mine.samples, labels, architecture.prepare, recipe, derive(seed, name))
    jobs = folds_of(whole, net, public, CLASSES) if isinstance(net, OpenSet) else [whole]
    for _ in fit(list(jobs), CPU):
        pass
    return ServerModel(net, architecture)


def unknown(scheme: str, missing: int, seed: int) -> dict[str, Any]:
    """One federation whose clients lack some classes."""
    data = split(load("digits"), 400, seed=seed)
    held = np.sort(np.random.default_rng(seed).permutation(CLASSES)[missing:])
    private = data.private.take(np.flatnonzero(np.isin(data.private.y, held)))
    shares = partition(np.searchsorted(held, private.y), scheme, CLIENTS, seed, len(held))
    knowledge = []
    for k, share in enumerate(shares):
        mine = private.take(share)
        model = trained(mine, data.shared, f"client {k}", ("mlp", "cnn")[k % 2], seed, 20, 2)
        logs = answers(model.module, data.shared, model.architecture, CPU)  # type: ignore[arg-type]
        knowledge.append(Knowledge.from_log_ratios(logs, None, f"client {k}", len(mine), 2))
    strange, found = ~np.isin(data.test.y, held), dict[str, Any]()
    for method in ("union", "pooled"):
        plan = Distillation(method, recipe=Recipe(epochs=40, batch_size=32))
        server = Architecture.on(data.shared, "cnn-large", NAMES, 16)
        process = learn(knowing(method), knowledge, data.shared, server, plan, seed, CPU)
        ((_, learnt),) = drive([process], CPU)
        probs = learnt.server.predict_proba(data.test.samples)
        found[f"{method}: accuracy"] = float((probs.argmax(1) == data.test.y)[~strange].mean())
        if missing:
            entropy = shannon(torch.from_numpy(probs).double()).numpy()
            found[f"{method}: AUROC"] = auroc(entropy[strange], entropy[~strange])
        if (known := learnt.server.known(probs)) is not None:
            found["flagged of known classes"] = float((~known[~strange]).mean())
            if missing:
                found["flagged of missing classes"] = float((~known[strange]).mean())
    return found


def auroc(above: np.ndarray, below: np.ndarray) -> float:
    """How often one of the first lies above one of the second."""
    return float((above[:, None] > below).mean() + 0.5 * (above[:, None] == below).mean())


def membership(model: str, seed: int) -> dict[str, float]:
    """How well members are told from others, by what is looked at."""
    data = split(load("digits"), 400, seed=seed)
    mine, others = (data.private.take(np.arange(*ends)) for ends in ((0, 150), (150, 450)))
    found = {}
    for folds, name in ((2, "predictions of it"), (0, "predictions without folds")):
        client = trained(mine, data.shared, "client", model, seed, 50, folds)
        seen = audit(client, mine, others, data.shared, Recipe(), "float32", 0, seed)["membership"]
        found[name] = seen["threshold"]["auc"]
        if folds:
            found["masses"] = seen["masses"]["auc"]
    return found


def summary(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over the seeds of everything that was measured."""
    return {
        name: {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)), "n": len(values)}
        for name in runs[0]
        if (values := [run[name] for run in runs])
    }


def rows(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """A line for each number."""
    for name, values in results.items():
        for what, value in values.items():
            yield name, what, f"{value['mean']:.3f} ± {value['std']:.3f}"


def main() -> None:
    """Measure both, and print and record the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {
        f"{scheme}, {missing} of {CLASSES} classes missing": summary(
            [unknown(scheme, missing, s) for s in range(SEEDS)]
        )
        for scheme, missing in SPLITS
    }
    results |= {
        f"membership, {model}": summary([membership(model, s) for s in range(SEEDS)]) for model in ("mlp", "cnn")
    }
    table(("federation", "", "mean ± std"), list(rows(results)))
    if options.json:
        write(options.json, seed=0, settings={"clients": CLIENTS, "seeds": SEEDS, "public": 400}, results=results)


if __name__ == "__main__":
    script(main)
