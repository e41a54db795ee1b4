"""``report.html``: one file that needs nothing else, made of what a run's folder holds."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from fedol import __version__
from fedol.errors import FedolError
from fedol.files import intact, write_atomically
from fedol.report.tables import percent, size
from fedol.text import shown


def write_report(folder: Path) -> Path:
    """Make the report of a run or a benchmark (again); a pure function of its folder."""
    if any((folder / name).is_dir() for name in ("cells", "cost")) or (folder / "cells.jsonl").is_file():
        from fedol.report.bench_view import bench_view as view

        template = "bench.html"
    elif (folder / "summary.json").exists():
        from fedol.report.run_view import run_view as view

        template = "run.html"
    else:
        raise FedolError(
            f"There is no finished run in {folder}; a run's folder has a summary.json when it is finished."
        )
    with intact(folder, "no report can be made of it, so give another folder"):
        page = render(template, view(folder)).encode()
    path = folder / "report.html"
    write_atomically(path, page)
    return path


def render(template: str, view: dict[str, Any]) -> str:
    """A template with its values; everything that is not made by our own charts is escaped."""
    environment = Environment(
        loader=PackageLoader("fedol.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "bytes": size}
    environment.globals |= {"inline": _inline, "version": __version__}
    try:
        return environment.get_template(template).render(view)
    except UndefinedError as error:  # to the template what a KeyError is to everyone else
        raise LookupError(str(error)) from None


def _one_line(value: Any) -> Any:
    """A stranger's text as it may stand on a page; what our own charts made stays as it is."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _inline(name: str) -> Markup:
    """A style sheet or script of ours, to be part of the page."""
    return Markup((files("fedol.report") / "templates" / name).read_text(encoding="utf-8"))
