"""Whose word a model's name is: the one place that decides whether a name may run code.

A name with a colon (``my.py:Net``, ``package.module:Net``) is code: building the model imports and calls it. What
somebody types on a command line or passes from Python is their own word and goes to ``create`` as it is. What a file
says (the header of a model, a run's ``config.json``, a TOML or a benchmark's JSON) may be a stranger's, and comes here
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from fedol.errors import FedolError
from fedol.models.lookup import ModelSpec, address, is_code
from fedol.text import printable

SETTINGS = ("server_model", "client_models", "parameter_model")  # in which a file can name models

_BUILT: dict[str, Callable[..., nn.Module]] = {}  # by its address, what this process has built models of


def remember(spec: ModelSpec, build: Callable[..., nn.Module]) -> None:
    """Keep code that was just allowed to build a model: the files this process writes will name it."""
    name = address(spec)
    if is_code(name) and "<" not in name:  # several local classes may share one address
        _BUILT[name] = build


def trusted(name: str, where: str, trust_code: bool) -> ModelSpec:
    """The model that a model file names: one of FedOL's, or code that this process has built models of before.

    The latter is the very class of then: nothing is imported. Other code is refused, unless the caller vouches for it.
    """
    if name in _BUILT and not trust_code:
        return _BUILT[name]
    check(name, where, trust_code)
    return name


def check_settings(settings: Mapping[str, Any], where: str, trust_code: bool) -> None:
    """Refuse settings from a file that name code, unless the caller vouches for it."""
    for setting in SETTINGS:
        models = settings.get(setting, [])
        for name in models if isinstance(models, list | tuple) else str(models).split(","):
            check(str(name), where, trust_code)


def check(name: str, where: str, trust_code: bool) -> None:
    """Refuse a name from a file that is code, unless the caller vouches for it."""
    if is_code(name) and not trust_code:
        raise FedolError(
            f"{where} names the model '{printable(name, 100)}', which is code of whoever made it: if you trust them, "
            "add --trust-code (in Python: trust_code=True), or give the model yourself (in Python: model=)."
        )
