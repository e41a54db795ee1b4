"""The tables of ``docs/union.md`` and ``docs/results/union.md``, from the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import stdev
from typing import Any

from _published import bold, found, name, number, record, shares, spread, table

DATA = {"digits": "digits", "fashion-mnist": "Fashion-MNIST", "heart": "heart", "adult": "Adult", "ag-news": "AG News"}
SKEWS = {
    "dirichlet:0.05": "Dir(0.05)",
    "dirichlet:0.1": "Dir(0.1)",
    "dirichlet:0.3": "Dir(0.3)",
    "dirichlet:1": "Dir(1)",
    "classes:30": "30 classes",
    "classes:20": "20 classes",
    "classes:3": "3 classes",
    "classes:2": "2 classes",
    "iid": "iid",
    "sites": "sites",
}
METHODS = {"local": "local", "mixture": "λ mixture", "pool": "pool", "union": "**union**", "central": "central"}
IMAGES = ("digits", "fashion-mnist")
THIN = ("alike", "1:50 tail", "half of the classes")
DOUBTS = {
    "mixture": "λ mixture",
    "pool": "pool",
    "plain sum": "plain sum",
    "doubted": "√ of masses",
    "balanced": "balanced",
    "union": "**union: both**",
    "central": "central",
}
SMALL = ("fedol", "fedol+", "pooled", "union")


@cache
def numbers() -> dict[tuple[str, ...], list[float]]:
    """What ``benchmarks/union.py`` measured: by data, partition, public set, model, quantity and method."""
    names = ("data", "partition", "public", "model", "quantity", "method")
    return {tuple(row[key] for key in names): row["values"] for row in record("union")["summary"]}


def cases(*publics: str) -> list[tuple[str, ...]]:
    """The federations with these public sets, model by model."""
    return list(dict.fromkeys(key[:4] for key in numbers() if key[2] in publics))


def of(case: Sequence[str], quantity: str, method: str) -> list[float]:
    """A method's values over the seeds; none where it was not measured."""
    return numbers().get((*case, quantity, method), [])


def mean(values: Sequence[float]) -> float:
    """Of at least one value."""
    return sum(values) / len(values)


def scores(quantity: str) -> str:
    """Every method, where the public set is like the private data."""
    rows = [
        [DATA[case[0]], SKEWS[case[1]], case[3], *(spread(of(case, quantity, method), scale=1) for method in METHODS)]
        for case in cases("alike")
    ]
    return table(["data", "clients", "model", *METHODS.values()], rows, left=3)


def thinned() -> str:
    """Targets on the classes that are there: the pool's and the union's, by what is missing of the public set."""
    rows = []
    for data, partition, _, model in cases("1:50 tail"):
        row = [DATA[data], model]
        for method in ("pool", "union"):
            row += [spread(of((data, partition, public, model), "teacher", method), scale=1) for public in THIN]
        rows.append(row)
    columns = [f"{words}, {public}" for words in ("pool", "**union**") for public in ("balanced", *THIN[1:])]
    return table(["data", "model", *columns], rows, left=2)


def domain(quantity: str) -> str:
    """Every method where the public images are moved, dimmed and noisy."""
    rows = []
    for case in cases("another domain", "another domain, augmented"):
        clients = f"{SKEWS[case[1]]}{', augmented' if case[2].endswith('augmented') else ''}"
        rows.append([DATA[case[0]], clients, case[3]])
        rows[-1] += [spread(of(case, quantity, method), scale=1) for method in DOUBTS]
    return table(["data", "clients", "model", *DOUBTS.values()], rows, left=3)


def half_plain() -> str:
    """The union where every client sends masses, where every second one does, and the pool, which needs none."""
    words = {"pool": "pool", "half plain": "half send masses", "union": "**union**"}
    rows = [
        [DATA[case[0]], SKEWS[case[1]], case[3], *(spread(of(case, "server", method), scale=1) for method in words)]
        for case in cases("alike")
    ]
    return table(["data", "clients", "model", *words.values()], rows, left=3)


def small_nets() -> str:
    """Servers on digits that small nets taught."""
    rows = found("union-digits", lambda settings: settings["method"] in SMALL)
    partitions = [p for p in SKEWS if any(p in of_row for of_row in rows.values())]
    lines = [
        [bold(name(method)) if method == "union" else name(method)]
        + [spread(shares(rows[name(method)][p])) for p in partitions]
        for method in SMALL
    ]
    return table(["server taught by", *(SKEWS[p] for p in partitions)], lines)


