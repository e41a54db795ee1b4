"""The benchmarks that results/ was made from are still benchmarks."""

from pathlib import Path

import pytest

from fedol.bench.spec import read_spec

SPECS = sorted((Path(__file__).parents[2] / "results" / "specs").glob("*.json"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_it_reads(path):
    spec = read_spec(path, device="cpu")
    assert (
        spec.cells() and spec.config.dataset in ("cifar100", "digits", "fashion-mnist") and spec.config.device == "cpu"
    )


def test_there_are_some():
    assert len(SPECS) >= 5
