"""A run and what it is for: ``fedol run`` and ``partition`` simulate, ``report``, ``predict`` and ``export`` use it."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fedol.cli import complete
from fedol.cli.interrupts import resumable
from fedol.cli.options import OUTPUT, Config, Force, Json, Logs, Preset, Quiet, RunDir, TrustCode, with_settings
from fedol.settings import TRAINING, UNLABELLED, Dealing, RunSettings

if TYPE_CHECKING:
    from fedol.config import RunConfig
    from fedol.federation.scenario import Engine
    from fedol.report.result import RunResult


@with_settings(RunSettings)
def run(
    settings: dict[str, Any],
    preset: Preset = None,
    config: Config = None,
    trust_code: TrustCode = False,
    engine: Annotated[
        str,
        typer.Option(
            help="What trains the clients: process (this one) or flower (Ray, many processes).",
            autocompletion=complete.one_of(lambda: ("process", "flower")),
            rich_help_panel=TRAINING,
        ),
    ] = "process",
    client_cpus: Annotated[float, typer.Option(help="CPU cores per client on Flower.", rich_help_panel=TRAINING)] = 1.0,
    client_gpus: Annotated[
        float, typer.Option(help="GPUs per client on Flower; 0.25: four share one.", rich_help_panel=TRAINING)
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run folder, by default one in runs/; the same one again continues the run.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            help="Show the server of this finished run of the same data, too; may be repeated.",
            rich_help_panel=OUTPUT,
            autocompletion=complete.run_folders,
        ),
    ] = None,
    force: Force = False,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="The same as --log tensorboard.", rich_help_panel=OUTPUT, hidden=True),
    ] = False,
    log: Logs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate a federation: train the clients, collect one upload each, train the server, show the table.

    What is not given is the preset's. A run made with other settings or data, or before you changed your own model or
    method, is not continued; --force starts it over.

    Examples: fedol run --out runs/first
              fedol run --dataset cifar100 --data-dir DATA --preset paper --partition classes:20 --out runs/c20
    """
    resumable(force)
    from fedol.api import run as simulate
    from fedol.config import configure
    from fedol.report.terminal import history_table, plain, run_table, suspicions

    wanted = configure(preset, config, settings, trust_code)
    others = [_comparable(run, wanted) for run in beside or []]
    trains = _engine(engine, client_cpus, client_gpus)
    logs = [*(log or []), *(["tensorboard"] if tensorboard else [])]
    result = simulate(wanted, out=out, progress=not (quiet or as_json), log=logs, engine=trains, force=force)
    if as_json:
        print(json.dumps({"out": str(result.out), **result.summary}, indent=1))
    if as_json or quiet:
        return
    console = Console()
    if result.already_finished:
        console.print("This run was finished already; here is its result.")
    if result.summary["history"]:
        console.print(history_table(result.summary["history"]), "")
    console.print(run_table(result.summary, others), "")
    for line in (*suspicions(result.summary), *_closing(result)):
        console.print(plain(line), soft_wrap=True)


def _comparable(run: Path, wanted: RunConfig) -> dict[str, Any]:
    """The summary of a finished run whose clients hold the same data."""
    from dataclasses import fields

    from fedol.errors import FedolError
    from fedol.runs.folder import read_summary

    if not (run / "summary.json").exists():
        raise FedolError(f"There is no finished run in {run}; give --beside the folder of one.")
    summary = read_summary(run / "summary.json")
    for name in [field.name for field in fields(Dealing) if field.name != "data_dir"]:
        theirs, ours = summary["config"].get(name), wanted.as_json()[name]
        if theirs != ours:
            raise FedolError(f"{run} is a run of other data: its {name} is {theirs}, not {ours}; leave --beside out.")
    if summary["server"] is None:
        raise FedolError(f"The run in {run} has no server to show beside this one; leave --beside out.")
    return summary


def _engine(name: str, cpus: float, gpus: float) -> Engine:
    from fedol.errors import unknown
    from fedol.federation.scenario import in_process

    if name == "process":
        return in_process
    if name != "flower":
        raise unknown("engine", name, ("process", "flower"))
    from fedol.federation.transports.flower_engine import on_ray

    return on_ray(cpus, gpus)


def _closing(result: RunResult) -> list[str]:
    """How long it took, and where everything is."""
    since = " since it was resumed" if result.summary["resumed"] else ""
    took = f"Took {result.summary['seconds']:.0f} s{since} on {result.summary['provenance']['device']}."
    loads = " (fedol.load gives back the trained model)" if result.summary["server"] else ""
    return [took, f"Run folder: {result.out}{loads}.", f"Report: {result.out / 'report.html'}"]


