"""Ctrl-C in a real process: what was computed stays, one sentence says how to go on, and the same command does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import ROOT, fedol
from small_federation import SMALL, Federation

STOPPED = "Stopped; what is finished is kept, and the same command continues.\n"
LONG = [*SMALL, "--iterations", "40"]  # longer than the moment it takes to send a signal


def interrupted(moment: Callable[[], bool], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Start a command and press Ctrl-C as soon as the moment has come."""
    command = [sys.executable, "-m", "fedol", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
    while not moment():
        assert process.poll() is None, f"it ended before the moment came: {process.communicate()}"
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def check_stopped(stopped: subprocess.CompletedProcess[str], out: Path) -> None:
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", STOPPED)
    assert not (out / "summary.json").exists() and not list(out.rglob("*.tmp"))


def times(out: Path, pattern: str) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in out.glob(pattern)}


def names(roster: Path) -> set[str]:
    return set(json.loads(roster.read_text())["clients"]) if roster.exists() else set()


@pytest.fixture(scope="module")
def whole(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The model of a command that nobody stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    files = [federation.file(name) for name in ("alice", "bob", "carol")]
    done = fedol("distill", federation.task_dir, *files, "--out", out, "--quiet", *LONG)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return (out / "model.safetensors").read_bytes()


def test_serve_while_it_waits_and_while_it_trains(federation: Federation, whole: bytes, tmp_path: Path) -> None:
    inbox, out = federation.inbox(tmp_path / "inbox", "alice", "bob"), tmp_path / "run"
    command = ("serve", federation.task_dir, "--inbox", inbox, "--quorum", 3, "--out", out, "--quiet", *LONG)
    check_stopped(interrupted(lambda: names(out / "roster.json") == {"alice", "bob"}, *command), out)
    kept = times(out, "clients/*.fedol")
    assert len(kept) == 2
    federation.inbox(inbox, "carol")
    check_stopped(interrupted((out / "server" / "02.safetensors").exists, *command), out)
    kept |= times(out, "server/0[12].safetensors")
    assert len(kept) == 4 and names(out / "roster.json") == {"alice", "bob", "carol"}
    done = fedol(*command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (out / "model.safetensors").read_bytes() == whole and (out / "report.html").exists()
    assert kept.items() <= {**times(out, "clients/*.fedol"), **times(out, "server/*.safetensors")}.items()


def test_distill_and_its_continuation(federation: Federation, whole: bytes, tmp_path: Path) -> None:
    out, later = tmp_path / "run", tmp_path / "run-resumed"
    files = [federation.file(name) for name in ("alice", "bob", "carol")]
    command = ("distill", federation.task_dir, *files, "--out", out, "--quiet", *LONG)
    check_stopped(interrupted((out / "server" / "01.safetensors").exists, *command), out)
    kept = times(out, "server/01.safetensors")
    assert fedol(*command).returncode == 0
    assert kept.items() <= times(out, "server/*.safetensors").items()
    assert (out / "model.safetensors").read_bytes() == whole
    command = ("distill", "--resume", out, federation.file("dave"), "--quiet")
    check_stopped(interrupted((later / "server" / "01.safetensors").exists, *command), later)
    kept = times(later, "server/01.safetensors")
    done = fedol(*command)
    assert done.returncode == 0, done.stderr
    assert kept.items() <= times(later, "server/*.safetensors").items()
    assert len(json.loads((later / "summary.json").read_text())["clients"]) == 4


def test_client_fit(federation: Federation, tmp_path: Path) -> None:
    import numpy as np

    from fedol.data import load

    data = load("digits")
    parts = {"train_x": data.train.x, "train_y": data.train.y, "test_x": data.test.x, "test_y": data.test.y}
    np.savez(tmp_path / "own.npz", **parts)
    models = [tmp_path / "stopped.safetensors", tmp_path / "straight.safetensors"]
    common = ("client", "fit", federation.task_dir, "--data", tmp_path / "own.npz", "--model", "mlp", "--epochs", 60)
    commands = [(*common, "--device", "cpu", "--quiet", "--out", model) for model in models]
    unfinished = tmp_path / "stopped.safetensors.unfinished"
    stopped = interrupted(unfinished.exists, *commands[0])
    assert (stopped.returncode, stopped.stderr) == (130, STOPPED)
    assert unfinished.exists() and not models[0].exists()
    for command in commands:
        assert fedol(*command).returncode == 0
    assert models[0].read_bytes() == models[1].read_bytes() and not unfinished.exists()


def test_a_benchmark(tmp_path: Path) -> None:
    out = tmp_path / "bench"
    command = ["bench", "one-round", "--preset=quick", "--clients=2", "--public=60", "--width=4", "--epochs=2"]
    command += ["--iterations=60", "--methods=fedol,local", "--partitions=iid", "--device=cpu", f"--out={out}"]
    stopped = interrupted(lambda: any(out.glob("servers/*.safetensors")), *command, "--quiet")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", STOPPED)
    kept = times(out, "clients/*/*.safetensors")
    assert len(kept) == 2 and len(list(out.glob("cells/*.json"))) < 2
    done = fedol(*command, "--json")
    assert json.loads(done.stdout).items() >= {"cells": 2, "finished": 2, "elsewhere": 0, "failed": []}.items()
    assert times(out, "clients/*/*.safetensors") == kept and (out / "report.html").exists()


def test_a_command_that_has_nothing_to_continue_says_so(federation: Federation, tmp_path: Path) -> None:
    began, out = tmp_path / "began", tmp_path / "alice.fedol"
    program = f"import pathlib, time\ndef load():\n    pathlib.Path({str(began)!r}).touch()\n    time.sleep(60)\n"
    (tmp_path / "slow.py").write_text(program)
    command = ("client", "predict", federation.task_dir, "--model", f"{tmp_path / 'slow.py'}:load", "--out", out)
    stopped = interrupted(began.exists, *command)
    assert (stopped.returncode, stopped.stdout) == (130, "") and not out.exists()
    assert stopped.stderr == "Stopped; nothing is left half-written, and the same command starts again.\n"
