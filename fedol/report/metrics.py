"""The lines of ``metrics.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """One record per finished stage; none where the file is not there."""
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
