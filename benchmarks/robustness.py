"""Hostile clients on real predictions: every attack, 1, 3 and 4 of 10 clients, every method.

    python benchmarks/robustness.py --json benchmarks/results/robustness.json
    python benchmarks/robustness.py --held-out 21 22 23 --cifar DATA --draws 1 \
        --json benchmarks/results/robustness-held-out.json

Ten clients' predictions on 5,000 CIFAR-100 images in each of four federations, on which the screening's thresholds were
set; or, with ``--held-out`` and seeds, clients trained here that nothing was tuned on (``federations.py``). Attackers
know everyone's predictions; which clients they are is drawn ``--draws`` times. Printed per attack is accuracy (labels
are only used here, to score) minus that of literal FedOL without the attacking clients: of Algorithm 1's pseudo-labels
at rho = 0.1, of the λ mixture, and of FedOL+: its labels, and its class for every image, which is also that of pooled
logits. On these two no defence but trust acts. Other methods have one target; the difference is to the same method
without the attacking clients. "ours, alike" is the stricter difference of ours to ours without the attacking clients,
all honest ones heard: a defence that makes labels better must not hide behind that what liars cost. "caught" and
"false" count the attackers and the honest clients that our screening leaves out.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from _record import script, table, write
from federations import PREDICTIONS, Federation, simulated, stored
from torch import Tensor

from fedol import methods
from fedol.knowledge import Knowledge
from fedol.methods import Distillation
from fedol.methods.fedol import FedOL
from fedol.robust import DEFAULT, DEFENCES, Defence, hearing_everyone, screen
from fedol.robust.agreement import Opinions
from fedol.robust.attacks import ATTACKS, KNOWING, attacked
from fedol.robust.trust import judge
from fedol.seeding import derive, numpy_generator

OTHERS = ("feddf", "fedhkt", "mine")
KINDS = ("pseudo_labels", "mixture", "fedol+", "pooled")
HEARD = hearing_everyone(DEFAULT)  # the default, but nobody is left out
STEPS = 10  # of Weiszfeld's iteration
AWARE = [attack.__name__ for attack in KNOWING]
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)  # of trust: how many honest clients a stricter one would cost


def fedol(federation: Federation, clients: list[Tensor], defence: str) -> dict[str, Any]:
    """The accuracy of every kind of target under a defence, and whom it leaves out."""
    knowledge, settings = known(clients), Distillation(defence=Defence.parse(defence))
    kept = screen(knowledge).kept if settings.defence.trust else list(range(len(clients)))
    teacher = FedOL([knowledge[k] for k in kept], settings)
    targets = teacher.targets(1, None)
    assert targets.votes is not None
    mixed = methods.find("mixture").teacher([knowledge[k] for k in kept], settings).targets(1, None)
    sure, everywhere = plus(tuple(clients[k] for k in kept))
    return {
        "pseudo_labels": federation.score(targets.votes.labels),
        "coverage": targets.record["coverage"],
        "mixture": federation.score(mixed.soft.argmax(1)),
        "fedol+": federation.score(sure),
        "pooled": federation.score(everywhere),
        "left_out": [k for k in range(len(clients)) if k not in kept],
    }


@lru_cache(maxsize=8)
def plus(clients: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """FedOL+'s labels, and the class it gives every image; kept, because several defences hear the same clients."""
    targets = methods.find("fedol+").teacher(known(list(clients)), Distillation()).targets(1, None)
    assert targets.votes is not None
    return targets.votes.labels, targets.soft.argmax(1)


def others(federation: Federation, clients: list[Tensor]) -> dict[str, float]:
    """The accuracy of the other methods' targets."""
    knowledge = known(clients)
    targets = {name: methods.find(name).teacher(knowledge, Distillation()).targets(1, None).soft for name in OTHERS}
    targets["geometric median"] = geometric_median(clients)
    return {name: federation.score(soft.argmax(1)) for name, soft in targets.items()}


def known(clients: list[Tensor]) -> list[Knowledge]:
    return [Knowledge.from_probabilities(probs, client=f"client {k}") for k, probs in enumerate(clients)]


def geometric_median(clients: list[Tensor]) -> Tensor:
    """Per image the point of least total distance to all clients' distributions."""
    points = torch.stack(clients)
    centre = points.mean(0)
    for _ in range(STEPS):
        weight = 1 / (points - centre).norm(dim=2, keepdim=True).clamp_min(1e-6)
        centre = (weight * points).sum(0) / weight.sum(0)
    return centre


