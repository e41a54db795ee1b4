"""``fedol export``: a trained model for other runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedol.cli.options import Json, Quiet, TrustCode


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
    from fedol.export import export_onnx
    from fedol.report.progress import LiveProgress
    from fedol.report.tables import size
    from fedol.server import load
    from fedol.text import say

    with LiveProgress(quiet=quiet or as_json):
        export_onnx(load(run, trust_code=trust_code), onnx)
    written = onnx.stat().st_size
    if as_json:
        print(json.dumps({"out": str(onnx), "bytes": written}))
    elif not quiet:
        say(f"{onnx}: {size(written)}, raw pixels in, probabilities out; class names in its metadata.")
