"""An observer that remembers what it was told."""

from __future__ import annotations

from pathlib import Path

from fedol.progress import Observer
from fedol.training import Epoch


class Seen(Observer):
    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.jobs: list[str] = []  # of each epoch
        self.folders: list[Path] = []

    def stage(self, name: str, epochs: int) -> None:
        self.stages.append((name, epochs))

    def epoch(self, epoch: Epoch) -> None:
        self.jobs.append(epoch.job.name)

    def finished(self, folder: Path) -> None:
        self.folders.append(folder)
