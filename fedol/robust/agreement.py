"""How far clients agree, two by two and each with all the others together: what screening judges by.

Honest clients see the same images, so where two of them know the same class they name it on the same images. That is
all that can be asked of them: a client that holds three classes agrees with nobody on the others. So agreement is
counted against what two clients *could* agree on: with n_j(c) the number of images that client j puts into class c,

    possible = Σ_c min(n_j(c), n_k(c))       chance = Σ_c n_j(c) n_k(c) / N
    agreement = (same class − chance) / (possible − chance)

It is 1 where they agree as far as their class counts let them, and 0 on average for a client whose classes have nothing
to do with the images: one that is random, or has its classes permuted. It is counted on all images, and again on those
that client k is surest of, because these are what a vote and a mixture listen to. A pair that could agree on too few
images says nothing about either. No label is needed, and of a client only its class and its entropy per image.

Two clients that share few classes can hardly be compared, but all others together know most classes. Their answer to an
image is the class that gets the most votes for its share of all votes, a vote counting for the more the surer its
client is of that image among all images: only ranks of entropy enter, so nobody gains by claiming certainty. Dividing
by the class's share of all votes lets the one client that knows a rare class be heard over many that know another.
A client is measured against that answer without its own vote, in two figures.

*Seconded* is its agreement on the images that it is surest of, counted against what was possible and beyond chance as
between two clients (``fedol.robust.agreement``). Honest clients reach nearly the same, also with few classes each;
colluding liars second each other, so it does not replace the median.

*Contradicted* is the share of all images that it claims for another class than that answer, each counted by the weight
exp(−H) that Eq. 12 gives it. Agreement asks nothing of a client on images where two could not agree, so it cannot see
one that is right on its few classes and certain that every other image is one of these, too. Here that counts. Honest
clients of few classes also name these on all images, but are unsure of most. A class that the others hardly name is
not counted: who knows nothing of it cannot deny it, and a client that alone knows a class must not be lost.

A client with masses (``fedol.core.union``) also says which images it knows. Its doubt is its entropy, and how far its
mass falls short of n_k / n_u, what it would be if the image were as common in its data as in the public set.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.voting import shannon
from fedol.errors import InputError

TOGETHER = 32  # clients whose rows are stored, or compared with others, at once
LEAST = 10  # images that a pair must be able to agree on beyond chance: below that, one image more or less decides
SUREST = 0.1  # share of the images that a client is surest of

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Weighed:
    """Probabilities [N, C] with the log-masses [N] of ``fedol.core.union``, and n_k / n_u, which these average."""

    probs: Tensor
    log_mass: Tensor
    share: float


@dataclass(frozen=True)
class Masses:
    """What is kept of a client with masses: these, and the probability of its class for each image, float32 [N]."""

    log_mass: Tensor
    share: float
    top: Tensor


@dataclass(frozen=True)
class Opinions:
    """What is kept of all clients: the class each gives each image, and how sure it is of it."""

    vote: Tensor  # int32 [K, N]
    order: Tensor  # int32 [K, N]: the images from surest to least sure
    claim: Tensor  # float32 [K, N]: exp(−doubt); without masses exp(−H), the weight that Eq. 12 gives it
    constant: tuple[bool, ...]  # who answers the same to every image
    classes: int
    masses: tuple[Masses | None, ...]  # of the clients that send them

    @classmethod
    def of(cls, answers: Iterable[Tensor | Weighed]) -> Opinions:
        """From the clients' probabilities [N, C], perhaps with their masses, one after the other."""
        votes, orders, claims, tops, levels = Rows(), Rows(), Rows(), Rows(), Rows()
        constant, masses, shape = [], list[Masses | None](), None
        for answer in answers:
            probs = answer.probs if isinstance(answer, Weighed) else answer
            shape = shape or probs.shape
            if probs.shape != shape:
                raise InputError(f"A client predicts {list(probs.shape)}, the others {list(shape)}.")
            votes.add(probs.argmax(1).int())
            alike, doubt = (probs == probs[:1]).all(), shannon(exact(probs))
            if isinstance(answer, Weighed):
                alike = alike & (answer.log_mass == answer.log_mass[0]).all()
                doubt = doubt + (math.log(answer.share) - exact(answer.log_mass)).clamp(min=0)
                kept = levels.add(answer.log_mass.float()), answer.share, tops.add(probs.amax(1).float())
                masses.append(Masses(*kept))
            else:
                masses.append(None)
            constant.append(bool(alike))
            orders.add(doubt.argsort(stable=True).int())
            claims.add(torch.exp(-doubt).float())
        if shape is None:
            raise InputError("There is no client to learn from; at least one client's predictions are needed.")
        stacked = votes.stacked(), orders.stacked(), claims.stacked()
        return cls(*stacked, tuple(constant), shape[1], tuple(masses))

    @property
    def sure(self) -> int:
        """How many images the surest are."""
        return max(1, round(SUREST * self.vote.shape[1]))


