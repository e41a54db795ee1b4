"""A newcomer's wait: from `pip install` of the wheel to the first picture, the report of the quick job.

    python benchmarks/first_picture.py --json benchmarks/results/first-picture.json

The virtual environment is new. PyTorch, which most people who try this have, is installed in it before the clock starts
(its time is in the record, too); everything else that FedOL needs comes with the wheel. pip's cache is not used.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from _record import ROOT, script, seconds, table, write

from fedol.errors import FedolError

HIDDEN = ("PYTHONPATH", "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "VIRTUAL_ENV")  # of whoever measures


def timed(*words: object, cwd: Path | None = None) -> float:
    """Seconds of a command that must succeed."""
    env = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    started = time.perf_counter()
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FedolError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr[-400:].strip()}")
    return time.perf_counter() - started


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    source = folder / "source"  # a copy: building leaves folders behind
    shutil.copytree(ROOT / "fedol", source / "fedol", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    timed(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source)
    return next(folder.glob("*.whl"))


def walk(folder: Path) -> dict[str, float]:
    """Every step with its seconds."""
    wheel = built(folder)
    environment = folder / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--constraint", ROOT / "constraints.txt")
    before = timed(*pip, "torch")
    steps = {"pip install": timed(*pip, wheel), "fedol --help": timed(environment / "bin" / "fedol", "--help")}
    steps["fedol run"] = timed(environment / "bin" / "fedol", "run", "--out", "runs/quick", cwd=folder)
    if not (folder / "runs" / "quick" / "report.html").exists():
        raise FedolError("The run has left no report.html.")
    steps["in all"] = sum(steps.values())
    return {"PyTorch, before": before, **steps}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        steps = walk(Path(folder))
    table(["step", "time"], [[step, seconds(took)] for step, took in steps.items()])
    if options.json:
        write(options.json, seed=0, settings={"load_before": load}, results=steps)


if __name__ == "__main__":
    script(main)
