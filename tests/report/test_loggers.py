"""Where a run's figures go, too: the real packages, a log of one's own, and what is said where there is none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fedol
from fedol.errors import FedolError
from fedol.report.loggers import Logged


class Mine:
    """A log of one's own."""

    def __init__(self) -> None:
        self.told: dict[str, dict[int, float]] = {}
        self.ended: list[Mapping[str, Any] | None] = []

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.told.setdefault(name, {})[step] = value

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        self.ended.append(summary)


def test_a_log_of_ones_own_hears_everything_and_then_the_end(tiny: dict[str, Any], tmp_path: Path) -> None:
    mine = Mine()
    result = fedol.run(out=tmp_path / "run", progress=False, log=mine, **tiny)
    assert mine.ended == [result.summary]
    assert list(mine.told["loss/client 0"]) == [1] and list(mine.told["loss/server 2/2"]) == [1]
    assert mine.told["server/test_accuracy"][2] == result.accuracy
    assert list(mine.told["clients/test_accuracy"]) == [0, 1]


def test_a_run_that_is_interrupted_ends_its_log(tiny: dict[str, Any], tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    class Impatient(Mine):
        def log(self, values: Mapping[str, float], step: int) -> None:
            raise Stop

    mine = Impatient()
    with pytest.raises(Stop):
        fedol.run(out=tmp_path / "run", progress=False, log=mine, **tiny)
    assert mine.ended == [None]


def test_mlflow(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the package mlflow-skinny")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    result = fedol.run(out=tmp_path / "mine", progress=False, log="mlflow", **tiny)
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("fedol").experiment_id])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    assert run.data.metrics["server/test_accuracy"] == pytest.approx(result.accuracy)
    assert run.data.params["partition"] == "iid" and run.data.params["clients"] == "2"
    assert [point.step for point in client.get_metric_history(run.info.run_id, "loss/client 1")] == [1]


def test_weights_and_biases_stays_on_this_machine(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="needs the package wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    result = fedol.run(out=tmp_path / "mine", progress=False, log="wandb", **tiny)
    (kept,) = (tmp_path / "mine" / "wandb").glob("offline-run-*/*.wandb")
    record = kept.read_bytes()  # its format is its own, but names and numbers stand in it as text
    for words in ("loss/client 0", "server/test_accuracy", str(result.accuracy), '"iid"'):
        assert words.encode() in record


@pytest.mark.parametrize(("name", "package"), [("mlflow", "mlflow"), ("wandb", "wandb")])
def test_what_is_not_installed_is_one_sentence_before_anything_is_written(
    name: str, package: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FedolError, match=rf"The log '{name}' needs a package: pip install 'fedol\[{name}\]'\."):
        fedol.run(out=tmp_path / "run", progress=False, log=name, **tiny)
    assert not (tmp_path / "run").exists()


def test_what_is_no_log_is_said(tmp_path: Path) -> None:
    with pytest.raises(FedolError, match="did you mean 'mlflow'"):
        Logged("mlfow", tmp_path)
    with pytest.raises(FedolError, match="an object with the methods log and finish"):
        Logged([object()], tmp_path)  # type: ignore[list-item]
