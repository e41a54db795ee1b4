"""The sum of ratios against its definition, written out."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import fedol
from fedol.core.union import MOST, Union, bounded, familiarity, guessed_mass, tamed, unsure_above
from fedol.errors import InputError
from fedol.knowledge import Knowledge


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


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("clients", [1, 3])
def test_every_kind_of_number_and_one_client(kind: Any, clients: int) -> None:
    ratios = np.exp(np.random.default_rng(4).normal(0, 2, (clients, 9, 3)))
    ratios[0, 2], ratios[:, 5] = 0, 0
    given: Any = torch.from_numpy(ratios).to(kind) if isinstance(kind, torch.dtype) else ratios.astype(kind)
    found = fedol.union(given)
    double = kind in (np.float64, torch.float64)
    assert str(found.dtype).removeprefix("torch.") == ("float64" if double else "float32")
    exactly = given.double().numpy() if isinstance(given, torch.Tensor) else given.astype(np.float64)
    np.testing.assert_allclose(np.asarray(found), literal(exactly), rtol=1e-12 if double else 1e-6)


def test_the_largest_and_the_smallest_numbers() -> None:
    """Sums that a float64 does not hold, and ratios below all that is normal: compared with exact fractions."""
    most, least = np.finfo(np.float64).max, 5e-324
    ratios = np.array([[[most, most / 4], [least, 0.0], [most, least]], [[most, most], [0.0, least], [most, least]]])
    fractions = [[sum(Fraction(float(r)) for r in ratios[:, x, c]) for c in range(2)] for x in range(3)]
    expected = [[float(part / sum(row)) for part in row] for row in fractions]
    np.testing.assert_allclose(fedol.union(ratios), expected, rtol=1e-12, atol=1e-300)
    assert (fedol.union(np.zeros((2, 4, 5))) == 0.2).all()


@pytest.mark.parametrize("ratios", [[[[1.0, 2.0]]], np.array([[["a", "b"]]]), np.array([[[1 + 2j]]]), None])
def test_what_is_no_array_of_numbers(ratios: Any) -> None:
    if isinstance(ratios, list):  # nested lists are numbers, too
        np.testing.assert_allclose(fedol.union(ratios), [[1 / 3, 2 / 3]])  # type: ignore[arg-type]
        return
    with pytest.raises(ValueError, match="ratios must be"):
        fedol.union(ratios)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, torch.bfloat16, np.int64])
def test_knowledge_from_ratios_of_every_kind(kind: Any) -> None:
    ratios = np.array([[1.0, 3.0], [0.0, 2.0], [0.0, 0.0]])
    given: Any = torch.from_numpy(ratios).to(kind) if isinstance(kind, torch.dtype) else ratios.astype(kind)
    knowledge = Knowledge.from_ratios(given, private=5, folds=2)
    assert knowledge.ratios is not None and (knowledge.ratios.private, knowledge.ratios.folds) == (5, 2)
    back = knowledge.log_ratios().double().exp()
    np.testing.assert_allclose(back[:2], ratios[:2], rtol=0.01, atol=1e-30)  # masses travel in steps of 1/64 nat
    assert back[2].sum() < 1e-20 and torch.isfinite(knowledge.log_probs).all()  # of which the client knows nothing


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        (np.ones(3), r"shape \[samples, classes\], but have \[3\]"),
        (np.ones((2, 3, 4)), r"\[2, 3, 4\]"),
        (np.ones((0, 3)), r"\[0, 3\]"),
        (np.array([[1.0, -1e-9]]), r"alice's ratios must be finite and at least 0, but hold -1e-09 at \[0, 1\]"),
        (np.array([[np.nan, 1.0]]), r"nan at \[0, 0\]"),
        (torch.tensor([[1.0, torch.inf]]), r"inf at \[0, 1\]"),
        (np.array([["a", "b"]]), "numbers"),
        (np.array([[1j, 1.0]]), "numbers"),
    ],
)
def test_knowledge_from_what_is_no_ratio(ratios: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Knowledge.from_ratios(ratios, client="alice")
    for numbers in ({"private": -1}, {"folds": 0}, {"private": 2.5}):
        with pytest.raises(ValueError, match=r"A client has no (-1|0|2.5) private samples"):
            Knowledge.from_ratios(np.ones((2, 3)), **numbers)  # type: ignore[arg-type]
    for value in (np.nan, np.inf):
        with pytest.raises(
            ValueError, match=r"log-ratios must be finite or minus infinity, but hold (nan|inf) at \[1, 0\]"
        ):
            Knowledge.from_log_ratios(np.array([[0.0, -np.inf], [value, 0.0]]))
    counted = Knowledge.from_ratios(np.ones((2, 3)), private=np.int64(7), folds=np.int32(2))  # type: ignore[arg-type]
    assert Knowledge.decode(counted.encode())[1].ratios == counted.ratios


def test_huge_and_tiny_ratios_are_bounded_in_knowledge_and_stay_in_order() -> None:
    ratios = np.array([[1e300, 1e-300], [1e-300, 1e-310], [1.0, 1.0], [2.0, 0.5], [1e308, 1e308]])
    knowledge = Knowledge.from_ratios(ratios)
    mass = knowledge.log_mass
    assert mass is not None and torch.isfinite(mass).all() and (mass - mass.median()).abs().max() <= MOST
    assert mass.argmin() == 1 and knowledge.probabilities().argmax(1)[:2].tolist() == [0, 0]


def test_masses_of_a_model_that_is_too_sure_get_the_mean_that_densities_have() -> None:
    share, true = 0.4, torch.linspace(-2, 1, 101, dtype=torch.float64)
    true = true - true.exp().mean().log() + math.log(share)  # the mean of a density's masses
    assert torch.equal(tamed(true, share), true)
    assert torch.equal(tamed(true - 1, share), true - 1)  # another domain, or classes that the public set lacks
    sure = 1.8 * (true - math.log(share)) + math.log(share)
    torch.testing.assert_close(tamed(sure, share), true, rtol=0, atol=1e-8)
    for far in (3.5 * sure, torch.linspace(-1, 6, 101)):  # the other likelier than the public set nearly everywhere
        found = tamed(far, share)
        assert found.exp().mean().item() == pytest.approx(share)
        torch.testing.assert_close(found.diff(), far.double().diff() / 2)  # it still says where it is at home
