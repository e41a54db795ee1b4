"""How FedOL's threads wait, and how many there are: said before torch is imported, and never against the user."""

import os
import subprocess
import sys

import pytest
from commands import ENV

from fedol.training.cpu import CpuEngine, cores

LOOK = "import os, fedol, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"


def policy(program: str, **said: str) -> str:
    unsaid = {name: value for name, value in ENV.items() if name not in ("OMP_WAIT_POLICY", "OMP_DISPLAY_ENV")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**unsaid, **said})
    return done.stdout + done.stderr


def test_threads_wait_asleep_unless_the_user_says_otherwise() -> None:
    assert policy(LOOK) == "PASSIVE False\n"
    assert policy(LOOK, OMP_WAIT_POLICY="ACTIVE") == "ACTIVE False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only GCC's OpenMP, in PyTorch for Linux, is asked what it does")
def test_torchs_openmp_hears_it() -> None:
    """Its library says at its start how often a thread looks for work before it sleeps."""
    assert "GOMP_SPINCOUNT = '0'" in policy("import fedol, torch", OMP_DISPLAY_ENV="VERBOSE")
    assert "GOMP_SPINCOUNT = '0'" not in policy("import torch, fedol", OMP_DISPLAY_ENV="VERBOSE")  # too late


@pytest.mark.parametrize(("said", "count"), [("3", 3), ("3,2", 3), ("0", None), ("many", None), (None, None)])
def test_as_many_cores_as_the_user_says(said: str | None, count: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert cores() == (count or here)
    with CpuEngine(torch.device("cpu"), lambda epoch: None) as engine:
        assert engine._pool._max_workers == cores()
