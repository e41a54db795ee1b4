"""Images without labels: a folder of image files, or an array in an ``.npz`` or ``.npy`` file."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import pixels
from fedol.data.folder import SUFFIXES, image_files, read_images
from fedol.errors import InputError

ARRAYS = ("public", "images", "x", "test_x", "train_x")
# Bytes that a stranger's array may have in memory: so much in any case, and so many times its file's size. Deflate
# packs a thousand to one at most; photographs hardly at all, drawings ten to one.
FEW_BYTES, PACKED = 1 << 28, 100


def load_images(path: Path, samples: int | None = None) -> tuple[npt.NDArray[np.uint8], list[str]]:
    """uint8 [N, channels, H, W], and a name for each: its path in the folder, or its position in the array.

    A folder's files are taken in the order of their paths, subfolders included, hidden ones not. An ``.npz`` file holds
    one array, or several of which the first of ``ARRAYS`` counts. Of a stranger's file we know how many ``samples`` it
    must have: then what it claims is compared before anything is unpacked.
    """
    if path.is_dir():
        files = image_files(path, path.rglob("*"))
        if not files:
            raise InputError(f"{path} holds no image files; give a folder of images or an .npz file.")
        return np.ascontiguousarray(read_images(files)), [str(file.relative_to(path)) for file in files]
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return np.ascontiguousarray(read_images([path])), [path.name]
    images = pixels(_array(path, samples), str(path))
    return images, [str(position) for position in range(len(images))]


def _array(path: Path, samples: int | None) -> npt.ArrayLike:
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                _check_claim(file, path, samples)
                loaded: np.ndarray = np.load(path, allow_pickle=False)
                return loaded
        with np.load(path, allow_pickle=False) as arrays:
            names = [name for name in ARRAYS if name in arrays] or arrays.files
            if not names or (len(arrays.files) > 1 and names[0] not in ARRAYS):
                raise InputError(f"{path} holds {', '.join(arrays.files) or 'nothing'}; name the images 'images'.")
            with arrays.zip.open(f"{names[0]}.npy") as member:
                _check_claim(member, path, samples)
            array: np.ndarray = arrays[names[0]]
            return array
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}; give a folder of images, an .npz or an .npy file.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read as images ({error}); give a folder, .npz or .npy.") from None


def _check_claim(file: IO[bytes], path: Path, samples: int | None) -> None:
    """Refuse, by its header alone, an array of another length or one that would be far larger than its file."""
    if samples is None:
        return
    major, _ = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if shape[:1] != (samples,):
        raise InputError(f"{path} holds {shape[0] if shape else 0:,} images, but the task has {samples:,}.")
    size, limit = math.prod(shape) * dtype.itemsize, max(FEW_BYTES, PACKED * path.stat().st_size)
    if size > limit:
        raise InputError(
            f"{path} claims {size:,} bytes of images, far more than its size makes likely ({limit:,}); "
            "ask whoever made the task for the images as files."
        )
