"""The trained server model: predicts on raw samples, saves to one file, loads back, and exports to ONNX."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedol.adapted import FORMAT, AdaptedModel, Own, adapted
from fedol.architecture import Architecture as Architecture
from fedol.core.arrays import Array, exact, to_tensor
from fedol.core.voting import shannon
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError, brief, cause, measures
from fedol.files import intact, read_tensors, write_atomically, write_tensors
from fedol.models import ModelSpec, describe, parameter_count
from fedol.models.exported import translated
from fedol.models.fitted import STATE
from fedol.models.pretrained import Pretrained
from fedol.models.raw import FromRaw
from fedol.models.registry import is_code, trusted
from fedol.progress import watched
from fedol.text import Card, printable
from fedol.training import predict


@dataclass(eq=False, repr=False)
class ServerModel(Card):
    """One model that has learnt what the clients know."""

    module: nn.Module
    architecture: Architecture
    history: list[dict[str, Any]] = field(default_factory=list)  # a record per iteration; a client's: its recipe
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def facts(self) -> dict[str, Any]:
        """What it is and takes."""
        known = self.architecture
        return {
            "model": describe(known.model),
            "parameters": parameter_count(self.module),
            "takes": f"{known.prepare.kind} {measures(known.prepare.shown(known.shape))}".strip(),
            **({"findings": len(known.findings)} if known.findings else {"classes": len(known.classes)}),
            "device": str(self.device),
        }

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order of the predictions."""
        return self.architecture.classes

    @property
    def findings(self) -> tuple[str, ...]:
        """What a sample may have several of, in the order of the predictions; empty where it is of one class."""
        return self.architecture.findings

    def predict_log_proba(self, inputs: Samples | Array) -> Tensor:
        """Log-probabilities [N, classes] of samples, or of an array, a frame or strings that hold them.

        Of findings those of no and yes, a row for each finding of each sample (``fedol.data.findings``).
        """
        known = self.architecture
        return predict(self.module, known.prepare.accept(inputs, known.shape), known.prepare, self.device)

    def predict_proba(self, inputs: Samples | Array) -> np.ndarray:
        """Probabilities [N, classes] or [N, findings] of samples, or of what holds them: an array, a frame, strings."""
        probs: np.ndarray = self.predict_log_proba(inputs).exp().numpy()
        return probs[:, 1].reshape(-1, len(self.findings)) if self.findings else probs

    def predict(self, inputs: Samples | Array) -> np.ndarray:
        """The most probable class of each sample, as an index into ``classes``; of findings whether each is there."""
        probs = self.predict_proba(inputs)
        found: np.ndarray = probs > 0.5 if self.findings else probs.argmax(1)
        return found

    def known(self, probs: Array) -> npt.NDArray[np.bool_] | None:
        """Of its predictions [N, classes], which are on samples like some client's; None where it cannot tell.

        The method union tells, where every client sent masses: the model is unsure of what is like nobody's data.
        """
        above = self.history[-1].get("unsure_above") if self.history else None
        if not isinstance(above, float):  # a stranger's file may hold anything
            return None
        known: npt.NDArray[np.bool_] = (shannon(exact(to_tensor(probs))) <= above).numpy()
        return known

    def adapt(
        self,
        inputs: Samples | Array,
        labels: npt.NDArray[np.int64],
        own: ServerModel | Own | None = None,
        counts: Sequence[int] | None = None,
        seed: int = 0,
    ) -> AdaptedModel:
        """This model fitted to a site by labelled samples that the site's ``own`` model, if any, was not trained on.

        Its class prior becomes the site's, by ``counts`` of all its samples in each class (those of ``labels`` by
        default); a temperature and the own model's part are chosen by cross-validation, seeded
        (``fedol.core.adaptation``). Nothing is sent to anybody.
        """
        return adapted(
            self, inputs, labels, Own.of(own, self.classes) if isinstance(own, ServerModel) else own, counts, seed
        )

    def raw(self) -> nn.Module:
        """From raw values to probabilities, as one module on the CPU."""
        return FromRaw(self.module, self.architecture.prepare.graph(), bool(self.findings)).cpu().eval()

    def save(self, path: str | Path) -> None:
        """Write weights, architecture and history to one safetensors file."""
        header = {"architecture": self.architecture.header(), "history": self.history}
        write_tensors(Path(path), self.module.state_dict(), header)


