"""Elements of an SVG drawing as escaped text, and a plot area with axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedol.text import shown


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element; ``class_`` is written class and ``text_anchor`` text-anchor, and everything is escaped."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{shown(_short(value), "html")}"' for key, value in attributes.items()
    )
    within = "".join(child if isinstance(child, Markup) else shown(child, "html") for child in children)
    return Markup(f"<{name}{words}>{within}</{name}>")


def drawing(width: float, height: float, title: str, *children: str) -> Markup:
    """A drawing that scales with its place and says in words what it shows."""
    box = f"0 0 {_short(width)} {_short(height)}"
    return tag("svg", *children, viewBox=box, role="img", aria_label=title, class_="chart")


def text(x: float, y: float, words: str, anchor: str = "start", class_: str = "") -> Markup:
    """Words at a place."""
    return tag("text", str(words), x=x, y=y, text_anchor=anchor, class_=class_)


@dataclass(frozen=True)
class Plot:
    """A plot area from (0, 0) to (1, 1) in the reader's sense: up is more."""

    width: float = 420
    height: float = 250
    left: float = 44
    right: float = 20
    top: float = 12
    bottom: float = 34

    def x(self, share: float) -> float:
        """From 0 (left) to 1 (right)."""
        return self.left + share * (self.width - self.left - self.right)

    def y(self, share: float) -> float:
        """From 0 (bottom) to 1 (top)."""
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def percent_axis(self) -> list[Markup]:
        """Lines and numbers at 0, 25, ... 100 %."""
        parts = []
        for value in (0, 0.25, 0.5, 0.75, 1):
            parts.append(tag("line", x1=self.x(0), x2=self.x(1), y1=self.y(value), y2=self.y(value), class_="grid"))
            parts.append(text(self.x(0) - 6, self.y(value) + 4, f"{100 * value:.0f} %", "end"))
        return parts

    def path(self, points: Sequence[tuple[float, float]], class_: str) -> Markup:
        """A line through points given in shares."""
        line = " ".join(f"{_short(self.x(x))},{_short(self.y(y))}" for x, y in points)
        return tag("polyline", points=line, class_=class_)


def _short(value: object) -> str:
    """A number with no more digits than a pixel needs."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
