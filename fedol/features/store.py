"""Features on disk: what an encoder said of a sample is looked up by the sample's hash, and never computed twice.

A store is a folder of one encoder, ``~/.cache/fedol/features/ID`` (or below ``FEDOL_CACHE``), only for its owner: what
private samples were turned into is private. Its files hold hashes beside float16 rows, and are read as they are needed.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.data.samples import Samples
from fedol.files import write_atomically
from fedol.progress import watched

FEW = 16  # samples that are not worth a file
CHUNK = 512  # samples of a file
Encode = Callable[[Samples], Tensor]
"""Samples to features, float16 [n, features]."""


def cached() -> Path:
    """Where everything is kept that can be computed again."""
    return Path(os.environ.get("FEDOL_CACHE", "~/.cache/fedol")).expanduser()


@cache
def store(folder: Path) -> Store:
    """The one store of a folder in this process."""
    return Store(folder)


class Store:
    """Features of one encoder by the hashes of samples."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self._files: dict[Path, npt.NDArray[np.void]] = {}
        self._rows: dict[bytes, tuple[Path, int]] = {}

    def features(self, given: Samples, encode: Encode) -> Tensor:
        """float16 [N, features], of which only what is new is computed: piece by piece, each kept at once."""
        if len(given) < FEW:
            return encode(given)
        keys = [digest.encode() for digest in given.digests()]
        with self._lock:  # two clients in training may want the same public samples
            self._look()
            new = [place for place, key in enumerate(keys) if key not in self._rows]
            new = list({keys[place]: place for place in new}.values())
            pieces = [new[start : start + CHUNK] for start in range(0, len(new), CHUNK)]
            for piece in watched(pieces, "encoding") if pieces else ():
                self._keep([keys[place] for place in piece], encode(given.take(piece)))
        return torch.from_numpy(np.concatenate(list(self._gathered(keys))))

    def _gathered(self, keys: Sequence[bytes]) -> Iterator[npt.NDArray[np.float16]]:
        """Rows in order; neighbours in one file are read together."""
        found = [self._rows[key] for key in keys]
        start = 0
        for end in range(1, len(found) + 1):
            if end == len(found) or found[end][0] != found[start][0]:
                yield self._files[found[start][0]]["row"][[row for _, row in found[start:end]]]
                start = end

    def _keep(self, keys: list[bytes], rows: Tensor) -> None:
        kept = np.empty(len(keys), [("key", f"S{max(map(len, keys))}"), ("row", "<f2", (rows.shape[1],))])
        kept["key"], kept["row"] = keys, rows.numpy()
        buffer = io.BytesIO()
        np.save(buffer, kept)
        path = self._folder / f"{hashlib.sha256(b''.join(keys)).hexdigest()[:24]}.npy"
        write_atomically(path, buffer.getvalue(), private=True)
        self._open(path)

    def _look(self) -> None:
        """Open what this or another process has written since."""
        for path in sorted(set(self._folder.glob("[!.]*.npy")) - self._files.keys()):
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            rows = np.load(path, mmap_mode="r", allow_pickle=False)
            keys = rows["key"].tolist()
        except (OSError, ValueError, IndexError):  # damaged: what it held is computed again
            path.unlink(missing_ok=True)
            return
        self._files[path] = rows
        self._rows.update({key: (path, row) for row, key in enumerate(keys)})
