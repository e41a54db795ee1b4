"""The note on pooling says what the committed records say, and its figure can be drawn from them."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from fedol.evaluation import summary_statistics

ROOT = Path(__file__).parents[1]
NOTE = (ROOT / "docs" / "pooling.md").read_text(encoding="utf-8")
SCENARIOS = ("balanced", "1:50 tail", "noise")
NAMES = {  # of the record's variants, where the note has other words
    "weights C²^¼": "weights C²^¼ instead of C²^½",
    "no bound, no scale of one's own": "no bound, and every client at its own volume",
    "mixture by κ": "mixture by κ instead of √κ",
}


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The script's functions."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return runpy.run_path(str(ROOT / "benchmarks" / "pooling_figure.py"))


def row(name: str) -> list[str]:
    """The cells of the note's row whose first cell begins so."""
    (line,) = (line for line in NOTE.splitlines() if line.startswith(f"| {name}"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")][1:]


def written(values: list[float], digits: int = 1) -> str:
    """Mean ± standard deviation as the note writes it."""
    found = summary_statistics(values)
    mean = f"{found['mean']:+.{digits}f}".replace("-", "−")
    return f"{'0.0' if mean in ('+0.0', '−0.0') else mean} ± {found['std']:.{digits}f}"


def test_the_first_rows_are_those_of_the_cells(figure: dict[str, Any]) -> None:
    assert row("FedOL+ above FedOL") == [written(values) for _, values in figure["fedol_plus"]()]


def test_the_ablation_is_that_of_the_record(figure: dict[str, Any]) -> None:
    found = {scenario: dict(figure["parts"](scenario)) for scenario in SCENARIOS}
    assert len(found["balanced"]) == 11
    for name in found["balanced"]:
        assert len(found["balanced"][name]) == 8
        assert row(NAMES.get(name, f"{name} |")) == [written(found[scenario][name]) for scenario in SCENARIOS], name


def test_the_recipe_is_that_of_the_cells(figure: dict[str, Any]) -> None:
    cutmix, epochs, average = ([-value for value in values] for _, values in figure["recipe"]())
    said = " ".join(NOTE.split())
    assert f"loses {written(cutmix)[1:]} points without cutmix" in said
    assert f"{written(epochs)[1:]} with half of the server's epochs" in said
    assert f"{written(average, 2)[1:]} without the average of weights (n = 3" in said


def test_the_figure_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the figure needs matplotlib (fedol[plot])")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", ["pooling_figure.py", str(tmp_path / "new" / "figure.svg")])
    runpy.run_path(str(ROOT / "benchmarks" / "pooling_figure.py"), run_name="__main__")
    drawn = (tmp_path / "new" / "figure.svg").read_text()
    committed = (ROOT / "docs" / "img" / "pooling.svg").read_text()
    assert drawn.count("<path") == committed.count("<path") and drawn.count("<use") == committed.count("<use")
