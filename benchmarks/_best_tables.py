"""The tables of FedOL+ and the preset ``best``, and README's."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from _published import (
    BEST,
    FEDOL,
    FOUR,
    HARD,
    PARTITIONS,
    PLUS,
    POOL,
    Seeds,
    above,
    accuracies,
    bold,
    cells,
    code,
    found,
    lead,
    name,
    number,
    paper_fedol,
    paper_words,
    papers,
    shares,
    small,
    spread,
    table,
)

from fedol.bench import paper
from fedol.methods import ENSEMBLE


def fedol_plus() -> str:
    """FedOL+ against FedOL from the same uploads, seed by seed."""
    rows = papers(64, (3, 4, 5))
    long = found("paper", lambda s: s["method"] == "fedol+" and s["width"] == 64)
    body = [[FEDOL, *(spread(shares(rows[FEDOL][p])) for p in PARTITIONS)]]
    body.append([bold(PLUS), *(bold(spread(shares(long[PLUS][p]))) for p in PARTITIONS)])
    body.append(["points above FedOL", *(spread(lead(long[PLUS][p], rows[FEDOL][p]), sign=True) for p in PARTITIONS)])
    for seed in (3, 4, 5):
        leads = [lead({seed: long[PLUS][p][seed]}, rows[FEDOL][p]) for p in PARTITIONS]
        body.append([f"with seed {seed}", *(spread(one, sign=True) for one in leads)])
    return table(["", *code(PARTITIONS)], body)


def targets() -> str:
    """How right targets and labels are in the first and the last iteration."""
    chosen = {
        FEDOL: papers(64, (3, 4, 5))[FEDOL],
        PLUS: found("paper", lambda s: s["method"] == "fedol+" and s["width"] == 64)[PLUS],
    }
    body = []
    for words, key in (("targets right", "target_accuracy"), ("labels right", "pseudo_label_accuracy")):
        for row, partitions in chosen.items():
            line = [f"{row}: {words}, %"]
            for partition in HARD:
                for place in (0, -1):
                    values = [c["history"][place]["diagnostics"][key] for c in partitions[partition].values()]
                    line.append(number(100 * mean(values)))
            body.append(line)
    return table(["", *(f"`{p}`, {when}" for p in HARD for when in ("first", "last"))], body)


def plus_small(folder: str, methods: tuple[str, ...]) -> str:
    """FedOL+ and its pooling on a small dataset, four partitions."""
    rows = small(folder)
    body = [[name(m), *(spread(shares(rows[name(m)][p])) for p in FOUR)] for m in methods]
    leads = [spread(lead(rows[PLUS][p], rows[FEDOL][p]), sign=True) for p in FOUR]
    return table(["", *code(FOUR)], [*body, ["FedOL+ above FedOL", *leads]])


def best_on_the_test_set() -> str:
    """The preset, the paper's numbers and the clients that taught it."""
    rows = found("best", lambda s: True)
    servers, ensembles = rows[POOL], rows[name(ENSEMBLE)]

    def pooled(rule: str, partition: str) -> str:
        return spread(cell["ensembles"][rule] for cell in ensembles[partition].values())

    def clients(pick: Callable[[list[float]], float], partition: str) -> str:
        all_of = [[100 * client["accuracy"] for client in cell["clients"]] for cell in servers[partition].values()]
        return number(mean(map(pick, all_of)))

    goal = {p: number(100 * paper_fedol(p) + 10) for p in PARTITIONS}
    least = {p: 100 * (min(shares(servers[p])) - paper_fedol(p)) for p in PARTITIONS}
    body = [
        [bold("`best`"), *(bold(spread(shares(servers[p]))) for p in PARTITIONS)],
        ["the paper's FedOL", *map(paper_words, PARTITIONS)],
        ["our goal: ten points more", *goal.values()],
        ["lowest run, above the paper's", *(number(least[p], sign=True) for p in PARTITIONS)],
        ["ensemble of the clients by the λ mixture", *(pooled("fedhkt-k", p) for p in PARTITIONS)],
        ["ensemble of the clients by the pool", *(pooled("pooled", p) for p in PARTITIONS)],
        ["one client: mean", *(clients(mean, p) for p in PARTITIONS)],
        ["one client: best of ten", *(clients(max, p) for p in PARTITIONS)],
    ]
    return table(["", *code(PARTITIONS)], body)


AS_BEST: dict[str, Any] = {"method": "pooled", "epochs": 100, "server_epochs": 200, **BEST}
AS_BEST_16 = {**AS_BEST, "epochs": 50, "server_epochs": 100, "augment": True}
FEDOL_64 = {"method": "fedol", "epochs": 100, **BEST}
HALF = {**AS_BEST, "epochs": 50}
# What an ingredient is, the settings that take it away, and those from which it is taken.
LESS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("the pool; FedOL instead", FEDOL_64, AS_BEST),
    ("the pool; the λ mixture instead", {**AS_BEST, "method": "fedhkt-k"}, AS_BEST),
    ("cutmix", {**AS_BEST, "patch": "none"}, AS_BEST),
    ("200 epochs of the server; 100 instead", {**AS_BEST, "server_epochs": 100}, AS_BEST),
    ("the average of weights", {**AS_BEST, "average": 0.0}, AS_BEST),
    ("100 epochs of the clients; 50 instead", HALF, AS_BEST),
    ("the cosine schedule, clients of 50 epochs", {**HALF, "schedule": "constant"}, HALF),
    ("no weight decay; AdamW with 0.1 instead", {**AS_BEST, "weight_decay": 0.1}, AS_BEST),
    ("no pseudo-labels; FedOL+ instead", {**FEDOL_64, "method": "fedol+"}, AS_BEST),
]
LESS_16 = [
    ("flips and crops", {**AS_BEST_16, "augment": None}),
    ("the pool; FedOL instead", {"method": "fedol", "augment": True, **BEST}),
    ("cutmix", {**AS_BEST_16, "patch": "none"}),
    ("the average of weights", {**AS_BEST_16, "average": 0.0}),
    ("the cosine schedule", {**AS_BEST_16, "schedule": "constant"}),
]


