"""Datasets that need no download: the digits of scikit-learn, and Fashion-MNIST as Debian packages it."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import Dataset, holdout
from fedol.errors import InputError


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


CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
SYSTEM = Path("/usr/share/datasets/fashion-mnist")  # Debian's package dataset-fashion-mnist
MOST_SAMPLES = 1_000_000


def load_fashion_mnist(data_dir: Path | None = None) -> Dataset:
    """Read the idx files in ``data_dir``; without one, in ``~/.cache/fedol/fashion-mnist`` or Debian's folder."""
    own = Path.home() / ".cache" / "fedol" / "fashion-mnist"
    places = [own, SYSTEM] if data_dir is None else [data_dir, data_dir / "fashion-mnist"]
    place = next((place for place in places if _find(place, "train-images-idx3-ubyte")), places[0])
    train_x, train_y, test_x, test_y = (
        _read(place, f"{part}-{kind}-ubyte", dims)
        for part in ("train", "t10k")
        for kind, dims in (("images-idx3", 3), ("labels-idx1", 1))
    )
    return Dataset.from_arrays(train_x, train_y, test_x, test_y, CLASSES, "fashion-mnist")


def _find(folder: Path, name: str) -> Path | None:
    return next((file for file in (folder / name, folder / f"{name}.gz") if file.is_file()), None)


def _read(folder: Path, name: str, dims: int) -> npt.NDArray[np.uint8]:
    """One idx file of bytes: the header is checked before anything of its size is read."""
    file = _find(folder, name)
    if file is None:
        raise InputError(
            f"Fashion-MNIST's {name}[.gz] is not in {folder}; put the four idx files there and give it as --data-dir, "
            "or install Debian's package dataset-fashion-mnist."
        )
    try:
        with cast(IO[bytes], gzip.open(file) if file.suffix == ".gz" else file.open("rb")) as stream:
            return _parse(stream, dims)
    except (OSError, EOFError, ValueError, zlib.error, struct.error) as error:
        raise InputError(f"{file} is not an idx file of Fashion-MNIST ({error}); get a fresh copy.") from error


def _parse(stream: IO[bytes], dims: int) -> npt.NDArray[Any]:
    magic, *shape = struct.unpack(f">{1 + dims}I", stream.read(4 + 4 * dims))
    if magic != 0x800 + dims:  # 0x08: unsigned bytes; the last byte counts the dimensions
        raise ValueError(f"it begins with {magic:#010x}, not {0x800 + dims:#010x}")
    if not 1 <= shape[0] <= MOST_SAMPLES or shape[1:] not in ([], [28, 28]):
        raise ValueError(f"its header says {'x'.join(map(str, shape))}")
    size = math.prod(shape)
    data = stream.read(size + 1)
    if len(data) != size:
        raise ValueError(f"it holds {'more' if len(data) > size else 'less'} than the {size:,} bytes of its header")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)
