"""The tables of ``docs/results/kinds.md``, and of the masses of estimators in ``docs/union.md``, from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from _published import bold, number, record, spread, table
from _union_tables import DATA, SKEWS, gap, mean

METHODS = {
    "local": "local",
    "ensemble": "ensemble",
    "fedol": "FedOL",
    "fedol+": "FedOL+",
    "pooled": "pooled",
    "union": "**union**",
    "central": "central",
}
SERVERS = ("fedol", "fedol+", "pooled", "union")
PARTS = {**SKEWS, "column:hospital": "hospitals", "column:occupation": "occupations"}
GOAL = 1.5  # points below central, of tables and texts
Key = tuple[str, str, str]  # data, partition, kind


@cache
def numbers() -> dict[Key, dict[tuple[str, str], list[float]]]:
    """Of each federation, in the order of data, partitions and kinds, what was measured: by quantity and method."""
    found: dict[Key, dict[tuple[str, str], list[float]]] = {}
    for row in record("kinds")["summary"]:
        mine = found.setdefault((row["data"], row["partition"], row["kind"]), {})
        mine[row["quantity"], row["method"]] = row["values"]
    return found


def below(key: Key, method: str) -> list[float]:
    """How far a method's server is below central training, seed by seed."""
    mine = numbers()[key]
    return gap(mine["accuracy", method], mine["accuracy", "central"])


def words(key: Key) -> list[str]:
    data, partition, kind = key
    return [DATA[data], PARTS[partition], kind]


def accuracies() -> str:
    """Every method, and how far the union is below central training."""
    rows = []
    for key, mine in numbers().items():
        best = max(SERVERS, key=lambda method: mean(mine["accuracy", method]))
        cells = [spread(mine["accuracy", method], scale=1) for method in METHODS]
        cells = [bold(cell) if method == best else cell for method, cell in zip(METHODS, cells, strict=True)]
        count = str(len(mine["accuracy", "union"]))
        rows.append([*words(key), count, *cells, spread(below(key, "union"), sign=True, scale=1)])
    return table(
        ["data", "clients", "kind", "n", *METHODS.values(), f"union below central (goal: ≤ {GOAL})"], rows, left=3
    )


def missed() -> Iterator[Key]:
    """The federations in which the union misses the goal."""
    return (key for key in numbers() if mean(below(key, "union")) > GOAL)


def misses() -> str:
    """Where the union misses the goal: how good its targets are, and what a server learnt from them."""
    rows = []
    for key in missed():
        mine = numbers()[key]
        told = [mine["targets", "union"], mine["accuracy", "union"], mine["accuracy", "central"], below(key, "union")]
        rows.append([*words(key), *(spread(values, scale=1) for values in told)])
    return table(["data", "clients", "kind", "targets", "server", "central", "below central"], rows, left=3)


def goals() -> str:
    """Of each method, by data, the federations at the goal, and how far their mean is below central training."""
    rows = []
    for method in SERVERS:
        row = [METHODS[method]]
        for data in dict.fromkeys(key[0] for key in numbers()):
            gaps = [mean(below(key, method)) for key in numbers() if key[0] == data]
            row.append(f"{sum(value <= GOAL for value in gaps)} of {len(gaps)}; {number(mean(gaps), sign=True)}")
        everywhere = [mean(below(key, method)) for key in numbers()]
        row.append(f"{sum(value <= GOAL for value in everywhere)} of {len(everywhere)}")
        rows.append(row)
    return table(["", *(DATA[data] for data in dict.fromkeys(key[0] for key in numbers())), "all"], rows)


def taming() -> str:
    """Each way to tame the masses of estimators: a federation's targets, the mean over kinds, seed by seed."""
    found: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    for row in record("taming"):
        ways = found.setdefault((row["data"], row["partition"]), {})
        ways.setdefault(row["way"], []).append(row["values"])
    ways = list(next(iter(found.values())))
    rows = [
        [DATA[data], PARTS[partition], *(spread(map(mean, zip(*mine[way], strict=True)), scale=1) for way in ways)]
        for (data, partition), mine in found.items()
    ]
    return table(["data", "clients", *(f"**{way}**" if way == "both" else way for way in ways)], rows, left=2)


TABLES: dict[str, Callable[[], str]] = {
    "kinds": accuracies,
    "kinds-goals": goals,
    "kinds-misses": misses,
    "taming": taming,
}
