"""Before a client sends its file: what is in it (``inspect``), what it tells (``audit``), what a liar would send."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli import complete
from fedol.cli.options import Config, Json, Logits, Multilabel, PublicSamples, TrustCode, outputs, with_settings
from fedol.errors import InputError
from fedol.settings import ClientSettings, Training


def inspect(
    file: Annotated[Path, typer.Argument(help="A knowledge file.")],
    task: Annotated[Path | None, typer.Option(help="The task's folder: does the file fit it?")] = None,
    as_json: Json = False,
) -> None:
    """Show a knowledge file before it is sent: size, codec, how sure it is, and what it reveals.

    Example: fedol inspect alice.fedol --task task
    """
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.inspection import inspect as look
    from fedol.report.inspection import inspection_view, sealed_view
    from fedol.secret.sealed import is_sealed, look_at

    opened, sealed = TaskFolder.open(task).task if task else None, is_sealed(file)
    found = look_at(file, opened) if sealed else look(file, opened)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        Console().print(sealed_view(found) if sealed else inspection_view(found))
    if found["fits"] and not found["fits"]["fits"]:
        raise typer.Exit(2)


@with_settings(ClientSettings, but=("width", "device", "folds", "own_classes"))
def audit(
    settings: dict[str, Any],
    run: Annotated[
        Path | None,
        typer.Argument(help="The folder of a finished 'fedol run'.", autocompletion=complete.run_folders),
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Or your own: the task's folder, with --model and --data.")] = None,
    model: Annotated[str | None, typer.Option(help="Your model, as 'fedol client predict' takes it.")] = None,
    data: Annotated[str | None, typer.Option(help="The data it was trained on, with test samples apart.")] = None,
    codec: Annotated[
        str | None, typer.Option(help="How the file is packed; the run's or the task's by default.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="As in 'fedol client predict': label, noise:SIGMA or response:EPSILON.")
    ] = None,
    shadows: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Shadow models of the likelihood-ratio attack, an even number; 8, or 0 for other frameworks' models.",
        ),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="How many of a run's clients.")] = 3,
    logits: Logits = False,
    multilabel: Multilabel = False,
    config: Config = None,
    public: PublicSamples = None,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Attack what a client sends: who was in its training data, and how many samples of each class it holds.

    The likelihood-ratio attack trains models like yours, as the file of 'fedol client fit' says; --epochs, --batch-size
    and --lr replace that. A model of another framework is attacked by threshold alone.

    Examples: fedol audit runs/quick
              fedol audit --task task --model mine.safetensors --data my.npz
    """
    from fedol.config import configure_client, trusted
    from fedol.federation.audit import check_auditable, run_audit, words
    from fedol.privacy.audit import SHADOWS
    from fedol.privacy.audit import audit as attack
    from fedol.report.live import LiveProgress
    from fedol.text import say

    if run is not None:
        own = {"task": task, "model": model, "data": data, "config": config, **settings, "public": public}
        if own := {name: value for name, value in own.items() if value is not None}:
            option = "--" + min(own).replace("_", "-")
            raise InputError(f"{option} is for a model of your own; a run says itself how it was made: leave it out.")
        with LiveProgress(quiet=as_json) as progress:
            count = SHADOWS if shadows is None else shadows
            found = run_audit(run, clients, codec, count, progress.epoch, release, trust_code)
    else:
        from fedol.data import Reading
        from fedol.federation.client import client_data
        from fedol.federation.predictors import Asked, open_model, promise, recipe_of
        from fedol.federation.taskfolder import TaskFolder
        from fedol.model import ServerModel
        from fedol.training import Recipe

        if task is None or model is None or data is None:
            raise InputError("Give the folder of a run, or --task, --model and --data.")
        reading = Reading.of(configure_client(config, settings, trust_code))  # which refuses what is not a setting
        given = trusted(config, settings, trust_code)
        training = {item.name: given[item.name] for item in fields(Training) if item.name in given}
        folder = TaskFolder.open(task)
        check_auditable(folder.task)
        shared = folder.samples(public)
        members, others = client_data(data, folder.task, reading.under(shared))
        how = codec or folder.task.codec
        opened = open_model(model, trust_code)
        ours = isinstance(opened, ServerModel)
        asked = opened if ours else Asked(model, opened, folder.task, outputs(logits, multilabel))
        count = shadows if shadows is not None else SHADOWS if ours else 0
        kept = recipe_of(opened)
        if count and kept is None and "epochs" not in training:
            raise InputError(f"{model} does not say how it was trained; give the --epochs, or --shadows 0.")
        recipe = replace(kept or Recipe(), **training)
        with LiveProgress(quiet=as_json) as progress:
            told = progress.epoch
            one = attack(asked, members, others, shared, recipe, how, count, given.get("seed", 0), told, release)
        guarantee = promise(opened)
        one["privacy"] = asdict(guarantee) if guarantee else None
        found = {"clients": [{"client": Path(model).stem, "samples": len(members), **one}]}
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for client in found["clients"]:
        sent = f"{client['codec']}, released as {release}" if release else client["codec"]
        say(f"Client {client['client']}, trained on {client['samples']:,} samples; sent as {sent}:")
        for line in words(client):
            say(f"  {line}")


def attack(
    files: Annotated[list[Path], typer.Argument(help="Knowledge files of the clients that turn hostile.")],
    name: Annotated[
        str,
        typer.Option(
            "--attack",
            help="constant, random, noise, permuted, colluding, copies, backdoor, forged, specialist3, specialist10, "
            "adaptive, parrot or modest.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the attacked copies go, under the files' own names.")],
    knows: Annotated[
        list[Path] | None, typer.Option(help="Files of other clients that the attacker knows; give it once per file.")
    ] = None,
    claim: Annotated[
        str,
        typer.Option(
            help="What they make of their masses, where they send any: honest, tenfold, thousandfold, flat, few, crowd "
            "or samples.",
        ),
    ] = "honest",
    seed: Annotated[int, typer.Option(help="All randomness comes from this one number.")] = 0,
) -> None:
    """Write attacked copies of knowledge files, to see what your federation makes of them. Copies are not signed.

    Example: fedol attack inbox/mallory.fedol inbox/trudy.fedol --attack colluding --out hostile
    """
    from fedol.report.live import LiveProgress
    from fedol.robust.attacks import attack_files
    from fedol.text import say

    if out.exists() and any((out / file.name).exists() for file in files):
        raise InputError(f"{out} holds files of these names already; choose another folder.")
    with LiveProgress():
        written = attack_files(files, name, out, knows or [], seed, claim)
    for path in written:
        say(path)
