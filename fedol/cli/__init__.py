"""The command line: parse, call, print. Heavy imports wait until a command runs."""

from __future__ import annotations

import os
import sys
from inspect import getdoc
from typing import Annotated, NoReturn

import click
import typer
from rich.console import Console
from rich.text import Text

from fedol.cli import client, helper
from fedol.cli.bench import bench
from fedol.cli.doctor import doctor
from fedol.cli.examine import attack, audit, inspect
from fedol.cli.gain import adapt, evaluate
from fedol.cli.interrupts import left, patient
from fedol.cli.logs import log
from fedol.cli.prepare import deploy, keys, tasks
from fedol.cli.release import release
from fedol.cli.reproduce import reproduce
from fedol.cli.run import export, partition, predict, report, run
from fedol.cli.runs import runs
from fedol.cli.serve import distill, serve
from fedol.errors import FedolError, cause
from fedol.text import forgiving, shown

app = typer.Typer(
    name="fedol",
    help="One larger server model from many small private ones, with a single upload per client.",
    epilog="Start with: fedol run --out runs/first  (a minute, no download), then: fedol report runs/first --open",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=not hasattr(click.exceptions, "NoSuchCommand"),  # where click does not say "did you mean" itself
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands = (
    run, report, partition, inspect, serve, distill, predict, evaluate, adapt, export, attack, audit, reproduce, doctor,
)  # fmt: skip
for command in commands:
    app.command()(command)
client.app.command()(release)
for group, members in {
    "task": tasks,
    "client": client.app,
    "helper": helper.app,
    "keys": keys,
    "deploy": deploy,
    "bench": bench,
    "runs": runs,
    "log": log,
}.items():
    app.add_typer(members, name=group)


def _flowing(commands: typer.Typer) -> None:
    """Let paragraphs of help wrap where the terminal ends, not where the source does; examples keep their lines."""
    for info in commands.registered_commands:
        *prose, examples = (getdoc(info.callback) or "").split("\n\n")
        if len(prose) == 1:  # what follows the summary loses its indentation below its first line, which now is empty
            examples = f"\n{examples}"
        info.help = "\n\n".join([*(" ".join(paragraph.split()) for paragraph in prose), examples])
    for group in commands.registered_groups:
        if group.typer_instance:
            _flowing(group.typer_instance)


_flowing(app)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from fedol import __version__

        print(__version__)
        raise typer.Exit


def _command() -> None:
    try:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # torchrun started several of us
            _together()
        else:
            app()
    finally:
        _flush()


def _together() -> None:
    from fedol.training.team import together

    with together() as leads:
        if leads:
            app()


def _flush() -> None:
    """Write what is printed now: that this fails could not be told any more when Python does it at its end."""
    try:
        print(end="", flush=True)  # nothing where there is no stdout at all (>&-)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where Python's own attempt goes
        if not isinstance(error, BrokenPipeError):  # with that, whoever reads has seen enough, as `head` has
            raise


def _refuse(sentence: str) -> NoReturn:
    Console(stderr=True).print(Text.assemble(("Error:", "bold red"), f" {shown(sentence)}"), soft_wrap=True)
    sys.exit(2)


def main() -> None:
    """Entry point: an error that a user can fix is one sentence and exit code 2, never a traceback."""
    forgiving()
    try:
        with patient():
            _command()
    except FedolError as error:
        _refuse(str(error))
    except OSError as error:
        what = f"{error.filename} cannot be opened ({error.strerror})" if error.filename else cause(error)
        _refuse(f"{what}; fix that and rerun the command.")
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != 130:  # typer turns an interrupt into an exit with this code
            raise
        Console(stderr=True).print(f"Stopped; {left()}.", soft_wrap=True)
        sys.exit(130)
