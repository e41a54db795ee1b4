"""Any model as a function from the public samples to predictions: ours, PyTorch, scikit-learn's kind, ONNX, a function.

What a model is handed:
    a model file of ``fedol client fit``, a function     the raw values: uint8 images [N, channels, H, W], strings
    a ``torch.nn.Module``                                float32, images in [0, 1], [N, channels, H, W]
    anything with ``predict_proba`` (scikit-learn, ...)  float32, images in [0, 1], one flat row per sample; of texts
                                                         the strings; where it was fitted on a frame, a pandas frame
    ONNX                                                 whichever of these its input's type and rank ask for
    a fitted ``fedol.OpenSet``                            nothing: it has answered already, with masses
What it gives: a row per sample with a number per class of the task, in its order: probabilities, or logits from
networks (``outputs`` tells them apart); of findings, a number per finding. One with ``classes_`` may know only some of
the classes, as positions or by name, and so may a model file; then the client's file says which, and has columns for
these alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedol.code import imported
from fedol.core.arrays import Array
from fedol.data.samples import Samples, samples
from fedol.errors import FedolError, InputError, cause
from fedol.federation.outputs import Outputs, knowledge_of
from fedol.knowledge import Knowledge
from fedol.knowledge.classes import on_all_classes, places
from fedol.knowledge.header import Guarantee, Ratios
from fedol.knowledge.task import Task
from fedol.methods.union import answers
from fedol.model import ServerModel, load
from fedol.models.openset import OpenSet
from fedol.progress import watched
from fedol.training import Recipe

BATCH = 512  # samples between two moves of the progress bar; as many as ``training.predict`` takes at once


def predict_knowledge(
    spec: str, public: Samples | Array, task: Task, client: str, trust_code: bool = False, outputs: Outputs = ""
) -> Knowledge:
    """One client's knowledge from its model: a file (.safetensors, .onnx, .joblib) or ``my.py:load``.

    ``outputs`` says that they are logits, or a yes or no for each class (``multilabel``), where they do not themselves.
    """
    model, shared = open_model(spec, trust_code), samples(public)
    if isinstance(model, ServerModel) and isinstance(model.module, OpenSet):
        found = _own_ratios(model, model.module, shared, task, client)
    elif all(callable(getattr(model, verb, None)) for verb in ("log_ratios", "knowledge")):
        found = _given_ratios(spec, model, shared, task, client)
    else:
        values, classes = _values(spec, model, shared, task)
        found = knowledge_of(values, task, client, classes, outputs, _gives_chances(model))
    return replace(found, privacy=promise(model) or found.privacy)


def _own_ratios(model: ServerModel, module: OpenSet, public: Samples, task: Task, client: str) -> Knowledge:
    """The answers of a model of ``fedol client fit --folds``: each fold's from the net that has not seen it."""
    known, record = model.architecture, _record(model)
    ratios = Ratios.from_json(record.get("ratios"))
    if ratios is None or record.get("public") != task.fingerprint:
        raise InputError("The model learnt what is public from other samples than this task's; train it for this task.")
    logs = answers(module, known.prepare.accept(public, known.shape), known, model.device)
    about = task, client, ratios.private, ratios.folds
    return Knowledge.from_log_ratios(logs[:, known.answers], *about, _known(model, task))


def _given_ratios(spec: str, model: Any, public: Samples, task: Task, client: str) -> Knowledge:
    """Those of a fitted ``fedol.OpenSet``, which has answered on the public samples while it was fitted."""
    try:
        found = model.knowledge(task, client)
    except FedolError:
        raise
    except Exception as error:  # other people's models
        raise InputError(f"The model '{spec}' fails on the public {public.kind}: {cause(error)}.") from error
    if not isinstance(found, Knowledge) or found.log_probs.shape != (task.rows, len(task.classes)):
        raise InputError(f"The model '{spec}' gives no knowledge of this task; fit it to the task's public samples.")
    return replace(found, task=task.ref, client=client)


def _known(model: Any, task: Task) -> Any:
    """The classes that a model's columns stand for, by name or position; None where there is one for each in order."""
    if not isinstance(model, ServerModel):
        return None if task.findings else getattr(model, "classes_", None)
    if model.findings != task.findings:
        raise InputError("The model was trained for other findings than the task's; train it for this task.")
    names = [model.classes[c] for c in model.architecture.answers]
    if not set(names) <= set(task.classes):
        raise InputError("The model was trained for other classes than the task's; train it for this task.")
    return names


def _values(spec: str, model: Any, inputs: Samples, task: Task) -> tuple[np.ndarray, list[int] | None]:
    """What a model says of samples, and the task's classes that the columns stand for, where it names them."""
    known = _known(model, task)
    try:
        values = _predict(model, inputs)
    except FedolError:
        raise
    except Exception as error:  # other people's models
        raise InputError(f"The model '{spec}' fails on the public {inputs.kind}: {cause(error)}.") from error
    found = None if known is None else places(known, task.classes, values.shape)
    expected = (len(inputs), len(task.findings or (task.classes if found is None else found)))
    rows = len(inputs) * len(task.findings), len(task.classes)  # which our own models give of findings
    if values.shape != expected and not (task.findings and values.shape == rows):
        raise InputError(
            f"The model '{spec}' gives predictions of shape {list(values.shape)}; expected {list(expected)}."
        )
    return values, found


