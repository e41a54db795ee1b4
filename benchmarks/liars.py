"""Hostile clients among those that send ratios: what the method union makes of every lie with every mass.

    python benchmarks/liars.py --json benchmarks/results/liars.json

Ten clients each on digits, and on Fashion-MNIST where it is installed; scikit-learn's models through ``fedol.OpenSet``,
and small nets (mlp and cnn) with folds. "odd sites" are eight even shares, a site of one class alone, and a site of
eight samples. Three clients attack (of odd sites never the odd two): they send the lies of ``fedol.robust.attacks``
with the masses of ``fedol.robust.mass_attacks``, knowing everyone's predictions and masses.

Scored is the accuracy of the union's targets on the public set minus that of the same of the honest clients alone:
"none" as the method is; "cap", "trust" and both, which is what ``--defence`` means by default; and what was tried
beside: "predictions" (screened as clients without masses are), "levelled" (every client says its n_k's part of the
posterior), "median" (over five groups of clients, of their sums). "clean" is the cost of each without liars, and whom
screening leaves out. Everything was decided on the seeds 100 and 101, nothing on these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write
from masses import trained
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from union import images

import fedol
from fedol.core.union import Union
from fedol.data import load, partition, split
from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, find
from fedol.methods.union import answers
from fedol.models.openset import OpenSet
from fedol.robust import DEFAULT, Defence, screen
from fedol.robust.attacks import attacked
from fedol.robust.denial import levelled
from fedol.robust.mass_attacks import CLAIMS, claimed
from fedol.seeding import derive, numpy_generator

ODD = "odd sites"
CASES = [("digits", part) for part in ("iid", ODD, "dirichlet:0.3", "classes:2", "dirichlet:0.05")]
CASES += [("fashion-mnist", part) for part in ("dirichlet:0.3", "dirichlet:0.05")]
MODELS = {
    "logistic": LogisticRegression(max_iter=300),
    "forest": RandomForestClassifier(50, min_samples_leaf=2, random_state=0),
}
NETS = "nets"
ATTACKS = ("constant", "random", "permuted", "colluding", "specialist3", "specialist10", "modest")
WAYS = ("none", "cap", "trust", "both", "predictions", "levelled", "median")
HOSTILE, CLIENTS, GROUPS, CPU = 3, 10, 5, torch.device("cpu")


@dataclass(frozen=True)
class Federation:
    """What the honest clients send, and the labels that only scoring sees."""

    name: tuple[str, str, str]
    clients: list[Knowledge]
    truth: Tensor

    def score(self, soft: Tensor) -> float:
        return 100 * (soft.argmax(1) == self.truth).double().mean().item()


def shares_of(labels: np.ndarray, scheme: str, seed: int) -> list[np.ndarray]:
    if scheme != ODD:
        return partition(labels, scheme, CLIENTS, seed, 10)
    rng = numpy_generator(seed, "odd")
    one = rng.permutation(np.flatnonzero(labels == rng.integers(10)))[: len(labels) // CLIENTS]
    return [*partition(labels, "iid", CLIENTS - 2, seed, 10), one, rng.permutation(len(labels))[:8]]


def federation(data: str, scheme: str, model: str, seed: int) -> Federation:
    if model == NETS:
        parts = split(load(data), 400, seed=seed)
        sent = []
        for k, share in enumerate(shares_of(parts.private.y, scheme, seed)):
            net = trained(parts.private.take(share), parts.shared, f"client {k}", ("mlp", "cnn")[k % 2], seed, 20, 2)
            assert isinstance(net.module, OpenSet)
            logs = answers(net.module, parts.shared, net.architecture, CPU)
            sent.append(Knowledge.from_log_ratios(logs, None, f"client {k}", len(share), 2))
        return Federation((data, scheme, model), sent, torch.from_numpy(parts.public_labels))
    problem = images(data, seed)
    x, y, public = problem.private.x["both"], problem.private.y, problem.public.x["both"]
    clients = [
        fedol.OpenSet(MODELS[model]).fit(x[share], y[share], public, classes=range(10)).knowledge(client=f"client {k}")
        for k, share in enumerate(shares_of(y, scheme, seed))
    ]
    return Federation((data, scheme, model), clients, torch.from_numpy(problem.public.y))


def taught(clients: Iterable[Knowledge], defence: str = "none") -> Tensor:
    """The method's targets; screening is done before."""
    settings = Distillation(method="union", defence=Defence.parse(defence))
    return find("union").teacher(list(clients), settings).targets(1, None).soft


def summed(clients: list[Knowledge], added: Tensor | None = None) -> Tensor:
    """log Σ_k r_k."""
    total = Union()
    for k, client in enumerate(clients):
        total.add(client.log_ratios().double() + (0 if added is None else added[k]))
    return total.log_ratios()


