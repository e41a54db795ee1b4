"""The tables of clients that send ratios in ``docs/robustness.md`` and ``docs/privacy.md``, from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import mean
from typing import Any

from _published import bold, record, spread, table

WAYS = ("none", "predictions", "cap", "both")
COLUMNS = ("undefended", "screened by predictions, `cap`", "`cap` alone", "**ours**: `trust,cap`")
CLAIMS = {
    "honest": "its own",
    "tenfold": "its own, × 10",
    "thousandfold": "its own, × 1,000",
    "flat": "even, mean kept",
    "few": "on a tenth of the images, mean kept",
    "crowd": "as all others together, mean kept",
    "samples": "even, of 100 times as many samples",
}
ATTACKS = {
    "constant": "constant one-hot",
    "random": "confident random",
    "permuted": "permuted classes",
    "colluding": "colluding permuters",
    "specialist3": "specialist, 3 classes",
    "specialist10": "specialist, 5 classes",
    "modest": "modest specialist",
}
HOSTILE, HONEST = 3, 7


def federations(cells: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell["data"], cell["partition"]) for cell in cells))


def changes(cells: list[dict[str, Any]]) -> list[str]:
    """Who is found, and mean and worst change of each way."""
    caught, false = (sum(cell[key] for cell in cells) for key in ("caught", "false"))
    values = [[cell["change"][way] for cell in cells] for way in WAYS]
    told = [f"{mean(found):.1f} / {min(found):.1f}" for found in values]
    seen = [f"{caught:,} of {HOSTILE * len(cells):,}", f"{false:,} of {HONEST * len(cells):,}"]
    return [*told[:-1], bold(told[-1]), *seen]


def by(key: str, names: dict[str, str]) -> str:
    """A line for each value, over all federations but those of few classes, and those in the last columns."""
    cells, few = record("liars")["cells"], ("classes:2", "dirichlet:0.05")
    rows = []
    for value, words in names.items():
        found = [cell for cell in cells if cell[key] == value]
        shared, rare = ([c for c in found if (c["partition"] in few) == those] for those in (False, True))
        told = [f"{mean(c['change'][way] for c in part):.1f}" for part in (shared, rare) for way in ("none", "both")]
        caught = [f"{sum(c['caught'] for c in part) / HOSTILE / len(part):.0%}" for part in (shared, rare)]
        rows.append([words, told[0], bold(told[1]), caught[0], told[2], bold(told[3]), caught[1]])
    columns = ["undefended", "**ours**", "caught", "undefended, few classes", "**ours**", "caught"]
    return table(["3 of 10 claim" if key == "claim" else "3 of 10 say", *columns], rows)


def by_federation() -> str:
    """What each way makes of all lies, by federation."""
    cells = record("liars")["cells"]
    rows = []
    for data, partition in federations(cells):
        found = [cell for cell in cells if (cell["data"], cell["partition"]) == (data, partition)]
        rows.append([f"{data} {partition}", *changes(found)])
    rows.append(["all", *changes(cells)])
    return table(["federation", *COLUMNS, "caught", "honest left out"], rows)


def clean() -> str:
    """What the defences cost where nobody lies."""
    runs = record("liars")["clean"]
    rows = []
    for data, partition in federations(runs):
        found = [run for run in runs if (run["data"], run["partition"]) == (data, partition)]
        ways = [[run["change"][way] for run in found] for way in ("cap", "both", "predictions", "levelled", "median")]
        out = sum(len(run["left_out"]) for run in found)
        accuracy = spread((run["accuracy"] for run in found), scale=1)
        told = [f"{mean(values):.2f} / {min(values):.1f}" for values in ways]
        rows.append([f"{data} {partition}", accuracy, *told, f"{out} of {10 * len(found)}"])
    tried = ["screened by predictions", "every client its part", "median of 5 groups"]
    return table(["federation", "undefended %", "`cap`", "`trust,cap`", *tried, "left out"], rows)


def privacy() -> str:
    """Ratios against predictions of the same clients."""
    cells = record("privacy-ratios")
    rows = []
    for folds, epsilon, codec in dict.fromkeys((cell["folds"], cell["epsilon"], cell["codec"]) for cell in cells):
        same = [c for c in cells if (c["folds"], c["epsilon"], c["codec"]) == (folds, epsilon, codec)]
        leaks = [cell["membership"] for cell in same]
        best = "likelihood ratio of both" if folds else "likelihood ratio"

        def auc(attack: str, leaks: list[dict[str, Any]] = leaks) -> str:
            return spread((leak[attack]["auc"] for leak in leaks if attack in leak), 3, scale=1)

        found = [leak[best]["tpr_at_1_percent"] for leak in leaks if best in leak]
        rows.append(
            [
                "ratios" if folds else "predictions",
                "∞" if epsilon is None else f"{epsilon:g}",
                codec.removesuffix("+zstd"),
                f"{mean(cell['bytes'] for cell in same):,.0f}",
                spread(cell["server_accuracy"] for cell in same),
                *(auc(attack) for attack in ("threshold", "masses", "likelihood ratio", "likelihood ratio of masses")),
                auc("likelihood ratio of both"),
                spread(found),
                spread(cell["label_mix_error"] for cell in same),
            ]
        )
    attacks = ["threshold", "on masses", "likelihood ratio", "of masses", "of both", "its TPR at 1 %"]
    columns = ["sends", "ε (δ = 1e-4)", "codec", "bytes", "server %", *attacks, "class-mix error %"]
    return table(columns, rows, left=3)


TABLES: dict[str, Callable[[], str]] = {
    "liars": by_federation,
    "liars-clean": clean,
    "liars-claims": lambda: by("claim", CLAIMS),
    "liars-attacks": lambda: by("attack", ATTACKS),
    "privacy-ratios": privacy,
}
