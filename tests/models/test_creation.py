"""Creation: seeds, other people's models in every form, and every error."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from fedol.errors import FedolError, InputError
from fedol.models import ModelSpec, create, describe, names, parameter_count

SHAPE = (2, 6, 5)


class Net(nn.Module):
    def __init__(self, classes: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = shape
        self.layer = nn.Linear(channels * height * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1))


def build(spec: ModelSpec, **options: object) -> nn.Module:
    return create(spec, **{"classes": 4, "shape": SHAPE, "width": 4} | options)


def equal(a: nn.Module, b: nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("spec", ["mlp", "cnn", "cnn-large", "resnet20", Net])
def test_the_seed_decides_the_weights(spec: ModelSpec) -> None:
    assert equal(build(spec, seed=3), build(spec, seed=3))
    assert not equal(build(spec, seed=3), build(spec, seed=4))


def test_the_seed_means_what_it_means_in_torch() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2**63 - 1)
        expected = Net(4, SHAPE)
    assert equal(build(Net, seed=2**63 - 1), expected)


class Noisy(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + torch.rand(1)


@pytest.mark.parametrize("spec", ["cnn", "resnet11", Noisy])
def test_the_global_generator_is_left_alone(spec: ModelSpec) -> None:
    before = torch.get_rng_state()
    build(spec)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_generator_is_left_alone_by_a_failure() -> None:
    before = torch.get_rng_state()
    with pytest.raises(InputError):
        build(lambda: (nn.Linear(2, 2), 1 / 0))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_probe_leaves_a_fresh_module_in_training_mode() -> None:
    model = build("resnet11")
    assert all(module.training for module in model.modules())
    for name, buffer in model.named_buffers():
        start = 1 if name.endswith("running_var") else 0
        assert (buffer == start).all(), name
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_callable_gets_what_its_signature_accepts() -> None:
    got: dict[str, object] = {}

    def everything(**options: object) -> nn.Module:
        got.update(options)
        return Net(4, SHAPE)

    def some(channels: int, *, size: tuple[int, int], depth: int = 3) -> nn.Module:
        got.update(channels=channels, size=size, depth=depth)
        return Net(4, SHAPE)

    build(everything)
    assert got == {"classes": 4, "channels": 2, "size": (6, 5), "shape": SHAPE, "width": 4}
    got.clear()
    build(some)
    assert got == {"channels": 2, "size": (6, 5), "depth": 3}
    got.clear()
    build(partial(some, depth=9))
    assert got["depth"] == 9


def test_lazy_layers_are_settled_by_the_probe() -> None:
    def lazy(classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

    assert parameter_count(build(lazy)) == (60 + 1) * 4
    assert equal(build(lazy), build(lazy))


def test_only_trainable_parameters_count() -> None:
    model = Net(4, SHAPE)
    model.layer.bias.requires_grad_(False)
    assert parameter_count(model) == 60 * 4


SOURCE = """
from dataclasses import dataclass
from torch import nn

@dataclass
class Options:  # a dataclass needs its module in sys.modules
    bias: bool = True

class Holder:
    @staticmethod
    def make(classes, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(60, classes, Options().bias))

