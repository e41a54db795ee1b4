"""The tables of clients that lie in their predictions in ``docs/robustness.md``, from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import mean
from typing import Any

from _pooling_tables import FILES
from _published import bold, record, table

ATTACKS = {
    "constant": "constant one-hot",
    "random": "confident random",
    "noise": "scaled noise",
    "permuted": "permuted classes",
    "colluding": "colluding permuters",
    "copies": "colluding copies",
    "backdoor": "backdoor class",
    "forged": "entropy-forged",
    "specialist3": "specialist, 3 classes",
    "specialist10": "specialist, 10 classes",
    "adaptive": "adaptive",
    "parrot": "parrot",
    "modest": "modest specialist",
}
SPECIALISTS, CAREFUL = ("specialist3", "specialist10"), ("adaptive", "parrot", "modest")
BLIND = tuple(attack for attack in ATTACKS if attack not in (*SPECIALISTS, *CAREFUL))
VOTES, ALL = ("pseudo_labels", "mixture"), ("pseudo_labels", "mixture", "fedol+", "pooled")
HOSTILE, CLIENTS = 3, 10
Case = dict[str, Any]


def attacked(name: str, attacks: Iterable[str]) -> list[Case]:
    """What three of ten made of it, by each of these attacks."""
    wanted = set(attacks)
    return [c for c in record(name)["attacked"] if c["attack"] in wanted and len(c["attackers"]) == HOSTILE]


def changes(cases: list[Case], of: Callable[[list[float]], float], who: str, targets: Iterable[str]) -> str:
    """In points, of the targets that ``who`` makes."""
    return " / ".join(f"{of([case['change'][f'{who}, {target}'] for case in cases]):z.1f}" for target in targets)


def found(cases: list[Case], honest: bool = True) -> list[str]:
    """How many liars are, and how many that are none."""
    caught, wrong = (sum(case[key] for case in cases) for key in ("caught", "false_alarms"))
    return [
        f"{caught} of {HOSTILE * len(cases)}",
        f"{wrong} of {(CLIENTS - HOSTILE) * len(cases)}" if honest else str(wrong),
    ]


def by_attack() -> str:
    """The worst case of every method, on the federations that thresholds were set on."""
    plain = {"feddf": "FedDF", "fedhkt": "FedHKT-style", "mine": "MinE", "geometric median": "geometric median"}
    rows = []
    for attack, words in ATTACKS.items():
        cases = attacked("robustness", [attack])
        others = [f"{min(case['change'][name] for case in cases):z.1f}" for name in plain]
        literal, ours = (
            [changes(cases, min, who, targets) for targets in (VOTES, ALL[2:])] for who in ("literal", "ours")
        )
        rows.append([words, *literal, *others, *map(bold, ours), *found(cases, honest=False)])
    ours = ["**ours**", "**ours, FedOL+ / pooled**", "caught", "honest left out"]
    return table(["3 of 10 attack", "literal FedOL", "FedOL+ / pooled", *plain.values(), *ours], rows)


def federations(runs: Iterable[Case]) -> list[str]:
    """Their names without the seed."""
    return list(dict.fromkeys(run["federation"].split(" seed ")[0] for run in runs))


def of(federation: str, runs: Iterable[Case]) -> list[Case]:
    """Its runs, of all seeds."""
    return [run for run in runs if run["federation"].split(" seed ")[0] == federation]


def held_out() -> str:
    """Attacks that know no filter, on federations that nothing was set on."""
    name, rows = "robustness-held-out", []
    for federation in federations(record(name)["clean"]):
        clean, cases = of(federation, record(name)["clean"]), of(federation, attacked(name, BLIND))
        left = sum(run["cost"]["trust"]["false_alarms"] for run in clean)
        cost = mean(run["cost"]["trust"]["mixture"] for run in clean)
        rows.append(
            [
                federation,
                f"{left} of {CLIENTS * len(clean)}",
                f"{cost:z.2f}",
                *found(cases),
                changes(cases, mean, "literal", VOTES),
                changes(cases, mean, "ours", VOTES),
                changes(cases, min, "ours", VOTES),
            ]
        )
    cost = ["honest left out, nobody lies", "its cost to the mixture"]
    seen = ["liars caught", "honest left out", "literal FedOL, mean", "**ours, mean**", "ours, worst"]
    return table(["federation", *cost, *seen], rows)


def specialists() -> str:
    """Clients that claim to know too much, on the same."""
    cases = attacked("robustness-held-out", SPECIALISTS)
    rows = []
    for federation in federations(cases):
        own = of(federation, cases)
        ours = (changes(own, how, "ours", ALL) for how in (mean, min))
        rows.append([federation, *found(own), changes(own, mean, "literal", ALL), *ours])
    return table(
        ["federation", "liars caught", "honest left out", "undefended, mean", "**ours, mean**", "ours, worst"], rows
    )


def careful() -> str:
    """Liars who know the filter, on the same."""
    rows = []
    for attack in CAREFUL:
        cases = attacked("robustness-held-out", [attack])
        rows.append([ATTACKS[attack], *(changes(cases, how, "ours", VOTES) for how in (min, mean))])
    return table(["3 of 10 attack", "at worst", "on average"], rows)


def indistinguishable() -> str:
    """Liars none of whose figures is outside of what honest clients span."""
    draws = record("indistinguishable")
    rows = []
    for federation, words in FILES.items():
        own = [draw for draw in draws if draw["federation"] == federation]
        inside = [draw for draw in own if draw["inside"]]
        row = [words, f"{len(inside)} of {len(own)}"]
        if inside:
            votes, late, mixture = (min(draw["change"][target] for draw in inside) for target in inside[0]["change"])
            row += [f"{mean(draw['lies'] for draw in inside):.0%}", f"{votes:z.1f} / {late:z.1f}", f"{mixture:z.1f}"]
        rows.append([*row, *[""] * (5 - len(row))])
    worst = ["labels, rho 0.1 / 0.55 (worst)", "mixture (worst)"]
    return table(["federation", "draws within the honest range", "images lied about", *worst], rows)


TABLES: dict[str, Callable[[], str]] = {
    "robustness": by_attack,
    "robustness-indistinguishable": indistinguishable,
    "robustness-held-out": held_out,
    "robustness-specialists": specialists,
    "robustness-careful": careful,
}
