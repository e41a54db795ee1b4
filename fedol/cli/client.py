"""A client's side: ``fedol client fit`` and ``predict`` make its file; ``inspect``, ``audit``, ``attack`` try it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedol.cli import complete
from fedol.cli.interrupts import resumable
from fedol.cli.options import Config, Json, PublicSamples, Quiet, TaskDir, TrustCode, with_settings
from fedol.errors import InputError
from fedol.settings import LABELLED, ClientSettings, Training

app = typer.Typer(
    help="A client's side: train (with anything), predict, send one file.",
    epilog="Example: fedol client predict task --model forest.joblib --out alice.fedol",
    no_args_is_help=True,
)


@app.command()
@with_settings(ClientSettings)
def fit(
    settings: dict[str, Any],
    task: TaskDir,
    data: Annotated[str, typer.Option(help=f"Your data: {LABELLED}, or my.py:function.")],
    model: Annotated[str, typer.Option(help="resnet20, cnn, my.py:Class, ...")] = "resnet20",
    out: Annotated[Path, typer.Option(help="The trained model.")] = Path("model.safetensors"),
    config: Config = None,
    trust_code: TrustCode = False,
    public: PublicSamples = None,
    dp_epsilon: Annotated[
        float | None,
        typer.Option(help="Train with differential privacy, ε at most this large; needs the extra 'privacy' (Opacus)."),
    ] = None,
    dp_delta: Annotated[
        float | None, typer.Option(help="Its δ: well below one over the number of your samples; 1e-5 by default.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one of FedOL's models on your own data. Optional: any model of any framework will do as well.

    With --folds it also learns what is public, and can then say how far a public sample looks like your data: what the
    server's method union adds up.

    Example: fedol client fit task --data my.npz --model resnet20 --out mine.safetensors
    """
    if dp_epsilon is None:  # the noise of a private training is never kept (fedol.privacy)
        resumable()
    from fedol.config import configure_client, recipe_of
    from fedol.federation.client import client_fit
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.header import Guarantee
    from fedol.privacy.training import Budget
    from fedol.report.live import LiveProgress
    from fedol.text import MOST, printable, say

    wanted = configure_client(config, settings, trust_code)
    if dp_epsilon is None and dp_delta is not None:  # nobody should believe that this is private
        raise InputError("--dp-delta alone makes nothing private; give --dp-epsilon too.")
    budget = None if dp_epsilon is None else Budget(dp_epsilon, **({} if dp_delta is None else {"delta": dp_delta}))
    with LiveProgress(quiet=quiet or as_json) as progress:
        progress.stage("client", wanted.epochs * max(1, wanted.folds))
        folder = TaskFolder.open(task)
        shared = folder.samples(public) if wanted.folds else folder.known(public)
        result = client_fit(
            folder.task, data, model, out, recipe_of(wanted), wanted.width, wanted.seed, wanted.device,
            on_epoch=progress.epoch, budget=budget, folds=wanted.folds, public=shared, own_classes=wanted.own_classes,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"out": str(out), **result}))
    if as_json or quiet:
        return
    told = f" and {folder.task.samples:,} public ones in {wanted.folds} folds" if wanted.folds else ""
    right = f"{100 * result['accuracy']:.1f} % right on your test samples"
    say(f"{out}: trained on {result['samples']:,} samples{told}, {right}.")
    if result["held"]:
        names = printable(", ".join(result["held"]), MOST)
        say(f"It knows the classes that you hold alone, {len(result['held'])} of {len(folder.task.classes)}: {names}.")
    if result["privacy"]:
        say(f"Private: {Guarantee(**result['privacy'])}")


@app.command()
def predict(
    task: TaskDir,
    model: Annotated[
        str,
        typer.Option(help="A file (.safetensors of client fit, .onnx, .joblib) or my.py:load. "),
    ],
    out: Annotated[Path, typer.Option(help="The knowledge file: what you send.")],
    client: Annotated[str | None, typer.Option(help="Your name; that of the file by default.")] = None,
    codec: Annotated[str | None, typer.Option(help="How it is packed: lattice20, float16, q7c60, top10, ...")] = None,
    release: Annotated[
        str | None, typer.Option(help="Say less: label, noise:SIGMA (no guarantee) or response:EPSILON.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Sign it with this private key.")] = None,
    public: PublicSamples = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict the public samples with your model and write the one file that you send.

    A .joblib file and my.py run code when they are opened, and naming them is your word for it: use only your own.
    A .safetensors file runs code only where it names a class as its model and you add --trust-code.

    Example: fedol client predict task --model forest.joblib --out alice.fedol
    """
    from fedol.federation.predictors import predict_knowledge
    from fedol.federation.taskfolder import TaskFolder
    from fedol.files import write_atomically
    from fedol.knowledge.header import check_sender
    from fedol.privacy.release import parsed, released
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import mass_remarks, size
    from fedol.secret.sealed import file_for
    from fedol.text import say

    folder = TaskFolder.open(task)
    name, packed = client or out.stem, codec or folder.task.codec
    check_sender(name, packed, key, folder.task)
    if release:
        parsed(release)
    with LiveProgress(quiet=quiet or as_json):
        knowledge = predict_knowledge(model, folder.samples(public), folder.task, name, trust_code)
    masses = knowledge.ratios
    if release:
        knowledge = released(knowledge, release)
    data = file_for(folder.task, knowledge, packed, key)
    write_atomically(out, data)
    sent = asdict(knowledge.ratios) | {"over_expected": knowledge.mean_mass} if knowledge.ratios else None
    if as_json:
        print(json.dumps({"out": str(out), "client": knowledge.client, "bytes": len(data), "ratios": sent}))
        return
    if quiet:
        return
    if folder.task.secret:
        terms = folder.task.secret
        say(f"Sealed to {' and '.join(terms.helpers)}: only sums of {terms.least} clients and more can be opened.")
    if sent:
        of = f", from {sent['private']:,} samples of yours" if sent["private"] else ""
        say(f"With masses: how much each public sample looks like your data ({sent['folds']} folds{of}).")
        for line in mass_remarks(sent["over_expected"]):
            say(line)
    elif masses:
        say("Without masses: --release says less, and they would say more. The server hears predictions.")
    if knowledge.privacy or release:
        say(f"Privacy: {knowledge.privacy or 'no formal guarantee.'}")
    say(f"{out}: {size(len(data))} from {knowledge.client}. Look at it before you send it: fedol inspect {out}")


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
    from fedol.report.terminal import inspection_view, sealed_view
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
    from fedol.federation.audit import run_audit, words
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
        from fedol.federation.client import client_data
        from fedol.federation.predictors import Asked, open_model, promise, recipe_of
        from fedol.federation.taskfolder import TaskFolder
        from fedol.model import ServerModel
        from fedol.training import Recipe

        if task is None or model is None or data is None:
            raise InputError("Give the folder of a run, or --task, --model and --data.")
        configure_client(config, settings, trust_code)  # refuses what is not a setting
        given = trusted(config, settings, trust_code)
        training = {item.name: given[item.name] for item in fields(Training) if item.name in given}
        folder = TaskFolder.open(task)
        members, others = client_data(data, folder.task)
        shared = folder.samples(public)
        how = codec or folder.task.codec
        opened = open_model(model, trust_code)
        ours = isinstance(opened, ServerModel)
        asked = opened if ours else Asked(model, opened, folder.task)
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
