"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020): the server averages the clients' weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedol.errors import InputError
from fedol.training import Normalisation


@dataclass(frozen=True)
class ParameterMethod:
    """Clients of one architecture start from the same weights and send them back trained."""

    proximal: bool = False  # FedProx: μ/2 ‖w − w_global‖² on the trainable parameters (``Recipe.proximal``)
    recalibrate: bool = False  # normalisation statistics of the average measured anew on the public images


def average(states: Iterable[tuple[Mapping[str, Tensor], int]]) -> dict[str, Tensor]:
    """w = Σ_k (n_k / n) w_k over the whole state, normalisation statistics included; weights and sizes one by one.

    Counters such as the number of batches seen are averaged too and rounded, so that they stay whole numbers.
    """
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    samples = 0
    for state, size in states:
        for name, value in state.items():
            total[name] = total.get(name, torch.zeros(())) + value.detach().cpu().double() * size
            kinds[name] = value.dtype
        samples += size
    if not samples:
        raise InputError("There is nothing to average; at least one client with samples is needed.")
    mean = {name: value / samples for name, value in total.items()}
    return {name: (m if kinds[name].is_floating_point else m.round()).to(kinds[name]) for name, m in mean.items()}


@torch.no_grad()
def recalibrate(
    model: nn.Module, public: Tensor, normalise: Normalisation, device: torch.device, batch: int = 250
) -> None:
    """Replace every batch norm's running statistics by those of this model on the public images, in place.

    Averaged weights make other activations than any client's, so averaged statistics fit none of them.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.to(device).train()
    seen = 0
    # Parts of nearly equal size: the layers behind a norm see its statistics of the part, and a short one has odd ones.
    for part in torch.tensor_split(public, math.ceil(len(public) / batch)):
        if len(part) < 2:  # has no variance
            continue
        seen += len(part)
        for norm in norms:
            norm.momentum = len(part) / seen  # a plain mean over all images; what was there before goes with the first
        model(normalise(part.to(device)))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)
