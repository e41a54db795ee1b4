"""One way to see how far work is: an observer, of whom every event is told.

Bars on a terminal, TensorBoard, lines of JSON and the pages of a finished run are observers (``fedol.report``); one of
yours overrides what it cares for. Long loops over samples, clients or files say what they are by ``watched``: whoever
is ``watching`` sees them, and no room between the two need know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from fedol.training import Epoch

T = TypeVar("T")
Watcher = Callable[[Iterable[Any], str, int | None], Iterable[Any]]
"""Gives back the parts it gets, and shows how far it is: the parts, what is done to them, and how many they are."""


class Observer:
    """Sees how far work is. Epochs may be told from the threads that train."""

    def stage(self, name: str, epochs: int) -> None:
        """A stage begins, ``clients`` or ``server``: so many epochs are to come."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch of a training has finished."""

    def finished(self, folder: Path) -> None:
        """A run is finished; everything but its pages is in its folder."""


class Several(Observer):
    """Tells each of them, in this order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def stage(self, name: str, epochs: int) -> None:
        """Each of them."""
        for observer in self._observers:
            observer.stage(name, epochs)

    def epoch(self, epoch: Epoch) -> None:
        """Each of them."""
        for observer in self._observers:
            observer.epoch(epoch)

    def finished(self, folder: Path) -> None:
        """Each of them."""
        for observer in self._observers:
            observer.finished(folder)


NOBODY = Observer()
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
