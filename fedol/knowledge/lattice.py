"""The codec that says how much may be lost, and sends the fewest bytes for it.

A body is ``u8 form | u16 loss in 10^-5 nats``, and then a lattice's point (form 0: ``fedol.knowledge.point``) or, where
that is smaller and loses no more, what one of ``OTHERS`` makes of the predictions, its masses first.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedol.core.arrays import blocks
from fedol.core.voting import entropy_rank, with_entropy
from fedol.errors import InputError
from fedol.knowledge import masses
from fedol.knowledge.plain import Floats, Plain, Quantised, TopK, Zstd
from fedol.knowledge.point import Point
from fedol.knowledge.rans import LARGEST
from fedol.knowledge.transform import log_sum, place

# Part of the format: their positions are in files.
OTHERS: tuple[Plain, ...] = (
    TopK(1),
    Quantised(2, 20),
    Quantised(3, 20),
    Quantised(4, 20),
    Quantised(5, 60),
    Quantised(7, 60),
    Floats(16),
    TopK(5),
)
HEAD = struct.Struct("<BH")
UNIT = 1e-5  # nats, of the loss that a body says, and as good as none
FARTHEST = 1e4  # nats; the reader's bound on whatever a stranger writes
STEP, AT = 0.6, 0.02  # the coarsest grid at a loss of 0.02 nats: beyond, the tails that a pool looks at suffer first
ALIKE = 50  # of so many rows one may be heard that was not
TURNED = 100  # of so many clear rows one may be of another class
CLEAR = 0.05  # between the probabilities of the two likeliest classes, and more
SAMPLE = 1000  # rows on which a finer step is sought
TRIES, FINER = 12, 0.7  # steps that are tried, the next one where rows have become alike
MORE = 1.3  # what is tried may be so much larger on some of the rows
AXES = 16  # to a byte: one takes half a bit of each row at least
WEIGHT = 0.05  # of a log mass's squared error beside nats: ½ λ(1 − λ), the share λ of one client in ten


class Harm(NamedTuple):
    """What a file does to predictions: the nats that are lost, and whether a vote would still hear as much.

    Algorithm 1 hears a model on its surest samples and on all that tie with the last of them: a client that says nearly
    the same everywhere would be heard on half of the samples instead of a tenth; and one that knows few answers, on a
    tenth instead of half. And a class that was clearly the likeliest is to stay it: 0.02 nats may turn 55 % into 45.
    ``rows`` is 0 where as few rows change as may, and else how many times as many do.
    """

    nats: float
    rows: int

    def within(self, nats: float) -> bool:
        """Whether no more than this is lost, and no rows too many."""
        return self.nats <= nats and not self.rows

    def beyond(self, nats: float) -> tuple[float, int]:
        """To compare files by: the nats that count, and then the rows."""
        return max(self.nats, nats), self.rows


@dataclass(frozen=True)
class Lattice:
    """``loss`` thousandths of a nat: the most that the mean Kullback-Leibler divergence of predictions may be."""

    loss: int

    @property
    def name(self) -> str:
        """For instance ``lattice20``."""
        return f"lattice{self.loss}"

    def encode(self, log_probs: Tensor, log_mass: Tensor | None = None) -> bytes:
        """The smallest body that loses no more than this codec may."""
        some, beside = log_probs[_some(log_probs)], b"" if log_mass is None else masses.pack(log_mass)
        tried = [(_lost(other, some), len(Zstd(other).encode(some)) / len(some)) for other in OTHERS]
        room = min((size for harm, size in tried if harm.within(self._most)), default=tried[-1][1])
        point, harm = self._point(log_probs, log_mass, MORE * (room + len(beside) / len(log_probs)))
        bodies = [(harm, HEAD.pack(0, _noted(harm.nats)) + point.pack())]
        good, most = harm.within(self._most), MORE * len(bodies[0][1])
        no_more = max(harm.nats if good else self._most, UNIT)
        for form, (before, size) in enumerate(tried, 1):
            if good and (before.nats > 2 * no_more or size * len(log_probs) > most):
                continue
            lost = _lost(OTHERS[form - 1], log_probs)
            if lost.within(no_more) or not good:
                body = beside + Zstd(OTHERS[form - 1]).encode(log_probs)
                bodies.append((lost, HEAD.pack(form, _noted(lost.nats)) + body))
        return min(bodies, key=lambda found: (found[0].beyond(no_more), len(found[1])))[1]

    def decode(self, data: bytes, samples: int, classes: int, has_masses: bool = False) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities, whose rows need not be normalised, and log-masses where there are some."""
        form, _ = _head(data)
        rest, mass = data[HEAD.size :], None
        if form:
            if has_masses:
                mass, rest = masses.unpack(rest, samples)
            return Zstd(OTHERS[form - 1]).decode(rest, samples, classes), mass
        point = Point.unpack(rest, samples, classes + has_masses)
        log_probs, log_mass = np.empty((samples, classes), np.float32), np.empty(samples)
        for rows in blocks(samples, classes):
            values = point.values(rows).clip(-FARTHEST, FARTHEST)
            log_probs[rows] = values[:, :classes]
            if has_masses:
                log_mass[rows] = values[:, classes] + log_sum(values[:, :classes])
        return torch.from_numpy(log_probs), masses.coarse(torch.from_numpy(log_mass)) if has_masses else None

    @property
    def _most(self) -> float:
        return self.loss / 1000

    def _point(self, log_probs: Tensor, log_mass: Tensor | None, room: float) -> tuple[Point, Harm]:
        """As coarse as may be; the step is sought on some of the rows, while these take less than ``room`` bytes each.

        Trees say almost the same of many samples, and no grid that a file holds tells all of these apart. Then the one
        that changes the fewest rows, of those that lose no more than they may.
        """
        logs = log_probs.double().numpy()
        mass = None if log_mass is None else log_mass.double().numpy()
        step = coarsest = STEP * (self._most / AT) ** 0.5
        for part, least in ((_some(logs), 0.85 * self._most), (slice(None), 0.0)):
            asked = logs[part], None if mass is None else mass[part]
            best = None
            for _ in range(TRIES):
                point = place(*asked, step, math.ceil(AXES * room))
                harm = _harm_of(*asked, point)
                if best is not None and harm.rows and np.abs(point.q).max(initial=0) == LARGEST:
                    break  # numbers of a finer grid cannot be coded
                worth = harm.beyond(self._most)
                if best is None or worth <= best[0]:
                    best = worth, step, point, harm
                if not harm.within(self._most) and len(point.pack()) > room * len(asked[0]):
                    break  # another codec takes less
                if harm.rows:
                    step = coarsest = FINER * step
                    continue
                if least <= harm.nats <= self._most or (harm.nats < least and step == coarsest):
                    break
                step = min(coarsest, step * min(max((0.93 * self._most / max(harm.nats, UNIT)) ** 0.5, 0.3), 2.0))
            assert best is not None
            _, step, point, harm = best
            coarsest = max(step, coarsest)
        return point, harm


