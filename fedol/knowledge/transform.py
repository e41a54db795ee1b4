"""Predictions as a point of a lattice: what a sender chooses, so that as little as possible is lost for its bits.

1. A metric: the harm of an error e in a row's log-probabilities is e'Ge, G = softmax(0.4 log p) + a floor + curvatures
   of the Kullback-Leibler divergence (3/2 · (diag p − pp')) and of the entropy, by which Algorithm 1 votes.
2. Axes: the principal ones of the rows, scaled by the mean of diag G.
3. Numbers: not the nearest ones. A search keeps, row by row, those that make harm + price · bits small, the best at
   hand under which the likeliest class stays the likeliest.
4. The mean: such that every class keeps its mean probability, by which Algorithm 1 divides (C²), and masses theirs.

A reader needs none of this (``fedol.knowledge.point``), so it may improve. Its constants were set on the predictions of
``benchmarks/codecs.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedol.knowledge import rans
from fedol.knowledge.point import EXPONENTS, GRAIN, MOST_AXES, Floats, Point, basis
from fedol.knowledge.rans import LARGEST, Integers

CLIP = 60.0  # nats below the largest, as far as a pool of log-probabilities looks
SOFT, FLOOR, FISHER, ENTROPY, MASS = 0.4, 3e-4, 1.5, 4.0, 1.0  # the metric
PRICE = 0.04  # of 1.4 bits, in squared steps
KEEP = 0.5  # an axis along which rows differ by fewer steps is left out
WIDE = 16  # how many numbers of a row the search follows
CHUNK = 100  # rows that are searched at a time: what stays in a processor's cache
BALANCE = 8  # corrections of the mean


class Metric(NamedTuple):
    """e'Ge = Σ diag·e² − (minus·e)² + Σ (plus·e)² for each row [N, W]."""

    diag: Floats
    minus: Floats
    plus: list[Floats]

    def rows(self, part: slice) -> Metric:
        """Some rows' metric."""
        return Metric(self.diag[part], self.minus[part], [each[part] for each in self.plus])

    def under(self, basis: Floats) -> npt.NDArray[Any]:
        """B G B' of every row [N, r, r]."""
        found: npt.NDArray[Any] = (basis * self.diag[:, None, :]) @ basis.T
        for sign, vector in ((-1.0, self.minus), *((1.0, plus) for plus in self.plus)):
            side: npt.NDArray[Any] = vector @ basis.T
            found += sign * side[:, :, None] * side[:, None, :]
        return np.asarray(found)

    def times(self, x: Floats) -> npt.NDArray[Any]:
        """G x of every row [N, W]."""
        found: npt.NDArray[Any] = self.diag * x - (self.minus * x).sum(1, keepdims=True) * self.minus
        for plus in self.plus:
            found += (plus * x).sum(1, keepdims=True) * plus
        return found


def place(log_probs: Floats, log_mass: Floats | None, step: float, most: int = MOST_AXES) -> Point:
    """The point of a lattice, of ``most`` axes, for log-probabilities [N, C] and, if there are some, log-masses [N]."""
    log_probs = _normalised(np.maximum(log_probs, log_probs.max(1, keepdims=True) - CLIP))
    middle = log_probs.mean(1, keepdims=True)
    z = log_probs - middle
    if log_mass is not None:
        z = np.concatenate([z, middle + log_mass[:, None]], 1)
    mean, metric = z.mean(0), _metric(log_probs, log_mass is not None)
    z -= mean
    exponent, b, sigma = _axes(z, metric, step, min(most, MOST_AXES))
    axes = basis(b, exponent)
    q = _search(z, axes, metric, PRICE * step**2 / sigma**2, mean[: log_probs.shape[1]])
    mean = _balanced(mean, q @ axes, log_probs, log_mass)
    return Point(np.clip(np.round(mean * GRAIN), -(1 << 15), (1 << 15) - 1).astype(np.int64), exponent, b, q)


def _normalised(logits: Floats) -> Floats:
    return logits - log_sum(logits)[:, None]


def _metric(log_probs: Floats, masses: bool) -> Metric:
    """A mass is off by p·e_z + e_u, the errors of what is beside it and its own."""
    p, soft = np.exp(log_probs), np.exp(SOFT * log_probs)
    entropy = np.maximum(-(p * log_probs).sum(1, keepdims=True), 1e-9)
    diag = soft / soft.sum(1, keepdims=True) + FLOOR + FISHER * p
    minus, plus = FISHER**0.5 * p, [ENTROPY**0.5 * p * (log_probs + entropy) / entropy]
    if masses:
        none, one = np.zeros((len(p), 1)), np.ones((len(p), 1))
        diag, minus = (np.concatenate([each, none], 1) for each in (diag, minus))
        plus = [np.concatenate([plus[0], none], 1), MASS**0.5 * np.concatenate([p, one], 1)]
    return Metric(diag, minus, plus)


