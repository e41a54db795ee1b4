"""A dataset: samples, integer labels, class names, and a fingerprint of all three; and its parts in an experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.core.arrays import fingerprint as fingerprint
from fedol.data.labels import Groups, check_groups, check_labels
from fedol.data.samples import Preprocessing, Samples, samples
from fedol.errors import InputError, measures
from fedol.seeding import numpy_generator
from fedol.text import Card


def holdout(keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Mark one in five for testing (at least one of two or more): those whose key has the smallest SHA-256.

    The same on every machine and with every library version, and unrelated to the order the samples come in.
    """
    rank = sorted(range(len(keys)), key=lambda i: hashlib.sha256(keys[i].encode("utf-8", "surrogateescape")).digest())
    marked = np.zeros(len(keys), dtype=bool)
    marked[rank[: max(len(keys) // 5, 1 if len(keys) > 1 else 0)]] = True
    return marked


@dataclass(frozen=True, eq=False, repr=False)
class Labelled(Card):
    """Samples with their labels, ``y`` int64 [N], or [N, findings] of zeros and ones; and their sites if known."""

    samples: Samples
    y: npt.NDArray[np.int64]
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.y)

    def facts(self) -> dict[str, Any]:
        """How many of what."""
        sites = {} if self.groups is None else {"sites": len(np.unique(self.groups))}
        return {"kind": self.samples.kind, "samples": len(self), "shape": measures(self.samples.shape), **sites}

    @property
    def answers(self) -> npt.NDArray[np.int64]:
        """The right answer to every question: the labels, of findings row by row (``fedol.data.findings``)."""
        return self.y.ravel()

    def counts(self, classes: int) -> npt.NDArray[np.int64]:
        """How many samples are of each class, or have each finding."""
        return self.y.sum(0) if self.y.ndim == 2 else np.bincount(self.y, minlength=classes)

    @property
    def x(self) -> npt.NDArray[Any]:
        """The samples as an array: of images, uint8 [N, channels, H, W]."""
        return self.samples.array()

    def take(self, index: npt.NDArray[np.integer[Any]]) -> Labelled:
        """The samples at these positions, in this order."""
        groups = None if self.groups is None else self.groups[index]
        return Labelled(self.samples.take(index), self.y[index], groups)

    def joined(self, others: Labelled) -> Labelled:
        """These and then the others, without their sites."""
        return Labelled(self.samples.joined(others.samples), np.concatenate([self.y, others.y]))


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Card):
    """Training and test samples of the same kind and shape, and the names of their classes.

    Where a sample has several labels at once, these are its ``findings``, and its classes are no and yes.
    """

    name: str
    train: Labelled
    test: Labelled
    classes: tuple[str, ...]
    findings: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """How many of what."""
        held = self.train.facts()
        return {
            "name": self.name,
            "kind": held.pop("kind"),
            "train": held.pop("samples"),
            "test": len(self.test),
            **held,
            **({"findings": len(self.findings)} if self.findings else {"classes": len(self.classes)}),
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every sample; of an image, channels, height and width."""
        return self.train.samples.shape

    @property
    def unnamed(self) -> bool:
        """Whether the classes are called by their numbers alone, as where nobody named them."""
        return self.classes == tuple(str(c) for c in range(len(self.classes)))

    @property  # not kept: whoever made the dataset may write into its arrays
    def fingerprint(self) -> str:
        """SHA-256 over the samples and labels of both parts, in order, the class names, and the sites if known."""
        parts = [each for part in (self.train, self.test) for each in (part.samples.fingerprint, fingerprint(part.y))]
        parts += [] if self.train.groups is None else [fingerprint(self.train.groups)]
        parts += self.findings or self.classes
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """A name that other data under the same name do not have."""
        return f"{self.name}@{self.fingerprint[:12]}"

    @classmethod
    def from_arrays(
        cls,
        train_x: npt.ArrayLike,
        train_y: npt.ArrayLike,
        test_x: npt.ArrayLike,
        test_y: npt.ArrayLike,
        classes: Sequence[str] | None = None,
        name: str = "custom",
        groups: npt.ArrayLike | None = None,
    ) -> Dataset:
        """Check arrays of images and make them a dataset.

        Frames of pandas or polars, and floats [N, columns], are rows of a table, in which NaN is missing.
        Images are [N, H, W], [N, C, H, W] or [N, H, W, C] with one or three channels (where both of the last two
        could be meant, channels come first), uint8 or floats in [0, 1], which are rounded to uint8.
        Labels are integers 0..C-1; without ``classes`` the names are "0", "1", ... up to the largest label. Labels of
        zeros and ones [N, C] mark the findings of each sample, whose names ``classes`` are then.
        ``groups`` are the sites of the training images, names or numbers; the partition ``sites`` makes them clients.
        """
        from fedol.data.kinds import given_values  # which knows the kinds, made of what is defined here

        x, test = given_values(train_x, f"{name}: train_x"), given_values(test_x, f"{name}: test_x")
        if {x.kind, test.kind} == {"images", "signals"}:  # the floats are less exact images
            x, test = (samples(pixels(part, name)) for part in (train_x, test_x))
        if x.kind != test.kind or x.shape != test.shape:
            raise InputError(
                f"{name}: training {x.kind} are {measures(x.shape)} but test {test.kind} are {measures(test.shape)}; "
                "make them the same size."
            )
        test = test.like(x)
        labels, truth = check_labels(train_y, test_y, classes, (len(x), len(test)), name)
        sites = None if groups is None else check_groups(groups, len(x), f"{name}: groups")
        return cls(name, Labelled(x, labels.y, sites), Labelled(test, truth), labels.classes, labels.findings)

    @classmethod
    def from_waves(cls, folder: str | Path, transform: Any = None) -> Dataset:
        """WAV files in ``train/CLASS/`` and ``test/CLASS/``, or in ``CLASS/``, as signals.

        ``transform`` makes of a file's samples, float32 [channels, frames], and their rate what is learnt from: an
        array [channels, ...], of one shape for all.
        """
        from fedol.data.waves import load_waves

        return load_waves(Path(folder), transform)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        label: str | Sequence[str] | None = None,
        test: Any = None,
        text: Sequence[str] = (),
        categories: Sequence[str] = (),
        missing: Sequence[str] = (),
        name: str = "data",
    ) -> Dataset:
        """A frame of pandas or polars with a row per sample, one column of which is the label.

        Several columns of labels, all of which say yes or no, are the findings of a sample.

        Columns of words are categories, and so are those of ``categories``; the others are numbers. What stands for a
        missing value beside NaN, None, "?" and the like is ``missing``. With columns of ``text``, these alone are what
        is learnt from. ``test`` are the test rows, another frame; without them a fifth of each class is held out.
        """
        from fedol.data.reading import Reading, from_frame

        labels, texts, chosen, absent = (
            tuple([words] if isinstance(words, str) else map(str, words))
            for words in (label or (), text, categories, missing)
        )
        return from_frame(frame, test, Reading(labels, texts, chosen, absent), name)


def pixels(values: npt.ArrayLike, where: str) -> npt.NDArray[np.uint8]:
    """Any accepted image array as contiguous uint8 [N, C, H, W]."""
    array = np.asarray(values)
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[1] not in (1, 3):
        shape = list(np.shape(values))
        raise InputError(f"{where} has shape {shape}; give [N, H, W], [N, C, H, W] or [N, H, W, C] with C 1 or 3.")
    if array.size == 0:
        raise InputError(f"{where} is empty (shape {list(np.shape(values))}); give at least one image.")
    if array.dtype != np.uint8:
        if not np.issubdtype(array.dtype, np.floating):
            raise InputError(f"{where} has type {array.dtype}; give uint8, or floats between 0 and 1.")
        if not (array.min() >= 0 and array.max() <= 1):  # also true of NaN
            raise InputError(f"{where} has floats outside [0, 1] or not finite; divide by 255 or give uint8.")
        array = np.rint(array * 255).astype(np.uint8)
    return np.ascontiguousarray(array)


@dataclass(frozen=True, eq=False)
class Split:
    """What clients, server and evaluation each see.

    ``shared``         the public samples, which everyone holds, without labels
    ``private``        the training samples to be dealt to the clients
    ``test``           the dataset's own test set, untouched
    ``public_labels``  diagnostics only (how good were the pseudo-labels?): never for training or selection
    ``prepare``        fitted on the private samples, or on the public ones, as the kind wants it (``Samples.fit``)
    """

    shared: Samples
    private: Labelled
    test: Labelled
    public_labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    prepare: Preprocessing

    @property
    def public(self) -> npt.NDArray[Any]:
        """The public samples as an array: of images, uint8 [N, channels, H, W]."""
        return self.shared.array()


def split(dataset: Dataset, public: int, seed: int, development: int = 0) -> Split:
    """Draw ``public`` training samples uniformly (not stratified); the rest are private. Both keep their order.

    ``development`` samples, drawn from those that would be private, take the place of the test set: what is tuned on
    them has never seen it.
    """
    shared, held, private = (dataset.train.take(part) for part in parts(dataset, public, seed, development))
    test = held if development else dataset.test
    prepare = private.samples.fit(shared.samples)
    return Split(shared.samples, private, test, shared.y, dataset.classes, prepare)


def parts(dataset: Dataset, public: int, seed: int, development: int = 0) -> list[npt.NDArray[np.int64]]:
    """The positions of the public, the held out and the private samples among the training samples."""
    total = len(dataset.train)
    if not isinstance(public, int | np.integer) or not 1 <= public < total:
        raise InputError(
            f"The public set must have 1 to {total - 1:,} samples, fewer than the {total:,} "
            f"training samples of {dataset.name}, not {public}; change --public."
        )
    least = int(min(dataset.train.y.min(), dataset.test.y.min()))
    if dataset.unnamed and least:
        raise InputError(
            f"The labels of {dataset.name} begin with {least} and not with 0; subtract {least}, or give the classes "
            "names other than their numbers."
        )
    order = numpy_generator(seed, "split").permutation(total)
    if not 0 <= development < total - public:
        raise InputError(
            f"development must lie in 0..{total - public - 1:,}: {dataset.name} has {total - public:,} private samples."
        )
    return [np.sort(part) for part in np.split(order, [public, public + development])]
