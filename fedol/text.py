"""Words for people: strangers' text made safe to show in every medium, times as people write them, objects as cards.

File names, reasons, privacy notes, class names and task ids come from files that anybody can write. Whatever shows
them goes through ``shown``, which knows what each medium would obey.
"""

from __future__ import annotations

import html
import re
import sys
import time
from io import TextIOWrapper
from typing import Any, Literal

from fedol.errors import InputError

MOST = 300  # characters of a reason or a note: enough for a sentence, too little to hide one in
Medium = Literal["terminal", "html", "markdown", "latex", "cell", "plot"]

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}[A-Za-z0-9]|[A-Za-z0-9]")
_MARKDOWN = re.compile(  # an underscore within a word means nothing; bare addresses become links, too
    r"[\\`*\[\]!~|#$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|(?<=www)\.|:(?=//)"
)
_MATHS = {"<": "<", ">": ">", "|": "|", "±": r"\pm", "×": r"\times", "−": "-", "†": r"\dagger"}
_GREEK = {"τ": r"\tau", "ρ": r"\rho", "λ": r"\lambda", "μ": r"\mu"}
_LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {letter: f"${command}$" for letter, command in {**_MATHS, **_GREEK}.items()}
)
_MINUS = re.compile(r"(?<![\w-])-(?=[0-9])")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # what a spreadsheet computes instead of showing
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # which it may compute


def printable(words: object, most: int | None = None) -> str:
    """Somebody's words on one line of at most ``most`` characters.

    White space becomes a space. What cannot be printed, such as an escape byte, half of a surrogate pair or a mark
    that turns the writing round, becomes its name (``\\x1b``): it commands nothing, and it is not hidden either.
    """
    text = str(words)
    line = text if text.isprintable() else "".join(map(_letter, text))
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


def shown(words: object, medium: Medium = "terminal") -> str:
    """Somebody's words as a medium shows them within a line, so that it obeys none of them."""
    line = printable(words)
    if medium == "html":
        return html.escape(line)
    if medium == "markdown":
        return _MARKDOWN.sub(r"\\\g<0>", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if medium == "latex":
        return _MINUS.sub("$-$", line.translate(_LATEX))
    if medium == "cell" and line.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(line):
        return f"'{line}"
    return line.replace("$", r"\$") if medium == "plot" else line  # matplotlib sets what is between two as a formula


def say(words: object) -> None:
    """Print a line of which a part may be somebody's words: a path, a name."""
    print(shown(words))


def forgiving() -> None:
    """Print what the terminal's encoding lacks as its name: a missing ε must not end a command after its training."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # not where somebody has put something else in its place
            stream.reconfigure(errors="backslashreplace")


def is_text(words: str) -> bool:
    """Whether words can be written at all: half of a surrogate pair, as in a file name of wild bytes, cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in words)


def naming(name: str) -> re.Pattern[str]:
    """Finds a name in a text, but not within a longer word."""
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


def check_name(client: str) -> str:
    """The name of a client as it is, or an error. It becomes a file name."""
    if not _PLAIN.fullmatch(client):
        raise InputError(
            f"A client cannot be named {client[:80]!r}: use 1 to 64 letters, digits, spaces, dots, hyphens and "
            "underscores, with a letter or digit at both ends."
        )
    return client


def _letter(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else letter.encode("unicode_escape").decode()


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> float:
    """``90s``, ``30m``, ``1.5h`` or ``2d`` in seconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text.strip())
    if match is None:
        raise InputError(f"'{text}' is not a time; write for instance 90s, 30m, 2h or 1d.")
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


LONGEST = 80  # characters of a fact on a card


class Card:
    """An object that shows its facts instead of its arrays: a line on a terminal, a small table in a notebook."""

    def facts(self) -> dict[str, Any]:
        """What it is, in a few plain values."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = {name: repr(value) if isinstance(value, str) else value for name, value in self.facts().items()}
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in facts.items())})"

    def _repr_html_(self) -> str:
        rows = {name.replace("_", " "): _short(value) for name, value in self.facts().items()}
        return table(type(self).__name__, rows)


def table(title: str, rows: dict[str, Any]) -> str:
    """A table of two columns as HTML, in which nothing is read as markup."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{shown(name, 'html')}</th>"
        f"<td style='text-align:left'>{shown(value, 'html')}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption style='text-align:left'><b>{shown(title, 'html')}</b></caption>{cells}</table>"


def _short(value: Any) -> str:
    return printable(f"{value:.4g}" if isinstance(value, float) else value, LONGEST)


def sized(model: dict[str, Any]) -> str:
    """How large a model of a summary is; an estimator's size is in words of its own."""
    return str(model.get("size") or f"{model['parameters']:,} parameters")
