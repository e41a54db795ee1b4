"""Times as people write and read them, and deadlines."""

from __future__ import annotations

import re
import time

from fedol.errors import InputError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> float:
    """``90s``, ``30m``, ``1.5h`` or ``2d`` in seconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text.strip())
    if match is None:
        raise InputError(f"'{text}' is no time; write for instance 90s, 30m, 2h or 1d.")
    return float(match[1]) * _UNITS[match[2]]


def clock(duration: float) -> str:
    """Seconds as 2:03 or 1:02:03, and from two days on as 3 days 4 h."""
    minutes, rest = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24:,} days {hours % 24} h"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def steady() -> float:
    """Seconds by a clock that nobody can set; where the system has one, it also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Deadline:
    """The moment ``duration`` seconds after ``opened``, a Unix time.

    The machine's clock is asked once how much of that has passed, because an earlier process may have opened. From then
    on time is counted: a clock that is set back meanwhile delays nothing.
    """

    def __init__(self, duration: float, opened: float) -> None:
        passed = min(max(0.0, time.time() - opened), duration)
        self._end = steady() + duration - passed

    @property
    def left(self) -> float:
        """Seconds until then; 0 from then on."""
        return max(0.0, self._end - steady())
