"""Which kind of samples values are: the one place that knows every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import torch

from fedol.core.arrays import only_read, to_tensor
from fedol.data.dataset import Dataset, pixels
from fedol.data.findings import ANSWERS, check_findings, check_marks
from fedol.data.images import Images
from fedol.data.labels import Labels
from fedol.data.reading import Reading, split_off, table_of, unlabelled
from fedol.data.rows import frame_rows, is_frame
from fedol.data.samples import Samples
from fedol.data.signals import Signals
from fedol.data.texts import Texts
from fedol.errors import InputError


def of_values(values: Any, what: str = "samples", reading: Reading = Reading()) -> Samples:
    """A frame or numbers [N, columns] are a table, strings texts, uint8 [N, channels, H, W] images, else signals."""
    if is_frame(values):
        return unlabelled(frame_rows(values, what), reading)
    if _strings(values):
        return Texts.of(values, what)
    tensor = to_tensor(values, what)
    if tensor.dim() == 4 and tensor.dtype == torch.uint8:
        return Images(tensor)
    if tensor.dim() == 2 and tensor.dtype != torch.uint8:
        return table_of(tensor.cpu().numpy(), what)
    if tensor.dim() > 2 and tensor.is_floating_point():
        return Signals.of(tensor.cpu().numpy(), what)
    raise InputError(f"{what} must be uint8 [N, channels, H, W], but are {tensor.dtype} {list(tensor.shape)}.")


def given_values(values: Any, where: str) -> Samples:
    """The same for whoever has a data set in hand: images may have their axes in another order, and be floats.

    Floats are images where that loses nothing: all of them are k / 255, as precisely as their type can say it.
    """
    if is_frame(values) or _strings(values):
        return of_values(values, where)
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim == 2 and array.dtype.kind in "bif":
        return table_of(array, where)
    if array.dtype.kind == "f" and array.ndim > 2 and not _levels(array):
        return Signals.of(array, where)
    return Images(only_read(pixels(array, where)))


def kind_of_arrays(path: Path) -> str:
    """What the training samples in an ``.npz`` file or a folder of ``.npy`` files are; images where nobody can tell."""
    try:
        file = path / "train_x.npy" if path.is_dir() else path
        values = np.load(file, mmap_mode="r", allow_pickle=False)
        return given_values((values if path.is_dir() else values["train_x"])[:2], "the samples").kind
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, InputError):
        return Images.kind  # whoever loads them says what is wrong


def _strings(values: Any) -> bool:
    """Whether these are a list or an array of strings, by the first."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and (values.dtype.kind == "U" or (len(values) > 0 and isinstance(values[0], str)))
    return isinstance(values, list | tuple) and len(values) > 0 and isinstance(values[0], str)


def _levels(values: npt.NDArray[Any]) -> bool:
    """Whether floats are images of 256 levels."""
    channels = (1, 3)
    if values.ndim > 4 or (values.ndim == 4 and not {values.shape[1], values.shape[3]}.intersection(channels)):
        return False
    slack = 255 * float(np.finfo(values.dtype).eps)
    for start in range(0, len(values), 256):
        part = np.asarray(values[start : start + 256], np.float64) * 255
        if not (part.size and np.abs(part - np.rint(part)).max() <= slack and part.min() >= 0 and part.max() <= 255):
            return False
    return True


def from_pair(x: Any, y: Any, name: str = "data") -> Dataset:
    """Samples and their labels, numbers or names, of which a fixed fifth of each class is held out for the test.

    Labels [N, C] of zeros and ones, or a frame of them, mark the findings of each sample.

    Which fifth depends on their number and order alone (see ``holdout``), so the same values are the same dataset.
    """
    given, labels = given_values(x, "X"), np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] > 1:
        names = check_findings(y.columns if is_frame(y) else range(labels.shape[1]), "Y")
        return split_off(given, Labels(check_marks(labels, len(given), "Y"), ANSWERS, names), name)
    if labels.shape != (len(given),) or labels.dtype.kind not in "biuUO":
        raise InputError(
            f"y must be {len(given)} labels, numbers or names, one per sample, but is {labels.dtype} "
            f"{list(labels.shape)}."
        )
    return split_off(given, Labels.of_words([str(label) for label in labels.tolist()]), name)
