"""Samples without labels in files: yours to predict, and a task's public ones, which may be a stranger's.

A task's folder keeps them in ``public.npz``, as arrays without pickled objects. ``kind`` and ``about`` are JSON that
says what they are; images, which were there first, do without. Signals are in ``public.npy``, which is not read but
mapped, and image files in the folder ``public``. What a stranger's file claims is compared before anything is unpacked.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedol.data.imagefiles import ImageFiles
from fedol.data.images import Images
from fedol.data.kinds import given_values
from fedol.data.own import called, files_of, load_images, read_array
from fedol.data.reading import Reading, unlabelled
from fedol.data.rows import holds_rows, read_rows
from fedol.data.samples import Samples
from fedol.data.signals import Signals
from fedol.data.tables import Table
from fedol.data.texts import Texts
from fedol.errors import InputError, cause
from fedol.files import write_atomically
from fedol.text import MOST, printable

KINDS: dict[str, type[Samples]] = {kind.kind: kind for kind in (Table, Texts)}
MOST_TOLD = 1 << 26  # bytes of JSON: a stranger's columns and their categories


def load_samples(path: Path, count: int | None = None, reading: Reading = Reading()) -> tuple[Samples, list[str]]:
    """Samples, and a name for each. Of a stranger's we know how many there must be: ``count``.

    With an image size, image files are made it, and stay where they are until they are needed.
    """
    if reading.image_size is not None and (files := files_of(path)):
        if count is not None and len(files) != count:
            raise InputError(f"{path} holds {len(files):,} images, but the task has {count:,}.")
        return ImageFiles.of(files, reading.image_size), [called(file, path) for file in files]
    if path.is_file() and holds_rows(path):
        with read_rows(path) as rows:
            found = unlabelled(rows, reading)
        if count is not None and len(found) != count:
            raise InputError(f"{path} holds {len(found):,} {found.kind}, but the task has {count:,}.")
        return found, [str(row) for row in range(1, len(found) + 1)]  # as errors count them
    if path.is_file() and told_kind(path) is not None:
        with _unpacking(path) as archive:
            found = _unpacked(path, archive, count)
            return found, _numbered(found)
    if path.suffix.lower() == ".npy" and (mapped := _mapped(path, count)) is not None:
        return mapped, _numbered(mapped)
    values, names = load_images(path, count)
    return given_values(values, str(path)), names


def told_kind(path: Path) -> str | None:
    """The kind of samples that a file says it holds, as ``store`` writes it, and a folder; None where nothing tells."""
    if path.is_dir():
        return Images.kind
    if not (path.is_file() and zipfile.is_zipfile(path)):
        return None
    with _unpacking(path) as archive:
        return str(_heard(archive, "kind")) if "kind.npy" in archive.namelist() else None


def _mapped(path: Path, count: int | None) -> Samples | None:
    """The floats of a file, which are read as they are needed; None where it holds others."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # whoever reads it as images says what is wrong
    if values.dtype.kind != "f" or values.ndim < 2:
        return None
    if count is not None and len(values) != count:
        raise InputError(f"{path} holds {len(values):,} samples, but the task has {count:,}.")
    return given_values(values, str(path))


def _numbered(found: Samples) -> list[str]:
    return [str(position) for position in range(len(found))]


def stored(folder: Path) -> Path:
    """Where a task's folder keeps the public samples, if it does."""
    several = (folder / "public", folder / "public.npy")
    return next((place for place in several if place.exists()), folder / "public.npz")


def store(given: Samples, folder: Path) -> None:
    """Keep the public samples in a task's folder, so that ``load_samples`` reads what is ``stored``."""
    if isinstance(given, ImageFiles):
        given.copied(folder / "public")
        return
    if isinstance(given, Signals):
        given.write(folder / "public.npy")
        return
    if isinstance(given, Images):
        arrays: dict[str, Any] = {"public": given.array()}
    else:
        about, arrays = given.packed()
        arrays = {"kind": _told(given.kind), "about": _told(about), **arrays}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(stored(folder), buffer.getvalue())


def _told(value: Any) -> np.ndarray:
    """A plain value as bytes of JSON."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


@contextmanager
def _unpacking(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive; whatever goes wrong within means that it is damaged, or a stranger's trick."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except Exception as error:  # a broken file can fail anywhere inside an archive or a header
        raise InputError(f"{path} cannot be read as samples ({printable(cause(error), MOST)}); get another.") from None


def _unpacked(path: Path, archive: zipfile.ZipFile, count: int | None) -> Samples:
    kind = KINDS.get(_heard(archive, "kind"))
    if kind is None:
        raise InputError("their kind is unknown to this version of FedOL")
    arrays = {}
    for name in kind.members:
        with archive.open(f"{name}.npy") as member:
            arrays[name] = np.asarray(
                read_array(member, path, count if name == kind.members[0] else None, count is not None)
            )
    return kind.unpacked(_heard(archive, "about"), arrays)


def _heard(archive: zipfile.ZipFile, name: str) -> Any:
    """What ``_told`` wrote."""
    with archive.open(f"{name}.npy") as member:
        data = member.read(MOST_TOLD)
    told = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if told.dtype != np.uint8:
        raise InputError("a description is not text")
    return json.loads(told.tobytes())
