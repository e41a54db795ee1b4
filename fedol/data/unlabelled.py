"""Samples without labels, so far images: a folder of image files, or an array in an ``.npz`` or ``.npy`` file."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import pixels
from fedol.data.images import Images
from fedol.data.own import SUFFIXES, image_files, image_shape, read_images
from fedol.data.samples import Samples, samples
from fedol.errors import InputError, cause
from fedol.text import MOST, printable

ARRAYS = ("public", "images", "x", "test_x", "train_x")
# Bytes that a stranger's array may have in memory: so much in any case, and so many times its file's size. Deflate
# packs a thousand to one at most; photographs hardly at all, drawings ten to one.
FEW_BYTES, PACKED = 1 << 28, 100
LISTED = 80  # characters of the names that an archive holds


def load_samples(path: Path, count: int | None = None) -> tuple[Samples, list[str]]:
    """Samples, and a name for each. Of a stranger's we know how many there must be: ``count``."""
    images, names = load_images(path, count)
    return samples(images), names


def packed(given: Samples) -> bytes:
    """Samples as a file that ``load_samples`` reads."""
    if not isinstance(given, Images):
        raise InputError(f"A task's folder holds images so far, not {given.kind}; leave them out of it.")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, public=given.array())
    return buffer.getvalue()


def load_images(path: Path, count: int | None = None) -> tuple[npt.NDArray[np.uint8], list[str]]:
    """uint8 [N, channels, H, W], and a name for each: its path in the folder, or its position in the array.

    A folder's files are taken in the order of their paths, subfolders included, hidden ones not. An ``.npz`` file holds
    one array, or several of which the first of ``ARRAYS`` counts. Of a stranger's images we know their ``count``:
    then what they claim is compared before anything is unpacked.
    """
    if path.is_dir():
        files = image_files(path, path.rglob("*"))
        if not files:
            raise InputError(f"{path} holds no image files; give a folder of images, an .npz or an .npy file.")
        if count is not None:
            _check_claim(path, count, (len(files), *image_shape(files[0])), sum(f.stat().st_size for f in files))
        return np.ascontiguousarray(read_images(files)), [str(file.relative_to(path)) for file in files]
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return np.ascontiguousarray(read_images([path])), [path.name]
    images = pixels(_array(path, count), str(path))
    return images, [str(position) for position in range(len(images))]


def _array(path: Path, count: int | None) -> npt.ArrayLike:
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                return _read(file, path, count)
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            names = [name for name in ARRAYS if name in members] or list(members)
            if not names or (len(members) > 1 and names[0] not in ARRAYS):
                held = printable(", ".join(members), LISTED) or "nothing"
                raise InputError(f"{path} holds {held}; name the images 'images'.")
            with archive.open(members[names[0]]) as member:
                return _read(member, path, count)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}; give a folder of images, an .npz or an .npy file.") from None
    except Exception as error:  # a broken file can fail anywhere inside an archive or a header
        why = printable(cause(error), MOST)
        raise InputError(f"{path} cannot be read as images ({why}); give a folder, .npz or .npy.") from None


def _read(file: IO[bytes], path: Path, count: int | None) -> npt.ArrayLike:
    """The array in an ``.npy`` file or a member of an archive: the very one whose header is looked at."""
    file.seek(0)
    if count is not None:
        major, _ = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        _check_claim(path, count, (*shape, dtype.itemsize) if shape else (0,), path.stat().st_size)
        file.seek(0)
    array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _check_claim(path: Path, count: int, claim: tuple[int, ...], packed: int) -> None:
    """Refuse another number of images than there must be, or images far larger than their files are."""
    if claim[0] != count:
        raise InputError(f"{path} holds {claim[0]:,} images, but the task has {count:,}.")
    size, limit = math.prod(claim), max(FEW_BYTES, PACKED * packed)
    if size > limit:
        raise InputError(
            f"{path} claims {size:,} bytes of images, far more than its size makes likely ({limit:,}); "
            "ask whoever made the task for other files."
        )
