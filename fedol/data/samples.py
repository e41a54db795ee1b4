"""What FedOL needs of data of any kind: a length, a fingerprint, and a batch by index.

Only ``fedol.data`` knows the kinds. A kind is a subclass of ``Samples`` and one of ``Preprocessing``.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import Array, to_tensor
from fedol.errors import FedolError, InputError, measures, unknown
from fedol.text import printable

Index: TypeAlias = "Tensor | npt.NDArray[Any] | Sequence[int] | slice"
Shape: TypeAlias = tuple[int, ...]
Step: TypeAlias = "tuple[Tensor, Tensor | None, Tensor | None]"  # a batch: its samples, their views and their patches
FIRST = 6  # values of a sample that a report shows


class Preprocessing(ABC):
    """Makes raw values what a model takes.

    It is fitted once and part of a model, like its weights: plain data, never code. Equal ones compare equal and have
    one hash, because samples that several models train on are prepared once.
    """

    kind: ClassVar[str]

    @abstractmethod
    def __call__(self, batch: Tensor) -> Tensor:
        """A batch of raw values as float32, on the device it is on."""

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """As plain JSON values, ``kind`` among them; only images, which were there first, do without."""

    @classmethod
    @abstractmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Self:
        """What ``header`` gave, or an ``InputError`` that says what makes no sense: it may be a stranger's."""

    def prepared(self, shape: Shape) -> Shape:
        """The shape of a prepared sample whose raw shape this is: the same, unless a kind says otherwise."""
        return shape

    @abstractmethod
    def blank(self, shape: Shape) -> Tensor:
        """Two raw samples that say nothing, for a model of this prepared ``shape``: what an export is traced with."""

    def batches(self, given: Samples, device: torch.device) -> Batches:
        """These samples on a device, prepared as they are gathered."""
        return given.on(device, self)

    def stream(self, given: Samples, parts: Sequence[slice], device: torch.device) -> Iterator[Tensor]:
        """Parts of these samples on a device, one after the other, prepared."""
        return (self(values.to(device)) for values in given.stream(parts))

    def ready(self, given: Samples) -> None:
        """Do now, in view of whoever watches, what takes long with these samples and need be done once."""
        return

    def accept(self, values: Samples | Array, shape: Shape) -> Samples:
        """Samples that a model of this prepared ``shape`` takes, or an error that says what they are instead."""
        given = samples(values)
        if given.kind != self.kind:
            raise InputError(f"The model takes {self.kind}, but these are {given.kind}; convert them.")
        if self.prepared(given.shape) != shape:
            other = measures(self.prepared(given.shape)) or f"no {self.kind}"
            raise InputError(f"The model takes {self.kind} of {measures(shape)}, but these are {other}; convert them.")
        return given


