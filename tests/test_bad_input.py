"""What is left of bad input: data folders, the real command, and clients that fail, each with its defined result."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import ENV, refusal

import fedol
from fedol.data import Dataset
from fedol.errors import FedolError

# --- Data folders.


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100", "fashion-mnist", "npz", "folder"])
def test_a_data_dir_without_files(
    dataset: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no internet in this test")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    empty = folder.parent / "empty"
    empty.mkdir()
    for command in ("run", "partition"):
        message = refusal([command, "--dataset", dataset, "--data-dir", str(empty)], capsys)
        assert str(empty) in message


def test_brackets_in_a_path_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(["run", "--config", "[bold]/[/x].toml"], capsys)
    assert "[bold]/[/x].toml" in message


@pytest.mark.parametrize(
    "argv", [["run", "--rhoo", "1"], ["run", "--rho", "much"], ["rum"], ["partition", "--plot", "heat.nope"]]
)
def test_the_real_command_exits_with_two_and_without_a_traceback(argv: list[str], tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "fedol", *argv], capture_output=True, text=True, cwd=tmp_path, env=ENV
    )
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    assert "rror" in answer.stderr


# --- Defined results.


def test_one_client_alone_is_a_federation(tiny: dict[str, Any], folder: Path) -> None:
    summary = fedol.run(out=folder, **{**tiny, "clients": 1}).summary
    assert len(summary["clients"]) == 1
    assert summary["local"] == {"mean": summary["clients"][0]["accuracy"], "std": None, "n": 1}
    assert summary["ensemble"]["accuracy"] == summary["local"]["mean"]
    assert [record["voters"] for record in summary["history"]] == [pytest.approx(0.1), pytest.approx(0.3)]


def test_a_class_nobody_holds_is_a_class_like_any_other(tiny: dict[str, Any], folder: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, size=(200, 8, 8), dtype=np.uint8), rng.integers(0, 2, size=200)
    data = Dataset.from_arrays(x, y, x[:50], np.full(50, 2), classes=("cat", "dog", "unicorn"))
    result = fedol.run(out=folder, dataset=data, **tiny)
    assert [client["classes"] for client in result.summary["clients"]] == [2, 2]
    probs = result.model.predict_proba(x[:, None])
    assert probs.shape == (200, 3)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)
    assert result.model.classes == ("cat", "dog", "unicorn")


def test_a_client_that_diverges_is_named_and_the_others_are_kept(tiny: dict[str, Any], folder: Path) -> None:
    with pytest.raises(FedolError, match=r"client 0 diverged: its loss is (nan|inf) .* try a smaller learning rate"):
        fedol.run(out=folder, **{**tiny, "client_models": (Diverging, "mlp")})
    assert sorted(file.name for file in (folder / "clients").glob("*.fedol")) == ["01.fedol"]


class Diverging(torch.nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(x.flatten(1))
        return logits * torch.inf if self.training else logits
