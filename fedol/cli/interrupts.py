"""Ctrl-C that is not lost while Python imports.

C code that is being imported, NumPy's and torch's for instance, clears exceptions that it does not expect, and a
``KeyboardInterrupt`` is one. So an interrupt during an import waits until that is over; a second one does not wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.05  # seconds until the next look whether the import is over
NOTHING = "nothing is left half-written, and the same command starts again"
_left = [NOTHING]  # what an interrupt leaves behind, as the command under way says


def resumable(force: bool = False) -> None:
    """Said by a command whose work is kept stage by stage: what an interrupt from now on leaves behind."""
    again = "the same command without --force" if force else "the same command"
    _left[0] = f"what is finished is kept, and {again} continues"


def left() -> str:
    """What an interrupt leaves behind."""
    return _left[0]


@contextmanager
def patient() -> Iterator[None]:
    """Within this, an interrupt waits for an import; where signals cannot be had it is as Python has it."""
    _left[0] = NOTHING
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal waiting
        if _importing(frame) and not (waiting and number == signal.SIGINT):
            waiting = True
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        waiting = False
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, before)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
