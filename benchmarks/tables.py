"""Fill the tables of README and the documentation, and draw the figures over rounds, from the published records.

    python benchmarks/tables.py

A table stands between ``<!-- table: NAME -->`` and ``<!-- /table -->``; NAME is one of ``_paper_tables.py``,
``_best_tables.py``, ``_pooling_tables.py`` or ``_secret_tables.py``. A test makes sure that filling them again changes
nothing.
"""

from __future__ import annotations

import argparse
import re

import _best_tables
import _paper_tables
import _pooling_tables
import _secret_tables
from _record import ROOT, script

from fedol.errors import FedolError
from fedol.files import write_atomically
from fedol.report.bench_pages import collect
from fedol.report.plots import rounds_figure

TABLES = {**_paper_tables.TABLES, **_best_tables.TABLES, **_pooling_tables.TABLES, **_secret_tables.TABLES}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIGURES = {"rounds.svg": "paper", "rounds-digits.svg": "digits"}
BEGIN, END = "<!-- table: ", "<!-- /table -->"
PLACE = re.compile(rf"{BEGIN}([\w-]+) -->\n.*?{END}", re.DOTALL)


def fill(text: str, where: str) -> str:
    """A page with its tables made anew."""

    def made(place: re.Match[str]) -> str:
        if place[0].count(BEGIN) > 1:
            raise FedolError(f"{where}: the table {place[1]} has no {END}; add one below it.")
        if place[1] not in TABLES:
            raise FedolError(f"{where}: there is no table {place[1]}; there are {', '.join(sorted(TABLES))}.")
        return f"{BEGIN}{place[1]} -->\n\n{TABLES[place[1]]()}\n\n{END}"

    if text.count(BEGIN) != text.count(END):
        raise FedolError(f"{where}: {text.count(BEGIN)} tables begin and {text.count(END)} end; mend its markers.")
    return PLACE.sub(made, text)


def main() -> None:
    """Write what has changed."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, str(page.relative_to(ROOT)))) != text:
            write_atomically(page, filled.encode())
            print(f"filled {page.relative_to(ROOT)}")
    for name, folder in FIGURES.items():
        rounds_figure(collect(ROOT / "results" / folder)["rounds"], ROOT / "docs" / "img" / name)


if __name__ == "__main__":
    script(main)
