"""The sum of ratios against its definition, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import fedol
from fedol.core.union import MOST, Union, bounded, familiarity, guessed_mass, unsure_above
from fedol.errors import InputError


def literal(ratios: np.ndarray) -> np.ndarray:
    """The definition, one number at a time."""
    clients, samples, classes = ratios.shape
    posterior = np.zeros((samples, classes))
    for x in range(samples):
        sums = [sum(float(ratios[k, x, c]) for k in range(clients)) for c in range(classes)]
        total = math.fsum(sums)
        for c in range(classes):
            posterior[x, c] = sums[c] / total if total else 1 / classes
    return posterior


@pytest.mark.parametrize("seed", range(5))
def test_the_union_is_the_normalised_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratios = np.exp(rng.normal(0, 5, (4, 30, 7)))
    ratios[rng.random(ratios.shape) < 0.5] = 0.0
    ratios[:, 3] = 0.0  # nobody knows this one
    found = fedol.union(ratios)
    assert isinstance(found, np.ndarray) and found.dtype == np.float64
    np.testing.assert_allclose(found, literal(ratios), rtol=1e-12, atol=1e-300)
    one = fedol.union(torch.from_numpy(ratios).float())
    assert isinstance(one, torch.Tensor) and one.dtype == torch.float32
    np.testing.assert_allclose(one.numpy(), literal(ratios.astype(np.float32)), rtol=1e-6, atol=1e-12)


def test_two_densities_give_the_posterior_of_their_union() -> None:
    """Exact ratios of known densities: what a classifier on all data would say, whoever holds what."""
    rng = np.random.default_rng(0)
    cells = rng.dirichlet(np.ones(12), 3)  # f(x | c) over twelve cells
    counts = rng.integers(1, 50, (4, 3))  # n_kc
    public = rng.dirichlet(np.ones(12))  # any public density
    ratios = counts[:, None, :] * cells.T[None] / (1000 * public[None, :, None])
    joint = counts.sum(0) * cells.T
    np.testing.assert_allclose(fedol.union(ratios), joint / joint.sum(1, keepdims=True), rtol=1e-12)


def test_clients_may_come_one_by_one_and_huge() -> None:
    logs = torch.tensor([[[900.0, -900.0]], [[-torch.inf, 899.0]], [[-torch.inf, -torch.inf]]], dtype=torch.float64)
    total = Union()
    for client in logs:
        total.add(client)
    expected = 1 / (1 + math.exp(-1))
    assert total.posterior()[0].tolist() == pytest.approx([expected, 1 - expected])
    assert total.log_mass().item() == pytest.approx(900 + math.log1p(math.exp(-1)))
    more = total.including(torch.full((1, 2), 905.0))
    assert more.log_mass() > total.log_mass()  # and the sum before it stays as it was
    assert total.log_mass().item() == pytest.approx(900 + math.log1p(math.exp(-1)))


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        (np.zeros((2, 3)), "shape"),
        (np.zeros((0, 3, 2)), "shape"),
        (np.zeros((1, 3, 2), int), "floating"),
        (np.array([[[1.0, -1.0]]]), r"-1.0 at \[0, 0, 1\]"),
        (np.array([[[1.0, np.inf]]]), "inf at"),
        (np.array([[[np.nan, 1.0]]]), "nan at"),
    ],
)
def test_what_is_no_ratio_is_refused(ratios: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fedol.union(ratios)


def test_the_streaming_sum_refuses_what_does_not_fit() -> None:
    total = Union()
    with pytest.raises(InputError, match="nothing to add up"):
        total.posterior()
    total.add(torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"\[2, 4\]"):
        total.add(torch.zeros(2, 4))
    for bad in (torch.nan, torch.inf):
        with pytest.raises(InputError, match="NaN or infinity"):
            total.add(torch.full((2, 3), bad))


def test_a_mass_stays_within_reach_of_the_usual_one() -> None:
    mass = bounded(torch.tensor([1.0, 2.0, 3.0, 1e9, -torch.inf, torch.nan]))
    assert mass.tolist() == [1, 2, 3, 2 + MOST, 2 - MOST, 2]
    assert bounded(torch.full((3,), -torch.inf)).tolist() == [-MOST] * 3


def test_the_guessed_mass_has_the_mean_of_a_density() -> None:
    probs = torch.softmax(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 3, 1)
    mass = guessed_mass(probs, 0.25).exp()
    assert mass.mean().item() == pytest.approx(0.25)
    entropy = -(probs * probs.log()).sum(1)
    assert (mass.argsort() == (-entropy).argsort()).all()
    assert familiarity(mass.log(), 0.25).mean().item() == pytest.approx(1.0)


@pytest.mark.parametrize("strange", [0, 1, 7])
def test_as_many_predictions_are_unsure_as_samples_are_strange(strange: int) -> None:
    probs = torch.from_numpy(np.random.default_rng(3).dirichlet(np.ones(5), 20))
    above = unsure_above(probs, strange)
    assert sum(float(-(p * p.log()).sum()) > above for p in probs) == strange
