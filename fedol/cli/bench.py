"""``fedol bench``: methods side by side, and the paper's table, figure and cost analysis."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from fedol.cli import complete
from fedol.cli.bench_run import page, run, show, tables
from fedol.cli.interrupts import resumable
from fedol.cli.options import OUTPUT, Config, Json, Quiet, TrustCode, with_settings
from fedol.settings import RunSettings

if TYPE_CHECKING:
    pass


class Bench(TyperGroup):
    """A comparison needs no further word: options right behind ``bench`` are those of ``one-round``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["one-round", *args]
        return super().parse_args(ctx, args)


bench = typer.Typer(
    cls=Bench,
    help="Compare methods under the same conditions; cached, resumable, mergeable. Without a command: one-round.",
    epilog="Example: fedol bench --methods fedol,union --partitions iid,dirichlet:0.1 --set tau=0.1,0.5 --seeds 0-4",
    no_args_is_help=True,
)

Out = Annotated[
    Path, typer.Option(help="The benchmark's folder; the same one again continues. Folders merge by copying.")
]
Partitions = Annotated[
    str | None,
    typer.Option(
        help="Partitions with commas; the default is the paper's four on its data, else the preset's.",
        autocompletion=complete.PARTITIONS,
    ),
]
NAMES = "or names with commas, of which one may be 'all'; --dry-run shows the rows."
Methods = Annotated[
    str | None,
    typer.Option(help=f"'all' (the paper's, their variants, the controls), {NAMES}", autocompletion=complete.METHODS),
]
SeveralRounds = Annotated[
    str | None,
    typer.Option(help=f"'all' (fedavg, fedprox, feddf, fedhkt, fedet, mine and, for one round, fedol), {NAMES}"),
]
Seeds = Annotated[str | None, typer.Option(help="How many seeds, or which: 3 is 0,1,2 and 0-2. (default: 1)")]
Preset = Annotated[
    str | None,
    typer.Option(
        help="quick, paper or best. (default: paper on CIFAR-100, else quick)",
        rich_help_panel="Settings",
        autocompletion=complete.one_of(complete.presets),
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUES",
        help="A setting with several values, tau=0.1,0.5: a row for each. May be repeated: then every combination.",
        rich_help_panel="Settings",
    ),
]
Latex = Annotated[bool, typer.Option("--latex", help="Print the tables as LaTeX.", rich_help_panel=OUTPUT)]
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
INSTEAD = ("partition", "method", "seed")  # of which a benchmark has several
# All but where the data are and what computes, which a benchmark's file does not say.
SAID = tuple(field.name for field in fields(RunSettings) if field.name not in ("data_dir", "device"))


@bench.command("one-round")
@with_settings(RunSettings, but=INSTEAD)
def one_round(
    settings: dict[str, Any],
    out: Out = Path("bench"),
    partitions: Partitions = None,
    methods: Methods = None,
    seeds: Seeds = None,
    several: Grid = None,
    preset: Preset = None,
    config: Config = None,
    trust_code: TrustCode = False,
    equal_compute: Annotated[
        bool,
        typer.Option(
            "--equal-compute",
            help="Train one-pass methods, so the λ mixture too, as many server epochs as FedOL in all; 'all' then has "
            "FedOL with τ = 0 and restarted, and nothing that averages weights.",
        ),
    ] = False,
    time_limit: TimeLimit = None,
    side_by_side: SideBySide = 1,
    dry_run: DryRun = False,
    spec: SpecFile = None,
    quiet: Quiet = False,
    latex: Latex = False,
    as_json: Json = False,
) -> None:
    """Methods side by side after one communication round, as in the paper's first table.

    Examples: fedol bench one-round --methods fedol,union --set tau=0.1,0.5 --seeds 0-4
              fedol bench one-round --data-dir DATA --partitions dirichlet:0.05,classes:20 --seeds 3 --out bench
    """
    resumable()
    given = {"partitions": partitions, "methods": methods, "seeds": seeds, "equal_compute": equal_compute}
    values = _values("one-round", settings, preset, config, trust_code, several, given)
    run(values, out, time_limit, side_by_side, dry_run, spec, quiet, as_json, latex)


@bench.command()
@with_settings(RunSettings, but=INSTEAD)
def rounds(
    settings: dict[str, Any],
    out: Out = Path("bench"),
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = 15,
    feedback_epochs: Annotated[
        int, typer.Option(help="Epochs of a client on the server's feedback, before its own data again.")
    ] = 20,
    feedback: Annotated[
        str, typer.Option(help="What clients learn back: the server's predictions, or the teacher's that it learnt.")
    ] = "server",
    partitions: Partitions = None,
    methods: SeveralRounds = None,
    seeds: Seeds = None,
    several: Grid = None,
    preset: Preset = None,
    config: Config = None,
    trust_code: TrustCode = False,
    time_limit: TimeLimit = None,
    side_by_side: SideBySide = 1,
    dry_run: DryRun = False,
    spec: SpecFile = None,
    quiet: Quiet = False,
    latex: Latex = False,
    as_json: Json = False,
) -> None:
    """The paper's figure: the baselines over many rounds, FedOL after its one.

    Example: fedol bench rounds --rounds 15 --data-dir DATA --partitions dirichlet:0.05 --out bench
    """
    resumable()
    given: dict[str, Any] = {"partitions": partitions, "methods": methods, "seeds": seeds}
    given |= {"rounds": rounds, "feedback_epochs": feedback_epochs, "feedback": feedback}
    values = _values("rounds", settings, preset, config, trust_code, several, given)
    run(values, out, time_limit, side_by_side, dry_run, spec, quiet, as_json, latex)


