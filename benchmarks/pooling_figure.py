"""The figure of docs/pooling.md, from committed records: FedOL+ against FedOL, the pool's parts, the parts of `best`.

    python benchmarks/pooling_figure.py docs/img/pooling.svg

Every mark is a paired difference (the same seed and uploads, or the same federation); bars are standard deviations.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from _published import BEST, above, accuracies, record
from _record import script

from fedol.evaluation import summary_statistics
from fedol.report import plots

PARTITIONS = {
    "dirichlet:1": "Dir(1)",
    "dirichlet:0.05": "Dir(0.05)",
    "classes:30": "30 classes",
    "classes:20": "20 classes",
}
CHANGES: dict[str, dict[str, Any]] = {  # what a row of results/dev64 has instead of `best`'s
    "no cutmix": {"patch": "none"},
    "half of the server's epochs": {"server_epochs": 100},
    "no average of weights": {"average": 0.0},
}
DEVELOPED = ("dirichlet:0.05", "classes:20")
Row = tuple[str, list[float]]


def fedol_plus() -> list[Row]:
    """FedOL+ above FedOL on the test set: the paper's preset, width 64, equal compute; a value for each seed."""
    same = {"width": 64, "epochs": 50, "iterations": 10, "server_epochs": 50}
    found = above(accuracies("paper", method="fedol+", **same), accuracies("paper", method="fedol", **same))
    return [(name, [points for (p, _), points in found.items() if p == key]) for key, name in PARTITIONS.items()]


def parts(scenario: str) -> list[Row]:
    """The pool with a part left out or changed, points above the whole: a value for each federation."""
    return [(r["variant"], r["values"]) for r in record("pooling-ablation") if r["scenario"] == scenario]


def recipe() -> list[Row]:
    """`best` with an ingredient left out, points above the whole: a value for each seed, the mean of its partitions."""
    best = {**BEST, "method": "pooled", "epochs": 100, "server_epochs": 200}
    whole = accuracies("dev64", **best)
    rows = []
    for name, change in CHANGES.items():
        points = above(accuracies("dev64", **{**best, **change}), whole)
        seeds = sorted({seed for _, seed in points})
        rows.append((name, [mean(points[partition, seed] for partition in DEVELOPED) for seed in seeds]))
    return rows


def draw(axes: Any, rows: Iterable[Row], label: str, colour: str, shift: float = 0.0) -> None:
    """One row below the other: mean and standard deviation, and every value as a small dot."""
    for place, (_, values) in enumerate(rows):
        found = summary_statistics(values)
        y = place + shift
        axes.plot(values, [y] * len(values), ".", color=colour, alpha=0.35, markersize=5)
        axes.errorbar(
            found["mean"], y, xerr=found["std"], fmt="o", color=colour, markersize=4, capsize=2,
            label=None if place else label,
        )  # fmt: skip


def main() -> None:
    """Draw the three panels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a name that ends in .svg or .png")
    options = parser.parse_args()
    figure = plots.blank(11.5, 4.6)
    servers, pool, best = fedol_plus(), parts("balanced"), recipe()
    panels = [
        (f"FedOL+ above FedOL\n(test, n = {len(servers[0][1])} seeds)", [(servers, "", "C0", 0.0)]),
        (f"The pool, a part left out or changed\n(accuracy of targets, n = {len(pool[0][1])} federations)",
         [(pool, "balanced", "C0", -0.22), (parts("1:50 tail"), "1:50 tail", "C1", 0.0),
          (parts("noise"), "a client of noise", "C2", 0.22)]),
        (f"`best` without an ingredient\n(held out, n = {len(best[0][1])} seeds)",
         [(best, "", "C0", 0.0)]),
    ]  # fmt: skip
    grid = figure.add_gridspec(1, 3, width_ratios=(1, 1.4, 1))
    for number, (title, series) in enumerate(panels):
        axes = figure.add_subplot(grid[number])
        for rows, label, colour, shift in series:
            draw(axes, rows, label, colour, shift)
        axes.margins(x=0.08)
        axes.axvline(0, color="0.6", linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(series[0][0])), [name for name, _ in series[0][0]], fontsize=8)
        axes.invert_yaxis()
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("points", fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        if len(series) > 1:
            axes.legend(fontsize=7, frameon=False)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    plots.save(figure, options.file)
    print(f"written to {options.file}")


if __name__ == "__main__":
    script(main)
