"""Agreement and trust against obvious references, and who is left out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedol.errors import InputError
from fedol.robust.agreement import LEAST, Opinions, agreement, confidence_agreement
from fedol.robust.attacks import ATTACKS, attacked
from fedol.robust.trust import THRESHOLD, Evidence, judge
from fedol.seeding import numpy_generator

SAMPLES, CLASSES = 1000, 20


def crowd(clients: int = 10, skew: bool = False, seed: int = 0) -> list[torch.Tensor]:
    """Honest clients: each right on most images of the classes it knows, blind to the others."""
    rng = numpy_generator(seed, "crowd")
    truth = rng.integers(CLASSES, size=SAMPLES)
    hard = rng.uniform(0.5, 3, size=(SAMPLES, 1))  # some images are hard for everyone
    found = []
    for _ in range(clients):
        logits = hard * rng.standard_normal((SAMPLES, CLASSES))
        logits[np.arange(SAMPLES), truth] += 3.0
        if skew:
            logits[:, rng.permutation(CLASSES)[6:]] -= 8.0  # knows six classes only
        found.append(torch.softmax(torch.from_numpy(logits).float(), 1))
    return found


def reference(vote: np.ndarray, order: np.ndarray, sure: int | None) -> np.ndarray:
    clients = len(vote)
    result = np.full((clients, clients), np.nan)
    for k in range(clients):
        images = range(vote.shape[1]) if sure is None else order[k][:sure]
        for j in range(clients):
            same = sum(vote[k][x] == vote[j][x] for x in images)
            n_k, n_j = ([sum(vote[i][x] == c for x in images) for c in range(CLASSES)] for i in (k, j))
            chance = sum(a * b for a, b in zip(n_k, n_j, strict=True)) / len(images)
            possible = sum(min(a, b) for a, b in zip(n_k, n_j, strict=True))
            if j != k and possible - chance >= LEAST:
                result[k, j] = (same - chance) / (possible - chance)
    return result


@pytest.mark.parametrize("skew", [False, True])
def test_agreement_is_what_its_definition_says(skew: bool) -> None:
    opinions = Opinions.of(crowd(4, skew))
    vote, order = opinions.vote.numpy(), opinions.order.numpy()
    np.testing.assert_allclose(agreement(opinions, False), reference(vote, order, None))
    np.testing.assert_allclose(agreement(opinions, True), reference(vote, order, opinions.sure))


def test_confidence_agreement_is_a_rank_correlation() -> None:
    from scipy.stats import spearmanr

    clients = crowd(3)
    found = confidence_agreement(Opinions.of(clients))
    entropies = [torch.special.entr(p.double()).sum(1).numpy() for p in clients]
    assert found[0, 1] == pytest.approx(spearmanr(entropies[0], entropies[1]).statistic, abs=1e-9)


@pytest.mark.parametrize("skew", [False, True])
def test_nobody_honest_is_left_out(skew: bool) -> None:
    for seed in range(5):
        assert judge(Opinions.of(crowd(10, skew, seed))).excluded == ()


@pytest.mark.parametrize("skew", [False, True])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", sorted(set(ATTACKS) - {"adaptive"}))
def test_liars_are_found_and_only_they(name: str, count: int, skew: bool) -> None:
    if name == "backdoor" and skew:
        pytest.skip("a backdoor into a class that hardly anyone else knows is not seen: docs/robustness.md")
    clients = crowd(10, skew, seed=1)
    sent = attacked(name, clients[:count], clients[count:], seed=2)
    verdict = judge(Opinions.of([*sent, *clients[count:]]))
    assert sorted(verdict.excluded) == list(range(count))
    for k in verdict.excluded:
        assert verdict.evidence[k].trust < THRESHOLD
        assert verdict.evidence[k].sentence(list("abcdefghij")) != "It agrees with the others."


def test_an_adaptive_attacker_passes_but_must_mostly_tell_the_truth() -> None:
    clients = crowd(10, seed=1)
    sent = attacked("adaptive", clients[:3], clients[3:], seed=2)
    verdict = judge(Opinions.of([*sent, *clients[3:]]))
    assert verdict.excluded == ()
    lies = [(a.argmax(1) != b.argmax(1)).double().mean().item() for a, b in zip(sent, clients, strict=False)]
    assert 0 < max(lies) < 0.6


def test_a_client_sure_of_one_class_alone_is_compared_on_that_class() -> None:
    clients = crowd(10, seed=3)
    sure = round(0.1 * SAMPLES)
    for claimed, left_out in ((0, ()), (1, (0,))):  # certain of the class that it is, or of another
        sent = clients[0].clone()
        sent[torch.stack(clients).mean(0)[:, 0].topk(sure).indices] = torch.eye(CLASSES)[claimed]
        assert judge(Opinions.of([sent, *clients[1:]])).excluded == left_out


def test_of_three_clients_nobody_can_be_judged() -> None:
    clients = crowd(3)
    sent = attacked("random", clients[:1], clients[1:])
    assert judge(Opinions.of([*sent, *clients[1:]])).excluded == ()


def test_fewer_than_half_may_go() -> None:
    clients = crowd(10)
    sent = attacked("random", clients[:7])
    assert len(judge(Opinions.of([*sent, *clients[7:]])).excluded) <= 4


def test_clients_without_a_common_class_are_no_suspects() -> None:
    rng = numpy_generator(0, "apart")
    apart = []
    for k in range(4):  # client k puts every image into one of its own five classes
        logits = rng.standard_normal((SAMPLES, CLASSES))
        logits[:, 5 * k : 5 * k + 5] += 20
        apart.append(torch.softmax(torch.from_numpy(logits), 1))
    assert judge(Opinions.of(apart)).excluded == ()


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(InputError, match="no client"):
        Opinions.of([])
    with pytest.raises(InputError, match="the others"):
        Opinions.of([torch.full((4, 2), 0.5), torch.full((4, 3), 1 / 3)])
    with pytest.raises(InputError, match="did you mean 'constant'"):
        attacked("constnat", crowd(1))


def test_what_could_not_be_compared_is_not_in_the_sentence() -> None:
    unknown = Evidence(0.01, float("nan"), 0.3, False, False, None, 0.77, 1.0)
    assert unknown.sentence(["a"]) == (
        "It agrees too little with the others beyond chance: 0.01 (usual: 0.77) on all images."
    )
    known = replace(unknown, surest=0.1)
    assert known.sentence(["a"]).endswith("on all images, 0.10 (usual: 1.00) on those it is surest of.")
