"""Whether the others, taken together, second what a client is surest of.

Two clients that share few classes can hardly be compared, but all others together know most classes. Their answer to an
image is the class that gets the most votes for its share of all votes, a vote counting for the more the surer its
client is of that image among all images: only ranks of entropy enter, so nobody gains by claiming certainty. Dividing
by the class's share of all votes lets the one client that knows a rare class be heard over many that know another.

A client's figure is its agreement with that answer, without its own vote, on the images that it is surest of, counted
against what was possible and beyond chance as between two clients (``fedol.robust.agreement``). Honest clients reach
nearly the same, also with few classes each; colluding liars second each other, so it does not replace the median.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedol.robust.agreement import Matrix, Opinions, corrected

STRAY = 0.5  # of a fair share, added to every class's: a stray vote for a class that nobody knows must not decide


def seconded(opinions: Opinions, among: Sequence[int]) -> Matrix:
    """How far these clients' answers are seconded by the others of them, [len(among)]; NaN: too little to tell."""
    samples = opinions.vote.shape[1]
    ranks = torch.linspace(1, 0, samples, dtype=torch.float64)

    def ballot(k: int) -> tuple[Tensor, Tensor, Tensor]:
        """A client's classes, how sure it is of each image, and the images it is surest of."""
        order = opinions.order[k].long()
        return opinions.vote[k].long(), torch.empty_like(ranks).scatter_(0, order, ranks), order[: opinions.sure]

    votes = torch.zeros(samples, opinions.classes, dtype=torch.float64)
    for choice, weight, _ in map(ballot, among):
        votes.scatter_add_(1, choice[:, None], weight[:, None])
    share, result = votes.sum(0), []
    for choice, weight, images in map(ballot, among):  # again, because all at once would take a gigabyte for many
        own, others = choice[images], share.scatter_add(0, choice, -weight)
        left = votes[images].scatter_add(1, own[:, None], -weight[images, None])
        answer = (left / (others + STRAY * others.mean())).argmax(1)
        both = torch.stack([torch.bincount(labels, minlength=opinions.classes) for labels in (own, answer)]).double()
        result.append(corrected((own == answer).sum().double(), both[0], both[1:], opinions.sure))
    return np.array([float(figure) for figure in result])
