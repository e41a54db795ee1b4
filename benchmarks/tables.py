"""Fill the tables of README and the documentation, and draw the figures over rounds, from the published records.

    python benchmarks/tables.py

A table stands between ``<!-- table: NAME -->`` and ``<!-- /table -->``; NAME is one of the ``TABLES`` in the files
``_*_tables.py``. Whole points in a sentence stand between ``<!-- points: NAME -->`` and ``<!-- /points -->``; NAME is
in ``_points.py``. A test makes sure that filling them again changes nothing.
"""

from __future__ import annotations

import argparse
import re

import _best_tables
import _codec_tables
import _gain_tables
import _keywords
import _kinds_tables
import _liars_tables
import _paper_tables
import _peers_tables
import _points
import _pooling_tables
import _recipe_tables
import _robustness_tables
import _secret_tables
import _union_tables
from _record import ROOT, script

from fedol.errors import FedolError
from fedol.files import write_atomically
from fedol.report.bench_pages import collect
from fedol.report.plots import rounds_figure

TABLES = {
    **_paper_tables.TABLES,
    **_best_tables.TABLES,
    **_pooling_tables.TABLES,
    **_union_tables.TABLES,
    **_gain_tables.TABLES,
    **_kinds_tables.TABLES,
    **_liars_tables.TABLES,
    **_robustness_tables.TABLES,
    **_codec_tables.TABLES,
    **_secret_tables.TABLES,
    **_peers_tables.TABLES,
    **_recipe_tables.TABLES,
}
POINTS = _points.POINTS
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIGURES = {"rounds.svg": "paper", "rounds-digits.svg": "digits"}
PLACE = re.compile(r"<!-- (table|points): ([\w-]+) -->(.*?)<!-- /\1 -->", re.DOTALL)


def fill(text: str, where: str) -> str:
    """A page with its tables, and the points in its sentences, made anew."""

    def made(place: re.Match[str]) -> str:
        kind, name, inside = place.groups()
        known = {"table": TABLES, "points": POINTS}[kind]
        if f"<!-- {kind}: " in inside:
            raise FedolError(f"{where}: {kind} {name} has no <!-- /{kind} -->; add one after it.")
        if name not in known:
            raise FedolError(f"{where}: {kind} {name} is unknown; there are {', '.join(sorted(known))}.")
        body = f"\n\n{TABLES[name]()}\n\n" if kind == "table" else _points.words(POINTS[name]())
        return f"<!-- {kind}: {name} -->{body}<!-- /{kind} -->"

    for kind in ("table", "points"):
        begins, ends = text.count(f"<!-- {kind}: "), text.count(f"<!-- /{kind} -->")
        if begins != ends:
            raise FedolError(f"{where}: {kind} begins {begins} times and ends {ends} times; fix the markers.")
    return PLACE.sub(made, text)


def main() -> None:
    """Write what has changed."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, str(page.relative_to(ROOT)))) != text:
            write_atomically(page, filled.encode())
            print(f"filled {page.relative_to(ROOT)}")
    if _keywords.write():
        print(f"wrote {_keywords.FILE.relative_to(ROOT)}")
    for name, folder in FIGURES.items():
        rounds_figure(collect(ROOT / "results" / folder)["rounds"], ROOT / "docs" / "img" / name)


if __name__ == "__main__":
    script(main)