def cell(federation: Federation, attack: str, count: int, draw: int) -> dict[str, Any]:
    """One attack by ``count`` clients: every method with the attackers, and without those clients."""
    rng = numpy_generator(draw, federation.name, attack, count)
    bad = sorted(rng.choice(len(federation.clients), count, replace=False).tolist())
    honest = [probs for k, probs in enumerate(federation.clients) if k not in bad]
    sent = attacked(attack, [federation.clients[k] for k in bad], honest, derive(draw, attack, count))
    clients = list(federation.clients)
    for k, probs in zip(bad, sent, strict=True):
        clients[k] = probs
    ours, ideal = fedol(federation, clients, DEFAULT), fedol(federation, honest, HEARD)
    removed = {**others(federation, honest), **figures("literal", fedol(federation, honest, "none"))}
    removed |= figures("ours, alike", ideal)
    literal = fedol(federation, clients, "none")
    with_them = {**others(federation, clients), **figures("literal", literal), **figures("ours", ours)}
    with_them |= figures("ours, alike", ours)
    reference = {**removed, **{f"ours, {kind}": removed[f"literal, {kind}"] for kind in KINDS}}
    return {
        "federation": federation.name,
        "attack": attack,
        "attackers": bad,
        "caught": len(set(ours["left_out"]) & set(bad)),
        "false_alarms": len(set(ours["left_out"]) - set(bad)),
        "coverage": {"ours": ours["coverage"], "ours without them": ideal["coverage"], "literal": literal["coverage"]},
        "accuracy": with_them,
        "without_attackers": removed,
        "change": {name: with_them[name] - reference[name] for name in with_them},
    }


def figures(name: str, found: dict[str, Any]) -> dict[str, float]:
    return {f"{name}, {kind}": found[kind] for kind in KINDS}


def clean(federation: Federation) -> dict[str, Any]:
    """What each defence costs where nobody lies, in points; and whom it leaves out."""
    literal = fedol(federation, federation.clients, "none")
    costs = {}
    for defence in (*DEFENCES, DEFAULT):
        found = fedol(federation, federation.clients, defence)
        costs[defence] = {
            **{kind: literal[kind] - found[kind] for kind in KINDS},
            "false_alarms": len(found["left_out"]),
        }
    opinions = Opinions.of(federation.clients)
    stricter = {str(threshold): len(judge(opinions, threshold).excluded) for threshold in THRESHOLDS}
    return {"federation": federation.name, "literal": literal, "cost": costs, "false_alarms_at_threshold": stricter}


def kind(name: str) -> str:
    """A federation's name without its seed."""
    return name.split(" seed ")[0]


def by_kind(without: list[dict[str, Any]], cells: list[dict[str, Any]]) -> None:
    """Per kind of federation what trust costs without attackers, and what three of ten can do."""
    rows = []
    for name in dict.fromkeys(kind(found["federation"]) for found in without):
        clean_ones = [found["cost"][DEFAULT] for found in without if kind(found["federation"]) == name]
        here = [c for c in cells if kind(c["federation"]) == name and len(c["attackers"]) == 3]
        plain = [c for c in here if c["attack"] not in AWARE]
        lost = [f"{min(c['change'][f'ours, {k}'] for c in plain):.1f}" for k in KINDS]
        rows.append(
            [
                name,
                str(sum(c["false_alarms"] for c in clean_ones)),
                *(f"{max(c[k] for c in clean_ones):.2f}" for k in KINDS),
                f"{sum(c['caught'] for c in plain)}/{3 * len(plain)}",
                str(sum(c["false_alarms"] for c in plain)),
                *lost,
            ]
        )
    print(
        "\nPer federation: nobody attacks, and 3 of 10 do (without attacks that know the screening; the worst change)"
    )
    table(["federation", "left out", *(f"cost: {k}" for k in KINDS), "caught", "false", *KINDS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("--held-out", type=int, nargs="+", help="seeds of federations to train in their place")
    parser.add_argument("--cifar", help="the folder of CIFAR-100, for more of these")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--attackers", type=int, nargs="+", default=[1, 3, 4])
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    made = simulated(options.held_out, options.cifar) if options.held_out else stored(options.predictions)
    everyone = list(made)
    without = [clean(federation) for federation in everyone]
    print("Cost of each defence without attackers, in points (the worst federation)")
    kinds = (*KINDS, "false_alarms")
    worst = {d: [max(found["cost"][d][kind] for found in without) for kind in kinds] for d in (*DEFENCES, DEFAULT)}
    table(["defence", *kinds], [[d, *(f"{value:.2f}" for value in row)] for d, row in worst.items()])
    cells = []
    for count in options.attackers:
        for attack in options.attacks:
            found = [cell(f, attack, count, draw) for f in everyone for draw in range(options.draws)]
            cells += found
            names = list(found[0]["change"])
            if attack == options.attacks[0]:
                print(f"\n{count} of 10 attack: change in points, the worst federation and draw")
                print("  ".join(["attack    ", "caught", "false", *names]))
            low = [min(entry["change"][name] for entry in found) for name in names]
            caught = sum(entry["caught"] for entry in found)
            alarms = sum(entry["false_alarms"] for entry in found)
            row = [f"{attack:10}", f"{caught}/{count * len(found)}".rjust(6), str(alarms).rjust(5)]
            print("  ".join([*row, *(f"{v:.1f}".rjust(len(n)) for v, n in zip(low, names, strict=True))]), flush=True)
    by_kind(without, cells)
    if options.json:
        settings = {"draws": options.draws, "federations": [f.name for f in everyone], "defence": DEFAULT}
        write(options.json, seed=0, settings=settings, results={"clean": without, "attacked": cells})


if __name__ == "__main__":
    script(main)
