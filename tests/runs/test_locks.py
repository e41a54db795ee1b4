"""Locks on folders: who keeps them, who does not, and systems that have none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedol.runs.locks import Taken, hold

fcntl = pytest.importorskip("fcntl", reason="this system has no locks on folders")

OTHER = """
import sys
from pathlib import Path
from fedol.runs.locks import Taken, hold
try:
    held = hold(Path(sys.argv[1]))
except Taken:
    sys.exit(7)
"""


def free(place: Path) -> bool:
    """Whether another process could hold it."""
    code = subprocess.run([sys.executable, "-c", OTHER, str(place)], timeout=60).returncode
    assert code in (0, 7)
    return code == 0


def test_held_until_it_is_released_or_forgotten(tmp_path: Path) -> None:
    place = tmp_path / "folder" / "lock"
    held = hold(place)
    assert held is not None and not free(place)
    place.unlink()
    assert not free(place)  # though the other one made a new file
    held.release()
    assert free(place)
    held = hold(place)
    assert held is not None and not free(place)
    del held
    assert free(place)


def test_two_folders_are_two_locks(tmp_path: Path) -> None:
    one, two = hold(tmp_path / "one" / "lock"), hold(tmp_path / "two" / "lock")
    assert one is not None and two is not None
    with pytest.raises(Taken):
        hold(tmp_path / "one" / "lock")


def test_who_cannot_have_the_file_does_not_keep_the_folder(tmp_path: Path) -> None:
    """An earlier version holds the file alone."""
    place = tmp_path / "lock"
    file = os.open(place, os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    with pytest.raises(Taken):
        hold(place)
    os.close(file)
    assert free(place)


def test_a_child_that_outlives_us_does_not_keep_it(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    held, (ends, told) = hold(place), os.pipe()
    started = subprocess.Popen(["sleep", "60"], close_fds=False)  # a program that inherits what it can
    child = os.fork()
    if child == 0:  # pragma: no cover, another process
        os.close(told)
        os.read(ends, 1)
        os._exit(0)
    try:
        held.release()  # as our death would
        assert free(place)
        again = hold(place)
        assert again is not None
    finally:
        os.close(told)
        os.waitpid(child, 0)
        started.kill()
        started.wait()


def test_a_child_lets_nobody_in(tmp_path: Path) -> None:
    """That it forgets its copy must not release ours."""
    place = tmp_path / "lock"
    held = hold(place)
    child = os.fork()
    if child == 0:  # pragma: no cover, another process
        del held
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert held is not None and not free(place)


@pytest.mark.parametrize("error", [errno.EBADF, errno.ENOLCK, errno.EACCES, errno.EOPNOTSUPP])
def test_a_system_that_locks_files_only(error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some network file systems do."""
    real, folder = fcntl.flock, tmp_path.stat().st_ino

    def flock(descriptor: int, how: int) -> None:
        if os.fstat(descriptor).st_ino == folder:
            raise OSError(error, "no locks on folders")
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    held = hold(tmp_path / "lock")
    assert held is not None and not free(tmp_path / "lock")


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def forbidden(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if Path(path) == tmp_path:  # root, as whom tests may run, is never refused
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", forbidden)
    held = hold(tmp_path / "lock")
    monkeypatch.undo()
    assert held is not None and not free(tmp_path / "lock")


def test_a_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    assert hold(tmp_path / "lock") is None
    monkeypatch.undo()
    assert free(tmp_path / "lock")
