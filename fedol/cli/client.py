"""A client's side: ``fedol client fit`` trains a model, ``fedol client predict`` makes the file that it sends."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedol.cli.interrupts import resumable
from fedol.cli.options import (
    Config,
    Json,
    Logits,
    Multilabel,
    PolicyFile,
    PublicSamples,
    Quiet,
    TaskDir,
    TrustCode,
    outputs,
    with_settings,
)
from fedol.cli.send import send
from fedol.errors import InputError
from fedol.settings import LABELLED, ClientSettings

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
    model: Annotated[
        str | None,
        typer.Option(
            help="resnet20, cnn, my.py:Class, forest, ... (default: resnet20; tables, texts: mlp; signals: cnn1d)"
        ),
    ] = None,
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
    from fedol.data import Reading
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
            reading=Reading.of(wanted).under(folder.reading),
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
    logits: Logits = False,
    multilabel: Multilabel = False,
    policy: PolicyFile = None,
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
    from fedol.federation.policy import Policy
    from fedol.federation.predictors import predict_knowledge
    from fedol.federation.releasing import noted
    from fedol.federation.taskfolder import TaskFolder
    from fedol.files import write_atomically
    from fedol.knowledge.header import check_sender
    from fedol.privacy.release import parsed, released
    from fedol.report.inspection import mass_remarks
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import size
    from fedol.secret.sealed import file_for
    from fedol.text import say

    said, folder = outputs(logits, multilabel), TaskFolder.open(task)
    name, packed = client or out.stem, codec or folder.task.codec
    check_sender(name, packed, key, folder.task)
    if release:
        parsed(release)
    if rules := Policy.found(policy):
        rules.check_making("sealed" if folder.task.secret else packed, release)
    with LiveProgress(quiet=quiet or as_json):
        knowledge = predict_knowledge(model, folder.samples(public), folder.task, name, trust_code, said)
    masses = knowledge.ratios
    if release:
        knowledge = released(knowledge, release)
    data = file_for(folder.task, knowledge, packed, key)
    write_atomically(out, data)
    if rules:
        noted(out, data, model, release)
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
    look = f"fedol client release {out} --task {task} --data DATA" if rules else f"fedol inspect {out}"
    say(f"{out}: {size(len(data))} from {knowledge.client}. Look at it before you send it: {look}")


app.command()(send)
