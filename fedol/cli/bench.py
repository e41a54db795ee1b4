"""``fedol bench``: the paper's table, figure and cost analysis."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli.bench_run import page, run, show, tables
from fedol.cli.options import Clients, DataDir, Dataset, Device, Epochs, Json, Public, Quiet, TrustCode, Width, given

bench = typer.Typer(
    help="The paper's comparison: every method under the same conditions; cached, resumable, mergeable.",
    epilog="Example: fedol bench one-round --preset quick --partitions iid --methods fedol,feddf --out bench",
    no_args_is_help=True,
)

Out = Annotated[
    Path, typer.Option(help="The benchmark's folder; the same one again continues. Folders merge by copying.")
]
Partitions = Annotated[
    str | None,
    typer.Option(help="Partitions with commas; the default is the paper's four on its data, else the preset's."),
]
NAMES = "or names with commas, of which one may be 'all'; --dry-run shows the rows."
Methods = Annotated[str, typer.Option(help=f"'all' (the paper's, their variants, the controls), {NAMES}")]
SeveralRounds = Annotated[
    str, typer.Option(help=f"'all' (fedavg, fedprox, feddf, fedhkt, fedet, mine and, for one round, fedol), {NAMES}")
]
Seeds = Annotated[str, typer.Option(help="How many seeds, or which: 3 is 0,1,2.")]
Preset = Annotated[str, typer.Option(help="paper, best or quick.")]
ServerEpochs = Annotated[int | None, typer.Option(help="Epochs of each server iteration, if not as many.")]
Iterations = Annotated[
    int | None, typer.Option(help="Iterations of fedol, its variants and fedol+; other methods train once.")
]
TimeLimit = Annotated[float | None, typer.Option(metavar="SECONDS", help="Begin nothing that would end later.")]
SideBySide = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Partitions and seeds that train at once: more keep a GPU busier, and more is lost if it is cut off.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be computed and about how long it takes.")]
SpecFile = Annotated[
    Path | None, typer.Option("--spec", help="Only write the benchmark to this file, for `fedol bench run`.")
]
NOT_SETTINGS = ["partitions", "methods", "seeds", "preset", "out", "time_limit", "dry_run", "spec", "quiet", "as_json"]
NOT_SETTINGS += ["equal_compute", "rounds", "feedback_epochs", "feedback", "side_by_side"]


@bench.command("one-round")
def one_round(
    out: Out = Path("bench"),
    dataset: Dataset = None,
    data_dir: DataDir = None,
    partitions: Partitions = None,
    methods: Methods = "all",
    seeds: Seeds = "1",
    preset: Preset = "paper",
    clients: Clients = None,
    public: Public = None,
    width: Width = None,
    epochs: Epochs = None,
    server_epochs: ServerEpochs = None,
    iterations: Iterations = None,
    equal_compute: Annotated[
        bool,
        typer.Option(
            "--equal-compute",
            help="Train one-pass methods, so the λ mixture too, as many server epochs as FedOL in all; 'all' then has "
            "FedOL with τ = 0 and restarted, and nothing that averages weights.",
        ),
    ] = False,
    device: Device = None,
    time_limit: TimeLimit = None,
    side_by_side: SideBySide = 1,
    dry_run: DryRun = False,
    spec: SpecFile = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The paper's first table: every method after one communication round.

    Example: fedol bench one-round --data-dir DATA --partitions dirichlet:0.05,classes:20 --seeds 3 --out bench
    """
    options = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    values = _values("one-round", options, preset, partitions, methods, seeds)
    run({**values, "equal_compute": equal_compute}, out, time_limit, side_by_side, dry_run, spec, quiet, as_json)


