"""Learning rates: a table of one rate per step, whatever makes it, so that a CUDA graph can read it too."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch

from fedol.code import describe, imported
from fedol.errors import InputError, cause, unknown

BUILT_IN = ("constant", "cosine", "one-cycle")
WARM_UP = 0.2  # the share of a one-cycle training in which the learning rate rises
LENGTHS = ("total_steps", "total_iters", "T_max")  # what PyTorch's schedulers call the number of steps


def check_schedule(schedule: str | Callable[..., Any]) -> None:
    """Refuse what names no schedule."""
    if callable(schedule) or schedule in BUILT_IN or ":" in schedule:
        return
    if not isinstance(getattr(torch.optim.lr_scheduler, schedule, None), type):
        raise unknown("schedule", schedule, BUILT_IN)


def rate(schedule: str, lr: float, progress: float) -> float:
    """The learning rate of a built-in schedule when this share of the training is done."""
    if schedule == "constant":
        return lr
    if schedule == "one-cycle":
        if progress < WARM_UP:
            return lr * progress / WARM_UP
        progress = (progress - WARM_UP) / (1 - WARM_UP)
    return lr * (1 + math.cos(math.pi * progress)) / 2


def rates(schedule: str | Callable[..., Any], lr: float, steps: int) -> list[float]:
    """The learning rate of every step of a training.

    A scheduler of PyTorch's, or your own, is made for an optimiser with one weight and stepped once per batch. What its
    signature calls the number of steps (``total_steps``, ``total_iters``, ``T_max``) it is told; the rest is its own
    defaults', or a ``functools.partial``'s.
    """
    if schedule in BUILT_IN:
        assert isinstance(schedule, str)
        return [rate(schedule, lr, step / steps) for step in range(steps)]
    make = _found(schedule)
    inner = torch.optim.SGD([torch.zeros(1)], lr=lr, momentum=0.9)
    known = inspect.signature(make).parameters
    due = {**dict.fromkeys(LENGTHS, steps), "max_lr": lr}
    given = {name: value for name, value in due.items() if name in known and not _settled(known[name])}
    try:
        scheduler = make(inner, **given)
        found = []
        for _ in range(steps):
            found.append(float(inner.param_groups[0]["lr"]))
            with warnings.catch_warnings():  # that no optimiser has stepped: none does here
                warnings.simplefilter("ignore")
                scheduler.step()
    except Exception as error:  # other people's code
        raise InputError(
            f"The schedule '{describe(schedule)}' cannot give a rate per step: {cause(error)}; it must be a scheduler "
            "that needs the number of steps alone."
        ) from error
    return found


def _settled(parameter: inspect.Parameter) -> bool:
    """Whether somebody has chosen a value: a partial, or PyTorch where its default says more than None."""
    return parameter.default is not parameter.empty and parameter.default is not None


def _found(schedule: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(schedule, str):
        return schedule
    if ":" in schedule:
        return imported(schedule, "schedule")
    found: Callable[..., Any] = getattr(torch.optim.lr_scheduler, schedule)
    return found
