"""Tables and reports are what the published records make of themselves, and prose quotes nothing else."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedol.bench.sheets import Sheet
from fedol.bench.summary import label
from fedol.errors import FedolError
from fedol.files import write_json
from fedol.report.bench_pages import collect, sheets

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "results").glob("*/cells.jsonl"))
QUESTIONS = sorted((ROOT / "docs" / "results").glob("*.md"))
TABLE = re.compile(r"<!-- table: ([\w-]+) -->\n(.*?)<!-- /table -->", re.DOTALL)
POINTS = re.compile(r"<!-- points: ([\w-]+) -->[^<]*<!-- /points -->")


@pytest.fixture(scope="module")
def script() -> Iterator[dict[str, Any]]:
    """``benchmarks/tables.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield runpy.run_path(str(ROOT / "benchmarks" / "tables.py"))


def test_filling_the_tables_changes_nothing(script: dict[str, Any]) -> None:
    tables, points = [], set()
    for page in script["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert script["fill"](text, page.name) == text, f"{page.name}: run `make tables`"
        tables += [name for name, _ in TABLE.findall(text)]
        points |= set(POINTS.findall(text))
    assert sorted(tables) == sorted(script["TABLES"])  # each stands in one place
    assert points == set(script["POINTS"])


def test_a_number_that_was_changed_by_hand_is_put_right(script: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "results" / "best.md").read_text(encoding="utf-8")
    for changed in (
        text.replace("49.9 ± 0.2", "59.9 ± 0.2"),
        text.replace("| one client: mean |", "| | |"),
        text.replace("13 to 19", "13 to 29"),
    ):
        assert changed != text and script["fill"](changed, "best.md") == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- table: nothing -->\n<!-- /table -->", "a.md: table nothing is unknown; there are above-fedol, best,"),
        ("<!-- points: nothing -->1<!-- /points -->", "a.md: points nothing is unknown; there are best-above-fedol,"),
        ("<!-- table: best -->\n", "a.md: table begins 1 times and ends 0 times"),
        (
            "<!-- table: best -->\n<!-- table: best -->\n<!-- /table --> <!-- /table -->",
            "table best has no <!-- /table -->",
        ),
    ],
)
def test_a_marker_that_is_wrong_is_named(text: str, said: str, script: dict[str, Any]) -> None:
    with pytest.raises(FedolError, match=re.escape(said)):
        script["fill"](text, "a.md")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_report_is_the_one_that_its_cells_make(folder: Path, tmp_path: Path) -> None:
    numbers = collect(folder)
    write_json(tmp_path / "report.json", numbers)
    assert (folder / "report" / "report.json").read_bytes() == (tmp_path / "report.json").read_bytes()
    made = sheets(numbers)
    assert (folder / "report" / "report.md").read_text(encoding="utf-8") == "\n".join(s.markdown() for s in made)
    for kind, text in (("csv", Sheet.csv), ("tex", Sheet.latex)):
        written = {path.name: path.read_text(encoding="utf-8") for path in (folder / "report").glob(f"*.{kind}")}
        assert written == {f"{sheet.name}.{kind}": text(sheet) for sheet in made}


def test_no_cell_is_published_twice_or_unpacked() -> None:
    assert len(FOLDERS) == 11
    for folder in FOLDERS:
        lines = (folder / "cells.jsonl").read_text(encoding="utf-8").split("\n")
        hashes = [json.loads(line)["hash"] for line in lines[:-1]]
        assert not lines[-1] and hashes == sorted(set(hashes))


