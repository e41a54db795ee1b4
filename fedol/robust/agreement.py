"""How far two clients agree, given what both claim to know: the evidence that screening judges by.

Honest clients see the same images, so where two of them know the same class they name it on the same images. That is
all that can be asked of them: a client that holds three classes agrees with nobody on the others. So agreement is
counted against what two clients *could* agree on: with n_j(c) the number of images that client j puts into class c,

    possible = Σ_c min(n_j(c), n_k(c))       chance = Σ_c n_j(c) n_k(c) / N
    agreement = (same class − chance) / (possible − chance)

It is 1 where they agree as far as their class counts let them, and 0 on average for a client whose classes have nothing
to do with the images: one that is random, or has its classes permuted. It is counted on all images, and again on those
that client k is surest of, because these are what a vote and a mixture listen to. A pair that could agree on too few
images says nothing about either. No label is needed, and of a client only its class and its entropy per image.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.voting import shannon
from fedol.errors import InputError

LEAST = 10  # images that a pair must be able to agree on beyond chance: below that, one image more or less decides
SUREST = 0.1  # share of the images that a client is surest of

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Opinions:
    """What is kept of all clients: the class each gives each image, and how sure it is of it."""

    vote: Tensor  # int32 [K, N]
    order: Tensor  # int32 [K, N]: the images from surest to least sure
    claim: Tensor  # float32 [K, N]: exp(−H), the weight that Eq. 12 gives it
    constant: tuple[bool, ...]  # whose probabilities are the same for every image
    classes: int

    @classmethod
    def of(cls, predictions: Iterable[Tensor]) -> Opinions:
        """From the clients' probabilities [N, C], one after the other."""
        votes, orders, claims, constant, shape = [], [], [], [], None
        for probs in predictions:
            shape = shape or probs.shape
            if probs.shape != shape:
                raise InputError(f"A client predicts {list(probs.shape)}, the others {list(shape)}.")
            votes.append(probs.argmax(1).int())
            constant.append(bool((probs == probs[:1]).all()))
            nats = shannon(exact(probs))
            orders.append(nats.argsort(stable=True).int())
            claims.append(torch.exp(-nats).float())
        if shape is None:
            raise InputError("There is no client to learn from; at least one client's predictions are needed.")
        return cls(torch.stack(votes), torch.stack(orders), torch.stack(claims), tuple(constant), shape[1])

    @property
    def sure(self) -> int:
        """How many images the surest are."""
        return max(1, round(SUREST * self.vote.shape[1]))


def agreement(opinions: Opinions, surest: bool) -> Matrix:
    """How far client k agrees with client j, [K, K], on all images or on those that k is surest of.

    NaN where the pair could agree on too little, and with itself.
    """
    clients, result = len(opinions.vote), []
    everywhere = _counts(opinions.vote, opinions.classes)
    for k in range(clients):
        seen = opinions.vote[:, opinions.order[k, : opinions.sure].long()] if surest else opinions.vote
        counts, size = _counts(seen, opinions.classes), seen.shape[1]
        own = counts[k]
        if surest and own.max() == size:  # one class: what chance is can only be seen on the other images
            counts, size = everywhere, opinions.vote.shape[1]
        row = corrected((seen == seen[k]).sum(1).double(), own, counts, size)
        row[k] = torch.nan
        result.append(row.numpy())
    return np.stack(result)


def corrected(same: Tensor, own: Tensor, others: Tensor, size: int) -> Tensor:
    """Agreement from the number of same answers to ``size`` images and how often each class was named: [C], [K, C]."""
    chance = others @ own / size
    room = torch.minimum(others, own).sum(1) - chance
    return torch.where(room >= LEAST, (same - chance) / room, torch.nan)


def _counts(vote: Tensor, classes: int) -> Tensor:
    return torch.stack([torch.bincount(row, minlength=classes) for row in vote]).double()


def confidence_agreement(opinions: Opinions) -> Matrix:
    """The rank correlation (Spearman) of two clients' entropies, [K, K]: are they unsure of the same images?"""
    places = torch.arange(opinions.vote.shape[1], dtype=torch.float64).expand(opinions.vote.shape)
    ranks = torch.empty_like(places.contiguous()).scatter_(1, opinions.order.long(), places)
    result: Matrix = np.atleast_2d(np.corrcoef(ranks.numpy()))
    np.fill_diagonal(result, np.nan)
    return result
