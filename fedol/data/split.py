"""The three parts of an experiment: public images without labels, private training images, and the test set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import Dataset, Images
from fedol.errors import InputError
from fedol.seeding import numpy_generator


@dataclass(frozen=True, eq=False)
class Split:
    """What clients, server and evaluation each see.

    ``public``         uint8 images [N, channels, H, W] that everyone holds, without labels
    ``private``        the training images to be dealt to the clients
    ``test``           the dataset's own test set, untouched
    ``public_labels``  diagnostics only (how good were the pseudo-labels?): never for training or selection
    ``mean``, ``std``  per channel on the [0, 1] scale, from the private images only; a constant channel has std 1
    """

    public: npt.NDArray[np.uint8]
    private: Images
    test: Images
    public_labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def split(dataset: Dataset, public: int, seed: int, development: int = 0) -> Split:
    """Draw ``public`` training images uniformly (not stratified); the rest are private. Both keep their order.

    ``development`` images, drawn from those that would be private, take the place of the test set: what is tuned on
    them has never seen it.
    """
    shared, held, private = (dataset.train.take(part) for part in parts(dataset, public, seed, development))
    mean, std = channel_statistics(private.x)
    return Split(shared.x, private, held if development else dataset.test, shared.y, dataset.classes, mean, std)


def parts(dataset: Dataset, public: int, seed: int, development: int = 0) -> list[npt.NDArray[np.int64]]:
    """The positions of the public, the held out and the private images among the training images."""
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


def channel_statistics(images: npt.NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel on the [0, 1] scale.

    Counted, not summed: 256 exact counts per channel need no float copy of the images and round only once.
    """
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for start in range(0, len(images), 1024):  # bincount widens its input to int64: keep that piece small
        for channel, pixels in enumerate(images[start : start + 1024].swapaxes(0, 1)):
            counts[channel] += np.bincount(pixels.ravel(), minlength=256)
    share, level = counts / counts.sum(axis=1, keepdims=True), np.arange(256) / 255
    mean = share @ level
    std = np.sqrt((share * (level - mean[:, None]) ** 2).sum(axis=1))
    constant = (counts > 0).sum(axis=1) == 1  # exactly one pixel value: nothing to scale
    return tuple(mean.tolist()), tuple(np.where(constant, 1.0, std).tolist())
