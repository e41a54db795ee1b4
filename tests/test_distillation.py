"""``fedol.distill``: a server from plain arrays, and what may and may not change it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedol
from fedol.data import load
from fedol.data.samples import samples
from fedol.errors import InputError
from fedol.methods import Distillation
from fedol.methods.fedol import FedOL
from fedol.seeding import derive
from fedol.training import Job, Recipe, fit

CPU = torch.device("cpu")

DIGITS = load("digits")
PUBLIC, TRUTH = DIGITS.train.x[:200], DIGITS.train.y[:200]
SETTINGS: dict[str, Any] = {"model": "cnn", "width": 8, "epochs": 4, "iterations": 3, "batch_size": 32, "device": "cpu"}


def teachers(count: int = 3, sure: float = 0.7) -> list[np.ndarray]:
    """Clients that are right about most samples, each unsure of others."""
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(count):
        strength = rng.uniform(0, sure, size=(200, 1))
        answers.append(strength * np.eye(10)[TRUTH] + (1 - strength) * rng.dirichlet(np.ones(10), size=200))
    return answers


def weights(server: Any) -> dict[str, torch.Tensor]:
    return dict(server.module.state_dict())


def equal(one: Any, other: Any) -> bool:
    return all(torch.equal(weights(one)[name], weights(other)[name]) for name in weights(one))


@pytest.fixture(scope="module")
def server() -> Any:
    return fedol.distill(teachers(), PUBLIC, **SETTINGS)


def test_the_server_learns_what_the_clients_know(server: Any) -> None:
    test = DIGITS.test
    assert (server.predict(test.x) == test.y).mean() > 0.75
    np.testing.assert_allclose(server.predict_proba(test.x).sum(1), 1, atol=1e-5)
    assert server.predict(test.x).dtype == np.int64
    assert server.classes == tuple("0123456789")
    assert not server.module.training


def test_history_has_a_record_per_iteration(server: Any) -> None:
    assert [record["iteration"] for record in server.history] == [1, 2, 3]
    for record in server.history:
        assert set(record) == {"iteration", "rho", "coverage", "voters", "score", "loss", "prior"}
    assert [record["rho"] for record in server.history] == [0.1, 0.15, 0.2]
    assert [record["voters"] for record in server.history] == pytest.approx(
        [3 * 0.1, 4 * 0.15, 4 * 0.2]
    )  # + the server
    assert all(0 < record["coverage"] <= 1 and -1 < record["score"] <= 1 for record in server.history)


def test_arrays_tensors_and_knowledge_are_the_same_to_it(server: Any) -> None:
    tensors = [torch.from_numpy(client) for client in teachers()]
    assert equal(server, fedol.distill(tensors, torch.from_numpy(PUBLIC), **SETTINGS))
    knowledge = (fedol.Knowledge.from_probabilities(client) for client in teachers())  # a generator will do
    assert equal(server, fedol.distill(knowledge, PUBLIC, **SETTINGS))


def test_the_seed_decides(server: Any) -> None:
    assert equal(server, fedol.distill(teachers(), PUBLIC, seed=0, **SETTINGS))
    assert not equal(server, fedol.distill(teachers(), PUBLIC, seed=1, **SETTINGS))


@pytest.mark.parametrize(
    "setting",
    [
        {"tau": 0.0},
        {"rho": 0.5},
        {"rho_step": 0.3},
        {"lr": 0.002},
        {"iterations": 2},
        {"augment": True},
        {"schedule": "cosine"},
        {"patch": "cutmix"},
        {"average": 0.9},
        {"weight_decay": 10.0},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_every_setting_reaches_the_server(setting: dict[str, Any], server: Any) -> None:
    assert not equal(server, fedol.distill(teachers(), PUBLIC, **{**SETTINGS, **setting}))


@pytest.mark.parametrize("setting", [{"augment": "yes"}, {"schedule": 1}, {"lr": True}, {"average": "much"}])
def test_a_setting_of_the_wrong_kind(setting: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must be (true or false|a number|text), but is"):
        fedol.distill(teachers(), PUBLIC, **{**SETTINGS, **setting})


@pytest.mark.parametrize("name", ["fedol", "fedol-reinit"])
def test_an_iteration_continues_the_weights_or_restarts_with_a_fresh_optimiser_and_the_servers_vote(name: str) -> None:
    first, both = (
        fedol.distill(teachers(), PUBLIC, method=name, **{**SETTINGS, "iterations": count}) for count in (1, 2)
    )
    recipe = Recipe(epochs=4, batch_size=32)
    method = FedOL([fedol.Knowledge.from_probabilities(client) for client in teachers()], Distillation(recipe=recipe))
    targets = method.targets(2, torch.from_numpy(first.predict_proba(PUBLIC))).soft
    if name == "fedol-reinit":
        first.module = first.architecture.build(derive(0, "server", "init", 2))
    seed, prepare = derive(0, "server", 2), first.architecture.prepare
    (result,) = fit([Job("by hand", first.module, samples(PUBLIC), targets, prepare, recipe, seed)], CPU)
    assert result.error is None
    assert equal(first, both)


class Mine(nn.Module):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(x)
        return logits


def test_a_model_and_class_names_of_ones_own() -> None:
    names = [f"digit {c}" for c in range(10)]
    server = fedol.distill(teachers(), PUBLIC, classes=names, **{**SETTINGS, "model": Mine})
    assert isinstance(server.module, Mine)
    assert server.classes == tuple(names)


def test_one_client_is_plain_distillation() -> None:
    server = fedol.distill(teachers(1, sure=1.0), PUBLIC, **SETTINGS)
    assert len(server.history) == 3
    assert server.history[0]["coverage"] == pytest.approx(0.1)


def test_without_a_model_it_is_one_for_the_samples() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3)).astype(np.float32)
    probs = rng.dirichlet([1, 1], 40)
    server = fedol.distill([probs, probs], rows, iterations=1, epochs=1, device="cpu")
    assert server.architecture.model == "mlp-large"
