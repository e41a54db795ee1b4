"""Defences inside the vote and the mixture; and what is defended by default."""

import math

import numpy as np
import pytest
import torch

import fedol
from fedol.core.voting import Ballots
from fedol.errors import InputError
from fedol.robust import DEFAULT, Defence


def dirichlet(models: int, samples: int, classes: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(classes), size=(models, samples)))


def voters(exact: bool, probs: torch.Tensor, count: int) -> torch.Tensor:
    ballots = Ballots(exact)
    for model in probs:
        ballots.add(model)
    return ballots.elect(count).voters


def test_the_exact_gate_admits_exactly_that_many_samples() -> None:
    constant = torch.eye(5, dtype=torch.float64)[:1].expand(40, 5)  # zero entropy everywhere
    assert voters(False, constant[None], 4).tolist() == [1] * 40
    assert voters(True, constant[None], 4).tolist() == [1] * 4 + [0] * 36


def test_without_ties_the_exact_gate_is_the_paper_s() -> None:
    probs = dirichlet(6, 50, 4)
    for count in (1, 7, 50):
        assert torch.equal(voters(True, probs, count), voters(False, probs, count))


def test_the_cap_bounds_what_a_class_confidence_counts_for() -> None:
    # The third model puts nearly all of its mass on class 2 (C² = 0.95) and wins; capped at 2/4 it does not.
    models = [[0.5, 0.15, 0, 0.35], [0.1, 0.1, 0.25, 0.55], [0.05, 0, 0.95, 0]]
    for cap, label in ((math.inf, 2), (2.0, 0)):
        ballots = Ballots(cap=cap)
        for row in models:
            ballots.add(torch.tensor([row] * 8))
        assert ballots.elect(8).labels.tolist() == [label] * 8


def test_the_cap_stays_for_the_server_s_vote() -> None:
    ballots = Ballots(exact=True, cap=2.0)
    ballots.add(torch.full((8, 4), 0.25))
    more = ballots.including(torch.tensor([[1.0, 0, 0, 0]] * 8))
    assert more._ballots[-1].confidence[0] == 0.5
    assert more.elect(3).voters.tolist() == [2] * 3 + [0] * 5


def test_the_floor_takes_the_advantage_of_certainty() -> None:
    sure, unsure = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.4, 0.6]])
    weights = {}
    for floor in (0.0, 0.5):
        mixture = fedol.Mixture(floor)
        mixture.add(sure)
        mixture.add(unsure)
        weights[floor] = mixture.mean()[0, 0].item()
    h = fedol.entropy(unsure).item()
    for floor, value in weights.items():
        a, b = math.exp(-floor), math.exp(-max(h, floor))
        assert value == pytest.approx((a + 0.4 * b) / (a + b))


def test_names_of_defences() -> None:
    assert Defence.parse("none") == Defence()
    assert Defence.parse(DEFAULT) == Defence(trust=True, exact=True, cap=5.0, runoff=True)
    assert Defence.parse("floor").floor > 0
    with pytest.raises(InputError, match="did you mean 'trust'"):
        Defence.parse("trsut")


def elected(probs: torch.Tensor, count: int, runoff: bool) -> torch.Tensor:
    ballots = Ballots(exact=True, runoff=runoff)
    for model in probs:
        ballots.add(model)
    return ballots.elect(count).labels


def test_in_a_runoff_sure_models_nominate_and_all_choose() -> None:
    probs = dirichlet(5, 60, 4)
    count = 12
    h = torch.special.entr(probs).sum(2)
    found = elected(probs, count, True)
    typical = probs.mean(0) / probs.mean((0, 1))
    for x in range(60):
        sure = [m for m in range(5) if x in h[m].argsort(stable=True)[:count]]
        nominated = {int(probs[m, x].argmax()) for m in sure}
        expected = max(nominated, key=lambda c: float(typical[x, c])) if nominated else -1
        assert found[x] == expected


def test_a_runoff_gives_the_labels_of_the_same_samples() -> None:
    probs = dirichlet(5, 60, 4)
    assert torch.equal(elected(probs, 9, True) >= 0, elected(probs, 9, False) >= 0)


def test_a_specialist_s_certain_lie_loses_the_runoff() -> None:
    """Others give class 3 hardly any mass, so in Algorithm 1 the liar's vote outweighs three votes for the truth."""
    samples, truth = 36, torch.arange(36) % 3
    honest = torch.full((samples, 4), 0.02).scatter_(1, truth[:, None], 0.94)
    said = torch.where(torch.arange(samples) < samples // 2, 3, truth)
    probs = torch.stack([honest, honest, honest, torch.eye(4)[said]]).double()
    assert torch.equal(elected(probs, samples, False), said)
    assert torch.equal(elected(probs, samples, True), truth)


def test_the_runoff_stays_for_the_server_s_vote() -> None:
    probs = dirichlet(4, 30, 5)
    ballots = Ballots(runoff=True)
    for model in probs[:-1]:
        ballots.add(model)
    everyone = Ballots(runoff=True)
    for model in probs:
        everyone.add(model)
    assert torch.equal(ballots.including(probs[-1]).elect(6).labels, everyone.elect(6).labels)
