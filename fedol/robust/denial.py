"""How much of what a client claims by its masses the others deny: what screening judges clients of the union by.

Where two clients hold different classes, their predictions cannot be compared. Their masses can: ratios of densities
add up to the same total on every image that the union knows (``fedol.core.union``), so an image that a client claims
is nearly always one that others claim, too, and then they name its class, or one that hardly anybody else knows. With
the masses levelled, so that a client has a voice for its samples, though for no more than the middle client's,

    λ_k(x) = m_k(x) / Σ_j m_j(x)     known_k(x) = min(1, Σ_{j≠k} m_j(x) / its upper quartile over the images)

    denied_k = Σ_x λ_k known_k p_k (t_k − s_k) / Σ_x λ_k

where p_k is the probability that the client gives its class, and t_k and s_k are the shares of the others' masses that
stand behind the class that most of them name, and behind the client's own. It is near zero for an honest client,
whichever few classes it holds, and for one that alone knows a class: there the others know nothing to deny it by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedol.robust.agreement import Matrix, Opinions

STEPS, CLOSE = 50, 1e-3  # of the iteration that levels masses, and the nats of its last step
KNOWN = 0.75  # of the images, of which the others may know a quarter only where a large client knows the rest
TINY = 1e-12  # of an image that a client has all but for itself


def denial(opinions: Opinions, among: Sequence[int]) -> Matrix:
    """How much of what each of these clients claims the others of them deny [clients]; NaN without masses."""
    result = np.full(len(among), np.nan)
    weighed = [(place, k, mass) for place, k in enumerate(among) if (mass := opinions.masses[k]) is not None]
    if len(weighed) < 2:
        return result
    masses = torch.stack([mass.log_mass for *_, mass in weighed]).double()
    masses += levelled(masses, torch.tensor([mass.share for *_, mass in weighed], dtype=torch.float64))
    total = torch.logsumexp(masses, 0)
    behind = torch.zeros(len(total), opinions.classes, dtype=torch.float64)

    def claimed(row: int) -> tuple[Tensor, Tensor, Tensor]:
        """A client's classes, its share λ of each image, and what of it stands behind its class."""
        _, k, mass = weighed[row]
        share = (masses[row] - total).exp()
        return opinions.vote[k].long()[:, None], share, share * mass.top

    for row in range(len(weighed)):
        vote, _, own = claimed(row)
        behind.scatter_add_(1, vote, own[:, None])
    for row, (place, _, mass) in enumerate(weighed):
        vote, share, own = claimed(row)
        rest = (1 - share).clamp_min(TINY)
        others = behind.scatter_add(1, vote, -own[:, None]) / rest[:, None]
        said = total + rest.log()
        known = (said - said.quantile(KNOWN)).clamp(max=0).exp()
        against = mass.top * (others.amax(1) - others.gather(1, vote)[:, 0])
        result[place] = float((share * known * against).sum() / share.sum())
    return result


def levelled(log_masses: Tensor, shares: Tensor) -> Tensor:
    """What to add to each client's log m_k [K, N] so that it says its part of the sum, [K, 1].

    Its part is that of its n_k / n_u (``shares``), at most the middle client's, among all; and so much less as its mean
    mass falls short of n_k / n_u: then the public set lacks classes of its own.
    """
    present = (torch.logsumexp(log_masses, 1) - math.log(log_masses.shape[1])).exp() / shares
    wanted = shares.clamp(max=shares.median().item()) * present.clamp(max=1)
    goal, added = wanted / wanted.sum(), torch.zeros(len(shares), 1, dtype=torch.float64)
    for _ in range(STEPS):
        step = (goal / torch.softmax(log_masses + added, 0).mean(1)).log()[:, None]
        added += step
        if step.abs().max() < CLOSE:
            break
    return added
