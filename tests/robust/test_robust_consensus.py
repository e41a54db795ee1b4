"""What all others together second, against an obvious reference; and who cannot be caught by it."""

import numpy as np
import pytest
import torch

from fedol.robust import agreement as evidence
from fedol.robust.agreement import HEARSAY, LEAST, STRAY, Opinions, agreement, backing
from fedol.robust.attacks import attacked
from fedol.robust.trust import judge
from fedol.seeding import numpy_generator

SAMPLES, CLASSES = 600, 12


def crowd(clients: int = 8, known: int = CLASSES, seed: int = 0) -> list[torch.Tensor]:
    """Honest clients, each of which knows so many of the classes."""
    rng = numpy_generator(seed, "consensus")
    truth = rng.integers(CLASSES, size=SAMPLES)
    found = []
    for _ in range(clients):
        logits = rng.uniform(0.5, 3, size=(SAMPLES, 1)) * rng.standard_normal((SAMPLES, CLASSES))
        logits[np.arange(SAMPLES), truth] += 3.0
        logits[:, rng.permutation(CLASSES)[known:]] -= 8.0
        found.append(torch.softmax(torch.from_numpy(logits).float(), 1))
    return found


def reference(opinions: Opinions, k: int) -> tuple[float, float]:
    vote, order, sure = opinions.vote.tolist(), opinions.order.tolist(), opinions.sure
    votes = np.zeros((SAMPLES, CLASSES))
    for j in range(len(vote)):
        for rank, x in enumerate(order[j]):
            if j != k:
                votes[x, vote[j][x]] += 1 - rank / (SAMPLES - 1)
    share = votes.sum(0)
    answer = (votes / (share + STRAY * share.mean())).argmax(1)
    known = share >= HEARSAY * share.mean()
    claims = opinions.claim[k].tolist()
    contradicted = [claims[x] for x in range(SAMPLES) if vote[k][x] != answer[x] and known[vote[k][x]]]
    own, others = ([labels[x] for x in order[k][:sure]] for labels in (vote[k], answer))
    n, m = ([labels.count(c) for c in range(CLASSES)] for labels in (own, others))
    chance = sum(a * b for a, b in zip(n, m, strict=True)) / sure
    room = sum(min(a, b) for a, b in zip(n, m, strict=True)) - chance
    same = sum(a == b for a, b in zip(own, others, strict=True))
    return (same - chance) / room if room >= LEAST else float("nan"), sum(contradicted) / SAMPLES


@pytest.mark.parametrize("known", [CLASSES, 4, 1])
def test_backing_is_what_its_definition_says(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "BLOCK", 100 * CLASSES)  # several, the last of them not full
    opinions = Opinions.of(crowd(known=known))
    found = backing(opinions, range(8))
    expected = np.array([reference(opinions, k) for k in range(8)])
    np.testing.assert_allclose(found.seconded, expected[:, 0], atol=1e-9)
    np.testing.assert_allclose(found.contradicted, expected[:, 1], atol=1e-6)


@pytest.mark.parametrize("known", [CLASSES, 4])
@pytest.mark.parametrize("name", ["specialist3", "specialist10"])
def test_who_claims_to_know_everything_is_contradicted(name: str, known: int) -> None:
    clients = crowd(known=known)
    sent = attacked(name, clients[:2], clients[2:])
    found = backing(Opinions.of([*sent, *clients[2:]]), range(8)).contradicted
    assert min(found[:2]) > max(found[2:]) + 0.2


def test_on_a_class_of_its_own_nobody_is_contradicted() -> None:
    """One client names a class that no other knows, on half of the images: they cannot say that it is wrong."""
    clients = crowd()
    for p in clients:
        p[:, 0] = 0
    alone = clients[0].clone()
    alone[::2] = torch.eye(CLASSES)[0]
    found = backing(Opinions.of([alone, *clients[1:]]), range(8)).contradicted
    assert found[0] == pytest.approx(backing(Opinions.of(clients), range(8)).contradicted[0] / 2, abs=0.05)


def test_only_those_asked_for_are_heard() -> None:
    clients = crowd()
    some = [0, 2, 3, 5, 6]
    alone = backing(Opinions.of([clients[k] for k in some]), range(5))
    found = backing(Opinions.of(clients), some)
    np.testing.assert_allclose(found.seconded, alone.seconded)
    np.testing.assert_allclose(found.contradicted, alone.contradicted)


def test_claiming_certainty_gains_nothing() -> None:
    """The order of a client's entropies counts, not their size."""
    clients = crowd()
    first = Opinions.of(clients)
    rank = torch.empty(SAMPLES, dtype=torch.float64)
    rank[first.order[0].long()] = torch.arange(1, SAMPLES + 1, dtype=torch.float64)
    doubt = 1e-5 * rank[:, None]  # hardly any, in the same order
    louder = (1 - doubt) * torch.eye(CLASSES, dtype=torch.float64)[clients[0].argmax(1)] + doubt / CLASSES
    second = Opinions.of([louder, *clients[1:]])
    assert torch.equal(first.order, second.order) and torch.equal(first.vote, second.vote)
    np.testing.assert_array_equal(backing(first, range(8)).seconded, backing(second, range(8)).seconded)


@pytest.mark.parametrize("known", [CLASSES, 4])
def test_honest_clients_are_seconded_and_random_ones_are_not(known: int) -> None:
    clients = crowd(known=known)
    sent = attacked("random", clients[:2], clients[2:])
    found = backing(Opinions.of([*sent, *clients[2:]]), range(8)).seconded
    assert np.nanmax(found[:2]) < 0.2 < np.nanmin(found[2:])


def test_a_parrot_looks_more_honest_than_the_honest_do() -> None:
    """Known and documented (docs/robustness.md): every answer of the liar is one that some honest client gives."""
    clients = crowd(10, known=4)
    sent = attacked("parrot", clients[:3], clients[3:])
    opinions = Opinions.of([*sent, *clients[3:]])
    assert not set(judge(opinions).excluded) & {0, 1, 2}
    lies = [(a.argmax(1) != b.argmax(1)).double().mean().item() for a, b in zip(sent, clients, strict=False)]
    assert min(lies) > 0.5
    figures = np.nanmedian(agreement(opinions, False), 1)
    assert figures[:3].min() > np.median(figures[3:])
