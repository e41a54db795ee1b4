"""Partitions: which private sample goes to which client. What one is, the registry of names, the deal, and FedOL's own.

A partition names the client of every sample, so every sample is used exactly once. Yours is a subclass under
``@register``, and docs/own-data.md has an example. Three of FedOL's are tables of counts, samples per class and client;
the samples of a class are shuffled and cut by it. A class without samples is simply a row of zeros.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import Groups
from fedol.errors import FedolError, InputError, cause, unknown
from fedol.seeding import numpy_generator

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """What a partition may look at: the private samples' ``labels`` in 0..classes-1, and their sites if known.

    Each of the ``clients`` is to own at least ``least`` samples.
    """

    labels: npt.NDArray[np.integer[Any]]
    classes: int
    clients: int
    least: int
    groups: Groups | None = None


@dataclass(frozen=True)
class Partition(ABC):
    """A scheme. A subclass is a frozen dataclass with at most one field: what follows the colon of its name.

    The field is a float or an int, which must be above 0 and may be given as text, or a str.
    """

    name: ClassVar[str]
    example: ClassVar[str] = "2"  # of the field's value, for errors
    advice: ClassVar[str] = "use fewer clients"  # where a client gets too few samples

    def __post_init__(self) -> None:
        for field in fields(self):
            kind = getattr(field.type, "__name__", field.type)
            if kind not in ("float", "int"):
                continue
            number = _number(getattr(self, field.name), kind)
            if not 0 < number < math.inf:
                what, wanted = field.name.replace("_", " "), "whole number" if kind == "int" else "number"
                raise InputError(
                    f"The {what} of '{self}' must be a {wanted} above 0, as in '{self.name}:{self.example}'."
                )
            object.__setattr__(self, field.name, number)

    def __str__(self) -> str:
        """One spelling for one partition, ``dirichlet:1`` also for 1.0: it names the random numbers."""
        values = (getattr(self, field.name) for field in fields(self))
        return ":".join([self.name, *(f"{v:.15g}" if isinstance(v, float) else str(v) for v in values)])

    @abstractmethod
    def owners(self, pool: Pool, rng: np.random.Generator) -> Integers:
        """The client in 0..clients-1 of each sample; every random choice comes from ``rng``."""


# Every partition by its name, which a setting has before the colon; ``register`` adds one.
PARTITIONS: dict[str, type[Partition]] = {}
P = TypeVar("P", bound=type[Partition])


def register(scheme: P) -> P:
    """A decorator: make a partition of yours known by its ``name``, instead of any other of that name."""
    if not str(getattr(scheme, "name", "")).replace("-", "_").isidentifier():
        raise InputError(f"{scheme.__name__} needs a name of letters, digits and dashes, as in name = 'by-size'.")
    if len(fields(scheme)) > 1:
        raise InputError(f"{scheme.__name__} has {len(fields(scheme))} fields; a partition has one value at most.")
    PARTITIONS[scheme.name] = scheme
    return scheme


def parse(spec: str) -> Partition:
    """The partition of a specification: ``Dirichlet(0.05)`` of ``dirichlet:0.05``."""
    name, colon, text = spec.partition(":")
    if name in PARTITIONS and bool(colon) == bool(fields(PARTITIONS[name])):
        made: Callable[..., Partition] = PARTITIONS[name]
        return made(text) if colon else made()
    known = [f"{n}:{text or scheme.example}" if fields(scheme) else n for n, scheme in PARTITIONS.items()]
    raise unknown("partition", spec, known)


def canonical(spec: str | Partition) -> str:
    """One spelling for one partition: ``dirichlet:1.0`` is ``dirichlet:1``, and deals the same."""
    if isinstance(spec, str):
        return str(parse(spec))
    if PARTITIONS.get(spec.name) is not type(spec):
        raise InputError(f"Nothing finds the partition '{spec}' by its name; write @register above its class.")
    return str(spec)


def partition(
    labels: npt.NDArray[np.integer[Any]],
    spec: str | Partition,
    clients: int,
    seed: int,
    classes: int,
    min_size: int = 10,
    groups: Groups | None = None,
) -> list[Integers]:
    """Deal the samples to ``clients``; each gets the sorted positions of its samples, at least ``min_size`` of them.

    ``spec`` names one of ``PARTITIONS`` or is one; ``groups`` is the site of each sample, where it is known.
    """
    scheme = parse(spec) if isinstance(spec, str) else spec
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"The labels to partition must be a list of integers, not {labels.dtype} {labels.shape}.")
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        raise InputError(f"The labels to partition go from {labels.min()} to {labels.max()}, not 0 to {classes - 1}.")
    if groups is not None and np.shape(groups) != labels.shape:
        raise InputError(f"The groups must be a list of {len(labels)}, one per sample, not {list(np.shape(groups))}.")
    if clients < 1 or min_size < 1:
        raise InputError(f"A partition needs at least 1 client of at least 1 sample, not {clients} of {min_size}.")
    if len(labels) < clients * min_size:
        raise InputError(
            f"{len(labels):,} private samples are too few for {clients:,} clients with at least {min_size} each; "
            "use fewer clients or fewer public samples."
        )
    rng = numpy_generator(seed, "partition", str(scheme))
    owners = _owners(scheme, Pool(labels, classes, clients, min_size, groups), rng)
    smallest = int(np.bincount(owners, minlength=clients).min())
    if smallest < min_size:
        raise InputError(f"{scheme} leaves a client with {smallest} samples (minimum {min_size}); {scheme.advice}.")
    return [np.flatnonzero(owners == client).astype(np.int64) for client in range(clients)]


def _owners(scheme: Partition, pool: Pool, rng: np.random.Generator) -> Integers:
    """The client of each sample, checked: a scheme may be the user's."""
    try:
        owners = np.asarray(scheme.owners(pool, rng))
    except FedolError:
        raise
    except Exception as error:
        raise InputError(f"The partition '{scheme}' failed: {cause(error)}.") from error
    whole = owners.shape == pool.labels.shape and np.issubdtype(owners.dtype, np.integer)
    if not (whole and owners.min() >= 0 and owners.max() < pool.clients):
        raise InputError(
            f"The partition '{scheme}' must return the client of each of the {len(pool.labels)} samples, integers in "
            f"0..{pool.clients - 1}."
        )
    return owners.astype(np.int64)


def _number(value: Any, kind: str) -> float:
    """A number or its text as a number of this kind; NaN where it is none."""
    try:
        return float(value) if kind == "float" else int(value) if str(value).isdecimal() else math.nan
    except (TypeError, ValueError):
        return math.nan


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
