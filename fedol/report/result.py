"""What ``fedol.run`` gives back: the run's folder and its numbers, as a line, a table, a frame, a figure or a page."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedol.errors import MissingExtra
from fedol.methods import title
from fedol.model import ServerModel, load
from fedol.report.pages import write_report
from fedol.report.plots import run_figure
from fedol.report.terminal import percent
from fedol.runs.folder import REPORT, read_metrics
from fedol.text import Card

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class RunResult(Card):
    """What a run gave: its folder, and the summary that ``summary.json`` holds."""

    out: Path
    summary: dict[str, Any]
    already_finished: bool = False  # an earlier start had done it all

    @property
    def model(self) -> ServerModel:
        """The trained server model."""
        return load(self.out)

    @property
    def accuracy(self) -> float | None:
        """The server's on the test set, from 0 to 1; None where every client stays on its own."""
        server = self.summary["server"]
        return None if server is None else float(server["accuracy"])

    def report(self, show: bool = False) -> Path:
        """Where ``report.html`` is, made again if it is gone; ``show`` opens it in the browser."""
        path = self.out / REPORT
        if not path.exists():
            write_report(self.out)
        if show:
            webbrowser.open(path.resolve().as_uri())
        return path

    def to_frame(self) -> DataFrame:
        """A row per client, then the ensemble of all clients and the server, as pandas has it."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise MissingExtra("A frame needs pandas: pip install 'fedol[frame]'.") from None
        clients = [{**client, "client": f"client {client['client']}"} for client in self.summary["clients"]]
        rows = [*clients, {"client": "ensemble", **self.summary["ensemble"]}]
        if self.summary["server"] is not None:
            rows.append({"client": "server", **self.summary["server"]})
        columns = ["model", "parameters", "samples", "classes", "upload_bytes", "accuracy"]
        counts = dict.fromkeys(("parameters", "samples", "classes", "upload_bytes"), "Int64")
        return DataFrame(rows).rename(columns={"client": "who"}).set_index("who")[columns].astype(counts)

    def plot(self) -> Figure:
        """A figure of matplotlib: everyone's accuracy, and how the losses fell; a notebook shows it."""
        figure: Figure = run_figure(self.summary, read_metrics(self.out))
        return figure

    def facts(self) -> dict[str, Any]:
        """The run in a few words."""
        config = self.summary["config"]
        alone = {"mean_client": percent(self.summary["local"]["mean"])}
        server = {} if self.accuracy is None else {"accuracy": percent(self.accuracy)}
        return {
            "out": str(self.out),
            "dataset": config["dataset"],
            "partition": config["partition"],
            "method": title(config["method"]),
            **server,
            **alone,
            "clients": len(self.summary["clients"]),
        }
