"""One cell of a benchmark for people: what was run, how it went, and the command that computed it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from fedol.experiments.summary import Result, label
from fedol.report.svg import Plot, drawing, text

SERIES = {
    "server on the test set": "test_accuracy",
    "labels right": "pseudo_label_accuracy",
    "targets right": "target_accuracy",
}


def cell_view(result: Result) -> dict[str, Any]:
    """The values that ``templates/cell.html`` shows of a finished cell."""
    settings, history = result["settings"], result.get("history") or []
    step = "round" if settings.get("rounds", 1) > 1 else "iteration"
    curves = {"server on the test set": [record["accuracy"] for record in history]} if step == "round" else {}
    for name, key in SERIES.items() if step == "iteration" else ():
        values = [record.get("diagnostics", {}).get(key) for record in history]
        if all(value is not None for value in values) and values:
            curves[name] = values
    where = [settings["partition"]] if "partition" in settings else []
    where += [f"{settings['rounds']} rounds"] if step == "round" else []
    return {
        "id": f"cell-{result['hash']}",  # where the page shows it
        "file": result["file"],
        "name": ", ".join([label(settings), *where, f"seed {result['seed']}"]),
        "accuracy": result["accuracy"],
        "settings": {name: _plain(value) for name, value in settings.items()},
        "step": step,
        "curves": curves,
        "chart": _chart(curves["server on the test set"], step) if len(history) > 1 and curves else None,
        "clients": result.get("clients", []),
        "command": result.get("command"),
        "made": {name: result[name] for name in ("device", "date", "commit", "seconds") if result.get(name)},
    }


def _chart(values: list[float], step: str) -> Markup:
    """The server's accuracy as a small curve from 0 to 100 %; a page may have hundreds of them."""
    plot = Plot(height=150)
    last = len(values) - 1
    parts = plot.percent_axis()
    parts.append(plot.path([(place / last, value) for place, value in enumerate(values)], "line s3"))
    parts += [text(plot.x(share), plot.height - 16, words, "middle") for share, words in ((0, "1"), (1, str(last + 1)))]
    parts.append(text(plot.x(0.5), plot.height - 2, step, "middle"))
    title = f"Test accuracy from {100 * values[0]:.1f} % in the first {step} to {100 * values[-1]:.1f} % in the last."
    return drawing(plot.width, plot.height, title, *parts)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
