"""Fingerprints of code: every edit that changes what it does changes them, and nothing else does."""

import functools
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

import fedol
from fedol import methods
from fedol.code import fingerprint
from fedol.models import fingerprint as model_fingerprint
from fedol.models.nets import cnn

SOURCE = '''
"""A file of the user's."""
import argparse
import enum
import functools
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import helpers
from helpers import doubled

WIDTH = 32
SETTINGS = {"hidden": [8, 16], "names": {"a", "b", "c"}}
MEAN = np.array([0.5, 0.25])
SCALE = torch.tensor(2.0)
OPTIONS = argparse.Namespace(hidden=4, verbose=False)


class Kind(enum.Enum):
    SMALL = 1


@dataclass
class Plan:
    depth: int = 3


PLAN = Plan()


def block(size):
    return nn.Linear(size, WIDTH)


class Base(nn.Module):
    gain = 1.5

    def forward(self, x):
        if x in {"one", "two", "three"}:
            return 0
        return self.layers(x) * 3


class Net(Base):
    """What it is."""

    def __init__(self, classes, slope=0.1):
        """How it is made."""
        super().__init__()

        class Inner(nn.Module):
            """Within."""

        self.layers = nn.Sequential(block(classes), nn.LeakyReLU(slope), doubled(OPTIONS.hidden), Inner())
        self.rest = [helpers.tripled(size) for size in SETTINGS["hidden"] if size in SETTINGS["names"]]
        self.kind, self.depth = Kind.SMALL, PLAN.depth

    @torch.no_grad()
    def still(self, x):
        return x - MEAN + SCALE

    @property
    def half(self):
        return self.gain / 2

    @staticmethod
    def fixed():
        return 7

    @functools.lru_cache
    def kept(self):
        return 11

    @functools.cached_property
    def later(self):
        return 13


def unrelated():
    return 1
'''
HELPERS = "def doubled(size):\n    return 2 * size\n\ndef tripled(size):\n    return 3 * size\n"


def printed(source: str, helpers: str = HELPERS, name: str = "Net") -> str:
    """The fingerprint of what a file like this defines."""
    for module, text in {"helpers": helpers, "mine": source}.items():
        sys.modules[module] = ModuleType(module)
        exec(compile(text, f"/home/me/{module}.py", "exec"), vars(sys.modules[module]))
    found = fingerprint(vars(sys.modules["mine"])[name])
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("helpers", "mine"):
        monkeypatch.setitem(sys.modules, module, ModuleType(module))  # and taken away again


def edited(before: str, after: str) -> str:
    assert SOURCE.count(before) == 1
    return SOURCE.replace(before, after)


