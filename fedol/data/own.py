"""Images of your own: labelled or not, as folders or as arrays in an ``.npz`` or ``.npy`` file.

Labelled ones become a dataset. What has no labels may be a stranger's (a task's public samples), so what a file claims
is compared before anything is unpacked.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch

from fedol.data.classfolders import ClassFolders, by_class, chosen
from fedol.data.dataset import Dataset, Labelled
from fedol.data.decoding import DICOM, opened
from fedol.data.imagefiles import ImageFiles
from fedol.data.images import Images
from fedol.errors import InputError, cause
from fedol.progress import watched
from fedol.text import MOST, printable

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", DICOM})
Pixels = npt.NDArray[np.uint8]


def load_folder(path: Path | None, image_size: int | None = None) -> Dataset:
    """Read ``train/CLASS/*`` and ``test/CLASS/*``, or ``CLASS/*`` with a fixed fifth of each class held out for test.

    All images must have one size: with an ``image_size`` they are made it, and stay in their files until they are
    needed. The images are grey where all of them are, else RGB. ``ClassFolders`` says which are held out.
    """
    if path is None:
        raise InputError("The dataset 'folder' needs a folder; give it as the data directory (--data-dir FOLDER).")
    found, title = ClassFolders.of(path, SUFFIXES, "image"), path.resolve().name
    cut, labels = found.cut, found.labels
    if image_size is not None:
        large = ImageFiles.of(found.files, image_size)
        train_part, test_part = (Labelled(large.take(s), labels[s]) for s in (slice(cut), slice(cut, None)))
        return Dataset(title, train_part, test_part, found.classes)
    images = read_images(found.files)
    return Dataset.from_arrays(images[:cut], labels[:cut], images[cut:], labels[cut:], found.classes, title)


def image_files(root: Path, entries: Iterable[Path]) -> list[Path]:
    """The images among a folder's entries, sorted; hidden names and other kinds of file are passed over."""
    return chosen(root, entries, SUFFIXES)


def read_images(files: list[Path]) -> Pixels:
    """All images as uint8 [N, C, H, W], one channel where every file is grey, else three."""
    images: list[Pixels] = []
    for file in watched(files, "reading images"):
        if file.suffix.lower() == DICOM:
            raise InputError(f"{file} is a DICOM image, which are made one size as they are read; give --image-size.")
        with opened(file) as image:
            images.append(_pixels(image, file))
        if images[-1].shape[1:] != images[0].shape[1:]:
            sizes = ["x".join(map(str, shape.shape[:0:-1])) for shape in (images[-1], images[0])]
            raise InputError(
                f"{file} is {sizes[0]} pixels but {files[0]} is {sizes[1]}; resize them to one size, or say which with "
                "--image-size."
            )
    channels = max(len(image) for image in images)
    return np.stack([np.broadcast_to(image, (channels, *image.shape[1:])) for image in images])


def image_shape(file: Path) -> tuple[int, int, int]:
    """What an image would be at most once it is read: channels, height, width, by its header alone."""
    with opened(file) as image:
        return 3, image.height, image.width


def _pixels(image: Any, file: Path) -> Pixels:
    """One opened image as [1, H, W] or [3, H, W]."""
    if image.mode.startswith(("I", "F")):  # Pillow would clip these to 255 without a word
        raise InputError(
            f"{file} has more than 8 bits per pixel (mode {image.mode}); convert it to 8 bits, or keep them all with "
            "--image-size."
        )
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("L"), dtype=np.uint8)[None]
    return np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)


ARRAYS = ("train_x", "train_y", "test_x", "test_y")


def load_npy(folder: Path) -> Dataset:
    """The same four as ``.npy`` files in a folder: what the samples of floats are stays on the disk."""
    found = []
    for name in ARRAYS:
        file = folder / f"{name}.npy"
        try:
            found.append(np.load(file, mmap_mode="r" if name.endswith("x") else None, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{file} cannot be read as an array ({cause(error)}); save it with numpy.save.") from None
    train_x, train_y, test_x, test_y = found
    return Dataset.from_arrays(train_x, train_y, test_x, test_y, name=folder.resolve().name)


def load_npz(path: Path | None) -> Dataset:
    """Read the four arrays, and ``classes`` and ``groups`` where they are there; pickled objects are refused."""
    if path is None:
        raise InputError("The dataset 'npz' needs a file; give it as the data directory (--data-dir FILE.npz).")
    (train_x, train_y, test_x, test_y), classes, groups = _arrays(path, ARRAYS)
    return Dataset.from_arrays(train_x, train_y, test_x, test_y, classes, path.stem, groups)


def load_test(path: Path, image_size: int | None = None) -> Dataset:
    """Only ``test_x`` and ``test_y``, or a folder ``CLASS/*``: labelled images to score a model with, as both parts."""
    if path.is_dir():
        folders = by_class(path, SUFFIXES, "image")
        files = [file for name in folders for file in folders[name]]
        labels = np.repeat(np.arange(len(folders)), [len(folders[name]) for name in folders])
        given = Images(torch.from_numpy(read_images(files))) if image_size is None else ImageFiles.of(files, image_size)
        return Dataset(path.name, Labelled(given, labels), Labelled(given, labels), tuple(folders))
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


UNLABELLED = ("public", "images", "x", "test_x", "train_x")  # the first of these that an archive has counts
# Bytes that a stranger's array may have in memory: so much in any case, and so many times its file's size. Deflate
# packs a thousand to one at most; photographs hardly at all, drawings ten to one.
FEW_BYTES, PACKED = 1 << 28, 100
LISTED = 80  # characters of the names that an archive holds


def load_images(path: Path, count: int | None = None) -> tuple[npt.NDArray[Any], list[str]]:
    """Images, or the values of an array, and a name for each: its path in the folder, or its position in the array.

    A folder's files are taken in the order of their paths, subfolders included, hidden ones not. An ``.npz`` file holds
    one array, or several of which the first of ``UNLABELLED`` counts. Of a stranger's images we know their ``count``:
    then what they claim is compared before anything is unpacked.
    """
    if files := files_of(path):
        if count is not None:
            _check_claim(path, count, (len(files), *image_shape(files[0])), sum(f.stat().st_size for f in files))
        return np.ascontiguousarray(read_images(files)), [called(file, path) for file in files]
    values = np.atleast_1d(np.asarray(_array(path, count)))
    return values, [str(position) for position in range(len(values))]


def files_of(path: Path) -> list[Path]:
    """A folder's images, subfolders included, or the one image that this is; none where it is something else."""
    if path.is_dir():
        files = image_files(path, path.rglob("*"))
        if not files:
            raise InputError(f"{path} holds no image files; give a folder of images, an .npz or an .npy file.")
        return files
    return [path] if path.suffix.lower() in SUFFIXES and path.is_file() else []


def called(file: Path, path: Path) -> str:
    """A file's name, or its path in a folder."""
    return file.name if file == path else str(file.relative_to(path))


def _array(path: Path, count: int | None) -> npt.ArrayLike:
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                return read_array(file, path, count)
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            names = [name for name in UNLABELLED if name in members] or list(members)
            if not names or (len(members) > 1 and names[0] not in UNLABELLED):
                held = printable(", ".join(members), LISTED) or "nothing"
                raise InputError(f"{path} holds {held}; name the images 'images'.")
            with archive.open(members[names[0]]) as member:
                return read_array(member, path, count)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no {path}; give a folder of images, an .npz or an .npy file.") from None
    except Exception as error:  # a broken file can fail anywhere inside an archive or a header
        why = printable(cause(error), MOST)
        raise InputError(f"{path} cannot be read as images ({why}); give a folder, .npz or .npy.") from None


def read_array(file: IO[bytes], path: Path, count: int | None, stranger: bool = False) -> npt.ArrayLike:
    """The array in an ``.npy`` file or a member of an archive: the very one whose header is looked at.

    A ``stranger``'s may have any length, where no ``count`` is given, but not any size.
    """
    file.seek(0)
    if stranger or count is not None:
        major, _ = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        _check_claim(path, count, (*shape, dtype.itemsize) if shape else (0,), path.stat().st_size)
        file.seek(0)
    array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _check_claim(path: Path, count: int | None, claim: tuple[int, ...], packed: int) -> None:
    """Refuse another number of samples than there must be, or samples far larger than their files are."""
    if count is not None and claim[0] != count:
        raise InputError(f"{path} holds {claim[0]:,} samples, but the task has {count:,}.")
    size, limit = math.prod(claim), max(FEW_BYTES, PACKED * packed)
    if size > limit:
        raise InputError(
            f"{path} claims {size:,} bytes of samples, far more than its size makes likely ({limit:,}); "
            "ask whoever made the task for other files."
        )
