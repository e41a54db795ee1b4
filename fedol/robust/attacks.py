"""What a hostile client can send: attacks on knowledge, to test one's own federation and our defences with.

An attack gets the honest predictions of the clients that the attacker controls, what it knows of the others (at worst
everything), and a generator; it gives what its clients send instead. All probabilities, float32 [N, C] per client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedol.errors import unknown
from fedol.robust.adaptive import adaptive, parrot, shuffled
from fedol.robust.specialists import modest, specialist3, specialist10
from fedol.seeding import numpy_generator

Attack = Callable[[list[Tensor], list[Tensor], np.random.Generator], list[Tensor]]
LOUD = 20.0  # scale of logits that leave no doubt
SOURCES = 10  # a backdoor turns every so many-th part of the images


def constant(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """One class with certainty, always: zero entropy, so literally reliable everywhere."""
    samples, classes = own[0].shape
    return [_certain(torch.full((samples,), int(rng.integers(classes))), classes)] * len(own)


def random(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Random classes, each with great confidence."""
    return [torch.softmax(LOUD * _normal(rng, p), 1) for p in own]


def noise(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Own predictions drowned in noise of three times their spread, and scaled up."""
    logs = [p.clamp_min(1e-30).log() for p in own]
    return [torch.softmax(z + 3 * z.std() * _normal(rng, z), 1) for z in logs]


def permuted(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Own predictions with the classes exchanged (label flip), each client by itself."""
    return [p[:, shuffled(rng, p.shape[1])] for p in own]


def colluding(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """The same, with one permutation for all: the liars agree with each other as honest clients do."""
    order = shuffled(rng, own[0].shape[1])
    return [p[:, order] for p in own]


def copies(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """One lie sent by all: the first client's permuted predictions, made certain."""
    lie = colluding(own[:1], others, rng)[0]
    return [_certain(lie.argmax(1), lie.shape[1])] * len(own)


def backdoor(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Honest, but the tenth of the images that look most like one class is another class with certainty."""
    samples, classes = own[0].shape
    source, target = rng.choice(classes, 2, replace=False)
    everyone = torch.stack([*own, *others]).mean(0)[:, int(source)]
    chosen = everyone.topk(max(1, samples // SOURCES)).indices
    return [p.index_copy(0, chosen, _certain(torch.full_like(chosen, int(target)), classes)) for p in own]


def forged(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Certain of a wrong class on the half of the images on which the honest are least sure; honest elsewhere."""
    p = torch.stack(others or own)
    unsure = torch.special.entr(p).sum(2).mean(0).topk(p.shape[1] // 2).indices
    wrong = p.mean(0)[unsure].argsort(1, descending=True)[:, 1]  # the runner-up: the lie that is nearest to winning
    return [q.index_copy(0, unsure, _certain(wrong, q.shape[1])) for q in own]


KNOWING = (adaptive, parrot, modest)  # the screening, and how far they can go
ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        *(constant, random, noise, permuted, colluding, copies, backdoor, forged, specialist3, specialist10),
        *KNOWING,
    )
}


def attacked(name: str, own: Sequence[Tensor], others: Sequence[Tensor] = (), seed: int = 0) -> list[Tensor]:
    """What the attacker's clients send instead of their honest predictions ``own``."""
    if name not in ATTACKS:
        raise unknown("attack", name, ATTACKS)
    return ATTACKS[name](list(own), list(others), numpy_generator(seed, "attack", name))


def _certain(labels: Tensor, classes: int) -> Tensor:
    return F.one_hot(labels.long(), classes).float()


def _normal(rng: np.random.Generator, like: Tensor) -> Tensor:
    return torch.from_numpy(rng.standard_normal(tuple(like.shape), dtype=np.float32))
