"""Predictions that are none: one clear sentence that says where, from every function that takes them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from commands import one_sentence

import fedol
from fedol.errors import InputError

UNIFORM = np.full((2, 6, 3), 1 / 3)
PUBLIC = np.zeros((6, 1, 8, 8), dtype=np.uint8)
QUICK = {"model": "mlp", "width": 4, "iterations": 1, "epochs": 1, "device": "cpu"}


def broken(where: tuple[int, ...], value: float) -> np.ndarray:
    probs = UNIFORM.copy()
    probs[where] = value
    return probs


PREDICTIONS = {
    "NaN": (broken((1, 4, 2), np.nan), r"NaN or an infinity at \[.*4, 2\]"),
    "infinity": (broken((1, 4, 2), np.inf), r"NaN or an infinity at \[.*4, 2\]"),
    "negative": (broken((1, 4, 2), -0.5), r"between 0 and 1, but hold -0.5 at \[.*4, 2\]"),
    "above one": (broken((1, 4, 2), 1.5), r"between 0 and 1, but hold 1.5 at \[.*4, 2\]"),
    "logits": (broken((1, 4, 2), 0.9), r"sum to 1 over the classes, but sum to 1.567 at \[.*4\]"),
    "integers": (np.ones((2, 6, 3), dtype=np.int64), "must be floating-point numbers"),
    "empty": (np.zeros((2, 0, 3)), r"are empty \(shape \[.*0, 3\]\)"),
    "words": (np.full((2, 6, 3), "a"), "must be a NumPy array or a torch tensor of numbers"),
}
ONE_BY_ONE: dict[str, Callable[[Any], Any]] = {
    "Knowledge": lambda probs: [fedol.Knowledge.from_probabilities(client) for client in probs],
    "distill": lambda probs: fedol.distill(list(probs), PUBLIC, **QUICK),
}
TOGETHER: dict[str, Callable[[Any], Any]] = {
    "pseudo_labels": lambda probs: fedol.pseudo_labels(probs, 0.5),
    "soft_targets": fedol.soft_targets,
    "client_weights": fedol.client_weights,
    "class_confidence": fedol.class_confidence,
}


@pytest.mark.parametrize("mistake", PREDICTIONS)
@pytest.mark.parametrize("name", [*ONE_BY_ONE, *TOGETHER, "entropy"])
def test_predictions_that_are_none(name: str, mistake: str) -> None:
    probs, sentence = PREDICTIONS[mistake]
    call = {**ONE_BY_ONE, **TOGETHER, "entropy": fedol.entropy}[name]
    with pytest.raises(InputError, match=sentence) as caught:
        call(probs)
    one_sentence(str(caught.value))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("shape", [(6, 3), (3,), (2, 2, 6, 3)])
def test_predictions_of_another_shape(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"must have the shape \[models, samples, classes\], but have"):
        TOGETHER[name](np.full(shape, 1 / 3))


@pytest.mark.parametrize("rho", [0, 0.0, -0.1, 1.5, np.nan, np.inf])
def test_rho_outside_its_range(rho: float) -> None:
    with pytest.raises(InputError, match=r"rho must lie in \(0, 1\], but is"):
        fedol.pseudo_labels(UNIFORM, rho)


@pytest.mark.parametrize(
    ("knowledge", "settings", "sentence"),
    [
        ([], {}, "no client to learn from"),
        (
            [np.full((6, 3), 1 / 3), np.full((6, 4), 1 / 4)],
            {},
            r"client 1 predicts \[6, 4\], .* client 0 has 3 classes",
        ),
        ([np.full((5, 3), 1 / 3)], {}, r"client 0 predicts \[5, 3\], but there are 6 public images"),
        ([np.zeros((0, 3))], {}, "client 0's probabilities are empty"),
        (list(UNIFORM), {"public": PUBLIC.astype(np.int32)}, "public samples must be uint8"),
        (list(UNIFORM), {"public": PUBLIC[:, 0]}, r"public samples must be uint8 \[N, channels, H, W\]"),
        (list(UNIFORM), {"classes": ["a", "b"]}, "There are 2 class names, but the clients predict 3 classes"),
        (list(UNIFORM), {"rho": 1.5}, "rho must lie in"),
        (list(UNIFORM), {"rho": 0}, "rho must lie in"),
        (list(UNIFORM), {"tau": -1.0}, "tau must be a finite number of at least 0"),
        (list(UNIFORM), {"iterations": 0}, "iterations must be at least 1"),
        (list(UNIFORM), {"epochs": -2}, "epochs must be at least 1"),
        (list(UNIFORM), {"epoch": 2}, "no setting 'epoch'; did you mean 'epochs'"),
        (list(UNIFORM), {"tau": "much"}, "'tau' must be a number, but is 'much'"),
        (list(UNIFORM), {"epochs": 1.5}, "'epochs' must be a whole number, but is 1.5"),
        (list(UNIFORM), {"iterations": 1.5}, "'iterations' must be a whole number, but is 1.5"),
        (list(UNIFORM), {"method": "fedoll"}, "no method 'fedoll'; did you mean 'fedol'"),
        (list(UNIFORM), {"model": "resnet57"}, "no model 'resnet57'.*nearest is 'resnet56'"),
        (list(UNIFORM), {"device": "tpu"}, "no device 'tpu'; use auto, cpu, cuda or mps"),
    ],
)
def test_distill(knowledge: list[np.ndarray], settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        fedol.distill(knowledge, **{"public": PUBLIC, **QUICK, **settings})
    one_sentence(str(caught.value))
