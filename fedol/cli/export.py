"""``fedol export``: a trained model for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, or one model file.")],
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
) -> None:
    """Write the model as ONNX: input `images` uint8 [N, channels, H, W], output `probabilities` [N, classes].

    Example: fedol export runs/federation --onnx model.onnx
    """
    from fedol.export import export_onnx
    from fedol.report.tables import size
    from fedol.server import load

    export_onnx(load(run), onnx)
    print(f"{onnx}: {size(onnx.stat().st_size)}, raw pixels in, probabilities out; class names in its metadata.")
