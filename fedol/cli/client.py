"""``fedol client fit`` and ``fedol client predict``: a client's side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedol.cli.interrupts import resumable
from fedol.cli.options import Config, Json, PublicImages, Quiet, TaskDir, TrustCode, with_settings
from fedol.errors import InputError
from fedol.settings import ClientSettings

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
    data: Annotated[str, typer.Option(help="Your data: an .npz file, a folder of images by class, or my.py:function.")],
    model: Annotated[str, typer.Option(help="resnet20, cnn, my.py:Class, ...")] = "resnet20",
    out: Annotated[Path, typer.Option(help="The trained model.")] = Path("model.safetensors"),
    config: Config = None,
    dp_epsilon: Annotated[
        float | None,
        typer.Option(help="Train with differential privacy, ε at most this large; needs the extra 'privacy' (Opacus)."),
    ] = None,
    dp_delta: Annotated[
        float | None, typer.Option(help="Its δ: well below one over the number of your images; 1e-5 by default.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one of FedOL's models on your own data. Optional: any model of any framework will do as well.

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
    from fedol.text import say

    wanted = configure_client(config, settings)
    if dp_epsilon is None and dp_delta is not None:  # nobody should believe that this is private
        raise InputError("--dp-delta alone makes nothing private; give --dp-epsilon too.")
    budget = None if dp_epsilon is None else Budget(dp_epsilon, **({} if dp_delta is None else {"delta": dp_delta}))
    with LiveProgress(quiet=quiet or as_json) as progress:
        progress.stage("client", wanted.epochs)
        folder = TaskFolder.open(task)
        result = client_fit(
            folder.task, data, model, out, recipe_of(wanted), wanted.width, wanted.seed, wanted.device,
            on_epoch=progress.epoch, budget=budget, shape=folder.shape(),
        )  # fmt: skip
    if as_json:
        print(json.dumps({"out": str(out), **result}))
    if as_json or quiet:
        return
    say(f"{out}: trained on {result['samples']:,} images, {100 * result['accuracy']:.1f} % right on your test images.")
    if result["privacy"]:
        say(f"Private: {Guarantee(**result['privacy'])}")


@app.command()
def predict(
    task: TaskDir,
    model: Annotated[
        str,
        typer.Option(help="A file (.safetensors of client fit, .onnx, .joblib) or my.py:load. See docs/federation.md."),
    ],
    out: Annotated[Path, typer.Option(help="The knowledge file: what you send.")],
    client: Annotated[str | None, typer.Option(help="Your name; that of the file by default.")] = None,
    codec: Annotated[str | None, typer.Option(help="How it is packed: q7c60+zstd, float16, top10, ...")] = None,
    release: Annotated[
        str | None, typer.Option(help="Say less: label, noise:SIGMA (no guarantee) or response:EPSILON.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Sign it with this private key.")] = None,
    public: PublicImages = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict the public images with your model and write the one file that you send.

    A .joblib file and my.py run code when they are opened, and naming them is your word for it: use only your own.
    A .safetensors file runs code only where it names a class as its model and you add --trust-code.

    Example: fedol client predict task --model forest.joblib --out alice.fedol
    """
    from fedol.federation.predictors import predict_knowledge
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.header import check_sender
    from fedol.privacy.release import parsed, released
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import size
    from fedol.text import say

    folder = TaskFolder.open(task)
    name, packed = client or out.stem, codec or folder.task.codec
    check_sender(name, packed, key, folder.task)
    if release:
        parsed(release)
    with LiveProgress(quiet=quiet or as_json):
        knowledge = predict_knowledge(model, folder.samples(public), folder.task, name, trust_code)
    if release:
        knowledge = released(knowledge, release)
    written = knowledge.save(out, packed, key)
    if as_json:
        print(json.dumps({"out": str(out), "client": knowledge.client, "bytes": written}))
    elif not quiet:
        if knowledge.privacy or release:
            say(f"Privacy: {knowledge.privacy or 'no formal guarantee.'}")
        say(f"{out}: {size(written)} from {knowledge.client}. Look at it before you send it: fedol inspect {out}")