def promise(model: Any) -> Guarantee | None:
    """What private training guaranteed: predictions are computed from the model alone, so they inherit it."""
    return Guarantee.from_json(_record(model).get("privacy"))


def recipe_of(model: Any) -> Recipe | None:
    """How a client's model was trained, where its file says so."""
    kept = _record(model).get("recipe")
    try:
        return Recipe(**kept) if kept is not None else None
    except (TypeError, InputError) as error:
        raise InputError(f"The model file says in words unknown here how it was trained ({error}).") from None


def _record(model: Any) -> dict[str, Any]:
    """What a model file of ours says about its training."""
    return model.history[-1] if isinstance(model, ServerModel) and model.history else {}


@dataclass(frozen=True)
class Asked:
    """A model of any framework, to be asked about any samples: what an audit does."""

    spec: str
    model: Any
    task: Task
    outputs: Outputs = ""

    @property
    def classes(self) -> tuple[str, ...]:
        """The task's."""
        return self.task.classes

    def predict_log_proba(self, inputs: Samples | Array) -> torch.Tensor:
        """[N, classes]."""
        values, found = _values(self.spec, self.model, samples(inputs), self.task)
        log_probs = knowledge_of(values, said=self.outputs, chances=_gives_chances(self.model)).log_probs
        return log_probs if found is None else on_all_classes(log_probs, found, len(self.classes))


def open_model(spec: str, trust_code: bool = False) -> Any:
    """The model that a spec names. A ``.joblib`` file and ``my.py:load`` run code: open only what is yours.

    A ``.safetensors`` file runs none, unless it names a class as its model and ``trust_code`` allows that.
    """
    path = Path(spec)
    named = ":" in spec and not path.exists()
    if not named and path.suffix not in READERS:
        raise InputError(f"A model is a file ({', '.join(READERS)}) or FILE.py:FUNCTION, but not '{spec}'.")
    if not named and not path.exists():
        raise InputError(f"There is no model file {path}.")
    try:
        if named:
            return imported(spec)()
        return load(path, trust_code=trust_code) if path.suffix == OURS else READERS[path.suffix](path)
    except FedolError:
        raise
    except Exception as error:  # other people's code, and a damaged file can fail anywhere inside its library
        raise InputError(f"The model '{spec}' cannot be loaded: {cause(error)}.") from error


def _joblib(path: Path) -> Any:
    import joblib

    return joblib.load(path)


@dataclass(frozen=True)
class OnnxModel:
    """A session, as a function of samples."""

    run: Callable[[Samples], np.ndarray]


def _onnx(path: Path) -> OnnxModel:
    try:
        import onnxruntime
    except ImportError:
        raise FedolError("ONNX models need ONNX Runtime: pip install 'fedol[onnx]'.") from None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    # scikit-learn's converters put the labels first: predictions are the one output with a column per class.
    outputs = [output.name for output in session.get_outputs() if len(output.shape or []) == 2]
    if not outputs:
        raise InputError(f"The model {path} has no output of shape [samples, classes].")

    def run(inputs: Samples) -> np.ndarray:
        x = inputs.array() if given.type == "tensor(uint8)" else inputs.floats()
        result: np.ndarray = session.run(outputs[:1], {given.name: x.reshape(len(x), -1) if _flat(given) else x})[0]
        return result

    return OnnxModel(run)


OURS = ".safetensors"
READERS: dict[str, Callable[[Path], Any]] = {OURS: load, ".onnx": _onnx, ".joblib": _joblib}


def _predict(model: Any, inputs: Samples) -> np.ndarray:
    parts = [inputs.take(slice(start, start + BATCH)) for start in range(0, len(inputs), BATCH)]
    return np.concatenate([_batch(model, part) for part in watched(parts, "predicting")])


def _batch(model: Any, inputs: Samples) -> np.ndarray:
    if isinstance(model, ServerModel):
        return model.predict_log_proba(inputs).numpy()[:, model.architecture.answers]
    if isinstance(model, OnnxModel):
        return model.run(inputs)
    if isinstance(model, nn.Module):
        with torch.no_grad():
            logits: np.ndarray = model.eval()(torch.from_numpy(inputs.floats())).float().cpu().numpy()
        return logits
    if _gives_chances(model):
        said = model.predict_proba(inputs.rows(named=hasattr(model, "feature_names_in_")))
        return _of_each_finding(model, said) if isinstance(said, list) else np.asarray(said)
    if callable(model):
        return np.asarray(model(inputs.array()), dtype=np.float32)
    raise InputError(f"A {type(model).__name__} is not a model: it has no predict_proba and cannot be called.")


def _gives_chances(model: Any) -> bool:
    """Whether a model answers with its ``predict_proba``, which promises probabilities."""
    ours = isinstance(model, ServerModel | OnnxModel | nn.Module)
    return not ours and hasattr(model, "predict_proba")


def _of_each_finding(model: Any, said: list[Any]) -> np.ndarray:
    """Of scikit-learn's answers on several findings, [n, 2] each, how probable each one is: [n, findings]."""
    known = [list(labels) for labels in model.classes_]  # a client may have seen no sample with a finding, or all
    columns = [
        p[:, labels.index(1)] if 1 in labels else np.zeros(len(p)) for p, labels in zip(said, known, strict=True)
    ]
    return np.stack(columns, 1)


def _flat(given: Any) -> bool:
    return len(given.shape or []) == 2
