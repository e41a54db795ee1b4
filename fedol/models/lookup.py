"""From a model spec (a name, ``module:callable``, ``file.py:callable``, a callable) to what builds it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import operator
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from fedol import codeprint
from fedol.errors import InputError, cause, unknown
from fedol.models.resnet import bottleneck_resnet, wide_resnet22
from fedol.models.small import cnn, cnn_large, mlp

ModelSpec = str | type[nn.Module] | Callable[..., nn.Module]
"""What ``create`` accepts as a model."""

FIXED: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "cnn-large": cnn_large,
    "resnet22-wide": wide_resnet22,
}
MODULE = "fedol_model_"  # what the names of modules begin with that were imported from a file
RESNET = re.compile(r"resnet([1-9][0-9]{0,3})")
PRIVATE = "fedol.privacy.converted"  # as whose members the built-in models go by that were trained privately


def names() -> list[str]:
    """The built-in names; ``resnet11`` to ``resnet56`` stand for every depth ``9n + 2``."""
    return [*FIXED, *(f"resnet{9 * blocks + 2}" for blocks in range(1, 7))]


def is_builtin(name: str) -> bool:
    """Whether one of FedOL's own models has this name."""
    return name in FIXED or RESNET.fullmatch(name) is not None


def is_code(name: str) -> bool:
    """Whether building the model of this name would import and call code that is not FedOL's."""
    source, colon, member = name.rpartition(":")
    return bool(colon) and not (source == PRIVATE and is_builtin(member))


def describe(spec: ModelSpec) -> str:
    """A short printable name: ``resnet20``, ``MyNet``, ``package.module:function``."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, partial):
        return describe(spec.func)
    return str(getattr(spec, "__name__", type(spec).__name__))


def address(spec: ModelSpec) -> str:
    """A name that ``create`` finds the model by again, in another process too: of a class ``module:Net``."""
    if isinstance(spec, str) or not hasattr(spec, "__qualname__"):
        return describe(spec)
    module = str(spec.__module__)  # None in code that was run from text
    source = sys.modules[module].__file__ if module.startswith(MODULE) else module
    return f"{source}:{spec.__qualname__}"


def identity(spec: ModelSpec) -> str:
    """The address; of a model of yours, which may change, with the fingerprint of its code."""
    code = fingerprint(spec)
    return address(spec) if code is None else f"{address(spec)}@{code}"


def fingerprint(spec: ModelSpec) -> str | None:
    """Of the code of a model of yours; None of FedOL's own."""
    return None if isinstance(spec, str) and ":" not in spec else codeprint.fingerprint(find(spec))


def find(spec: ModelSpec) -> Callable[..., nn.Module]:
    """The callable that builds a model."""
    if isinstance(spec, nn.Module):
        raise InputError(
            f"The model {describe(spec)} is an instance; hand over its class or a function that makes it, "
            "because every client needs weights of its own."
        )
    if callable(spec):
        return spec
    if not isinstance(spec, str):
        raise InputError(f"A model is a name, 'module:callable' or a callable, not {spec!r}.")
    if ":" in spec:
        return imported(spec)
    if spec in FIXED:
        return FIXED[spec]
    match = RESNET.fullmatch(spec)
    if match is None:
        raise unknown("model", spec, names())
    depth = int(match[1])
    blocks = max(1, round((depth - 2) / 9))
    if depth != 9 * blocks + 2:
        raise InputError(
            f"There is no model '{spec}'; a bottleneck ResNet has 9n + 2 layers (resnet11, resnet20, resnet29, ...), "
            f"the nearest is 'resnet{9 * blocks + 2}'."
        )
    return partial(bottleneck_resnet, blocks)


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
    if not callable(found) or isinstance(found, nn.Module):
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
