"""Several processes train one model on CUDA. Skipped where there is no GPU; one is enough, the processes share it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import ROOT
from safetensors.torch import load_file

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

# Each process believes to be on a host of its own, or NCCL would refuse to share the GPU.
PROGRAM = """
import os, sys, torch, torch.distributed as dist
from dataclasses import replace
from threading import Event
from safetensors.torch import save_file
from training_jobs import bright
os.environ |= {"LOCAL_RANK": "0", "NCCL_HOSTID": os.environ["RANK"], "NCCL_SOCKET_IFNAME": "lo"}
begin = dist.init_process_group
dist.init_process_group = lambda backend, **options: begin(sys.argv[1], **options)
from fedol.training import loop, team
mine = replace(bright(model="cnn-large", samples=150, side=16, width=16), alone=True)
with team.together() as leads:
    if leads:
        train = team.train if int(os.environ["WORLD_SIZE"]) > 1 else loop.train
        fitted = train(mine, torch.device("cuda"), lambda epoch: None, Event())
        assert fitted.error is None
        save_file({k: v.cpu().contiguous() for k, v in mine.model.state_dict().items()}, sys.argv[2])
"""


def trained(processes: int, backend: str, out: Path) -> dict[str, torch.Tensor]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    (out.parent / "program.py").write_text(PROGRAM)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", port]
    done = subprocess.run(
        [sys.executable, *launcher, out.parent / "program.py", backend, out],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}", "NVIDIA_TF32_OVERRIDE": "0"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return load_file(out)


def test_two_processes_are_one(tmp_path: Path) -> None:
    """Over NCCL and over gloo; 150 = 2 x 64 + 22."""
    one = trained(1, "nccl", tmp_path / "one")
    for backend in ("cpu:gloo,cuda:nccl", "gloo"):
        two = trained(2, backend, tmp_path / "two")
        for name, value in one.items():
            torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-4, msg=lambda t, n=name: f"{n}: {t}")
