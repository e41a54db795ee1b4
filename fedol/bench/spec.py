"""What a benchmark asks for, as plain JSON, and the cells that it consists of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from fedol.bench import paper
from fedol.bench.cells import FEDOL, FEEDBACK_EPOCHS, FEEDBACKS, SERVER, Cell, identified
from fedol.bench.grid import checked, points
from fedol.config import RunConfig, configure
from fedol.data import Dataset
from fedol.data.partitions import canonical
from fedol.errors import InputError, brief, unknown
from fedol.methods import METHODS, compared, find
from fedol.models.registry import check_settings
from fedol.settings import Dealing

T = TypeVar("T")

KINDS = ("one-round", "rounds")
PARTITIONS = ("dirichlet:1", "dirichlet:0.05", "classes:30", "classes:20")  # the paper's, of a hundred classes
DATA = ("dataset", "data_dir", "public", "clients", "development", "partition", "seed", "device")  # all variants share
ROUNDS_ONLY = ("rounds", "feedback_epochs", "feedback")
INSTEAD = {"partition": "partitions", "method": "methods", "seed": "seeds"}
MOST_SEEDS = 1000  # a larger number is a seed, not how many
JSON = {dict: "a JSON object", list: "a list", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True)
class Spec:
    """One benchmark: methods × partitions × seeds under one configuration, or under the variants of an ablation."""

    kind: str
    variants: tuple[tuple[RunConfig, tuple[str, ...]], ...]  # settings and the methods under them; mostly one
    partitions: tuple[str, ...] = PARTITIONS
    seeds: tuple[int, ...] = (0,)
    rounds: int = 15
    feedback_epochs: int = FEEDBACK_EPOCHS
    feedback: str = SERVER
    equal_compute: bool = False  # one-pass methods train as many server epochs as FedOL in all its iterations
    grid: tuple[str, ...] = ()  # the settings of which the variants are every combination of some values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Spec:
        """Read ``{"kind", "preset", "settings", "partitions", "methods", "seeds", ...}``; all but the kind optional.

        ``variants``, a list of ``{"settings", "methods"}``, are computed side by side, each with its changes; ``grid``
        maps settings to lists of values, and every combination of them is a variant.
        """
        values = dict(values)
        kind = values.pop("kind", None)
        if kind not in KINDS:
            raise unknown("benchmark", str(kind), KINDS)
        preset, settings = values.pop("preset", "paper"), _of(dict, values.pop("settings", {}), "settings")
        known = ("variants", "grid", "partitions", "methods", "seeds", *ROUNDS_ONLY, "equal_compute")
        for name in values:
            if name not in known:
                raise unknown("entry of a benchmark", name, ("kind", "preset", "settings", *known))
            if kind != "rounds" and name in ROUNDS_ONLY:
                raise InputError(f"'{name}' belongs to a benchmark of the kind 'rounds', and this one is '{kind}'.")
        equal = _of(bool, values.get("equal_compute", False), "equal_compute")
        _refuse_instead(settings)
        base = configure(preset, overrides=settings)
        usual = PARTITIONS if base.dataset == paper.DATASET else (base.partition,)
        grid = checked(values.get("grid", {}), INSTEAD)
        variants = []
        for variant in _of(list, values.get("variants", [{}]), "variants"):
            changes, methods = _variant(variant, values.get("methods", "all"))
            for point in points(grid):
                config = configure(preset, overrides={**settings, **changes, **point})
                variants.append((config, tuple(_methods(kind, methods, equal))))
        spec = cls(
            kind,
            tuple(variants),
            partitions=tuple(dict.fromkeys(map(canonical, _listed(values.get("partitions", usual))))),
            seeds=tuple(_seeds(values.get("seeds", 1))),
            rounds=_of(int, values.get("rounds", 15), "rounds"),
            feedback_epochs=_of(int, values.get("feedback_epochs", FEEDBACK_EPOCHS), "feedback_epochs"),
            feedback=str(values.get("feedback", SERVER)),
            equal_compute=equal,
            grid=tuple(grid),
        )
        if not (spec.partitions and spec.seeds and spec.cells()):
            raise InputError("There is nothing to compute: a benchmark needs at least one partition, method and seed.")
        if grid:
            spec._refuse_idle(grid)
        else:
            spec._refuse_repetition()
        if kind == "rounds" and spec.rounds < 2:
            raise InputError(f"rounds must be at least 2, but is {spec.rounds}; one round is `fedol bench one-round`.")
        if spec.feedback_epochs < 1:
            raise InputError(f"feedback_epochs must be at least 1, but is {spec.feedback_epochs}.")
        if spec.feedback not in FEEDBACKS:
            raise unknown("feedback", spec.feedback, FEEDBACKS)
        return spec

    @property
    def config(self) -> RunConfig:
        """What the first variant, and the data of all, are made of."""
        return self.variants[0][0]

    def on(self, dataset: Dataset) -> Spec:
        """The same benchmark, now that its data are loaded."""
        return replace(self, variants=tuple((identified(config, dataset), names) for config, names in self.variants))

    def cells(self) -> list[Cell]:
        """All cells, one seed after the other, so that the whole table exists once before it is repeated."""
        return [
            self._cell(method, replace(config, partition=partition, seed=seed))
            for seed in self.seeds
            for partition in self.partitions
            for config, methods in self.variants
            for method in methods
        ]

    def groups(self) -> list[list[Cell]]:
        """The cells that share data and clients."""
        grouped: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in self.cells():
            grouped.setdefault(tuple(getattr(cell.config, field.name) for field in fields(Dealing)), []).append(cell)
        return list(grouped.values())

    def dealings(self) -> list[RunConfig]:
        """A configuration for each way in which the variants deal the data: one, unless the grid has several."""
        found: dict[tuple[Any, ...], RunConfig] = {}
        for config, _ in self.variants:
            found.setdefault(tuple(getattr(config, field.name) for field in fields(Dealing)), config)
        return list(found.values())

    def _refuse_repetition(self) -> None:
        """A variant that changes nothing is a mistake in the file: its row would be missing in the table."""
        asked: set[str] = set()
        for number, (config, methods) in enumerate(self.variants, 1):
            new = {self._cell(method, config).hash for method in methods} - asked
            if not new:
                raise InputError(f"Variant {number} changes nothing: its results are those of the variants before it.")
            asked |= new

    def _refuse_idle(self, grid: Mapping[str, Sequence[Any]]) -> None:
        """Of a setting that no method heeds, all values would be one row."""
        for name, values in grid.items():
            hashes = {
                frozenset(
                    self._cell(method, replace(config, **{name: value})).hash
                    for config, methods in self.variants
                    for method in methods
                )
                for value in values
            }
            if len(hashes) == 1 < len(values):
                raise InputError(f"None of these methods depends on {name}; give it one value.")

    def _cell(self, method: str, config: RunConfig) -> Cell:
        if self.equal_compute and find(method).targets and not find(method).iterates:
            config = replace(config, server_epochs=config.distillation.recipe.epochs * config.iterations)
        several = self.kind == "rounds" and not find(method).iterates
        return Cell.of(method, config, self.rounds if several else 1, self.feedback_epochs, self.feedback)


def read_values(path: Path, trust_code: bool = False, **settings: Any) -> dict[str, Any]:
    """A benchmark's file, as ``Spec.from_json`` reads it; ``settings`` that are not None replace its own.

    It may name models that are code (``my.py:Net``) only with ``trust_code``.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise InputError(f"The benchmark {path} cannot be read: {error}.") from None
    if not isinstance(values, dict) or not isinstance(values.get("settings", {}), dict):
        raise InputError(f'The benchmark {path} must be like {{"kind": "one-round", "settings": {{"width": 16}}}}.')
    variants = values.get("variants", [])
    for part in (values, *(variants if isinstance(variants, list) else ())):
        for settings_of in (part.get("settings"), part.get("grid")) if isinstance(part, dict) else ():
            if isinstance(settings_of, dict):
                check_settings(settings_of, str(path), trust_code)
    given = {name: value for name, value in settings.items() if value is not None}
    return {**values, "settings": {**values.get("settings", {}), **given}}


