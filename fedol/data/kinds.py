"""Which kind of samples values are: the one place that knows every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedol.core.arrays import to_tensor
from fedol.data.dataset import Dataset, pixels
from fedol.data.images import Images
from fedol.data.reading import Reading, split_off, table_of, unlabelled
from fedol.data.rows import frame_rows, is_frame
from fedol.data.samples import Samples
from fedol.errors import InputError


def of_values(values: Any, what: str = "samples", reading: Reading = Reading()) -> Samples:
    """A frame or floats [N, columns] are a table, and uint8 [N, channels, H, W] images."""
    if is_frame(values):
        return unlabelled(frame_rows(values, what), reading)
    tensor = to_tensor(values, what)
    if tensor.dim() == 4 and tensor.dtype == torch.uint8:
        return Images(tensor)
    if tensor.dim() == 2:
        return table_of(tensor.cpu().numpy(), what)
    raise InputError(f"{what} must be uint8 [N, channels, H, W], but are {tensor.dtype} {list(tensor.shape)}.")


def given_values(values: Any, where: str) -> Samples:
    """The same for whoever has a data set in hand: of images, in any order of their axes."""
    if is_frame(values):
        return of_values(values, where)
    array = np.asarray(values)
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return table_of(array, where)
    return Images(torch.from_numpy(pixels(array, where)))


def from_pair(x: Any, y: npt.ArrayLike, name: str = "data") -> Dataset:
    """Samples and their labels, numbers or names, of which a fixed fifth of each class is held out for the test.

    Which fifth depends on their number and order alone (see ``holdout``), so the same values are the same dataset.
    """
    given, labels = given_values(x, "X"), np.asarray(y)
    if labels.shape != (len(given),) or labels.dtype.kind not in "biuUO":
        raise InputError(
            f"y must be {len(given)} labels, numbers or names, one per sample, but is {labels.dtype} "
            f"{list(labels.shape)}."
        )
    return split_off(given, [str(label) for label in labels.tolist()], name)
