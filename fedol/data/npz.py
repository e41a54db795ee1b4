"""Your own arrays: an ``.npz`` file with ``train_x``, ``train_y``, ``test_x``, ``test_y``."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedol.data.dataset import Dataset
from fedol.errors import InputError

ARRAYS = ("train_x", "train_y", "test_x", "test_y")


def load_npz(path: Path | None) -> Dataset:
    """Read the four arrays, and ``classes`` and ``groups`` where they are there; pickled objects are refused."""
    if path is None:
        raise InputError("The dataset 'npz' needs a file; give it as the data directory (--data-dir FILE.npz).")
    (train_x, train_y, test_x, test_y), classes, groups = _arrays(path, ARRAYS)
    return Dataset.from_arrays(train_x, train_y, test_x, test_y, classes, path.stem, groups)


def load_test(path: Path) -> Dataset:
    """Only ``test_x`` and ``test_y``, which are then both of its parts: labelled images to score a model with."""
    (x, y), classes, _ = _arrays(path, ARRAYS[2:])
    return Dataset.from_arrays(x, y, x, y, classes, path.stem)


def _arrays(path: Path, names: Sequence[str]) -> tuple[list[Any], list[str] | None, Any]:
    """These arrays of a file, and its class names and the sites of its training images where it has any."""
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in names if name not in file]
            if missing:
                raise InputError(f"{path} has no array '{missing[0]}'; save {', '.join(names)} with numpy.savez.")
            classes = np.atleast_1d(file["classes"]).tolist() if "classes" in file else None
            return [file[name] for name in names], classes, file.get("groups")
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no file {path}; give the path of an .npz file.") from None
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read as .npz arrays ({error}); save it with numpy.savez.") from error
