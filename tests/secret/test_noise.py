"""Noise on the sum: the bound holds where it can be computed, the noise is what it should be, and ε is stated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special
from small_sum import NAMES, Secret

from fedol.errors import InputError
from fedol.secret.encoding import Encoding
from fedol.secret.helper import Ledger
from fedol.secret.noise import calibrated, divergence, epsilon, guarantee

pytest.importorskip("opacus", reason="accounting needs the package opacus")


@pytest.fixture
def noisy(tmp_path: Path) -> Secret:
    made = Secret(tmp_path)
    made.task = calibrated(replace(made.task, secret=replace(made.task.secret, bits=32)), 20.0, 1e-5, 2.0)
    return made


@pytest.mark.parametrize("order", [2, 5, 12])
@pytest.mark.parametrize(("moved", "variance"), [(1, 4.0), (3, 9.0), (10, 100.0)])
def test_the_bound_holds_in_one_dimension(order: int, moved: int, variance: float) -> None:
    """Against the Rényi divergence itself, summed up term by term."""
    points = np.arange(-60, order * moved + 100)
    p, q = (np.log(special.ive(np.abs(points - by), variance)) for by in (moved, 0))  # Skellam's probabilities
    assert np.isfinite(q).all() and np.exp(p).sum() == pytest.approx(1)
    exact = np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1)
    bound = divergence(order, moved, moved, variance)
    assert exact <= bound
    assert bound < 2.5 * exact  # a bound that holds of everything would say nothing


def test_more_noise_is_more_private_and_the_wanted_epsilon_is_met(noisy: Secret) -> None:
    terms = noisy.task.secret
    assert terms is not None
    spent = epsilon(Encoding.of(noisy.task), terms.least - 1)
    assert 19.9 < spent <= 20.0 and epsilon(Encoding.of(noisy.task), len(NAMES)) < spent
    less = replace(terms, noise=terms.noise / 2)
    assert epsilon(Encoding.of(replace(noisy.task, secret=less)), terms.least - 1) > 2 * spent
    promise = guarantee(noisy.task)
    assert promise is not None and (promise.epsilon, promise.delta) == (20.0, 1e-5)
    assert "any one client in the sum, against a part of zeros, where at least 2 others add noise" in str(promise)
    assert guarantee(replace(noisy.task, secret=None)) is None


def test_gaussian_accounting_is_near(noisy: Secret) -> None:
    """With a fine scale the discreteness costs nothing: the ε of a Gaussian of that variance, by Opacus itself."""
    from opacus.accountants.analysis.rdp import compute_rdp, get_privacy_spent

    terms, orders = noisy.task.secret, list(range(2, 64))
    assert terms is not None
    multiplier = terms.noise * (terms.least - 1) ** 0.5 / terms.norm
    rdp = compute_rdp(q=1.0, noise_multiplier=multiplier, steps=1, orders=orders)
    assert get_privacy_spent(orders=orders, rdp=rdp, delta=1e-5)[0] == pytest.approx(20.0, rel=0.01)


def test_the_noise_is_in_the_opened_sum(noisy: Secret) -> None:
    encoding, terms = Encoding.of(noisy.task), noisy.task.secret
    assert terms is not None and len(encoding.mixed) == 0
    noisy.send(*NAMES)
    sums = noisy.open(noisy.sum("A", *NAMES), noisy.sum("B", *NAMES)).sums
    assert sums.share == 0 and sums.mixture.shape == (0, 3) and (sums.ratios >= 0).all()
    clean = sum(encoding.values(noisy.knowledge(name)).reshape(-1, 3) for name in NAMES)
    off = (sums.ratios - clean)[sums.ratios > 0]
    assert 0.5 < off.square().mean().sqrt() / (terms.noise * len(NAMES) ** 0.5) < 1.6
    rng = np.random.default_rng(3)
    drawn = np.concatenate([encoding.encode(noisy.knowledge("bob"), rng).values.view(np.int32) for _ in range(300)])
    spread = (drawn / encoding.scale).reshape(300, -1).std(0)
    assert np.allclose(spread, terms.noise, rtol=0.25)


def test_no_client_has_a_longer_part_than_the_norm(noisy: Secret) -> None:
    encoding = Encoding.of(noisy.task)
    for name in NAMES:
        assert encoding.values(noisy.knowledge(name)).norm() <= 2.0 * (1 + 1e-12)


def test_one_sum_is_all_that_the_noise_covers(noisy: Secret) -> None:
    noisy.send(*NAMES)
    whole = noisy.sum("A", *NAMES[:3]).read_bytes()
    assert noisy.sum("A", *NAMES[:3]).read_bytes() == whole
    with pytest.raises(InputError, match="A sum of this task was given out already, and its noise covers one"):
        noisy.sum("A", *NAMES[3:])
    assert len(Ledger.read(noisy.folder / "A.ledger").tasks[noisy.task.id]) == 1


@pytest.mark.parametrize("wrong", [(0.0, 1e-5, 1.0), (1.0, 1.0, 1.0), (1.0, 1e-5, -1.0)])
def test_noise_that_makes_no_sense(secret: Secret, wrong: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="Noise needs helpers, a positive --dp-epsilon"):
        calibrated(secret.task, *wrong)
