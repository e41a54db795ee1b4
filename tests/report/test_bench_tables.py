"""A benchmark's tables on terminals of any width."""

import io
import re

import pytest
from rich.console import Console

from fedol.bench.sheets import Sheet
from fedol.report.bench import BenchProgress, plan_table, sheet_tables

ROWS = [["Local", "19.9", "20.0 ± 2.0", "-0.1", "12.0", "", ""], ["Server on true public labels", "24.7"] + [""] * 5]
SHEET = Sheet("name", "Title", ["", "iid", "paper", "difference", "classes:20", "paper", "difference"], ROWS, "Note.")


@pytest.mark.parametrize(("width", "tables"), [(60, 2), (80, 2), (120, 1)])
def test_no_number_is_cut_and_the_papers_stays_beside_ours(width: int, tables: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    found = sheet_tables(SHEET, width)
    for table in found:
        console.print(table)
    text = console.export_text()
    assert len(found) == tables and "…" not in text and max(map(len, text.splitlines())) <= width
    assert all(word in re.split(r"\s*[│┃]\s*", text) for row in ROWS for word in row[1:])
    headings = [[str(column.header) for column in table.columns][1:] for table in found]
    assert [word for part in headings for word in part] == SHEET.columns[1:]
    assert all(part[0] not in ("paper", "difference") for part in headings)
    assert text.count("Title") == text.count("Note.") == 1


HOSTILE, SHOWN = "[/b]:bomb:\x1b]0;gotcha\x07", r"[/b]:bomb:\x1b]0;gotcha\x07"


def test_names_are_shown_as_they_are() -> None:
    """Those of data, partitions and methods come from files, perhaps other people's."""
    console = Console(width=300, record=True, file=io.StringIO())
    (table,) = sheet_tables(Sheet("name", HOSTILE, ["", HOSTILE], [[HOSTILE, "1.0"]], HOSTILE), 300)
    console.print(table)
    assert console.export_text().count(SHOWN) == 4
    plan = {
        "partition": HOSTILE,
        "seed": 0,
        "clients": 2,
        "rows": [HOSTILE],
        "seconds": 1.0,
        "flops": 1.0,
        "timed": True,
    }
    console.print(plan_table([plan]))
    assert console.export_text().count(SHOWN) == 2


def test_the_progress_of_a_benchmark_shows_names_as_they_are() -> None:
    terminal = io.StringIO()
    with BenchProgress(Console(file=terminal, force_terminal=True, width=300)) as progress:
        progress._draw(0.5, 1.0, f"{HOSTILE} 50.0 %", finished=True)
    shown = terminal.getvalue()
    assert shown.count(f"{SHOWN} 50.0 %") >= 2 and "gotcha\x07" not in shown
