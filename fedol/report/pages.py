"""``report.html`` and the page to pass on: one file each that needs nothing else, made of what a run's folder holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from fedol import __version__
from fedol.errors import FedolError
from fedol.files import intact, write_atomically
from fedol.progress import Observer
from fedol.report.share import model_card, share_view
from fedol.report.terminal import percent, size
from fedol.runs.folder import CARD, REPORT, SHARED, read_summary
from fedol.text import check_name, clock, shown


class Pages(Observer):
    """Makes what is to be looked at of a finished run, where it is not there yet."""

    def finished(self, folder: Path) -> None:
        """The report; of a federation also the page and the card that may be passed on."""
        summary = read_summary(folder / "summary.json")
        if "task" in summary:
            if not (folder / CARD).exists():
                write_atomically(folder / CARD, model_card(summary).encode())
            if not (folder / SHARED).exists():
                write_share(folder)
        if not (folder / REPORT).exists():
            write_report(folder)


def write_report(folder: Path) -> Path:
    """Make the report of a run or a benchmark (again), the coordinator's; a pure function of its folder."""
    if any((folder / name).is_dir() for name in ("cells", "cost")) or (folder / "cells.jsonl").is_file():
        from fedol.report.bench_pages import bench_view as view

        template = "bench.html"
    elif (folder / "summary.json").exists():
        from fedol.report.run_view import run_view as view

        template = "run.html"
    else:
        raise FedolError(
            f"There is no finished run in {folder}; a run's folder has a summary.json when it is finished."
        )
    return _write(folder, REPORT, template, view)


def write_share(folder: Path, reader: str | None = None) -> Path:
    """Make the page of a run that may be passed on; with a ``reader``, the one for this client alone."""
    if not (folder / "summary.json").exists():
        raise FedolError(f"There is no finished run in {folder}; only that of a run has clients to leave out.")
    name = SHARED if reader is None else f"report-for-{check_name(reader)}.html"
    return _write(folder, name, "run.html", lambda folder: share_view(folder, reader))


def _write(folder: Path, name: str, template: str, view: Callable[[Path], dict[str, Any]]) -> Path:
    with intact(folder, "no report can be made of it, so give another folder"):
        page = render(template, view(folder)).encode()
    write_atomically(folder / name, page)
    return folder / name


def render(template: str, view: dict[str, Any]) -> str:
    """A template with its values; everything that is not made by our own charts is escaped."""
    try:
        return environment().get_template(template).render(view)
    except UndefinedError as error:  # to the template what a KeyError is to everyone else
        raise LookupError(str(error)) from None


@cache
def environment() -> Environment:
    """Where all templates are, and what they can call."""
    made = Environment(
        loader=PackageLoader("fedol.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"percent": percent, "bytes": size, "clock": clock}
    made.globals |= {"inline": asset, "version": __version__}
    return made


def _one_line(value: Any) -> Any:
    """A stranger's text as it may stand on a page; what our own charts made stays as it is."""
    return Markup(shown(value, "html")) if isinstance(value, str) and not isinstance(value, Markup) else value


def asset(name: str) -> Markup:
    """A style sheet or script of ours, to be part of the page."""
    return Markup((files("fedol.report") / "templates" / name).read_text(encoding="utf-8"))
