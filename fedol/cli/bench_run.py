"""Run a benchmark for ``fedol bench`` and print what came of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from fedol.errors import MissingExtra

if TYPE_CHECKING:
    from fedol.bench.comparison import Table


def run(
    values: dict[str, Any],
    out: Path,
    time_limit: float | None,
    side_by_side: int,
    dry_run: bool,
    spec: Path | None,
    quiet: bool,
    as_json: bool,
    latex: bool = False,
) -> None:
    """Run a benchmark (or plan it, or only write it to ``spec``), print its tables and leave with its exit code."""
    from fedol.bench.comparison import Table
    from fedol.bench.runner import Bench
    from fedol.bench.spec import Spec
    from fedol.files import write_json
    from fedol.report.bench import BenchProgress, plan_table
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import plain

    wanted = Spec.from_json(values)
    if spec is not None:
        write_json(spec, values)
        return
    work = Bench(wanted, out)
    if dry_run:
        with LiveProgress(quiet=quiet or as_json):
            missing = work.estimates()
        if as_json:
            print(json.dumps(missing, indent=1))
        else:
            Console().print(plan_table(missing) if missing else "Nothing is left to compute.")
        return
    with BenchProgress(Console(stderr=True), quiet=quiet or as_json) as progress:
        summary = work.run(progress, time_limit, side_by_side)
    if not (quiet or as_json or latex):
        other = f"; another process works on {summary['elsewhere']}" if summary["elsewhere"] else ""
        said = f"{summary['finished']} of {summary['cells']} cells are finished in {out}{other}."
        Console().print(plain(said))
    try:
        if summary["finished"]:
            asked = Table.of(work.spec, work.folder) if wanted.grid and wanted.kind == "one-round" else None
            tables(out, quiet, as_json, latex, summary, asked)
            page(out, quiet or as_json or latex)
        elif as_json:
            print(json.dumps(summary, indent=1))
    finally:  # also where the folder has no tables
        for failure in summary["failed"]:
            Console(stderr=True).print(Text.assemble(("Failed:", "bold red"), " ", plain(failure)), soft_wrap=True)
    sys.exit(1 if summary["failed"] else 0 if summary["finished"] == summary["cells"] else 3)


def tables(
    out: Path,
    quiet: bool = False,
    as_json: bool = False,
    latex: bool = False,
    summary: dict[str, Any] | None = None,
    asked: Table | None = None,
) -> None:
    """Print the folder's tables, or its numbers beside a ``summary``, then write them: it may be one to read only.

    Of a grid, only what was ``asked`` for is printed: a table with its values side by side.
    """
    from fedol.report.bench_pages import collect, sheets, write
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import plain

    with LiveProgress(quiet=quiet or as_json or latex):
        numbers = collect(out)
    if as_json:
        compared = {"comparison": asked.records()} if asked else {}
        print(json.dumps({**(summary or {}), **compared, **numbers}, indent=1))
    elif not quiet:
        found = asked.sheets() if asked else sheets(numbers)
        if latex:
            print("\n".join(sheet.latex() for sheet in found))
        else:
            show(found)
    try:
        with LiveProgress(quiet=quiet or as_json or latex):
            write(out, numbers)
    except MissingExtra as error:  # of the figure, which is drawn last
        Console(stderr=True).print(plain(f"The figure is not drawn. {error}"), soft_wrap=True)


def page(out: Path, quiet: bool = False) -> None:
    """The folder's page."""
    from fedol.report.pages import write_report
    from fedol.report.terminal import plain

    path = write_report(out)
    if not quiet:
        Console().print(plain(f"Report: {path}"), soft_wrap=True)


def show(sheets: Any) -> None:
    """Print tables, as wide as the terminal."""
    from fedol.report.bench import sheet_tables

    console = Console()
    for sheet in sheets:
        for table in sheet_tables(sheet, console.width):
            console.print(table)
