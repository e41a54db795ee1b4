"""``torchrun -m fedol``: several processes train the server as one does, within float noise."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import fedol
from fedol import Knowledge, Task
from fedol.data import load, split
from fedol.federation.taskfolder import TaskFolder
from fedol.training.team import Part

ROOT = Path(__file__).resolve().parents[2]
# No bias before a batch norm: it has no gradient but rounding errors, which Adam makes steps of.
NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, classes, channels):
        super().__init__(nn.Conv2d(channels, 6, 3, bias=False), nn.BatchNorm2d(6, momentum=None), nn.ReLU(),
                         nn.Flatten(), nn.Linear(216, 12, bias=False), nn.BatchNorm1d(12, affine=False),
                         nn.Linear(12, classes))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    data = split(load("digits"), 80, seed=0)
    task = Task.of(data.public, [str(d) for d in range(10)], "digits")
    TaskFolder.create(folder / "task", task, data.public)
    logits = 4 * nn.functional.one_hot(torch.from_numpy(data.public_labels), 10).float()
    for name, seed in (("alice", 1), ("bob", 2)):
        noise = torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed))
        Knowledge.from_logits(logits + noise, task, name).save(folder / f"{name}.fedol")
    (folder / "net.py").write_text(NET)
    return folder


def distill(files: Path, out: Path, processes: int, model: str, batch: int) -> None:
    arguments = ["-m", "fedol", "distill", "task", "alice.fedol", "bob.fedol", "--model", model, "--width", "4"]
    arguments += [
        "--iterations",
        "2",
        "--epochs",
        "3",
        "--batch-size",
        str(batch),
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    launcher = []
    if processes > 1:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", port]
    done = subprocess.run(
        [sys.executable, *launcher, *arguments],
        cwd=files,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Run folder") == 1  # one process speaks for all


def assert_same(one: Path, two: Path) -> None:
    """Equal up to the order of float32 sums."""
    ours, theirs = (fedol.load(run, trust_code=True) for run in (one, two))
    for (name, a), (_, b) in zip(ours.module.state_dict().items(), theirs.module.state_dict().items(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    for a, b in zip(ours.history, theirs.history, strict=True):
        assert a.pop("prior") == pytest.approx(b.pop("prior"), rel=1e-4)
        assert a == pytest.approx(b, rel=1e-4)


def test_two_processes_are_one_and_continue_each_other(files: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    distill(files, one, 1, "cnn-large", 32)
    distill(files, two, 2, "cnn-large", 32)
    assert_same(one, two)
    for begun, processes in ((two, 1), (one, 2)):  # the second iteration by one process, then by two
        mixed = tmp_path / f"mixed-{processes}"
        shutil.copytree(begun, mixed)
        for file in ("summary.json", "model.safetensors", "server/02.safetensors", "server/02.votes.safetensors"):
            (mixed / file).unlink()
        distill(files, mixed, processes, "cnn-large", 32)
        assert (mixed / "server" / "01.safetensors").read_bytes() == (begun / "server" / "01.safetensors").read_bytes()
        assert_same(one, mixed)


@pytest.mark.slow
def test_three_processes_a_model_of_ones_own_and_a_batch_that_leaves_one_idle(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)  # where net.py is
    distill(files, tmp_path / "one", 1, "net.py:Net", 26)  # 80 = 3 x 26 + 2: two samples for three processes
    distill(files, tmp_path / "three", 3, "net.py:Net", 26)
    assert_same(tmp_path / "one", tmp_path / "three")


@pytest.mark.parametrize(("size", "world"), [(64, 2), (7, 3), (2, 4), (1, 1)])
def test_parts_cover_a_batch_once(size: int, world: int) -> None:
    samples = list(range(size))
    parts = [samples[Part(rank, world).part(size)] for rank in range(world)]
    assert [sample for part in parts for sample in part] == samples
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
