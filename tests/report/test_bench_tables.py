"""A benchmark's tables on terminals of any width."""

import io
import re

import pytest
from rich.console import Console

from fedol.experiments.sheets import Sheet
from fedol.report.bench import sheet_tables

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
