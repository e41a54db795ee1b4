"""Whether settings that people write by hand are of the kind that their fields are annotated with."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fedol.errors import InputError

# By the annotation: what is accepted, and how to say so.
KINDS: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "str": (str, "text"),
    "bool": (bool, "true or false"),
}


def check_kinds(settings: Any, what: str = "setting") -> None:
    """Refuse a value of another kind in a frozen dataclass; where a float is due, 1 becomes 1.0: one configuration."""
    for field in fields(settings):
        kind, _, otherwise = str(field.type).partition(" | ")
        value = getattr(settings, field.name)
        if kind not in KINDS or (value is None and otherwise == "None"):
            continue
        accepted, words = KINDS[kind]
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"The {what} '{field.name}' must be {words}, but is {value!r}.")
        if kind == "float":
            object.__setattr__(settings, field.name, float(value))
