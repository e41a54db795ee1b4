"""Where a run's figures go beside its folder: TensorBoard, MLflow, Weights & Biases, or a log of yours.

Each package is an extra and is imported only where it is asked for. A log is made at the first event: until then its
folder is the run's to make.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from fedol.errors import InputError, MissingExtra, unknown
from fedol.progress import Observer, Several
from fedol.runs.folder import read_summary


class Log(Protocol):
    """What ``log=`` takes: an object with these two methods. They are not called at the same time."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Figures by name, such as ``loss/client 0``, at an epoch or an iteration."""

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The run is over: its ``summary.json``, with the settings in ``config``; None where it was interrupted."""


class TensorBoard:
    """Event files in the run folder's ``tensorboard/``."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(folder / "tensorboard")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """A curve per name."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """Write what is left."""
        self._writer.close()


class MLflow:
    """A run of the experiment ``fedol``, or of ``MLFLOW_EXPERIMENT_NAME``, where ``MLFLOW_TRACKING_URI`` says."""

    def __init__(self, folder: Path) -> None:
        from mlflow import MlflowClient

        logging.getLogger("mlflow.store.db").setLevel(logging.WARNING)  # it tells of every database that it makes
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "fedol")
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        self._run = self._client.create_run(experiment, run_name=folder.name).info.run_id

    def log(self, values: Mapping[str, float], step: int) -> None:
        """A metric per name."""
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The settings as parameters."""
        for name, value in (summary or {"config": {}})["config"].items():
            self._client.log_param(self._run, name, value)
        self._client.set_terminated(self._run, "FINISHED" if summary else "KILLED")


class WeightsAndBiases:
    """A run of the project ``fedol`` (``WANDB_PROJECT``), kept in the run folder's ``wandb/``.

    It stays on this machine until ``wandb sync`` sends it, unless ``WANDB_MODE=online`` says otherwise.
    """

    def __init__(self, folder: Path) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "fedol"),
            name=folder.name,
            dir=folder,
            mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]
            settings=wandb.Settings(silent=True, console="off"),
        )
        for group in ("loss", "server", "clients"):  # of which each counts its own steps
            self._run.define_metric(f"{group}/*", step_metric=f"{group}/step")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """A curve per name."""
        groups = {name.partition("/")[0] for name in values}
        self._run.log({**values, **{f"{group}/step": step for group in groups}})

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The settings, and the accuracy in the end."""
        if summary:
            self._run.config.update(summary["config"])  # type: ignore[no-untyped-call]
        self._run.finish(exit_code=0 if summary else 1)


# By name, which is also that of the extra: what must be there to import, and the log.
LOGS: dict[str, tuple[str, Callable[[Path], Log]]] = {
    "tensorboard": ("torch.utils.tensorboard", TensorBoard),
    "mlflow": ("mlflow", MLflow),
    "wandb": ("wandb", WeightsAndBiases),
}
Logs = str | Log | Sequence[str | Log]
"""A name, a log of yours, or several of both."""


class Logging(Observer):
    """Tells a log what it is told of a run."""

    def __init__(self, make: Callable[[], Log]) -> None:
        self._make, self._log = make, list[Log]()
        self._lock = Lock()  # epochs are told from the threads that train

    def __enter__(self) -> Logging:
        return self

    def __exit__(self, *error: object) -> None:
        for log in self._log:  # it was not finished
            log.finish(None)

    def epoch(self, epoch: Any) -> None:
        """An epoch's loss, a curve per client and server iteration."""
        self._tell({f"loss/{epoch.job.name}": epoch.loss}, epoch.epoch)

    def finished(self, folder: Path) -> None:
        """What is known in the end: every iteration's numbers, and each client's accuracy."""
        summary = read_summary(folder / "summary.json")
        for record in summary["history"]:
            known = {**record, **record.get("diagnostics", {})}
            names = ("rho", "coverage", "voters", "pseudo_label_accuracy", "test_accuracy", "loss")
            numbers = {f"server/{name}": known[name] for name in names if isinstance(known.get(name), int | float)}
            self._tell(numbers, record["iteration"])
        for client in summary["clients"]:
            if "accuracy" in client:  # a server that hears strangers has none
                self._tell({"clients/test_accuracy": client["accuracy"]}, client["client"])
        if self._log:
            self._log.pop().finish(summary)

    def _tell(self, values: dict[str, float], step: int) -> None:
        with self._lock:
            if not self._log:
                self._log.append(self._make())
            self._log[0].log(values, step)


class Logged:
    """Within this, ``observer`` tells every log that is wanted; those that are not installed are an error at once."""

    def __init__(self, logs: Logs, folder: Path) -> None:
        several = [logs] if isinstance(logs, str) or not isinstance(logs, Sequence) else logs
        self._logs = [Logging(_maker(log, folder)) for log in several]
        self._within = ExitStack()

    def __enter__(self) -> Observer:
        return Several(*map(self._within.enter_context, self._logs))

    def __exit__(self, *error: object) -> None:
        self._within.close()


def _maker(log: str | Log, folder: Path) -> Callable[[], Log]:
    if not isinstance(log, str):
        if callable(getattr(log, "log", None)) and callable(getattr(log, "finish", None)):
            return lambda: log
        raise InputError(f"A log is one of {', '.join(LOGS)}, or an object with the methods log and finish.")
    if log not in LOGS:
        raise unknown("log", log, LOGS)
    package, make = LOGS[log]
    try:
        import_module(package)
    except ImportError:
        raise MissingExtra(f"The log '{log}' needs a package: pip install 'fedol[{log}]'.") from None
    return lambda: make(folder)