@with_settings(Dealing)
def partition(
    settings: dict[str, Any],
    preset: Preset = None,
    config: Config = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the client × class heat map into this file (png, svg, pdf).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show who would hold what: samples per client and a summary of their classes.

    Example: fedol partition --dataset digits --partition dirichlet:0.1 --plot heat.png
    """
    import numpy as np

    from fedol.config import configure
    from fedol.federation.scenario import Scenario
    from fedol.report.live import LiveProgress
    from fedol.report.plots import partition_heat_map
    from fedol.report.terminal import partition_table

    wanted = configure(preset, config, settings, trust_code=True)  # which builds no model
    with LiveProgress(quiet=as_json):
        dealt = Scenario(wanted).describe()
    kind = "findings" if "findings" in dealt else "classes"
    names, counts = dealt[kind], np.array(dealt["samples_per_client_and_class"])
    if plot:
        partition_heat_map(counts, names, f"{dealt['dataset']}, {wanted.partition}", plot)
    if as_json:
        print(json.dumps({key: dealt[key] for key in (kind, "samples_per_client_and_class")}))
    else:
        Console().print(partition_table(counts, names, kind))


def report(
    run: Annotated[
        Path,
        typer.Argument(help="The folder of a finished run or of a benchmark.", autocompletion=complete.run_folders),
    ],
    share: Annotated[
        bool, typer.Option("--share", help="Make the page to pass on: nothing that a single client sent or scored.")
    ] = False,
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --share: for this client, with its own answers.")
    ] = None,
    benefits: Annotated[
        Path | None,
        typer.Option(help="Make benefits.html of what sites sent back: a folder of 'fedol evaluate --json' files."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Make report.html of a run or a benchmark again, from what its folder holds, and print where it is.

    It shows every client's answers. With --share it is report-share.html, which does not, and which may be passed on.

    Examples: fedol report runs/quick --open
              fedol report runs/federation --share --client alice
    """
    from fedol.errors import InputError
    from fedol.report.benefit import write_benefits
    from fedol.report.pages import write_report, write_share
    from fedol.text import say

    if client is not None and not share:
        raise InputError("--client is for the page to pass on; give --share, too.")
    if benefits and share:
        raise InputError("--benefits is a page of its own; leave --share out.")
    if benefits:
        path = write_benefits(run, benefits)
    elif share:
        path = write_share(run, client)
    else:
        path = write_report(run)
    say(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        print("No browser could be opened here; open the file yourself.", file=sys.stderr)


BATCH = 512  # samples between two moves of the progress bar


def predict(
    run: RunDir,
    samples: Annotated[Path, typer.Argument(help=f"An image, {UNLABELLED}.")],
    out: Annotated[Path | None, typer.Option(help="Write a CSV file of these instead of printing them.")] = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Print the class of each sample and the model's confidence, one line per sample, separated by tabs.

    Rows of a table go by their number, the first being 1. A model of the method union also says which samples are like
    no client's data, where every client sent masses.

    Examples: fedol predict runs/federation images/
              fedol predict runs/hospitals new.csv --out classes.csv
    """
    import csv
    import io

    import numpy as np

    from fedol.data import Reading
    from fedol.data.stored import load_samples
    from fedol.files import write_atomically
    from fedol.gain.opening import load
    from fedol.progress import watched
    from fedol.report.live import LiveProgress
    from fedol.text import shown

    model = load(run, trust_code=trust_code)
    with LiveProgress(quiet=as_json):
        found, names = load_samples(samples, reading=Reading().under(model.architecture.prepare))
        parts = [found.take(slice(start, start + BATCH)) for start in range(0, len(found), BATCH)]
        probs = np.concatenate([model.predict_proba(part) for part in watched(parts, "predicting")])
    what = "image" if found.kind == "images" else "row"
    if model.findings:
        told: list[dict[str, Any]] = [dict(zip(model.findings, map(float, row), strict=True)) for row in probs]
    else:
        told = [{"class": model.classes[row.argmax()], "probability": float(row.max())} for row in probs]
    if (known := model.known(probs)) is not None:
        told = [{**row, "known": bool(here)} for row, here in zip(told, known, strict=True)]
    rows = [{what: name, **row} for name, row in zip(names, told, strict=True)]
    if out is not None:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow([shown(name, "cell") for name in rows[0]])
        writer.writerows(
            [shown(cell, "cell") if isinstance(cell, str) else cell for cell in row.values()] for row in rows
        )
        write_atomically(out, table.getvalue().encode())
    if as_json:
        print(json.dumps(rows, indent=1))
    if as_json or out is not None:
        return
    if model.findings:
        print("\t".join([what, *(shown(name, "cell") for name in model.findings)]))
    for line in rows:
        first, *cells = (
            f"{cell:.4f}" if isinstance(cell, float) else shown(str(cell), "cell") for cell in line.values()
        )
        if known is not None:
            cells = [*cells[:-1], *([] if line["known"] else ["like no client's data"])]
        print("\t".join([first, *cells]))


def export(
    run: RunDir,
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the model as ONNX: raw samples in (`images`: uint8 [N, channels, H, W]), `probabilities` [N, classes] out.

    Example: fedol export runs/federation --onnx model.onnx
    """
    from fedol.gain.opening import load
    from fedol.model import export_onnx
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import size
    from fedol.text import say

    with LiveProgress(quiet=quiet or as_json):
        model = load(run, trust_code=trust_code)
        export_onnx(model, onnx)
    written = onnx.stat().st_size
    if as_json:
        print(json.dumps({"out": str(onnx), "bytes": written}))
    elif not quiet:
        raw = model.architecture.prepare.kind
        say(f"{onnx}: {size(written)}, raw {raw} in, probabilities out; class names in its metadata.")
