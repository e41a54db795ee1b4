"""A model with the outputs of a client's own classes alone: the same net, as one of all classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedol.data.samples import samples
from fedol.errors import InputError
from fedol.model import Architecture, ServerModel, load
from fedol.models.held import Held, sound
from fedol.models.openset import OpenSet

IMAGES = samples(np.random.default_rng(0).integers(0, 256, (12, 1, 8, 8)).astype(np.uint8))
WHOLE = Architecture.on(IMAGES, "mlp", ["a", "b", "c", "d"], 16)
SOME = WHOLE.holding(np.array([3, 1, 3]))


def test_it_is_the_net_of_these_classes_and_learns_as_that_does() -> None:
    torch.manual_seed(0)
    net, x, label = torch.nn.Linear(5, 2), torch.randn(6, 5), torch.tensor([0, 1, 1, 0, 1, 0])
    model = Held(net, [1, 3], 4)
    torch.testing.assert_close(model(x)[:, [1, 3]], net(x))
    assert (model(x).softmax(1)[:, [0, 2]] == 0).all()
    gradients = []
    for loss in (F.cross_entropy(net(x), label), F.cross_entropy(model(x), torch.tensor([1, 3])[label])):
        gradients.append(torch.autograd.grad(loss, list(net.parameters())))
    torch.testing.assert_close(gradients[0], gradients[1])


def test_an_architecture_of_all_classes_is_what_it_was() -> None:
    assert WHOLE.holding(np.arange(4)) == WHOLE and "held" not in WHOLE.header() and WHOLE.answers == [0, 1, 2, 3]
    assert SOME.held == (1, 3) and SOME.answers == [1, 3]


@pytest.mark.parametrize("folds", [0, 2])
def test_a_model_file_says_which_classes_it_has(folds: int, tmp_path: Path) -> None:
    architecture = replace(SOME, folds=folds)
    ServerModel(architecture.build(7), architecture).save(tmp_path / "m.safetensors")
    model = load(tmp_path / "m.safetensors")
    assert model.architecture == architecture and model.classes == ("a", "b", "c", "d")
    probs = model.predict_proba(IMAGES)
    assert (probs[:, [0, 2]] == 0).all() and np.allclose(probs.sum(1), 1)
    outputs = {len(value) for name, value in model.module.state_dict().items() if name.endswith("bias")}
    assert 2 + bool(folds) in outputs and 4 not in outputs and 5 not in outputs
    if isinstance(model.module, OpenSet):  # "public" is each net's last output still
        assert [net(torch.zeros(1, 1, 8, 8)).shape for net in model.module.nets] == [(1, 5)] * 2


@pytest.mark.parametrize("held", [[3, 1], [1, 1], [4], [-1], [0, 1, 2, 3], [True], ["a"], "ab", [1.0], 3, None])
def test_a_header_that_makes_no_sense_is_refused(held: Any) -> None:
    with pytest.raises(InputError, match="the classes that it holds make no sense"):
        Architecture.from_header({**SOME.header(), "held": held})
    if isinstance(held, list):
        assert not sound(held, 4)


def test_soft_targets_without_the_classes_that_are_not_held() -> None:
    targets = torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]])
    assert SOME.own(targets).tolist() == torch.tensor([[0, 0.2, 0, 0.4], [0, 0, 0, 0]]).tolist()
    assert torch.equal(WHOLE.own(targets), targets)
