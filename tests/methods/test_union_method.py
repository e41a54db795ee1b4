"""The method union: which sum it teaches, and when."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedol.core.pooling import Pool, balanced
from fedol.core.union import doubted
from fedol.core.voting import shannon
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, Targets, find
from fedol.methods.union import STRANGE, softened

SAMPLES, CLASSES, PRIVATE = 60, 4, 30


def client(seed: int, familiar: float, plain: bool = False) -> Knowledge:
    """A client whose masses are ``familiar`` times what the same domain would have."""
    rng = np.random.default_rng(seed)
    own = Knowledge.from_probabilities(rng.dirichlet(np.full(CLASSES, 0.3), SAMPLES), client=f"client {seed}")
    if plain:
        return own
    mass = rng.normal(0, 1, SAMPLES)
    mass += math.log(familiar * PRIVATE / SAMPLES) - np.log(np.exp(mass).mean())
    return own.with_mass(mass, PRIVATE, 2)


def taught(clients: list[Knowledge]) -> Targets:
    return find("union").teacher(clients, Distillation(method="union")).targets(1, None)


def test_ratios_are_added_up() -> None:
    clients = [client(k, 1.0) for k in range(3)]
    total = sum(c.log_ratios().double().exp() for c in clients)
    expected = total / total.sum(1, keepdim=True)
    found = taught(clients)
    assert found.record["familiarity"] > STRANGE and found.record["ratios"] == 1
    assert (found.soft.argmax(1) == expected.argmax(1)).all()  # a temperature changes no order
    assert shannon(found.soft.double()).mean() >= shannon(expected).mean() - 1e-6


@pytest.mark.parametrize("plain", [False, True])
def test_another_domain_doubts_masses_and_balances(plain: bool) -> None:
    """The rule written out, a client at a time."""
    clients = [client(k, 0.01) for k in range(3)] + ([client(3, 1.0, plain=True)] if plain else [])
    found = taught(clients)
    pool, total, share = Pool(), torch.zeros(SAMPLES, CLASSES, dtype=torch.float64), PRIVATE / SAMPLES
    for c in clients:
        pool.add(c.log_probs)
        p = c.probabilities().double()
        mass = torch.exp(-shannon(p)) if c.log_mass is None else c.log_mass.double().exp()
        total += share * (mass / mass.mean()).sqrt()[:, None] * p
    expected = softened(total / total.sum(1, keepdim=True), pool.nats)
    expected = torch.softmax(balanced(expected.log(), pool.prior()), 1)
    assert found.strange is None and found.record["familiarity"] < STRANGE
    torch.testing.assert_close(found.soft.double(), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.soft.double().mean(0), pool.prior(), atol=1e-3, rtol=0)


def test_no_mass_at_all_is_the_pool() -> None:
    clients = [client(k, 1.0, plain=True) for k in range(3)]
    pool = Pool()
    for c in clients:
        pool.add(c.log_probs)
    torch.testing.assert_close(taught(clients).soft, pool.pooled().soft.float())


def test_a_doubted_mass_is_its_square_root_at_the_mean_of_a_density() -> None:
    mass = torch.tensor([0.1, 0.4, 0.7], dtype=torch.float64)
    expected = 0.25 * (mass / mass.mean()).sqrt()
    torch.testing.assert_close(doubted(mass.log(), 0.25).exp(), expected)
    torch.testing.assert_close(doubted((1e-9 * mass).log(), 0.25).exp(), expected)  # a client's own factor is gone
