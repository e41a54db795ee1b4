"""The note on pooling says what the committed records say, and its figure is the one they make."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from fedol.evaluation import summary_statistics

ROOT = Path(__file__).parents[1]
NOTE, EVIDENCE = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("pooling.md", "pooling-evidence.md"))
SCENARIOS = ("balanced", "1:50 tail", "noise")
FILES = {
    "Dir(1)": "dirichlet-1_plain",
    "Dir(0.05)": "dirichlet-0.05_plain",
    "20 classes": "classes-20_plain",
    "Dir(0.05), augmented": "dirichlet-0.05_augmented",
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of the script that draws the figure."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return runpy.run_path(str(ROOT / "benchmarks" / "pooling_figure.py"))


def row(page: str, name: str) -> list[str]:
    """The cells of a page's row whose first cell begins so."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {name}"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")][1:]


def written(values: list[float], digits: int = 1) -> str:
    """Mean ± standard deviation as the pages write a difference; zero has no sign."""
    found = summary_statistics(values)
    mean = f"{found['mean']:+.{digits}f}".replace("-", "−")
    return f"{mean[1:] if not mean.strip('+−0.') else mean} ± {found['std']:.{digits}f}"


def test_the_first_row_is_that_of_the_cells(script: dict[str, Any]) -> None:
    assert row(NOTE, "FedOL+ above FedOL") == [written(values) for _, values in script["fedol_plus"]()]


def test_what_best_reaches_is_that_of_the_cells(script: dict[str, Any]) -> None:
    found = script["accuracies"]("best", method="pooled")
    for key, cell in zip(script["PARTITIONS"], row(NOTE, "preset `best`"), strict=True):
        of = summary_statistics([100 * accuracy for (partition, _), accuracy in found.items() if partition == key])
        assert of["n"] == 3
        said = [float(number) for number in cell.split(" ± ")]
        assert said == pytest.approx([of["mean"], of["std"]], abs=0.0501)  # 48.55 is written 48.5


def test_fedol_trained_as_best_is_that_of_the_cells(script: dict[str, Any]) -> None:
    best = script["accuracies"]("dev64", method="pooled", epochs=100, server_epochs=200, **script["BEST"])
    fedol = script["accuracies"]("dev64", method="fedol", epochs=100, **script["BEST"])
    points = script["above"](best, fedol)
    skewed, few = ([value for (p, _), value in points.items() if p == key] for key in script["DEVELOPED"])
    assert len(skewed) == len(few) == 3
    said = f"stays {written(skewed)} (Dir(0.05)) and {written(few)} points (20 classes) below it".replace("+", "")
    assert said in " ".join(NOTE.split())


@pytest.mark.parametrize(("section", "prefix"), [("Real clients", ""), ("Pseudo-labels", "labels: ")])
def test_what_targets_are_worth_is_that_of_the_record(section: str, prefix: str) -> None:
    """Every number of the two tables that ``benchmarks/pooling.py`` makes."""
    record = json.loads((ROOT / "benchmarks/results/pooling.json").read_text())["results"]
    found = {(entry["file"], entry["scenario"], entry["quantity"]): entry for entry in record}
    lines = re.search(rf"## {section}\n(.*?)\n## ", EVIDENCE, re.S)
    assert lines is not None
    header, _, *rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[1].splitlines() if line[:1] == "|"
    ]
    assert len(rows) == {"Real clients": 32, "Pseudo-labels": 8}[section]
    for clients, scenario, *cells in rows:
        for name, cell in zip(header[2:], cells, strict=True):
            entry = found[FILES[clients], scenario, prefix + name]
            spread = f" ± {entry['std']:.1f}" if entry["n"] > 1 else ""
            assert cell == f"{entry['mean']:.1f}{spread}", (clients, scenario, name)


def test_the_ablation_is_that_of_the_record(script: dict[str, Any]) -> None:
    found = {scenario: dict(script["parts"](scenario)) for scenario in SCENARIOS}
    assert len(found["balanced"]) == 11
    for name, values in found["balanced"].items():
        assert len(values) == 8
        assert row(EVIDENCE, f"{name} |") == [written(found[scenario][name]) for scenario in SCENARIOS], name


def test_the_recipe_is_that_of_the_cells(script: dict[str, Any]) -> None:
    cutmix, epochs, average = ([-value for value in values] for _, values in script["recipe"]())
    said = " ".join(NOTE.split())
    assert f"loses {written(cutmix).removeprefix('+')} points without cutmix" in said
    assert f"{written(epochs).removeprefix('+')} with half of the server's epochs" in said
    assert f"{written(average, 2).removeprefix('+')} without the average of weights (n = 3" in said


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
