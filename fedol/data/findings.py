"""Several findings of one sample, each there or not: labels [N, findings] of zeros and ones.

A task of C findings is C questions of two answers about the same samples. Everyone answers row by row: row n·C + c is
finding c of sample n, its columns are ``ANSWERS``. So what is made for classes serves findings, too, with C rows a
sample; only who pools the answers keeps the findings apart (``fedol.distillation``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.columns import Cells, spelled
from fedol.errors import InputError
from fedol.text import printable

ANSWERS = ("no", "yes")
MARKS = {"0": 0, "no": 0, "false": 0, "1": 1, "yes": 1, "true": 1}  # in any case: how a column of rows may say it


def check_findings(names: Sequence[object], where: str) -> tuple[str, ...]:
    """The names of findings, all different."""
    found = tuple(str(name) for name in names)
    if not found or len(set(found)) < len(found) or "" in found:
        raise InputError(f"{where}: the findings must have names that are all different; name each once.")
    return found


def check_marks(values: npt.ArrayLike, count: int, where: str) -> npt.NDArray[np.int64]:
    """Any accepted marks as int64 [N, findings]."""
    array = np.asarray(values)
    good = array.ndim == 2 and len(array) == count and array.shape[1] > 0 and array.dtype.kind in "biuf"
    if not good or not np.isin(array, (0, 1)).all():
        raise InputError(
            f"{where} must be zeros and ones [samples, findings] of {count} samples, but is {array.dtype} "
            f"{list(array.shape)}; mark every finding of every sample."
        )
    return array.astype(np.int64)


def marks(cells: Cells, name: str, before: int, where: str) -> npt.NDArray[np.int64]:
    """A column of marks as zeros and ones, with so many rows ``before`` it; what is neither is an error."""
    known: dict[object, int] = {}  # a cell is spelled and looked up once
    found = np.empty(len(cells), np.int64)
    for place, cell in enumerate(cells.tolist() if isinstance(cells, np.ndarray) else cells):
        if cell not in known:
            word = "" if cell is None or cell != cell else spelled(cell)
            if word.lower() not in MARKS:
                what = f"'{printable(word, 40)}' is no mark" if word else "there is no mark"
                raise InputError(
                    f"{where}, row {before + place + 1}, column '{printable(name, 40)}': {what}; write 1, yes or true "
                    "where the sample has it, else 0, no or false."
                )
            known[cell] = MARKS[word.lower()]
        found[place] = known[cell]
    return found


def strata(labels: npt.NDArray[np.integer[Any]]) -> tuple[npt.NDArray[np.int64], int]:
    """What partitions deal by, and how many of it there are: of classes the class, of findings the rarest a sample has.

    A sample without any finding is of a stratum of its own, the last.
    """
    if labels.ndim == 1:
        return labels.astype(np.int64), int(labels.max(initial=-1)) + 1
    count, findings = labels.shape
    rank = np.argsort(labels.sum(0), kind="stable")  # the rarest first
    marked = labels[:, rank] == 1
    found = np.where(marked.any(1), rank[marked.argmax(1)], findings)
    return found.astype(np.int64).reshape(count), findings + 1
