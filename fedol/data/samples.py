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

from fedol.core.arrays import Array
from fedol.data.likeness import Likeness, Rows
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

    def shown(self, shape: Shape) -> Shape:
        """The shape that a model of this prepared one is said to take."""
        return shape

    def graph(self) -> Callable[[Tensor], Tensor]:
        """What makes a batch of raw values prepared ones, as an export traces it."""
        return self

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

    def taken(self, values: Any) -> Samples:
        """Samples as they are, other values as what they hold."""
        return samples(values)

    def metadata(self) -> dict[str, Any]:
        """What else somebody must know to hand raw values to an exported model."""
        return {}

    def accept(self, values: Samples | Array, shape: Shape) -> Samples:
        """Samples that a model of this prepared ``shape`` takes, or an error that says what they are instead."""
        given = self.taken(values)
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
        told = (row.encode(errors="surrogatepass") if isinstance(row, str) else row.tobytes() for row in self.array())
        return [hashlib.sha256(about + values).hexdigest() for values in told]

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

    def like(self, public: Samples) -> Self:
        """These in the order of the public ones' columns, where they have some; an error where no model takes both."""
        check_alike(self, public, f"Your {self.kind}")
        return self

    def unfitted(self) -> Preprocessing:
        """A preprocessing that tells nothing of these samples: what a private training needs."""
        raise FedolError(f"There is no private training on {self.kind}; leave --dp-epsilon out.")

    members: ClassVar[tuple[str, ...]] = ()  # the arrays that ``packed`` gives

    def packed(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """To be kept in a task's folder: plain values that say what these are, and arrays."""
        raise InputError(f"A task's folder does not hold {self.kind}; leave them out of it.")

    @classmethod
    def unpacked(cls, about: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """What ``packed`` gave, or an ``InputError`` that says what makes no sense: it may be a stranger's."""
        raise InputError(f"nothing keeps {cls.kind}")

    def floats(self) -> npt.NDArray[np.float32]:
        """The values as other frameworks' models expect them."""
        return self.array().astype(np.float32)

    def rows(self, named: bool = False) -> Any:
        """As scikit-learn's kind of model takes them: flat rows, or a frame where it knows columns by name."""
        return self.floats().reshape(len(self), -1)

    def pictures(self) -> npt.NDArray[np.uint8] | None:
        """A picture of each for the report, uint8 [N, 1 or 3, H, W]; None where a kind cannot be drawn."""
        return None

    def likenesses(self, public: Self) -> list[Likeness]:
        """How alike these and public samples are, in the ways in which one may have become the other.

        Rows of numbers: columns on one scale, that of the public ones, and each side's on its own.
        """
        return [Rows(public, public), Rows(self, public)]

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
        return Batches(self, prepare, device)

    def views(self, count: int, generator: torch.Generator) -> Tensor:
        """How each of ``count`` samples is augmented: a row each, drawn by the generator alone."""
        raise InputError(f"There is no augmentation of {self.kind}; leave 'augment' out.")

    def patches(self, how: str, count: int, generator: torch.Generator) -> Tensor:
        """What is pasted into each of ``count`` samples: a row each, drawn by the generator alone."""
        raise InputError(f"There is no '{how}' of {self.kind}; leave 'patch' out.")

    def smaller(self, batch: Tensor, scale: float) -> Tensor:
        """A prepared batch at this share of its height and width."""
        raise InputError(f"There are no smaller {self.kind}; leave 'grow' out.")


SMALL = 1 << 28  # bytes of prepared float32 values that a CPU keeps, rather than prepare every batch again
PART = 4096  # samples prepared at a time


class Batches:
    """Samples on a device: a batch by index.

    Prepared once and for all where they are small or the device is a GPU, which gathers on its own; else batch by
    batch, so that what lies on a disk stays there.
    """

    def __init__(self, inputs: Samples, prepare: Preprocessing, device: torch.device) -> None:
        self._inputs, self._prepare, self._device = inputs, prepare, device
        shape = len(inputs), *prepare.prepared(inputs.shape)
        self._ready: Tensor | None = None
        if device.type != "cpu" or 4 * math.prod(shape) <= SMALL:
            self._ready = torch.empty(shape, device=device)
            for start in range(0, len(inputs), PART):
                part = slice(start, start + PART)
                self._ready[part] = prepare(inputs.batch(part).to(device))

    def __call__(self, index: Tensor, view: Tensor | None, patch: Tensor | None = None, mix: bool = False) -> Tensor:
        """The samples ``index``, each as its rows of ``Samples.views`` and ``Samples.patches`` say."""
        return self._prepare(self._inputs.batch(index)) if self._ready is None else self._ready[index]

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
    """Samples as they are, and other values as the kind they hold: a frame, floats, or uint8 [N, channels, H, W]."""
    if isinstance(values, Samples):
        return values
    from fedol.data.kinds import of_values  # which knows the kinds, made of what is defined here

    return of_values(values, what)


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
