"""What a client sends, once: its predictions on the public set, in a file that says what it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.core.arrays import Array, blocks, check_values, exact, probabilities, to_tensor
from fedol.core.union import bounded, familiarity
from fedol.errors import InputError, cause
from fedol.files import write_atomically
from fedol.knowledge import codecs, masses, signing
from fedol.knowledge.classes import TINY, on_all_classes, places
from fedol.knowledge.container import Container, check_size, read_bounded
from fedol.knowledge.header import MOST_LISTED, Guarantee, Header, Ratios, admit
from fedol.knowledge.task import NO_TASK, Task, TaskRef
from fedol.text import MOST, Card, check_name, printable


@dataclass(frozen=True, eq=False, repr=False)
class Knowledge(Card):
    """One client's log-probabilities on the public set, float32 [samples, classes], and perhaps their masses.

    With the mass m_k(x) of ``fedol.core.union`` they are joint density ratios, r_kc = m_k p_k(c|x). A client may hold
    some of the task's classes alone; then its file says which, and has no columns for the others.

    Where samples have findings, it has a row for each finding of each sample, and no and yes are the classes
    (``fedol.data.findings``).
    """

    log_probs: Tensor
    task: TaskRef = NO_TASK  # the task it answers
    client: str = "client"
    privacy: Guarantee | None = None  # what the client promises about it
    log_mass: Tensor | None = None  # log m_k, float32 [samples]
    ratios: Ratios | None = None  # how it came to the mass
    held: tuple[int, ...] = ()  # the classes it holds, by position, where it says that it lacks some
    findings: int = 0  # of a sample; 0 where a sample is of one class

    def facts(self) -> dict[str, Any]:
        """Whose, and on how much."""
        about = {"findings": self.findings} if self.findings else {"classes": self.log_probs.shape[1]}
        return {"client": self.client, "samples": self.samples, **about, "masses": self.log_mass is not None}

    @property
    def samples(self) -> int:
        """The public samples that it is about."""
        return len(self.log_probs) // max(1, self.findings)

    def about(self, finding: int) -> Knowledge:
        """What it says of one finding, as of two classes."""
        rows = slice(finding, None, self.findings)
        log_mass = None if self.log_mass is None else self.log_mass[rows]
        return replace(self, log_probs=self.log_probs[rows], log_mass=log_mass, findings=0)

    @classmethod
    def from_probabilities(
        cls, probs: Array, task: Task | None = None, client: str = "client", classes: Any = None
    ) -> Knowledge:
        """Knowledge around any ``predict_proba``: one distribution per public sample.

        ``classes`` are those of the task that the columns stand for, by position or by name (an estimator's
        ``classes_``), where it knows only some; also in what follows. Of a task of findings, ``probs`` are those of
        each finding, [samples, findings].
        """
        if task is not None and _of_findings(probs, task, client):
            return cls.from_findings(probs, task, client)
        found = _placed(probs, task, classes)
        checked = probabilities(probs, 2, f"{client}'s probabilities").float().cpu()
        return cls._of(checked.clamp_min(TINY).log(), task, client, found)

    @classmethod
    def from_findings(cls, probs: Array, task: Task | None = None, client: str = "client") -> Knowledge:
        """Knowledge around a model of findings: the probability of each one of every public sample, [N, findings]."""
        yes = exact(to_tensor(probs, f"{client}'s probabilities")).cpu()
        check_values(yes, (yes >= 0) & (yes <= 1), f"{client}'s probabilities", "between 0 and 1, one for each finding")
        if yes.dim() != 2 or not yes.numel() or (task is not None and not _of_findings(yes, task, client)):
            raise InputError(f"{client}'s probabilities must be [samples, findings], but are {list(yes.shape)}.")
        logs = torch.stack([1 - yes, yes], -1).flatten(0, 1).float().clamp_min(TINY).log()
        return replace(cls._of(logs, task, client, None), findings=yes.shape[1])

    @classmethod
    def from_logits(
        cls, logits: Array, task: Task | None = None, client: str = "client", classes: Any = None
    ) -> Knowledge:
        """Knowledge from a network's raw outputs or from log-probabilities (softmax tells them not apart).

        Of a task of findings, a number for each, whose sigmoid is its probability: [samples, findings].
        """
        tensor = to_tensor(logits, f"{client}'s logits").float().cpu()
        if task is not None and _of_findings(tensor, task, client):
            tensor = torch.stack([torch.zeros_like(tensor), tensor], -1).flatten(0, 1)
        found = _placed(tensor, task, classes)
        if tensor.dim() != 2 or not tensor.numel():
            raise InputError(
                f"{client}'s logits must have the shape [samples, classes], but have {list(tensor.shape)}."
            )
        if not torch.isfinite(tensor).all():
            raise InputError(f"{client}'s logits hold NaN or an infinity.")
        return cls._of(_normalised(tensor).clamp_min(math.log(TINY)), task, client, found)

    @classmethod
    def from_ratios(
        cls,
        ratios: Array,
        task: Task | None = None,
        client: str = "client",
        private: int = 0,
        folds: int = 1,
        classes: Any = None,
    ) -> Knowledge:
        """Knowledge from joint density ratios of at least 0 [samples, classes] (``fedol.core.union``).

        ``private`` is the number of private samples they were learnt from, ``folds`` that of the public set's parts.
        """
        tensor = to_tensor(ratios, f"{client}'s ratios")
        check_values(tensor, torch.isfinite(tensor) & (tensor >= 0), f"{client}'s ratios", "finite and at least 0")
        return cls.from_log_ratios(exact(tensor).log(), task, client, private, folds, classes)

    @classmethod
    def from_log_ratios(
        cls,
        log_ratios: Array,
        task: Task | None = None,
        client: str = "client",
        private: int = 0,
        folds: int = 1,
        classes: Any = None,
    ) -> Knowledge:
        """The same from their logarithms; minus infinity where the client does not know a class."""
        tensor = exact(to_tensor(log_ratios, f"{client}'s log-ratios")).cpu()
        if tensor.dim() != 2 or not tensor.numel():
            raise InputError(
                f"{client}'s ratios must have the shape [samples, classes], but have {list(tensor.shape)}."
            )
        check_values(tensor, tensor < torch.inf, f"{client}'s log-ratios", "finite or minus infinity")
        mass = torch.logsumexp(tensor, 1)
        known = torch.isfinite(mass)[:, None]
        logits = torch.where(known, tensor - mass[:, None], 0.0).clamp_min(-1e4)
        predictions = cls.from_logits(logits, task, client, classes)
        return predictions.with_mass(mass, private, folds)

    def with_mass(self, log_mass: Array, private: int = 0, folds: int = 1) -> Knowledge:
        """These predictions p_k(c|x) with a mass log m_k(x) [samples]: the ratios r_kc = m_k p_k(c|x)."""
        mass = to_tensor(log_mass, f"{self.client}'s masses").cpu()
        if self.findings and mass.shape == (self.samples,):
            mass = mass.repeat_interleave(self.findings)
        if mass.shape != self.log_probs.shape[:1]:
            raise InputError(
                f"{self.client} has {len(self.log_probs)} predictions, but masses of shape {list(mass.shape)}."
            )
        if not (isinstance(private, Integral) and isinstance(folds, Integral) and private >= 0 and folds >= 1):
            raise InputError(f"A client has no {private} private samples, and no {folds} folds.")
        ratios = Ratios(int(private), int(folds))
        return replace(self, log_mass=masses.coarse(bounded(mass)), ratios=ratios)

    def without_mass(self) -> Knowledge:
        """The predictions alone."""
        return replace(self, log_mass=None, ratios=None)

    def without_classes(self) -> Knowledge:
        """The same predictions by a client that does not say which classes it holds."""
        return replace(self, held=())

    @classmethod
    def _of(cls, log_probs: Tensor, task: Task | None, client: str, found: list[int] | None) -> Knowledge:
        held: tuple[int, ...] = ()
        if task is not None and found is not None:
            if len(found) < len(task.classes):
                held = tuple(sorted(found))
            log_probs = on_all_classes(log_probs, found, len(task.classes))
        if task is not None and log_probs.shape != (task.rows, len(task.classes)):
            raise InputError(
                f"{client} predicts {list(log_probs.shape)}, but the task has {task.samples} public samples "
                f"and {len(task.classes)} classes."
            )
        findings = 0 if task is None else len(task.findings)
        return cls(log_probs, NO_TASK if task is None else task.ref, check_name(client), held=held, findings=findings)

    def probabilities(self) -> Tensor:
        """The distributions, float32 [samples, classes]."""
        return self.log_probs.softmax(1)

    def log_ratios(self) -> Tensor:
        """log r_kc, float32 [samples, classes]; an error where the client sends predictions alone."""
        if self.log_mass is None:
            raise InputError(f"{self.client} sends predictions without their mass, so it has no ratios.")
        return self.joint(self.log_mass)

    def joint(self, log_mass: Tensor) -> Tensor:
        """log of m_k p_k(c|x) [samples, classes] for any mass; minus infinity for the classes that it says it lacks."""
        logs = self.log_probs + log_mass[:, None]
        if not self.held:
            return logs
        lacking = torch.ones(logs.shape[1], dtype=torch.bool)
        lacking[list(self.held)] = False
        return logs.masked_fill(lacking, -torch.inf)

    @property
    def share(self) -> float | None:
        """n_k / n_u, what the mean of m_k is to be; the mean itself where the client does not say how many it has."""
        if self.log_mass is None or self.ratios is None:
            return None
        return self.ratios.private / self.samples or self.log_mass.double().exp().mean().item()

    @property
    def mean_mass(self) -> float | None:
        """The mean of m_k over n_k / n_u, which is one where the densities are right; None where one is not said.

        Near zero the public set is of another domain than the client's data, or lacks its classes.
        """
        if self.log_mass is None or self.ratios is None or not self.ratios.private:
            return None
        return familiarity(self.log_mass, self.ratios.private / self.samples).mean().item()

    def encode(self, codec: str = codecs.DEFAULT, key: Path | None = None) -> bytes:
        """The file's bytes, signed with the private key in the file ``key`` where it is given."""
        if self.log_probs.shape[1] < 2:
            raise InputError("Knowledge needs at least two classes.")
        samples, classes = self.log_probs.shape
        header = Header(
            self.task, samples, classes, self.client, codec, privacy=self.privacy, ratios=self.ratios,
            held=self.held if len(self.held) <= MOST_LISTED else (), findings=self.findings,
        )  # fmt: skip
        columns = self.log_probs[:, list(header.held)] if header.held else self.log_probs
        body = codecs.pack(header.packing, columns, self.log_mass)
        if key is not None:
            header = replace(header, signature=signing.sign(key, header.message(body)))
        return Container(header.as_json(), body).pack()

    def save(self, path: str | Path, codec: str = codecs.DEFAULT, key: Path | None = None) -> int:
        """Write the file and return its size: the bytes that this client uploads."""
        data = self.encode(codec, key)
        write_atomically(Path(path), data)
        return len(data)

    @classmethod
    def decode(cls, data: bytes, task: Task | None = None, most: int | None = None) -> tuple[Knowledge, Header]:
        """Read a file's bytes; every check that needs no predictions comes before they are unpacked.

        Where there is no task, at most ``most`` values are unpacked, or as many as the file's size makes likely.
        The error is half a sentence, because the caller alone knows which file it is about; what it quotes of the file
        is printable and bounded.
        """
        header, logits, log_mass = _unpacked(data, task, most)
        log_probs = _normalised(logits)
        if header.held:
            log_probs = on_all_classes(log_probs, header.held, header.classes)
        about = header.task, header.client, header.privacy
        return cls(log_probs, *about, log_mass, header.ratios, header.held, header.findings), header

    @staticmethod
    def examine(data: bytes, task: Task) -> Header:
        """What a file says of itself, once all that ``decode`` refuses has been looked for."""
        return _unpacked(data, task, None)[0]

    @classmethod
    def read(cls, path: Path) -> tuple[Knowledge, Header]:
        """A file of whatever task, with all that it says."""
        try:
            return cls.decode(read_bounded(path))
        except InputError as error:
            raise InputError(f"{path} is no knowledge file that can be read: {error}.", Path(path)) from None

    @classmethod
    def load(cls, path: str | Path, task: Task | None = None) -> Knowledge:
        """Read a file and check that it is one, and that ``task`` admits it."""
        try:
            return cls.decode(read_bounded(Path(path), task.limit if task else None), task)[0]
        except InputError as error:
            raise InputError(f"{path} is refused: {error}.", Path(path)) from None


