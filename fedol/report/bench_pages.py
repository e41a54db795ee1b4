"""Reports of a benchmark's folder: tables as Markdown, CSV, LaTeX and JSON, the figure of rounds, and the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedol.bench import summary
from fedol.bench.cost import cost_sheet
from fedol.bench.sheets import (
    OTHERS,
    Sheet,
    best_rows,
    has,
    measure,
    one_round,
    other_clients,
    over_fedol,
    rounds,
    settings_in_words,
)
from fedol.bench.store import ELSEWHERE, BenchFolder
from fedol.bench.summary import Result, label
from fedol.errors import FedolError
from fedol.files import intact, read_json, write_atomically, write_json
from fedol.progress import watched
from fedol.report.charts import Plot, drawing, tag, text

OURS = re.compile(
    r"(one-round|over-fedol|rounds|cost)-\d+\.(csv|tex)|rounds\.(png|svg)"
)  # files that a report may have


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
    files |= {f"{sheet.name}.tex": sheet.latex().encode() for sheet in tables}
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
    return {"one_round": summary.tables(results), "rounds": summary.figures(results), "cost": costs}


def _check(path: Path, results: list[dict[str, Any]], costs: list[dict[str, Any]]) -> None:
    """Make the tables of one file alone, so that one from which none can be made is named."""
    with intact(path, ELSEWHERE):
        sheets(_numbers(results, costs))


MOST_RUNS = 300  # that the page itself tells of, to stay below 2 MB; the others are files in the folder


def bench_view(folder: Path) -> dict[str, Any]:
    """The values of ``templates/bench.html``."""
    numbers = collect(folder)
    tables = [
        {
            **table,
            "words": settings_in_words(table["settings"]),
            "measure": measure(table["settings"]),
            "beside": has(table, "paper"),
            "over_fedol": has(table, "over_fedol"),
            "other_clients": other_clients(table),
            "best": best_rows(table),
        }
        for table in numbers["one_round"]
    ]
    panels = [
        {**panel, "words": settings_in_words(panel["settings"]), "chart": rounds_chart(panel)}
        for panel in numbers["rounds"]
    ]
    results = list(BenchFolder(folder).results())
    runs = []
    for result in results[:MOST_RUNS]:
        with intact(folder / result["file"], ELSEWHERE):
            runs.append(cell_view(result))
    return {
        "name": folder.resolve().name,
        "others": OTHERS,
        "tables": tables,
        "panels": panels,
        "beside": any(table["beside"] for table in tables) or any(panel["beside"] for panel in panels),
        "costs": [cost_sheet(table, number) for number, table in enumerate(numbers["cost"], 1)],
        "copies": [copies(sheet) for sheet in sheets(numbers)],
        "cells": len(results),
        "runs": runs,
        "shown": {run["file"]: run["id"] for run in runs},
    }


def copies(sheet: Sheet) -> dict[str, Any]:
    """A table to be taken into a paper or a program."""
    return {"title": sheet.title, "kinds": {"LaTeX": sheet.latex().splitlines(), "CSV": sheet.csv().splitlines()}}


SERIES = {
    "server on the test set": "test_accuracy",
    "labels right": "pseudo_label_accuracy",
    "targets right": "target_accuracy",
}


def cell_view(result: Result) -> dict[str, Any]:
    """The values that ``templates/cell.html`` shows of a finished cell."""
    settings, history = result["settings"], result.get("history") or []
    step = "round" if settings.get("rounds", 1) > 1 else "iteration"
    curves = {"server on the test set": [record["accuracy"] for record in history]} if step == "round" else {}
    for name, key in SERIES.items() if step == "iteration" else ():
        values = [record.get("diagnostics", {}).get(key) for record in history]
        if all(value is not None for value in values) and values:
            curves[name] = values
    where = [settings["partition"]] if "partition" in settings else []
    where += [f"{settings['rounds']} rounds"] if step == "round" else []
    return {
        "id": f"cell-{result['hash']}",  # where the page shows it
        "file": result["file"],
        "name": ", ".join([label(settings), *where, f"seed {result['seed']}"]),
        "accuracy": result["accuracy"],
        "settings": {name: _plain(value) for name, value in settings.items()},
        "step": step,
        "curves": curves,
        "chart": _chart(curves["server on the test set"], step) if len(history) > 1 and curves else None,
        "clients": result.get("clients", []),
        "command": result.get("command"),
        "made": {name: result[name] for name in ("device", "date", "commit", "seconds") if result.get(name)},
    }


def _chart(values: list[float], step: str) -> Markup:
    """The server's accuracy as a small curve from 0 to 100 %; a page may have hundreds of them."""
    plot = Plot(height=150)
    last = len(values) - 1
    parts = plot.percent_axis()
    parts.append(plot.path([(place / last, value) for place, value in enumerate(values)], "line s3"))
    parts += [text(plot.x(share), plot.height - 16, words, "middle") for share, words in ((0, "1"), (1, str(last + 1)))]
    parts.append(text(plot.x(0.5), plot.height - 2, step, "middle"))
    title = f"Test accuracy from {100 * values[0]:.1f} % in the first {step} to {100 * values[-1]:.1f} % in the last."
    return drawing(plot.width, plot.height, title, *parts)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


