"""Folders in which one process at a time may work."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from filelock import FileLock, Timeout


class Taken(Exception):
    """Another process holds it."""


class Held:
    """A lock, until it is released or forgotten.

    It is on a file, which every system can, and on the file's folder, where the system can: somebody who takes the
    file for a leftover may delete it, and a second process would lock a new one.
    """

    def __init__(self, file: FileLock, folder: int | None) -> None:
        self._file, self._folder = file, folder
        _ALL.add(self)

    def release(self) -> None:
        """Let others in."""
        try:
            self._file.release()
        finally:
            self.leave_folder()

    def leave_folder(self) -> None:
        """Close this process's descriptor; a child's copy alone would keep the lock after its parent's death."""
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)

    def __del__(self) -> None:
        with suppress(OSError):
            self.release()


_ALL: WeakSet[Held] = WeakSet()


def hold(place: Path) -> Held | None:
    """Hold this file and its folder; None on a file system without locks."""
    lock = FileLock(place, timeout=0)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        held = Held(lock, _hold_folder(place.parent))
        lock.acquire()
    except (Timeout, BlockingIOError):
        raise Taken from None
    except (OSError, NotImplementedError):
        return None  # one without room says so at the first write
    return held


def _hold_folder(path: Path) -> int | None:
    """A descriptor that holds a lock on the folder itself; None where that is not possible."""
    try:
        import fcntl
    except ImportError:  # Windows, where a file that is held cannot be deleted
        return None
    try:
        folder = os.open(path, os.O_RDONLY)  # which programs that we start do not inherit
    except OSError:  # one that may be written but not read
        return None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise
    except OSError:  # some network file systems lock files only
        os.close(folder)
        return None
    return folder


def _after_fork() -> None:
    for held in list(_ALL):
        held.leave_folder()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