def ways(clients: list[Knowledge]) -> tuple[dict[str, Tensor], list[int]]:
    """Every way's targets, and whom screening leaves out."""
    verdict = screen(clients, True)
    kept = [clients[k] for k in verdict.kept]
    before = screen([client.without_mass() for client in clients]).kept
    masses = torch.stack([client.log_mass for client in clients if client.log_mass is not None]).double()
    shares = torch.tensor([client.share for client in clients], dtype=torch.float64)
    groups = torch.stack([summed(clients[g::GROUPS]) for g in range(GROUPS)])
    soft = {
        "none": taught(clients),
        "cap": taught(clients, "cap"),
        "trust": taught(kept),
        "both": taught(kept, "cap"),
        "predictions": taught([clients[k] for k in before], "cap"),
        "levelled": summed(clients, levelled(masses, shares)),
        "median": groups.median(0).values,
    }
    return soft, list(verdict.verdict.excluded)


def attack_cells(here: Federation, attack: str, seed: int) -> Iterator[dict[str, Any]]:
    """Three liars, with every claim: the change of every way, and how many of them are found."""
    rng = numpy_generator(seed, *here.name, attack)
    possible = CLIENTS - 2 * (here.name[1] == ODD)
    bad = sorted(rng.choice(possible, HOSTILE, replace=False).tolist())
    honest = [client for k, client in enumerate(here.clients) if k not in bad]
    probs = [client.probabilities() for client in honest]
    lies = attacked(attack, [here.clients[k].probabilities() for k in bad], probs, derive(seed, attack))
    masses = [client.log_mass for client in honest if client.log_mass is not None]
    best = here.score(taught(honest))
    for claim in CLAIMS:
        sent = list(here.clients)
        for k, lie in zip(bad, lies, strict=True):
            true = here.clients[k]
            assert true.log_mass is not None and true.ratios is not None
            said = Knowledge.from_probabilities(lie, None, true.client)
            sent[k] = claimed(claim, said.with_mass(true.log_mass, true.ratios.private, true.ratios.folds), masses, rng)
        soft, out = ways(sent)
        yield {
            "attack": attack,
            "claim": claim,
            "caught": len(set(out) & set(bad)),
            "false": len(set(out) - set(bad)),
            "change": {way: here.score(one) - best for way, one in soft.items()},
        }


def clean(here: Federation) -> dict[str, Any]:
    """What each way costs where nobody lies."""
    soft, out = ways(here.clients)
    plain = here.score(soft["none"])
    return {"left_out": out, "accuracy": plain, "change": {way: here.score(one) - plain for way, one in soft.items()}}


def wanted(seeds: list[int]) -> Iterator[tuple[str, str, str, int]]:
    for data in dict.fromkeys(data for data, _ in CASES):
        models = ["logistic", NETS, "forest"] if data == "digits" else ["logistic"]
        schemes = [scheme for name, scheme in CASES if name == data]
        yield from ((data, scheme, model, seed) for model in models for seed in seeds for scheme in schemes)


def show(cells: list[dict[str, Any]], name: str) -> None:
    """A line for each value of one name."""
    rows = []
    for value in dict.fromkeys(c[name] for c in cells):
        found = [c for c in cells if c[name] == value]
        changes = [[c["change"][way] for c in found] for way in WAYS]
        caught, false = (sum(c[key] for c in found) for key in ("caught", "false"))
        seen = [f"{caught}/{HOSTILE * len(found)}", f"{false}/{(CLIENTS - HOSTILE) * len(found)}"]
        rows.append([str(value), *seen, *(f"{np.mean(c):.1f} / {min(c):.0f}" for c in changes)])
    table([name, "caught", "honest out", *WAYS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[24, 25, 26])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells, without = list[dict[str, Any]](), list[dict[str, Any]]()
    for data, scheme, model, seed in wanted(options.seeds):
        try:
            here = federation(data, scheme, model, seed)
        except InputError as error:
            print(f"skipped: {error}")
            continue
        about = {"data": data, "partition": scheme, "model": model, "seed": seed}
        without.append({**about, **clean(here)})
        print(*here.name, seed, without[-1]["left_out"], flush=True)
        cells += [{**about, **cell} for attack in ATTACKS for cell in attack_cells(here, attack, seed)]
        if options.json:
            settings = {"seeds": options.seeds, "hostile": HOSTILE, "defence": DEFAULT}
            write(options.json, seed=min(options.seeds), settings=settings, results={"clean": without, "cells": cells})
    for name in ("partition", "attack", "claim", "model"):
        show(cells, name)


if __name__ == "__main__":
    script(main)
