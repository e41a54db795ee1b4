"""Long loops that somebody may be watching.

A loop over images, clients or files says what it is by ``watched``; whoever shows progress (``fedol.report.progress``)
says so by ``watching``. Between the two lie several rooms that need not know: no callback is handed through them, and
where nobody watches, as in a library or a test, a loop is just a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
Watcher = Callable[[Iterable[Any], str, int | None], Iterable[Any]]
"""Gives back the parts it gets, and shows how far it is: the parts, what is done to them, and how many they are."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watched(parts: Iterable[T], what: str, count: int | None = None) -> Iterable[T]:
    """The same parts, in view of the watcher, if there is one; ``count`` where the parts have no length."""
    watcher = _watcher.get()
    if watcher is None:
        return parts
    return watcher(parts, what, len(parts) if count is None and isinstance(parts, Sized) else count)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Within this, ``watcher`` sees every watched loop of this thread."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
