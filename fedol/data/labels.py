"""Labels: a class of each sample, or marks of several findings; read from words, or checked where they are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.columns import Cells, spelled
from fedol.data.findings import ANSWERS, check_findings, check_marks, marks
from fedol.errors import InputError

Groups = npt.NDArray[np.int64] | npt.NDArray[np.str_]  # the site of each sample: a number or a name
MOST_CLASSES = 65_536  # a larger label is a mistake (an id, a pixel), not a class
Names = tuple[str, ...]  # of the columns that labels are in: none, one of classes, or several of findings


@dataclass(frozen=True, eq=False)
class Labels:
    """Of samples: ``y`` int64 [N], or [N, findings] of zeros and ones, and the names that these stand for."""

    y: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    findings: tuple[str, ...] = ()

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Labels:
        """A class of each sample; the classes are in the order of numbers where all are."""
        found = set(words)
        classes = tuple(sorted(found, key=int) if all(word.isdecimal() for word in found) else sorted(found))
        places = {word: c for c, word in enumerate(classes)}
        return cls(np.array([places[word] for word in words], np.int64), classes)


class Reader:
    """Columns of labels as their blocks come in."""

    def __init__(self, names: Names, where: str) -> None:
        self._names, self._where = check_findings(names, where) if len(names) > 1 else names, where
        self._words, self._marks, self._rows = list[str](), list[npt.NDArray[np.int64]](), 0

    def add(self, columns: Sequence[Cells]) -> None:
        """The next cells of each column."""
        if len(self._names) > 1:
            named = zip(columns, self._names, strict=True)
            self._marks.append(np.stack([marks(cells, name, self._rows, self._where) for cells, name in named], 1))
        elif self._names:
            self._words += _words(columns[0], self._rows, self._where)
        self._rows += len(columns[0]) if columns else 0

    def done(self) -> Labels:
        """What all of them say."""
        if len(self._names) > 1:
            empty = np.empty((0, len(self._names)), np.int64)
            return Labels(np.concatenate([*self._marks, empty]), ANSWERS, self._names)
        return Labels.of_words(self._words)


def _words(cells: Cells, before: int, where: str) -> list[str]:
    words = ["" if cell is None or cell != cell else spelled(cell) for cell in cells]
    if "" in words:
        raise InputError(f"{where}, row {before + words.index('') + 1}, has no label; give it one or leave it out.")
    return words


def plain(names: Names) -> str | list[str] | None:
    """The names of columns as a task's file has them."""
    return list(names) if len(names) > 1 else names[0] if names else None


def named(value: Any) -> Names:
    """What ``plain`` gave."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def check_labels(
    train: npt.ArrayLike, test: npt.ArrayLike, classes: Sequence[str] | None, counts: tuple[int, int], name: str
) -> tuple[Labels, npt.NDArray[np.int64]]:
    """The labels of training samples given as numbers, and those of test samples alike."""
    several = np.ndim(train) == 2 and np.shape(train)[1] > 1  # one finding is two classes
    return (_findings if several else _classes)(train, test, classes, counts, name)


def _classes(
    train: npt.ArrayLike, test: npt.ArrayLike, classes: Sequence[str] | None, counts: tuple[int, int], name: str
) -> tuple[Labels, npt.NDArray[np.int64]]:
    """Where a sample is of one class."""
    y, test_y = _labels(train, counts[0], f"{name}: train_y"), _labels(test, counts[1], f"{name}: test_y")
    top = int(max(y.max(), test_y.max()))
    names = tuple(str(c) for c in (range(top + 1) if classes is None else classes))
    if top >= len(names):
        raise InputError(f"{name}: label {top} has no name among the {len(names)} classes; labels count from 0.")
    fewest = 2 if classes is None else 1  # a client may hold one of its task's classes, and say which
    if len(names) < fewest or len(set(names)) < len(names):
        raise InputError(f"{name}: the class names must be two or more and all different, not {_brief(names)}.")
    return Labels(y, names), test_y


def _findings(
    train: npt.ArrayLike, test: npt.ArrayLike, classes: Sequence[str] | None, counts: tuple[int, int], name: str
) -> tuple[Labels, npt.NDArray[np.int64]]:
    """Where a sample may have several findings."""
    y, test_y = check_marks(train, counts[0], f"{name}: train_y"), check_marks(test, counts[1], f"{name}: test_y")
    findings = check_findings(range(y.shape[1]) if classes is None else classes, name)
    for given, part in ((y, "train_y"), (test_y, "test_y")):
        if given.shape[1] != len(findings):
            raise InputError(
                f"{name}: {part} marks {given.shape[1]} findings, but {len(findings)} have names; make them the same."
            )
    return Labels(y, ANSWERS, findings), test_y


def _labels(values: npt.ArrayLike, count: int, where: str) -> npt.NDArray[np.int64]:
    """Any accepted labels as int64 [N]."""
    array = np.asarray(values)
    if array.shape != (count,) or not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{where} must be {count} integers, one per image, not {array.dtype} {list(array.shape)}.")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= MOST_CLASSES:
        raise InputError(f"{where} holds the label {low if low < 0 else high}; labels must be 0, 1, ... C-1.")
    return array.astype(np.int64)


def check_groups(values: npt.ArrayLike, count: int, where: str) -> Groups:
    """Any accepted sites as int64 [N] or text [N], whose type is as wide as its longest name."""
    array = np.asarray(values)
    if array.dtype == object and all(isinstance(value, str) for value in array.flat):
        array = array.astype(np.str_)
    if array.shape != (count,) or array.dtype.kind not in "iuU":
        shape = list(array.shape)
        raise InputError(f"{where} must be {count} names or integers, one per image, not {array.dtype} {shape}.")
    if array.dtype.kind != "U":
        return array.astype(np.int64)
    if "" in array:
        raise InputError(
            f"{where} has no name at {int(np.argmax(array == ''))}; name the site of every training image."
        )
    return np.array(array.tolist())


def _brief(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "none"
