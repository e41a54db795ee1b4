"""Build a model from a spec: the same seed gives the same weights, and nothing else in the process notices."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import torch
from torch import nn

from fedol.code import describe
from fedol.errors import InputError, cause, measures
from fedol.models.registry import ModelSpec, find, is_builtin
from fedol.models.trust import remember

MOST_VALUES = 1 << 24  # of one sample: 4,096 x 4,096 in grey. A shape in a file could claim any number


def create(spec: ModelSpec, *, classes: int, shape: tuple[int, ...], width: int = 16, seed: int = 0) -> nn.Module:
    """A model for samples of ``shape``, of images (channels, height, width), in training mode on the CPU.

    ``spec`` is a built-in name (see ``names``), ``package.module:callable``, ``path/to/file.py:callable``, or a
    class or function. A callable is handed those of ``classes``, ``channels``, ``size`` (height, width; of samples with
    channels alone, nothing), ``shape`` and ``width`` which its signature accepts. The model must map samples
    [B, *shape] to logits [B, classes].
    """
    if classes < 1 or width < 1:
        raise InputError(f"A model needs at least one class and a positive width, not {classes=} and {width=}.")
    if not shape or min(shape) < 1:
        raise InputError(f"A model's shape holds one or more positive numbers, not {tuple(shape)}.")
    if len(shape) != 3 and isinstance(spec, str) and is_builtin(spec):
        raise InputError(f"The model '{spec}' takes images of (channels, height, width), not {tuple(shape)}.")
    if math.prod(shape) > MOST_VALUES:
        raise InputError(f"Samples of {measures(shape)} are too large for a model here; make them smaller.")
    build, name = find(spec), describe(spec)
    remember(spec, build)
    channels, *size = shape
    offer = {"classes": classes, "channels": channels, "size": tuple(size), "shape": tuple(shape), "width": width}
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which draws the same weights but also reseeds every GPU's global generator.
        torch.default_generator.manual_seed(seed)
        try:
            module = build(**_accepted(build, offer))
        except InputError:
            raise
        except Exception as error:  # other people's code
            raise InputError(
                f"The model '{name}' cannot be created from {', '.join(offer)}: {cause(error)}."
            ) from error
        if not isinstance(module, nn.Module):
            raise InputError(f"The model '{name}' must create a torch.nn.Module, not a {type(module).__name__}.")
        _probe(module, name, shape, classes)
    if not parameter_count(module):  # lazy layers have some only since the probe
        raise InputError(f"The model '{name}' has no trainable parameters, so it cannot learn; add or unfreeze some.")
    return module


def parameter_count(module: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _accepted(build: Callable[..., nn.Module], offer: dict[str, object]) -> dict[str, object]:
    """Those keywords of the offer which the callable's signature takes."""
    parameters = inspect.signature(build).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return offer
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return {key: value for key, value in offer.items() if key in by_name}


@torch.no_grad()
def _probe(module: nn.Module, name: str, shape: tuple[int, ...], classes: int) -> None:
    """Two blank samples must give two rows of logits; in eval mode, so that no running statistic moves."""
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    if device.type == "meta":  # where nothing is computed
        return
    blank = torch.zeros(2, *shape, dtype=torch.float32, device=device)
    module.eval()
    try:
        logits = module(blank)
    except Exception as error:  # other people's code
        raise InputError(
            f"The model '{name}' fails on samples of shape {list(blank.shape)}: {cause(error)}."
        ) from error
    module.train()
    got = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if got != [2, classes]:
        raise InputError(
            f"The model '{name}' maps samples of shape {list(blank.shape)} to {got}; it must give {[2, classes]}."
        )
