"""The trained server model: predicts on raw images, saves to one file and loads back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedol.arrays import Array, to_tensor
from fedol.errors import FedolError, InputError, cause, measures
from fedol.files import intact, read_tensors, write_tensors
from fedol.models import ModelSpec, address, create, describe
from fedol.training import Normalisation, predict


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
    def from_header(cls, header: dict[str, Any], model: ModelSpec | None = None) -> Architecture:
        """What ``header`` gave; ``model`` replaces a name that cannot be imported here."""
        channels, height, width = header["shape"]
        normalise = Normalisation(tuple(map(float, header["mean"])), tuple(map(float, header["std"])))
        if not all(type(number) is int for number in (channels, height, width, header["width"])):
            raise InputError("its shape and width are not whole numbers")
        if not len(normalise.mean) == len(normalise.std) == channels:
            raise InputError("it does not have one mean and one deviation per channel")
        spec = header["model"] if model is None else model
        return cls(spec, tuple(header["classes"]), (channels, height, width), header["width"], normalise)


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


def load(run: str | Path, model: ModelSpec | None = None) -> ServerModel:
    """The trained server model of a run folder, or of one model file, ready to predict.

    ``model`` is only needed where the run used a class of yours that cannot be imported by name here.
    """
    path = Path(run)
    path = path / "model.safetensors" if path.is_dir() else path
    if not path.exists():
        raise FedolError(f"There is no trained model at {path}; is the run finished?")
    with intact(path, "give a FedOL model file, or make it again"):
        weights, header = read_tensors(path)
        architecture = Architecture.from_header(header["architecture"], model)
        history = [dict(record) for record in header["history"]]
    module = architecture.build()
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise FedolError(f"The weights in {path} do not fit {describe(architecture.model)}: {cause(error)}.") from None
    return ServerModel(module.eval(), architecture, history)
