"""The event log at the command line: ``fedol log verify``, and what a server tells while it runs."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from fedol.cli import complete
from fedol.cli.options import OUTPUT, Json
from fedol.errors import InputError, cause

PATIENCE = 30.0  # seconds that a notification may take
LEVELS = ("debug", "info", "warning", "error")

log = typer.Typer(
    help="The event log of a run: what was decided, when and why.",
    epilog="Example: fedol log verify runs/federation",
    no_args_is_help=True,
)
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        help=f"Tell every event of at least this level: {', '.join(LEVELS)}.",
        rich_help_panel=OUTPUT,
        autocompletion=complete.one_of(lambda: LEVELS),
    ),
]
JsonLogs = Annotated[
    bool, typer.Option("--json-logs", help="Tell events as lines of JSON, on stderr.", rich_help_panel=OUTPUT)
]
Notify = Annotated[
    str | None,
    typer.Option(
        help="A command that is run for every event, which it gets as JSON on its stdin: a webhook by curl, a mail.",
        metavar="COMMAND",
    ),
]
RunWithLog = Annotated[
    Path, typer.Argument(help="The folder of a serve or distill run.", autocompletion=complete.run_folders)
]


@log.command()
def verify(
    run: RunWithLog,
    head: Annotated[
        str | None, typer.Option(help="The hash of an event that you kept, from a receipt or a notification.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that no event was changed, moved or removed, but for what withdrawals say they erased.

    Example: fedol log verify runs/federation
    """
    from fedol.runs.eventlog import verify as check
    from fedol.text import say

    found = check(run, head)
    if as_json:
        print(json.dumps({"events": found.events, "hash": found.hash, "erased": list(found.erased)}))
        return
    gone = f", {len(found.erased)} of them erased by withdrawals" if found.erased else ""
    say(f"{run}: {found.events:,} events{gone}; the chain holds. The last one's hash: {found.hash}")


@log.command()
def show(run: RunWithLog, as_json: Json = False) -> None:
    """Show the events of a run, one on a line.

    Example: fedol log show runs/federation
    """
    from fedol.runs.eventlog import hash_of, read
    from fedol.text import say

    for line in read(run):
        if as_json:
            print(json.dumps({"n": line["n"], "time": line["time"], "kind": line["kind"], "hash": hash_of(line)}
                             | {"facts": line.get("facts")}))  # fmt: skip
        else:
            facts = "erased" if "facts" not in line else words(line["facts"])
            say(f"{line['n']:>5}  {line['time']}  {line['kind']:<11}  {facts}")


def words(facts: dict[str, Any]) -> str:
    """Facts on one line."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def telling(level: str | None, as_json: bool) -> None:
    """Tell the log's events on stderr, where somebody has asked for it; what an earlier call asked for is over."""
    logger = logging.getLogger("fedol")
    for handler in [handler for handler in logger.handlers if isinstance(handler, _Told)]:
        logger.removeHandler(handler)
    if level is None and not as_json:
        return
    wanted = level or "info"
    if wanted not in LEVELS:
        raise InputError(f"There is no log level '{wanted}'; use {', '.join(LEVELS)}.")
    handler = _Told()
    handler.setFormatter(_Lines(as_json))
    logger.addHandler(handler)
    logger.setLevel(wanted.upper())


class _Told(logging.Handler):
    """Ours, on whatever is stderr at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """A line."""
        print(self.format(record), file=sys.stderr, flush=True)


class _Lines(logging.Formatter):
    """A record as a line: for people, or as JSON."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._json = as_json

    def format(self, record: logging.LogRecord) -> str:
        from fedol.text import printable

        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = dict(getattr(record, "event", {"time": time, "kind": record.name, "message": record.getMessage()}))
        if self._json:
            return json.dumps({"level": record.levelname.lower(), **event})
        facts = {name: value for name, value in event.items() if name not in ("n", "time", "kind", "hash")}
        return printable(f"{event['time']} {record.levelname.lower()} {event['kind']}: {words(facts)}")


class Notifier:
    """Runs a command for each event, one after the other and beside the work; one that fails is told as a warning."""

    def __init__(self, command: str) -> None:
        try:
            self._parts = shlex.split(command)
        except ValueError:
            self._parts = []
        if not self._parts or shutil.which(self._parts[0]) is None:
            raise InputError(f"--notify names no program that is here: '{command}'.")
        self._worker = ThreadPoolExecutor(1)  # which Python waits for at its end

    def __call__(self, event: dict[str, Any]) -> None:
        """Of the run's log."""
        self._worker.submit(self._run, event)

    def close(self) -> None:
        """Wait until everything was told."""
        self._worker.shutdown()

    def _run(self, event: dict[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        try:
            subprocess.run(self._parts, input=line, capture_output=True, timeout=PATIENCE, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            logging.getLogger("fedol.notify").warning("event %s was not notified: %s", event["n"], cause(error))
