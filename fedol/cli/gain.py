"""What a site gets back: ``fedol evaluate`` compares its own model with the server, ``fedol adapt`` fits the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli.options import OUTPUT, Config, Json, PublicSamples, Quiet, RunDir, TrustCode, with_settings
from fedol.errors import InputError
from fedol.settings import LABELLED, ClientSettings, Columns

Data = Annotated[str, typer.Option(help=f"Your data: {LABELLED}, or my.py:function; its test part is held out.")]


@with_settings(Columns)
def evaluate(
    settings: dict[str, Any],
    run: RunDir,
    data: Data,
    model: Annotated[str, typer.Option(help="Your own model, as 'fedol client predict' takes it.")],
    html: Annotated[Path | None, typer.Option(help="Write a page, too.", rich_help_panel=OUTPUT)] = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Compare your own model with the server, on your own held-out samples, on your machine.

    A server that was adapted to you ('fedol adapt') may stand in the run's place: then both are compared.

    Examples: fedol evaluate model.safetensors --data my.npz --model forest.joblib
              fedol evaluate adapted.safetensors --data my.npz --model forest.joblib --trust-code --json > benefit.json
    """
    from fedol.data import Reading
    from fedol.gain.evaluation import contestants, evaluated
    from fedol.gain.opening import load, opened, site_data
    from fedol.report.benefit import table, words, write_page
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import plain

    with LiveProgress(quiet=as_json):
        server = load(run, trust_code=trust_code)
        _, held = site_data(data, server, Reading.of(Columns(**settings)))
        own = opened(model, server.classes, trust_code)
        found = evaluated(contestants(server, own.answers), held, server.classes)
    if html:
        write_page(html, [{**found, "site": Path(data).stem}], "Your model and the server")
    if as_json:
        print(json.dumps(found, indent=1))
        return
    console = Console()
    console.print(table(found), "")
    for line in words(found):
        console.print(plain(line), soft_wrap=True)
    if html:
        console.print(plain(f"Page: {html}"), soft_wrap=True)


@with_settings(ClientSettings, but=("folds", "own_classes"))
def adapt(
    settings: dict[str, Any],
    run: RunDir,
    data: Data,
    model: Annotated[
        str | None,
        typer.Option(help="Your own model, to be mixed in; with --retrain an estimator, or a network's name, as cnn."),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="Train your kind of model again, on your samples and the published targets."),
    ] = False,
    task: Annotated[
        Path | None, typer.Option(help="With --retrain: the task's folder; by default that of the run.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The adapted model.")] = Path("adapted.safetensors"),
    config: Config = None,
    public: PublicSamples = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit the server to your site without sending anything: its class prior, a temperature, your own model's part.

    All is chosen by cross-validation on your held-out samples; where nothing beats your own model, it stays. With
    --retrain all of your training samples are used for that, and a network trains as --epochs, --lr, ... say.

    Examples: fedol adapt runs/federation --data my.npz --model mine.safetensors
              fedol adapt runs/federation --data my.npz --model forest.joblib --retrain
    """
    from dataclasses import fields

    from fedol.data import Reading
    from fedol.gain.opening import class_counts, load, opened, site_data
    from fedol.model import ServerModel
    from fedol.report.live import LiveProgress
    from fedol.text import say

    if retrain and model is None:
        raise InputError("--retrain needs your kind of model: --model forest.joblib, say, or --model cnn.")
    told_columns = {item.name for item in fields(Columns)}
    columns = {name: value for name, value in settings.items() if name in told_columns}
    training = settings.keys() - columns
    for option, given in (("--task", task), ("--public", public), ("a training's setting", training or config)):
        if given and not retrain:
            raise InputError(f"{option} is for --retrain; give that, too, or leave it out.")
    with LiveProgress(quiet=quiet or as_json):
        server = load(run, trust_code=trust_code)
        if not isinstance(server, ServerModel):
            raise InputError(f"{run} is adapted already; give the server as it came.")
        train, held = site_data(data, server, Reading.of(Columns(**columns)))
        if retrain and model is not None:
            found = _retrained(server, run, train, model, task, public, config, settings, trust_code)
        else:
            own = opened(model, server.classes, trust_code) if model else None
            if own and not own.file:
                raise InputError(
                    f"'{model}' is no file that could go into the adapted one; save the model and name it."
                )
            counts = class_counts((train, held), len(server.classes))
            found = server.adapt(held.samples, held.y, own, counts)
        found.save(out)
    parts = {name: value for name, value in found.adaptation.as_json().items() if name != "shift"}
    if as_json:
        print(json.dumps({"out": str(out), **parts, **found.evidence}))
    elif not quiet:
        for line in told(found.evidence, parts):
            say(line)
        say(f"{out}: {'with' if found.own else 'without'} your own model inside.")


def _retrained(
    server: Any,
    run: Path,
    train: Any,
    spec: str,
    task: Path | None,
    public: Path | None,
    config: Path | None,
    settings: dict[str, Any],
    trust_code: bool,
) -> Any:
    """The server with the site's kind of model, trained again."""
    from dataclasses import fields

    from fedol.config import configure_client
    from fedol.estimators import NetClassifier
    from fedol.federation.predictors import open_model
    from fedol.federation.taskfolder import TaskFolder
    from fedol.gain.again import kind_of, retrained, targets_beside
    from fedol.settings import Training

    wanted = configure_client(config, settings, trust_code)
    folder = TaskFolder.open(task) if task else TaskFolder.of_run(run)
    if "." not in spec and ":" not in spec:
        training = {item.name: getattr(wanted, item.name) for item in fields(Training)}
        estimator: Any = NetClassifier(
            spec, width=wanted.width, device=wanted.device, random_state=wanted.seed % 2**31, **training
        )
    else:
        estimator = open_model(spec, trust_code)
    return retrained(server, train, kind_of(estimator, spec), folder.samples(public), targets_beside(run), wanted.seed)


def told(evidence: dict[str, Any], parts: dict[str, float]) -> list[str]:
    """What was chosen, and how well it did where it was not chosen."""
    names = {
        "right_own": "your model",
        "right_retrained": "your kind of model, trained again",
        "right_server": "the server as it came",
        "right": "adapted",
    }
    rows = evidence["held_out"]
    scores = [f"{words} {100 * evidence[name] / rows:.1f} %" for name, words in names.items() if name in evidence]
    lines = [f"Of {rows:,} samples that had no part in it, right: {', '.join(scores)}."]
    if not parts["server"] and not parts["prior"]:
        return [*lines, "Nothing beat your own model there, so the adapted one is your own."]
    inside = " (trained again)" if evidence.get("inside") == "retrained" else ""
    given = f"server {parts['server']:.2f}, class prior {parts['prior']:.2f}, your model{inside} {parts['own']:.2f}"
    return [*lines, f"What each counts for, as a power of its probabilities: {given}."]
