"""Plots; matplotlib is an extra and is imported only here."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from fedol.bench.comparison import Table
from fedol.errors import FedolError, MissingExtra
from fedol.methods import title
from fedol.report.terminal import count
from fedol.text import shown

LABEL = 40  # characters of which two fit side by side below a panel


def blank(width: float, height: float) -> Any:
    """An empty figure of so many inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("Plots need matplotlib: pip install 'fedol[plot]'.") from None

    class Shown(Figure):
        """What a notebook shows as a picture, without pyplot."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=110)
            return picture.getvalue()

    figure = Shown(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format of the file's ending; the same figure again is the same file."""
    from matplotlib import rc_context

    undated = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
    try:
        with rc_context({"svg.hashsalt": "fedol"}):
            figure.savefig(path, dpi=150, **undated)
    except (OSError, ValueError) as error:
        raise FedolError(f"The plot {path} cannot be written: {error}.") from None


def partition_heat_map(counts: np.ndarray, classes: tuple[str, ...], title: str, path: Path) -> None:
    """Client × class heat map of the private data."""
    clients, width = counts.shape
    figure = blank(min(16.0, 3 + 0.32 * width), min(12.0, 1.8 + 0.32 * clients))
    axes = figure.add_subplot()
    held = np.ma.masked_equal(counts, 0)  # a class that a client does not hold stays white
    image = axes.imshow(held, aspect="auto", cmap="viridis_r", interpolation="nearest", vmin=0)
    axes.set(title=shown(title, "plot"), xlabel="class", ylabel="client")
    axes.set_yticks(range(clients) if clients <= 30 else range(0, clients, max(1, clients // 20)))
    if width <= 30:
        names = [shown(name, "plot") for name in classes]
        axes.set_xticks(range(width), names, rotation=0 if max(map(len, classes)) <= 2 else 60, ha="right")
    if width <= 12 and clients <= 30:
        for (client, c), samples in np.ndenumerate(counts):
            if samples:
                axes.text(
                    c,
                    client,
                    samples,
                    ha="center",
                    va="center",
                    size=7,
                    color="white" if samples > counts.max() / 2 else "black",
                )
    figure.colorbar(image, ax=axes, label="samples")
    save(figure, path)


def comparison_figure(table: Table) -> Any:
    """A panel per partition: a line per method over the grid where it is one of numbers, else a bar per row."""
    values = [value for row in table.rows for value in row.values.values() if value is not None]
    curves = len(table.grid) == 1 and len(set(values)) > 1 and all(type(value) in (int, float) for value in values)
    height = 3.6 if curves else 1.2 + 0.32 * len(table.rows)
    figure = blank(4.2 * len(table.partitions) + (0 if curves else 1.2), height)
    panels = figure.subplots(1, len(table.partitions), squeeze=False, sharey=True)[0]
    for axes, partition in zip(panels, table.partitions, strict=True):
        (_curves if curves else _bars)(axes, table, partition)
        axes.set_title(shown(partition, "plot"))
        axes.grid(alpha=0.3, axis="both" if curves else "x")
    if curves:
        panels[0].set_ylabel("accuracy, %")
        figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, ncols=4, loc="outside lower center")
    return figure


def _curves(axes: Any, table: Table, partition: str) -> None:
    """A line per method; a level one where it does not depend on the setting."""
    (name,) = table.grid
    for method in dict.fromkeys(row.method for row in table.rows):
        rows = [row for row in table.rows if row.method == method]
        found = {point[0]: table.entry(row, partition) for row in rows for point in row.points}
        at = sorted(((v, e) for v, e in found.items() if e and v is not None), key=lambda pair: pair[0])
        means = [100 * entry["mean"] for _, entry in at]
        spreads = [100 * (entry["std"] or 0) for _, entry in at]
        axes.errorbar(
            [value for value, _ in at], means, spreads, marker="o", ms=4, capsize=3, label=shown(title(method), "plot")
        )
    axes.set_xticks(sorted({point[0] for row in table.rows for point in row.points if point[0] is not None}))
    axes.set_xlabel(shown(name, "plot"))


def _bars(axes: Any, table: Table, partition: str) -> None:
    """A bar per row, the first at the top, with its spread."""
    names, best = [], table.best(partition)
    for place, row in enumerate(table.rows):
        names.append(shown(", ".join(word for word in row.named if word), "plot"))
        if entry := table.entry(row, partition):
            colour = "#1f5fd0" if place in best else "#9db4d8"
            axes.barh(place, 100 * entry["mean"], xerr=100 * (entry["std"] or 0), color=colour, capsize=3)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("accuracy, %")


def rounds_figure(panels: list[dict[str, Any]], path: Path) -> None:
    """Accuracy over rounds, a panel per partition: ours solid, the paper's dotted, FedOL's one round a level line.

    The bands are the standard deviation over seeds.
    """
    longest = max((len(line["label"]) for panel in panels for line in panel["lines"]), default=0)
    columns = 2 if longest <= LABEL else 1  # of the legend
    below = max(math.ceil((len(panel["lines"]) + 1) / columns) for panel in panels)  # its lines, with FedOL's
    figure = blank(max(5.2, 0.8 + 0.055 * longest) * len(panels), 4.4 + 0.15 * below)
    for number, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), number)
        for line in panel["lines"]:
            ours = 100 * np.array([point["mean"] for point in line["rounds"]])
            spread = 100 * np.array([point["std"] or 0 for point in line["rounds"]])  # None where n = 1
            at = range(1, len(ours) + 1)
            (drawn,) = axes.plot(at, ours, marker="o", ms=3, label=shown(line["label"], "plot"))
            axes.fill_between(at, ours - spread, ours + spread, color=drawn.get_color(), alpha=0.12, lw=0)
            if line["paper"]:
                theirs = [100 * value for value in line["paper"]]
                axes.plot(range(1, len(theirs) + 1), theirs, ":", color=drawn.get_color(), lw=1)
        if panel["fedol"]:
            level, around = 100 * panel["fedol"]["mean"], 100 * (panel["fedol"]["std"] or 0)
            axes.axhline(level, color="black", lw=2, label="FedOL, one round")
            axes.axhspan(level - around, level + around, color="black", alpha=0.08, lw=0)
        if panel["paper_fedol"]:
            axes.axhline(100 * panel["paper_fedol"], color="black", ls=":", lw=1)
        width, epochs = panel["settings"]["width"], panel["settings"]["epochs"]
        each = count(epochs, "epoch")
        where = shown(panel["partition"], "plot")
        axes.set(title=f"{where}, width {width}, {each} a round", xlabel="communication rounds")
        axes.set(ylabel="accuracy, %", ylim=(0, None))
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)  # there is no round 1.25
        axes.grid(alpha=0.3)
        # Below the axes: within, it would hide curves.
        axes.legend(fontsize=7, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    if any(panel["beside"] for panel in panels):
        figure.supxlabel("solid: ours; dotted: the paper's", size=8)
    save(figure, path)


def run_figure(summary: dict[str, Any], metrics: list[dict[str, Any]]) -> Any:
    """A run: everyone's accuracy as bars, beside them the losses, a line per client and iteration of the server."""
    curves = [line for line in metrics if line.get("losses")]
    figure = blank(10 if curves else 5, 3.6)
    panels = 2 if curves else 1
    names = [f"client {client['client']}" for client in summary["clients"]]
    values = [client["accuracy"] for client in summary["clients"]]
    colours = ["tab:gray"] * len(names)
    for name in ("ensemble", "server"):
        if summary[name] is not None:
            names.append(name)
            values.append(summary[name]["accuracy"])
            colours.append("tab:blue" if name == "server" else "tab:cyan")
    axes = figure.add_subplot(1, panels, 1)
    axes.barh(names, [100 * value for value in values], color=colours)
    axes.invert_yaxis()
    config = summary["config"]
    axes.set(
        title=shown(f"{config['dataset']}, {config['partition']}", "plot"), xlabel="test accuracy, %", xlim=(0, 100)
    )
    if not curves:
        return figure
    from matplotlib.ticker import LogLocator

    axes = figure.add_subplot(1, panels, 2)
    for line in curves:
        server = line["stage"] == "iteration"
        style = {"color": "tab:blue", "lw": 1.8} if server else {"color": "tab:gray", "lw": 0.8}
        axes.plot(range(1, len(line["losses"]) + 1), line["losses"], **style)
    axes.plot([], [], color="tab:gray", label="clients")
    axes.plot([], [], color="tab:blue", label="server, an iteration a line")
    axes.set(title="loss after each epoch", xlabel="epoch", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")  # 0.5, and no powers of ten
    axes.minorticks_off()
    axes.legend(fontsize=8)
    return figure
