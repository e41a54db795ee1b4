"""Rows as samples: which columns are features, texts and labels, in a file, a frame, or an array of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.columns import CATEGORY, NUMBER, Column, Reader, spelled
from fedol.data.dataset import Dataset, Labelled, holdout
from fedol.data.own import load_test as load_test_arrays
from fedol.data.rows import TEXT, Rows, frame_rows, holds_rows, is_frame, read_rows
from fedol.data.samples import Samples
from fedol.data.tables import Table
from fedol.data.texts import Texts
from fedol.errors import InputError, unknown
from fedol.progress import watched
from fedol.settings import Columns
from fedol.text import printable

LABELS = ("label", "class", "target", "y")  # in any case: what a column of labels may be called without a word


@dataclass(frozen=True)
class Reading:
    """How files become samples: what the columns of rows mean, of which those that nobody names are features."""

    label: str | None = None
    text: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    test: str | None = None  # the file of the test rows; without one a fifth is held out
    image_size: int | None = None  # that image files are made
    columns: Mapping[str, str] = field(default_factory=dict)  # the features and their kinds, where a task fixes them

    @classmethod
    def of(cls, settings: Columns) -> Reading:
        """As settings say it."""
        text, categories, missing = map(_listed, (settings.text, settings.categories, settings.missing))
        return cls(settings.label, text, categories, missing, settings.test, settings.image_size)

    def under(self, known: Any) -> Reading:
        """The same for samples that must be like known ones, or fit their preprocessing."""
        columns = {column.name: column.kind for column in getattr(known, "columns", ())}
        text = getattr(known, "text", ())
        missing = (*self.missing, *getattr(known, "missing", ()))
        label = self.label or getattr(known, "label", None)
        size = getattr(known, "image_size", None) or self.image_size
        missing = tuple(dict.fromkeys(missing))
        return replace(self, label=label, columns=columns, text=text or self.text, missing=missing, image_size=size)


def _listed(words: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (words or "").split(",") if word.strip())


def load_rows(path: Path, reading: Reading = Reading()) -> Dataset:
    """A dataset from a file with a row per sample, one column of which is the label."""
    with read_rows(path) as rows:
        train = labelled(rows, reading)
    name = path.resolve().name.partition(".")[0]
    if reading.test is None:
        return split_off(*train, name)
    with read_rows(Path(reading.test).expanduser()) as rows:
        test = labelled(rows, reading.under(train[0]))
    return joined(train, test, name, reading.test)


def load_test(path: Path, reading: Reading) -> Dataset:
    """Labelled samples to score a model with, which are then both parts: rows, or ``test_x`` and ``test_y``."""
    if not holds_rows(path):
        return load_test_arrays(path, reading.image_size)
    with read_rows(path) as rows:
        found, words = labelled(rows, reading)
    classes, encoded = _encoded(words)
    part = Labelled(found, encoded)
    return Dataset(path.name, part, part, classes)


def from_frame(frame: Any, test: Any, reading: Reading, name: str) -> Dataset:
    """The same from a frame, and from another one with the test rows, if there is one."""
    if not all(map(is_frame, [frame] if test is None else [frame, test])):
        raise InputError("Dataset.from_frame takes frames of pandas or polars; arrays are for Dataset.from_arrays.")
    train = labelled(frame_rows(frame), reading)
    if test is None:
        return split_off(*train, name)
    where = "the test frame"
    return joined(train, labelled(frame_rows(test, where), reading.under(train[0])), name, where)


def unlabelled(rows: Rows, reading: Reading) -> Samples:
    """Samples alone; a column of labels is passed over, and needs not be full."""
    label = _label(rows.names, reading.label)
    return _read(rows, reading, label, look=False)[0]


def labelled(rows: Rows, reading: Reading) -> tuple[Samples, list[str]]:
    """Samples and the class of each."""
    label = _label(rows.names, reading.label)
    if label is None:
        held = printable(", ".join(rows.names), 120)
        if len(rows.names) == 1:
            raise InputError(f"{rows.where} has one column, {held}: cells are cut at commas, semicolons, bars or tabs.")
        raise InputError(f"{rows.where} has the columns {held}; say which one has the labels: --label COLUMN.")
    return _read(rows, reading, label)


def _label(names: tuple[str, ...], wanted: str | None) -> str | None:
    if wanted is not None:
        return _known(names, wanted)
    usual = [name for name in names if name.lower() in LABELS]
    return usual[0] if len(usual) == 1 else None


def _known(names: tuple[str, ...], wanted: str) -> str:
    if wanted not in names:
        raise unknown("column", wanted, names)
    return wanted


def _read(rows: Rows, reading: Reading, label: str | None, look: bool = True) -> tuple[Samples, list[str]]:
    """The samples, and where one may ``look`` the classes."""
    names = list(reading.text or reading.columns or [name for name in rows.names if name != label])
    if lost := [name for name in names if name not in rows.names]:
        held = printable(", ".join(rows.names), 120)
        raise InputError(f"{rows.where} has no column '{printable(lost[0], 40)}'; it has {held}.")
    if not names:
        raise InputError(f"{rows.where} has no column beside the labels; give a file with features.")
    if reading.text or rows.names == (TEXT,):
        return _read_texts(rows, names, label, look)
    declared = {_known(rows.names, name): CATEGORY for name in reading.categories} | dict(reading.columns)
    missing = reading.missing
    readers = {name: Reader(name, declared.get(name), missing, rows.where) for name in names}
    places, labels = {name: place for place, name in enumerate(rows.names)}, list[str]()
    for block in watched(rows.blocks, "reading rows"):
        if label is not None and look:
            labels += _labels(block[places[label]], len(labels), rows.where)
        for name, reader in readers.items():
            reader.add(block[places[name]])
    columns, values = zip(*(reader.done() for reader in readers.values()), strict=True)
    if not len(values[0]):
        raise InputError(f"{rows.where} has no rows; give a file with a row per sample.")
    return Table(np.stack(values, 1), columns, missing, label), labels


def _read_texts(rows: Rows, names: list[str], label: str | None, look: bool) -> tuple[Samples, list[str]]:
    """The strings of some columns, with a space between."""
    texts, labels = list[str](), list[str]()
    for block in watched(rows.blocks, "reading rows"):
        columns = [block[rows.names.index(name)] for name in names]
        texts += [" ".join(str(cell) for cell in cells if cell is not None) for cells in zip(*columns, strict=True)]
        if label is not None and look:
            labels += _labels(block[rows.names.index(label)], len(labels), rows.where)
    if not texts:
        raise InputError(f"{rows.where} has no rows; give a file with a row per sample.")
    return Texts.of(texts, rows.where, () if rows.names == (TEXT,) else tuple(names), label), labels


def _labels(cells: Iterable[Any], before: int, where: str) -> list[str]:
    words = ["" if cell is None or cell != cell else spelled(cell) for cell in cells]
    if "" in words:
        raise InputError(f"{where}, row {before + words.index('') + 1}, has no label; give it one or leave it out.")
    return words


def split_off(given: Samples, words: list[str], name: str) -> Dataset:
    """A dataset whose test set is a fixed fifth of each class, by the number and order of its samples alone."""
    classes, encoded = _encoded(words)
    return _dataset(name, given, encoded, held_out(encoded, classes), classes)


def held_out(encoded: npt.NDArray[np.int64], classes: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """A fifth of each class (see ``holdout``)."""
    test = np.zeros(len(encoded), dtype=bool)
    for c, word in enumerate(classes):
        (places,) = np.nonzero(encoded == c)
        test[places] = holdout([f"{word}/{place}" for place in range(len(places))])
    return test


def joined(train: tuple[Samples, list[str]], test: tuple[Samples, list[str]], name: str, where: str) -> Dataset:
    """A dataset of both parts."""
    classes, encoded = _encoded(train[1])
    if strangers := set(test[1]) - set(classes):
        row = next(place for place, word in enumerate(test[1]) if word in strangers)
        raise InputError(
            f"{where}, row {row + 1}, has the class '{printable(test[1][row], 40)}', which no training row has; leave "
            "it out."
        )
    places = {word: c for c, word in enumerate(classes)}
    truth = np.array([places[word] for word in test[1]], np.int64)
    return Dataset(name, Labelled(train[0], encoded), Labelled(test[0].like(train[0]), truth), classes)


def _dataset(
    name: str, given: Samples, y: npt.NDArray[np.int64], test: npt.NDArray[np.bool_], classes: tuple[str, ...]
) -> Dataset:
    whole = Labelled(given, y)
    return Dataset(name, whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test)), classes)


def _encoded(words: list[str]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The classes, in the order of numbers where all are, and each sample's."""
    found = set(words)
    classes = tuple(sorted(found, key=int) if all(word.isdecimal() for word in found) else sorted(found))
    places = {word: c for c, word in enumerate(classes)}
    return classes, np.array([places[word] for word in words], np.int64)


