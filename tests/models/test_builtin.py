"""The built-in nets: the paper's parameter counts, any input size, and learning at all."""

import pytest
import torch
import torch.nn.functional as F

from fedol.models import create, names, parameter_count
from fedol.models.estimators import ESTIMATORS
from fedol.models.nets import ConvNorm, Residual, basic, bottleneck


@pytest.mark.parametrize(
    ("name", "classes", "count"),
    [
        ("resnet11", 100, 150_772),
        ("resnet20", 100, 243_508),
        ("resnet56", 100, 614_452),
        ("resnet11", 10, 127_642),
        ("resnet20", 10, 220_378),
        ("resnet56", 10, 591_322),
        ("resnet22-wide", 100, 17_121_444),
        ("resnet22-wide", 10, 17_075_274),
    ],
)
def test_parameter_counts_of_the_paper(name: str, classes: int, count: int) -> None:
    assert parameter_count(create(name, classes=classes, shape=(3, 32, 32))) == count


@pytest.mark.parametrize("depth", [11, 20, 29, 38, 56])
def test_depth_is_the_number_of_weighted_layers_without_shortcuts(depth: int) -> None:
    model = create(f"resnet{depth}", classes=10, shape=(3, 8, 8), width=2)
    convs = [name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Conv2d)]
    assert sum("shortcut" not in name for name in convs) + 1 == depth


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (4, 5, 9), (2, 1, 1), (3, 1, 17)])
@pytest.mark.parametrize("name", ["mlp", "cnn", "cnn-large", "resnet11", "resnet20"])
def test_any_input_size_and_width(name: str, shape: tuple[int, int, int]) -> None:
    for width in (1, 4):
        model = create(name, classes=7, shape=shape, width=width)
        assert model(torch.randn(3, *shape)).shape == (3, 7)


def test_a_wider_net_is_larger_except_those_of_fixed_width() -> None:
    for name in names()[: -len(ESTIMATORS)]:  # the networks
        shape = (1, 64) if name.startswith("cnn1d") else (1, 8, 8)
        small, large = (parameter_count(create(name, classes=10, shape=shape, width=w)) for w in (4, 8))
        assert (small == large) if name in ("linear", "resnet22-wide") else (small < large), name


def test_the_head_of_a_cnn_does_not_grow_with_the_image() -> None:
    counts = {parameter_count(create("cnn", classes=10, shape=(1, side, side))) for side in (8, 16, 32, 64)}
    assert len(counts) == 1


def test_the_server_net_is_the_largest_of_the_small_ones() -> None:
    mlp, cnn, large = (
        parameter_count(create(name, classes=10, shape=(1, 8, 8))) for name in ("mlp", "cnn", "cnn-large")
    )
    assert large > 5 * max(mlp, cnn)


def test_conv_norm_adds_the_residual_between_norm_and_relu() -> None:
    layer = ConvNorm(2, 3, 3, stride=2)
    x, residual = torch.randn(4, 2, 7, 7), torch.randn(4, 3, 4, 4)
    expected = F.relu(layer.norm(layer.conv(x)) + residual)
    torch.testing.assert_close(layer(x, residual), expected)
    assert (ConvNorm(2, 3, 1, relu=False)(x) < 0).any()


@pytest.mark.parametrize("stride", [1, 2])
def test_bottleneck_is_the_textbook_formula(stride: int) -> None:
    block = bottleneck(6, 4, stride).eval()
    one, three, last = block.body
    x = torch.randn(2, 6, 5, 5)
    inner = F.relu(three.norm(F.conv2d(F.relu(one.norm(one.conv(x))), three.conv.weight, stride=stride, padding=1)))
    expected = F.relu(last.norm(last.conv(inner)) + block.shortcut.norm(block.shortcut.conv(x)))
    torch.testing.assert_close(block(x), expected)


def test_shortcut_is_the_identity_only_where_the_shape_stays() -> None:
    def projected(block: Residual) -> bool:
        return isinstance(block.shortcut, ConvNorm)

    assert not projected(bottleneck(16, 4, 1)) and not projected(basic(8, 8, 1))
    assert projected(bottleneck(4, 4, 1)) and projected(bottleneck(16, 4, 2)) and projected(basic(8, 8, 2))


def test_stages_halve_the_image_from_the_second_on() -> None:
    model = create("resnet20", classes=10, shape=(3, 32, 32), width=2)
    x, sides = model.stem(torch.randn(2, 3, 32, 32)), []
    for stage in model.stages:
        x = stage(x)
        sides.append((x.shape[1], x.shape[2]))
    assert sides == [(8, 32), (16, 16), (32, 8)]


@pytest.mark.parametrize("name", ["mlp", "cnn", "cnn-large", "resnet11"])
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model = create(name, classes=5, shape=(1, 8, 8), width=4)
    F.cross_entropy(model(torch.randn(8, 1, 8, 8)), torch.arange(8) % 5).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize(("name", "least"), [("mlp", 0.94), ("cnn", 0.96), ("cnn-large", 0.975)])
def test_small_nets_learn_the_digits(name: str, least: float) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    x = ((torch.tensor(digits.images, dtype=torch.float32)[:, None] - 4.9) / 6.0)[order]
    y = torch.tensor(digits.target)[order]
    model = create(name, classes=10, shape=(1, 8, 8))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    shuffle = torch.Generator().manual_seed(1)
    for _ in range(20 if name == "mlp" else 8):
        for batch in torch.randperm(1000, generator=shuffle).split(32):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        assert (model(x[1000:]).argmax(1) == y[1000:]).float().mean() > least
