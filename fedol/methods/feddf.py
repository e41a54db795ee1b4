"""FedDF (Lin et al. 2020): the server learns from the uniform average of the clients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.sides import Distillation, Teacher, once


@method(
    "feddf",
    "FedDF",
    heeds=(),
    compared=("one-round", "rounds", "equal-compute", "cost", "ensemble"),
    row=4,
    paper="FedDF",
)
def feddf(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = softmax(mean_k z_k), as its code does; the mean of log p_k differs by a constant per sample only."""
    return once(torch.softmax(_mean(client.log_probs for client in knowledge), 1))


@method("feddf-probs", "FedDF, probabilities", heeds=(), compared=("one-round", "equal-compute", "ensemble"), row=5)
def feddf_probs(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = mean_k p_k, the variant its code calls ``avg_probs``."""
    return once(_mean(client.probabilities() for client in knowledge))


def _mean(parts: Iterable[Tensor]) -> Tensor:
    """The mean of tensors that come one at a time, in float64."""
    total, count = torch.zeros(()), 0
    for part in parts:
        total, count = total + exact(part), count + 1
    return total / count
