"""What makes a small net a good client of the union, and what it costs: variants of its training, on digits.

    python benchmarks/union_clients.py --json benchmarks/results/union-clients.json

Ten clients (mlp, cnn), 400 public images. Every variant gives predictions p_k and masses m_k; the union of m_k p_k is
scored on the public set ("teacher"), and a cnn-large that learnt it on the test set ("server"). "Work" is the samples
that all clients go through, over those of a plain training on private data alone. "Calibration" is the mean mass over
its expectation n_k / n_u, which for a density is one: the geometric mean over clients.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _record import script, table, write
from torch import Tensor, nn

from fedol.config import configure
from fedol.core.mixture import Mixture
from fedol.core.pooling import Pool
from fedol.core.union import Union
from fedol.federation.scenario import Scenario
from fedol.methods.union import answers, folds_of, softened
from fedol.model import Architecture
from fedol.models.openset import OpenSet, fold_of
from fedol.runs.evaluation import accuracy, summary_statistics
from fedol.seeding import derive
from fedol.training import Job, fit, predict

SEEDS, PARTITIONS = (10, 11, 12), ("dirichlet:0.05", "dirichlet:0.3", "classes:2", "iid")


@dataclass(frozen=True)
class Answer:
    """What one client says of the public set: log p_k [N, C], log m_k [N], and the samples that it trained on."""

    log_probs: Tensor
    log_mass: Tensor
    work: int


def crossfitted(here: Scenario, k: int, folds: int = 2, epochs: int | None = None, smoothing: float = 0.0) -> Answer:
    """As the method does it: a net a fold, each shown the public samples outside of it."""
    architecture = replace(here.client(k), folds=folds)
    model = architecture.build(derive(here.config.seed, f"client {k}", "init"))
    assert isinstance(model, OpenSet)
    job = here.job(k, architecture, model)
    if epochs:
        job = replace(job, recipe=replace(job.recipe, epochs=epochs))
    classes, work = len(architecture.classes), 0
    for fold in folds_of(job, model, here.public, classes):
        if smoothing:
            soft = F.one_hot(fold.targets, classes + 1) * (1 - smoothing) + smoothing / (classes + 1)
            fold = replace(fold, targets=soft.float())
        work += trained(fold)
    logs = answers(model, here.public, architecture, here.device).double()
    return Answer(torch.log_softmax(logs, 1), torch.logsumexp(logs, 1), work)


def closed(here: Scenario, k: int) -> Answer:
    """A net that knows its own classes alone; its mass is Eq. 12's e^(−H)."""
    job = here.job(k, here.client(k))
    work = trained(job)
    log_probs = predict(job.model, here.public, here.client(k).prepare, here.device).double()
    return Answer(log_probs, (log_probs.exp() * log_probs).sum(1), work)


def remembering(here: Scenario, k: int) -> Answer:
    """One net that is shown all public samples, on which it then answers: no cross-fitting."""
    job, classes = with_public(here, k)
    work = trained(job)
    log_probs = predict(job.model, here.public, here.client(k).prepare, here.device).double()
    logs = log_probs[:, :classes] - log_probs[:, classes:]
    return Answer(torch.log_softmax(logs, 1), torch.logsumexp(logs, 1), work)


def with_public(here: Scenario, k: int) -> tuple[Job, int]:
    """A client's training with one more class, of which it is shown every sample."""
    own = here.client(k)
    classes = len(own.classes)
    wide: Architecture = replace(own, classes=(*own.classes, "public"))
    job = here.job(k, wide)
    label = torch.full((len(here.public),), classes, dtype=job.targets.dtype)
    return replace(job, inputs=job.inputs.joined(here.public), targets=torch.cat([job.targets, label])), classes


