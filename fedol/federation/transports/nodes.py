"""What a server on a network sees of its nodes while it collects: kept as ``nodes.json`` in the run folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedol.files import intact, read_json


@dataclass(frozen=True)
class Nodes:
    """Who is connected, who is at work, how many are in or refused (the roster says who), and the bytes that came."""

    connected: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    done: int = 0
    refused: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        counts = f"{len(self.connected)} connected, {len(self.training)} training, {self.done} done"
        return f"nodes: {counts}, {self.refused} refused, {self.bytes:,} bytes received"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def read(cls, path: Path) -> Nodes:
        """The present state; empty before the first look."""
        if not path.exists():
            return cls()
        with intact(path, "remove it"):
            values = read_json(path, "remove it")
            who = tuple(values["connected"]), tuple(values["training"])
            return cls(*who, int(values["done"]), int(values["refused"]), int(values["bytes"]))
