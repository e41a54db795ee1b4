"""A frozen network by ONNX Runtime, where it is installed: on a CPU, PyTorch takes several times as long.

Translating a network takes seconds, so the translation is kept in ``~/.cache/fedol/encoders``.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedol.errors import cause
from fedol.features.store import cached
from fedol.files import write_atomically
from fedol.models.pretrained import Resized, body_of

NEEDED = "onnx", "onnxscript", "onnxruntime"
MANY = 128  # images that are worth a translation
Run = Callable[[Tensor], Tensor]


def runner(encoder: str, count: int, device: torch.device) -> Run:
    """What computes an encoder's features of ``count`` images soonest."""
    body = body_of(encoder)
    module = Resized(body).eval()
    if device.type == "cpu" and all(find_spec(package) for package in NEEDED):
        file = cached() / "encoders" / f"{body.weights}-torch{torch.__version__}.onnx"
        if (file.exists() or count >= MANY) and (session := _session(encoder, file)):
            return lambda images: session(module.fitted(images))
    module.to(device)
    return lambda images: module(images.to(device)).float().cpu()


@lru_cache(maxsize=4)
def _session(encoder: str, file: Path) -> Run | None:
    """The network in that file, which is written where it is not there yet; None where it cannot be translated."""
    body = body_of(encoder)
    try:
        if not file.exists():
            write_atomically(file, translated(body.module, torch.zeros(2, body.channels, body.size, body.size)))
        return compiled(str(file))
    except Exception as error:  # other people's networks can fail anywhere inside the exporter
        warnings.warn(f"'{encoder}' runs in PyTorch, because ONNX cannot take it: {cause(error)}.", stacklevel=2)
        return None


def translated(module: nn.Module, blank: Tensor) -> bytes:
    """A module as ONNX, for batches of any number of samples like those of ``blank``."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that this export does not need
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # the exporter's notes to itself
        file, shapes = Path(folder) / "encoder.onnx", ({0: torch.export.Dim("batch")},)
        settings: dict[str, Any] = {"dynamo": True, "external_data": False, "verbose": False}
        torch.onnx.export(module, (blank,), file, dynamic_shapes=shapes, **settings)
        return file.read_bytes()


def compiled(onnx: str | bytes) -> Run:
    """What ONNX Runtime makes of such a file or its content, in float32 on as many threads as PyTorch has."""
    import onnxruntime

    wanted = onnxruntime.SessionOptions()
    wanted.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(onnx, wanted, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return lambda values: torch.from_numpy(session.run(None, {given.name: values.contiguous().numpy()})[0])
