"""The three parts of an experiment: public samples without labels, private training samples, and the test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import Dataset, Labelled
from fedol.data.samples import Preprocessing, Samples
from fedol.errors import InputError
from fedol.seeding import numpy_generator


@dataclass(frozen=True, eq=False)
class Split:
    """What clients, server and evaluation each see.

    ``shared``         the public samples, which everyone holds, without labels
    ``private``        the training samples to be dealt to the clients
    ``test``           the dataset's own test set, untouched
    ``public_labels``  diagnostics only (how good were the pseudo-labels?): never for training or selection
    ``prepare``        fitted on the private samples only
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
    return Split(shared.samples, private, test, shared.y, dataset.classes, private.samples.fit())


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
