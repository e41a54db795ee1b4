"""The published cells, and how documents write numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from _record import ROOT

from fedol.bench import paper
from fedol.bench.store import BenchFolder
from fedol.bench.summary import as_the_paper, label
from fedol.config import RunConfig, configure
from fedol.errors import FedolError
from fedol.runs.evaluation import summary_statistics

Cell = dict[str, Any]
Seeds = dict[int, Cell]
Found = dict[str, dict[str, Seeds]]  # row, partition, seed

PARTITIONS = ("dirichlet:1", "dirichlet:0.05", "classes:30", "classes:20")
FOUR = ("dirichlet:1", "dirichlet:0.05", "classes:3", "classes:2")  # of data with ten classes
HARD = ("dirichlet:0.05", "classes:20")
TWO = ("dirichlet:0.05", "classes:2")
FEDOL, PLUS, POOL = (label({"method": name}) for name in ("fedol", "fedol+", "pooled"))
PLAIN = {name: getattr(RunConfig(), name) for name in ("average", "weight_decay", "patch", "schedule")}  # cells omit it
BEST = {name: getattr(configure("best"), name) for name in PLAIN}


@cache
def cells(folder: str) -> tuple[Cell, ...]:
    """Every cell of an experiment."""
    return tuple(BenchFolder(ROOT / "results" / folder).results())


@cache
def record(name: str) -> Any:
    """The results of a benchmark's record."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))["results"]


def found(folder: str, fits: Callable[[dict[str, Any]], bool], partitions: Sequence[str] = ()) -> Found:
    """Cells of one round by row, partition and seed; one without a partition stands in all ``partitions``."""
    rows: Found = {}
    for cell in cells(folder):
        settings = cell["settings"]
        if settings.get("rounds", 1) > 1 or not fits(settings):
            continue
        for partition in [settings["partition"]] if "partition" in settings else partitions:
            seeds = rows.setdefault(row_of(settings), {}).setdefault(partition, {})
            if cell["seed"] in seeds:
                raise FedolError(f"results/{folder} has two cells of {row_of(settings)}, {partition}, {cell['seed']}.")
            seeds[cell["seed"]] = cell
    return rows


def row_of(settings: dict[str, Any]) -> str:
    """A row's name: the method's, and FedOL's with another loop."""
    if settings["method"] == "fedol" and settings["iterations"] == 1:
        return "FedOL, one iteration"
    if settings["method"] == "fedol" and settings["rho_step"] == 0:
        return f"FedOL, ρ = {settings['rho']:g} throughout"
    return label({"method": settings["method"]})


def accuracies(folder: str, **wanted: Any) -> dict[tuple[str, int], float]:
    """By partition and seed, of a folder's cells with these settings."""
    values: dict[tuple[str, int], float] = {}
    for cell in cells(folder):
        settings = {**PLAIN, **cell["settings"]}
        if all(settings.get(name) == value for name, value in wanted.items()):
            key = settings["partition"], settings["seed"]
            if key in values:
                raise FedolError(f"Two cells of results/{folder} answer to {wanted} with {key}.")
            values[key] = cell["accuracy"]
    return values


def name(method: str) -> str:
    """A row's name."""
    return label({"method": method})


def papers(width: int, seeds: tuple[int, ...]) -> Found:
    """What was trained as the paper's table was."""

    def fits(settings: dict[str, Any]) -> bool:
        here = settings["width"] == width and settings["seed"] in seeds
        return here and as_the_paper({"epochs": 50, **settings}) and settings.get("epochs", 50) == 50

    return found("paper", fits, PARTITIONS)


def small(folder: str) -> Found:
    """The table of a small dataset at equal compute, all with the same clients."""
    epochs, rate = {"digits": (20, 1e-3), "sgd": (20, 0.03), "fashion": (4, 1e-3)}[folder]

    def fits(settings: dict[str, Any]) -> bool:
        usual = settings.get("epochs") == epochs and settings["lr"] == rate
        return usual and not settings.get("development") and "server_epochs" in settings

    return found(folder, fits)


def paper_fedol(partition: str) -> float:
    """The paper's mean."""
    theirs = paper.one_round("cifar100", partition, "fedol")
    if theirs is None:
        raise FedolError(f"The paper has no FedOL on {partition}.")
    return theirs[0]


def paper_words(partition: str) -> str:
    """FedOL as the paper prints it."""
    theirs = paper.one_round("cifar100", partition, "fedol")
    return f"{100 * theirs[0]:.1f} ± {100 * theirs[1]:.1f}" if theirs else ""


def above(first: dict[Any, float], second: dict[Any, float]) -> dict[Any, float]:
    """Points by which the first is above the second, of what both have."""
    return {key: 100 * (first[key] - second[key]) for key in first if key in second}


def shares(seeds: Seeds) -> list[float]:
    """Accuracies between 0 and 1."""
    return [cell["accuracy"] for cell in seeds.values()]


def lead(mine: Seeds, theirs: Seeds) -> list[float]:
    """How far accuracies are above another row's, seed by seed."""
    return [cell["accuracy"] - theirs[seed]["accuracy"] for seed, cell in mine.items() if seed in theirs]


def number(value: float, digits: int = 1, sign: bool = False) -> str:
    """A number with a minus that is one, and no sign of zero."""
    text = f"{value:+z.{digits}f}" if sign else f"{value:z.{digits}f}"
    return text.lstrip("+") if not text.strip("+0.") else text.replace("-", "−")


def spread(values: Iterable[float], digits: int = 1, sign: bool = False, scale: float = 100) -> str:
    """Mean and standard deviation of shares in percent; the number alone where there is one, nothing where none is."""
    listed = list(values)
    if not listed:
        return ""
    of = summary_statistics(listed)
    deviation = "" if of["std"] is None else f" ± {scale * of['std']:.{digits}f}"
    return number(scale * of["mean"], digits, sign) + deviation


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """As Markdown; all but the first columns are numbers."""
    rule = "|".join("---" if place < left else "---:" for place in range(len(columns)))
    return "\n".join([_line(columns), f"|{rule}|", *map(_line, rows)])


def _line(words: Sequence[str]) -> str:
    return "".join(f"| {word} " if word else "| " for word in words) + "|"


def bold(text: str) -> str:
    """Of the best, and of ours."""
    return f"**{text}**" if text else text


def code(names: Iterable[str]) -> list[str]:
    """As names that can be typed."""
    return [f"`{name}`" for name in names]