def ablation() -> str:
    """What taking an ingredient of `best` away costs, on the mean of two partitions."""
    body = []
    for folder, width, entries in (
        ("dev64", 64, LESS),
        ("dev", 16, [(words, less, AS_BEST_16) for words, less in LESS_16]),
    ):
        for words, less, whole in entries:
            points = above(accuracies(folder, **whole), accuracies(folder, **less))
            seeds = [mean(points[p, seed] for p in HARD) for seed in sorted({seed for _, seed in points})]
            parts = [spread([points[p, seed] for q, seed in points if q == p], sign=True, scale=1) for p in HARD]
            body.append([words, f"{width}", f"{len(seeds)}", *parts, bold(spread(seeds, 2, sign=True, scale=1))])
    return table(["taken away", "width", "seeds", *code(HARD), "mean of both"], body)


def development() -> str:
    """What `best` and its relatives reach on held-out images, width 64."""
    rows = [("**`best`**", AS_BEST), ("FedOL, same training", FEDOL_64)]
    body = [
        [words, *(spread(a for (q, _), a in accuracies("dev64", **wanted).items() if q == p) for p in HARD)]
        for words, wanted in rows
    ]
    mixed, wanted = {"method": "fedhkt-k", "epochs": 100}, {"method": "ensemble", "epochs": 100}
    body.append(["seed 0: server taught by the λ mixture", *(one("dev64", p, **mixed) for p in HARD)])
    (first,) = {cell["seed"] for cell in cells("dev64") if fits(cell, wanted)}
    body.append([f"seed {first}: server taught by the pool", *(one("dev64", p, seed=first, **AS_BEST) for p in HARD)])
    for rule, words in (("fedhkt-k", "λ mixture"), ("pooled", "pool")):
        shares = {c["settings"]["partition"]: c["ensembles"][rule] for c in cells("dev64") if fits(c, wanted)}
        body.append([f"seed {first}: the clients' {words}, no server", *(number(100 * shares[p]) for p in HARD)])
    return table(["", *code(HARD)], body)


def fits(cell: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a cell has these settings."""
    return all(cell["settings"].get(key) == value for key, value in wanted.items())


def one(folder: str, partition: str, **wanted: Any) -> str:
    """The accuracy of a single cell."""
    (value,) = (a for (p, _), a in accuracies(folder, **wanted).items() if p == partition)
    return number(100 * value)


def best_elsewhere(folder: str) -> str:
    """The recipe of `best` on Fashion-MNIST."""
    rows = found(folder, lambda s: s["method"] in ("pooled", "fedol"))
    body = [
        ["**`best`: the pool**", *(spread(shares(rows[POOL][p])) for p in FOUR)],
        ["FedOL, same training", *(spread(shares(rows[FEDOL][p])) for p in FOUR)],
        ["points above FedOL", *(spread(lead(rows[POOL][p], rows[FEDOL][p]), sign=True) for p in FOUR)],
    ]
    return table(["", *code(FOUR)], body)


def readme() -> str:
    """The one table of README: FedOL in the paper, here, and what the same upload can do."""
    short, wide = papers(64, (0, 4, 5)), papers(64, (3, 4, 5))
    plus = found("paper", lambda s: s["method"] == "fedol+" and s["width"] == 64)[PLUS]
    best = found("best", lambda s: s["method"] == "pooled")[POOL]

    def row(words: str, seeds: dict[str, Seeds]) -> list[str]:
        return [words, *(spread(shares(seeds[p])) for p in PARTITIONS)]

    theirs = " / ".join(f"{100 * one[0]:.1f}" for p in PARTITIONS if (one := paper.one_round("cifar100", p, "feddf")))
    clients = [[100 * c["accuracy"] for cell in best[p].values() for c in cell["clients"]] for p in PARTITIONS]
    body = [
        ["FedOL, in the paper", *map(paper_words, PARTITIONS)],
        row("FedOL, the paper's setting reproduced, seeds 0, 4, 5", short[FEDOL]),
        row(f"FedDF, the same ({theirs} in the paper)", short["FedDF"]),
        row("FedOL, the same, seeds 3 to 5", wide[FEDOL]),
        row("FedOL+, the same clients and as long a training", plus),
        [bold("the preset `best`"), *(bold(spread(shares(best[p]))) for p in PARTITIONS)],
        ["one client of `best`, on average", *(number(mean(values)) for values in clients)],
    ]
    names = ["Dirichlet(1)", "Dirichlet(0.05)", "30 classes a client", "20 classes a client"]
    return table(["", *names], body)


TABLES: dict[str, Callable[[], str]] = {
    "fedol-plus": fedol_plus,
    "targets": targets,
    "fedol-plus-digits": lambda: plus_small(
        "digits", ("fedhkt-k", "fedol", "pooled", "pooled-uniform", "pooled-free", "fedol+")
    ),
    "fedol-plus-fashion": lambda: plus_small("fashion", ("fedhkt-k", "fedol", "pooled", "fedol+")),
    "best": best_on_the_test_set,
    "best-ablation": ablation,
    "best-development": development,
    "best-fashion": lambda: best_elsewhere("best-fashion"),
    "best-fashion-small": lambda: best_elsewhere("best-fashion-small"),
    "readme": readme,
}
