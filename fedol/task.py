"""What all parties agree on before anyone trains: the public images, in their order, and the classes, in theirs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedol.data import fingerprint
from fedol.errors import InputError


@dataclass(frozen=True)
class Task:
    """A federation's common ground. Its id changes with any image, class name, or their order."""

    classes: tuple[str, ...]
    samples: int
    fingerprint: str  # of the public images: content and order

    @classmethod
    def of(cls, public: np.ndarray, classes: Sequence[str]) -> Task:
        """The task of these public images (uint8 [N, channels, H, W]) and class names."""
        if len(set(classes)) != len(classes) or not classes:
            raise InputError("The class names of a task must be distinct, and there must be at least one.")
        return cls(tuple(classes), len(public), fingerprint(public))

    @property
    def id(self) -> str:
        """A short name for the agreement itself."""
        words = json.dumps([self.classes, self.samples, self.fingerprint])
        return hashlib.sha256(words.encode()).hexdigest()[:16]
