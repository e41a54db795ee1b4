"""Ways to pool ten real clients' predictions, scored on the public set: balanced, long-tailed, with one bad client.

    python benchmarks/pooling.py --json benchmarks/results/pooling.json
    python benchmarks/pooling.py --bench results/dev64 --spec results/specs/9-dev64.json --data-dir DATA --json FILE

The second form scores the uploads that a benchmark has left in its folder: clients that no pooling was developed on.
Labels are read for two things only: to build a long-tailed public set (class r of a random order keeps RATIO^(−r/99) of
its images) and to score, the column "true prior" included: a ceiling that no method may use. The seeds of the long
tails here (8 to 10) are not those that the pooling was developed on (0 to 4). A bad client takes the place of one of
the ten: logits of noise times 20, or its classes permuted; "absent" is the federation without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write
from federations import PREDICTIONS, read
from torch import Tensor

from fedol import methods
from fedol.bench.spec import read_spec
from fedol.bench.store import BenchFolder
from fedol.config import RunConfig
from fedol.core.pooling import balanced
from fedol.core.voting import Ballots, baseline_count
from fedol.errors import InputError
from fedol.federation.scenario import Scenario
from fedol.knowledge import Knowledge
from fedol.methods import Distillation
from fedol.methods.fedol_plus import FedOLPlus, gathered
from fedol.runs.evaluation import summary_statistics
from fedol.seeding import derive, numpy_generator

METHODS = ("feddf", "feddf-probs", "mixture", "mine")
SHORT = ("logit mean", "prob mean", "λ mixture", "MinE", "A", "uniform prior", "D", "ours", "true prior")
SEEDS = (8, 9, 10)
Case = tuple[list[Knowledge], Tensor]
Federation = tuple[str, Tensor, Tensor]  # its name, the clients' logits [K, N, C] and the truth [N]


def cases(logits: Tensor, labels: Tensor, seeds: tuple[int, ...]) -> Iterator[tuple[str, int, Case]]:
    """Every scenario as (name, seed, the clients and the truth)."""
    yield "balanced", 0, (clients(logits), labels)
    for seed in seeds:
        for ratio in (10, 50):
            index = long_tail(labels, ratio, seed)
            yield f"1:{ratio} tail", seed, (clients(logits[:, index]), labels[index])
        for name, part in (("half of the classes", 2), ("a tenth of the classes", 10)):
            index = few_classes(labels, part, seed)
            yield name, seed, (clients(logits[:, index]), labels[index])
        victim = seed % len(logits)
        generator = torch.Generator().manual_seed(derive(seed, "bad client"))
        for name in ("noise", "permuted"):
            bad = logits.clone()
            if name == "noise":
                bad[victim] = 20 * torch.randn(bad[victim].shape, generator=generator)
            else:
                bad[victim] = bad[victim][:, torch.randperm(bad.shape[2], generator=generator)]
            yield name, seed, (clients(bad), labels)
        kept = [k for k in range(len(logits)) if k != victim]
        yield "absent", seed, (clients(logits[kept]), labels)


def clients(logits: Tensor) -> list[Knowledge]:
    return [Knowledge.from_logits(one) for one in logits]


def long_tail(labels: Tensor, ratio: int, seed: int) -> Tensor:
    """Positions of a long-tailed subset: every class keeps at least one image."""
    generator, y = numpy_generator(seed, "long tail"), labels.numpy()
    order, kept = generator.permutation(int(y.max()) + 1), []
    for rank, c in enumerate(order):
        mine = np.flatnonzero(y == c)
        kept.append(generator.choice(mine, max(1, round(len(mine) * ratio ** (-rank / (len(order) - 1)))), False))
    return torch.from_numpy(np.sort(np.concatenate(kept)))


def few_classes(labels: Tensor, part: int, seed: int) -> Tensor:
    """Positions of the images of one in ``part`` of the classes: the others are absent."""
    y = labels.numpy()
    present = numpy_generator(seed, "few classes").permutation(int(y.max()) + 1)[: (int(y.max()) + 1) // part]
    return torch.from_numpy(np.flatnonzero(np.isin(y, present)))


def percent(right: Tensor) -> float:
    return 100 * right.double().mean().item()


def unbounded(known: list[Knowledge]) -> Tensor:
    """A as first measured, every client at its own scale: Σ_k w_k z_k + b."""
    log_p = torch.stack([client.log_probs.double() for client in known])
    weight = log_p.exp().mean(1).sqrt()
    scores = (weight[:, None] * (log_p - log_p.mean(2, keepdim=True))).sum(0) / weight.sum(0)
    return balanced(scores, torch.full_like(scores[0], 1 / scores.shape[1]))


def labelled(case: Case, pooled: Tensor, mixture: Tensor) -> dict[str, float]:
    """Pseudo-labels: Algorithm 1 at ρ = .1, as many of the surest by λ and by the pool, and as many as FedOL+ takes."""
    known, truth = case
    ballots = Ballots()
    for client in known:
        ballots.add(client.probabilities())
    voted = ballots.elect(baseline_count(0.1, len(truth))).labels
    covered = voted >= 0
    count = int(covered.sum())

    def top(soft: Tensor, n: int) -> float:
        surest = soft.max(1).values.argsort(descending=True, stable=True)[:n]
        return percent(soft[surest].argmax(1) == truth[surest])

    rho = FedOLPlus(known, Distillation()).rho
    return {
        "coverage": percent(covered),
        "algorithm 1": percent(voted[covered] == truth[covered]),
        "top by λ": top(mixture, count),
        "top by ours": top(pooled, count),
        "fedol+ coverage": 100 * rho,
        "fedol+": top(pooled, int(rho * len(truth))),
    }


def federations_of(options: argparse.Namespace) -> Iterator[tuple[RunConfig, list[Knowledge]]]:
    """Those whose uploads a benchmark has left behind: their settings and what the clients sent."""
    if options.spec is None:
        raise InputError("--bench also needs --spec, that benchmark's file, such as results/specs/9-final-best.json.")
    folder, spec = BenchFolder(options.bench), read_spec(options.spec, data_dir=options.data_dir, device="cpu")
    cells = {cell.clients: cell for cell in spec.cells()}.values()
    sent = [(cell.config, [folder.upload(cell.clients, k) for k in range(cell.config.clients)]) for cell in cells]
    there = [(config, files) for config, files in sent if all(file.exists() for file in files)]
    if not there:
        raise InputError(
            f"The uploads of {options.spec} are not in {options.bench}/clients, which git does not keep; "
            f"'fedol bench run {options.spec} --out {options.bench}' makes them."
        )
    for config, files in there:
        yield config, [Knowledge.load(file) for file in files]


def uploaded(options: argparse.Namespace) -> Iterator[Federation]:
    """The federations of a benchmark."""
    for config, known in federations_of(options):
        labels = torch.from_numpy(Scenario(config).data.public_labels)
        yield f"{config.partition}, seed {config.seed}", torch.stack([k.log_probs for k in known]).float(), labels


def add_sources(parser: argparse.ArgumentParser) -> None:
    """The options that say where federations are."""
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    add_uploads(parser)


def add_uploads(parser: argparse.ArgumentParser) -> None:
    """The options that say where a benchmark's uploads are."""
    parser.add_argument("--bench", type=Path, help="a benchmark's folder, to score the uploads in it")
    parser.add_argument("--spec", type=Path, help="that benchmark")
    parser.add_argument("--data-dir", help="its dataset's files, for the labels")


