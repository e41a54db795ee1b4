"""Servers taught on a long-tailed public set: FedOL+ and its pooling against FedOL and the λ mixture.

    python benchmarks/tail.py --json benchmarks/results/tail.json
    python benchmarks/tail.py --bench results/best --spec results/specs/9-final-best.json --data-dir DATA \
        --settings '{"server_model": "resnet20", "width": 8, "server_epochs": 50}' --json FILE

The first form trains ten small clients on Fashion-MNIST, on which no pooling was tuned, as in
results/specs/9-fashion-small.json, with 2,000 public images. The second takes the uploads that a benchmark has left in
its folder, and its server's training, but for ``--settings``.

Of the public images, class r of a random order keeps RATIO^(−r/(C−1)), as if the rest had never been there; servers
train on what is left, all for as many epochs, and are scored on the balanced test set. Labels of public images build
the tail and nothing else.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from _record import script, table, write
from pooling import add_uploads, federations_of, long_tail

from fedol.api import run
from fedol.config import RunConfig, changed
from fedol.distillation import learn
from fedol.federation.scenario import Scenario
from fedol.knowledge import Knowledge
from fedol.methods import find
from fedol.runs.evaluation import accuracy, summary_statistics
from fedol.training import drive

PARTITIONS = ("dirichlet:1", "dirichlet:0.05", "classes:3", "classes:2")
METHODS = ("mixture", "fedol", "pooled", "fedol+")
SEEDS = (3, 4, 5)
RATIO = 50
ITERATIONS = 5  # of servers that iterate: they share out the epochs that the others have
Federation = tuple[Scenario, list[Knowledge]]  # the data, and what the clients sent


def trained() -> Iterator[Federation]:
    """Small clients on Fashion-MNIST, trained here."""
    for partition in PARTITIONS:
        for seed in SEEDS:
            config = RunConfig(
                dataset="fashion-mnist", partition=partition, public=2000, method="mixture", epochs=4, server_epochs=1,
                seed=seed, device="cpu",
            )  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                run(config, out=Path(folder))
                clients = [Knowledge.load(file) for file in sorted(Path(folder, "clients").glob("*.fedol"))]
            yield Scenario(replace(config, server_epochs=50)), clients


def uploaded(options: argparse.Namespace) -> Iterator[Federation]:
    """A benchmark's clients."""
    for config, clients in federations_of(options):
        yield Scenario(changed(config, {"device": options.device, **options.settings})), clients


def servers(scenario: Scenario, clients: list[Knowledge], index: torch.Tensor) -> dict[str, float]:
    """Test accuracy in % of a server by each method, on these public images alone."""
    known = [Knowledge(client.log_probs[index], client=client.client) for client in clients]
    epochs, processes = scenario.config.distillation.recipe.epochs, []
    for method in METHODS:
        rounds = find(method).trainings(ITERATIONS)
        settings = replace(scenario.config, method=method, iterations=rounds, server_epochs=epochs // rounds)
        processes.append(
            learn(
                find(method),
                known,
                scenario.public[index],
                scenario.server,
                settings.distillation,
                settings.seed,
                scenario.device,
            )
        )
    test = scenario.data.test
    return {
        METHODS[position]: 100 * accuracy(learnt.server.predict_log_proba(test.x), test.y)
        for position, learnt in drive(processes, scenario.device)
    }


def main() -> None:
    """Train everything, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_uploads(parser)
    parser.add_argument("--settings", type=json.loads, default={}, help="settings of the benchmark to replace, as JSON")
    parser.add_argument("--device", default="cpu", help="where its servers train")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # for what is not training: two threads wait for each other beside anything else
    found: dict[str, list[dict[str, float]]] = {}
    seeds: set[int] = set()
    for scenario, clients in uploaded(options) if options.bench else trained():
        config = scenario.config
        index = long_tail(torch.from_numpy(scenario.data.public_labels), RATIO, config.seed)
        right = servers(scenario, clients, index)
        found.setdefault(config.partition, []).append(right)
        seeds.add(config.seed)
        shown = {name: round(value, 1) for name, value in right.items()}
        print(config.partition, config.seed, len(index), shown, flush=True)
        results = [row(partition, name, found[partition]) for partition in found for name in METHODS]
        if options.json:
            names = ("dataset", "server_model", "width", "development")
            settings = {name: getattr(config, name) for name in names} | {"ratio": RATIO, "seeds": sorted(seeds)}
            settings["epochs"] = config.distillation.recipe.epochs
            write(options.json, seed=min(seeds), settings=settings, results=results, device=scenario.device)
    cell = {(r["method"], r["partition"]): f"{r['mean']:.1f} ± {r['std']:.1f}" for r in results}
    table(["server", *found], [[m, *(cell[m, p] for p in found)] for m in METHODS])


def row(partition: str, name: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """One method's accuracies on a partition, and how far they are above the mixture's."""
    values = [accuracies[name] for accuracies in found]
    gains = [accuracies[name] - accuracies["mixture"] for accuracies in found]
    gain = {"over_mixture": {**summary_statistics(gains), "values": gains}}
    return {"partition": partition, "method": name, **summary_statistics(values), "values": values, **gain}


if __name__ == "__main__":
    script(main)
