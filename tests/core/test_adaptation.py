"""A server's answers fitted to a site: exact where only the prior differs, cautious where there is little to go by."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fedol.core.adaptation import LEAST, Adaptation, chosen, fitted, shift, site_prior
from fedol.errors import InputError

CLASSES = 3


def labelled(samples: int, prior: list[float], seed: int, noise: float = 1.0) -> tuple[Tensor, np.ndarray]:
    """The exact log-likelihoods log f(x|c) of Gaussian classes at samples that are drawn by a prior."""
    rng = np.random.default_rng(seed)
    y = rng.choice(CLASSES, samples, p=prior)
    x = np.eye(CLASSES)[y] * 2 + noise * rng.normal(size=(samples, CLASSES))
    return torch.from_numpy(2 * x / noise**2), y


def posterior(likelihood: Tensor, prior: list[float]) -> Tensor:
    return torch.log_softmax(likelihood + torch.tensor(prior, dtype=torch.float64).log(), 1)


def right(log_probs: Tensor, y: np.ndarray) -> int:
    return int((log_probs.argmax(1).numpy() == y).sum())


def test_the_prior_is_replaced_exactly() -> None:
    usual, here = [1 / 3] * 3, [0.7, 0.2, 0.1]
    likelihood, _ = labelled(50, here, 0)
    likelihood = likelihood / 4  # far from the floor
    moved = Adaptation(tuple(np.log(np.array(here) / usual))).log_proba(posterior(likelihood, usual))
    assert torch.allclose(moved, posterior(likelihood, here), atol=1e-9)


def test_a_sites_shares_lean_on_the_federations_where_it_has_few_samples() -> None:
    assert np.allclose(site_prior([0, 0, 0], [0.5, 0.3, 0.2]), [0.5, 0.3, 0.2])
    found = site_prior([99, 0, 0], [0.5, 0.5, 0.0])
    assert found[0] > 0.99 and (found > 0).all() and found.sum() == pytest.approx(1)
    assert np.isfinite(shift([5, 5, 0], [1.0, 0.0, 0.0])).all()


def test_the_fit_has_no_slope() -> None:
    """The weights are where the penalised likelihood is greatest: any small step away makes it smaller."""
    server, y = labelled(200, [0.6, 0.3, 0.1], 1)
    own, _ = labelled(200, [0.6, 0.3, 0.1], 2, noise=2.0)
    server, own = posterior(server, [1 / 3] * 3), torch.log_softmax(own, 1)
    shifted = shift(np.bincount(y, minlength=3), [1 / 3] * 3)
    best = fitted(server, y, shifted, own)

    def score(given: Adaptation) -> float:
        said = given.log_proba(server, own)[torch.arange(len(y)), torch.from_numpy(y)].sum()
        away = np.array([given.server, given.prior, given.own]) - [0, 0, 1]
        return float(said) - 1.5 * float(away @ away)

    for name in ("server", "prior", "own"):
        for step in (-0.02, 0.02):
            weights = {"server": best.server, "prior": best.prior, "own": best.own}
            weights[name] = max(0.0, weights[name] + step)
            assert score(Adaptation(best.shift, **weights)) <= score(best) + 1e-6


def test_a_better_server_is_taken_and_a_useless_one_left() -> None:
    here = [0.6, 0.3, 0.1]
    good, y = labelled(300, here, 3)
    noise, doubt = torch.randn(2, 300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    server, noise = posterior(good, [1 / 3] * 3), torch.log_softmax(noise, 1)
    own = torch.log_softmax(0.3 * server + 0.5 * doubt, 1)
    shifted = shift(np.bincount(y, minlength=3), [1 / 3] * 3)
    taken = chosen(server, y, shifted, own)
    assert taken.adaptation.server > 0.3 and right(taken.crossed, y) > right(own, y)
    left = chosen(noise, y, np.zeros(3), server)
    assert left.adaptation.alone or left.adaptation.server < 0.1
    assert right(left.crossed, y) >= right(server, y)


def test_it_is_the_same_by_the_same_seed_and_does_with_two_samples() -> None:
    server, y = labelled(40, [1 / 3] * 3, 4)
    server = torch.log_softmax(server, 1)
    shifted = np.zeros(3)
    assert torch.equal(chosen(server, y, shifted, server, 1).crossed, chosen(server, y, shifted, server, 1).crossed)
    assert chosen(server[:2], np.array([0, 1]), shifted, server[:2]).crossed.shape == (2, 3)


def test_nothing_is_ruled_out() -> None:
    said = torch.tensor([[0.0, -np.inf, -np.inf]], dtype=torch.float64)
    assert Adaptation((0.0,) * 3).log_proba(said)[0, 1] > np.log(LEAST) - 0.1


@pytest.mark.parametrize("change", [{"shift": [0.0]}, {"own": float("nan")}])
def test_a_strangers_values_are_looked_at(change: dict[str, object]) -> None:
    good = Adaptation((0.0,) * 3).as_json()
    assert Adaptation.from_json(good, 3) == Adaptation((0.0,) * 3)
    with pytest.raises(InputError, match="makes no sense"):
        Adaptation.from_json({**good, **change}, 3)
