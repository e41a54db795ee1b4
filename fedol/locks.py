"""Files that one process at a time may hold."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout


class Taken(Exception):
    """Another process holds it."""


def hold(place: Path) -> FileLock | None:
    """Hold this file until the lock is released or forgotten; None on a file system without locks."""
    lock = FileLock(place, timeout=0)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise Taken from None
    except (OSError, NotImplementedError):
        return None  # one without room says so at the first write
    return lock
