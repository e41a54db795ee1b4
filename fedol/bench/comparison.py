"""A comparison in numbers: the finished cells of a benchmark by method, value of the grid and partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedol.bench.cells import FEDOL, Cell
from fedol.bench.sheets import BEST, OTHERS, Sheet, highest, mark, measure, over_seeds, spread
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.bench.summary import Result, paired
from fedol.code import is_estimator
from fedol.errors import unknown
from fedol.methods import find, title
from fedol.models import describe
from fedol.runs.evaluation import summary_statistics

Point = tuple[Any, ...]  # a value of every setting of the grid


@dataclass(frozen=True)
class Row:
    """A method, with the values of the grid that it depends on."""

    method: str
    points: tuple[Point, ...]  # of the grid, at all of which it is the same
    values: dict[str, Any]
    cells: dict[str, list[Result]]  # the finished ones of each partition, seed by seed

    @property
    def named(self) -> list[str]:
        """The method and its values, as people read them."""
        return [title(self.method), *map(word, self.values.values())]

    @property
    def judged(self) -> bool:
        """Whether it is a method: a control, such as a server on true labels, is not the best of anything."""
        return not find(self.method).control


@dataclass(frozen=True)
class Table:
    """All rows, and the one that each is compared with."""

    rows: tuple[Row, ...]
    partitions: tuple[str, ...]
    grid: tuple[str, ...]
    against: str  # a method
    settings: dict[str, Any]  # that all have

    @classmethod
    def of(cls, spec: Spec, folder: BenchFolder, against: str | None = None) -> Table:
        """What is finished of a benchmark of one round."""
        names = list(dict.fromkeys(cell.method for cell in spec.cells()))
        usual = FEDOL if FEDOL in names else names[0]
        compared = usual if against is None else find(against).same_as or against
        if compared not in names:
            raise unknown("method in this comparison", compared, names)
        shared = {name: value for name, value in spec.config.as_json().items() if name not in spec.grid}
        return cls(tuple(_rows(spec, folder)), spec.partitions, spec.grid, compared, shared)

    def entry(self, row: Row, partition: str) -> dict[str, Any] | None:
        """Mean, spread and n of a row; None where nothing is finished."""
        cells = row.cells[partition]
        return summary_statistics([cell["accuracy"] for cell in cells]) if cells else None

    def reference(self, row: Row) -> Row | None:
        """The row that another is compared with: at a point of the grid that both are at, the first such."""
        theirs = [other for other in self.rows if other.method == self.against]
        return next((other for other in theirs if set(other.points) & set(row.points)), None)

    def difference(self, row: Row, partition: str) -> dict[str, Any] | None:
        """How far a row is above its reference, seed by seed."""
        other = self.reference(row)
        return None if other is None or other is row else paired(row.cells[partition], other.cells[partition])

    def best(self, partition: str) -> set[int]:
        """The rows of the highest mean, which may be several by the tenth of a point that is printed."""
        return highest([self.entry(row, partition) if row.judged else None for row in self.rows])

    def sheets(self) -> list[Sheet]:
        """The accuracies, and the differences where there are any."""
        found = [self._accuracies()]
        differences = self._differences()
        return [*found, differences] if differences.rows else found

    def records(self) -> list[dict[str, Any]]:
        """A record for every row and partition, accuracies and differences as shares of one."""
        found = []
        for row in self.rows:
            for partition in self.partitions:
                record = {"method": row.method, **_values(self.grid, row), "partition": partition}
                for entry, what in ((self.entry(row, partition), ""), (self.difference(row, partition), "difference")):
                    known = entry or {"mean": None, "std": None, "n": 0}
                    names = (what or "accuracy", *(f"{what}_{name}".strip("_") for name in ("std", "n")))
                    values = (known["mean"], known["std"], known["n"])
                    record |= dict(zip(names, values, strict=True))
                found.append(record)
        return found

    def runs(self) -> list[dict[str, Any]]:
        """A record for every finished cell, with its difference to the reference of the same seed."""
        found = []
        for row in self.rows:
            other = self.reference(row)
            for partition in self.partitions:
                theirs = {cell["seed"]: cell["accuracy"] for cell in other.cells[partition]} if other else {}
                for cell in row.cells[partition]:
                    head = {"method": row.method, **_values(self.grid, row), "partition": partition}
                    base = None if other is row else theirs.get(cell["seed"])
                    over = None if base is None else cell["accuracy"] - base
                    found.append({**head, "seed": cell["seed"], "accuracy": cell["accuracy"], "difference": over})
        return found

    def _accuracies(self) -> Sheet:
        entries = [self.entry(row, partition) for row in self.rows for partition in self.partitions]
        count, over = over_seeds([entry for entry in entries if entry])
        rows, first = [], 1 + len(self.grid)
        for row in self.rows:
            here = [self.entry(row, partition) for partition in self.partitions]
            rows.append([*row.named, *("" if entry is None else spread(entry, count) for entry in here)])
        best = {(place, first + k) for k, partition in enumerate(self.partitions) for place in self.best(partition)}
        note = f"{measure(self.settings)} in %, {over}; {BEST}."
        return Sheet("comparison", "Accuracy", self._columns(), rows, note, self.records(), frozenset(best))

    def _differences(self) -> Sheet:
        rows, entries = [], []
        for row in self.rows:
            here = [self.difference(row, partition) for partition in self.partitions]
            if any(here):
                rows.append((row, here))
                entries += [entry for entry in here if entry]
        count, over = over_seeds(entries) if entries else (False, "")
        words = [
            [*row.named, *("" if e is None else spread(e, count, "+") + mark(e) for e in here)] for row, here in rows
        ]
        note = f"Points above {title(self.against)}, seed by seed, so on the same split of the data; {over}."
        if len([row for row in self.rows if row.method == self.against]) > 1:
            note += f" At the same {' and '.join(self.grid)}, or the first of several that a row has."
        if any(entry["other_clients"] for entry in entries):
            note += f" {OTHERS} Other clients taught it with some seed."
        return Sheet("differences", f"Above {title(self.against)}", self._columns(), words, note)

    def _columns(self) -> list[str]:
        return ["", *self.grid, *self.partitions]


def _rows(spec: Spec, folder: BenchFolder) -> list[Row]:
    """Cells that differ in seed and partition alone are a row, and so are those that the grid does not change."""
    points: dict[str, list[Point]] = {}
    by_hash: dict[str, Cell] = {}
    for cell in spec.cells():
        by_hash.setdefault(cell.hash, cell)
        points.setdefault(cell.hash, []).append(tuple(getattr(cell.config, name) for name in spec.grid))
    grouped: dict[tuple[str, tuple[Point, ...]], dict[str, list[Result]]] = {}
    for identity, cell in by_hash.items():
        key = cell.method, tuple(dict.fromkeys(points[identity]))
        partitions = grouped.setdefault(key, {partition: [] for partition in spec.partitions})
        result = folder.result(cell)
        # What has no clients, such as a server on true labels, is the same on every partition.
        for partition in [cell.config.partition] if "partition" in cell.settings else spec.partitions:
            partitions[partition] += [] if result is None else [result]
    found = []
    for (method, at), cells in grouped.items():
        # A method that is at several values of a setting does not depend on it.
        values = {name: at[0][k] if len({point[k] for point in at}) == 1 else None for k, name in enumerate(spec.grid)}
        by_seed = {name: sorted(each, key=lambda result: result["seed"]) for name, each in cells.items()}
        found.append(Row(method, at, values, by_seed))
    order = {name: place for place, name in enumerate(dict.fromkeys(cell.method for cell in spec.cells()))}
    return sorted(found, key=lambda row: order[row.method])


def _values(grid: Sequence[str], row: Row) -> dict[str, Any]:
    """Of numbers and names themselves, of anything else its name."""
    plain = (int, float, str, type(None))
    return {name: value if isinstance(value := row.values[name], plain) else word(value) for name in grid}


def word(value: Any) -> str:
    """A setting's value in a table; nothing where the method does not depend on it."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(word, value))
    if isinstance(value, float):
        return f"{value:g}"
    return describe(value) if callable(value) or is_estimator(value) else str(value)
