"""What a task says about summing in secret (docs/secret-sum.md): the two helpers, and how a client rounds its part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedol.errors import InputError
from fedol.knowledge import signing
from fedol.text import check_name

LEAST = 3  # clients in a sum: of two, each can subtract itself and is left with the other
WIDTHS = (16, 24, 32)  # bits of a value on the wire, in whole bytes
BITS, CAP = 24, 64.0  # by measurement: benchmarks/results/secret_sum.json


@dataclass(frozen=True)
class Terms:
    """How a task's answers are summed without anybody seeing a single client's; part of the task's id."""

    helpers: Mapping[str, str]  # name -> its two public keys in one: Ed25519 to sign with, X25519 to seal to
    bits: int = BITS  # sums are modulo 2 to this
    cap: float = CAP  # no public sample counts for more than this much mass m_k(x) at one client
    least: int = LEAST  # clients in a sum, and in whatever two sums differ by
    epsilon: float = 0.0  # of each sum, with respect to one client's whole part; 0: no noise
    delta: float = 0.0
    norm: float = 0.0  # with noise: what a client's ratios, as one vector, are shortened to
    noise: float = 0.0  # with noise: the standard deviation that each client adds to each of its ratios

    def __post_init__(self) -> None:
        if len(self.helpers) != 2:
            raise InputError(f"A sum in secret needs two helpers, but {len(self.helpers)} are given; give A.pub,B.pub.")
        for name, key in self.helpers.items():
            check_name(name)
            check_helper_key(key)
        first, second = self.helpers.values()
        if first[:64] == second[:64] or first[64:] == second[64:]:
            raise InputError("Both helpers have the same key, so one of them would open every part; ask for another.")
        if self.bits not in WIDTHS:
            raise InputError(f"--bits must be one of {', '.join(map(str, WIDTHS))}, but is {self.bits}.")
        if not (math.isfinite(self.cap) and self.cap > 0):
            raise InputError(f"--cap must be a positive number, but is {self.cap}.")
        if self.least < LEAST:
            raise InputError(f"--least must be at least {LEAST}, but is {self.least}: of two, each knows the other.")
        private = (self.epsilon, self.delta, self.norm, self.noise)
        if any(private) and not (all(0 < value < math.inf for value in private) and self.delta < 1):
            raise InputError("A task's noise needs a positive epsilon, delta (below 1), norm and standard deviation.")

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "helpers": dict(self.helpers)}

    @classmethod
    def from_json(cls, values: Any) -> Terms | None:
        """From a ``task.json``; None where nothing is summed in secret."""
        return None if values is None else cls(**values)


def check_helper_key(key: str) -> str:
    """A helper's public key as it is, or an error."""
    if len(key) != 128 or not all(digit in "0123456789abcdef" for digit in key):
        raise InputError(
            f"'{key[:80]}' is no helper's public key: that is 128 hexadecimal digits, as "
            "'fedol keys new FILE --helper' writes them."
        )
    signing.check_public_key(key[:64])
    signing.check_sealing_key(key[64:])
    return key