make = Holder.make
value = 3
instance = nn.Identity()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "own_nets_for_the_test.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    for name in [key for key in sys.modules if key.startswith(("own_nets", "fedol_model_"))]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["make", "Holder.make"])
def test_a_model_from_a_module_or_a_file(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    for source in (file.stem, str(file), file.name):
        assert parameter_count(build(f"{source}:{name}")) == (60 + 1) * 4


def test_a_file_is_executed_once_until_it_changes(tmp_path: Path) -> None:
    log, path = tmp_path / "log", tmp_path / "net.py"
    net = "from torch.nn import *\ndef f(): return Sequential(Flatten(), Linear(60, 4))"
    path.write_text(f"open({str(log)!r}, 'a').write('x')\n{net}")
    options = {"classes": 4, "shape": SHAPE}
    create(f"{path}:f", **options)
    create(f"{path}:f", **options)
    assert log.read_text() == "x"
    path.write_text(path.read_text() + "\n# changed")
    create(f"{path}:f", **options)
    assert log.read_text() == "xx"


def test_names_describe_and_create() -> None:
    assert {"mlp", "cnn", "cnn-large", "resnet11", "resnet20", "resnet56", "resnet22-wide"} <= set(names())
    for name in names():
        assert describe(name) == name
        if not name.startswith("cnn1d"):  # which take no images
            assert isinstance(build(name), nn.Module)


@pytest.mark.parametrize(
    ("spec", "text"),
    [(Net, "Net"), (partial(Net, classes=4), "Net"), ("a.b:c", "a.b:c"), (build, "build")],
)
def test_describe(spec: ModelSpec, text: str) -> None:
    assert describe(spec) == text


def three_classes() -> nn.Module:
    return Net(3, SHAPE)


class Boom(nn.Module):
    def __init__(self, extra: int) -> None:
        super().__init__()


class Pair(Net):
    def forward(self, x: torch.Tensor) -> object:
        return x, x


class Wrong(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("two\nlines")


def frozen() -> nn.Module:
    return Net(4, SHAPE).requires_grad_(False)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnet50", ["resnet50", "9n + 2", "nearest is 'resnet47'"]),
        ("resnet2", ["9n + 2", "nearest is 'resnet11'"]),
        ("resnet22", ["9n + 2", "nearest is 'resnet20'"]),
        ("resnet020", ["no model 'resnet020'"]),
        ("cnn-larg", ["no model 'cnn-larg'", "did you mean 'cnn-large'"]),
        ("zzzzz", ["no model 'zzzzz'", "known are", "mlp"]),
        ("", ["no model ''"]),
        (7, ["not 7"]),
        (nn.Flatten(), ["Flatten is an instance", "class"]),
        ("no_such_package_here.nets:Net", ["no_such_package_here.nets:Net", "cannot be imported", "ModuleNotFound"]),
        (":Net", [":Net", "cannot be imported"]),
        ("/no/such/file.py:Net", ["/no/such/file.py:Net", "FileNotFoundError"]),
        ("torch.nn:NoSuchNet", ["torch.nn:NoSuchNet", "'torch.nn' has no 'NoSuchNet'"]),
        ("torch.nn:", ["torch.nn:", "has no ''"]),
        ("torch:__version__", ["torch:__version__", "must be a class or a function"]),
        (Boom, ["Boom", "TypeError", "extra"]),
        (lambda: 1 / 0, ["ZeroDivisionError"]),
        (lambda: 5, ["must create a torch.nn.Module", "int"]),
        (three_classes, ["three_classes", "[2, 2, 6, 5]", "[2, 3]", "[2, 4]"]),
        (Pair, ["Pair", "tuple", "[2, 4]"]),
        (Wrong, ["Wrong", "[2, 2, 6, 5]", "two lines"]),
        (frozen, ["frozen", "no trainable parameters"]),
    ],
)
def test_errors_are_one_sentence_that_names_the_model(spec: ModelSpec, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        build(spec)
    message = str(caught.value)
    assert "\n" not in message and re.search(r"[.?]$", message), message
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ["value", "instance"])
def test_a_file_whose_name_is_no_callable_or_an_instance(file: Path, name: str) -> None:
    with pytest.raises(InputError, match="must be a class or a function"):
        build(f"{file}:{name}")


def test_a_file_that_fails_says_why_each_time(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def f(:\n")
    for _ in range(2):
        with pytest.raises(InputError, match=r"broken\.py:f' cannot be imported: SyntaxError"):
            build(f"{path}:f")


@pytest.mark.parametrize("options", [{"classes": 0}, {"width": 0}, {"shape": (8, 8)}, {"shape": (1, 0, 8)}])
def test_sizes_must_be_positive(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="not"):
        build("cnn", **options)


def test_a_package_that_is_missing_is_what_the_error_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that somebody's model cannot be created."""
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(FedolError, match=r"^Models that are estimators need the package skops: pip install"):
        create("hist-boosting", classes=2, shape=(4,), width=1)
