"""What a model is before it has weights: everything that is needed to build it again, as plain values in a header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedol.data.findings import ANSWERS
from fedol.data.samples import Preprocessing, Samples, Shape, preprocessing_of
from fedol.errors import InputError
from fedol.features import Features, preparing
from fedol.models import ModelSpec, address, create
from fedol.models.findings import Findings
from fedol.models.fitted import Copies, fitted_in
from fedol.models.held import Held, sound
from fedol.models.openset import OpenSet, sensible
from fedol.seeding import derive
from fedol.text import is_text

LONGEST = 1000  # characters of a model's name


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build a model again before its weights are loaded."""

    model: ModelSpec
    classes: tuple[str, ...]
    shape: Shape  # of one sample as the model takes it
    width: int
    prepare: Preprocessing
    folds: int = 0  # of a client that also knows what is public: a net for each, with one more class
    held: tuple[int, ...] = ()  # the classes that a client holds, where it lacks some: it has outputs for these alone
    findings: tuple[
        str, ...
    ] = ()  # where a sample may have several: an output for each, and no and yes are the classes

    @classmethod
    def on(
        cls,
        inputs: Samples,
        model: ModelSpec,
        classes: Sequence[str],
        width: int,
        prepare: Preprocessing | None = None,
        findings: Sequence[str] = (),
    ) -> Architecture:
        """A model for these samples, and for their like; prepared as suits them unless something else is said."""
        prepare = preparing(model, inputs, prepare or inputs.fit(inputs))
        return cls(model, tuple(classes), prepare.prepared(inputs.shape), width, prepare, findings=tuple(findings))

    def holding(self, labels: npt.NDArray[np.int64]) -> Architecture:
        """The same for a client with these labels: for the classes among them alone."""
        held = np.unique(labels).tolist()
        return replace(self, held=() if len(held) == len(self.classes) else tuple(held))

    @property
    def answers(self) -> list[int]:
        """The classes that it has outputs for, by their positions."""
        return list(self.held or range(len(self.classes)))

    def own(self, targets: Tensor) -> Tensor:
        """Soft targets [N, classes] without what they say of classes that it has no outputs for."""
        return torch.zeros_like(targets).index_copy(1, torch.tensor(self.answers), targets[:, self.answers])

    def build(self, seed: int = 0) -> nn.Module:
        """A freshly initialised module: logits of all classes."""
        if not self.folds:
            return self._net(0, seed)
        return OpenSet([self._net(1, derive(seed, "fold", k)) for k in range(self.folds)])

    def _net(self, more: int, seed: int) -> nn.Module:
        """One net, with so many outputs more than classes, or findings."""
        if self.findings:
            every = len(self.findings) + more
            made = partial(create, self.model, shape=self.shape, width=self.width)
            several = made(classes=every, seed=seed)
            if fitted_in(several) is None:
                return Findings(several)
            seeds = [derive(seed, "finding", finding) for finding in range(every)]
            return Copies([made(classes=len(ANSWERS), seed=each) for each in seeds])
        outputs, classes = len(self.answers) + more, len(self.classes) + more
        net = create(self.model, classes=outputs, shape=self.shape, width=self.width, seed=seed)
        return Held(net, [*self.answers, *range(len(self.classes), classes)], classes) if self.held else net

    def header(self) -> dict[str, Any]:
        """As plain JSON values; your own class becomes its importable name."""
        return {
            "model": address(self.model),
            "classes": list(self.classes),
            "shape": list(self.shape),
            "width": self.width,
            **({"folds": self.folds} if self.folds else {}),
            **({"held": list(self.held)} if self.held else {}),
            **({"findings": list(self.findings)} if self.findings else {}),
            **self.prepare.header(),
        }

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Architecture:
        """What ``header`` gave, or an ``InputError`` that says what makes no sense: it may be a stranger's."""
        model, classes, shape, width = (header[key] for key in ("model", "classes", "shape", "width"))
        if not _text(model) or len(model) > LONGEST:
            raise InputError("it names no model")
        if not (isinstance(classes, list) and classes and all(map(_text, classes))):
            raise InputError("its classes are not a list of names")
        if not (isinstance(shape, list) and shape and all(map(_count, [*shape, width]))):
            raise InputError("the shape of its samples or its width makes no sense")
        folds = header.get("folds", 0)
        if type(folds) is not int or not (folds == 0 or sensible(folds)):
            raise InputError("the number of its folds makes no sense")
        held = header.get("held", [])
        if not (held == [] or (isinstance(held, list) and sound(held, len(classes)))):
            raise InputError("the classes that it holds make no sense")
        findings = header.get("findings", [])
        if not (isinstance(findings, list) and all(map(_text, findings)) and (not findings or len(classes) == 2)):
            raise InputError("its findings are not a list of names")
        prepare = (Features.from_header if "features" in header else preprocessing_of)(header, tuple(shape))
        return cls(model, tuple(classes), tuple(shape), width, prepare, folds, tuple(held), tuple(findings))


def _text(value: Any) -> bool:
    return isinstance(value, str) and is_text(value)


def _count(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 31
