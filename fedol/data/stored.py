"""Samples without labels in files: yours to predict, and a task's public ones, which may be a stranger's.

A task's folder keeps them in ``public.npz``, as arrays without pickled objects; the array ``kind`` says of what kind
they are, and images, which were there first, do without. What a stranger's file claims is compared before anything is
unpacked.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedol.data.columns import CATEGORY, NUMBER, Column
from fedol.data.images import Images
from fedol.data.kinds import of_values
from fedol.data.own import load_images, read_array
from fedol.data.reading import Reading, unlabelled
from fedol.data.rows import holds_rows, read_rows
from fedol.data.samples import Samples
from fedol.data.tables import Table
from fedol.errors import InputError, cause
from fedol.files import write_atomically
from fedol.text import MOST, is_text, printable

MOST_TOLD = 1 << 26  # bytes of a stranger's columns and their categories


def load_samples(path: Path, count: int | None = None, reading: Reading = Reading()) -> tuple[Samples, list[str]]:
    """Samples, and a name for each. Of a stranger's we know how many there must be: ``count``."""
    if path.is_file() and holds_rows(path):
        with read_rows(path) as rows:
            found = unlabelled(rows, reading)
        if count is not None and len(found) != count:
            raise InputError(f"{path} holds {len(found):,} {found.kind}, but the task has {count:,}.")
        return found, _numbered(found)
    if (kind := _kind(path)) is not None:
        if kind not in READERS: dict[str, Callable[[Path, zipfile.ZipFile, int | None], Samples]] = {"tables": _read_table}