@bench.command("run")
@with_settings(RunSettings, but=SAID)
def run_file(
    settings: dict[str, Any],
    file: Annotated[Path, typer.Argument(help="A benchmark as JSON, as --spec writes it; 'variants' are an ablation.")],
    out: Out = Path("bench"),
    time_limit: TimeLimit = None,
    side_by_side: SideBySide = 1,
    dry_run: DryRun = False,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """A benchmark from a file: what --spec wrote, or an ablation, whose variants train side by side.

    Example: fedol bench run bench.json --data-dir DATA --out bench
    """
    resumable()
    from fedol.bench.spec import read_values

    values = read_values(file, trust_code, **settings)
    run(values, out, time_limit, side_by_side, dry_run, None, quiet, as_json)


@bench.command()
@with_settings(RunSettings, but=INSTEAD)
def cost(
    settings: dict[str, Any],
    out: Out = Path("bench"),
    preset: Preset = None,
    config: Config = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """What a round costs: bytes as they are sent, FLOPs, and seconds where cells are finished.

    Example: fedol bench cost --data-dir DATA --width 64 --out bench
    """
    from fedol.bench.cells import identified
    from fedol.bench.cost import cost as compute
    from fedol.bench.cost import cost_sheet
    from fedol.bench.spec import usual_preset
    from fedol.bench.store import BenchFolder
    from fedol.config import configure, trusted
    from fedol.data import Reading, load
    from fedol.federation.scenario import Scenario
    from fedol.report.live import LiveProgress

    folder = BenchFolder(out)
    with LiveProgress(quiet=as_json):
        values = trusted(config, settings, trust_code)
        named = values.pop("preset", usual_preset(values))
        wanted = configure(preset or named, overrides=values)
        data = load(wanted.dataset, wanted.data_dir, Reading.of(wanted))
        own = identified(wanted, data)
        scenario = Scenario(replace(own, partition="iid"), data).under(own)  # a cost has no partition
        folder.open()
        table = compute(scenario, folder)
    if as_json:
        print(json.dumps(table, indent=1))
    else:
        show([cost_sheet(table, 1)])


@bench.command()
def report(
    out: Annotated[Path, typer.Argument(help="The benchmark's folder.")], latex: Latex = False, as_json: Json = False
) -> None:
    """Print the tables of a benchmark's folder; write them as Markdown, CSV, LaTeX, JSON, PNG and SVG into its report/.

    Example: fedol bench report bench
    """
    from fedol.report.terminal import plain

    tables(out, as_json=as_json, latex=latex)
    if not (as_json or latex):
        Console().print(plain(f"Written to {out / 'report'}."))
    page(out, quiet=as_json or latex)


@bench.command()
def pack(out: Annotated[Path, typer.Argument(help="The benchmark's folder.")]) -> None:
    """Move the finished cells of a folder into one file, cells.jsonl: the same results, easier to keep and to share.

    Example: fedol bench pack bench
    """
    from fedol.bench.store import PACKED, BenchFolder
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import plain

    with LiveProgress():
        count = BenchFolder(out).pack()
    Console().print(plain(f"{out / PACKED} has {count} cells."), soft_wrap=True)


def _values(
    kind: str,
    settings: dict[str, Any],
    preset: str | None,
    config: Path | None,
    trust_code: bool,
    several: list[str] | None,
    given: dict[str, Any],
) -> dict[str, Any]:
    """The benchmark as ``Spec.from_json`` reads it.

    A file may have what a run's has: its method, partition and seed are then the only ones, unless it or the command
    names several; and a list of values of any other setting is a grid.
    """
    from fedol.bench.grid import as_grid, parsed
    from fedol.bench.spec import usual_preset
    from fedol.config import trusted

    values = trusted(config, settings, trust_code)
    named = values.pop("preset", usual_preset(values))
    entries: dict[str, Any] = {"methods": "all", "seeds": "1"}
    for one, many in (("partition", "partitions"), ("method", "methods"), ("seed", "seeds")):
        if one in values:
            entries[many] = [values.pop(one)]
        if many in values:
            entries[many] = values.pop(many)
    grid = {name: found for name, value in values.items() if (found := as_grid(name, value)) is not None}
    grid |= parsed(several or [])
    head = {"kind": kind, "preset": preset or named}
    head["settings"] = {name: value for name, value in values.items() if name not in grid}
    entries |= {name: value for name, value in given.items() if value is not None}
    return {**head, **entries, **({"grid": grid} if grid else {})}
