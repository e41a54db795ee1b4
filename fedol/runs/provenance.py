"""Where a result comes from: enough to make it again."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fedol import __version__

PACKAGE = Path(__file__).resolve().parents[1]


def versions(*packages: str) -> dict[str, str]:
    """Of Python, FedOL, PyTorch and these packages."""
    # PyTorch's own word names its build (+cpu, +cu130), which the metadata of a wheel from PyPI does not.
    always = {"python": platform.python_version(), "fedol": __version__, "torch": str(torch.__version__)}
    return always | {name: version(name) for name in packages}


def provenance(seed: int, device: torch.device | None = None) -> dict[str, Any]:
    """Command, code, versions, machine, device, seed and date of the present process.

    The code is the package's files, by a hash, and the commit; where that is null, ``commit_unknown`` says why.
    """
    device = device or torch.device("cpu")
    found = os.environ.get("FEDOL_COMMIT") or commit()  # the variable: where a copy has no .git
    return {
        "command": command(),
        "commit": found,
        **({} if found else {"commit_unknown": f"{PACKAGE} is not in a git checkout of FedOL; code names its files"}),
        "code": code(),
        "versions": {**versions("numpy"), "cuda": torch.version.cuda},
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "device": device_name(device),
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def device_name(device: torch.device) -> str:
    """The device in words."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def command() -> str:
    """What was typed: ``fedol run ...``, whichever way the entry point was reached."""
    script = Path(sys.argv[0])
    name = script.parent.name if script.name == "__main__.py" else script.name
    return shlex.join([name, *sys.argv[1:]])


@cache
def commit() -> str | None:
    """The commit of the checkout this package is in, with ``-dirty`` where the package differs from it.

    As first asked for in this process: long work asks before it begins, because a checkout may change meanwhile.
    """
    if _git("rev-parse", "--show-toplevel") != str(PACKAGE.parent):
        return None
    return (_git("rev-parse", "HEAD") or "") + ("-dirty" if _git("status", "--porcelain", "--", str(PACKAGE)) else "")


@cache
def code() -> str:
    """A hash of the package's files: the same code has the same, in a checkout and installed from a wheel."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def processor() -> str:
    """The CPU's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", *arguments], cwd=PACKAGE, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
