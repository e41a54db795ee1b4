"""Images without labels: a folder of image files, or an array in an ``.npz`` or ``.npy`` file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import pixels
from fedol.data.folder import SUFFIXES, image_files, read_images
from fedol.errors import InputError

ARRAYS = ("public", "images", "x", "test_x", "train_x")


def load_images(path: Path) -> tuple[npt.NDArray[np.uint8], list[str]]:
    """uint8 [N, channels, H, W], and a name for each: its path in the folder, or its position in the array.

    A folder's files are taken in the order of their paths, subfolders included, hidden ones not. An ``.npz`` file holds
    one array, or several of which the first of ``ARRAYS`` counts.
    """
    if path.is_dir():
        files = image_files(path, path.rglob("*"))
        if not files:
            raise InputError(f"{path} holds no image files; give a folder of images or an .npz file.")
        return np.ascontiguousarray(read_images(files)), [str(file.relative_to(path)) for file in files]
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return np.ascontiguousarray(read_images([path])), [path.name]
    images = pixels(_array(path), str(path))
    return images, [str(position) for position in range(len(images))]


def _array(path: Path) -> npt.ArrayLike:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            names = [name for name in ARRAYS if name in loaded] or loaded.files
            if not names or (len(loaded.files) > 1 and names[0] not in ARRAYS):
                raise InputError(f"{path} holds {', '.join(loaded.files) or 'nothing'}; name the images 'images'.")
            array: np.ndarray = loaded[names[0]]
            return array
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}; give a folder of images, an .npz or an .npy file.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read as images ({error}); give a folder, .npz or .npy.") from None
