"""The charts of the reports: small SVG drawings whose colours come from the page, so that they follow its theme."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from fedol.runs.png import encode
from fedol.text import shown, sized


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


MOST_CELLS = 4_000  # of a heat map that is drawn cell by cell; a larger one is an image


def heat_map(counts: np.ndarray, classes: Sequence[str], clients: Sequence[str]) -> Markup:
    """Client × class: how many private samples, darker for more."""
    title = f"Private samples of {len(clients)} clients by class; the largest share is {counts.max():,} samples."
    shade = np.sqrt(counts / max(1, counts.max()))  # the square root shows small shares too
    if counts.size > MOST_CELLS:
        picture = base64.b64encode(encode((255 - 220 * shade[None]).astype(np.uint8))).decode()
        return tag("img", src=f"data:image/png;base64,{picture}", alt=title, class_="heat-image")
    wide = max(9.0, min(44.0, 880 / counts.shape[1]))
    high = 24.0 if len(clients) <= 30 else 14.0
    numbers = wide >= 26
    left, top = 78.0, 64.0 if max(map(len, classes)) > 3 or not numbers else 22.0
    parts = []
    for k, name in enumerate(clients):
        parts.append(text(left - 8, top + k * high + high / 2 + 4, _cut(name, 11), "end"))
        for c, count in enumerate(counts[k].tolist()):
            x, y = left + c * wide, top + k * high
            tip = tag("title", f"{name}, {classes[c]}: {count:,}")
            box = {"x": x, "y": y, "width": wide - 1, "height": high - 1}
            parts.append(tag("rect", tip, **box, class_="cell", fill_opacity=float(shade[k, c]) * 0.95 + 0.02))
            if numbers and count:
                ink = "on-light" if shade[k, c] < 0.6 else "on-middle" if shade[k, c] < 0.78 else "on-dark"
                parts.append(text(x + wide / 2, y + high / 2 + 4, f"{count}", "middle", ink))
    for c, name in enumerate(classes):
        x = left + c * wide + wide / 2
        if top < 30:
            parts.append(text(x, top - 8, name, "middle"))
        elif numbers or len(classes) <= 100:
            parts.append(
                tag(
                    "text",
                    _cut(name, 10),
                    transform=f"translate({x + 3:.1f},{top - 6:.0f}) rotate(-60)",
                    class_="small",
                )
            )
    width, height = left + wide * len(classes) + (30 if top > 30 else 4), top + high * len(clients) + 4
    return tag(
        "div",
        drawing(width, height, title, *parts),
        style=f"min-width:{0.8 * width:.0f}px;max-width:{1.35 * width:.0f}px",
    )


def iterations(series: dict[str, list[float | None]], steps: Sequence[int]) -> Markup:
    """Shares over the server's iterations, a line each."""
    plot = Plot(height=270)
    parts = plot.percent_axis()
    last = max(1, len(steps) - 1)
    for place, step in enumerate(steps):
        if len(steps) <= 12 or place % math.ceil(len(steps) / 10) == 0:
            parts.append(text(plot.x(place / last), plot.height - 16, str(step), "middle"))
    parts.append(text(plot.x(0.5), plot.height - 2, "iteration", "middle"))
    for number, (name, values) in enumerate(series.items()):
        points = [(place / last, value) for place, value in enumerate(values) if value is not None]
        parts.append(plot.path(points, f"line s{number}"))
        for (x, y), value in zip(points, (v for v in values if v is not None), strict=True):
            tip = tag("title", f"{name}: {100 * value:.1f} %")
            parts.append(tag("circle", tip, cx=plot.x(x), cy=plot.y(y), r=3, class_=f"dot s{number}"))
    words = "; ".join(f"{name} from {_percent(v[0])} to {_percent(v[-1])}" for name, v in series.items())
    return drawing(plot.width, plot.height, f"Over the iterations: {words}.", *parts)


MOST_CURVES = 30  # of clients; more would be a carpet


