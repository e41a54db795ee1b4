"""Reports of a benchmark's folder: tables as Markdown, CSV and JSON, and the figure of rounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fedol.bench import curves, summary
from fedol.bench.cost_sheet import cost_sheet
from fedol.bench.sheets import Sheet, has, one_round, over_fedol, rounds
from fedol.bench.store import ELSEWHERE, BenchFolder
from fedol.errors import FedolError
from fedol.files import intact, read_json, write_atomically, write_json
from fedol.progress import watched

OURS = re.compile(r"(one-round|over-fedol|rounds|cost)-\d+\.csv|rounds\.(png|svg)")  # files that a report may have


def collect(out: Path) -> dict[str, Any]:
    """The numbers of a benchmark's folder."""
    results = {out / result["file"]: result for result in BenchFolder(out).results()}
    costs = {path: read_json(path, ELSEWHERE) for path in sorted((out / "cost").glob("*.json"))}
    if not results and not costs:
        raise FedolError(f"There is no finished cell in {out}; run `fedol bench one-round --out {out}` first.")
    for path, result in results.items():
        _check(path, [result], [])
    for path, table in costs.items():
        _check(path, [], [table])
    return _numbers(list(results.values()), list(costs.values()))


def sheets(numbers: dict[str, Any]) -> list[Sheet]:
    """The tables of these numbers."""
    numbered = list(enumerate(numbers["one_round"], 1))
    return [
        *(one_round(table, number) for number, table in numbered),
        *(over_fedol(table, number) for number, table in numbered if has(table, "over_fedol")),  # of the same number
        *(rounds(panel, number) for number, panel in enumerate(numbers["rounds"], 1)),
        *(cost_sheet(table, number) for number, table in enumerate(numbers["cost"], 1)),
    ]


def write(out: Path, numbers: dict[str, Any]) -> None:
    """Write ``report/`` of a benchmark's folder, in place of the one before."""
    folder, tables = out / "report", sheets(numbers)
    write_json(folder / "report.json", numbers)
    write_atomically(folder / "report.md", "\n".join(sheet.markdown() for sheet in tables).encode())
    files = {f"{sheet.name}.csv": sheet.csv().encode() for sheet in tables}
    figures = ("rounds.png", "rounds.svg") if numbers["rounds"] else ()
    for path in folder.iterdir():
        if OURS.fullmatch(path.name) and path.name not in (*files, *figures):
            path.unlink()
    for name, content in files.items():
        write_atomically(folder / name, content)
    if figures:
        from fedol.report.plots import rounds_figure

        for name in watched(figures, "drawing"):
            rounds_figure(numbers["rounds"], folder / name)


def _numbers(results: list[dict[str, Any]], costs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"one_round": summary.tables(results), "rounds": curves.figures(results), "cost": costs}


def _check(path: Path, results: list[dict[str, Any]], costs: list[dict[str, Any]]) -> None:
    """Make the tables of one file alone, so that one from which none can be made is named."""
    with intact(path, ELSEWHERE):
        sheets(_numbers(results, costs))
