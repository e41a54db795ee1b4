"""How predictions become bytes. A codec's name says everything a reader needs to undo it.

    lattice20                 a point of a lattice, 0.020 nats from the predictions on average, or what is smaller
    float32  float16          log-probabilities as they are
    q7c60                     7-bit quantised log-probabilities, clipped 60 nats below the runner-up
    top10                     the 10 largest probabilities, and the mean of the others
    ...+zstd                  any of the last three, compressed

``DEFAULT`` and ``SMALL`` were chosen by measurement: ``benchmarks/results/codecs.json``. Masses, where a client sends
them, are part of a lattice; the other codecs have them first, two bytes a sample.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from fedol.errors import InputError
from fedol.knowledge import masses
from fedol.knowledge.lattice import Lattice, described
from fedol.knowledge.plain import Floats, Plain, Quantised, TopK, Zstd
from fedol.settings import CODEC

DEFAULT = CODEC
SMALL = "q2c20+zstd"
_NAME = re.compile(
    r"lattice(?P<loss>[1-9]\d{0,2})"
    r"|(?:float(?P<float>16|32)|q(?P<bits>[2-8])c(?P<clip>[1-9]\d?)|top(?P<k>[1-9]\d{0,4}))(?P<z>\+zstd)?"
)
Codec = Lattice | Plain


def find(name: str) -> Codec:
    """The codec of this name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(
            f"There is no codec '{name[:40]}'; use lattice20 (thousandths of a nat), or float32, float16, q7c60 (bits, "
            "clip in nats) or top10, each with or without '+zstd'."
        )
    if match["loss"]:
        return Lattice(int(match["loss"]))
    inner: Plain
    if match["float"]:
        inner = Floats(int(match["float"]))
    elif match["bits"]:
        inner = Quantised(int(match["bits"]), int(match["clip"]))
    else:
        inner = TopK(int(match["k"]))
    return Zstd(inner) if match["z"] else inner


@dataclass(frozen=True)
class Certain:
    """What a client of one class predicts, in whatever codec: nothing has to be said."""

    name: str

    def __post_init__(self) -> None:
        find(self.name)  # which it would use for more

    def size(self, samples: int, classes: int) -> int:
        """None."""
        return 0

    def encode(self, log_probs: Tensor) -> bytes:
        """Nothing."""
        return b""

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """Log-probabilities of one."""
        return torch.zeros(samples, classes)


def size(codec: Codec, samples: int, classes: int, has_masses: bool) -> int | None:
    """Bytes of a body; None where they depend on what is in it."""
    if isinstance(codec, Lattice | Zstd):
        return None
    return codec.size(samples, classes) + (masses.MASS_BYTES * samples if has_masses else 0)


def pack(codec: Codec, log_probs: Tensor, log_mass: Tensor | None = None) -> bytes:
    """Predictions [samples, classes], and perhaps log-masses [samples], as the body of a file."""
    if isinstance(codec, Lattice):
        return codec.encode(log_probs, log_mass)
    return (b"" if log_mass is None else masses.pack(log_mass)) + codec.encode(log_probs)


def unpack(
    codec: Codec, body: bytes, samples: int, classes: int, has_masses: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The reverse; rows need not be normalised, and an ``InputError`` says what is wrong."""
    if isinstance(codec, Lattice):
        return codec.decode(body, samples, classes, has_masses)
    log_mass = None
    if has_masses:
        log_mass, body = masses.unpack(body, samples)
    return codec.decode(body, samples, classes), log_mass


def notes(codec: Codec, body: bytes) -> dict[str, float | str]:
    """What a body says beyond its codec's name: how it is packed, and the nats that its sender says were lost."""
    return described(body) if isinstance(codec, Lattice) else {}
