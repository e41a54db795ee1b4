"""What ends a server before it begins, or must not: Ctrl-C, a missing package, a second server, a plain terminal."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT, fedol
from small_federation import SMALL, Federation

from fedol import Knowledge
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge.header import Guarantee

# Ctrl-C at the moment when a module is looked for; C code that imports it may clear the KeyboardInterrupt.
PRESSED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
moment = sys.argv[1]
sys.meta_path.insert(0, Finder())
sys.argv = ["fedol", *sys.argv[2:]]
from fedol.cli import main
main()
"""
MISSING = """
import sys
sys.modules["cryptography"] = None
sys.argv = ["fedol", *sys.argv[1:]]
from fedol.cli import main
main()
"""


def serving(federation: Federation, inbox: Path, out: Path, *more: object) -> list[str]:
    parts = ["serve", federation.task_dir, "--inbox", inbox, "--out", out, *(more or ("--quorum", 2)), *SMALL]
    return [str(part) for part in parts]


@pytest.mark.parametrize("moment", ["numpy.dtypes", "numpy._core._methods", "numpy._core._internal", "torch"])
def test_ctrl_c_while_python_imports_is_not_lost(federation: Federation, moment: str, tmp_path: Path) -> None:
    """It waits for files that never come, so whoever loses the interrupt never ends."""
    command = serving(federation, federation.inbox(tmp_path / "inbox"), tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", PRESSED, moment, *command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    stopped = "Stopped; what is finished is kept, and the same command continues.\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", stopped)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.1, 0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0])
def test_ctrl_c_at_any_moment(federation: Federation, after: float, tmp_path: Path) -> None:
    command = serving(federation, federation.inbox(tmp_path / "inbox"), tmp_path / "run")
    process = subprocess.Popen([sys.executable, "-m", "fedol", *command], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    begun = process.returncode == 130 and said.endswith("the same command continues.\n")
    assert begun or (process.returncode in (1, -2) and said.endswith("KeyboardInterrupt\n"))  # before our first line


def test_a_missing_package_is_said_before_anybody_waits(federation: Federation, tmp_path: Path) -> None:
    """Not at the first arrival, and no file is refused for it."""
    keyed = dataclasses.replace(federation.task, clients={"alice": "ab" * 32})
    task = TaskFolder.create(tmp_path / "task", keyed, federation.public).path
    inbox = federation.inbox(tmp_path / "inbox")
    command = ["serve", str(task), "--inbox", str(inbox), "--out", str(tmp_path / "run"), "--deadline", "1d", *SMALL]
    done = subprocess.run(
        [sys.executable, "-c", MISSING, *command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "pip install 'fedol[signing]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "run").exists()


@pytest.fixture
def waiting(federation: Federation, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that waits for a second client."""
    inbox, out = federation.inbox(tmp_path / "inbox", "alice"), tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-m", "fedol", *serving(federation, inbox, out), "--quiet"], cwd=ROOT)
    while not (out / "clients" / "alice.fedol").exists():
        assert process.poll() is None
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a file that is held cannot be deleted")
def test_a_second_server_is_not_let_in(
    federation: Federation, waiting: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Whether its lock is there, was taken for a leftover and deleted, or the whole server was killed."""
    inbox, out = tmp_path / "inbox", tmp_path / "run"
    second = serving(federation, inbox, out, "--deadline", "0s")
    (out / "run.lock").unlink()
    for _ in range(2):  # the first of which writes a lock of its own
        done = fedol(*second)
        assert done.returncode == 2 and "Another process works in" in done.stderr, done.stderr
    assert waiting.poll() is None and not (out / "summary.json").exists()
    waiting.kill()
    waiting.wait()
    assert fedol(*second).returncode == 0


TERMINALS = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""},
}


@pytest.mark.parametrize("terminal", TERMINALS)
def test_a_terminal_without_greek_letters(federation: Federation, terminal: str, tmp_path: Path) -> None:
    """A privacy promise is shown as ε and δ; a letter that the terminal lacks must not end what was trained."""
    promised, inbox = Guarantee(1.0, 1e-5, "a training image — 訓練"), tmp_path / "inbox"
    inbox.mkdir()
    for name in ("alice", "bob"):
        knowledge = dataclasses.replace(Knowledge.load(federation.file(name)), privacy=promised)
        knowledge.save(inbox / f"{name}.fedol")
    plain = {"env": {**os.environ, **TERMINALS[terminal]}, "encoding": terminal}
    served = fedol(*serving(federation, inbox, tmp_path / "run"), **plain)
    assert served.returncode == 0 and "Traceback" not in served.stderr, served.stderr
    assert (tmp_path / "run" / "report.html").exists()
    seen = fedol("inspect", inbox / "alice.fedol", "--task", federation.task_dir, **plain)
    assert seen.returncode == 0 and r"\u03b5 = 1" in seen.stdout, seen.stderr
