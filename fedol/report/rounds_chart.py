"""The paper's figure: accuracy over communication rounds, ours solid, theirs dotted, FedOL's one round a level."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from fedol.report.svg import Plot, drawing, tag, text

COLOURS = 8  # of the style sheet


def rounds_chart(panel: dict[str, Any]) -> Markup:
    """One partition's curves, with the spread over seeds as whiskers."""
    plot = Plot(width=560, height=320)
    lines = panel["lines"]
    length = max(max(len(line["rounds"]), len(line["paper"] or [])) for line in lines)
    top = _top(panel)

    def at(number: int, value: float) -> tuple[float, float]:
        return number / max(1, length - 1), value / top

    parts = []
    for step in range(5):
        level = step / 4
        parts.append(tag("line", x1=plot.x(0), x2=plot.x(1), y1=plot.y(level), y2=plot.y(level), class_="grid"))
        parts.append(text(plot.x(0) - 6, plot.y(level) + 4, f"{100 * level * top:.0f} %", "end"))
    for number in range(length):
        parts.append(text(plot.x(at(number, 0)[0]), plot.height - 16, str(number + 1), "middle"))
    parts.append(text(plot.x(0.5), plot.height - 2, "communication rounds", "middle"))
    for reached, look in ((panel["paper_fedol"], "line paper level"), (_fedol(panel), "line level")):
        if reached:
            parts.append(plot.path([(0, reached / top), (1, reached / top)], look))
    for place, line in enumerate(lines):
        colour = f"s{place % COLOURS}"
        if line["paper"]:
            theirs = [at(number, value) for number, value in enumerate(line["paper"])]
            parts.append(plot.path(theirs, f"line paper {colour}"))
        ours = [at(number, point["mean"]) for number, point in enumerate(line["rounds"])]
        parts.append(plot.path(ours, f"line ours {colour}"))
        for number, point in enumerate(line["rounds"]):
            x, y = at(number, point["mean"])
            if point["std"] is not None:
                ends = [plot.y((point["mean"] + sign * point["std"]) / top) for sign in (-1, 1)]
                parts.append(tag("line", x1=plot.x(x), x2=plot.x(x), y1=ends[0], y2=ends[1], class_="whisker"))
            tip = tag("title", f"{line['label']}, round {number + 1}: {100 * point['mean']:.1f} %")
            parts.append(tag("circle", tip, cx=plot.x(x), cy=plot.y(y), r=3, class_=f"dot {colour}"))
    return drawing(plot.width, plot.height, f"Accuracy over {length} rounds, {panel['partition']}.", *parts)


def _top(panel: dict[str, Any]) -> float:
    """The end of the axis: the next tenth above everything that is drawn."""
    values = [point["mean"] + (point["std"] or 0) for line in panel["lines"] for point in line["rounds"]]
    values += [value for line in panel["lines"] for value in line["paper"] or []]
    values += [value for value in (panel["paper_fedol"], _fedol(panel)) if value]
    return min(1.0, int(10 * max(values) + 1) / 10)


def _fedol(panel: dict[str, Any]) -> float | None:
    return panel["fedol"]["mean"] if panel["fedol"] else None
