"""``fedol serve`` waits for clients' files, ``fedol distill`` takes those that are there; then both train."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fedol.cli.interrupts import resumable
from fedol.cli.listen import Cert, ClientCa, Insecure, Key, Listen, Stay, Wanted, listening, until_interrupted
from fedol.cli.logs import JsonLogs, LogLevel, Notifier, Notify, telling
from fedol.cli.options import Config, Force, Json, Logs, PublicSamples, Quiet, TaskDir, Test, TrustCode, with_settings
from fedol.errors import InputError
from fedol.progress import NOBODY, Observer, Several
from fedol.settings import ServerSettings

if TYPE_CHECKING:
    from fedol.data import Labelled
    from fedol.federation.coordinator import Coordinator


def finish(
    coordinator: Coordinator,
    test: Labelled | None,
    quiet: bool,
    as_json: bool,
    log: list[str] | None = None,
    observer: Observer = NOBODY,
) -> dict[str, Any]:
    """Train on what was collected, print the summary and return it."""
    if coordinator.sealed:
        return handed_over(coordinator, quiet, as_json)
    from fedol.progress import Several
    from fedol.report.live import LiveProgress
    from fedol.report.loggers import Logged
    from fedol.report.pages import Pages
    from fedol.report.terminal import plain, remarks, server_table
    from fedol.runs.folder import REPORT, SHARED

    with LiveProgress(quiet=quiet or as_json) as progress, Logged(log or [], coordinator.out) as logs:
        summary = coordinator.run(Several(progress, logs, Pages(), observer), test)
    if as_json:
        print(json.dumps({"out": str(coordinator.out), **summary}, indent=1))
    if as_json or quiet:
        return summary
    console = Console()
    console.print(server_table(summary))
    for line in remarks(summary):
        console.print(plain(line))
    console.print(plain(f"Run folder: {coordinator.out} (MODEL_CARD.md says what the model is)."))
    console.print(plain(f"Report: {coordinator.out / REPORT}"), soft_wrap=True)
    console.print(plain(f"To pass on, without single clients' answers: {coordinator.out / SHARED}"), soft_wrap=True)
    return summary


def handed_over(coordinator: Coordinator, quiet: bool, as_json: bool) -> dict[str, Any]:
    """What is next where the files are sealed: only both helpers together can sum them."""
    from fedol.text import say

    terms = coordinator.task.secret
    assert terms is not None
    there = {"out": str(coordinator.out), "clients": list(coordinator.roster.clients)}
    if as_json:
        print(json.dumps(there))
    elif not quiet:
        say(f"{len(there['clients'])} sealed files are in {coordinator.out / 'clients'}; nobody here can read them.")
        say(
            f"Give them to {' and '.join(terms.helpers)} (fedol helper sum); then: fedol distill TASK --sums A.part "
            "B.part"
        )
    return there


@with_settings(ServerSettings, names={"server_model": ("--server-model", "--model")})
def serve(
    settings: dict[str, Any],
    task: TaskDir,
    out: Annotated[Path, typer.Option(help="The run folder; the same one again continues the run.")],
    inbox: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            help="The folder that clients' files arrive in. It is only read, unless --listen fills it; then it is "
            "OUT/inbox by default.",
        ),
    ] = None,
    listen: Listen = None,
    cert: Cert = None,
    key: Key = None,
    client_ca: ClientCa = None,
    insecure: Insecure = False,
    stay: Stay = False,
    quorum: Annotated[int | None, typer.Option(min=1, help="Start as soon as this many clients are in.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Start at the latest after this time: 90s, 30m, 2h, 1d.")] = None,
    force: Force = False,
    config: Config = None,
    trust_code: TrustCode = False,
    public: PublicSamples = None,
    test: Test = None,
    log: Logs = None,
    notify: Notify = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Serve Prometheus metrics at HOST:PORT; a port alone is for this machine.", metavar="ADDRESS"
        ),
    ] = None,
    log_level: LogLevel = None,
    json_logs: JsonLogs = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Watch a folder, validate each arrival, start at quorum or deadline, train, write the model and the report.

    With --listen clients also send over HTTPS (fedol client send), into the same folder, and a page shows how far it
    is. A link to log in there is printed, and lies in OUT/intake/login.txt.

    Killed at any moment, the same command goes on where it was.

    Examples: fedol serve task --inbox inbox --model resnet56 --quorum 8 --deadline 2h --out runs/federation
              fedol serve task --listen 0.0.0.0:8443 --cert server.crt --key server.key --quorum 8 --out runs/federation
    """
    resumable(force)
    from fedol.config import configure_server
    from fedol.federation.coordinator import Coordinator
    from fedol.federation.taskfolder import TaskFolder
    from fedol.report.live import RosterView
    from fedol.report.metrics import Metrics
    from fedol.text import seconds

    address = Wanted(listen, cert, key, client_ca, insecure, stay).address(inbox)
    telling(log_level, json_logs)
    told = Notifier(notify) if notify else None
    figures = Metrics.at(metrics) if metrics else None
    wait = seconds(deadline) if deadline else None
    folder = TaskFolder.open(task)
    frozen = configure_server(folder.task.id, config, settings, trust_code, partial(folder.kind, public))
    coordinator = Coordinator(folder, frozen, out, public, force=force)
    for listener in (told, figures and figures.event):
        if listener:
            coordinator.log.listen(listener)
    labelled = coordinator.test_set(test) if test else None
    console = Console(stderr=True, quiet=quiet)
    with listening(address, folder, coordinator, inbox, quorum, wait, console) as collection:
        with RosterView(console, folder.task, quorum, quiet or as_json, deadline=wait) as view:
            collection.watch(coordinator, quorum, wait, view.show)
        observers = Several(collection.observer, figures) if figures else collection.observer
        finish(coordinator, labelled, quiet, as_json, log, observers)
        if stay:
            console.print("The page stays until Ctrl-C.")
            until_interrupted()