class Heads(nn.Module):
    """One body, and for each fold a head that learns what is public from the samples outside of it."""

    def __init__(self, body: nn.Module, width: int, classes: int, folds: int) -> None:
        super().__init__()
        self.body, self.heads = body, nn.ModuleList([nn.Linear(width, classes + 1) for _ in range(folds)])

    def forward(self, x: Tensor) -> Tensor:
        """Logits of every head [folds, B, classes + 1]."""
        seen = torch.relu(self.body(x))
        return torch.stack([head(seen) for head in self.heads])


def shared_body(here: Scenario, k: int, folds: int = 2, width: int = 64) -> Answer:
    """One training: the body sees all public samples, each head those outside of its fold."""
    job, classes = with_public(here, k)
    own = here.client(k)
    wide: Architecture = replace(own, classes=tuple(map(str, range(width))))
    net = Heads(wide.build(derive(here.config.seed, f"client {k}", "init")), width, classes, folds)
    private = len(job.targets) - len(here.public)
    fold = torch.cat([torch.full((private,), -1), fold_of(len(here.public), folds)])
    optimiser = torch.optim.Adam(net.parameters(), job.recipe.lr)
    for epoch in range(1, job.recipe.epochs + 1):
        for batch in job.order(epoch).split(job.recipe.batch_size):
            if len(batch) == 1:
                continue
            logits, target = net(job.prepare(job.inputs.batch(batch))), job.targets[batch]
            loss = sum(
                F.cross_entropy(logits[f][fold[batch] != f], target[fold[batch] != f], reduction="sum")
                for f in range(folds)
                if (fold[batch] != f).any()
            ) / (folds * len(batch))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[union-attr]
            optimiser.step()
    net.eval()
    with torch.no_grad():
        logits = net(job.prepare(here.public.batch(slice(0, len(here.public))))).double()
    mine = logits[fold_of(len(here.public), folds), torch.arange(len(here.public))]
    logs = mine[:, :classes] - mine[:, classes:]
    return Answer(torch.log_softmax(logs, 1), torch.logsumexp(logs, 1), len(job.targets) * job.recipe.epochs)


def trained(job: Job) -> int:
    """Train it, and say how many samples it went through."""
    for result in fit([job], torch.device("cpu")):
        if result.error:
            raise SystemExit(result.error)
    return len(job.inputs) * job.recipe.epochs


def tempered_by_mass(answer: Answer, expected: float) -> Answer:
    """log r / T with the T at which the mean mass is what a density has: no label is needed.

    The mean mass g(s) = E Σ_c r^s is convex in s = 1/T, so two temperatures have it or none: taken is the one nearer
    to 1 or, where none has it, that of the least mean.
    """
    logs = answer.log_probs + answer.log_mass[:, None]

    def slope(s: float) -> float:
        weight = torch.softmax((s * logs).flatten(), 0)
        return float((weight * logs.flatten()).sum())

    def excess(s: float) -> float:
        return float(torch.logsumexp((s * logs).flatten(), 0)) - np.log(len(logs)) - np.log(expected)

    least = increasing_root(slope, 0.0, STEEPEST)
    roots = [increasing_root(lambda s: -excess(s), 0.0, least), increasing_root(excess, least, STEEPEST)]
    logs = logs * min(roots, key=lambda s: abs(np.log(s)))
    return replace(answer, log_probs=torch.log_softmax(logs, 1), log_mass=torch.logsumexp(logs, 1))


STEEPEST = 20.0  # 1 / T


def increasing_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function crosses zero; the nearer end where it does not."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


def scaled(answer: Answer, expected: float) -> Answer:
    """m_k times the factor at which its mean is what a density has."""
    mean = torch.logsumexp(answer.log_mass, 0) - np.log(len(answer.log_mass))
    return replace(answer, log_mass=answer.log_mass - mean + np.log(expected))


