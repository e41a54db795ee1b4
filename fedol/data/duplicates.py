"""Which private samples are among the public ones, exactly or nearly: on these a client's file answers.

A sample is a near duplicate of a public one where it is ten times nearer, in squared distance, than a sample of either
side usually is to the next of its side (``NEARER``). What near means is the kind's to say (``Samples.likenesses``):
rows of numbers are scaled per column, by one scale for both sides and again by each side's own, so that rounding and
other units are seen through; images are compared without brightness and contrast, at every small shift. Private
samples pass once, in blocks; the public ones are held as short vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.data.likeness import Likeness
from fedol.data.samples import Samples, check_alike
from fedol.progress import watched

NEARER = 0.1  # of the usual squared distance: by measurement (benchmarks/duplicates.py)
COARSE = 0.75  # of the usual distance at a coarse look: what is farther is not looked at closely
BLOCK = 1024  # private samples that are compared at a time
ASKED = 1000  # public samples that the usual distance is estimated from
CLOSEST = 4  # public samples that are looked at closely for each private one


@dataclass(frozen=True)
class Duplicates:
    """What was found. A pair is the position of a private sample and that of a public one."""

    private: int
    public: int
    exact: list[tuple[int, int]]
    near: list[tuple[int, int]]  # beyond the exact ones
    usual: float  # the share of public samples that have a near duplicate among the public ones themselves
    nearest: npt.NDArray[np.int64] = field(repr=False)  # for each private sample the public one most like it

    @property
    def count(self) -> int:
        """Private samples that the file answers on, or on something nearly the same."""
        return len(self.exact) + len(self.near)

    def as_json(self, named: int = 20) -> dict[str, Any]:
        """Plain values, with the first few pairs."""
        pairs = {"exact_pairs": self.exact[:named], "near_pairs": self.near[:named]}
        counts = {"private": self.private, "public": self.public, "exact": len(self.exact), "near": len(self.near)}
        return {**counts, "usual_share": round(self.usual, 6), **pairs}


def duplicates(private: Samples, public: Samples) -> Duplicates:
    """The private samples that are among the public ones, exactly or nearly."""
    check_alike(private, public, f"Your {private.kind}")
    same = _exact(private, public)
    found = np.zeros(len(private), np.int64)
    ratio = np.full(len(private), np.inf)
    usual = 0.0
    for likeness in private.likenesses(public):
        search = _Search(likeness, public)
        search.also_of(private)
        usual = max(usual, search.own_duplicates)
        starts = range(0, len(private), BLOCK)
        for start in watched(starts, "comparing with the public samples"):
            part = slice(start, start + BLOCK)
            distance, place = search.nearest(private.take(part))
            nearer = distance < ratio[part]
            found[part] = np.where(nearer, place, found[part])
            ratio[part] = np.minimum(distance, ratio[part])
    found[list(same)] = list(same.values())
    near = [(int(k), int(found[k])) for k in np.flatnonzero(ratio <= NEARER) if int(k) not in same]
    return Duplicates(len(private), len(public), sorted(same.items()), near, usual, found)


class _Search:
    """The samples of one side, to be asked which of them is nearest, in units of the usual squared distance."""

    def __init__(self, likeness: Likeness, samples: Samples, public: bool = True) -> None:
        self._likeness, self._samples, self._public = likeness, samples, public
        starts = range(0, len(samples), BLOCK)
        parts = [likeness.vectors(samples.take(slice(start, start + BLOCK)), public) for start in starts]
        self._vectors = torch.cat(parts)
        self._norms = self._vectors.square().sum(1)
        self.coarse = self.usual = 1.0
        self.own_duplicates = 0.0
        if len(samples) > 1:
            self._calibrate(_spread(len(samples), ASKED))

    def _calibrate(self, asked: npt.NDArray[np.int64]) -> None:
        """The usual distances from one of these samples to the next."""
        coarse, fine = list[Tensor](), list[Tensor]()
        for start in range(0, len(asked), BLOCK):
            own = torch.from_numpy(asked[start : start + BLOCK])
            samples = self._samples.take(own.numpy())
            distance, place = self._candidates(self._likeness.vectors(samples, self._public), own)
            coarse.append(distance[:, 0])
            fine.append(self._fine(samples, place, self._public).min(1).values)
        self.coarse, self.usual = _typical(torch.cat(coarse)), _typical(torch.cat(fine))
        self.own_duplicates = (torch.cat(fine) <= NEARER * self.usual).double().mean().item()

    def also_of(self, private: Samples) -> None:
        """Take the private samples' usual distances where they are smaller: one side may be spread out far wider."""
        some = private.take(_spread(len(private), len(self._samples)))
        other = _Search(self._likeness, some, public=False)
        self.coarse, self.usual = min(self.coarse, other.coarse), min(self.usual, other.usual)

    def nearest(self, samples: Samples) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """For each sample the distance to the nearest public one, in units of the usual one, and which that is."""
        coarse, place = self._candidates(self._likeness.vectors(samples, False))
        distance, best = coarse[:, 0] / self.coarse, place[:, 0].clone()
        # What is hardly nearer than usual at a coarse look is no near duplicate; that saves most of the work.
        close = torch.nonzero(distance <= COARSE).flatten()
        distance = distance.clamp_min(2 * NEARER)
        if len(close):
            fine, which = self._fine(samples.take(close.numpy()), place[close], False).min(1)
            distance[close] = fine / self.usual
            best[close] = place[close, which]
        return distance.double().numpy(), best.numpy()

    def _candidates(self, vectors: Tensor, own: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The few nearest by their vectors: squared distances and positions; without themselves."""
        squared = vectors.square().sum(1)[:, None] + self._norms - 2 * vectors @ self._vectors.T
        if own is not None:
            squared[torch.arange(len(own)), own] = torch.inf
        few = min(CLOSEST, len(self._samples) - (own is not None))
        found = squared.topk(few, 1, largest=False)
        return found.values.clamp_min(0), found.indices

    def _fine(self, samples: Samples, place: Tensor, public: bool) -> Tensor:
        """Squared distances of samples of either side to each of their candidates."""
        sides = public, self._public
        columns = [self._likeness.distance(samples, self._samples.take(one.numpy()), sides) for one in place.T]
        return torch.stack(columns, 1)


def _spread(count: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many positions, evenly over all."""
    return np.linspace(0, count - 1, min(most, count)).astype(np.int64)


def _typical(distances: Tensor) -> float:
    """The median; of those above zero where it is zero."""
    middle = distances.median().item()
    if middle <= 0:
        above = distances[distances > 0]
        middle = above.median().item() if len(above) else 1.0
    return middle


def _exact(private: Samples, public: Samples) -> dict[int, int]:
    """Private samples whose values are those of a public one, and which that is."""
    places: dict[bytes, int] = {}
    for place, row in enumerate(_rows(public)):
        places.setdefault(row, place)
    return {k: places[row] for k, row in enumerate(_rows(private)) if row in places}


def _rows(samples: Samples) -> Iterator[bytes]:
    """Each sample's values as bytes, the same on both sides whatever the type of number is."""
    for start in range(0, len(samples), BLOCK):
        values = samples.take(slice(start, start + BLOCK)).array()
        if values.dtype.kind in "biuf" and values.dtype != np.uint8:
            values = values.astype(np.float64) + 0.0  # one zero, not two
        for row in values.reshape(len(values), -1):
            yield repr(row.tolist()).encode() if values.dtype.hasobject else np.ascontiguousarray(row).tobytes()
