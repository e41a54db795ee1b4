"""``fedol.run`` and ``fedol.compare``: one federation, and methods side by side, from settings to a report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack

import numpy.typing as npt

from fedol.bench.comparison import Table
from fedol.bench.grid import as_grid
from fedol.bench.plan import Progress
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec, usual_preset
from fedol.config import SUITED, RunConfig, changed, configure
from fedol.data import Dataset, Partition, from_pair
from fedol.data.partitions import canonical
from fedol.errors import FedolError, InputError, brief
from fedol.federation.scenario import Engine, in_process
from fedol.federation.simulation import Simulation
from fedol.progress import NOBODY, Observer, Several
from fedol.report.comparison import Comparison
from fedol.report.loggers import Logged, Logs
from fedol.report.observers import display
from fedol.report.pages import Pages
from fedol.report.result import RunResult
from fedol.runs.names import default_folder
from fedol.settings import RunSettings, spelled_out
from fedol.settings.keywords import GridKeywords, RunKeywords

Data: TypeAlias = str | Path | Dataset | tuple[npt.ArrayLike, npt.ArrayLike]
"""A name, a path, a ``Dataset``, or samples and their labels."""


@spelled_out(RunSettings, but=("dataset",))
def run(
    config: RunConfig | None = None,
    *,
    out: str | Path | None = None,
    dataset: Data | None = None,
    progress: bool | Literal["auto"] = "auto",
    log: Logs = (),
    observer: Observer = NOBODY,
    engine: Engine = in_process,
    force: bool = False,
    **settings: Unpack[RunKeywords],
) -> RunResult:
    """Simulate a federation; ``settings`` are fields of ``RunConfig`` (and ``preset``).

    ``dataset`` is a name, a path, a ``Dataset`` of your own, or a pair: samples and their labels, of which a fixed
    fifth is held out for the test. Samples are images (uint8 [N, channels, H, W] or [N, H, W]), a table (a frame, or
    floats [N, columns]), strings, or signals (floats [N, channels, ...]). The run folder ``out`` has a telling
    name by default, such as ``runs/digits-dirichlet0.3-fedol-seed0``; the same call again continues or reads it. Where
    the folder's run was made with other settings, other data or other code of a model or method of yours, that is an
    error; ``force`` makes the run in the folder anew. ``engine`` trains the clients: in this process, or
    ``fedol.federation.transports.flower_engine.on_ray(...)``, with the same result.

    ``progress`` shows how far it is: bars on a terminal, a table in a notebook, elsewhere a line now and then; False is
    silent. ``log`` names where its figures go, too: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``, an object of yours
    (``fedol.report.loggers.Log``), or several. ``observer`` is told everything (``fedol.progress.Observer``), and takes
    the place of the display unless ``progress`` is True.
    """
    if not (config is None or isinstance(config, RunConfig)):
        raise InputError(f"The configuration must be a fedol.RunConfig, but is {brief(config)}; data go in dataset=.")
    values: dict[str, Any] = dict(settings)
    own = None
    if dataset is not None:
        values["dataset"], own = _named(dataset)
        values = {**(_suited(own) if config is None else {}), **values}
    config = configure(values.pop("preset", None), overrides=values) if config is None else changed(config, values)
    folder = default_folder(config) if out is None else Path(out)
    with _screen(progress, observer) as screen, Logged(log, folder) as logs:
        observers = Several(screen, logs, observer, Pages())
        summary, already = Simulation(config, folder, own, engine, force).run(observers)
        observers.finished(folder)
    return RunResult(folder, summary, already)


def _screen(progress: bool | Literal["auto"], observer: Observer) -> AbstractContextManager[Observer]:
    """The display, where one is wanted."""
    if not isinstance(progress, bool) and progress != "auto":
        raise InputError("progress is 'auto', True or False.")
    return display(observer is NOBODY if progress == "auto" else progress)


@spelled_out(RunSettings, but=("dataset", "method", "partition", "seed"))
def compare(
    data: Data = "digits",
    methods: str | Sequence[str] = ("local", "fedol", "fedol+", "pooled", "union"),
    partitions: str | Partition | Sequence[str | Partition] | None = None,
    seeds: int | str | Sequence[int] = 3,
    *,
    against: str | None = None,
    out: str | Path = "bench",
    progress: bool | Literal["auto"] = "auto",
    observer: Observer = NOBODY,
    **settings: Unpack[GridKeywords],
) -> Comparison:
    """Compare methods on the same clients, partition by partition and seed by seed.

    ``data`` is what ``fedol.run`` takes as its dataset. ``partitions`` default to the preset's, ``seeds=3`` is the
    first three, ``"0-4"`` or a list are these. A setting with a list of values (``tau=[0.1, 0.5]``) is a grid: every
    combination is a row. Differences are to ``against``, which is FedOL unless it is not among the methods.

    The folder ``out`` is that of ``fedol bench``: what is finished there is not done again, a call that was stopped
    continues, and methods that hear the same clients train them once. The preset is ``paper`` on CIFAR-100, else
    ``quick``. ``progress`` and ``observer`` are those of ``fedol.run``.
    """
    dataset, own = _named(data)
    values: dict[str, Any] = dict(settings)
    values = {**_suited(own), **values}
    preset = values.pop("preset", usual_preset({"dataset": dataset}))
    grid = {name: several for name, value in values.items() if (several := as_grid(name, value)) is not None}
    wanted: dict[str, Any] = {
        "kind": "one-round",
        "preset": preset,
        "methods": methods,
        "seeds": seeds,
        "settings": {"dataset": dataset} | {name: value for name, value in values.items() if name not in grid},
        "grid": grid,
    }
    if partitions is not None:
        named = [partitions] if isinstance(partitions, Partition) else partitions
        wanted["partitions"] = named if isinstance(named, str) else list(map(_partition, named))
    spec = Spec.from_json(wanted)
    with _screen(progress, observer) as screen:
        bench = Bench(spec, Path(out), own)
        Table.of(bench.spec, bench.folder, against)  # a wrong name is an error now, not after hours
        outcome = bench.run(Progress(lambda *_: None, observer=Several(screen, observer)))
        screen.finished(bench.folder.path)
    table = Table.of(bench.spec, bench.folder, against)
    failed = tuple(outcome["failed"])
    if not outcome["finished"]:
        raise FedolError(
            " ".join(failed) or f"Another process works on all of it in {out}; wait until it has finished."
        )
    if outcome["elsewhere"]:
        failed = (*failed, f"Another process still works on {outcome['elsewhere']} of these in {out}.")
    for reason in failed:
        warnings.warn(reason, stacklevel=2)
    return Comparison(table, Path(out), failed)


def _named(data: Any) -> tuple[str, Dataset | None]:
    """The name of the data in settings; and they themselves, where no name finds them."""
    if isinstance(data, str | Path):
        return str(data), None
    if isinstance(data, tuple | list) and len(data) == 2:
        data = from_pair(*data)
    if isinstance(data, Dataset):
        return data.identity, data
    raise InputError(f"The data must be a name, a path, a fedol.Dataset or a pair (X, y), but are {brief(data)}.")


def _suited(own: Dataset | None) -> dict[str, Any]:
    """The models that take data without a name, where those of a preset do not."""
    return {} if own is None else SUITED.get(own.train.samples.kind, {})


def _partition(spec: Any) -> str:
    """A partition's name."""
    if not isinstance(spec, str | Partition):
        raise InputError(
            f"A partition is a name, such as 'dirichlet:0.3', or a fedol.data.Partition, not {brief(spec)}."
        )
    return canonical(spec)
