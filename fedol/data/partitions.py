"""Partitions: which private sample goes to which client. What one is, the registry of names, and the deal.

A partition names the client of every sample, so every sample is used exactly once. FedOL's own are in
``fedol.data.schemes``; yours is a subclass under ``@register``, and docs/own-data.md has an example.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from fedol.data.labels import Groups
from fedol.errors import FedolError, InputError, brief, cause, unknown
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
    """A decorator: make your own partition known by its ``name``, in place of any other of that name."""
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
    if not isinstance(clients, Integral):
        raise InputError(f"The clients of a partition are a whole number, not {brief(clients)}.")
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
