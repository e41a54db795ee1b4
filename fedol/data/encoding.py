"""What makes a row of a table numbers that a network takes: fitted on the public rows, plain data in the model file.

A number is the public ones' median where it is missing, then scaled to their mean and deviation, and held within
``MOST`` deviations. A second feature says that it was missing, where public rows lack it too. A category is a feature
per public category and one for "missing"; one that no public row has is none of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.data.columns import CATEGORY, NUMBER
from fedol.data.samples import Preprocessing, Samples, Shape, register
from fedol.errors import InputError
from fedol.text import is_text

MOST = 10.0  # deviations from the mean that a number may have
MOST_CATEGORIES = 100  # of a column: the most frequent ones; a rarer one is as unknown
GAP = -1.0  # the code of a missing category


@lru_cache(1 << 16)
def code(category: str) -> float:
    """A category as a number, the same in every file: 24 bits of its SHA-256, which float32 holds exactly.

    Of a hundred categories two share a number in one of 3,000 columns, and then count as one.
    """
    return float(int.from_bytes(hashlib.sha256(category.encode("utf-8", "surrogatepass")).digest()[:3]))


@dataclass(frozen=True)
class Scale:
    """A column of numbers."""

    name: str
    median: float
    mean: float
    std: float
    gaps: bool  # whether public rows lack it

    kind: ClassVar[str] = NUMBER

    def header(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"name": self.name, "median": self.median, "mean": self.mean, "std": self.std, "gaps": self.gaps}


@dataclass(frozen=True)
class Choice:
    """A column of categories."""

    name: str
    categories: tuple[str, ...]

    kind: ClassVar[str] = CATEGORY

    def header(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"name": self.name, "categories": list(self.categories)}


@register
@dataclass(frozen=True)
class Encoding(Preprocessing):
    """A table's columns in their order."""

    kind: ClassVar[str] = "tables"
    columns: tuple[Scale | Choice, ...]
    missing: tuple[str, ...] = ()  # how files spell it, beside the usual

    def __call__(self, batch: Tensor) -> Tensor:
        """float32 [n, columns] of numbers and codes -> float32 [n, features]."""
        parts = (torch.from_numpy(part).to(batch.device) for part in self._arrays)
        numbers, median, mean, std, gaps, owner, codes = parts
        values = batch[:, numbers]
        absent = values.isnan()
        scaled = ((torch.where(absent, median, values) - mean) / std).clamp(-MOST, MOST)
        chosen = batch.nan_to_num(nan=GAP)[:, owner] == codes
        return torch.cat([scaled, absent[:, gaps].float(), chosen.float()], 1)

    @cached_property
    def _arrays(self) -> list[npt.NDArray[Any]]:
        """Which columns are numbers, their scales, which of them have gaps; and each category's column and code."""
        scales = [(j, column) for j, column in enumerate(self.columns) if isinstance(column, Scale)]
        choices = [(j, column) for j, column in enumerate(self.columns) if isinstance(column, Choice)]
        coded = [(j, number) for j, column in choices for number in (GAP, *map(code, column.categories))]
        return [
            np.array([j for j, _ in scales], np.int64),
            *(np.array([getattr(one, name) for _, one in scales], np.float32) for name in ("median", "mean", "std")),
            np.array([place for place, (_, one) in enumerate(scales) if one.gaps], np.int64),
            np.array([j for j, _ in coded], np.int64),
            np.array([number for _, number in coded], np.float32),
        ]

    def prepared(self, shape: Shape) -> Shape:
        """Its features."""
        *_, std, gaps, owner, _ = self._arrays
        return (len(std) + len(gaps) + len(owner),)

    @property
    def features(self) -> list[str]:
        """What each prepared value is, in words."""
        scales = [column for column in self.columns if isinstance(column, Scale)]
        words = [*(one.name for one in scales), *(f"{one.name} is missing" for one in scales if one.gaps)]
        for column in self.columns:
            if isinstance(column, Choice):
                words += [f"{column.name} is {each}" for each in ("missing", *column.categories)]
        return words

    def blank(self, shape: Shape) -> Tensor:
        """Two rows of nothing."""
        return torch.zeros(2, len(self.columns))

    def header(self) -> dict[str, Any]:
        """The columns one by one."""
        columns = [column.header() for column in self.columns]
        return {"kind": self.kind, "columns": columns, "missing": list(self.missing)}

    def taken(self, values: Any) -> Samples:
        """Rows with these columns, each of its kind, in this order."""
        from fedol.data.kinds import of_values  # which knows the kinds, made of what is defined here
        from fedol.data.reading import Reading
        from fedol.data.tables import Table

        given = values if isinstance(values, Samples) else of_values(values, "the rows", Reading().under(self))
        wanted = {column.name: column.kind for column in self.columns}
        return given.having(wanted) if isinstance(given, Table) else given

    def metadata(self) -> dict[str, Any]:
        """The columns, and the number that stands for each category."""
        coded = [column for column in self.columns if isinstance(column, Choice)]
        codes = {column.name: {each: int(code(each)) for each in column.categories} for column in coded}
        return {"columns": [column.name for column in self.columns], "codes": codes}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Self:
        """Columns that make as many features as the model takes."""
        given, missing = header["columns"], header["missing"]
        if not (isinstance(given, list) and given and _words(missing)):
            raise InputError("its columns make no sense")
        found = cls(tuple(map(_column, given)), tuple(missing))
        if len({column.name for column in found.columns}) < len(given) or found.prepared(()) != shape:
            raise InputError("its columns do not make the features that it takes")
        return found


def _column(given: Any) -> Scale | Choice:
    if not (isinstance(given, dict) and isinstance(given["name"], str) and is_text(given["name"])):
        raise InputError("a column of its table has no name")
    name = given["name"]
    if "categories" in given:
        categories = given["categories"]
        if not _words(categories) or len(categories) > MOST_CATEGORIES:
            raise InputError("the categories of a column make no sense")
        return Choice(name, tuple(categories))
    median, mean, std = (given[key] for key in ("median", "mean", "std"))
    if not all(type(value) in (int, float) and abs(value) < 1e38 for value in (median, mean, std)) or not std > 0:
        raise InputError("the scale of a column makes no sense")
    return Scale(name, float(median), float(mean), float(std), bool(given["gaps"]))


def _words(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(word, str) and is_text(word) for word in given)
