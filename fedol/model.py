"""The trained server model: predicts on raw images, saves to one file and loads back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedol.core.arrays import Array, to_tensor
from fedol.errors import FedolError, InputError, measures
from fedol.files import intact, read_tensors, write_tensors
from fedol.models import ModelSpec, address, create, describe
from fedol.models.registry import is_code
from fedol.models.trust import trusted
from fedol.text import is_text, printable
from fedol.training import Normalisation, predict

LONGEST = 1000  # characters of a model's name


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build a model again before its weights are loaded."""

    model: ModelSpec
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    width: int
    normalise: Normalisation

    def build(self, seed: int = 0) -> nn.Module:
        """A freshly initialised module."""
        return create(self.model, classes=len(self.classes), shape=self.shape, width=self.width, seed=seed)

    def header(self) -> dict[str, Any]:
        """As plain JSON values; a class of yours becomes its importable name."""
        return {
            "model": address(self.model),
            "classes": list(self.classes),
            "shape": list(self.shape),
            "width": self.width,
            "mean": list(self.normalise.mean),
            "std": list(self.normalise.std),
        }

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Architecture:
        """What ``header`` gave, or an ``InputError`` that says what makes no sense: it may be a stranger's."""
        model, classes, shape, width = (header[key] for key in ("model", "classes", "shape", "width"))
        mean, std = header["mean"], header["std"]
        if not _text(model) or len(model) > LONGEST:
            raise InputError("it names no model")
        if not (isinstance(classes, list) and classes and all(map(_text, classes))):
            raise InputError("its classes are no list of names")
        if not (isinstance(shape, list) and len(shape) == 3 and all(map(_count, [*shape, width]))):
            raise InputError("the shape of its images or its width makes no sense")
        for scale in (mean, std):
            if not (isinstance(scale, list) and len(scale) == shape[0] and all(map(_finite, scale))):
                raise InputError("the mean or the deviation of its pixels makes no sense")
        if min(std) <= 0:
            raise InputError("the deviation of its pixels is not above 0")
        normalise = Normalisation(tuple(map(float, mean)), tuple(map(float, std)))
        return cls(model, tuple(classes), (shape[0], shape[1], shape[2]), width, normalise)


@dataclass(eq=False)
class ServerModel:
    """One model that has learnt what the clients know."""

    module: nn.Module
    architecture: Architecture
    history: list[dict[str, Any]] = field(default_factory=list)  # a record per iteration; a client's: its recipe
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order of the predictions."""
        return self.architecture.classes

    def predict_log_proba(self, images: Array) -> Tensor:
        """Log-probabilities [N, classes] of uint8 images [N, channels, H, W]."""
        pixels, shape = to_tensor(images, "images"), self.architecture.shape
        if pixels.dtype != torch.uint8:
            what = str(pixels.dtype).removeprefix("torch.")
            raise InputError(f"The model takes images as uint8, 0 to 255, but these are {what}; convert them.")
        if tuple(pixels.shape[1:]) != shape:
            given = measures(pixels.shape[1:]) or "no images"
            raise InputError(f"The model takes images of {measures(shape)}, but these are {given}; convert them.")
        return predict(self.module, pixels, self.architecture.normalise, self.device)

    def predict_proba(self, images: Array) -> np.ndarray:
        """Probabilities [N, classes] of uint8 images [N, channels, H, W]."""
        probs: np.ndarray = self.predict_log_proba(images).exp().numpy()
        return probs

    def predict(self, images: Array) -> np.ndarray:
        """The most probable class of each image, as an index into ``classes``."""
        index: np.ndarray = self.predict_proba(images).argmax(1)
        return index

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
    path = Path(run)
    path = path / "model.safetensors" if path.is_dir() else path
    if not path.exists():
        raise FedolError(f"There is no trained model at {path}; is the run finished?", path)
    with intact(path, "give a FedOL model file, or make it again"):
        weights, header = read_tensors(path)
        architecture = Architecture.from_header(header["architecture"])
        history = [dict(record) for record in header["history"]]
    spec = trusted(str(architecture.model), str(path), trust_code) if model is None else model
    architecture = replace(architecture, model=spec)
    return ServerModel(_filled(architecture, weights, path), architecture, history)


def _filled(architecture: Architecture, weights: dict[str, Tensor], path: Path) -> nn.Module:
    """The model with these weights, in evaluation mode.

    One of FedOL's takes no memory before it is known to fit: a header can claim any width, a file must hold it.
    """
    ours = isinstance(architecture.model, str) and not is_code(architecture.model)
    with torch.device("meta") if ours else nullcontext():
        module = architecture.build()
    wanted = module.state_dict()
    for name in sorted(wanted.keys() | weights.keys()):
        needs, holds = (_kind(tensors.get(name)) for tensors in (wanted, weights))
        if needs != holds:
            model, which = describe(architecture.model), printable(name, 80)
            raise FedolError(
                f"The weights in {path} do not fit {model}: '{which}' should be {needs}, but is {holds}.", path
            )
    module = module.to_empty(device="cpu") if ours else module
    module.load_state_dict(weights)
    return module.eval()


def _kind(tensor: Tensor | None) -> str:
    if tensor is None:
        return "absent"
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _text(value: Any) -> bool:
    return isinstance(value, str) and is_text(value)


def _count(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 31


def _finite(value: Any) -> bool:
    """Whether it is a number that float32 can hold; NaN is smaller than nothing."""
    return type(value) in (int, float) and abs(value) < 1e38
