"""Sounds: WAV files in a folder of each class, as signals; or what a transform of yours makes of each."""

from __future__ import annotations

import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data.classfolders import ClassFolders
from fedol.data.dataset import Dataset, Labelled
from fedol.data.signals import Signals
from fedol.errors import InputError, cause, measures
from fedol.progress import watched

Floats = npt.NDArray[np.float32]
Transform = Callable[[Floats, int], Any]  # from samples [channels, frames] and their rate to [channels, ...]
SUFFIX = ".wav"


def holds_waves(path: Path) -> bool:
    """Whether a folder has a WAV file where ``load_waves`` looks."""
    return any(next(path.glob(f"{place}/*{SUFFIX}"), None) for place in ("*", "*/*"))


def load_waves(path: Path, transform: Transform | None = None) -> Dataset:
    """``train/CLASS/*.wav`` and ``test/CLASS/*.wav``, or ``CLASS/*.wav`` of which a fifth is held out."""
    found = ClassFolders.of(path, (SUFFIX,), "WAV")
    values = read_waves(found.files, transform)
    parts = slice(found.cut), slice(found.cut, None)
    train, test = (Labelled(values.take(part), found.labels[part]) for part in parts)
    return Dataset(path.resolve().name, train, test, found.classes)


def read_waves(files: Sequence[Path], transform: Transform | None = None) -> Signals:
    """All files as float32 [N, channels, ...] in their order, all of one shape."""
    if not files:
        raise InputError("There are no WAV files; give one or more.")
    rows: list[Floats] = []
    for file in watched(files, "reading sounds"):
        row = _transformed(file, transform)
        if rows and row.shape != rows[0].shape:
            raise InputError(
                f"{file} gives {measures(row.shape)} but {files[0]} {measures(rows[0].shape)}; cut them to one length, "
                "or let a transform do it."
            )
        rows.append(row)
    return Signals.of(np.stack(rows), str(files[0].parent))


def _transformed(file: Path, transform: Transform | None) -> Floats:
    values, rate = read_wave(file)
    if transform is None:
        return values
    try:
        made = np.asarray(transform(values, rate), dtype=np.float32)
    except Exception as error:  # other people's code
        raise InputError(f"The transform fails on {file}: {cause(error)}.") from error
    if made.ndim < 1 or not made.size or not np.isfinite(made).all():
        raise InputError(f"The transform makes {list(made.shape)} of {file}; it must give finite numbers.")
    return made[None] if made.ndim == 1 else made


def read_wave(file: Path) -> tuple[Floats, int]:
    """A file's samples in [-1, 1), float32 [channels, frames], and their rate: PCM of 8 to 32 bits."""
    try:
        with wave.open(str(file), "rb") as sound:
            channels, width, rate, frames = sound.getparams()[:4]
            data = sound.readframes(frames)
    except (wave.Error, EOFError, OSError) as error:
        raise InputError(f"{file} cannot be read as WAV ({cause(error)}); convert it to PCM.") from error
    if not data or len(data) % (channels * width):
        raise InputError(f"{file} holds no whole sample; replace or remove it.")
    octets = np.frombuffer(data, np.uint8).reshape(-1, width)
    if width == 1:  # the only width without a sign
        values = (octets[:, 0].astype(np.float32) - 128) / 128
    else:
        high = np.zeros((len(octets), 4), np.uint8)
        high[:, 4 - width :] = octets  # little-endian: the upper bytes of an int32
        values = (high.view("<i4")[:, 0] / 2**31).astype(np.float32)
    return np.ascontiguousarray(values.reshape(-1, channels).T), rate
