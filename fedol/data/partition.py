"""Partitions: which private sample goes to which client.

Each partition is a table of counts, samples per class and client; the samples of a class are shuffled and cut by it.
So every sample is used exactly once, and a class without samples is simply a row of zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.errors import InputError, unknown
from fedol.seeding import numpy_generator

Counts = npt.NDArray[np.int64]
DRAWS = 1000  # Dirichlet partitions tried before giving up on the minimum size
ACCEPTED = ("dirichlet:0.05", "classes:20", "iid")


def partition(
    labels: npt.NDArray[np.integer[Any]], spec: str, clients: int, seed: int, classes: int, min_size: int = 10
) -> list[npt.NDArray[np.int64]]:
    """Deal the samples to ``clients``; each gets the sorted positions of its samples, at least ``min_size`` of them.

    ``dirichlet:ALPHA``  each class is divided by proportions drawn from Dir(ALPHA), whole partitions redrawn until
                         every client has ``min_size``; NIID-Bench's extra cap on a client's size is left out,
                         because it changes the distribution the paper names
    ``classes:I``        each client is assigned exactly I classes, each class has nearly the same number of holders
                         and is divided evenly among them
    ``iid``              a random even division
    """
    kind, value = parse(spec)
    spec = canonical(spec)
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"The labels to partition must be a list of integers, not {labels.dtype} {labels.shape}.")
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        raise InputError(f"The labels to partition go from {labels.min()} to {labels.max()}, not 0 to {classes - 1}.")
    if clients < 1 or min_size < 1:
        raise InputError(f"A partition needs at least 1 client of at least 1 sample, not {clients} of {min_size}.")
    if len(labels) < clients * min_size:
        raise InputError(
            f"{len(labels):,} private samples are too few for {clients:,} clients with at least {min_size} each; "
            "use fewer clients or fewer public samples."
        )
    rng = numpy_generator(seed, "partition", spec)
    if kind == "iid":
        labels = np.zeros_like(labels)  # one class that all clients share evenly
        return _deal(labels, _even(np.bincount(labels), np.ones((1, clients), dtype=bool), rng), rng)
    sizes = np.bincount(labels, minlength=classes)
    if kind == "dirichlet":
        return _deal(labels, _dirichlet(sizes, value, clients, min_size, rng), rng)
    counts = _even(sizes, _holders(int(value), clients, classes, rng).T, rng)
    smallest = int(counts.sum(axis=0).min())
    if smallest < min_size:
        raise InputError(
            f"{spec} leaves a client with {smallest} samples (minimum {min_size}); "
            "use more classes per client or fewer clients."
        )
    return _deal(labels, counts, rng)


def parse(spec: str) -> tuple[str, float]:
    """The kind and value of a specification, for instance ``("dirichlet", 0.05)``; ("iid", 0) has none."""
    kind, colon, text = spec.partition(":")
    if spec == "iid":
        return kind, 0.0
    if kind == "dirichlet" and colon:
        try:
            alpha = float(text)
        except ValueError:
            alpha = math.nan
        if 0 < alpha < math.inf:
            return kind, alpha
        raise InputError(f"The alpha of '{spec}' must be a number above 0, as in 'dirichlet:0.05'.")
    if kind == "classes" and colon:
        if text.isdecimal() and int(text) > 0:
            return kind, int(text)
        raise InputError(f"The classes per client of '{spec}' must be a whole number above 0, as in 'classes:20'.")
    raise unknown("partition", spec, [f"dirichlet:{text}", f"classes:{text}", "iid"] if text else ACCEPTED)


def canonical(spec: str) -> str:
    """One spelling for one partition: ``dirichlet:1.0`` is ``dirichlet:1``, and deals the same."""
    kind, value = parse(spec)
    return kind if kind == "iid" else f"{kind}:{value:.15g}"


def _dirichlet(sizes: Counts, alpha: float, clients: int, min_size: int, rng: np.random.Generator) -> Counts:
    """Counts [classes, clients] by Dirichlet proportions, redrawn until every client has ``min_size`` samples."""
    best = 0
    for _ in range(DRAWS):
        shares = np.cumsum(rng.dirichlet(np.full(clients, alpha), size=len(sizes)), axis=1)
        # Rounded, not floored: flooring would leave the last client one stray sample of nearly every class.
        cuts = np.rint(np.clip(np.nan_to_num(shares), 0, 1) * sizes[:, None]).astype(np.int64)
        cuts[:, -1] = sizes  # whatever the rounding of the sum
        counts: Counts = np.diff(cuts, axis=1, prepend=np.int64(0))
        smallest = int(counts.sum(axis=0).min())
        if smallest >= min_size:
            return counts
        best = max(best, smallest)
    raise InputError(
        f"dirichlet:{alpha:g} left a client with {best} samples or fewer (minimum {min_size}) in each of {DRAWS} "
        "draws; use a larger alpha or fewer clients."
    )


def _holders(each: int, clients: int, classes: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Who holds which class, bool [clients, classes]: rows sum to ``each``, columns differ by at most one.

    Every client takes the ``each`` classes that have the fewest holders so far. That keeps holder counts within one
    of each other: if enough classes have the smaller count, some of them rise to the larger; if not, all of them do
    and some of the larger rise by one more. Then pairs of clients shuffle the classes they do not share
    ("curveball" trades), which leaves all sums as they are and makes the assignment random.
    """
    if each > classes:
        raise InputError(f"classes:{each} asks for more than the {classes} classes there are; use classes:{classes}.")
    if clients * each < classes:
        raise InputError(
            f"{clients} clients with {each} classes each cannot hold all {classes} classes; "
            f"use at least classes:{-(-classes // clients)} or {-(-classes // each)} clients."
        )
    held = np.zeros((clients, classes), dtype=bool)
    for row in held:
        row[np.lexsort((rng.random(classes), held.sum(axis=0)))[:each]] = True
    for _ in range(5 * clients if clients > 1 else 0):
        pair = rng.choice(clients, size=2, replace=False)
        differ = rng.permutation(np.flatnonzero(held[pair[0]] ^ held[pair[1]]))
        held[pair[0], differ], held[pair[1], differ] = np.arange(len(differ)) % 2 == 0, np.arange(len(differ)) % 2 == 1
    return held


def _even(sizes: Counts, held: npt.NDArray[np.bool_], rng: np.random.Generator) -> Counts:
    """Counts [classes, clients]: each class divided among its holders, the remainder to random ones."""
    counts = np.zeros(held.shape, dtype=np.int64)
    for row, size, mine in zip(counts, sizes, held, strict=True):
        owners = rng.permutation(np.flatnonzero(mine))
        row[owners] = size // len(owners) + (np.arange(len(owners)) < size % len(owners))
    return counts


def _deal(
    labels: npt.NDArray[np.integer[Any]], counts: Counts, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Hand out shuffled samples so that each client gets its count of each class."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # by class, shuffled within
    owner = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts.ravel())
    return [np.sort(order[owner == client]).astype(np.int64) for client in range(counts.shape[1])]
