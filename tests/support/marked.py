"""Digits with findings: what is true of a digit, several at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from fedol import Dataset

FINDINGS = ("even", "large", "prime", "loop", "four")
TRUE_OF = (range(0, 10, 2), range(5, 10), (2, 3, 5, 7), (0, 6, 8, 9), (4,))
TRAIN = 900


def digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Images, marks [N, findings], and the digits themselves."""
    found = load_digits()
    marks = np.stack([np.isin(found.target, list(true)) for true in TRUE_OF], 1).astype(np.int64)
    return found.images.astype(np.uint8) * 15, marks, found.target


def marked_digits() -> Dataset:
    """As a dataset of 900 training and 300 test images."""
    images, marks, _ = digits()
    test = slice(TRAIN, TRAIN + 300)
    return Dataset.from_arrays(images[:TRAIN], marks[:TRAIN], images[test], marks[test], FINDINGS, "marked digits")
