"""CIFAR-10 and CIFAR-100 as published: a folder or archive that is there, or a download; checksums verified."""

from __future__ import annotations

import _codecs
import hashlib
import io
import math
import pickle
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import Dataset
from fedol.errors import InputError
from fedol.progress import watched

# Taken from an array itself: where NumPy keeps this function differs between its versions.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _codecs.encode,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not an array") from None


def load_arrays(data: bytes) -> Any:
    """Unpickle arrays, strings, numbers and containers of these; anything else is an ``UnpicklingError``."""
    return _ArraysOnly(io.BytesIO(data), encoding="latin1").load()


CACHE = Path("~/.cache/fedol")
PIECE = 2**20  # bytes of a download between two moves of the progress bar


@dataclass(frozen=True)
class Source:
    """Where one of the two datasets is published and what its files are, with their md5 sums."""

    name: str
    folder: str
    url: str
    md5: str
    train: Mapping[str, str]
    test: Mapping[str, str]
    meta: Mapping[str, str]
    label_key: str
    names_key: str

    @property
    def files(self) -> dict[str, str]:
        """Every file with its md5 sum."""
        return {**self.train, **self.test, **self.meta}


CIFAR10 = Source(
    name="cifar10",
    folder="cifar-10-batches-py",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    meta={"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"},
    label_key="labels",
    names_key="label_names",
)
CIFAR100 = Source(
    name="cifar100",
    folder="cifar-100-python",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    md5="eb9058c3a382ffc7106e4002c42a8d85",
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    meta={"meta": "7973b15100ade9c7d40fb424638fde48"},
    label_key="fine_labels",
    names_key="fine_label_names",
)


def load_cifar10(data_dir: Path | None = None) -> Dataset:
    """50,000 training and 10,000 test images, 32x32 RGB, 10 classes."""
    return load_source(CIFAR10, data_dir)


def load_cifar100(data_dir: Path | None = None) -> Dataset:
    """50,000 training and 10,000 test images, 32x32 RGB, 100 (fine) classes."""
    return load_source(CIFAR100, data_dir)


def load_source(source: Source, data_dir: Path | None = None) -> Dataset:
    """Read the canonical folder in ``data_dir`` (or that is it), else unpack the archive there, else download it."""
    folder = _locate(source, CACHE.expanduser() if data_dir is None else data_dir)
    train_x, train_y = _part(source, folder, source.train)
    test_x, test_y = _part(source, folder, source.test)
    ((meta, md5),) = source.meta.items()
    (classes,) = _read(folder / meta, md5, source.names_key)
    return Dataset.from_arrays(train_x, train_y, test_x, test_y, classes, source.name)


def _part(source: Source, folder: Path, files: Mapping[str, str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The images and labels of the training or the test files."""
    batches = [_read(folder / name, md5, "data", source.label_key) for name, md5 in files.items()]
    images, labels = (np.concatenate(pieces) for pieces in zip(*batches, strict=True))
    return images.reshape(-1, 3, 32, 32), labels


def _read(path: Path, md5: str, *keys: str) -> list[Any]:
    """These entries of one published file; the checksum comes before the unpickling."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); get a fresh copy of its folder.") from error
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
        raise InputError(f"{path} is not the published file (its md5 sum is not {md5}); get a fresh copy.")
    try:
        content = load_arrays(data)
        return [content[key] for key in keys]
    except Exception as error:  # a pickle can be broken in any way
        raise InputError(f"{path} is not a CIFAR file ({error}); get a fresh copy of its folder.") from error


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and take it away again where nothing came into it: its name may be mistyped."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for place in new:
            with suppress(OSError):  # it holds something
                place.rmdir()


def _locate(source: Source, data_dir: Path) -> Path:
    """The folder with the published files, unpacked or downloaded first where it must be."""
    for folder in (data_dir, data_dir / source.folder):
        if any((folder / name).is_file() for name in source.files):
            return folder
    archive = data_dir / source.url.rpartition("/")[2]
    try:
        with _made(data_dir), tempfile.TemporaryDirectory(dir=data_dir, prefix=".unpack-") as scratch:
            if not archive.is_file():
                archive = _download(source.url, Path(scratch) / archive.name, data_dir)
            _unpack(archive, source, Path(scratch))
            try:
                (Path(scratch) / source.folder).rename(data_dir / source.folder)
            except OSError:
                if not (data_dir / source.folder).is_dir():  # else another process was faster
                    raise
    except OSError as error:
        raise InputError(f"{source.name} cannot be put in {data_dir} ({error}); give another --data-dir.") from error
    return data_dir / source.folder


def _unpack(archive: Path, source: Source, into: Path) -> None:
    with archive.open("rb") as stream:
        if hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() != source.md5:
            raise InputError(
                f"{archive} is not the published archive (its md5 sum is not {source.md5}); get a fresh copy."
            )
    missing = {f"{source.folder}/{name}" for name in source.files}
    try:
        (into / source.folder).mkdir()
        with tarfile.open(archive) as tar:  # by hand: extractall has no filter before Python 3.11.4
            for member in tar:
                if member.isfile() and member.name in missing and (file := tar.extractfile(member)):
                    (into / member.name).write_bytes(file.read())
                    missing.remove(member.name)
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{archive} cannot be unpacked ({error}); get a fresh copy.") from error
    if missing:
        raise InputError(f"{archive} cannot be unpacked (it has no {min(missing)}); get a fresh copy.")


def _download(url: str, to: Path, data_dir: Path) -> Path:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer, to.open("wb") as file:
            pieces = iter(lambda: answer.read(PIECE), b"")
            length = int(answer.headers.get("Content-Length", 0))
            for piece in watched(pieces, "downloading", math.ceil(length / PIECE) or None):
                file.write(piece)
    except (OSError, HTTPException) as error:  # URLError is an OSError
        raise InputError(
            f"{to.name} is not in {data_dir} and could not be downloaded from {url} ({error}); put the file there."
        ) from error
    return to
