"""What all others together say: whether they second what a client is surest of, and whether they contradict it.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedol.robust.agreement import Matrix, Opinions, corrected

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
