"""Models as ONNX graphs: a network as PyTorch traces it; an estimator as skl2onnx has it, between two networks."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedol.errors import FedolError
from fedol.models.fitted import Copies, Fitted, fitted_in
from fedol.models.held import Held
from fedol.models.trees import rounded

OPSETS = {"": 18, "ai.onnx.ml": 3}  # of all parts alike: a graph has one of each
Translation = Generator[None, None, Any]  # gives a graph; yields after each step before, because each takes seconds


class Chain(nn.Module):
    """Functions of tensors, one after the other."""

    def __init__(self, *steps: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.steps = steps
        self.parts = nn.ModuleList([step for step in steps if isinstance(step, nn.Module)])

    def forward(self, inputs: Tensor) -> Tensor:
        """What the last one makes of it."""
        for step in self.steps:
            inputs = step(inputs)
        return inputs


def translated(
    module: nn.Module,
    prepare: Callable[[Tensor], Tensor],
    end: Callable[[Tensor], Tensor],
    example: Tensor,
    given: str,
    found: str,
) -> Translation:
    """The graph from raw values, called ``given``, to probabilities, called ``found``: what ``end`` makes of logits."""
    fitted = fitted_in(module)
    if fitted is None:
        return (yield from _traced(Chain(prepare, module, end), example, given, found))
    if isinstance(fitted, Copies):
        raise FedolError("Estimators of several findings have no ONNX file; choose a network for the server.")
    rows, spread = Chain(prepare, _flat), _spread(module, fitted)
    before = yield from _traced(rows, example, given, "rows")
    converted = _converted(fitted, rows(example))
    yield
    after = yield from _traced(spread, torch.zeros(2, spread.in_features), "known", found)
    return _joined(before, converted, after)


def _flat(batch: Tensor) -> Tensor:
    return batch.flatten(1)


def _traced(module: nn.Module, example: Tensor, given: str, found: str) -> Translation:
    import onnx

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of packages that this export does not need
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's notes to itself
        batch = ({0: torch.export.Dim("batch")},)
        program = torch.export.export(module, (example,), dynamic_shapes=batch, strict=False)
        yield
        path = Path(scratch) / "model.onnx"
        with contextlib.redirect_stdout(io.StringIO()):
            torch.onnx.export(
                program,
                f=path,
                input_names=[given],
                output_names=[found],
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        yield
        return onnx.load(path)


def _converted(fitted: Fitted, rows: Tensor) -> Any:
    """An estimator's graph, from rows to probabilities of the classes that it knows."""
    try:
        from skl2onnx import to_onnx
    except ImportError:
        raise FedolError(
            "Exporting an estimator needs the package skl2onnx: pip install 'fedol[onnx-estimators]'."
        ) from None
    if len(fitted.learner.known) < 2:
        raise FedolError(f"The model '{fitted.name}' knows one class alone, so there is nothing to export.")
    _register_boosting()
    return to_onnx(rounded(fitted.learner.estimator), rows[:1].numpy(), options={"zipmap": False}, target_opset=OPSETS)


def _register_boosting() -> None:
    """Let skl2onnx convert LightGBM's and XGBoost's classifiers within pipelines, too, where these are installed."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as shapes

    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    with contextlib.suppress(ImportError):
        from lightgbm import LGBMClassifier
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

        update_registered_converter(LGBMClassifier, "LightGBM", shapes, convert_lightgbm, options=options)
    with contextlib.suppress(ImportError):
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
        from xgboost import XGBClassifier

        update_registered_converter(XGBClassifier, "XGBoost", shapes, convert_xgboost, options=options)


def _spread(module: nn.Module, fitted: Fitted) -> nn.Linear:
    """From the classes that an estimator knows to all: what ``Fitted`` and ``Held`` do is linear in probabilities."""
    known, outputs = torch.as_tensor(fitted.learner.known), torch.eye(fitted.classes)
    places = outputs if not isinstance(module, Held) else torch.eye(module.classes)[module.places]
    layer = nn.Linear(len(known), places.shape[1])
    with torch.no_grad():
        layer.weight.copy_((outputs[known] @ places).T * fitted.samples / (fitted.samples + 1))
        layer.bias.copy_(places.sum(0) / fitted.classes / (fitted.samples + 1))
    return layer.requires_grad_(False)


def _joined(before: Any, estimator: Any, after: Any) -> Any:
    """Three graphs as one: what comes last out of each is what the next one is given."""
    from onnx import compose, helper

    whole = compose.add_prefix(before, "before.", rename_inputs=False)
    for graph in (
        compose.add_prefix(estimator, "estimator."),
        compose.add_prefix(after, "after.", rename_outputs=False),
    ):
        for part in (whole, graph):
            part.ir_version = min(whole.ir_version, graph.ir_version)
            del part.opset_import[:]
            part.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in OPSETS.items())
        ends = whole.graph.output[-1].name, graph.graph.input[0].name
        whole = compose.merge_models(whole, graph, io_map=[ends], outputs=[graph.graph.output[-1].name])
    return whole
