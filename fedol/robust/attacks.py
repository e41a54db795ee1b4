"""What a hostile client can send: attacks on knowledge, to test one's own federation and our defences with.

An attack gets the honest predictions of the clients that the attacker controls, what it knows of the others (at worst
everything), and a generator; it gives what its clients send instead. All probabilities, float32 [N, C] per client.

Adaptive attackers know the screening and everyone's predictions. On an image it lies about, a client exchanges its
class and the lie and keeps its entropy. A client that does not pass even with the truth lies everywhere: it has nothing
to lose.

Specialists claim to know a few classes, are right on these, and put every other image into one of them, too. They agree
with everyone wherever two clients could agree, and so it takes what they claim beyond that to find them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.errors import InputError, unknown
from fedol.knowledge import Knowledge
from fedol.progress import watched
from fedol.robust.agreement import Opinions
from fedol.robust.mass_attacks import claimed, honest
from fedol.robust.trust import judge
from fedol.seeding import numpy_generator

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


DOUBT = 0.01  # at most, of a client's mass: the least where it is likeliest right
STEPS = 100  # from no certainty to all of it


def specialist3(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Right on three classes, the same for all, and nearly certain that every other image is one of these, too."""
    return _specialists(own, others, rng, 3)


def specialist10(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """The same with ten classes, or half of them where that is less."""
    return _specialists(own, others, rng, 10)


def modest(own: list[Tensor], others: list[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """The same, as sure as the screening lets pass; nearly certain where it lets none pass."""
    certain = _specialists(own, others, rng, 10)

    def sent(step: int) -> list[Tensor]:
        return [torch.lerp(torch.full_like(p, 1 / p.shape[1]), p, step / STEPS) for p in certain]

    def passes(lies: list[Tensor]) -> bool:
        return all(k >= len(own) for k in judge(Opinions.of([*lies, *others])).excluded)

    return sent(most_lies(sent, passes, STEPS) or STEPS)


def _specialists(own: list[Tensor], others: list[Tensor], rng: np.random.Generator, claimed: int) -> list[Tensor]:
    """Of so many classes, at most half, the one that a client and the crowd hold likeliest."""
    crowd = torch.stack([*own, *others]).mean(0)
    classes = crowd.shape[1]
    known = torch.from_numpy(rng.permutation(classes)[: min(claimed, max(1, classes // 2))])
    sent = []
    for p in own:
        chance, best = ((p + crowd) / 2)[:, known].max(1)
        doubt = (DOUBT * (1 - chance))[:, None]
        sent.append((1 - doubt) * F.one_hot(known[best], classes).float() + doubt / classes)
    return sent


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


def attack_files(
    files: Sequence[Path],
    name: str,
    out: Path,
    others: Sequence[Path] = (),
    seed: int = 0,
    claim: str = honest.__name__,
) -> list[Path]:
    """Write what the clients of ``files`` would send under an attack; same names, tasks and codecs, no signature.

    ``claim`` is what they make of their masses (``fedol.robust.mass_attacks``), where they send any.
    """
    names = [path.name for path in files]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"Two of the files are named {twice[0]}, and so would be their copies; rename one of them.")
    own = [Knowledge.read(path) for path in watched(files, "reading files")]
    known = [Knowledge.read(path)[0] for path in watched(others, "reading files")]
    shapes = {tuple(client.log_probs.shape) for client in [*(knowledge for knowledge, _ in own), *known]}
    if len(shapes) > 1:
        raise InputError(f"The files are of different tasks: they hold predictions of the shapes {sorted(shapes)}.")
    probs = [client.probabilities() for client in known]
    masses, rng = [client.log_mass for client in known if client.log_mass is not None], numpy_generator(seed, claim)
    sent = attacked(name, [knowledge.probabilities() for knowledge, _ in own], probs, seed)
    written = []
    lies = list(zip(files, own, sent, strict=True))
    for path, (knowledge, header), said in watched(lies, "writing files"):
        lie = replace(knowledge.without_classes(), log_probs=said.clamp_min(torch.finfo(torch.float32).tiny).log())
        claimed(claim, lie, masses, rng).save(out / path.name, header.codec)
        written.append(out / path.name)
    return written