@bench.command()
def rounds(
    out: Out = Path("bench"),
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = 15,
    feedback_epochs: Annotated[
        int, typer.Option(help="Epochs of a client on the server's feedback, before its own data again.")
    ] = 20,
    feedback: Annotated[
        str, typer.Option(help="What clients learn back: the server's predictions, or the teacher's that it learnt.")
    ] = "server",
    dataset: Dataset = None,
    data_dir: DataDir = None,
    partitions: Partitions = None,
    methods: SeveralRounds = "all",
    seeds: Seeds = "1",
    preset: Preset = "paper",
    clients: Clients = None,
    public: Public = None,
    width: Width = None,
    epochs: Epochs = None,
    server_epochs: ServerEpochs = None,
    iterations: Iterations = None,
    device: Device = None,
    time_limit: TimeLimit = None,
    side_by_side: SideBySide = 1,
    dry_run: DryRun = False,
    spec: SpecFile = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The paper's figure: the baselines over many rounds, FedOL after its one.

    Example: fedol bench rounds --rounds 15 --data-dir DATA --partitions dirichlet:0.05 --out bench
    """
    options = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    values = _values("rounds", options, preset, partitions, methods, seeds)
    run(
        {**values, "rounds": rounds, "feedback_epochs": feedback_epochs, "feedback": feedback},
        out,
        time_limit,
        side_by_side,
        dry_run,
        spec,
        quiet,
        as_json,
    )


@bench.command("run")
def run_file(
    file: Annotated[Path, typer.Argument(help="A benchmark as JSON, as --spec writes it; 'variants' are an ablation.")],
    out: Out = Path("bench"),
    data_dir: DataDir = None,
    device: Device = None,
    time_limit: TimeLimit = None,
    side_by_side: SideBySide = 1,
    dry_run: DryRun = False,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """A benchmark from a file: what --spec wrote, or an ablation, whose variants train side by side.

    Example: fedol bench run results/specs/9-dev64.json --data-dir DATA --out bench
    """
    from fedol.experiments.worker import read_values

    values = read_values(file, trust_code, data_dir=data_dir, device=device)
    run(values, out, time_limit, side_by_side, dry_run, None, quiet, as_json)


@bench.command()
def cost(
    out: Out = Path("bench"),
    dataset: Dataset = None,
    data_dir: DataDir = None,
    preset: Preset = "paper",
    clients: Clients = None,
    public: Public = None,
    width: Width = None,
    epochs: Epochs = None,
    server_epochs: ServerEpochs = None,
    iterations: Iterations = None,
    as_json: Json = False,
) -> None:
    """What a round costs: bytes as they are sent, FLOPs, and seconds where cells are finished.

    Example: fedol bench cost --data-dir DATA --width 64 --out bench
    """
    options = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    from fedol.config import configure
    from fedol.data import load
    from fedol.experiments.cells import identified
    from fedol.experiments.cost import cost as compute
    from fedol.experiments.cost_sheet import cost_sheet
    from fedol.experiments.store import BenchFolder
    from fedol.federation.scenario import Scenario
    from fedol.report.progress import LiveProgress

    folder = BenchFolder(out)
    with LiveProgress(quiet=as_json):
        config = configure(preset, overrides=given(options))
        data = load(config.dataset, config.data_dir)
        own = identified(config, data)
        scenario = Scenario(replace(own, partition="iid"), data).under(own)  # a cost has no partition
        folder.open()
        table = compute(scenario, folder)
    if as_json:
        print(json.dumps(table, indent=1))
    else:
        show([cost_sheet(table, 1)])


@bench.command()
def report(out: Annotated[Path, typer.Argument(help="The benchmark's folder.")], as_json: Json = False) -> None:
    """Print the tables of a benchmark's folder; write them as Markdown, CSV, JSON, PNG and SVG into its report/.

    Example: fedol bench report bench
    """
    from fedol.report.plain import plain

    tables(out, as_json=as_json)
    if not as_json:
        Console().print(plain(f"Written to {out / 'report'}."))
    page(out, quiet=as_json)


@bench.command()
def pack(out: Annotated[Path, typer.Argument(help="The benchmark's folder.")]) -> None:
    """Move the finished cells of a folder into one file, cells.jsonl: the same results, easier to keep and to share.

    Example: fedol bench pack bench
    """
    from fedol.experiments.store import PACKED, BenchFolder
    from fedol.report.progress import LiveProgress

    with LiveProgress():
        count = BenchFolder(out).pack()
    Console().print(f"{out / PACKED} has {count} cells.", markup=False, highlight=False)


def _values(
    kind: str, options: dict[str, Any], preset: str, partitions: str | None, methods: str, seeds: str
) -> dict[str, Any]:
    """The benchmark as ``Spec.from_json`` reads it."""
    values: dict[str, Any] = {
        "kind": kind,
        "preset": preset,
        "settings": given(options),
        "methods": methods,
        "seeds": seeds,
    }
    return values if partitions is None else {**values, "partitions": partitions}
