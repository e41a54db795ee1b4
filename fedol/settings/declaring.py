"""How a setting is declared: a field of a frozen dataclass, with its help, its panel and the kind of its values."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, Protocol, TypeVar

from fedol.code import address, is_estimator
from fedol.errors import InputError, brief

DATA, MODELS, METHOD, TRAINING = "Data", "Models", "Method", "Training"  # the panels of a command's help
MODEL, OPTIMISER, SCHEDULE = "model", "optimiser", "schedule"  # what may be code

CALLABLE = "Callable[..., Any]"


class Estimator(Protocol):
    """A classifier as scikit-learn has them."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn."""

    def predict_proba(self, X: Any) -> Any:
        """Probabilities [N, classes]."""


ModelName = str | Callable[..., Any] | Estimator
"""A name or, from Python, your own class or function, or an estimator."""
# By the annotation: what is accepted, and how to say so.
KINDS: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "str": (str, "text"),
    "bool": (bool, "true or false"),
}


def setting(default: Any, help: str, panel: str, code: str = "") -> Any:
    """A field of a settings record: its default, what it is, and where it stands in a command's help.

    ``code`` is what it may name that is your own code: a model, an optimiser, a schedule.
    """
    return field(default=default, metadata={"help": help, "panel": panel, "code": code})


def own(record: type, name: str, default: Any, help: str = "") -> Any:
    """A field of another record, with a default of its own, and help of its own where it means less here."""
    (found,) = (item for item in fields(record) if item.name == name)
    return field(default=default, metadata={**found.metadata, **({"help": help} if help else {})})


Function = TypeVar("Function", bound=Callable[..., Any])


def spelled_out(*records: type, but: Collection[str] = ()) -> Callable[[Function], Function]:
    """Show the settings of records, which a function takes as ``**settings``, in its signature and its help."""
    known = [item for record in records for item in fields(record) if "help" in item.metadata and item.name not in but]

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        settings = [
            inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type)
            for item in known
        ]
        function.__signature__ = signature.replace(parameters=[*own, *settings])  # type: ignore[attr-defined]
        words = (f"        {item.name}: {item.metadata['help']}" for item in known)
        function.__doc__ = "\n".join([f"{function.__doc__}\n    Settings:\n", *words])
        return function

    return decorate


class Settings:
    """What a run is frozen with; every such dataclass is one of these."""

    server_model: ModelName

    def __post_init__(self) -> None:
        """Refuse values of another kind than their fields'."""
        check_kinds(self)

    def as_json(self) -> dict[str, Any]:
        """Plain values; your own class becomes its name."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}  # type: ignore[arg-type]

    def changes(self, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What differs from an older one's plain values, as (then, now); a setting it did not have yet was off."""
        known = fields(self)  # type: ignore[arg-type]
        off = {item.name: _plain(item.default) for item in known if item.default is not MISSING}
        now, then = self.as_json(), {**off, **before}
        return {name: (then.get(name), now.get(name)) for name in {**now, **before} if then.get(name) != now.get(name)}

    @property
    def hash(self) -> str:
        """Names the configuration: any changed setting changes it."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return address(value) if callable(value) or is_estimator(value) else value


def code_of(record: Any) -> dict[str, str]:
    """The settings of a record that may name code, and what that is."""
    return {item.name: item.metadata["code"] for item in fields(record) if item.metadata.get("code")}


def check_kinds(settings: Any, what: str = "setting") -> None:
    """Refuse a value of another kind in a frozen dataclass; where a float is due, 1 becomes 1.0: one configuration."""
    for item in fields(settings):
        kind, *others = str(item.type).split(" | ")
        value = getattr(settings, item.name)
        if kind not in KINDS or (value is None and "None" in others) or (callable(value) and CALLABLE in others):
            continue
        accepted, words = KINDS[kind]
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"The {what} '{item.name}' must be {words}, but is {brief(value)}.")
        if kind == "float":
            object.__setattr__(settings, item.name, float(value))