def read_spec(path: Path, trust_code: bool = False, **settings: Any) -> Spec:
    """The benchmark of a file."""
    return Spec.from_json(read_values(path, trust_code, **settings))


def usual_preset(settings: Mapping[str, Any]) -> str:
    """The preset of a benchmark that names none: the paper's on its data, which are not small.

    Where no data are named but a folder for them is, they are the paper's: the digits need none.
    """
    named = settings.get("dataset", paper.DATASET if settings.get("data_dir") else RunConfig.dataset)
    return "paper" if named == paper.DATASET else "quick"


def _methods(kind: str, wanted: Any, equal: bool) -> list[str]:
    """Method names, each once; ``all`` are those of the benchmark. FedOL stands beside the rounds as one round."""
    every = [*compared("rounds"), FEDOL] if kind == "rounds" else compared("equal-compute" if equal else "one-round")
    listed = [method for name in _listed(wanted) for method in (every if name == "all" else [name])]
    anywhere = set(METHODS)
    known = {name for name in METHODS if kind != "rounds" or find(name).repeats}
    for name in listed:
        if name in anywhere - known:
            raise InputError(f"The method '{name}' has one round only; it belongs to `fedol bench one-round`.")
        if name not in known:
            raise unknown("method", name, known)
    return list(dict.fromkeys(find(name).same_as or name for name in listed))


