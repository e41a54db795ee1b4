"""Rows from anywhere, block by block: CSV, JSON lines, lines, Parquet, and frames of pandas or polars."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from fedol.data.columns import Cells, number
from fedol.errors import InputError, MissingExtra, cause
from fedol.text import printable

BLOCK = 10_000  # rows read at a time: what a file takes in memory beside its values
DELIMITERS = ",;\t|"
DECIMAL = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # a number, where cells are cut at semicolons
CSV, LINES, JSON_LINES, PARQUET = (".csv", ".tsv", ".data"), (".txt",), (".jsonl", ".ndjson"), (".parquet", ".pq")
SUFFIXES = (*CSV, *LINES, *JSON_LINES, *PARQUET)
TEXT = "text"  # what the one column of a file of lines is called


@dataclass(frozen=True)
class Rows:
    """Named columns, and their cells block by block."""

    where: str  # for errors
    names: tuple[str, ...]
    blocks: Iterable[list[Cells]]

    def __post_init__(self) -> None:
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{self.where} has two columns '{printable(twice, 40)}'; rename one.")


def suffix(path: Path) -> str:
    """What a file's name ends with, whether it is compressed or not."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def holds_rows(path: Path) -> bool:
    """Whether a file is one of these, by its name; what is compressed is taken for CSV unless it says otherwise."""
    return suffix(path) in SUFFIXES or path.suffix.lower() == ".gz"


@contextmanager
def read_rows(path: Path) -> Iterator[Rows]:
    """The rows of a file, which is open as long as this is."""
    try:
        if suffix(path) in PARQUET:
            yield _parquet(path)
            return
        with _opened(path) as file:
            known = {**dict.fromkeys(LINES, _lines), **dict.fromkeys(JSON_LINES, _json)}
            yield known.get(suffix(path), _csv)(str(path), file)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8; save it as that.") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise InputError(f"{path} cannot be read ({printable(cause(error), 200)}); get a fresh copy.") from None


def _opened(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open(encoding="utf-8-sig", newline="")


def _csv(where: str, file: IO[str]) -> Rows:
    """Columns by the first line where nothing in it is a number, else by their positions from 1."""
    head = file.readline()
    delimiter = ";" if _with_commas(head) else max(DELIMITERS, key=head.count)
    lines: Iterator[list[str]] = csv.reader(_chained(head, file), delimiter=delimiter, skipinitialspace=True)
    if delimiter == ";":
        lines = (list(map(_pointed, row)) for row in lines)
    first = [cell.strip() for cell in next(lines, [])]
    if not any(first):
        raise InputError(f"{where} is empty, or begins with an empty line; give a file with a row per sample.")
    named = all(cell and math.isnan(number(cell)) for cell in first)
    names = tuple(first) if named else tuple(str(place) for place in range(1, len(first) + 1))

    def blocks() -> Iterator[list[Cells]]:
        count, waiting = 0, [] if named else [first]
        while rows := [*waiting, *(row for row in islice(lines, BLOCK) if row)]:
            for place, row in enumerate(rows):
                if len(row) != len(names):
                    raise InputError(
                        f"{where}, row {count + place + 1}, has {len(row)} cells and not {len(names)} as its first "
                        f"line, cut at '{printable(delimiter)}'; mend the row, or use another delimiter."
                    )
            yield list(zip(*rows, strict=True))
            count, waiting = count + len(rows), []

    return Rows(where, names, blocks())


def _with_commas(head: str) -> bool:
    """Whether a line is numbers with decimal commas, cut at semicolons, though it has more commas than these."""
    cells = [cell.strip() for cell in head.split(";")]
    return len(cells) > 1 and all(DECIMAL.fullmatch(cell) or "," not in cell for cell in cells)


def _pointed(cell: str) -> str:
    """A number with a decimal comma as one with a point; anything else as it is."""
    return cell.replace(",", ".") if "," in cell and DECIMAL.fullmatch(cell.strip()) else cell


def _chained(head: str, file: IO[str]) -> Iterator[str]:
    yield head
    yield from file


def _lines(where: str, file: IO[str]) -> Rows:
    lines = (line.rstrip("\r\n") for line in file)
    return Rows(where, (TEXT,), ([block] for block in _cut(lines)))


def _json(where: str, file: IO[str]) -> Rows:
    """An object a line; the first one's names are the columns, and what a later one lacks is missing."""

    def objects() -> Iterator[dict[str, Any]]:
        for place, line in enumerate(line for line in file if line.strip()):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict) or any(isinstance(cell, dict | list) for cell in value.values()):
                raise InputError(f"{where}, row {place + 1}, is no JSON object of numbers and text; mend the line.")
            yield value

    rows = objects()
    first = next(rows, None)
    if not first:
        raise InputError(f"{where} is empty; give a file with an object a line.")
    names = tuple(first)
    every = ([row.get(name) for name in names] for row in (row for part in ([first], rows) for row in part))
    return Rows(where, names, (list(zip(*block, strict=True)) for block in _cut(every)))


def _cut(items: Iterator[Any]) -> Iterator[list[Any]]:
    while block := list(islice(items, BLOCK)):
        yield block


def _parquet(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtra("Reading Parquet needs pyarrow; run: pip install 'fedol[parquet]'.") from None
    try:
        file = ParquetFile(path)
    except ArrowException as error:
        raise InputError(f"{path} cannot be read as Parquet ({printable(cause(error), 200)}).") from None
    blocks = ([column.to_numpy(zero_copy_only=False) for column in batch.columns] for batch in file.iter_batches(BLOCK))
    return Rows(str(path), tuple(map(str, file.schema_arrow.names)), blocks)


def is_frame(values: Any) -> bool:
    """Whether it is a frame of pandas or polars, neither of which needs to be there."""
    return type(values).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(values, "columns")


def frame_rows(frame: Any, where: str = "the frame") -> Rows:
    """The rows of a frame."""
    names = list(frame.columns)

    def blocks() -> Iterator[list[Cells]]:
        for start in range(0, len(frame), BLOCK):
            part = frame.iloc[start : start + BLOCK] if hasattr(frame, "iloc") else frame[start : start + BLOCK]
            yield [_cells(part[name]) for name in names]

    return Rows(where, tuple(map(str, names)), blocks())


def _cells(series: Any) -> Cells:
    """A series' values; pandas' own sign of a missing one, which equals nothing, becomes None."""
    values = series.to_numpy()
    if values.dtype.kind in "biuf":
        return cast(Cells, values)
    absent = series.isna().to_numpy() if hasattr(series, "isna") else series.is_null().to_numpy()
    return [None if gap else cell for cell, gap in zip(values.tolist(), absent, strict=True)]