def study(name: str, logits: Tensor, labels: Tensor, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every number of one federation: its value per scenario and seed, summarised."""
    found: dict[str, dict[str, list[float]]] = {}
    for scenario, _, case in cases(logits, labels, seeds):
        here = found.setdefault(scenario, {})
        pool = gathered(case[0])
        soft = {m: methods.find(m).teacher(case[0], Distillation()).targets(1, None).soft for m in METHODS}
        soft |= {
            "A unbounded": unbounded(case[0]),
            "A": pool.uniform().soft,
            "D": pool.prior_free().soft,
            "pooled": pool.pooled().soft,
        }
        counts = torch.bincount(case[1], minlength=logits.shape[2]).double() + 0.5
        soft["true prior"] = pool.balanced_to(counts / counts.sum()).soft  # what a perfect estimate would give
        values = {short: percent(soft[m].argmax(1) == case[1]) for m, short in zip(soft, SHORT, strict=True)}
        values["ours over the mixture"] = values["ours"] - values["λ mixture"]
        values["reliability"] = 100 * pool.reliability()
        if scenario in ("balanced", "1:50 tail"):
            labels_of = labelled(case, soft["pooled"], soft["mixture"])
            values |= {f"labels: {key}": value for key, value in labels_of.items()}
        for key, value in values.items():
            here.setdefault(key, []).append(value)
    return [
        {"file": name, "scenario": scenario, "quantity": key, **summary_statistics(values), "values": values}
        for scenario, quantities in found.items()
        for key, values in quantities.items()
    ]


def over_seeds(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The federations that differ in their seed alone, together: mean and spread of their means."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in results:
        found.setdefault((row["file"].split(",")[0], row["scenario"], row["quantity"]), []).append(row["mean"])
    return [
        {"file": partition, "scenario": scenario, "quantity": key, **summary_statistics(means), "values": means}
        for (partition, scenario, key), means in found.items()
        if len(means) > 1
    ]


def main() -> None:
    """Score everything, print the tables, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sources(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    federations = list(uploaded(options) if options.bench else read(options.predictions))
    results = [row for federation in federations for row in study(*federation, tuple(options.seeds))]
    results += over_seeds(results)
    names = list(dict.fromkeys(row["file"] for row in results))
    cell = {(r["file"], r["scenario"], r["quantity"]): r for r in results}
    scenarios = list(dict.fromkeys(r["scenario"] for r in results))

    def shown(*key: str) -> str:
        row = cell[key]
        return f"{row['mean']:.1f}" + (f" ±{row['std']:.1f}" if row["n"] > 1 else "")

    table(
        ["clients", "public set", *SHORT],
        [[name, scenario, *(shown(name, scenario, q) for q in SHORT)] for name in names for scenario in scenarios],
    )
    print()
    kinds = [q for (f, s, q) in cell if q.startswith("labels") and f == names[0] and s == "balanced"]
    table(
        ["clients", "public set", *(kind.removeprefix("labels: ") for kind in kinds)],
        [[n, s, *(shown(n, s, kind) for kind in kinds)] for n in names for s in ("balanced", "1:50 tail")],
    )
    if options.json:
        write(options.json, seed=options.seeds[0], settings={"seeds": options.seeds, "files": names}, results=results)


if __name__ == "__main__":
    script(main)
