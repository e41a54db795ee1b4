"""Built-in models without batch norm, which mixes the examples of a batch and so cannot be private.

``fedol.privacy.converted:resnet20`` is resnet20 as Opacus converts it: group norm in place of every batch norm. A model
file names it that way, so that it can be built again when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedol.errors import FedolError, InputError
from fedol.models import ModelSpec, create
from fedol.models.registry import PRIVATE, is_builtin


def spec_for(model: ModelSpec) -> ModelSpec:
    """What to train in place of ``model``: a built-in one converted, one of the user's own as it is."""
    return f"{PRIVATE}:{model}" if isinstance(model, str) and is_builtin(model) else model


def check(module: nn.Module) -> None:
    """Refuse what cannot be trained privately, with the reason."""
    errors = _validator().validate(module, strict=False)
    if errors:
        reason = str(errors[0]).split(". ")[0].rstrip(".")  # Opacus explains at length
        if any(isinstance(part, _BatchNorm) and list(part.parameters()) for part in module.modules()):
            reason = "BatchNorm mixes the examples of a batch; use nn.GroupNorm in its place"
        raise InputError(f"This model cannot be trained privately: {reason}.")


def _build(name: str, *, classes: int, shape: tuple[int, int, int], width: int) -> nn.Module:
    fixed: nn.Module = _validator().fix(create(name, classes=classes, shape=shape, width=width))
    return fixed


def __getattr__(name: str) -> Callable[..., nn.Module]:
    if is_builtin(name):
        return partial(_build, name)
    raise AttributeError(name)


def _validator() -> Any:
    try:
        from opacus.validators import ModuleValidator
    except ImportError:
        raise FedolError("Private training needs Opacus: pip install 'fedol[privacy]'.") from None
    return ModuleValidator