def divergence(log_probs: Tensor, decoded: Tensor) -> float:
    """The mean of KL(p, decoded) over all rows, in nats."""
    logs = log_probs.double()
    return float((logs.exp() * (logs - torch.log_softmax(decoded.double(), 1))).sum(1).mean())


def _lost(codec: Plain, log_probs: Tensor) -> Harm:
    return harmed(log_probs, codec.decode(codec.encode(log_probs), *log_probs.shape))


def harmed(log_probs: Tensor, decoded: Tensor) -> Harm:
    """What was done to log-probabilities [N, C] that are read as these."""
    top = log_probs.topk(2, 1)
    clear = top.values.exp().diff(dim=1)[:, 0] < -CLEAR
    turned = int((decoded.argmax(1) != top.indices[:, 0])[clear].sum())
    misheard = int((heard(decoded) - heard(log_probs)).abs().max())
    few = 2 + int(clear.sum()) // TURNED, 2 + len(clear) // ALIKE
    return Harm(divergence(log_probs, decoded), turned // (few[0] + 1) + misheard // (few[1] + 1))


def heard(logits: Tensor) -> Tensor:
    """On how many samples Algorithm 1 hears this model where it is to be 1, 2, ... of them."""
    return torch.bincount(entropy_rank(with_entropy(logits)[1]), minlength=len(logits)).cumsum(0)


def _some(rows: Tensor | np.ndarray) -> slice:
    """``SAMPLE`` of them, about, all over."""
    return slice(None, None, -(-len(rows) // SAMPLE))


def _harm_of(logs: np.ndarray, mass: np.ndarray | None, point: Point) -> Harm:
    values = point.values()
    z = values[:, : logs.shape[1]]
    harm = harmed(torch.from_numpy(logs), torch.from_numpy(z))
    if mass is None:
        return harm
    return harm._replace(nats=harm.nats + WEIGHT * float(((values[:, -1] + log_sum(z) - mass) ** 2).mean()))


def described(data: bytes) -> dict[str, float | str]:
    """What a body says of itself: how it is packed, and what was lost, in nats."""
    form, loss = _head(data)
    return {"packed": Zstd(OTHERS[form - 1]).name if form else "lattice", "loss": loss * UNIT}


def _noted(loss: float) -> int:
    return round(min(max(loss / UNIT, 0), (1 << 16) - 1))


def _head(data: bytes) -> tuple[int, int]:
    if len(data) < HEAD.size:
        raise InputError("its body ends before it begins")
    form, loss = HEAD.unpack_from(data)
    if form > len(OTHERS):
        raise InputError("its body has a form that there is not")
    return form, loss