def _of(kind: type[T], value: Any, what: str) -> T:
    """A value of the file, if it is of this kind."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"In a benchmark, {what} must be {JSON[kind]}, but is {brief(value)}.")
    return value


def _refuse_instead(settings: dict[str, Any]) -> None:
    for name, instead in INSTEAD.items():
        if name in settings:
            raise InputError(f"A benchmark has '{instead}' beside its settings, instead of '{name}' among them.")


def _variant(values: Any, methods: Any) -> tuple[dict[str, Any], Any]:
    """Its settings and its methods, which are those of the benchmark unless it has its own."""
    for name in _of(dict, values, "a variant"):
        if name not in ("settings", "methods"):
            raise unknown("entry of a variant", name, ("settings", "methods"))
    settings = _of(dict, values.get("settings", {}), "the settings of a variant")
    for name in settings:
        if name in DATA:
            raise InputError(f"Variants are compared on the same data, so '{name}' cannot differ between them.")
    _refuse_instead(settings)
    return settings, values.get("methods", methods)


def _seeds(wanted: Any) -> list[int]:
    """``3`` is the first three seeds; ``1,2``, ``0-4`` or a list are these."""
    several = _listed(wanted) if isinstance(wanted, str) and re.search("[,-]", wanted) else wanted
    try:
        if isinstance(several, list | tuple | range):
            return list(dict.fromkeys(seed for part in several for seed in _span(part)))
        count = _whole(several)
    except ValueError:
        raise InputError(
            f"seeds must be a number from 0, or such numbers with commas, or 0-4, not {brief(wanted)}."
        ) from None
    if count > MOST_SEEDS:
        raise InputError(f"{count} would be as many seeds; to name this one, write '{count},'.")
    return list(range(count))


def _span(part: Any) -> Iterable[int]:
    """One seed, or with a dash all from the first to the last."""
    ends = re.fullmatch(r"\s*([0-9]{1,9})\s*-\s*([0-9]{1,9})\s*", part) if isinstance(part, str) else None
    if ends is None:
        return [_whole(part)]
    first, last = map(int, ends.groups())
    if not first <= last < first + MOST_SEEDS:
        raise ValueError(part)
    return range(first, last + 1)


def _whole(value: Any) -> int:
    """A whole number from 0, also as text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(value)
    if (number := int(value)) < 0:
        raise ValueError(value)
    return number


def _listed(wanted: Any) -> list[str]:
    """Names with commas or as a list; what is named twice is computed once."""
    if isinstance(wanted, str):
        wanted = [part.strip() for part in wanted.split(",") if part.strip()]
    elif not (isinstance(wanted, list | tuple) and all(isinstance(name, str) for name in wanted)):
        raise InputError(f"Methods and partitions are names with commas between them, or a list, not {brief(wanted)}.")
    return list(dict.fromkeys(wanted))
