"""Rows as samples: which columns are features, texts and labels, in a file, a frame, or an array of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.columns import CATEGORY, NUMBER, Column, Reader
from fedol.data.dataset import Dataset, Labelled, holdout
from fedol.data.findings import strata
from fedol.data.labels import Labels, Names, named, plain
from fedol.data.labels import Reader as LabelReader
from fedol.data.own import load_test as load_test_arrays
from fedol.data.rows import TEXT, Rows, frame_rows, holds_rows, is_frame, read_rows
from fedol.data.samples import Samples
from fedol.data.tables import Table
from fedol.data.texts import Texts
from fedol.errors import InputError, unknown
from fedol.progress import watched
from fedol.settings import Columns
from fedol.text import is_text, printable

KINDS = {NUMBER, CATEGORY}
USUAL = ("label", "class", "target", "y")  # in any case: what a column of labels may be called without a word


@dataclass(frozen=True)
class Reading:
    """How files become samples: what the columns of rows mean, of which those that nobody names are features."""

    label: Names = ()  # of several columns each marks a finding
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
        label = () if settings.label is None else (settings.label,)
        return cls(label, text, categories, missing, settings.test, settings.image_size)

    @classmethod
    def said_by(cls, known: Any) -> Reading:
        """As samples, or what a preprocessing was fitted to, have been read."""
        columns = {column.name: column.kind for column in getattr(known, "columns", ())}
        text, missing, label = (tuple(getattr(known, name, ())) for name in ("text", "missing", "label"))
        return cls(label, text, missing=missing, image_size=getattr(known, "image_size", None), columns=columns)

    def under(self, known: Any) -> Reading:
        """The same for samples that must be like ``known`` ones, or like those of another reading."""
        said = known if isinstance(known, Reading) else Reading.said_by(known)
        return replace(
            self,
            label=self.label or said.label,
            columns=said.columns or self.columns,
            text=said.text or self.text,
            missing=tuple(dict.fromkeys((*self.missing, *said.missing))),
            image_size=said.image_size or self.image_size,
        )

    def as_json(self) -> dict[str, Any]:
        """What rows that others have must be read by; nothing where there are none."""
        told = {"label": plain(self.label), "columns": dict(self.columns), "text": self.text, "missing": self.missing}
        return {name: value for name, value in told.items() if value}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Reading:
        """What ``as_json`` gave, or an error that says what makes no sense: it may be a stranger's."""
        label, columns = named(told.get("label")), dict(told.get("columns", {}))
        text, missing = tuple(told.get("text", ())), tuple(told.get("missing", ()))
        words = (*label, *columns, *text, *missing)
        if not all(isinstance(word, str) and is_text(word) for word in words) or set(columns.values()) - KINDS:
            raise InputError("what its columns mean makes no sense")
        return cls(label, text, missing=missing, columns=columns)


def _listed(words: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (words or "").split(",") if word.strip())


def load_rows(path: Path, reading: Reading = Reading()) -> Dataset:
    """A dataset from a file with a row per sample, one column of which is the label, or several are its findings."""
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
        found, labels = labelled(rows, reading)
    part = Labelled(found, labels.y)
    return Dataset(path.name, part, part, labels.classes, labels.findings)


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
    """Samples alone; columns of labels are passed over, and need not be full."""
    label = _label(rows.names, reading.label)
    return _read(rows, reading, label, look=False)[0]


def labelled(rows: Rows, reading: Reading) -> tuple[Samples, Labels]:
    """Samples and the class of each, or its findings."""
    label = _label(rows.names, reading.label)
    if not label:
        held = printable(", ".join(rows.names), 120)
        if len(rows.names) == 1:
            raise InputError(f"{rows.where} has one column, {held}: cells are cut at commas, semicolons, bars or tabs.")
        raise InputError(f"{rows.where} has the columns {held}; say which one has the labels: --label COLUMN.")
    return _read(rows, reading, label)