@pytest.mark.parametrize(
    ("table", "folder"),
    [("first-table", "paper"), ("above-fedol", "paper"), ("equal-digits", "digits"), ("equal-fashion", "fashion")],
)
def test_the_documents_agree_with_the_reports(table: str, folder: str, script: dict[str, Any]) -> None:
    """Two ways from cells to a table: that of the documents and that of ``fedol bench report``."""

    def words(entry: dict[str, Any] | None, sign: str = "") -> str:
        if entry is None:
            return ""
        mean = f"{100 * entry['mean']:{sign}z.1f}".replace("-", "−").replace("+0.0", "0.0")
        return mean + ("" if entry["std"] is None else f" ± {100 * entry['std']:.1f}")

    rows = collect(ROOT / "results" / folder)["one_round"][0]["rows"]
    theirs = {label({"method": row["method"]}): row["cells"] for row in rows if row["method"] != "fedol"}
    head, _, *lines = script["TABLES"][table]().splitlines()
    partitions, compared = re.findall(r"`(.+?)`", head), 0
    for line in lines:
        name, *cells = (word.strip(" *†") for word in line.split("|")[1:-1])
        shown = [re.sub(r"[*†]| \(.*", "", cell) for cell in cells]
        if name in theirs:
            entries = [theirs[name][partition] for partition in partitions]
            reported = {"first-table": [words(entry) for entry in entries]}
            reported["above-fedol"] = [words(entry["over_fedol"], "+") for entry in entries]
            both = zip(*reported.values(), strict=True)
            assert shown == reported.get(table, [word for pair in both for word in pair]), name
            compared += 1
    assert compared >= 10


def test_the_figures_over_rounds_are_those_that_the_records_make(script: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figures need matplotlib (fedol[plot])")

    def marks(file: Path) -> list[float]:
        return [float(x) for x in re.findall(r'<use [^>]*\by="([\d.]+)"', file.read_text(encoding="utf-8"))]

    for name, folder in script["FIGURES"].items():
        script["rounds_figure"](collect(ROOT / "results" / folder)["rounds"], tmp_path / name)
        assert marks(tmp_path / name) == pytest.approx(marks(ROOT / "docs" / "img" / name), abs=0.1)
        assert len(marks(tmp_path / name)) > 20


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_every_decimal_in_prose_stands_in_a_table_of_its_page(page: Path) -> None:
    """So that a record that changes leaves no stale number behind; settings are written as `code`."""
    text = page.read_text(encoding="utf-8")
    tables = {number for _, table in TABLE.findall(text) for number in re.findall(r"\d+\.\d+", table)}
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|Dirichlet\([^)]*\)|ρ = 0\.1", "", TABLE.sub("", text))
    assert {number for number in re.findall(r"\d+\.\d+", prose) if number not in tables} == set()


SETTINGS = re.compile(  # whole numbers that nobody measured: of what was run, and how
    r"`[^`]*`|\]\([^)]*\)|Dirichlet\([^)]*\)|^## .*$|^\| .*$"
    r"|(?:ResNet-|CIFAR-|width |[Ss]eeds? |n = |s = |t = |FedOL |[ρμτ] = )[\d./×, ]*\d(?:,? (?:and|to|or)\s\d+)*"
    r"|[\d,]+(?:\sto [\d,]+)?(?: × \d+)?\s(?:server |public |private |held-out |training |of the training )*"
    r"(?:epochs|classes|images|seeds|clients|samples)",
    flags=re.MULTILINE,
)


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_every_whole_number_in_prose_is_a_setting_or_stands_in_a_table_of_its_page(page: Path) -> None:
    """The rounds that are said to be worth an upload, for instance."""
    text = page.read_text(encoding="utf-8")
    whole = r"(?<![\d.,])\d+(?![\d.,]\d)\b"
    tables = {
        number
        for _, table in TABLE.findall(text)
        for line in table.splitlines()[3:]
        for number in re.findall(whole, line)
    }
    prose = SETTINGS.sub("", POINTS.sub("", TABLE.sub("", text)))
    assert set(re.findall(whole, prose)) <= tables


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "docs" / "results.md", *QUESTIONS], ids=lambda page: page.stem
)
def test_whole_points_in_prose_are_made_of_the_records(page: Path) -> None:
    """A rounded number stands in no table, so it is filled in like one."""
    prose = POINTS.sub("", TABLE.sub("", page.read_text(encoding="utf-8")))
    assert not re.findall(r"(?<![\d.])\d+(?: to \d+)? (?:points?|below|above)\b", prose)


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_a_page_asks_and_answers_first(page: Path) -> None:
    question, answer, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert question.startswith("# ") and question.endswith("?")
    assert answer.startswith("**") and answer.endswith("**") and answer.count("**") == 2