CHANGES = {
    "a constant of a method of the base class": ("self.layers(x) * 3", "self.layers(x) * 4"),
    "a constant that is a set": ('"one", "two"', '"one", "four"'),
    "a member of the base class": ("gain = 1.5", "gain = 2.5"),
    "the base class": ("class Net(Base)", "class Net(nn.Module)"),
    "a default": ("slope=0.1", "slope=0.2"),
    "how an argument is passed": (
        "def __init__(self, classes, slope=0.1)",
        "def __init__(self, classes, *, slope=0.1)",
    ),
    "another library function": ("nn.LeakyReLU(slope)", "nn.ELU(slope)"),
    "a helper": ("return nn.Linear(size, WIDTH)", "return nn.Linear(size, WIDTH, bias=False)"),
    "a number that a helper reads": ("WIDTH = 32", "WIDTH = 64"),
    "within a dict": ('"hidden": [8, 16]', '"hidden": [8, 32]'),
    "within a set": ('{"a", "b", "c"}', '{"a", "b", "d"}'),
    "an array": ("[0.5, 0.25]", "[0.5, 0.125]"),
    "a tensor": ("torch.tensor(2.0)", "torch.tensor(3.0)"),
    "what is read of an object": ("hidden=4", "hidden=5"),
    "a member of an enum": ("SMALL = 1", "SMALL = 2"),
    "a dataclass": ("depth: int = 3", "depth: int = 4"),
    "a method under a decorator of others": ("x - MEAN + SCALE", "x + MEAN + SCALE"),
    "a property": ("self.gain / 2", "self.gain / 4"),
    "a static method": ("return 7", "return 8"),
    "a cached method": ("return 11", "return 12"),
    "a cached property": ("return 13", "return 14"),
}
NO_CHANGES = {
    "a comment": ("WIDTH = 32", "WIDTH = 32  # wide enough"),
    "blank lines": ("        self.layers = nn", "\n\n\n        self.layers = nn"),
    "the file's docstring": ('"""A file of the user\'s."""', ""),
    "a class's docstring": ("What it is.", "What it was."),
    "a docstring that goes": ('    """What it is."""\n', ""),
    "a function's docstring": ("How it is made.", "How it was made."),
    "a docstring within": ("Within.", "Inside."),
    "brackets": ("return self.layers(x) * 3", "return (self.layers(x)) * 3"),
    "what it does not use": ("def unrelated():\n    return 1", "def unrelated():\n    return 2"),
    "what is not read of an object": ("verbose=False", "verbose=True"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_edit_that_changes_what_code_does(change: str) -> None:
    assert printed(edited(*CHANGES[change])) != printed(SOURCE)


@pytest.mark.parametrize("change", NO_CHANGES)
def test_an_edit_that_changes_nothing(change: str) -> None:
    assert printed(edited(*NO_CHANGES[change])) == printed(SOURCE)


@pytest.mark.parametrize("number", ["2", "3"])
def test_an_edit_of_another_file_of_yours(number: str) -> None:
    assert printed(SOURCE, HELPERS.replace(f"{number} * size", "9 * size")) != printed(SOURCE)


def test_code_with_no_file_such_as_a_notebooks() -> None:
    def shown(text: str) -> str | None:
        space: dict[str, object] = {"__name__": "__main__", "nn": nn}
        exec(text, space)
        return fingerprint(space["f"])

    assert shown("f = lambda classes: nn.Linear(4, classes)") == shown("f = lambda classes:  nn.Linear(4, classes)")
    assert shown("f = lambda classes: nn.Linear(4, classes)") != shown("f = lambda classes: nn.Linear(5, classes)")
    assert shown("W = 4\nf = lambda classes: nn.Linear(W, classes)") != shown(
        "W = 5\nf = lambda classes: nn.Linear(W, classes)"
    )


def test_what_a_function_encloses_and_what_is_bound_to_it() -> None:
    def made(width: int):
        def build(classes: int, depth: int = 1) -> nn.Module:
            return nn.Linear(width, classes * depth)

        return build

    assert fingerprint(made(4)) == fingerprint(made(4))
    assert fingerprint(made(4)) != fingerprint(made(5))
    assert fingerprint(functools.partial(made(4), depth=2)) != fingerprint(functools.partial(made(4), depth=3))
    assert fingerprint(functools.partial(nn.Linear, 4)) != fingerprint(functools.partial(nn.Linear, 5))

    class Maker:
        def __init__(self, width: int) -> None:
            self.width = width

        def __call__(self, classes: int) -> nn.Module:
            return nn.Linear(self.width, classes)

    assert fingerprint(Maker(4)) == fingerprint(Maker(4)) != fingerprint(Maker(5))
    assert fingerprint(Maker(4).__call__) == fingerprint(Maker(4).__call__) != fingerprint(Maker(5).__call__)


def test_a_module_that_is_enclosed_counts_with_its_weights() -> None:
    def made(value: float):
        trained = nn.Sequential(nn.Linear(2, 2))
        nn.init.constant_(trained[0].weight, value)
        nn.init.zeros_(trained[0].bias)
        return lambda classes: trained

    assert fingerprint(made(1.0)) == fingerprint(made(1.0)) != fingerprint(made(2.0))


def test_fedols_own_have_none_but_what_is_made_of_them_has() -> None:
    assert {methods.fingerprint(name) for name in methods.BUILT_IN} == {None}
    assert fingerprint(cnn) is None
    assert fingerprint(functools.partial(cnn, width=8)) != fingerprint(functools.partial(cnn, width=16))


def test_code_that_refers_to_itself_or_holds_what_cannot_be_shown() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

        __slots__ = ()

    ring: list[object] = [Odd(), np.array([object()], dtype=object), torch.empty(2, device="meta"), sys.stdout]
    ring.append(ring)
    here: dict[str, object] = {"ring": ring}

    def build(classes: int) -> object:
        return build(classes) if classes else (ring, here, later)

    assert fingerprint(build) == fingerprint(build)
    later = 1
    assert fingerprint(build)


def test_a_long_chain_of_functions_is_no_problem() -> None:
    chain = "".join(f"def f{n}(): return f{n + 1}()\n" for n in range(3000))
    first = printed(f"{chain}def f3000(): return 1\n", name="f0")
    assert first != printed(f"{chain}def f3000(): return 2\n", name="f0")


def test_equal_in_every_process_however_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {printed(SOURCE)}
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("helpers", "mine"):
        del sys.modules[name]
    found.add(model_fingerprint(f"{tmp_path / 'mine.py'}:Net"))
    found.add(model_fingerprint("mine:Net"))  # which also leaves compiled files for the process
    asks = "import mine\nfrom fedol.code import fingerprint\nprint(*map(fingerprint, (Net, mine.Net)))\n"
    (tmp_path / "script.py").write_text(SOURCE + asks)
    path = f"{Path(fedol.__file__).parents[1]}{os.pathsep}{tmp_path}"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {*found, *done.stdout.split()} == {printed(SOURCE)}
