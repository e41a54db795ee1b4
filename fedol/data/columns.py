"""A column of a table, read block by block: is it numbers or categories, and which cell is neither?

The kind is declared or guessed of the first block: numbers where nine in ten of the cells that are there are, else
categories. From then on it holds: a cell that is no number in a column of numbers is an error that names it, because
half a column of silent gaps is worse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.errors import InputError
from fedol.text import printable

NUMBER, CATEGORY = "number", "category"
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "<na>"})  # in any case
NO_NUMBER = MISSING | {"none"}  # which among words is one more: no pain
WITH_COMMA = re.compile(r"[+-]?(\d[\d.' ]*)?(,\d+)+([eE][+-]?\d+)?")  # a number as some write it, whatever it is
MOSTLY = 0.9  # of the cells that are there: so many numbers make a column of numbers
Cells = Sequence[Any] | npt.NDArray[Any]


@dataclass(frozen=True)
class Column:
    """Its name, its kind, and of categories their names: a value is a position among them."""

    name: str
    kind: str = NUMBER
    levels: tuple[str, ...] = ()


def spelled(cell: Any) -> str:
    """A category as it is compared: 1, 1.0 and " 1" are one."""
    word = str(cell).strip()
    if word[:1].isalpha():
        return word
    found = number(word)
    return f"{found:.15g}" if math.isfinite(found) else word


def number(cell: Any) -> float:
    """A cell as a number; NaN where it is none."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


class Reader:
    """One column as its blocks come in."""

    def __init__(self, name: str, kind: str | None, missing: Iterable[str], where: str) -> None:
        self._name, self._kind, self._where = name, kind, where
        self._missing = MISSING | {spelled(word).lower() for word in missing}
        self._levels: dict[str, int] = {}
        self._blocks: list[npt.NDArray[np.float32]] = []
        self._rows = 0

    def add(self, cells: Cells) -> None:
        """The next cells; the kind is known from the first on."""
        self._kind = self._kind or self._guessed(cells)
        block = self._numbers(cells) if self._kind == NUMBER else self._categories(cells)
        self._blocks.append(block)
        self._rows += len(block)

    def done(self) -> tuple[Column, npt.NDArray[np.float32]]:
        """The column, and its values: NaN where one is missing, of categories their positions."""
        values = np.concatenate([*self._blocks, np.empty(0, np.float32)])
        return Column(self._name, self._kind or NUMBER, tuple(self._levels)), values

    def _absent(self, cell: Any) -> bool:
        return cell is None or cell != cell or spelled(cell).lower() in self._missing

    def _guessed(self, cells: Cells) -> str:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
            return NUMBER
        words = [cell for cell in cells if math.isnan(number(cell)) and not self._absent(cell)]
        others = [cell for cell in words if spelled(cell).lower() not in NO_NUMBER]
        numbers = sum(not math.isnan(number(cell)) for cell in cells)
        if numbers >= MOSTLY * (numbers + len(others)):
            return NUMBER if numbers or not words else CATEGORY
        commas = [cell for cell in others if WITH_COMMA.fullmatch(str(cell).strip())]
        if commas and numbers + len(commas) >= MOSTLY * (numbers + len(others)):
            place = next(place for place, cell in enumerate(cells) if cell is commas[0])
            raise self._error(place, f"'{printable(commas[0], 40)}' has a comma, so it is no number here")
        return CATEGORY

    def _numbers(self, cells: Cells) -> npt.NDArray[np.float32]:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
            values = cells.astype(np.float64)
        else:
            values = np.fromiter(map(number, cells), np.float64, len(cells))
            for place in np.flatnonzero(np.isnan(values)).tolist():
                if not (self._absent(cells[place]) or spelled(cells[place]).lower() in NO_NUMBER):
                    raise self._error(place, f"'{printable(cells[place], 40)}' is not a number")
        for word in self._missing - MISSING:
            values[values == number(word)] = math.nan
        with np.errstate(over="ignore"):
            block = values.astype(np.float32)
        if np.isinf(block).any():
            first = int(np.isinf(block).argmax())
            raise self._error(first, f"{values[first]} is no finite number of seven digits")
        return block

    def _error(self, place: int, what: str) -> InputError:
        return InputError(
            f"{self._where}, row {self._rows + place + 1}, column '{printable(self._name, 40)}': {what}; mend it, "
            "or declare the word as missing or the column as a category."
        )

    def _categories(self, cells: Cells) -> npt.NDArray[np.float32]:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
            cells = cells.tolist()
        codes: dict[Any, float] = {}  # a cell is spelled and looked up once

        def code(cell: Any) -> float:
            word = math.nan if self._absent(cell) else float(self._levels.setdefault(spelled(cell), len(self._levels)))
            return codes.setdefault(cell, word)

        found = (codes[cell] if cell in codes else code(cell) for cell in cells)
        return np.fromiter(found, dtype=np.float32, count=len(cells))
