"""The last epoch of a training in a file, so that a training that was stopped goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedol.files import intact, read_tensors, write_tensors
from fedol.training import Snapshot


@dataclass(frozen=True)
class EpochFile:
    """Holds one epoch, the newest in place of the one before; ``identity`` says of which training (plain values)."""

    path: Path
    identity: Mapping[str, Any]

    def keep(self, snapshot: Snapshot) -> None:
        """Write an epoch that has just finished."""
        write_tensors(self.path, snapshot.tensors, {**self.identity, "losses": list(snapshot.losses)})

    def read(self) -> Snapshot | None:
        """The epoch that was kept, if it belongs to this training."""
        if not self.path.exists():
            return None
        with intact(self.path, "remove it and start again"):
            tensors, header = read_tensors(self.path)
            losses = tuple(header.pop("losses"))
        return Snapshot(tensors, losses) if header == dict(self.identity) else None

    def forget(self) -> None:
        """The training is finished."""
        self.path.unlink(missing_ok=True)
