"""Liars whom no label-free figure tells from honest clients, and what they cost all the same.

    python benchmarks/indistinguishable.py --json benchmarks/results/indistinguishable.json

No threshold is involved. Three of ten clients lie, on as many images as they can while every figure of theirs stays
within what the seven honest clients of the same federation span: the four that trust is judged by, the rank
correlation of entropies, and, against collusion, their closest agreement with any client. A rule that asks for more of
any of these leaves out an honest client before it leaves out a liar. A liar says, by itself and image by image, the
second, third or fourth guess of the others' mixture, on the images that it is least sure of first.

Printed are the share of images lied about, the accuracy of labels (the default defence, rho 0.1 and 0.55) and of the
mixture minus those without the three clients, and for each figure the chance that a liar's is above an honest client's:
one half tells nothing, and above it the liar looks the more honest of the two. Last, what holds whatever three liars
send, by arithmetic: the share of images whose class in the mixture they cannot change (``certain``).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write
from federations import PREDICTIONS, Federation, stored
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.core.voting import Ballots, baseline_count, shannon
from fedol.robust import DEFAULT, Defence
from fedol.robust.agreement import Matrix, Opinions, agreement, backing, confidence_agreement
from fedol.robust.attacks import exchanged, guesses, most_lies
from fedol.seeding import numpy_generator

LIARS = 3
GUESSES = (1, 2, 3)  # of the others' mixture, from 0: drawn image by image, so that pairs of liars do not agree
RHOS = (0.1, 0.55)  # of FedOL's first and last iteration


def figures(clients: list[Tensor]) -> dict[str, Matrix]:
    """What can be said of every client without a label; higher looks more honest."""
    opinions = Opinions.of(clients)
    everywhere, backed = agreement(opinions, False), backing(opinions, range(len(clients)))
    return {
        "agreement": np.nanmedian(everywhere, 1),
        "on its surest": np.nanmedian(agreement(opinions, True), 1),
        "seconded": backed.seconded,
        "not contradicted": -backed.contradicted,
        "sure of the same": np.nanmedian(confidence_agreement(opinions), 1),
        "not too close": -np.nanmax(everywhere, 1),
    }


def inside(clients: list[Tensor]) -> bool:
    """Whether every figure of the liars, who come first, is at least that of the least honest client."""
    return all(found[:LIARS].min() >= np.nanmin(found[LIARS:]) for found in figures(clients).values())


def accuracy(federation: Federation, clients: list[Tensor]) -> dict[str, float]:
    """Of the labels under the default defence, everyone kept, and of the mixture."""
    defence = Defence.parse(DEFAULT)
    ballots, mixture = Ballots(defence.exact, defence.cap, defence.runoff), Mixture()
    for probs in clients:
        ballots.add(probs)
        mixture.add(probs)
    votes = {f"labels, rho {rho}": ballots.elect(baseline_count(rho, len(clients[0]))).labels for rho in RHOS}
    return {name: federation.score(v) for name, v in (*votes.items(), ("mixture", mixture.mean().argmax(1)))}


def certain(honest: list[Tensor]) -> float:
    """The share of images on which no liars can change the class of the honest clients' mixture.

    Liars have at most the share s = LIARS / (LIARS + Σ exp(−H)) of the weight, all of it on one class: the mixture's
    first class stays where (1 − s) times its lead over the second is more than s.
    """
    mixture, weight = Mixture(), torch.zeros(len(honest[0]), dtype=torch.float64)
    for probs in honest:
        mixture.add(probs)
        weight += torch.exp(-shannon(probs.double()))
    first, second = mixture.mean().topk(2, 1).values.T
    share = LIARS / (LIARS + weight)
    return ((1 - share) * (first - second) > share).double().mean().item()


def attack(federation: Federation, draw: int) -> dict[str, Any]:
    """One draw of liars: how much they lie, how they look and what they cost."""
    rng = numpy_generator(draw, federation.name, "indistinguishable")
    chosen = rng.choice(len(federation.clients), LIARS, replace=False).tolist()
    own = [federation.clients[k] for k in chosen]
    honest = [probs for k, probs in enumerate(federation.clients) if k not in chosen]
    best, images = guesses(honest), len(honest[0])
    votes, rows = torch.stack([probs.argmax(1) for probs in honest]), torch.arange(images)
    lies = [best[rows, torch.from_numpy(rng.choice(GUESSES, images))] for _ in own]
    order = [shannon(p.double()).argsort(descending=True, stable=True) for p in own]

    def send(count: int) -> list[Tensor]:
        return [exchanged(p, worst[:count], lie) for p, worst, lie in zip(own, order, lies, strict=True)]

    count = most_lies(send, lambda sent: inside([*sent, *honest]), images)
    clients = [*send(count), *honest]
    with_them, without = accuracy(federation, clients), accuracy(federation, honest)
    return {
        "federation": federation.name,
        "liars": chosen,
        "lies": count / images,
        "inside": inside(clients),
        "certain": certain(honest),
        "second_guess": {
            "said_by_an_honest_client": float((votes == best[:, 1]).any(0).double().mean()),
            "right": federation.score(best[:, 1]),
        },
        "figures": {name: [round(float(v), 4) for v in found] for name, found in figures(clients).items()},
        "liar_above_honest": {name: _above(found) for name, found in figures(clients).items()},
        "change": {name: with_them[name] - without[name] for name in without},
    }


def _above(found: Matrix) -> float:
    """The chance that a liar's figure is above an honest client's: the area under the ROC curve."""
    pairs = found[:LIARS, None] - found[None, LIARS:]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = [attack(f, draw) for f in stored(options.predictions) for draw in range(options.draws)]
    names = list(found[0]["change"]), list(found[0]["liar_above_honest"])
    rows = []
    for name in dict.fromkeys(entry["federation"] for entry in found):
        here = [entry for entry in found if entry["federation"] == name]
        change = [np.array([entry["change"][kind] for entry in here]) for kind in names[0]]
        above = [np.mean([entry["liar_above_honest"][kind] for entry in here]) for kind in names[1]]
        lies, held = (f"{np.mean([entry[kind] for entry in here]):.2f}" for kind in ("lies", "certain"))
        rows.append(
            [name, lies, *(f"{c.mean():.1f} ({c.min():.1f})" for c in change), *(f"{a:.2f}" for a in above), held]
        )
    print(f"{LIARS} of 10 lie within the honest range; changes in points, mean (worst) of {options.draws} draws")
    table(["federation", "lies", *names[0], *names[1], "certain"], rows)
    if options.json:
        settings = {"draws": options.draws, "defence": DEFAULT}
        write(options.json, seed=0, settings=settings, results=found)


if __name__ == "__main__":
    script(main)