class Rows:
    """One row [N] of every client, stored many in a piece.

    One by one they would lie where a client's predictions have just been freed; the next client's no longer fit there,
    and memory would grow by [N, C] for each (``benchmarks/results/scale.json``).
    """

    def __init__(self) -> None:
        self._pieces, self._count = list[Tensor](), 0

    def add(self, row: Tensor) -> Tensor:
        """Store a client's row; the stored one is given back."""
        place = self._count % TOGETHER
        if not place:
            self._pieces.append(row.new_empty(TOGETHER, len(row)))
        self._count += 1
        return self._pieces[-1][place].copy_(row)

    def stacked(self) -> Tensor:
        """All of them, [K, N]; nothing is left here."""
        rows = torch.cat(self._pieces)[: self._count]
        self._pieces.clear()
        return rows


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
    clients, samples = opinions.order.shape
    places = torch.arange(samples, dtype=torch.float64) - (samples - 1) / 2  # ranks less their mean

    def ranks(start: int) -> Tensor:
        order = opinions.order[start : start + TOGETHER].long()
        return torch.empty(order.shape, dtype=torch.float64).scatter_(1, order, places.expand(order.shape))

    # Few at a time, and yet the same: their products are multiples of 1/4 whose sums float64 holds exactly.
    common = torch.empty(clients, clients, dtype=torch.float64)
    for start in range(0, clients, TOGETHER):
        some = ranks(start)
        for other in range(start, clients, TOGETHER):
            part = some @ ranks(other).T
            common[start : start + TOGETHER, other : other + TOGETHER] = part
            common[other : other + TOGETHER, start : start + TOGETHER] = part.T
    common *= 1 / np.float64(samples - 1)
    spread = common.diagonal().sqrt()
    result: Matrix = (common / spread[:, None] / spread).clamp(-1, 1).numpy()
    np.fill_diagonal(result, np.nan)
    return result


STRAY = 0.5  # of a fair share, added to every class's: a stray vote for a class that nobody knows must not decide
HEARSAY = 0.1  # of a fair share: a class that the others name less often than that, they cannot deny to anybody
BLOCK = 1 << 20  # images × classes looked at at once


@dataclass(frozen=True)
class Backing:
    """How far the others back or contradict each client, [clients]."""

    seconded: Matrix  # NaN: too little to tell
    contradicted: Matrix


def backing(opinions: Opinions, among: Sequence[int]) -> Backing:
    """How far these clients' answers are backed or contradicted by the others of them."""
    samples, classes = opinions.vote.shape[1], opinions.classes
    ranks = torch.linspace(1, 0, samples, dtype=torch.float64)

    def ballot(k: int) -> tuple[Tensor, Tensor, Tensor]:
        """A client's classes, how sure it is of each image, and the images it is surest of."""
        order = opinions.order[k].long()
        return opinions.vote[k].long(), torch.empty_like(ranks).scatter_(0, order, ranks), order[: opinions.sure]

    votes = torch.zeros(samples, classes, dtype=torch.float64)
    for choice, weight, _ in map(ballot, among):
        votes.scatter_add_(1, choice[:, None], weight[:, None])
    share = votes.sum(0)
    seconded, contradicted = [], []
    for k in among:  # again, because all at once would take a gigabyte for many
        choice, weight, surest = ballot(k)
        others = share.scatter_add(0, choice, -weight)
        scale = 1 / (others + STRAY * others.mean())
        parts = (torch.split(part, max(1, BLOCK // classes)) for part in (votes, choice[:, None], -weight[:, None]))
        answer = torch.cat([(left.scatter_add(1, *own) * scale).argmax(1) for left, *own in zip(*parts, strict=True)])
        named = [labels[surest] for labels in (choice, answer)]
        both = torch.stack([torch.bincount(labels, minlength=classes) for labels in named]).double()
        same = (named[0] == named[1]).sum().double()
        seconded.append(float(corrected(same, both[0], both[1:], opinions.sure)))
        deniable = (others >= HEARSAY * others.mean())[choice]
        contradicted.append(float((opinions.claim[k] * (deniable & (choice != answer))).double().mean()))
    return Backing(np.array(seconded), np.array(contradicted))
