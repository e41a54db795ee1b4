"""Progress where there is no terminal, as in the log of a batch job: a line now and then instead of a bar."""

from __future__ import annotations

import time

from rich.console import Console

from fedol.report.plain import plain
from fedol.times import clock

EVERY = 15.0  # seconds between two lines


class Lines:
    """Says how far one thing is, at most every ``EVERY`` seconds, so nothing of what is soon over."""

    def __init__(self, console: Console, what: str, total: int | None) -> None:
        self._console, self._what, self._total = console, what, total
        self._began = self._told = time.monotonic()

    def tell(self, done: int) -> None:
        """So much of it is done."""
        now, total = time.monotonic(), self._total
        if now - self._told < EVERY:
            return
        self._told = now
        of = f" of {total:,}, about {clock((now - self._began) * max(0, total - done) / done)} left" if total else ""
        self._console.print(plain(f"{self._what}: {done:,}{of}"), soft_wrap=True)
