"""The last epoch of a training in a file, so that a training that was stopped goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from fedol.errors import FedolError
from fedol.files import read_tensors, write_tensors
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
        try:
            tensors, header = read_tensors(self.path)
            losses = tuple(header.pop("losses"))
        except (OSError, KeyError, SafetensorError) as error:
            raise FedolError(f"{self.path} is damaged ({error}); remove it and start again.") from None
        return Snapshot(tensors, losses) if header == dict(self.identity) else None

    def forget(self) -> None:
        """The training is finished."""
        self.path.unlink(missing_ok=True)
