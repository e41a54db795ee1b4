"""A trained model as one ONNX file that needs neither FedOL nor PyTorch: raw values in, probabilities out."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from fedol.errors import FedolError, cause
from fedol.files import write_atomically
from fedol.model import ServerModel
from fedol.progress import watched


class FromRaw(nn.Module):
    """Preprocessing, the model, softmax: what ``ServerModel.predict_proba`` does."""

    def __init__(self, model: ServerModel) -> None:
        super().__init__()
        self.module, self.prepare = model.module, model.architecture.prepare

    def forward(self, inputs: Tensor) -> Tensor:
        """Raw values to probabilities [N, classes]."""
        return torch.softmax(self.module(self.prepare(inputs)), 1)


def export_onnx(model: ServerModel, path: Path) -> None:
    """Write the file: its input is called ``images``, or as its kind is, its output ``probabilities``.

    Its metadata has the class names."""
    for _ in watched(_steps(model, path), "exporting", 3):
        pass


def _steps(model: ServerModel, path: Path) -> Iterator[None]:
    """Trace, translate, check and write: yields after each, because each takes seconds."""
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it and would fail without saying so)
    except ImportError:
        raise FedolError("Exporting needs the packages onnx and onnxscript: pip install 'fedol[onnx]'.") from None
    wrapped, known = FromRaw(model).cpu().eval(), model.architecture
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that this export does not need
    example, kind = known.prepare.blank(known.shape), known.prepare.kind
    try:
        with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's notes to itself
            batch = ({0: torch.export.Dim("batch")},)
            program = torch.export.export(wrapped, (example,), dynamic_shapes=batch, strict=False)
            yield
            with contextlib.redirect_stdout(io.StringIO()):
                torch.onnx.export(
                    program,
                    f=Path(scratch) / "model.onnx",
                    input_names=[kind],
                    output_names=["probabilities"],
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
            yield
            graph = onnx.load(Path(scratch) / "model.onnx")
    except Exception as error:  # other people's models can fail anywhere inside the exporter
        raise FedolError(f"This model cannot be written as ONNX: {cause(error)}.") from error
    onnx.helper.set_model_props(graph, {"classes": json.dumps(list(model.classes), ensure_ascii=False)})
    onnx.checker.check_model(graph)
    write_atomically(path, graph.SerializeToString())
    yield
