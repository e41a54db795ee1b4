"""The Flower side on two versions of Flower: the installed one is that of every other test, the newest is here.

The newest is not installed, because it wants a newer certifi than the package index has; it runs from its unpacked
wheel, put before the installed one. The wheel is fetched once, into the user's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from commands import ROOT

pytest.importorskip("flwr", reason="these tests need Flower: pip install 'fedol[flower]'")

pytestmark = pytest.mark.slow
OTHER = "1.42.0"
HERE = "tests/federation"


@pytest.fixture(scope="module")
def other() -> Path:
    """The folder of the other version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedol-tests"
    place = cache / f"flwr-{OTHER}"
    if not (place / f"flwr-{OTHER}.dist-info" / "RECORD").exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", cache, f"flwr=={OTHER}"]
        done = subprocess.run(command, capture_output=True, text=True)
        wheels = list(cache.glob(f"flwr-{OTHER}-*.whl"))
        if not wheels:
            said = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            pytest.skip(f"flwr {OTHER} cannot be had here: {said}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(place)
    return place


def program(other: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python, with the other version first."""
    environment = {**os.environ, "OTHER_FLOWER": str(other), "PYTHONPATH": f"{other}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_it_is_the_other_version_that_runs(other: Path) -> None:
    said = program(
        other, "-c", "import flwr; from importlib.metadata import version; print(flwr.__file__, version('flwr'))"
    )
    assert said.stdout.split() == [str(other / "flwr" / "__init__.py"), OTHER], said.stderr


@pytest.mark.parametrize(
    "tests",
    [
        f"{HERE}/test_flower_app.py",
        f"{HERE}/test_node_policy.py",
        f"{HERE}/test_flower_engine.py::test_the_same_server_as_in_process",
        f"{HERE}/test_flower_deployment.py::test_three_nodes_with_tls_and_authentication",
    ],
)
def test_what_holds_of_one_holds_of_the_other(other: Path, tests: str) -> None:
    """The same bytes in a grid in memory, on Ray, and over TLS between real processes."""
    done = program(other, "-m", "pytest", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0 and " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-4000:]
