"""``fedol.run``: a whole federation, simulated, from its settings to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from fedol.config import RunConfig, changed, configure
from fedol.data import Dataset
from fedol.errors import InputError
from fedol.federation.scenario import Engine, in_process
from fedol.federation.simulation import Simulation
from fedol.progress import NOBODY, Observer, Several
from fedol.report.loggers import Logged, Logs
from fedol.report.observers import display
from fedol.report.pages import Pages
from fedol.result import RunResult
from fedol.runs.names import default_folder


def run(
    config: RunConfig | None = None,
    *,
    out: str | Path | None = None,
    dataset: str | Dataset | None = None,
    progress: bool | Literal["auto"] = "auto",
    log: Logs = (),
    observer: Observer = NOBODY,
    engine: Engine = in_process,
    force: bool = False,
    **settings: Any,
) -> RunResult:
    """Simulate a federation; ``settings`` are fields of ``RunConfig`` (and ``preset``).

    ``dataset`` is a name, a path or a ``Dataset`` of your own. The run folder ``out`` has a telling name by default,
    such as ``runs/digits-dirichlet0.3-fedol-seed0``; the same call again continues or reads it. Where its run was
    made with other settings, other data or other code of a model or method of yours, that is an error; ``force`` makes
    the run in the folder anew. ``engine`` trains the clients: in this process, or
    ``fedol.federation.transports.flower_engine.on_ray(...)``, with the same result.

    ``progress`` shows how far it is: bars on a terminal, a table in a notebook, elsewhere a line now and then; False is
    silent. ``log`` names where its figures go, too: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``, an object of yours
    (``fedol.report.loggers.Log``), or several. ``observer`` is told everything (``fedol.progress.Observer``), and takes
    the place of the display unless ``progress`` is True.
    """
    if not isinstance(progress, bool) and progress != "auto":
        raise InputError("progress is 'auto', True or False.")
    own = dataset if isinstance(dataset, Dataset) else None
    if own is not None:
        settings["dataset"] = own.identity
    elif dataset is not None:
        settings["dataset"] = dataset
    if config is None:
        config = configure(settings.pop("preset", None), overrides=settings)
    else:
        config = changed(config, settings)
    folder = default_folder(config) if out is None else Path(out)
    shown = observer is NOBODY if progress == "auto" else progress
    with display(shown) as screen, Logged(log, folder) as logs:
        observers = Several(screen, logs, observer, Pages())
        summary, already = Simulation(config, folder, own, engine, force).run(observers)
        observers.finished(folder)
    return RunResult(folder, summary, already)
