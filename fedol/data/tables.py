"""Tables: rows of numbers and categories, any of which may be missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import fingerprint
from fedol.data.columns import CATEGORY, NUMBER, Column
from fedol.data.encoding import MOST_CATEGORIES, Choice, Encoding, Scale, code
from fedol.data.labels import Names, named, plain
from fedol.data.samples import FIRST, Index, Samples, Shape
from fedol.errors import InputError, unknown
from fedol.text import is_text, printable

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Table(Samples):
    """Rows in memory.

    A category is a position among its column's ``levels`` here, and a ``code`` in a batch, which is the same number in
    every file: no two sites need to agree on a list of categories.
    """

    kind: ClassVar[str] = "tables"
    values: Floats  # [rows, columns]; NaN is missing
    columns: tuple[Column, ...]
    missing: tuple[str, ...] = ()  # how files of these rows spell it, beside the usual
    label: Names = ()  # what these call the columns of the labels

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> Shape:
        """Its columns."""
        return (len(self.columns),)

    @property
    def fingerprint(self) -> str:
        """Of names, kinds and what the cells say, however the categories are numbered."""
        said = [[column.name, column.kind, sorted(self.used(j))] for j, column in enumerate(self.columns)]
        return hashlib.sha256(json.dumps([said, fingerprint(self.batch(slice(None)).numpy())]).encode()).hexdigest()

    def used(self, j: int) -> list[str]:
        """The categories of a column that rows have, the most frequent first; none where it has numbers."""
        levels, here = self.columns[j].levels, self.values[:, j]
        if not levels:
            return []
        counts = np.bincount(here[~np.isnan(here)].astype(np.int64), minlength=len(levels)).tolist()
        ranked = sorted((-number, word) for number, word in zip(counts, levels, strict=True) if number)
        return [word for _, word in ranked]

    members: ClassVar[tuple[str, ...]] = ("rows",)

    def packed(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """To be kept: what it is as plain values, with the categories alone that it has, and the arrays ``members``."""
        columns, rows = list(self.columns), self.values.copy()
        for j, column in enumerate(columns):
            if column.kind == CATEGORY:
                columns[j] = Column(column.name, CATEGORY, tuple(sorted(self.used(j))))
                positions = {word: place for place, word in enumerate(columns[j].levels)}
                rows[:, j] = _looked_up([positions.get(word, -1) for word in column.levels], rows[:, j])
        listed = [[column.name, column.kind, column.levels] for column in columns]
        about = {"columns": listed, "missing": self.missing, "label": plain(self.label)}
        return about, {"rows": rows}

    @classmethod
    def unpacked(cls, about: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Table:
        """What ``packed`` gave, or an ``InputError`` that says what makes no sense: it may be a stranger's."""
        columns = tuple(Column(name, kind, tuple(levels)) for name, kind, levels in about["columns"])
        names, missing, rows = [column.name for column in columns], tuple(about["missing"]), arrays["rows"]
        label = named(about["label"])
        words = [*names, *missing, *label, *(level for column in columns for level in column.levels)]
        if (
            not columns
            or len(set(names)) < len(names)
            or not all(isinstance(word, str) and is_text(word) for word in words)
        ):
            raise InputError("its columns make no sense")
        if rows.dtype != np.float32 or rows.shape[1:] != (len(columns),) or np.isinf(rows).any():
            raise InputError("its rows are not those of its columns")
        for j, column in enumerate(columns):
            here = rows[~np.isnan(rows[:, j]), j]
            coded = column.kind == CATEGORY and ((here >= 0) & (here < len(column.levels)) & (here % 1 == 0)).all()
            if not (coded or (column.kind == NUMBER and not column.levels)):
                raise InputError("the categories of a column make no sense")
        return cls(rows, columns, missing, label)

    def take(self, index: Index) -> Table:
        """These rows."""
        rows = self.values[index if isinstance(index, slice) else np.asarray(index)]
        return replace(self, values=rows)

    def joined(self, others: Table) -> Table:
        """Both; the others' columns in the order of these."""
        others = others.like(self)
        columns, below = list(self.columns), others.values
        for j, (mine, theirs) in enumerate(zip(self.columns, others.columns, strict=True)):
            if mine.levels != theirs.levels:
                columns[j] = Column(mine.name, CATEGORY, tuple(dict.fromkeys([*mine.levels, *theirs.levels])))
                positions = {word: place for place, word in enumerate(columns[j].levels)}
                below = below.copy() if below is others.values else below
                below[:, j] = _looked_up([positions[word] for word in theirs.levels], below[:, j])
        return replace(self, values=np.concatenate([self.values, below]), columns=tuple(columns))

    def like(self, public: Samples) -> Table:
        """The columns of a public table in its order, by their names; others are left out."""
        if not isinstance(public, Table):
            super().like(public)
        assert isinstance(public, Table)
        return self.having({column.name: column.kind for column in public.columns})

    def having(self, wanted: dict[str, str]) -> Table:
        """These columns in this order, each of its kind."""
        here = {column.name: j for j, column in enumerate(self.columns)}
        if lost := [name for name in wanted if name not in here]:
            words = printable(", ".join(lost), 80)
            raise InputError(f"The table has no column '{words}', which the task's has; add it, empty where unknown.")
        for name, kind in wanted.items():
            if (found := self.columns[here[name]].kind) != kind:
                what = f"The column '{printable(name, 40)}' holds a {found}"
                raise InputError(f"{what}, but the task's a {kind}; declare it.")
        order = [here[name] for name in wanted]
        if order == list(range(len(self.columns))):
            return self
        return replace(self, values=self.values[:, order], columns=tuple(self.columns[j] for j in order))

    def column(self, name: str) -> npt.NDArray[np.str_]:
        """What each row says in a column, in words."""
        names = [column.name for column in self.columns]
        if name not in names:
            raise unknown("column", name, names)
        j = names.index(name)
        kind, levels, values = self.columns[j].kind, self.columns[j].levels, self.values[:, j]
        words = [
            f"{value:g}" if kind == NUMBER else levels[int(value)] for value in np.unique(values[~np.isnan(values)])
        ]
        place = np.unique(values, return_inverse=True, equal_nan=True)[1]
        return np.array([*words, "missing"])[place]

    def without(self, name: str) -> Table:
        """All columns but this one."""
        kept = [j for j, column in enumerate(self.columns) if column.name != name]
        if not kept:
            raise InputError(f"The table has the column '{printable(name, 40)}' alone; add columns to learn from.")
        return replace(self, values=self.values[:, kept], columns=tuple(self.columns[j] for j in kept))

    def batch(self, index: Tensor | slice) -> Tensor:
        """float32 [n, columns]: numbers, and the codes of categories."""
        rows: Floats = self.values[index if isinstance(index, slice) else index.cpu().numpy()].copy()
        for j, column in enumerate(self.columns):
            if column.kind == CATEGORY:
                rows[:, j] = _looked_up([code(word) for word in column.levels], rows[:, j])
        return torch.from_numpy(rows)

    def array(self) -> npt.NDArray[Any]:
        """float32 [rows, columns]; with categories of type object, these as text, and None where one is missing."""
        if all(column.kind == NUMBER for column in self.columns):
            return self.values
        cells = self.values.astype(object)
        for j, column in enumerate(self.columns):
            if column.kind == CATEGORY:
                cells[:, j] = [None if value != value else column.levels[int(value)] for value in self.values[:, j]]
        return cells

    def frame(self) -> Any:
        """A pandas frame, for a model that was fitted on one."""
        import pandas

        cells = self.array()
        return pandas.DataFrame({column.name: cells[:, j] for j, column in enumerate(self.columns)})

    def floats(self) -> Floats:
        """Numbers, and the codes of categories; NaN is missing."""
        values: Floats = self.batch(slice(None)).numpy()
        return values

    def rows(self, named: bool = False) -> Any:
        """Numbers; a frame for a model that was fitted on one, and objects where there are words."""
        return self.frame() if named else self.array()

    def captions(self) -> list[str]:
        """Each row's first cells, by name."""
        names = [column.name for column in self.columns[:FIRST]]
        return [
            ", ".join(f"{name} {_said(cell)}" for name, cell in zip(names, row, strict=False))
            for row in self.array()[:, :FIRST].tolist()
        ]

    def fit(self, public: Table | None = None) -> Encoding:
        """To the public rows, where there are some: then it is the same at every site."""
        rows = self if public is None else public
        found: list[Scale | Choice] = []
        for j, column in enumerate(rows.columns):
            if column.kind == CATEGORY:
                found.append(Choice(column.name, tuple(sorted(rows.used(j)[:MOST_CATEGORIES]))))
            else:
                found.append(_scale(column.name, rows.values[:, j]))
        return Encoding(tuple(found), rows.missing)


def _scale(name: str, values: Floats) -> Scale:
    """A column's median where it is there, and the mean and deviation once gaps are filled."""
    absent = np.isnan(values)
    median = 0.0 if absent.all() else float(np.median(values[~absent]))
    filled = np.where(absent, median, values).astype(np.float64)
    std = float(filled.std())
    return Scale(name, median, float(filled.mean()), std if std > 1e-12 else 1.0, bool(absent.any()))


def _looked_up(table: Sequence[float], positions: Floats) -> Floats:
    """The table's value at each position; NaN stays."""
    there = ~np.isnan(positions)
    found = positions.copy()
    found[there] = np.array(table, np.float32)[positions[there].astype(np.int64)]
    return found


def _said(cell: Any) -> str:
    if cell is None or cell != cell:
        return "missing"
    return f"{cell:.3g}" if isinstance(cell, float) else printable(cell, 20)
