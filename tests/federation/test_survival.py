"""Real processes that are killed, run out of disk or lose their inbox, and go on when started again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT, fedol
from small_federation import SMALL, Federation

# `fedol` as it is, but the process kills itself with SIGKILL at its n-th write to disk: before the file is whole,
# before it gets its name, or right after.
KILLED = """
import os, signal, sys
from pathlib import Path
moment, when = int(sys.argv[1]), sys.argv[2]
writes, sync, rename = 0, os.fsync, Path.replace
def die(): os.kill(os.getpid(), signal.SIGKILL)
def fsync(descriptor):
    global writes
    writes += 1
    if writes == moment and when == "within":
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2); die()
    sync(descriptor)
def replace(self, target):
    if writes == moment and when == "before": die()
    done = rename(self, target)
    if writes == moment and when == "after": die()
    return done
os.fsync, Path.replace = fsync, replace
sys.argv = ["fedol", *sys.argv[3:]]
from fedol.cli import main
main()
"""


def serve(federation: Federation, inbox: Path, out: Path) -> list[str]:
    parts = ["serve", federation.task_dir, "--inbox", inbox, "--quorum", 3, "--out", out, "--json", *SMALL]
    return [str(part) for part in parts]


@pytest.fixture(scope="module")
def whole(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    inbox = federation.inbox(folder / "inbox", "alice", "bob", "carol")
    done = fedol(*serve(federation, inbox, folder / "run"))
    assert done.returncode == 0, done.stderr
    return (folder / "run" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_killed_again_and_again(federation: Federation, whole: bytes, tmp_path: Path) -> None:
    """Each start is killed a little further into its work; the last one ends with the same bytes.

    A start writes configuration (the first one), task, an event, roster, then each client's copy and event, the roster
    again, epochs, votes and iterations, each event with the log's head after it: so these moments lie in the
    validation, within a line of the log, within an iteration, between two, and in the writing of the result.
    """
    inbox, out = federation.inbox(tmp_path / "inbox", "alice", "bob", "carol"), tmp_path / "run"
    command = serve(federation, inbox, out)
    kills = [(1, "within"), (7, "before"), (17, "within"), (3, "after"), (10, "after"), (2, "within")]
    kills += [(7, "before"), (10, "within"), (6, "after")]
    stages = []
    for moment, when in kills:
        process = subprocess.run(
            [sys.executable, "-c", KILLED, str(moment), when, *command], cwd=ROOT, capture_output=True, text=True
        )
        assert process.returncode == -9, process.stderr
        for file in out.rglob("*.safetensors"):
            assert not file.name.startswith(".")  # nothing half-written under a real name
        stages.append((len(list(out.glob("clients/*.fedol"))), len(list(out.glob("server/??.safetensors")))))
        stages[-1] += ((out / "epoch.safetensors").exists(),)
    assert stages[0][0] == 0 and any(0 < clients < 3 for clients, _, _ in stages)  # killed while validating
    assert any(finished == 0 and epoch for _, finished, epoch in stages)  # within the first iteration
    assert any(finished == 1 for _, finished, _ in stages)  # after it
    done = fedol(*command)
    assert done.returncode == 0, done.stderr
    assert (out / "model.safetensors").read_bytes() == whole
    assert not list(out.rglob("epoch.safetensors"))


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def test_disk_full(federation: Federation, whole: bytes, tmp_path: Path) -> None:
    inbox = federation.inbox(tmp_path / "inbox", "alice", "bob", "carol")
    with small_disk(tmp_path / "disk", "80k"):
        out = tmp_path / "disk" / "run"
        full = fedol(*serve(federation, inbox, out))
        assert full.returncode == 2 and "No space left" in full.stderr and "Traceback" not in full.stderr
        assert not list(out.rglob("*.tmp")) and not (out / "model.safetensors").exists()
        shutil.copytree(out, tmp_path / "run")
    done = fedol(*serve(federation, inbox, tmp_path / "run"))  # the same run where there is space
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole


def test_a_file_larger_than_allowed(federation: Federation, whole: bytes, tmp_path: Path) -> None:
    """The same without root: the process may write no file above 20,000 bytes, so the first epoch does not fit."""
    inbox, out = federation.inbox(tmp_path / "inbox", "alice", "bob", "carol"), tmp_path / "run"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

    full = fedol(*serve(federation, inbox, out), preexec_fn=limit)
    assert full.returncode == 2 and "cannot be written (File too large)" in full.stderr
    assert not list(out.rglob("*.tmp")) and len(list(out.glob("clients/*.fedol"))) == 3
    done = fedol(*serve(federation, inbox, out))
    assert done.returncode == 0 and (out / "model.safetensors").read_bytes() == whole


def like_anyone() -> None:
    """Give up root's right to read and write everything, for this process and what it starts."""
    if os.geteuid() == 0:
        libc, drop = ctypes.CDLL(None), 24  # PR_CAPBSET_DROP
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(drop, capability, 0, 0, 0)


def test_inbox_without_rights(federation: Federation, whole: bytes, tmp_path: Path) -> None:
    """Not readable: a clear error, then on. Read-only: no matter, the server never writes there; a client does."""
    inbox, out = federation.inbox(tmp_path / "inbox", "alice", "bob", "carol"), tmp_path / "run"
    inbox.chmod(0o000)
    probe = subprocess.run(["ls", inbox], capture_output=True, preexec_fn=like_anyone)
    if probe.returncode == 0:
        pytest.skip("this user's rights cannot be limited here")
    refused = fedol(*serve(federation, inbox, out), preexec_fn=like_anyone)
    assert refused.returncode == 2 and f"{inbox} cannot be read (Permission denied)" in refused.stderr
    inbox.chmod(0o555)
    done = fedol(*serve(federation, inbox, out), preexec_fn=like_anyone)
    assert done.returncode == 0, done.stderr
    assert (out / "model.safetensors").read_bytes() == whole
    (tmp_path / "uniform.py").write_text("import numpy\ndef load(): return lambda x: numpy.full((len(x), 10), 0.1)\n")
    model, eve = f"{tmp_path / 'uniform.py'}:load", inbox / "eve.fedol"
    sent = fedol("client", "predict", federation.task_dir, "--model", model, "--out", eve, preexec_fn=like_anyone)
    assert sent.returncode == 2 and "cannot be written (Permission denied)" in sent.stderr
    inbox.chmod(0o755)
    assert sorted(path.name for path in inbox.iterdir()) == ["alice.fedol", "bob.fedol", "carol.fedol"]
