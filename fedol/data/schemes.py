"""FedOL's own partitions: a class each.

Three of them are tables of counts, samples per class and client: the samples of a class are shuffled and cut by it. A
class without samples is simply a row of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.partitions import Integers, Partition, Pool, register
from fedol.errors import InputError

DRAWS = 1000  # Dirichlet partitions tried before giving up on the minimum size


@register
@dataclass(frozen=True)
class Iid(Partition):
    """``iid``: a random division into shares whose sizes differ by at most one."""

    name = "iid"

    def owners(self, pool: Pool, rng: np.random.Generator) -> Integers:
        """Deal all samples as if of one class that all clients share evenly."""
        alike = np.zeros_like(pool.labels)
        return _deal(alike, _even(np.bincount(alike), np.ones((1, pool.clients), dtype=bool), rng), rng)


@register
@dataclass(frozen=True)
class Dirichlet(Partition):
    """``dirichlet:ALPHA``: each class is divided by proportions drawn from Dir(ALPHA, ..., ALPHA).

    The smaller alpha, the fewer classes a client mostly holds. The whole partition is redrawn until every client has
    the minimum size. NIID-Bench also caps a client's size; that is left out, because the paper names plain Dirichlet.
    """

    name = "dirichlet"
    example = "0.05"
    alpha: float

    def owners(self, pool: Pool, rng: np.random.Generator) -> Integers:
        """Round the drawn proportions to counts per class and client, and deal by them."""
        sizes, best = np.bincount(pool.labels, minlength=pool.classes), 0
        for _ in range(DRAWS):
            shares = np.cumsum(rng.dirichlet(np.full(pool.clients, self.alpha), size=len(sizes)), axis=1)
            # Rounded, not floored: flooring would leave the last client one stray sample of nearly every class.
            cuts = np.rint(np.clip(np.nan_to_num(shares), 0, 1) * sizes[:, None]).astype(np.int64)
            cuts[:, -1] = sizes  # whatever the rounding of the sum
            counts: Integers = np.diff(cuts, axis=1, prepend=np.int64(0))
            smallest = int(counts.sum(axis=0).min())
            if smallest >= pool.least:
                return _deal(pool.labels, counts, rng)
            best = max(best, smallest)
        raise InputError(
            f"dirichlet:{self.alpha:g} left a client with {best} samples or fewer (minimum {pool.least}) in each of "
            f"{DRAWS} draws; use a larger alpha or fewer clients."
        )


@register
@dataclass(frozen=True)
class ClassesPerClient(Partition):
    """``classes:I``: each client is assigned exactly I classes, and a class is divided evenly among its holders.

    The numbers of holders of two classes differ by at most one.
    """

    name = "classes"
    example = "20"
    advice = "use more classes per client or fewer clients"
    classes_per_client: int

    def owners(self, pool: Pool, rng: np.random.Generator) -> Integers:
        """Draw who holds which class, and deal each class to its holders."""
        sizes = np.bincount(pool.labels, minlength=pool.classes)
        held = _holders(self.classes_per_client, pool.clients, pool.classes, rng)
        return _deal(pool.labels, _even(sizes, held.T, rng), rng)


@register
@dataclass(frozen=True)
class Sites(Partition):
    """``sites``: each client is a site of the data and holds the samples of that site, as real hospitals would.

    The site of each sample comes with the data, as ``groups``; client k is the k-th of the sorted sites. Nothing is
    drawn, so only the choice of the public samples depends on the seed.
    """

    name = "sites"

    def owners(self, pool: Pool, rng: np.random.Generator) -> Integers:
        """Number the sites."""
        if pool.groups is None:
            raise InputError(
                "The partition 'sites' needs the site of every training sample; save it as the array 'groups' in the "
                ".npz file, or use Dataset.from_arrays(..., groups=...)."
            )
        names, owners, sizes = np.unique(pool.groups, return_inverse=True, return_counts=True)
        if len(names) != pool.clients:
            raise InputError(
                f"The private samples come from {len(names)} sites, each of which is a client, but clients is "
                f"{pool.clients}; use --clients {len(names)}."
            )
        if sizes.min() < pool.least:
            raise InputError(
                f"The site '{names[sizes.argmin()]}' has {sizes.min()} private samples (minimum {pool.least}); "
                "merge it with another site, leave it out or use fewer public samples."
            )
        return owners.astype(np.int64)


@register
@dataclass(frozen=True)
class Column(Partition):
    """``column:NAME``: what a table's row says in a column decides whose it is, as a hospital or an occupation would.

    Values go to the clients from the most frequent to the rarest, each to the client that holds the fewest rows so far.
    The column is then no feature: at a site of its own it would say nothing.
    """

    name = "column"
    example = "hospital"
    column: str

    def owners(self, pool: Pool, rng: np.random.Generator) -> Integers:
        """Deal the values, which are the rows' sites by now (``fedol.data.reading.sited``)."""
        if pool.groups is None:
            raise InputError(f"The partition '{self}' needs a table with the column '{self.column}'.")
        names, values, sizes = np.unique(pool.groups, return_inverse=True, return_counts=True)
        if len(names) < pool.clients:
            raise InputError(
                f"The column '{self.column}' has {len(names)} values among the private rows, but clients is "
                f"{pool.clients}; use --clients {len(names)} or fewer."
            )
        held, owner = np.zeros(pool.clients, dtype=np.int64), np.zeros(len(names), dtype=np.int64)
        for value in np.argsort(-sizes, kind="stable"):
            owner[value] = held.argmin()
            held[owner[value]] += sizes[value]
        return owner[values]


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


def _even(sizes: Integers, held: npt.NDArray[np.bool_], rng: np.random.Generator) -> Integers:
    """Counts [classes, clients]: each class divided among its holders, the remainder to random ones."""
    counts = np.zeros(held.shape, dtype=np.int64)
    for row, size, mine in zip(counts, sizes, held, strict=True):
        owners = rng.permutation(np.flatnonzero(mine))
        row[owners] = size // len(owners) + (np.arange(len(owners)) < size % len(owners))
    return counts


def _deal(labels: npt.NDArray[np.integer[Any]], counts: Integers, rng: np.random.Generator) -> Integers:
    """The owner of each sample: each class is shuffled and cut so that client k gets its count [class, k]."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # by class, shuffled within
    owners = np.empty(len(labels), dtype=np.int64)
    owners[order] = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts.ravel())
    return owners
