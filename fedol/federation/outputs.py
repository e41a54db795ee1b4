"""What a model's numbers mean: probabilities, logits, or a yes or no for each class by itself. They are never guessed.

Rows that sum to one are probabilities, and numbers outside [0, 1] are a network's logits. Anything between could be
either, and the two make different files, so whoever owns the model is asked.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from fedol.core.arrays import SUM_TOLERANCE
from fedol.errors import InputError, brief
from fedol.knowledge import Knowledge
from fedol.knowledge.task import Task

Outputs = Literal["", "logits", "multilabel"]
"""What the owner of a model says of its outputs; nothing, where they say it themselves."""
PERCENT = 0.2  # rows of logits above 1 differ in their sums by more than this share of them


def checked(said: str) -> Outputs:
    """What somebody says of outputs, or an error."""
    for known in get_args(Outputs):
        if said == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"Outputs are 'logits' or 'multilabel', but not {brief(said)}; leave it out for probabilities.")


def knowledge_of(
    values: np.ndarray,
    task: Task | None = None,
    client: str = "client",
    classes: list[int] | None = None,
    said: Outputs = "",
    chances: bool = False,
) -> Knowledge:
    """Knowledge from a model's outputs [samples, classes]; ``chances``: they are those of a ``predict_proba``."""
    if said == "logits":
        return Knowledge.from_logits(values, task, client, classes)
    if task is not None and task.findings:
        if values.shape[1] == len(task.findings) and (values >= 0).all() and (values <= 1).all():
            return Knowledge.from_findings(values, task, client)
        if said or chances:
            raise InputError(f"{client}'s findings must each lie between 0 and 1; or are they logits (--logits)?")
        return Knowledge.from_logits(values, task, client)
    if said == "multilabel":
        return Knowledge.from_probabilities(_shares(values, client), task, client, classes)
    if _distributions(values):
        return Knowledge.from_probabilities(values, task, client, classes)
    if np.isfinite(values).all() and (chances or _like_probabilities(values)):
        sums = values.sum(1)
        raise InputError(
            f"The predictions look like probabilities, but their rows sum to {sums[np.abs(sums - 1).argmax()]:.4g} and "
            "not to 1; divide each row by its sum, or say what they are: a network's logits (--logits), or a yes or no "
            "for each class by itself (--multilabel)?"
        )
    return Knowledge.from_logits(values, task, client, classes)


def _like_probabilities(values: np.ndarray) -> bool:
    """All in [0, 1], or with nearly one sum, as percent and rounded ones have; one class alone has nothing to say."""
    if values.shape[1] < 2 or not (values >= 0).all():
        return False
    sums = values.sum(1)
    return bool((values <= 1).all() or np.ptp(sums) <= PERCENT * sums.mean())


def _shares(values: np.ndarray, client: str) -> np.ndarray:
    """A yes or no for each class, as shares of the row's sum: what scikit-learn's one-vs-rest makes of them."""
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(
            f"{client}'s outputs for each class by itself must lie between 0 and 1; leave --multilabel out."
        )
    sums = values.sum(1, keepdims=True)
    return np.where(sums > 0, values / np.where(sums > 0, sums, 1), 1 / values.shape[1])


def _distributions(values: np.ndarray) -> bool:
    return bool((values >= 0).all() and (np.abs(values.sum(1) - 1) <= SUM_TOLERANCE).all())
