"""What a frozen pretrained network says of samples, as their preprocessing: a head is then a small model of features.

A head trains on kept features in seconds; as a saved or exported model it takes the same raw samples as any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from fedol.core.arrays import Array
from fedol.data.images import Normalisation
from fedol.data.samples import Batches, Preprocessing, Samples, Shape, preprocessing_of
from fedol.data.texts import TfIdf
from fedol.errors import FedolError, InputError
from fedol.features.fast import runner
from fedol.features.store import cached, store
from fedol.models import ModelSpec
from fedol.models.bodies import Body
from fedol.models.pretrained import Pretrained, Resized, body_of

AT_ONCE = 32  # samples that go through the network together
FITTED = 4096  # public samples, evenly spaced, that features are standardised by
MOST_FEATURES = 1 << 16


@dataclass(frozen=True)
class Features(Preprocessing):
    """A frozen encoder, then a mean of 0 and a deviation of 1 per feature."""

    encoder: str  # as ``Pretrained`` names it
    weights: str  # their fingerprint: with others, features mean something else
    inner: Preprocessing  # of the raw samples
    raw: Shape  # of one of them
    mean: tuple[float, ...] = field(default=(), repr=False)
    std: tuple[float, ...] = field(default=(), repr=False)

    @classmethod
    def fitted(cls, encoder: str, inputs: Samples, inner: Preprocessing) -> Features:
        """Standardised by these samples, which should be public."""
        body = body_of(encoder)
        found = cls(encoder, body.weights, suited(body, encoder, inputs, inner), inputs.shape)
        few = inputs.take(np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), FITTED)).astype(int)))
        rows = found.rows(few).double()
        std = rows.std(0, correction=0)
        std = torch.where(std > 0, std, 1.0)
        scale = (tuple(part.float().tolist()) for part in (rows.mean(0), std))
        return cls(found.encoder, found.weights, found.inner, found.raw, *scale)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Of the raw samples."""
        return self.inner.kind

    def __call__(self, batch: Tensor) -> Tensor:
        """Raw values -> standardised features, computed anew."""
        found: Tensor = self.graph().to(batch.device)(batch)
        return found

    def graph(self) -> nn.Module:
        """All of it as one module, from raw values to standardised features."""
        body = self._body()
        if body.tokens:
            raise FedolError(
                f"The encoder '{self.encoder}' reads strings, and neither tensors nor ONNX hold any; load the model "
                "with fedol.load."
            )
        return FromRaw(self, Resized(body)).eval()

    def rows(self, given: Samples) -> Tensor:
        """The features of samples, float16 [N, features], as they are kept."""
        about = json.dumps([self.encoder, self.weights, self.inner.header(), self.raw])
        folder = cached() / "features" / hashlib.sha256(about.encode()).hexdigest()[:16]
        return store(folder).features(given, self._encode)

    @torch.no_grad()
    def _encode(self, given: Samples) -> Tensor:
        body = self._body()
        parts = [slice(start, start + AT_ONCE) for start in range(0, len(given), AT_ONCE)]
        if body.tokens is not None:
            texts: list[str] = given.array().tolist()
            found = [body.module(body.tokens(texts[part])) for part in parts]
        else:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            run = runner(self.encoder, len(given), device)
            found = [run(values) for values in self.inner.stream(given, parts, device)]
        return torch.cat(found).half()

    def _body(self) -> Body:
        body = body_of(self.encoder)
        if body.weights != self.weights:
            raise FedolError(
                f"The weights of '{self.encoder}' are not those that this model was trained with; get the same version."
            )
        return body

    def stream(self, given: Samples, parts: Sequence[slice], device: torch.device) -> Iterator[Tensor]:
        """Of kept features."""
        rows, standardise = self.rows(given), Standardised(self, device)
        return (standardise(rows[part].to(device)) for part in parts)

    def batches(self, given: Samples, device: torch.device) -> Batches:
        """The features on the device: nothing else is needed to train."""
        return Kept(self.rows(given).to(device), Standardised(self, device))

    @property
    def image_size(self) -> int | None:
        """What image files are made before they are the encoder's."""
        return getattr(self.inner, "image_size", None)

    def ready(self, given: Samples) -> None:
        """Compute what is not kept yet."""
        self.rows(given)

    def prepared(self, shape: Shape) -> Shape:
        """As many values as features."""
        return (len(self.mean),)

    def blank(self, shape: Shape) -> Tensor:
        """Two raw samples."""
        return self.inner.blank(self.inner.prepared(self.raw))

    def shown(self, shape: Shape) -> Shape:
        """That of a raw sample, where it has one: texts are of any length."""
        return () if isinstance(self.inner, TfIdf) else self.raw

    def accept(self, values: Samples | Array, shape: Shape) -> Samples:
        """Raw samples of the kind and shape that the encoder was given."""
        return self.inner.accept(values, self.inner.prepared(self.raw))

    def header(self) -> dict[str, Any]:
        """The encoder's name is the model's."""
        about = {"weights": self.weights, "raw": self.raw, "inner": self.inner.prepared(self.raw)}
        tables = {**about, "mean": self.mean, "std": self.std}
        return {**self.inner.header(), "features": {name: _plain(value) for name, value in tables.items()}}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Self:
        """What ``header`` gave, under the name of the model."""
        known, about = Pretrained.parse(header["model"]), header["features"]
        if known is None or not isinstance(about, dict):
            raise InputError("it names no encoder")
        raw, within, mean, std = (about[name] for name in ("raw", "inner", "mean", "std"))
        for each in (raw, within):
            if not (
                isinstance(each, list) and each and all(type(side) is int and 0 <= side < 1 << 31 for side in each)
            ):
                raise InputError("the shape of its raw samples makes no sense")
        for scale in (mean, std):
            if not isinstance(scale, list) or shape != (len(scale),) or len(scale) > MOST_FEATURES:
                raise InputError("it does not standardise as many features as it has")
            if not all(type(value) in (int, float) and abs(value) < 1e38 for value in scale):
                raise InputError("the mean or the deviation of its features makes no sense")
        if min(std) <= 0:
            raise InputError("the deviation of its features is not above 0")
        inner = preprocessing_of({key: header[key] for key in header.keys() - {"features"}}, tuple(within))
        return cls(known.encoder, str(about["weights"]), inner, tuple(raw), tuple(mean), tuple(std))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class Standardised(nn.Module):
    """Kept features, each less its mean and over its deviation."""

    mean: Tensor
    std: Tensor

    def __init__(self, features: Features, device: torch.device | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(features.mean, device=device))
        self.register_buffer("std", torch.tensor(features.std, device=device))

    def forward(self, rows: Tensor) -> Tensor:
        """float32."""
        found: Tensor = (rows.float() - self.mean) / self.std
        return found