def load(run: str | Path, model: ModelSpec | None = None, trust_code: bool = False) -> ServerModel:
    """The trained server model of a run folder, or of one model file, ready to predict.

    A file may name one of FedOL's models, or a class that this process has built a model of already: a run made here
    is read here. Any other name is code that loading would run, and a file's word is not enough for that: hand the
    class over as ``model``, or say ``trust_code=True`` if you trust whoever made the file.
    """
    if not isinstance(run, str | Path):
        raise InputError(f"What is loaded is named by its path, a run's folder or a model's file, not {brief(run)}.")
    path = Path(run)
    path = path / "model.safetensors" if path.is_dir() else path
    if not path.exists():
        raise FedolError(f"There is no trained model at {path}; is the run finished?", path)
    with intact(path, "give a FedOL model file, or make it again"):
        weights, header = read_tensors(path)
        if FORMAT in header:
            raise FedolError(
                f"{path} is a server adapted to a site; fedol.load, 'fedol predict' and 'fedol evaluate' take it."
            )
        architecture = Architecture.from_header(header["architecture"])
        history = [dict(record) for record in header["history"]]
    spec = trusted(str(architecture.model), str(path), trust_code) if model is None else model
    architecture = replace(architecture, model=spec)
    return ServerModel(_filled(architecture, weights, path), architecture, history)


def _filled(architecture: Architecture, weights: dict[str, Tensor], path: Path) -> nn.Module:
    """The model with these weights, in evaluation mode.

    One of FedOL's takes no memory before it is known to fit: a header can claim any width, a file must hold it.
    """
    known = Pretrained.parse(architecture.model)
    ours = isinstance(architecture.model, str) and not is_code(architecture.model) and not (known and known.tuned)
    with torch.device("meta") if ours else nullcontext():
        module = architecture.build()
    wanted = module.state_dict()
    for name in sorted(wanted.keys() | weights.keys()):
        needs, holds = (_kind(name, tensors.get(name)) for tensors in (wanted, weights))
        if needs != holds:
            model, which = describe(architecture.model), printable(name, 80)
            raise FedolError(
                f"The weights in {path} do not fit {model}: '{which}' should be {needs}, but is {holds}.", path
            )
    with intact(path, "give a FedOL model file, or make it again"):  # an estimator reads its own
        # The file's tensors in place of those without memory: to_empty would import SymPy.
        module.load_state_dict(weights, assign=ours)
    return module.eval()


def _kind(name: str, tensor: Tensor | None) -> str:
    if tensor is None:
        return "absent"
    if name.endswith(STATE) and tensor.dim() == 1:  # as long as it needs to be
        return str(tensor.dtype)
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _softmax(logits: Tensor) -> Tensor:
    """Logits to probabilities [N, classes]."""
    return torch.softmax(logits, 1)


def _yes(logits: Tensor) -> Tensor:
    """Logits of no and yes to probabilities [N, findings]."""
    return torch.softmax(logits, -1)[..., 1]


def _as_is(values: Tensor) -> Tensor:
    """What an adapted model does before and after: its parts do it themselves."""
    return values


def export_onnx(model: ServerModel | AdaptedModel, path: Path) -> None:
    """Write the file: its input is called ``images``, or as its kind is, its output ``probabilities``.

    Its metadata has the class names, and what else ``Preprocessing.metadata`` tells."""
    for _ in watched(_steps(model, path), "exporting", 3):
        pass


def _steps(model: ServerModel | AdaptedModel, path: Path) -> Iterator[None]:
    """Trace, translate, check and write: yields after each, because each takes seconds."""
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it and would fail without saying so)
    except ImportError:
        raise FedolError("Exporting needs the packages onnx and onnxscript: pip install 'fedol[onnx]'.") from None
    known = model.architecture
    example = known.prepare.blank(known.shape)
    prepare: Callable[[Tensor], Tensor]
    end: Callable[[Tensor], Tensor]
    if isinstance(model, AdaptedModel):
        module, prepare, end = model.raw().eval(), _as_is, _as_is
    else:
        module, prepare = model.module.cpu().eval(), known.prepare.graph()
        end = _yes if known.findings else _softmax
    try:
        graph = yield from translated(module, prepare, end, example, known.prepare.kind, "probabilities")
    except FedolError:
        raise
    except Exception as error:  # other people's models can fail anywhere inside the exporter
        raise FedolError(f"This model cannot be written as ONNX: {cause(error)}.") from error
    said = {"findings": model.findings} if model.findings else {"classes": model.classes}
    told = {**said, **known.prepare.metadata()}
    onnx.helper.set_model_props(graph, {name: json.dumps(value, ensure_ascii=False) for name, value in told.items()})
    onnx.checker.check_model(graph)
    write_atomically(path, graph.SerializeToString())
    yield
