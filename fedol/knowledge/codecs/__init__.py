"""How predictions become bytes. A codec's name says everything a reader needs to undo it.

    float32  float16          log-probabilities as they are
    q7c60                     7-bit quantised log-probabilities, clipped 60 nats below the runner-up
    top10                     the 10 largest probabilities, and the mean of the others
    ...+zstd                  any of these, compressed

``DEFAULT`` and ``SMALL`` were chosen by measurement: ``benchmarks/results/codecs.json``.
"""

from __future__ import annotations

import re
from typing import Protocol

from torch import Tensor

from fedol.errors import InputError
from fedol.knowledge.codecs.floats import Floats, TopK
from fedol.knowledge.codecs.quantised import Quantised
from fedol.knowledge.codecs.zstd import Zstd
from fedol.settings import CODEC

__all__ = ["DEFAULT", "SMALL", "Codec", "Floats", "Quantised", "TopK", "Zstd", "find"]

DEFAULT = CODEC
SMALL = "q2c20+zstd"
_NAME = re.compile(
    r"(?:float(?P<float>16|32)|q(?P<bits>[2-8])c(?P<clip>[1-9]\d?)|top(?P<k>[1-9]\d{0,4}))(?P<z>\+zstd)?"
)


class Codec(Protocol):
    """Log-probabilities [samples, classes] to bytes and back."""

    @property
    def name(self) -> str:
        """What ``find`` knows it by."""

    def size(self, samples: int, classes: int) -> int:
        """Bytes before compression: known in advance, so that a reader allocates nothing on a stranger's word."""

    def encode(self, log_probs: Tensor) -> bytes:
        """To bytes."""

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """From bytes; an ``InputError`` says what is wrong with them. Rows need not be normalised."""


def find(name: str) -> Codec:
    """The codec of this name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(
            f"There is no codec '{name[:40]}'; use float32, float16, q7c60 (bits, clip in nats) or top10, "
            "each with or without '+zstd'."
        )
    inner: Codec
    if match["float"]:
        inner = Floats(int(match["float"]))
    elif match["bits"]:
        inner = Quantised(int(match["bits"]), int(match["clip"]))
    else:
        inner = TopK(int(match["k"]))
    return Zstd(inner) if match["z"] else inner