def variants(here: Scenario) -> Iterator[tuple[str, list[Answer]]]:
    """Every way to be a client, with all clients' answers."""
    clients = range(here.config.clients)
    expected = [len(share) / len(here.public) for share in here.shares]

    def every(way: Callable[..., Answer], **how: Any) -> list[Answer]:
        return [way(here, k, **how) for k in clients]

    plain, usual = every(closed), every(crossfitted)
    yield "predictions alone, λ mixture", plain
    yield "two folds, as the method does", usual
    yield "the same, temperature by the mass", list(map(tempered_by_mass, usual, expected))
    yield "the same, mass scaled to n/n", list(map(scaled, usual, expected))
    both = [replace(a, log_mass=b.log_mass, work=a.work + b.work) for a, b in zip(plain, usual, strict=True)]
    yield "masses of these, predictions of a closed net", both
    half = every(crossfitted, epochs=here.config.epochs // 2)
    yield "two folds, half the epochs", half
    yield "two folds, label smoothing 0.1", every(crossfitted, smoothing=0.1)
    yield "four folds", every(crossfitted, folds=4)
    yield "eight folds", every(crossfitted, folds=8)
    yield "shared body, a head a fold", every(shared_body)
    yield "no cross-fitting", every(remembering)


def score(here: Scenario) -> dict[str, dict[str, float]]:
    """One federation: every variant's teacher, server, work and calibration."""
    expected = [len(share) / len(here.public) for share in here.shares]
    found: dict[str, dict[str, float]] = {}
    targets: dict[str, Tensor] = {}
    nats = 0.0
    base = 0
    for name, clients in variants(here):
        if not targets:
            base = sum(answer.work for answer in clients)
            pool, mixture = Pool(), Mixture()
            for answer in clients:
                pool.add(answer.log_probs)
                mixture.add(answer.log_probs.exp())
            nats, targets[name] = pool.nats, mixture.mean()
            targets["predictions alone, pool"] = pool.pooled().soft
            found[name] = {"work": 1.0}
            found["predictions alone, pool"] = {"work": 1.0}
            continue
        union = Union()
        for answer in clients:
            union.add(answer.log_probs + answer.log_mass[:, None])
        targets[name] = softened(union.posterior(), nats)
        mean = [a.log_mass.exp().mean().item() / e for a, e in zip(clients, expected, strict=True)]
        found[name] = {"work": sum(a.work for a in clients) / base, "calibration": float(np.exp(np.log(mean).mean()))}
    labels, recipe = here.data.public_labels, here.config.distillation.recipe
    jobs = [
        Job(
            name=name,
            model=here.server.build(derive(here.config.seed, "server", "init")),
            inputs=here.public,
            targets=soft.float(),
            prepare=here.server.prepare,
            recipe=recipe,
            seed=derive(here.config.seed, "server", 1),
        )
        for name, soft in targets.items()
    ]
    for result in fit(jobs, here.device):
        log_probs = predict(result.job.model, here.data.test.samples, here.server.prepare, here.device)
        name = result.job.name
        right = accuracy(targets[name].float(), labels)
        found[name] |= {"teacher": right, "server": accuracy(log_probs, here.data.test.y)}
    return found


def main() -> None:
    """Measure every variant on every partition and seed, and print and record the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for partition in PARTITIONS:
        runs = []
        for seed in options.seeds:
            settings = {"method": "union", "partition": partition, "seed": seed, "server_epochs": 80}
            runs.append(score(Scenario(configure("quick", overrides=settings))))
            print(partition, seed, flush=True)
        for name in runs[0]:
            numbers = {key: summary_statistics([run[name][key] for run in runs]) for key in runs[0][name]}
            results.append({"partition": partition, "variant": name, **numbers})
        if options.json:
            settings = {"seeds": options.seeds, "clients": 10, "public": 400, "epochs": 20, "server epochs": 80}
            write(options.json, seed=min(options.seeds), settings=settings, results=results)
    lines = [
        [r["partition"], r["variant"], *(f"{scale * r[key]['mean']:.1f}" if key in r else "" for key, scale in COLUMNS)]
        for r in results
    ]
    table(["partition", "variant", *(key for key, _ in COLUMNS)], lines)


COLUMNS = (("teacher", 100), ("server", 100), ("work", 1), ("calibration", 1))

if __name__ == "__main__":
    script(main)
