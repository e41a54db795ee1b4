"""A promise about privacy in numbers: what a knowledge file's header says, where its client makes one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fedol.errors import InputError
from fedol.text import MOST, printable

TRAINING_EXAMPLE = (
    "adding or removing any one training example: it bounds what the model, and therefore these predictions, "
    "reveal about whether it was there"
)
PUBLIC_LABEL = (
    "the reported class of each public image by itself (randomised response); not the training data, and over "
    "many images the guarantees add up"
)


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy, and with respect to what. It is the client's own word: nobody else can check it."""

    epsilon: float
    delta: float
    covers: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 <= self.delta < 1):
            raise InputError(f"epsilon must be positive and delta in [0, 1), but are {self.epsilon} and {self.delta}.")

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.3g}, δ = {self.delta:.3g}; it covers {printable(self.covers)}."

    @classmethod
    def from_json(cls, values: Any) -> Guarantee | None:
        """From what a stranger's header says; None where it says nothing."""
        if values is None:
            return None
        good = isinstance(values, dict) and set(values) == {"epsilon", "delta", "covers"}
        if not good or not all(type(values[key]) in (int, float) for key in ("epsilon", "delta")):
            raise InputError("its header promises privacy in a way that cannot be read")
        if type(values["covers"]) is not str or len(values["covers"]) > MOST:
            raise InputError("its header promises privacy in a way that cannot be read")
        try:
            return cls(float(values["epsilon"]), float(values["delta"]), values["covers"])
        except (InputError, OverflowError):
            raise InputError("its header promises privacy with numbers that make no sense") from None
