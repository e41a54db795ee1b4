"""How far two clients agree, given what both claim to know: the evidence that screening judges by.

Honest clients see the same images, so where two of them know the same class they name it on the same images. That is
all that can be asked of them: a client that holds three classes agrees with nobody on the others. So agreement is
counted against what two clients *could* agree on: with n_j(c) the number of images that client j puts into class c,

    possible = Σ_c min(n_j(c), n_k(c))       chance = Σ_c n_j(c) n_k(c) / N
    agreement = (same class − chance) / (possible − chance)

It is 1 where they agree as far as their class counts let them, and 0 on average for a client whose classes have nothing
to do with the images: one that is constant, random, or has its classes permuted. A pair that could agree on too few
images says nothing about either. No label is needed, and of a client only its class per image is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.errors import InputError

LEAST = 10  # images that a pair must be able to agree on beyond chance: below that, one image more or less decides


def votes(predictions: Iterable[Tensor]) -> tuple[Tensor, int]:
    """The class that each client gives each image, int16 or int32 [K, N], and the number of classes; one by one."""
    rows, shape = [], None
    for probs in predictions:
        shape = shape or probs.shape
        if probs.shape != shape:
            raise InputError(f"A client predicts {list(probs.shape)}, the others {list(shape)}.")
        rows.append(probs.argmax(1).to(torch.int16 if probs.shape[1] <= 1 << 15 else torch.int32))
    if shape is None:
        raise InputError("There is no client to learn from; at least one client's predictions are needed.")
    return torch.stack(rows), shape[1]


def agreement(vote: Tensor, classes: int) -> npt.NDArray[np.float64]:
    """The agreement of every pair, [K, N] -> [K, K]; NaN where a pair could agree on too little, and with itself."""
    clients, samples = vote.shape
    counts = torch.stack([torch.bincount(row.long(), minlength=classes) for row in vote]).double()
    result = np.full((clients, clients), np.nan)
    for k in range(clients - 1):
        others = slice(k + 1, clients)
        same = (vote[others] == vote[k]).sum(1).double()
        chance = counts[others] @ counts[k] / samples
        room = torch.minimum(counts[others], counts[k]).sum(1) - chance
        known = torch.where(room >= LEAST, (same - chance) / room, torch.nan)
        result[k, others] = result[others, k] = known.numpy()
    return result
