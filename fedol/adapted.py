"""A server fitted to one site: what it says there, beside the site's own model; saved as one file, exported as one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fedol.core.adaptation import Adaptation, Labels, chosen, shift
from fedol.core.arrays import Array
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError
from fedol.files import write_tensors
from fedol.models.raw import Mixed
from fedol.text import Card

FORMAT = "adapted"  # what a file's header says


class Answering(Protocol):
    """Whatever says how likely each of the server's classes is."""

    def predict_log_proba(self, inputs: Any) -> Tensor:
        """[N, classes]."""


class Server(Answering, Protocol):
    """A server's model, as ``fedol.model`` has it."""

    architecture: Any
    history: list[dict[str, Any]]
    device: torch.device

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names."""

    def raw(self) -> nn.Module:
        """From raw values to probabilities."""

    def save(self, path: str | Path) -> None:
        """As one file."""


@dataclass(frozen=True, eq=False)
class Own:
    """A site's own model: its answers about the server's classes, and its file, which goes into the adapted one."""

    answers: Answering
    file: bytes
    suffix: str  # .safetensors, .joblib or .onnx
    raw: Callable[[], nn.Module] | None = None  # where it is one of FedOL's, in the server's classes

    @classmethod
    def of(cls, model: Server, classes: Sequence[str]) -> Own:
        """One of FedOL's."""
        if tuple(model.classes) != tuple(classes):
            raise InputError(
                "Your model has other classes than the server, or in another order; train it for the task."
            )
        return cls(model, saved(model), ".safetensors", model.raw)


@dataclass(eq=False, repr=False)
class AdaptedModel(Card):
    """The server, its adaptation to a site, and the site's own model where that has a part in it."""

    server: Server
    adaptation: Adaptation
    own: Own | None = None
    evidence: dict[str, Any] = field(default_factory=dict)  # how it did on held-out rows that did not choose it

    def facts(self) -> dict[str, Any]:
        """What it is made of."""
        given = self.adaptation
        parts = {"server": given.server, "prior": given.prior, "own": given.own}
        return {**parts, "classes": len(self.classes), **self.evidence}

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order of the predictions."""
        return self.server.classes

    @property
    def architecture(self) -> Any:
        """The server's, which says what samples it takes."""
        return self.server.architecture

    @property
    def findings(self) -> tuple[str, ...]:
        """None: what a sample may have several of is not adapted so far."""
        return ()

    def predict_log_proba(self, inputs: Samples | Array) -> Tensor:
        """Log-probabilities [N, classes] of samples."""
        own = self.own.answers.predict_log_proba(inputs).double() if self.own else None
        return self.adaptation.log_proba(self.server.predict_log_proba(inputs).double(), own)

    def predict_proba(self, inputs: Samples | Array) -> np.ndarray:
        """Probabilities [N, classes] of samples."""
        probs: np.ndarray = self.predict_log_proba(inputs).exp().numpy()
        return probs

    def predict(self, inputs: Samples | Array) -> np.ndarray:
        """The most probable class of each sample, as an index into ``classes``."""
        index: np.ndarray = self.predict_proba(inputs).argmax(1)
        return index

    def known(self, probs: Array) -> None:
        """Whether a sample is like some client's: it cannot tell from adapted predictions."""
        return

    def raw(self) -> nn.Module:
        """From raw values to probabilities, as one module."""
        if self.own is None:
            return Mixed(self.adaptation, self.server.raw(), None)
        if self.own.raw is None:
            raise FedolError(
                "The site's own model in it is none of FedOL's networks in the task's classes, and cannot be exported "
                "with it; adapt with such a network, or without --model."
            )
        return Mixed(self.adaptation, self.server.raw(), self.own.raw())

    def save(self, path: str | Path) -> None:
        """Write one safetensors file: the server's and the own model's whole, and the adaptation as plain data."""
        parts = {"server": saved(self.server), **({"own": self.own.file} if self.own else {})}
        tensors = {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in parts.items()}
        header = {
            FORMAT: self.adaptation.as_json(),
            "own": self.own.suffix if self.own else None,
            "evidence": self.evidence,
        }
        write_tensors(Path(path), tensors, header)


def saved(model: Server) -> bytes:
    """A model's file."""
    with tempfile.TemporaryDirectory() as scratch:
        model.save(Path(scratch) / "model.safetensors")
        return (Path(scratch) / "model.safetensors").read_bytes()


def no_findings(server: Any) -> None:
    """Refuse a server of findings, which are no classes with shares."""
    if server.architecture.findings:
        raise InputError(
            "A server of findings, of which a sample may have several, cannot be compared or adapted so far; one of "
            "classes can."
        )


def prior_of(server: Server) -> list[float]:
    """The classes' shares among what taught a server, as its record has them."""
    prior = server.history[-1].get("prior") if server.history else None
    if not (isinstance(prior, list) and len(prior) == len(server.classes) and np.isfinite(prior).all()):
        raise FedolError(
            "The server does not say which class prior taught it: it was made by an earlier version, or by a method "
            "that averages weights; train it again with this version."
        )
    return prior


def checked(labels: Labels, classes: Sequence[str]) -> Labels:
    """Labels on which something can be chosen."""
    found = np.asarray(labels)
    if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer) or not len(found):
        raise InputError("The labels must be whole numbers, one for each held-out sample.")
    if found.min() < 0 or found.max() >= len(classes):
        raise InputError(f"The labels must be positions among the server's {len(classes)} classes.")
    if len(np.unique(found)) == 1:
        raise InputError(
            f"All {len(found):,} held-out samples are of the class '{classes[found[0]]}', and nothing can be chosen on "
            "them; hold out samples of two classes or more."
        )
    return found.astype(np.int64)


def adapted(
    server: Server,
    inputs: Samples | Array,
    labels: Labels,
    own: Own | None = None,
    counts: Sequence[int] | None = None,
    seed: int = 0,
) -> AdaptedModel:
    """``ServerModel.adapt``."""
    no_findings(server)
    prior, truth = prior_of(server), checked(labels, server.classes)
    heard = server.predict_log_proba(inputs).double()
    if len(heard) != len(truth):
        raise InputError(f"There are {len(heard):,} samples, but {len(truth):,} labels; give one each.")
    mine = own.answers.predict_log_proba(inputs).double() if own else None
    held = np.bincount(truth, minlength=len(server.classes)) if counts is None else counts
    best = chosen(heard, truth, shift(held, prior), mine, seed)
    evidence = {"held_out": len(truth), "right": right(best.crossed, truth), "right_server": right(heard, truth)}
    evidence |= {} if mine is None else {"right_own": right(mine, truth)}
    return AdaptedModel(server, best.adaptation, own if best.adaptation.own else None, evidence)


def right(log_probs: Tensor, labels: Labels) -> int:
    """How many are."""
    return int((log_probs.argmax(1).numpy() == labels).sum())
