"""From a model spec (a name, ``module:callable``, ``file.py:callable``, a callable) to what builds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from torch import nn

from fedol import codeprint
from fedol.code import address, describe, imported
from fedol.errors import InputError, unknown
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
