"""A benchmark that cannot run says why in a sentence, with exit code 2; nothing is measured here."""

import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "benchmarks"
MISSING = "There are no predictions"


@pytest.fixture(autouse=True)
def in_its_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a script finds its neighbours; afterwards they are forgotten, for they have names that others may have."""
    monkeypatch.syspath_prepend(FOLDER)
    yield
    for script in FOLDER.glob("*.py"):
        module = sys.modules.get(script.stem)
        if getattr(module, "__file__", None) == str(script):
            del sys.modules[script.stem]


def test_every_script_is_explained() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.glob("[!_]*.py") if f"`{path.name}`" not in page] == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("codecs.py --predictions nowhere", MISSING),
        ("codec_kinds.py --data nowhere", "There are no data in nowhere"),
        ("indistinguishable.py --predictions nowhere", MISSING),
        ("robustness.py --predictions nowhere", MISSING),
        ("pooling.py --predictions nowhere", MISSING),
        ("pooling_ablation.py --predictions nowhere", MISSING),
        ("pooling.py --bench nowhere", "--bench also needs --spec"),
        ("tail.py --bench nowhere", "--bench also needs --spec"),
        ("union.py --only heart --data nowhere", "There is nothing to measure"),
        ("peers.py --only nobody", "There is no peer nobody"),
        ("peers.py --python nobody=python", "There is no peer nobody"),
        ("privacy.py --dataset nothing", "There is no dataset 'nothing'"),
        ("steps.py", "needs a CUDA GPU"),
        ("stacking.py", "needs a CUDA GPU"),
    ],
)
def test_what_is_missing_is_said(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "GPU" in said and torch.cuda.is_available():
        pytest.skip("there is a GPU: nothing is missing")
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(FOLDER / sys.argv[0]), run_name="__main__")
    told = capsys.readouterr().err
    assert end.value.code == 2
    assert told.startswith("Error: ") and said in told and told.count("\n") == 1


def test_epochs_of_models_that_start_one_after_the_other_count_in_part() -> None:
    import training

    def samples_a_second(*models: list[float]) -> float:
        courses = [(str(name), when) for name, ends in enumerate(models) for when in ends]
        ends = [(when, SimpleNamespace(job=SimpleNamespace(name=name), samples=10)) for name, when in courses]
        return training.side_by_side(ends)

    both = [1.0, 2.0, 3.0, 4.0], [2.5, 3.5, 4.5, 5.5]  # between 2.5 and 4 s each trains one epoch and a half
    assert samples_a_second(*both) == pytest.approx(30 / 1.5)
    assert samples_a_second([1.0, 2.0], *both) == pytest.approx(30 / 1.5)  # it had ended before all had begun
    assert samples_a_second([1.0, 2.0, 4.0]) == pytest.approx(20 / 3)


def test_the_temperature_of_the_mass_condition() -> None:
    """Ratios whose logarithms are stretched come back to the mean mass that they had."""
    from union_clients import Answer, tempered_by_mass

    logs = torch.randn(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.3
    expected = float(logs.exp().sum(1).mean())
    for stretch in (1.4, 0.8):
        found = tempered_by_mass(_answer(Answer, stretch * logs), expected)
        torch.testing.assert_close(found.log_probs + found.log_mass[:, None], logs, atol=1e-6, rtol=0)
    hopeless = tempered_by_mass(_answer(Answer, logs), 1e-3)  # that no temperature gives: the least mean there is
    mean = float(hopeless.log_mass.exp().mean())
    for change in (0.99, 1.01):
        other = (change * (hopeless.log_probs + hopeless.log_mass[:, None])).exp().sum(1).mean()
        assert other > mean > 1e-3


def _answer(kind: Any, logs: torch.Tensor) -> Any:
    return kind(torch.log_softmax(logs, 1), torch.logsumexp(logs, 1), 0)
