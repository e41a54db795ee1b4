"""Code by its name: what somebody's class or function is called, and how it is imported from a module or a file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import operator
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from fedol.errors import InputError, cause

MODULE = "fedol_model_"  # what the names of modules begin with that were imported from a file


def describe(spec: Any) -> str:
    """A short printable name: ``resnet20``, ``MyNet``, ``package.module:function``."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, partial):
        return describe(spec.func)
    return str(getattr(spec, "__name__", type(spec).__name__))


def address(spec: Any) -> str:
    """A name that ``create`` finds the model by again, in another process too: of a class ``module:Net``."""
    if isinstance(spec, str) or not hasattr(spec, "__qualname__"):
        return describe(spec)
    module = str(spec.__module__)  # None in code that was run from text
    source = sys.modules[module].__file__ if module.startswith(MODULE) else module
    return f"{source}:{spec.__qualname__}"


def imported(spec: str, what: str = "model") -> Callable[..., Any]:
    """The callable that ``package.module:name`` or ``path/to/file.py:name`` names; ``what`` it is for errors."""
    source, _, name = spec.rpartition(":")
    try:
        module = from_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except Exception as error:  # importing runs other people's code: anything may come out of it
        raise InputError(f"The {what} '{spec}' cannot be imported: {cause(error)}.") from error
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError as error:
        raise InputError(f"The {what} '{spec}' does not exist: '{source}' has no '{name}'.") from error
    if not callable(found) or hasattr(type(found), "forward"):  # an instance of a model
        raise InputError(f"The {what} '{spec}' is a {type(found).__name__}; it must be a class or a function.")
    return found  # type: ignore[no-any-return]


def from_file(path: Path) -> ModuleType:
    """Import one file; the same content is executed once, so that all clients share one class."""
    code = path.read_bytes()
    name = f"{MODULE}{hashlib.sha256(str(path.resolve()).encode() + code).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # always so for a readable .py file
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
