"""The 1,797 handwritten 8x8 digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedol.data.dataset import Dataset
from fedol.data.holdout import holdout


def load_digits(data_dir: Path | None = None) -> Dataset:
    """1,438 training and 359 test images of the digits 0 to 9; ``data_dir`` is not needed.

    The source has no test set: a fixed fifth is held out, chosen by a hash of the position (see ``holdout``).
    """
    from sklearn.datasets import load_digits as embedded

    images, labels = embedded(return_X_y=True)
    x = np.rint(images.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    y = labels.astype(np.int64)
    test = holdout([str(position) for position in range(len(y))])
    return Dataset.from_arrays(x[~test], y[~test], x[test], y[test], [str(d) for d in range(10)], "digits")