class Kept(Batches):
    """Features on a device: a batch by index."""

    def __init__(self, rows: Tensor, standardise: Standardised) -> None:
        self._rows, self._standardise = rows, standardise

    def __call__(self, index: Tensor, view: Tensor | None, patch: Tensor | None = None, mix: bool = False) -> Tensor:
        """The features of these samples."""
        found: Tensor = self._standardise(self._rows[index])
        return found


class FromRaw(nn.Module):
    """Raw images to standardised features, rounded as kept ones are."""

    def __init__(self, features: Features, body: nn.Module) -> None:
        super().__init__()
        self.inner, self.body, self.standardise = features.inner, body, Standardised(features)

    def forward(self, raw: Tensor) -> Tensor:
        """float32 [n, features]."""
        found: Tensor = self.standardise(self.body(self.inner(raw)).half())
        return found


def suited(body: Body, encoder: str, inputs: Samples, inner: Preprocessing) -> Preprocessing:
    """The normalisation that a network was made for; images of 16 bits keep that of the public ones."""
    if body.tokens:
        if inputs.kind != "texts":
            raise InputError(f"The encoder '{encoder}' reads texts, but the samples are {inputs.kind}; choose another.")
        return TfIdf((), ())  # of which the encoder takes nothing: it reads the strings
    if not isinstance(inner, Normalisation):
        raise InputError(f"The encoder '{encoder}' takes images, but the samples are {inputs.kind}; choose another.")
    if inputs.detail:
        return inner
    if inputs.shape[0] == len(body.mean):
        return Normalisation(body.mean, body.std, inner.levels, inner.image_size)
    grey = (sum(body.mean) / len(body.mean),), (sum(body.std) / len(body.std),)
    return Normalisation(*grey, inner.levels, inner.image_size)


def preparing(model: ModelSpec, inputs: Samples, inner: Preprocessing) -> Preprocessing:
    """How samples become what a model takes, where ``inner`` is what suits them: a pretrained one brings its own."""
    known = Pretrained.parse(model)
    if known is None:
        return inner
    if known.tuned:
        return suited(body_of(known.encoder), known.encoder, inputs, inner)
    return Features.fitted(known.encoder, inputs, inner)
