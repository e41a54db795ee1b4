"""The figure of the note on pooling is the one that the records make; its tables are checked in ``test_tables.py``."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_figure_is_the_one_the_records_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the figure needs matplotlib (fedol[plot])")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    file = tmp_path / "new" / "figure.svg"
    monkeypatch.setattr(sys, "argv", ["pooling_figure.py", str(file)])
    runpy.run_path(str(ROOT / "benchmarks" / "pooling_figure.py"), run_name="__main__")
    assert marks(file) == pytest.approx(marks(ROOT / "docs" / "img" / "pooling.svg"), abs=0.1)


def marks(file: Path) -> list[float]:
    """Where the figure's marks are, from left."""
    return [float(x) for x in re.findall(r'<use [^>]*\bx="([\d.]+)"', file.read_text())]