def losses(clients: Sequence[Sequence[float]], server: Sequence[Sequence[float]]) -> Markup:
    """The loss after every epoch, on a logarithmic scale: a line per client, and one per iteration of the server."""
    shown = [*clients[:MOST_CURVES], *server]
    plot, longest = Plot(height=270), max(map(len, shown))
    levels = [math.log10(max(loss, 1e-6)) for curve in shown for loss in curve]
    low, high = min(levels), max(max(levels), min(levels) + 0.1)
    ticks = [base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5)]
    parts = []
    for tick in ticks:
        if low <= math.log10(tick) <= high:
            y = plot.y((math.log10(tick) - low) / (high - low))
            parts.append(tag("line", x1=plot.x(0), x2=plot.x(1), y1=y, y2=y, class_="grid"))
            parts.append(text(plot.x(0) - 6, y + 4, f"{tick:g}", "end"))
    for epoch in sorted({1, (longest + 1) // 2, longest}):
        parts.append(text(plot.x((epoch - 1) / max(1, longest - 1)), plot.height - 16, str(epoch), "middle"))
    parts.append(text(plot.x(0.5), plot.height - 2, "epoch", "middle"))
    for curves, look in ((clients[:MOST_CURVES], "line client"), (server, "line server")):
        for curve in curves:
            heights = [(math.log10(max(loss, 1e-6)) - low) / (high - low) for loss in curve]
            parts.append(plot.path([(at / max(1, longest - 1), y) for at, y in enumerate(heights)], look))
    words = [
        f"{who} end at {min(c[-1] for c in some):.3g} to {max(c[-1] for c in some):.3g}"
        for who, some in (("clients", clients), ("iterations of the server", server))
        if some
    ]
    return drawing(plot.width, plot.height, f"Losses after each epoch: {'; '.join(words)}.", *parts)


def sizes(points: Sequence[dict[str, Any]]) -> Markup:
    """Accuracy against model size (logarithmic): every client a dot, the server a larger one."""
    plot = Plot(height=270)
    logs = [math.log10(max(1, point["parameters"])) for point in points]
    low, high = math.floor(min(logs) * 2) / 2 - 0.1, math.ceil(max(logs) * 2) / 2 + 0.1
    parts = plot.percent_axis()
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = (power - low) / (high - low)
        parts.append(tag("line", x1=plot.x(at), x2=plot.x(at), y1=plot.y(0), y2=plot.y(1), class_="grid"))
        parts.append(text(plot.x(at), plot.height - 16, _count(10**power), "middle"))
    parts.append(text(plot.x(0.5), plot.height - 2, "parameters", "middle"))
    for point, log in zip(points, logs, strict=True):
        tip = tag("title", f"{point['name']}: {sized(point)}, {100 * point['accuracy']:.1f} %")
        look = ("dot server", 7) if point["server"] else ("dot client", 4.5)
        x, y = plot.x((log - low) / (high - low)), plot.y(point["accuracy"])
        parts.append(tag("circle", tip, cx=x, cy=y, r=look[1], class_=look[0]))
        if point["server"]:
            parts.append(text(x - 11, y + 4, "server", "end", "strong"))
    return drawing(plot.width, plot.height, "Accuracy on the test set against model size.", *parts)


def reliability(calibration: dict[str, Any]) -> Markup:
    """How right the server is where it is how sure: bars at the diagonal are well calibrated."""
    plot = Plot(width=420, height=270)
    bins = calibration["bins"]
    most, parts = max(entry["count"] for entry in bins), plot.percent_axis()
    for number, entry in enumerate(bins):
        if not entry["count"]:
            continue
        x, wide = plot.x(number / len(bins)), plot.x(1 / len(bins)) - plot.x(0) - 2
        top = plot.y(entry["accuracy"])
        tip = tag(
            "title",
            f"{entry['count']:,} samples: sure to {_percent(entry['confidence'])}, right in "
            f"{_percent(entry['accuracy'])}",
        )
        fade = 0.35 + 0.65 * math.sqrt(entry["count"] / most)
        box = {"x": x + 1, "y": top, "width": wide, "height": max(1.0, plot.y(0) - top)}
        parts.append(tag("rect", tip, **box, class_="bar", fill_opacity=fade))
    parts.append(plot.path([(0, 0), (1, 1)], "diagonal"))
    for share in (0, 0.5, 1):
        parts.append(text(plot.x(share), plot.height - 16, f"{100 * share:.0f} %", "middle"))
    parts.append(text(plot.x(0.5), plot.height - 2, "how sure the server is", "middle"))
    return drawing(
        plot.width, plot.height, f"Reliability: expected calibration error {_percent(calibration['ece'])}.", *parts
    )


def dumbbell(first: float, second: float) -> Markup:
    """Two shares on one line: the first hollow, the second full."""
    ends = [4 + 112 * share for share in (first, second)]
    parts = [tag("line", x1=4, x2=116, y1=8, y2=8, class_="grid")]
    parts.append(tag("line", x1=ends[0], x2=ends[1], y1=8, y2=8, class_="link"))
    parts += [
        tag("circle", cx=ends[0], cy=8, r=3.5, class_="hollow"),
        tag("circle", cx=ends[1], cy=8, r=4, class_="dot server"),
    ]
    return tag("svg", *parts, viewBox="0 0 120 16", class_="mini", aria_hidden="true")


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.1f} %"


def _count(value: float) -> str:
    """A power of ten for an axis: 100k."""
    steps = min(3, int(math.log10(value)) // 3)
    return f"{value / 1000**steps:g}{('', 'k', 'M', 'G')[steps]}"


def _cut(words: str, length: int) -> str:
    return words if len(words) <= length else words[: length - 1] + "…"
