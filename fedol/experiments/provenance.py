"""Where a number comes from: command, commit, device and library versions."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedol


@cache
def commit() -> str | None:
    """The commit of this checkout, marked where files differ from it; None outside a checkout."""
    here = Path(fedol.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, check=True, capture_output=True, text=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-modified" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def device_name(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if device.type == "mps" else f"CPU ({platform.machine()})"


def provenance(device: torch.device) -> dict[str, Any]:
    """What is recorded with every result."""
    return {
        "command": shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]),
        "commit": os.environ.get("FEDOL_COMMIT") or commit(),  # the variable: where a copy has no .git
        "device": device_name(device),
        "versions": {
            "fedol": fedol.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "cuda": torch.version.cuda,
        },
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
