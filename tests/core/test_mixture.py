"""Eq. 7 and 12: the single soft target has the gradient of the literal sum over clients."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedol import Mixture, client_weights, entropy, soft_targets
from fedol.errors import InputError


def literal_loss(logits: torch.Tensor, probs: torch.Tensor, labels: torch.Tensor, tau: float) -> torch.Tensor:
    """Eq. 7 as the paper writes it: one KL term per client, weighted per sample by Eq. 12, and the label term."""
    log_s = torch.log_softmax(logits, 1)
    total = torch.zeros((), dtype=torch.float64)
    for x in range(logits.shape[0]):
        h = [-sum(float(p) * math.log(p) for p in client[x] if p > 0) for client in probs]
        below = sum(math.exp(-value) for value in h)
        for k, client in enumerate(probs):
            weight = math.exp(-h[k]) / below
            held = client[x] > 0
            total = total + weight * (client[x][held] * (client[x][held].log() - log_s[x][held])).sum()
        if labels[x] >= 0:
            total = total - tau * log_s[x, labels[x]]
    return total / logits.shape[0]


def gradient(loss: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    (result,) = torch.autograd.grad(loss, logits)
    return result


@pytest.mark.parametrize("concentration", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("tau", [0.0, 0.2, 3.0])
@pytest.mark.parametrize("clients", [1, 2, 7])
def test_the_gradient_is_that_of_the_sum_over_clients(clients: int, tau: float, concentration: float) -> None:
    rng = np.random.default_rng([clients, int(10 * tau), int(100 * concentration)])
    probs = torch.from_numpy(rng.dirichlet(np.full(6, concentration), size=(clients, 15)))
    labels = torch.from_numpy(rng.integers(-1, 6, size=15))
    labels[0] = -1
    logits = torch.from_numpy(3 * rng.normal(size=(15, 6))).requires_grad_()
    ours = F.cross_entropy(logits, soft_targets(probs, labels, tau))
    theirs = literal_loss(logits, probs, labels, tau)
    torch.testing.assert_close(gradient(ours, logits), gradient(theirs, logits), rtol=0, atol=1e-15)


def test_zeros_in_a_prediction_are_no_trouble() -> None:
    probs = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]]], dtype=torch.float64)
    logits = torch.tensor([[0.3, -0.2, 0.1]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0])
    ours = gradient(F.cross_entropy(logits, soft_targets(probs, labels, 0.2)), logits)
    torch.testing.assert_close(ours, gradient(literal_loss(logits, probs, labels, 0.2), logits), rtol=0, atol=1e-15)


def test_client_weights_are_the_softmax_of_minus_the_entropy() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(5), size=(4, 30))
    weights = client_weights(probs)
    assert weights.shape == (4, 30)
    np.testing.assert_allclose(weights.sum(0), 1, atol=1e-15)
    np.testing.assert_allclose(weights, np.exp(-entropy(probs)) / np.exp(-entropy(probs)).sum(0), rtol=1e-14)


def test_a_sure_client_against_nine_at_one_nat_weighs_as_methods_md_says() -> None:
    p = 0.8  # of two classes plus a rest, tuned by bisection to an entropy of one nat
    low, high = 0.34, 0.99
    for _ in range(200):
        p = (low + high) / 2
        low, high = (p, high) if entropy(np.array([p, (1 - p) / 2, (1 - p) / 2])) > 1 else (low, p)
    probs = np.array([[[1.0, 0.0, 0.0]], *([[[p, (1 - p) / 2, (1 - p) / 2]]] * 9)])
    assert client_weights(probs)[0, 0] == pytest.approx(1 / (1 + 9 / math.e), abs=1e-12)


def test_one_client_weighs_one_and_is_its_own_target() -> None:
    probs = np.random.default_rng(1).dirichlet(np.ones(4), size=(1, 9))
    np.testing.assert_array_equal(client_weights(probs), np.ones((1, 9)))
    np.testing.assert_allclose(soft_targets(probs), probs[0], rtol=1e-15)


def test_the_label_adds_tau_and_minus_one_adds_nothing() -> None:
    probs = np.random.default_rng(2).dirichlet(np.ones(3), size=(2, 4))
    mixture = soft_targets(probs)
    np.testing.assert_allclose(mixture.sum(1), 1, atol=1e-15)
    added = soft_targets(probs, np.array([-1, 0, 2, -1]), 0.2) - mixture
    np.testing.assert_allclose(added, [[0, 0, 0], [0.2, 0, 0], [0, 0, 0.2], [0, 0, 0]], atol=1e-15)
    np.testing.assert_array_equal(soft_targets(probs, np.array([-1, 0, 2, -1]), 0.0), mixture)


@pytest.mark.parametrize("wide", [False, True])
def test_numpy_and_torch_give_the_same_answers_in_their_own_company(wide: bool) -> None:
    probs = np.random.default_rng(3).dirichlet(np.ones(5), size=(3, 20)).astype(np.float64 if wide else np.float32)
    labels = np.random.default_rng(3).integers(-1, 5, size=20)
    for array, tensor in (
        (client_weights(probs), client_weights(torch.from_numpy(probs))),
        (soft_targets(probs, labels, 0.2), soft_targets(torch.from_numpy(probs), torch.from_numpy(labels), 0.2)),
    ):
        assert isinstance(tensor, torch.Tensor)
        assert array.dtype == probs.dtype
        np.testing.assert_array_equal(array, tensor.numpy())


def test_client_by_client_equals_all_at_once() -> None:
    probs = torch.from_numpy(np.random.default_rng(4).dirichlet(np.ones(5), size=(3, 20)))
    mixture = Mixture()
    for client in probs:
        mixture.add(client)
    assert torch.equal(mixture.mean(), soft_targets(probs))
    with pytest.raises(InputError, match=r"A client predicts \[19, 5\], the others \[20, 5\]"):
        mixture.add(probs[0, :19])
    with pytest.raises(InputError, match="nothing to mix"):
        Mixture().mean()


@pytest.mark.parametrize(
    ("labels", "tau", "sentence"),
    [
        ([0, 1], 0.2, "labels must be 3 integers"),
        ([0.0, 1.0, 2.0], 0.2, "labels must be 3 integers"),
        ([0, 1, 4], 0.2, r"labels must lie in -1\.\.3, but reach 0\.\.4"),
        ([0, 1, -2], 0.2, r"labels must lie in -1\.\.3, but reach -2\.\.1"),
        ([0, 1, 2], -0.1, "tau must be a finite number of at least 0"),
        ([0, 1, 2], math.nan, "tau must be a finite number of at least 0"),
    ],
)
def test_wrong_labels_and_tau_are_refused(labels: list[float], tau: float, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        soft_targets(np.full((2, 3, 4), 0.25), np.array(labels), tau)
