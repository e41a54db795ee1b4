"""FedHKT-style (Deng et al. 2023): similar clients speak as a group, groups are weighted by their confidence.

Only the abstract of the original is public, so this is its idea on predictions alone: groups by average linkage on
the Jensen–Shannon distance between the clients' mean predictions, one voice per group, λ of Eq. 12 over the groups.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.mixture import Mixture
from fedol.knowledge import Knowledge
from fedol.methods.fedol import mixture
from fedol.methods.method import Method, method, register
from fedol.methods.sides import Distillation, Teacher, once

GROUPS = 5


def agreeing(server: Tensor, targets: Tensor) -> Tensor:
    """Server-assisted selection: feedback only where the server's class is its teacher's, a mask [N]."""
    return server.argmax(1) == targets.argmax(1)


@method(
    "fedhkt",
    "FedHKT-style",
    heeds=(),
    feedback=agreeing,
    compared=("one-round", "rounds", "equal-compute"),
    row=6,
    paper="FedHKT",
)
def fedhkt(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = Σ_g w_g p_g, p_g the mean of a group, w_g = softmax_g(−H(p_g)); two passes over the clients."""
    confidence = [exact(client.log_probs).softmax(1).mean(0) for client in knowledge]  # C², Eq. 8
    group = clusters(distances(torch.stack(confidence).numpy()), GROUPS)
    sums: dict[int, Tensor] = {}
    for g, client in zip(group, knowledge, strict=True):
        sums[g] = sums.get(g, torch.zeros(())) + exact(client.log_probs).softmax(1)
    mixture = Mixture()
    for g, total in sums.items():
        mixture.add(total / group.count(g))
    return once(mixture.mean(), groups=len(sums))


register(
    Method(
        "fedhkt-k",
        "FedHKT-style, G = K (λ mixture)",
        mixture,  # every client its own group
        heeds=(),
        feedback=agreeing,
        compared=("one-round", "equal-compute", "ensemble"),
        row=7,
    )
)


def distances(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The Jensen–Shannon distance (the divergence's square root, in nats) between distributions [K, C] -> [K, K]."""

    def entropy(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        h: npt.NDArray[np.float64] = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
        return h

    middle = np.stack([entropy((row + rows) / 2) for row in rows])
    own = entropy(rows)
    # Rounding may leave a tiny negative divergence between equal rows.
    return np.sqrt(np.maximum(middle - (own[:, None] + own) / 2, 0))


def clusters(distance: npt.NDArray[np.float64], count: int) -> list[int]:
    """Average linkage: merge the two nearest groups until ``count`` are left; each member's group number."""
    groups = {k: [k] for k in range(len(distance))}
    means = distance.astype(np.float64)  # between groups; a copy
    np.fill_diagonal(means, np.inf)
    while len(groups) > count:
        a, b = divmod(int(means.argmin()), len(means))  # the first of equals, so a < b
        sizes = len(groups[a]), len(groups[b])
        groups[a] += groups.pop(b)
        merged = np.average(means[[a, b]], axis=0, weights=sizes)  # of all pairs of members, without visiting them
        means[a] = means[:, a] = merged
        means[b] = means[:, b] = means[a, a] = np.inf
    number = {k: g for g, members in enumerate(groups.values()) for k in members}
    return [number[k] for k in range(len(distance))]