def _axes(z: Floats, metric: Metric, step: float, most: int) -> tuple[Integers, Integers, Floats]:
    """Exponents and whole numbers of the basis, as fine as coefficients on it are large, and how large these are."""
    weight = np.sqrt((metric.diag + sum(plus**2 for plus in metric.plus[1:])).mean(0))
    x = z * weight
    variance, axes = np.linalg.eigh(x.T @ x / len(x))
    r = min(int((variance > (step * KEEP) ** 2).sum()), *z.shape, most)
    axes = axes[:, ::-1][:, :r]
    first = np.clip(np.round(x @ axes / step), -LARGEST, LARGEST).astype(np.int64)
    size = np.sqrt((first**2).mean(0) + 0.05)
    rows = (axes * step / weight[:, None]).T
    fine = np.floor(np.log2(size * 4 / step)) + 1
    most = np.floor(np.log2(LARGEST / np.abs(rows).max(1, initial=1e-9)))
    exponent = np.clip(np.minimum(fine, most), 0, EXPONENTS - 1).astype(np.int64)
    b = np.clip(np.round(rows * 2.0 ** exponent[:, None]), -LARGEST, LARGEST).astype(np.int64)
    return exponent, b, np.array([rans.sigma(rans.cheapest(column)) for column in first.T])


def _search(z: Floats, axes: Floats, metric: Metric, price: Floats, mean: Floats) -> Integers:
    """Whole q [N, r] with a small (z − qB)'G(z − qB) + Σ price·q², and the likeliest class of z where one is found.

    Under a Gaussian the bits of a number are its square, so both are one quadratic form (q − y)'M(q − y) of each row. A
    beam follows its Cholesky factor, the last axis first.
    """
    q = np.zeros((len(z), r := len(axes)), np.int64)
    classes = len(mean)
    for start in range(0, len(z) if r else 0, CHUNK):
        part = slice(start, start + CHUNK)
        some = metric.rows(part)
        inner = some.under(axes)
        inner[:, np.arange(r), np.arange(r)] = inner[:, np.arange(r), np.arange(r)] * (1 + 1e-9) + price
        wanted = np.linalg.solve(inner, (some.times(z[part]) @ axes.T)[:, :, None])[:, :, 0]
        near = _nearest(wanted, np.linalg.cholesky(inner))
        top = (z[part, :classes] + mean).argmax(1)
        turned = (near[:, 0] @ axes[:, :classes] + mean).argmax(1) != top
        kept = (near[turned] @ axes[:, :classes] + mean).argmax(2) == top[turned, None]
        q[part] = near[:, 0]
        q[part][turned] = near[turned, kept.argmax(1)]
    return q


def _nearest(wanted: npt.NDArray[Any], factor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers near those wanted [n, candidates, r], the nearest first: the distance is |L'(q − wanted)|²."""
    n, r = wanted.shape
    off, cost = np.zeros((n, 1, r)), np.zeros((n, 1))  # wanted − q and what it costs, for each of a row's candidates
    for j in range(r - 1, -1, -1):
        scale = factor[:, j, j, None]
        centre = wanted[:, j, None] + (off[:, :, j + 1 :] @ factor[:, j + 1 :, j, None])[:, :, 0] / scale
        near = np.clip(np.round(centre), 1 - LARGEST, LARGEST - 1)[:, :, None] + np.array([-1, 0, 1])
        costs = (cost[:, :, None] + (scale[:, :, None] * (near - centre[:, :, None])) ** 2).reshape(n, -1)
        best = np.argpartition(costs, min(WIDE, costs.shape[1]) - 1, 1)[:, :WIDE]
        cost = np.take_along_axis(costs, best, 1)
        off = np.take_along_axis(off, (best // 3)[:, :, None], 1)
        off[:, :, j] = wanted[:, j, None] - np.take_along_axis(near.reshape(n, -1), best, 1)
    order = np.argsort(cost, 1, kind="stable")
    return np.round(wanted[:, None] - np.take_along_axis(off, order[:, :, None], 1))


def _balanced(mean: Floats, places: Floats, log_probs: Floats, log_mass: Floats | None) -> Floats:
    """The mean with which decoded probabilities, and masses, are on average what they were."""
    classes = log_probs.shape[1]
    before, mean = np.exp(log_probs).mean(0), mean.copy()
    for _ in range(BALANCE):
        after = np.exp(_normalised(places[:, :classes] + mean[:classes])).mean(0)
        mean[:classes] += np.clip(np.log(before / np.maximum(after, 1e-300)), -1, 1)
    mean[:classes] -= mean[:classes].mean()
    if log_mass is not None:
        decoded = places[:, classes] + log_sum(places[:, :classes] + mean[:classes])
        mean[classes] = log_sum(log_mass) - log_sum(decoded)
    return mean


def log_sum(values: Floats) -> Floats:
    """log Σ e^x along the last axis."""
    top = values.max(-1, keepdims=True)
    total: Floats = np.log(np.exp(values - top).sum(-1)) + top[..., 0]
    return total