def _label(names: tuple[str, ...], wanted: Names) -> Names:
    """The columns of labels among all; as one word, several have commas between."""
    if len(wanted) == 1 and wanted[0] not in names and "," in wanted[0]:
        wanted = _listed(wanted[0])
    if wanted:
        return tuple(_known(names, name) for name in wanted)
    usual = tuple(name for name in names if name.lower() in USUAL)
    return usual if len(usual) == 1 else ()


def _known(names: tuple[str, ...], wanted: str) -> str:
    if wanted not in names:
        raise unknown("column", wanted, names)
    return wanted


def _read(rows: Rows, reading: Reading, label: Names, look: bool = True) -> tuple[Samples, Labels]:
    """The samples, and where one may ``look`` their labels."""
    names = list(reading.text or reading.columns or [name for name in rows.names if name not in label])
    if lost := [name for name in names if name not in rows.names]:
        held = printable(", ".join(rows.names), 120)
        raise InputError(f"{rows.where} has no column '{printable(lost[0], 40)}'; it has {held}.")
    if not names:
        raise InputError(f"{rows.where} has no column beside the labels; give a file with features.")
    labels = LabelReader(label if look else (), rows.where)
    if reading.text or rows.names == (TEXT,):
        return _read_texts(rows, names, label, labels), labels.done()
    declared = {_known(rows.names, name): CATEGORY for name in reading.categories} | dict(reading.columns)
    missing = reading.missing
    readers = {name: Reader(name, declared.get(name), missing, rows.where) for name in names}
    places = {name: place for place, name in enumerate(rows.names)}
    for block in watched(rows.blocks, "reading rows"):
        labels.add([block[places[name]] for name in label])
        for name, reader in readers.items():
            reader.add(block[places[name]])
    columns, values = zip(*(reader.done() for reader in readers.values()), strict=True)
    if not len(values[0]):
        raise InputError(f"{rows.where} has no rows; give a file with a row per sample.")
    return Table(np.stack(values, 1), columns, missing, label), labels.done()


def _read_texts(rows: Rows, names: list[str], label: Names, labels: LabelReader) -> Samples:
    """The strings of some columns, with a space between."""
    texts = list[str]()
    for block in watched(rows.blocks, "reading rows"):
        columns = [block[rows.names.index(name)] for name in names]
        texts += [" ".join(str(cell) for cell in cells if cell is not None) for cells in zip(*columns, strict=True)]
        labels.add([block[rows.names.index(name)] for name in label])
    if not texts:
        raise InputError(f"{rows.where} has no rows; give a file with a row per sample.")
    return Texts.of(texts, rows.where, () if rows.names == (TEXT,) else tuple(names), label)


def split_off(given: Samples, labels: Labels, name: str) -> Dataset:
    """A dataset whose test set is a fixed fifth of each class, by the number and order of its samples alone.

    Of samples with findings it is a fifth of those whose rarest is the same.
    """
    whole, test = Labelled(given, labels.y), held_out(labels)
    train, held = whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test))
    return Dataset(name, train, held, labels.classes, labels.findings)


def held_out(labels: Labels) -> npt.NDArray[np.bool_]:
    """A fifth of each class (see ``holdout``)."""
    kinds, count = strata(labels.y)
    test = np.zeros(len(kinds), dtype=bool)
    for c, word in enumerate((*labels.findings, "none") if labels.findings else labels.classes[:count]):
        (places,) = np.nonzero(kinds == c)
        test[places] = holdout([f"{word}/{place}" for place in range(len(places))])
    return test


def joined(train: tuple[Samples, Labels], test: tuple[Samples, Labels], name: str, where: str) -> Dataset:
    """A dataset of both parts."""
    labels, truth = train[1], test[1]
    if strangers := [c for c, word in enumerate(truth.classes) if word not in labels.classes]:
        row = int(np.isin(truth.y, strangers).argmax())
        raise InputError(
            f"{where}, row {row + 1}, has the class '{printable(truth.classes[truth.y[row]], 40)}', which no training "
            "row has; leave it out."
        )
    index = np.array([labels.classes.index(word) for word in truth.classes], np.int64)
    parts = Labelled(train[0], labels.y), Labelled(test[0].like(train[0]), index[truth.y])
    return Dataset(name, *parts, labels.classes, labels.findings)


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
