"""The audit of a client that sends masses: its shadows learn what is public, as it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedol.data import load, split
from fedol.federation.audit import words
from fedol.model import Architecture, ServerModel
from fedol.models.openset import OpenSet
from fedol.privacy.audit import Attacker, likelihood_ratio
from fedol.training import Job, Recipe, fit
from fedol.training.job import folds_of

CLASSES = [str(c) for c in range(10)]
RECIPE = Recipe(epochs=40, batch_size=32)


@pytest.fixture(scope="module")
def attacker() -> Attacker:
    """Against a client that knows 100 digits by heart."""
    data = split(load("digits"), 200, seed=0)
    mine, others = data.private.take(np.arange(100)), data.private.take(np.arange(100, 500))
    architecture = replace(Architecture.on(mine.samples, "mlp", CLASSES, 16), folds=2)
    net = architecture.build(1)
    assert isinstance(net, OpenSet)
    whole = Job("client", net, mine.samples, torch.from_numpy(mine.y), architecture.prepare, RECIPE, 1)
    for result in fit(list(folds_of(whole, net, data.shared, 10)), torch.device("cpu")):
        assert result.error is None
    return Attacker.of(ServerModel(net, architecture), mine, others, data.shared, RECIPE, 4)


@pytest.fixture(scope="module")
def found(attacker: Attacker) -> dict[str, Any]:
    return attacker.read("float32")


def test_masses_tell_members_from_others(found: dict[str, Any]) -> None:
    auc = {name: leak["auc"] for name, leak in found["membership"].items()}
    assert set(auc) == {
        *("threshold", "masses"),
        *(f"likelihood ratio{what}" for what in ("", " of masses", " of both")),
    }
    assert auc["masses"] > 0.7 and auc["likelihood ratio of both"] > 0.7
    assert any("likelihood ratio of predictions and masses" in line for line in words(found))


def test_no_codec_hides_masses(attacker: Attacker, found: dict[str, Any]) -> None:
    coarse, fine = attacker.read("top1")["membership"], found["membership"]
    assert coarse["likelihood ratio of masses"] == fine["likelihood ratio of masses"]
    assert coarse["likelihood ratio"]["auc"] < fine["likelihood ratio"]["auc"]


def test_what_is_released_has_no_masses_to_attack(attacker: Attacker) -> None:
    assert set(attacker.read("float32", "noise:1")["membership"]) == {"threshold", "likelihood ratio"}


def test_the_class_mix_is_that_of_the_samples_that_are_like_the_client_s(attacker: Attacker) -> None:
    said = attacker.said_publicly
    assert said.log_mass is not None
    weight = said.log_mass.double().exp().numpy()
    expected = (weight[:, None] * said.log_probs.double().exp().numpy()).sum(0) / weight.sum()
    np.testing.assert_allclose(said.mix(), expected, rtol=1e-6)


def test_two_figures_tell_what_neither_does() -> None:
    """Members have both figures high or both low, the others one of each."""
    rng = np.random.default_rng(0)
    inside = rng.random((40, 300)) < 0.5
    first = rng.normal(0, 1, (41, 300))
    member = rng.random(300) < 0.5
    sign = np.where(np.vstack([member, inside]), 1, -1)
    both = np.stack([first, sign * first + rng.normal(0, 0.1, first.shape)], 2)
    ratio = likelihood_ratio(both[0], both[1:], inside)
    assert ((ratio > 0) == member).mean() > 0.9
    alone = likelihood_ratio(both[0, :, 1], both[1:, :, 1], inside)
    assert ((alone > 0) == member).mean() < 0.7
