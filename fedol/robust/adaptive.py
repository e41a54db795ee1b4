"""Attackers who know the screening and everyone's predictions, and lie on as many images as it lets pass.

On an image it lies about, a client exchanges its class and the lie and keeps its entropy. A client that does not pass
even with the truth lies everywhere: it has nothing to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.robust.agreement import Opinions
from fedol.robust.trust import judge

Sender = Callable[[int], list[Tensor]]  # what the attackers send when they lie about so many images


def adaptive(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """One lie for all, unrelated to the truth, on the same images: permuted classes of what the others say."""
    crowd = torch.stack(others or own).mean(0)
    lie = torch.from_numpy(shuffled(rng, crowd.shape[1]))[crowd.argmax(1)]
    return _passing(own, others, lie, torch.from_numpy(rng.permutation(len(crowd))))


def parrot(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """The second guess of the others' mixture: where classes are rare, what another honest client says, if wrongly."""
    lie = guesses(others or own)[:, 1]
    return _passing(own, others, lie, torch.from_numpy(rng.permutation(len(lie))))


def guesses(clients: Sequence[Tensor]) -> Tensor:
    """The classes of the clients' λ mixture from the most to the least probable, [N, C]."""
    mixture = Mixture()
    for probs in clients:
        mixture.add(probs)
    return mixture.mean().argsort(1, descending=True)


def exchanged(p: Tensor, images: Tensor, lie: Tensor) -> Tensor:
    """The predictions with the most probable class and the lie exchanged on these images."""
    result, top = p.clone(), p[images].argmax(1)
    result[images, top], result[images, lie[images]] = p[images, lie[images]], p[images, top]
    return result


def most_lies(send: Sender, passes: Callable[[list[Tensor]], bool], images: int) -> int:
    """The number of images, found by bisection, up to which the lies pass; 0 where not even one does."""
    low, high = 0, images
    while low < high:
        count = (low + high + 1) // 2
        low, high = (count, high) if passes(send(count)) else (low, count - 1)
    return low


def shuffled(rng: np.random.Generator, classes: int) -> np.ndarray:
    """A permutation of the classes that leaves none where it was."""
    cycle = rng.permutation(classes)
    order = np.empty(classes, dtype=np.int64)
    order[cycle] = np.roll(cycle, 1)
    return order


def _passing(own: list[Tensor], others: list[Tensor], lie: Tensor, order: Tensor) -> list[Tensor]:
    def sent(count: int) -> list[Tensor]:
        return [exchanged(p, order[:count], lie) for p in own]

    def passes(lies: list[Tensor]) -> bool:
        return all(k >= len(own) for k in judge(Opinions.of([*lies, *others])).excluded)

    return sent(most_lies(sent, passes, len(order)) if passes(sent(0)) else len(order))