@with_settings(ServerSettings, names={"server_model": ("--server-model", "--model")})
def distill(
    settings: dict[str, Any],
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="TASK FILES...", help="The task's folder, then the files.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the model of this finished run; then the arguments are new files.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(help="With --resume: a client that withdraws. The run forgets it and trains again.")
    ] = None,
    sums: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Both helpers' sums instead of files, where the task sums in secret.", metavar="A.part B.part"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; the same one again continues the run.")] = None,
    force: Force = False,
    config: Config = None,
    public: PublicSamples = None,
    test: Test = None,
    trust_code: TrustCode = False,
    log: Logs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a server model from knowledge files, at once.

    With --resume the server model of a finished run goes on learning, from all its clients and the new ones; settings
    that are not given are that run's, and the result is a run of its own (by default RUN-resumed). A run made with
    other settings, or before you changed your own model or method, is not continued; --force starts it over.

    With --resume RUN --without CLIENT the run itself is made anew as if that client had never been there: its file,
    votes and name go, and two hashes say that somebody withdrew.

    Examples: fedol distill task *.fedol --model resnet56 --out runs/one
              fedol distill --resume runs/one late.fedol
              fedol distill --resume runs/one --without alice
              fedol distill task --sums A.part B.part --model resnet56 --out runs/one
    """
    resumable(force)
    from fedol.config import configure_server, trusted
    from fedol.federation.coordinator import Coordinator
    from fedol.federation.resume import continued
    from fedol.federation.roster import check_there
    from fedol.federation.taskfolder import TaskFolder

    paths = paths or []
    if without is not None and (resume is None or paths or out or sums or force or config or settings):
        raise InputError("--without takes a client out of a run as it is; give it with --resume RUN and no more.")
    if sums and (resume is not None or len(paths) > 1):
        raise InputError("With --sums give the task's folder and nothing else: what both helpers have summed is all.")
    if resume is not None and without is not None:
        from fedol.federation.withdrawal import without as forgetting

        files = list[Path]()
        coordinator = forgetting(resume, without, public, trust_code)
    elif resume is not None:
        coordinator, files = continued(
            resume, paths, out, trusted(config, settings, trust_code), public, trust_code, force
        )
    else:
        if not paths:
            raise InputError("Give the task's folder, then the files to learn from.")
        folder, files = TaskFolder.open(paths[0]), paths[1:]
        if not files and not sums:
            raise InputError("There are no files to learn from; give them after the task's folder.")
        if out is None:
            raise InputError("Say where the run goes, for instance --out runs/one.")
        if force:
            check_there([*files, *(sums or ())])  # before anything is removed
        if sums:
            settings = of_sums(trusted(config, settings, trust_code)) | settings
        frozen = configure_server(folder.task.id, config, settings, trust_code, partial(folder.kind, public))
        coordinator = Coordinator(folder, frozen, out, public, force=force)
    labelled = coordinator.test_set(test) if test else None
    if sums:
        coordinator.open_sums(sums)
    elif without is None:
        coordinator.collect(files)
    finish(coordinator, labelled, quiet, as_json, log)


def of_sums(given: dict[str, Any]) -> dict[str, Any]:
    """How a server learns from sums: there is one method for it, and nobody to defend it against."""
    from fedol.robust import NONE

    only = {"method": "union", "defence": NONE}
    if given.get("method", "union") != "union":
        raise InputError(
            f"Sums are what the method union learns from; '{given['method']}' needs single clients' files."
        )
    if given.get("defence", NONE) != NONE:
        raise InputError("Nobody sees a single client's answers, so nobody can judge them; leave --defence out.")
    return only
