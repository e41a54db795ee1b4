"""Servers taught on a long-tailed public set: FedOL+ and its pooling against FedOL and the λ mixture.

    python benchmarks/tail.py --json benchmarks/results/tail.json

Fashion-MNIST, on which no pooling was tuned: ten small clients as in results/specs/9-fashion-small.json, 2,000 public
images. Of these, class r of a random order keeps RATIO^(−r/9), as if the rest had never been there; servers train on
what is left, all for as many epochs, and are scored on the balanced test set. Labels of public images build the tail
and nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from _record import table, write
from pooling import long_tail

from fedol.config import RunConfig
from fedol.distillation import distillation
from fedol.evaluation import accuracy, summary_statistics
from fedol.federation.scenario import Scenario
from fedol.federation.simulation import run
from fedol.knowledge import Knowledge
from fedol.methods import ITERATED, Distillation
from fedol.training import Recipe, drive

PARTITIONS = ("dirichlet:1", "dirichlet:0.05", "classes:3", "classes:2")
METHODS = ("mixture", "fedol", "pooled", "fedol+")
SEEDS = (3, 4, 5)
RATIO = 50
EPOCHS, ITERATIONS = 50, 5  # of every server; those that iterate share them out
CPU = torch.device("cpu")


def federation(dataset: str, partition: str, seed: int, folder: Path) -> tuple[Scenario, list[Knowledge]]:
    """The data, and what the clients send."""
    config = RunConfig(
        dataset=dataset, partition=partition, public=2000, method="mixture", epochs=4, server_epochs=1, seed=seed,
        device="cpu",
    )  # fmt: skip
    run(config, out=folder)
    return Scenario(config), [Knowledge.load(file) for file in sorted((folder / "clients").glob("*.fedol"))]


def servers(scenario: Scenario, clients: list[Knowledge], index: torch.Tensor, seed: int) -> dict[str, float]:
    """Test accuracy in % of a server by each method, on these public images alone."""
    known = [Knowledge(client.log_probs[index], client=client.client) for client in clients]
    processes = []
    for method in METHODS:
        rounds = ITERATIONS if method in ITERATED else 1
        recipe = Recipe(EPOCHS // rounds, 32)
        settings = Distillation(method, rounds, recipe=recipe)
        processes.append(distillation(known, scenario.public[index], scenario.server, settings, seed, CPU))
    test = scenario.data.test
    return {
        METHODS[position]: 100 * accuracy(server.predict_log_proba(test.x), test.y)
        for position, server in drive(processes, CPU)
    }


def main() -> None:
    """Train everything, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for partition in PARTITIONS:
        found: list[dict[str, float]] = []
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                scenario, clients = federation(options.dataset, partition, seed, Path(folder))
            index = long_tail(torch.from_numpy(scenario.data.public_labels), RATIO, seed)
            found.append(servers(scenario, clients, index, seed))
            print(partition, seed, len(index), {name: round(value, 1) for name, value in found[-1].items()}, flush=True)
        for name in METHODS:
            values = [accuracies[name] for accuracies in found]
            gains = [accuracies[name] - accuracies["mixture"] for accuracies in found]
            gain = {"over_mixture": {**summary_statistics(gains), "values": gains}}
            row = {"partition": partition, "method": name, **summary_statistics(values), "values": values, **gain}
            results.append(row)
        if options.json:
            settings = {"dataset": options.dataset, "ratio": RATIO, "seeds": SEEDS, "epochs": EPOCHS}
            write(options.json, seed=SEEDS[0], settings=settings, results=results)
    cell = {(r["method"], r["partition"]): r for r in results}
    table(
        ["server", *PARTITIONS],
        [[m, *(f"{cell[m, p]['mean']:.1f} ± {cell[m, p]['std']:.1f}" for p in PARTITIONS)] for m in METHODS],
    )


if __name__ == "__main__":
    main()