def _unpacked(data: bytes, task: Task | None, most: int | None) -> tuple[Header, Tensor, Tensor | None]:
    """A file's header, logits and masses; all that is wrong with it is found here."""
    if task is not None:
        check_size(data, task.limit)
    container = Container.unpack(data)
    try:
        header = Header.from_json(container.header)
        codec = admit(header, container.body, task, most)
    except InputError as error:  # a whole sentence where a name or a codec is none
        raise InputError(printable(cause(error), MOST)) from None
    has_masses = header.ratios is not None
    return header, *codecs.unpack(codec, container.body, header.samples, header.columns, has_masses)


def _of_findings(values: Array, task: Task, client: str) -> bool:
    """Whether these have a column for each finding of the task; what has a row for each is ours."""
    shape = tuple(np.shape(values))
    if not task.findings or shape == (task.rows, len(task.classes)):
        return False
    if shape != (task.samples, len(task.findings)):
        raise InputError(
            f"{client} predicts {list(shape)}, but the task has {task.samples} public samples and "
            f"{len(task.findings)} findings."
        )
    return True


def _placed(columns: Array, task: Task | None, classes: Any) -> list[int] | None:
    """Where the columns belong among the task's classes; None where there is one for each."""
    if classes is None:
        return None
    if task is None:
        raise InputError("classes can only be placed among those of a task; give the task, too.")
    return places(classes, task.classes, np.shape(columns))


def _normalised(logits: Tensor) -> Tensor:
    """Log-probabilities, rounded last: in float32 the sum, and so every value, would depend on the classes' order."""
    log_probs = torch.empty_like(logits, dtype=torch.float32, memory_format=torch.contiguous_format)
    for rows in blocks(*logits.shape):
        log_probs[rows] = torch.log_softmax(logits[rows].double(), 1)
    return log_probs