class Samples(ABC):
    """Samples of one kind and shape, in an order that counts."""

    kind: ClassVar[str]
    on_disk: ClassVar[bool] = False  # read as they are needed: no device holds them, and no CUDA graph can

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Of one sample; its channels, columns or features first."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of content and order."""

    @property
    def detail(self) -> str:
        """What else must be the same for a model to take them, in words."""
        return ""

    def digests(self) -> list[str]:
        """A hash of each sample, whatever stands beside it."""
        about = f"{self.kind}{self.shape}".encode()
        rows = np.ascontiguousarray(self.array())
        return [hashlib.sha256(about + row.tobytes()).hexdigest() for row in rows]

    @abstractmethod
    def take(self, index: Index) -> Self:
        """The samples at these positions, or of this mask, in this order."""

    @abstractmethod
    def joined(self, others: Self) -> Self:
        """These, and then the others."""

    @abstractmethod
    def batch(self, index: Tensor | slice) -> Tensor:
        """Raw values of the samples at these positions."""

    def stream(self, parts: Iterable[slice]) -> Iterator[Tensor]:
        """Raw values part by part, in turn; a kind on disk reads the next ones ahead."""
        return (self.batch(part) for part in parts)

    @abstractmethod
    def array(self) -> npt.NDArray[Any]:
        """The raw values as one NumPy array, for code that is not ours."""

    @abstractmethod
    def fit(self, public: Self | None = None) -> Preprocessing:
        """The preprocessing that suits these samples.

        A kind that must mean the same at every site fits it to the ``public`` ones instead, which everyone holds.
        """

    def unfitted(self) -> Preprocessing:
        """A preprocessing that tells nothing of these samples: what a private training needs."""
        raise FedolError(f"There is no private training on {self.kind}; leave --dp-epsilon out.")

    def floats(self) -> npt.NDArray[np.float32]:
        """The values as other frameworks' models expect them."""
        return self.array().astype(np.float32)

    def pictures(self) -> npt.NDArray[np.uint8] | None:
        """A picture of each for the report, uint8 [N, 1 or 3, H, W]; None where a kind cannot be drawn."""
        return None

    def captions(self) -> list[str]:
        """Each in a few words, for the report of a kind that cannot be drawn: its first values."""
        rows = self.array().reshape(len(self), -1)[:, :FIRST]
        return [", ".join(f"{value:.3g}" for value in row) for row in rows.tolist()]

    @property
    def places(self) -> int:
        """At how many places a sample has values: an image's pixels, a row's one."""
        return math.prod(self.shape[1:])

    def on(self, device: torch.device, prepare: Preprocessing) -> Batches:
        """These samples on a device, to be trained on."""
        return Batches(self.batch(slice(None)).to(device), prepare)

    def views(self, count: int, generator: torch.Generator) -> Tensor:
        """How each of ``count`` samples is augmented: a row each, drawn by the generator alone."""
        raise InputError(f"There is no augmentation of {self.kind}; leave 'augment' out.")

    def patches(self, how: str, count: int, generator: torch.Generator) -> Tensor:
        """What is pasted into each of ``count`` samples: a row each, drawn by the generator alone."""
        raise InputError(f"There is no '{how}' of {self.kind}; leave 'patch' out.")


class Batches:
    """Samples on a device: a batch by index, prepared as it is gathered."""

    def __init__(self, values: Tensor, prepare: Callable[[Tensor], Tensor]) -> None:
        self._values, self._prepare = values, prepare

    def __call__(self, index: Tensor, view: Tensor | None, patch: Tensor | None = None, mix: bool = False) -> Tensor:
        """The samples ``index``, each as its rows of ``Samples.views`` and ``Samples.patches`` say."""
        return self._prepare(self._values[index])

    def epoch(self, steps: Sequence[Step], mix: bool = False) -> Iterator[Tensor]:
        """The batches of an epoch, in turn."""
        return (self(index, view, patch, mix) for index, view, patch in steps)


P = TypeVar("P", bound=type[Preprocessing])
_PREPROCESSING: dict[str, type[Preprocessing]] = {}


def register(preprocessing: P) -> P:
    """Make a kind's preprocessing known, so that a model file can name it; a decorator."""
    _PREPROCESSING[preprocessing.kind] = preprocessing
    return preprocessing


def preprocessing_of(header: Mapping[str, Any], shape: Shape) -> Preprocessing:
    """The preprocessing that a model file's header describes."""
    kind = str(header.get("kind", "images"))
    if kind not in _PREPROCESSING:
        raise unknown("kind of samples", printable(kind, 80), _PREPROCESSING)
    return _PREPROCESSING[kind].from_header(header, shape)


def samples(values: Samples | Array, what: str = "samples") -> Samples:
    """Samples as they are, and a NumPy array or a tensor as the kind it holds: images, uint8 [N, channels, H, W]."""
    if isinstance(values, Samples):
        return values
    from fedol.data.images import Images  # which is made of what is defined here

    tensor = to_tensor(values, what)
    if tensor.dim() != 4 or tensor.dtype != torch.uint8:
        raise InputError(f"{what} must be uint8 [N, channels, H, W], but are {tensor.dtype} {list(tensor.shape)}.")
    return Images(tensor)


def check_alike(given: Samples, public: Samples, what: str) -> None:
    """Refuse samples of another kind or shape than the public ones: no model takes both."""
    own, theirs = (", ".join(filter(None, (measures(each.shape), each.detail))) for each in (given, public))
    if given.kind != public.kind:
        own, theirs = f"{given.kind} of {own}", f"{public.kind} of {theirs}"
    if own != theirs:
        raise InputError(f"{what} are {own}, but the task's public ones are {theirs}; convert them.")


def slices(count: int, parts: int) -> list[slice]:
    """Consecutive parts of nearly equal size, the first ones one larger where it does not come out even."""
    each, left = divmod(count, parts)
    ends = [part * each + min(part, left) for part in range(parts + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]
