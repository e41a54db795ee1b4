"""Which of a task's classes a client knows, as it names them itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.errors import InputError

# The logarithm of an exact zero is kept finite: e^-87 is zero for every purpose here.
TINY = torch.finfo(torch.float32).tiny


def places(known: Any, classes: Sequence[str], shape: Sequence[int]) -> list[int]:
    """Where the ``known`` classes (an estimator's ``classes_``: positions or names) are in the task's list.

    ``shape`` is that of the predictions whose columns they name.
    """
    labels = np.asarray(known)
    if len(shape) != 2 or labels.shape != tuple(shape[1:]):
        raise InputError(f"There are {labels.size} known classes, but the predictions have shape {list(shape)}.")
    index: dict[Any, int] = {name: place for place, name in enumerate(classes)}
    if np.issubdtype(labels.dtype, np.number):
        index = {place: place for place in range(len(classes))}
    found = [index.get(label, -1) for label in labels.tolist()]
    if -1 in found:
        raise InputError(f"The model knows a class that the task has not: {labels[found.index(-1)]}.")
    if twice := [label for label, place in zip(labels, found, strict=True) if found.count(place) > 1]:
        raise InputError(f"The model knows the class {twice[0]} twice; give each class one column.")
    return found


def on_all_classes(log_probs: Tensor, found: Sequence[int], classes: int) -> Tensor:
    """Columns put where they are among all classes; the others have no chance."""
    every = torch.full((len(log_probs), classes), math.log(TINY))
    every[:, list(found)] = log_probs
    return every