def table_of(values: npt.NDArray[Any], where: str) -> Table:
    """A table of numbers alone, [rows, columns], whose columns are called by their positions."""
    rows = np.ascontiguousarray(values, np.float32)
    if not rows.size:
        raise InputError(f"{where} is empty (shape {list(rows.shape)}); give at least one row.")
    if np.isinf(rows).any():
        row, column = np.argwhere(np.isinf(rows))[0]
        raise InputError(
            f"{where} holds an infinity in row {row + 1}, column '{column}'; NaN stands for what is missing."
        )
    return Table(rows, tuple(Column(str(place), NUMBER) for place in range(rows.shape[1])))


def sited(dataset: Dataset, partition: str) -> Dataset:
    """The dataset as a partition ``column:NAME`` needs it, with that column as the rows' sites; else as it is."""
    name, _, column = partition.partition(":")
    table = dataset.train.samples
    if name != "column":
        return dataset
    if not isinstance(table, Table):
        raise InputError(f"The partition '{partition}' needs a table, but {dataset.name} holds {table.kind}.")
    names = [each.name for each in table.columns]
    if column not in names and dataset.train.groups is not None:
        return dataset  # it has been taken out
    if column not in names:
        raise unknown("column", column, names)
    train = Labelled(table.without(column), dataset.train.y, table.column(column))
    test = dataset.test.samples
    assert isinstance(test, Table)
    return replace(dataset, train=train, test=Labelled(test.without(column), dataset.test.y))