def clients() -> str:
    """What small nets may train, and what it costs: servers by partition."""
    kept: list[dict[str, Any]] = record("union-clients")
    partitions = list(dict.fromkeys(row["partition"] for row in kept))
    variants = list(dict.fromkeys(row["variant"] for row in kept))
    by = {(row["partition"], row["variant"]): row for row in kept}
    rows = []
    for variant in variants:
        work = mean([by[p, variant]["work"]["mean"] for p in partitions])
        servers = [by[p, variant]["server"] for p in partitions]
        rows.append([variant, number(work), *(f"{number(100 * s['mean'])} ± {100 * s['std']:.1f}" for s in servers)])
    return table(["clients", "work", *(SKEWS[p] for p in partitions)], rows)


def encoded() -> str:
    """CIFAR-100 by a frozen encoder: servers by partition, and beside them what taught the union's."""
    kept: list[dict[str, Any]] = record("union-encoder")["summary"]
    values = {(row["partition"], row["quantity"], row["method"]): row["values"] for row in kept}
    columns = {**METHODS, "ridge": "ridge of all sums (AFL)"}
    rows = [
        [
            SKEWS[p],
            *(spread(values.get((p, "server", method), []), scale=1) for method in columns),
            spread(values[p, "teacher", "union"], scale=1),
        ]
        for p in dict.fromkeys(row["partition"] for row in kept)
    ]
    return table(["clients", *columns.values(), "the union's targets"], rows)


def gap(first: list[float], second: list[float]) -> list[float]:
    """How far the first is below the second, seed by seed."""
    return [theirs - mine for mine, theirs in zip(first, second, strict=True)]


def goals() -> str:
    """What was aimed at, and the worst case of each; figures of the targets, then of the servers."""
    rows = []

    def aim(words: str, limit: float, below: Callable[[str], dict[str, list[float]]], noise: bool = False) -> None:
        row = [words, f"≤ {limit:g}" + (", but for the spread" if noise else "")]
        for quantity in ("teacher", "server"):
            gaps = below(quantity)
            if not gaps:
                row.append("")
                continue
            where = max(gaps, key=lambda key: mean(gaps[key]))
            met = sum(mean(values) <= limit + (stdev(values) if noise else 0) for values in gaps.values())
            row.append(f"{met} of {len(gaps)}; worst {spread(gaps[where], sign=True, scale=1)} ({where})")
        rows.append(row)

    def under(case: Sequence[str], other: Sequence[str], quantity: str, method: str = "union") -> list[float]:
        return gap(of(case, quantity, "union"), of(other, quantity, method))

    def words(case: Sequence[str]) -> str:
        return f"{DATA[case[0]]} {SKEWS[case[1]]}, {case[3]}"

    images = [case for case in cases("alike") if case[0] in IMAGES]
    real = [case for case in cases("alike") if case[0] not in IMAGES]
    aim(
        "images: below the same with iid data",
        2,
        lambda q: {words(c): under(c, (c[0], "iid", *c[2:]), q) for c in images if c[1] != "iid"},
    )
    aim("tables and texts: below central training", 1.5, lambda q: {words(c): under(c, c, q, "central") for c in real})
    aim(
        "thinned public set: below the balanced one, on classes present",
        2,
        lambda q: (
            {f"{words(c)}, {c[2]}": under(c, (*c[:2], "alike", c[3]), q) for c in cases(*THIN[1:])}
            if q == "teacher"
            else {}
        ),
    )
    aim(
        "another domain: below the better of λ mixture and pool",
        1,
        lambda q: {
            words(c): gap(
                of(c, q, "union"), max((of(c, q, m) for m in ("mixture", "pool")), key=lambda values: mean(values))
            )
            for c in cases("another domain")
        },
    )
    aim(
        "everywhere: below the pool",
        0,
        lambda q: {f"{words(c)}, {c[2]}": under(c, c, q, "pool") for c in dict.fromkeys(key[:4] for key in numbers())},
        noise=True,
    )
    return table(["goal, in points", "limit", "targets", "servers"], rows, left=1)


TABLES: dict[str, Callable[[], str]] = {
    "union-servers": lambda: scores("server"),
    "union-teachers": lambda: scores("teacher"),
    "union-thinned": thinned,
    "union-half": half_plain,
    "union-domain": lambda: domain("server"),
    "union-domain-teachers": lambda: domain("teacher"),
    "union-digits": small_nets,
    "union-clients": clients,
    "union-encoder": encoded,
    "union-goals": goals,
}
