"""The runs in a folder: what each is, how far it is, and taking away what it has written."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedol.config import RunConfig
from fedol.errors import FedolError
from fedol.runs.folder import LOCK, REPORT, SHARED, WRITTEN, frozen_settings, read_summary
from fedol.runs.locks import Taken, hold

FINISHED, UNFINISHED, TRAINING, DAMAGED = "finished", "unfinished", "training", "damaged"
LOGS = ("tensorboard", "wandb")  # folders that a log has written; whatever is in them


@dataclass(frozen=True)
class Run:
    """One run folder."""

    path: Path
    settings: dict[str, Any]
    state: str
    summary: dict[str, Any] | None  # of a finished one

    @property
    def accuracy(self) -> float | None:
        """The server's on the test set, where both are there."""
        found = (self.summary or {}).get("server") or {}
        return found.get("accuracy", ((self.summary or {}).get("test") or {}).get("accuracy"))

    @property
    def mean_client(self) -> float | None:
        """The mean of the clients, which only a simulation knows."""
        return ((self.summary or {}).get("local") or {}).get("mean")

    @property
    def served(self) -> bool:
        """Whether it holds strangers' files."""
        return "task" in self.settings

    @property
    def date(self) -> str:
        """When something last changed in it, as a person in this time zone would write it."""
        newest = max(file.stat().st_mtime for file in (self.path / "config.json", *self.path.glob("*.json*")))
        return datetime.fromtimestamp(newest, UTC).astimezone().strftime("%Y-%m-%d %H:%M")

    @property
    def bytes(self) -> int:
        """All files together."""
        return sum(file.lstat().st_size for file in self.path.rglob("*") if not file.is_dir())

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "run": str(self.path),
            "state": self.state,
            "accuracy": self.accuracy,
            "mean_client": self.mean_client,
            "date": self.date,
            "bytes": self.bytes,
            "settings": self.settings,
        }


def found(places: Iterable[Path]) -> list[Run]:
    """The runs that are these folders or lie in them, by name; anything else in them is passed over."""
    runs: dict[Path, Run] = {}
    for place in places:
        inside = sorted(place.iterdir()) if place.is_dir() else []
        for folder in (place, *inside):
            if not folder.is_symlink() and (settings := frozen_settings(folder)) is not None:
                runs[folder.resolve()] = _run(folder, settings)
    return list(runs.values())


def _run(folder: Path, settings: dict[str, Any]) -> Run:
    if not (folder / "summary.json").exists():
        try:
            state, lock = UNFINISHED, hold(folder / LOCK) if (folder / LOCK).exists() else None
            if lock:
                lock.release()
        except Taken:
            state = TRAINING
        return Run(folder, settings, state, None)
    try:
        return Run(folder, settings, FINISHED, read_summary(folder / "summary.json"))
    except FedolError:
        return Run(folder, settings, DAMAGED, None)


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which some of the runs differ."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if any(run.settings.get(name) != runs[0].settings.get(name) for run in runs)]


def removable(run: Run) -> str | None:
    """Why a run is not for ``remove``; None where it is."""
    if run.served:
        return "it holds clients' files, which may be there once only; remove it yourself"
    return "a process works in it" if run.state == TRAINING else None


def remove(run: Run) -> list[Path]:
    """Take away what the run has written; what somebody else has put there stays, and is returned."""
    if why := removable(run):
        raise FedolError(f"{run.path} is not removed: {why}.")
    root = run.path.resolve()
    try:
        lock = hold(root / LOCK)
    except Taken:
        raise FedolError(f"{run.path} is not removed: a process works in it.") from None
    try:
        for name in LOGS:
            if (root / name).is_dir() and not (root / name).is_symlink():
                shutil.rmtree(root / name)
        for file in _written(root):
            file.unlink()
        for folder in (root / "clients", root / "server"):
            if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
                folder.rmdir()
        (root / "config.json").unlink()  # last: without it, this is no run that could be asked for again
    finally:
        if lock:
            lock.release()
    (root / LOCK).unlink(missing_ok=True)
    left = sorted(root.rglob("*"))
    if not left:
        root.rmdir()
    return left


def _written(root: Path) -> Iterator[Path]:
    """What every run writes beside its settings and its lock, but nothing that a link leads to."""
    for pattern in {*WRITTEN, *RunConfig.written, REPORT, SHARED, "report-for-*.html"}:
        for file in list(root.glob(pattern)):
            if file.parent.resolve() in (root, root / "clients", root / "server"):
                yield file
