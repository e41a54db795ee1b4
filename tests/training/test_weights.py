"""A model's weights in one piece: same values, same places, nothing lost."""

import torch
from torch import nn

from fedol.models import create
from fedol.training.weights import ALIGNED, Weights


def test_weights_keep_their_values_and_become_views_of_one_tensor() -> None:
    model = create("resnet11", classes=10, shape=(3, 8, 8), width=4).to(memory_format=torch.channels_last)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    strides = {name: p.stride() for name, p in model.named_parameters()}
    weights = Weights(model)
    after = dict(model.named_parameters())
    assert all(torch.equal(after[name], before[name]) and after[name].stride() == strides[name] for name in before)
    assert weights.hold(model)
    with torch.no_grad():
        weights.flat.zero_()
    assert all(not p.any() for p in model.parameters())
    assert all(p.data_ptr() % (4 * ALIGNED) == weights.flat.data_ptr() % (4 * ALIGNED) for p in model.parameters())


def test_products_read_bf16_copies_and_norms_read_the_weights_themselves() -> None:
    model = create("resnet11", classes=10, shape=(3, 8, 8), width=4)
    weights = Weights(model)
    weights.refresh()
    for name, p in model.named_parameters():
        used = weights.by_name[name]
        if "norm" in name:
            assert used is p
        else:
            assert used.dtype == torch.bfloat16 and used.requires_grad and used.is_leaf
            assert torch.equal(used.detach(), p.detach().to(torch.bfloat16))


def test_a_tensor_that_lies_like_the_weights_is_seen_as_one_per_weight() -> None:
    model = create("cnn", classes=3, shape=(1, 8, 8), width=4)
    weights = Weights(model)
    views = weights.named(weights.flat.detach())
    assert views.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(views[name], p.detach()) for name, p in model.named_parameters())
    views["head.bias"].fill_(7.0)
    assert all(p.eq(7).all() == (name == "head.bias") for name, p in model.named_parameters())


def test_frozen_weights_stay_outside() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    weights = Weights(model)
    assert weights.named(weights.flat.detach()).keys() == {"1.weight", "1.bias"}
    assert weights.by_name["0.weight"] is model[0].weight
