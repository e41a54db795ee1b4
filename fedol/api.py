"""``fedol.run``: a whole federation, simulated, from its settings to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedol.config import RunConfig, changed, configure
from fedol.data import Dataset
from fedol.federation.scenario import Engine, in_process
from fedol.federation.simulation import RunResult, Simulation
from fedol.progress import NOBODY, Observer, Several
from fedol.report.pages import Pages


def run(
    config: RunConfig | None = None,
    *,
    out: str | Path | None = None,
    dataset: str | Dataset | None = None,
    observer: Observer = NOBODY,
    engine: Engine = in_process,
    force: bool = False,
    **settings: Any,
) -> RunResult:
    """Simulate a federation; ``settings`` are fields of ``RunConfig`` (and ``preset``).

    ``dataset`` is a name, a path or a ``Dataset`` of your own. The run folder ``out`` defaults to ``runs/`` and the
    dataset's name and configuration hash; the same call again continues or reads it. Where the folder's run was made
    with other settings, other data or other code of a model or method of yours, that is an error; ``force`` makes the
    run in the folder anew. ``observer`` is told how far it is (``fedol.progress.Observer``). ``engine`` trains the
    clients: in this process, or ``fedol.federation.transports.flower_engine.on_ray(...)``, with the same result.
    """
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
    observers = Several(observer, Pages())
    result = Simulation(config, folder, own, engine, force).run(observers)
    observers.finished(folder)
    return result


def default_folder(config: RunConfig) -> Path:
    """Where a run goes that is not told: ``runs/``, the dataset's name and the configuration's hash."""
    return Path("runs") / f"{Path(config.dataset).stem}-{config.hash}"