COLOURS = 8  # of the style sheet


def rounds_chart(panel: dict[str, Any]) -> Markup:
    """One partition's curves, with the spread over seeds as whiskers."""
    plot = Plot(width=560, height=320)
    lines = panel["lines"]
    length = max(max(len(line["rounds"]), len(line["paper"] or [])) for line in lines)
    top = _top(panel)

    def at(number: int, value: float) -> tuple[float, float]:
        return number / max(1, length - 1), value / top

    parts = []
    for step in range(5):
        level = step / 4
        parts.append(tag("line", x1=plot.x(0), x2=plot.x(1), y1=plot.y(level), y2=plot.y(level), class_="grid"))
        parts.append(text(plot.x(0) - 6, plot.y(level) + 4, f"{100 * level * top:.0f} %", "end"))
    for number in range(length):
        parts.append(text(plot.x(at(number, 0)[0]), plot.height - 16, str(number + 1), "middle"))
    parts.append(text(plot.x(0.5), plot.height - 2, "communication rounds", "middle"))
    for reached, look in ((panel["paper_fedol"], "line paper level"), (_fedol(panel), "line level")):
        if reached:
            parts.append(plot.path([(0, reached / top), (1, reached / top)], look))
    for place, line in enumerate(lines):
        colour = f"s{place % COLOURS}"
        if line["paper"]:
            theirs = [at(number, value) for number, value in enumerate(line["paper"])]
            parts.append(plot.path(theirs, f"line paper {colour}"))
        ours = [at(number, point["mean"]) for number, point in enumerate(line["rounds"])]
        parts.append(plot.path(ours, f"line ours {colour}"))
        for number, point in enumerate(line["rounds"]):
            x, y = at(number, point["mean"])
            if point["std"] is not None:
                ends = [plot.y((point["mean"] + sign * point["std"]) / top) for sign in (-1, 1)]
                parts.append(tag("line", x1=plot.x(x), x2=plot.x(x), y1=ends[0], y2=ends[1], class_="whisker"))
            tip = tag("title", f"{line['label']}, round {number + 1}: {100 * point['mean']:.1f} %")
            parts.append(tag("circle", tip, cx=plot.x(x), cy=plot.y(y), r=3, class_=f"dot {colour}"))
    return drawing(plot.width, plot.height, f"Accuracy over {length} rounds, {panel['partition']}.", *parts)


def _top(panel: dict[str, Any]) -> float:
    """The end of the axis: the next tenth above everything that is drawn."""
    values = [point["mean"] + (point["std"] or 0) for line in panel["lines"] for point in line["rounds"]]
    values += [value for line in panel["lines"] for value in line["paper"] or []]
    values += [value for value in (panel["paper_fedol"], _fedol(panel)) if value]
    return min(1.0, int(10 * max(values) + 1) / 10)


def _fedol(panel: dict[str, Any]) -> float | None:
    return panel["fedol"]["mean"] if panel["fedol"] else None
