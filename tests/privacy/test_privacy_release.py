"""Releases without training again: what they say, and what they promise."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.knowledge.header import TRAINING_EXAMPLE, Guarantee
from fedol.privacy.release import released

KNOWN = Knowledge.from_probabilities(np.random.default_rng(0).dirichlet(np.ones(5), 4000))
TOP = KNOWN.log_probs.argmax(1)


def test_a_label_says_the_class_alone() -> None:
    said = released(KNOWN, "label")
    assert torch.equal(said.log_probs.argmax(1), TOP) and said.privacy is None
    assert len(said.log_probs.exp().unique()) == 2


def test_noise_promises_nothing_and_changes_answers() -> None:
    said = released(KNOWN, "noise:3")
    assert said.privacy is None and 0.2 < (said.log_probs.argmax(1) == TOP).double().mean() < 0.9


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_response_keeps_its_ratio(epsilon: float) -> None:
    said = released(KNOWN, f"response:{epsilon}")
    kept = (said.log_probs.argmax(1) == TOP).double().mean().item()
    truth = math.exp(epsilon) / (math.exp(epsilon) + 4)
    assert kept == pytest.approx(truth, abs=5 * math.sqrt(truth * (1 - truth) / 4000))
    assert (
        said.privacy is not None and said.privacy.epsilon == epsilon and "not the training data" in said.privacy.covers
    )
    np.testing.assert_allclose(said.probabilities().max(1).values, truth, rtol=1e-4)


def test_a_promise_from_training_outlives_every_release() -> None:
    promise = Guarantee(3.0, 1e-5, TRAINING_EXAMPLE)
    for how in ("label", "noise:1", "response:2"):
        assert released(replace(KNOWN, privacy=promise), how).privacy == promise


def test_the_largest_epsilon_still_leaves_room_for_a_lie() -> None:
    said = released(KNOWN, "response:20")
    assert torch.isfinite(said.log_probs).all() and said.probabilities().max() < 1 + 1e-6


@pytest.mark.parametrize("how", ["labels", "noise", "noise:-1", "response:x", "response:0", "response:50", "label:2"])
def test_a_release_that_there_is_not(how: str) -> None:
    with pytest.raises(InputError):
        released(KNOWN, how)
