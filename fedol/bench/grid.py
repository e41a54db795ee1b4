"""Settings with several values: from Python's lists, the command line and files to every combination of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from itertools import product
from typing import Any

from fedol.errors import InputError, brief, unknown
from fedol.settings import RunSettings

COMMAS = ("client_models", "defence")  # a value of which may have commas
ONE = ("dataset", "data_dir", "device")  # which a benchmark has once


def as_grid(name: str, value: Any) -> list[Any] | None:
    """The values of a setting that has several; a list of models is one value, the models dealt in turn."""
    if not isinstance(value, list | tuple | range):
        return None
    if name == "client_models" and not any(isinstance(each, list | tuple) for each in value):
        return None
    return list(value)


def parsed(words: Iterable[str]) -> dict[str, list[Any]]:
    """The grid of ``tau=0.1,0.5`` and ``width=8,16``; of settings whose values have commas, each is one value."""
    found: dict[str, list[Any]] = {}
    known = {item.name: item for item in fields(RunSettings)}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise InputError(f"A grid is a setting and its values, as in --set tau=0.1,0.5, not {brief(word)}.")
        if name not in known:
            raise unknown("setting", name, known)
        parts = [text] if name in COMMAS else text.split(",")
        found.setdefault(name, []).extend(_read(known[name], part.strip()) for part in parts)
    return found


def _read(item: Field[Any], text: str) -> Any:
    """A setting's value as its kind; text that is no such value stays text, which whoever checks settings refuses."""
    kind, *others = str(item.type).split(" | ")
    if text == "none" and "None" in others:
        return None
    if kind == "bool":
        return {"yes": True, "true": True, "no": False, "false": False}.get(text, text)
    try:
        return {"int": int, "float": float}.get(kind, str)(text)
    except ValueError:
        return text


def checked(values: Any, instead: Mapping[str, str]) -> dict[str, list[Any]]:
    """The grid of a file: settings and their values, each once. What ``instead`` names has a place of its own there."""
    if not isinstance(values, dict):
        raise InputError(f"In a benchmark, grid must be a JSON object, but is {brief(values)}.")
    found = {}
    for name, several in values.items():
        if name in instead:
            raise InputError(f"A benchmark has '{instead[name]}' beside its settings, instead of a grid of '{name}'.")
        if name in ONE:
            raise InputError(f"A benchmark has one '{name}'; give it one value.")
        if not isinstance(several, list) or not several:
            raise InputError(f"In a benchmark, the values of '{name}' must be a list of one or more.")
        distinct: list[Any] = []
        for value in several:
            if not any(_same(value, other) for other in distinct):
                distinct.append(value)
        found[name] = distinct
    return found


def _same(value: Any, other: Any) -> bool:
    """Whether two values are equal; what is not plain, such as an array, may have no such answer."""
    plain = str, int, float, list, tuple
    return value is other or (isinstance(value, plain) and isinstance(other, plain) and value == other)


def points(grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination of the values."""
    return (dict(zip(grid, values, strict=True)) for values in product(*grid.values()))
