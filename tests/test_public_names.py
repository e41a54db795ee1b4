"""The names that outside code may rely on: those of ``fedol`` itself."""

import subprocess
import sys

import pytest

import fedol

ALGORITHM = ("entropy", "class_confidence", "client_weights", "pseudo_labels", "soft_targets", "union")
WORK = (
    "Knowledge",
    "Task",
    "Dataset",
    "OpenSet",
    "RunConfig",
    "TaskFolder",
    "distill",
    "load",
    "run",
    "compare",
    "Comparison",
)
MODELS = ("ServerModel", "RunResult", "OneShotClassifier", "NetClassifier")


@pytest.mark.parametrize("name", [*ALGORITHM, *WORK, *MODELS])
def test_a_public_name_is_there_and_listed(name):
    assert callable(getattr(fedol, name))
    assert name in fedol.__all__ and name in dir(fedol)


def test_a_dataset_is_the_one_that_the_data_have():
    from fedol.data import load

    assert isinstance(load("digits"), fedol.Dataset)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fedol.nothing  # noqa: B018


def test_importing_fedol_imports_neither_torch_nor_numpy():
    program = "import fedol, sys; fedol.__version__, dir(fedol); print({'torch', 'numpy'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"
