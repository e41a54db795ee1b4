"""What a finished run is for: ``fedol report``, ``fedol predict`` and ``fedol export``."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fedol.cli.options import Json, Quiet, TrustCode


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run or of a benchmark.")],
    share: Annotated[
        bool, typer.Option("--share", help="Make the page to pass on: nothing that a single client sent or scored.")
    ] = False,
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --share: for this client, with its own answers.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Make report.html of a run or a benchmark again, from what its folder holds, and print where it is.

    It shows every client's answers. With --share it is report-share.html, which does not, and which may be passed on.

    Examples: fedol report runs/quick --open
              fedol report runs/federation --share --client alice
    """
    from fedol.errors import InputError
    from fedol.report.pages import write_report, write_share
    from fedol.text import say

    if client is not None and not share:
        raise InputError("--client is for the page to pass on; give --share, too.")
    path = write_share(run, client) if share else write_report(run)
    say(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        print("No browser could be opened here; open the file yourself.", file=sys.stderr)


BATCH = 512  # samples between two moves of the progress bar


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder, or one model file.")],
    images: Annotated[Path, typer.Argument(help="An image, a folder of images, an .npz or an .npy file.")],
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Print the class of each image and the model's confidence, one line per image, separated by tabs.

    A model of the method union also says which images are like no client's data, where every client sent masses.

    Example: fedol predict runs/federation images/
    """
    import numpy as np

    from fedol.data.own import load_samples
    from fedol.model import load
    from fedol.progress import watched
    from fedol.report.live import LiveProgress
    from fedol.text import shown

    model = load(run, trust_code=trust_code)
    with LiveProgress(quiet=as_json):
        found, names = load_samples(images)
        parts = [found.take(slice(start, start + BATCH)) for start in range(0, len(found), BATCH)]
        probs = np.concatenate([model.predict_proba(part) for part in watched(parts, "predicting")])
    rows = [
        {"image": name, "class": model.classes[row.argmax()], "probability": float(row.max())}
        for name, row in zip(names, probs, strict=True)
    ]
    if (known := model.known(probs)) is not None:
        rows = [{**row, "known": bool(here)} for row, here in zip(rows, known, strict=True)]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for line in rows:
        image, name = (shown(line[key], "cell") for key in ("image", "class"))
        note = "" if line.get("known", True) else "\tlike no client's data"
        print(f"{image}\t{name}\t{line['probability']:.4f}{note}")


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, or one model file.")],
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the model as ONNX: input `images` uint8 [N, channels, H, W], output `probabilities` [N, classes].

    Example: fedol export runs/federation --onnx model.onnx
    """
    from fedol.model import export_onnx, load
    from fedol.report.live import LiveProgress
    from fedol.report.terminal import size
    from fedol.text import say

    with LiveProgress(quiet=quiet or as_json):
        export_onnx(load(run, trust_code=trust_code), onnx)
    written = onnx.stat().st_size
    if as_json:
        print(json.dumps({"out": str(onnx), "bytes": written}))
    elif not quiet:
        say(f"{onnx}: {size(written)}, raw pixels in, probabilities out; class names in its metadata.")
