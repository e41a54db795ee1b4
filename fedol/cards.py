"""How an object shows itself: a line on a terminal, a small table in a notebook; both made of the same few facts."""

from __future__ import annotations

from typing import Any

from fedol.text import printable, shown

LONGEST = 80  # characters of a fact


class Card:
    """An object that shows its facts instead of its arrays."""

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
