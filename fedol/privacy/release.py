"""Saying less without training again: what a client can do to its predictions before it sends them.

    label            the predicted class alone                             no formal guarantee
    noise:SIGMA      Gaussian noise of SIGMA nats on the log-probabilities  no formal guarantee
    response:EPSILON randomised response: the predicted class, replaced at random

Only randomised response has an accounting, and it is easily misread. Each reported class is ε-differentially private
with respect to *the model's answer on that one public image*: whoever sees the report can hardly tell what the model
said there. That protects no training image as such: one training image may change many answers, and over N public
images the guarantees add up to N·ε. To protect training images, train with ``--dp-epsilon``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.knowledge.header import PUBLIC_LABEL, Guarantee

# Beyond that a wrong answer is so rare that the random numbers' last bit decides it, and ε would not hold.
MOST = {"noise": 100.0, "response": 20.0}


def released(knowledge: Knowledge, how: str) -> Knowledge:
    """The knowledge as it is to be sent, without masses and class list: the strength is not about what they tell."""
    kind, strength = parsed(how)
    knowledge = knowledge.without_mass().without_classes()
    samples, classes = knowledge.log_probs.shape
    top = knowledge.log_probs.argmax(1)
    rng = np.random.default_rng()  # from the system's entropy: whoever could draw the same noise could subtract it
    if kind == "label":
        return replace(knowledge, log_probs=_reported(top, classes, 1 - 1e-6))
    if kind == "noise":
        noise = torch.from_numpy(rng.normal(0, strength, (samples, classes))).float()
        return replace(knowledge, log_probs=torch.log_softmax(knowledge.log_probs + noise, 1))
    truth = math.exp(strength) / (math.exp(strength) + classes - 1)
    shift = torch.from_numpy(np.where(rng.random(samples) < truth, 0, rng.integers(1, classes, samples)))
    # A promise from private training still holds, and says more: noise on top takes nothing away from it.
    guarantee = knowledge.privacy or Guarantee(strength, 0.0, PUBLIC_LABEL)
    return replace(knowledge, log_probs=_reported((top + shift) % classes, classes, truth), privacy=guarantee)


def parsed(how: str) -> tuple[str, float]:
    """The kind of release and its strength, or an error: worth knowing before a model is asked."""
    kind, _, text = how.partition(":")
    if how == "label":
        return kind, 0.0
    if kind not in MOST:
        raise InputError(f"There is no release '{how}'; use label, noise:SIGMA or response:EPSILON.")
    return kind, _strength(kind, text)


def _reported(label: torch.Tensor, classes: int, right: float) -> torch.Tensor:
    """Log-probabilities that say: this class with the probability that the report is the model's own."""
    rest = (1 - right) / (classes - 1)
    return torch.full((len(label), classes), math.log(rest)).scatter(1, label[:, None], math.log(right))


def _strength(kind: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MOST[kind]:
        raise InputError(f"'{kind}:{text}' needs a number above 0 and up to {MOST[kind]:g}, for instance {kind}:2.")
    return value
