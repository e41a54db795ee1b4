"""Images in files, as many and as large as the disk holds: decoded batch by batch, ahead of whoever needs them.

Threads decode: Pillow and zlib let go of Python's lock, so that processes are no faster and copy every pixel once more
(measured: benchmarks/large_images.py).
"""

from __future__ import annotations

import hashlib
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.data.decoding import BYTE, DEEP, Form, Pixels, check_size, decoded, looked_at
from fedol.data.images import ImageBatches, Images, Normalisation, augmentations, channel_statistics, pasted, shrunk
from fedol.data.samples import Batches, Index, Preprocessing, Samples, Shape, Step
from fedol.errors import InputError
from fedol.progress import watched

AHEAD = 2  # batches that are being decoded while one is used
PIECE = 64  # images that are decoded at once where nobody says how many
FITTED = 1024  # public images, evenly spaced, that the normalisation is fitted to
THUMBNAIL = 64  # pixels of a picture in a report


@dataclass(frozen=True, eq=False)
class ImageFiles(Samples):
    """Image files of any size, all made one form as they are read."""

    kind: ClassVar[str] = "images"
    on_disk: ClassVar[bool] = True
    files: tuple[Path, ...]
    form: Form

    @classmethod
    def of(cls, files: Iterable[Path], size: int) -> ImageFiles:
        """These files; every header is looked at. Colour where one of them has any; 16 bits where all have."""
        check_size(size)
        files = tuple(files)
        looks = list(watched(_pool().map(looked_at, files), "looking at images", len(files)))
        depths = [levels for _, levels in looks]
        if len(set(depths)) > 1:
            odd = depths.index(DEEP if depths[0] == BYTE else BYTE)
            bits = [16 if depths[place] == DEEP else 8 for place in (odd, 0)]
            raise InputError(
                f"{files[odd]} has {bits[0]} bits per pixel but {files[0]} has {bits[1]}; convert them to one depth."
            )
        return cls(files, Form(size, max(channels for channels, _ in looks), depths[0]))

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shape(self) -> Shape:
        """Channels, height and width, as they are read."""
        return self.form.channels, self.form.size, self.form.size

    @property
    def image_size(self) -> int:
        """Height and width, as they are read."""
        return self.form.size

    @property
    def detail(self) -> str:
        """How deep they are, where that is unusual."""
        return "16 bits" if self.form.levels == DEEP else ""

    @property
    def fingerprint(self) -> str:
        """Of the files' bytes in their order, and the form; not of their names."""
        return hashlib.sha256("".join(self.digests()).encode()).hexdigest()

    def digests(self) -> list[str]:
        """Of each file's bytes and the form. A file is read again only where it has changed since."""
        found = watched(_pool().map(_digest, self.files), "fingerprints", len(self.files))
        return [f"{digest}{self.form}" for digest in found]

    def take(self, index: Index) -> ImageFiles:
        """The files at these positions."""
        if isinstance(index, slice):
            return replace(self, files=self.files[index])
        return replace(self, files=tuple(self.files[i] for i in np.arange(len(self))[np.asarray(index)]))

    def joined(self, others: ImageFiles) -> ImageFiles:
        """Both."""
        return replace(self, files=self.files + others.files)

    def stream(self, parts: Iterable[Sequence[int] | slice]) -> Iterator[Tensor]:
        """The parts one after the other, [n, channels, size, size]; the next ones are being decoded meanwhile."""
        under_way: deque[list[Future[Pixels]]] = deque()
        try:
            for part in parts:
                under_way.append([_pool().submit(decoded, file, self.form) for file in self.take(part).files])
                if len(under_way) > AHEAD:
                    yield _stacked(under_way.popleft())
            while under_way:
                yield _stacked(under_way.popleft())
        finally:
            for future in (each for part in under_way for each in part):
                future.cancel()

    def batch(self, index: Tensor | slice) -> Tensor:
        """[n, channels, size, size]."""
        (found,) = self.stream([index if isinstance(index, slice) else index.tolist()])
        return found

    def array(self) -> Pixels:
        """All of them, in memory."""
        empty: Pixels = np.empty((len(self), *self.shape), self.form.dtype)
        for place, part in zip(_pieces(len(self)), self.stream(_pieces(len(self))), strict=True):
            empty[place] = part.numpy()
        return empty

    def floats(self) -> npt.NDArray[np.float32]:
        """In [0, 1], in memory."""
        return super().floats() / np.float32(self.form.levels)

    def pictures(self) -> npt.NDArray[np.uint8]:
        """Thumbnails; of 16 bits, each from its darkest to its brightest value."""
        small = replace(self, form=replace(self.form, size=min(THUMBNAIL, self.form.size))).array()
        if self.form.levels == BYTE:
            return small.astype(np.uint8)
        low, high = (end((1, 2, 3), keepdims=True).astype(np.float32) for end in (small.min, small.max))
        stretched: npt.NDArray[np.uint8] = np.rint((small - low) / np.maximum(high - low, 1) * BYTE).astype(np.uint8)
        return stretched

    def fit(self, public: ImageFiles | None = None) -> Normalisation:
        """To a mean of 0 and a deviation of 1 per channel, by the public images, where they are known."""
        given = self if public is None else public
        few = given.take(np.unique(np.linspace(0, len(given) - 1, min(len(given), FITTED)).astype(int)))
        pieces = watched(few.stream(_pieces(len(few))), "statistics", len(_pieces(len(few))))
        mean, std = channel_statistics((piece.numpy() for piece in pieces), self.form.levels)
        return Normalisation(mean, std, self.form.levels, self.form.size)

    def unfitted(self) -> Normalisation:
        """To -1 ... 1."""
        half = (0.5,) * self.form.channels
        return Normalisation(half, half, self.form.levels, self.form.size)

    def on(self, device: torch.device, prepare: Preprocessing) -> Batches:
        """Read as they are needed."""
        assert isinstance(prepare, Normalisation)
        return FileBatches(self, prepare, device)

    def views(self, count: int, generator: torch.Generator) -> Tensor:
        """As of images in memory."""
        return augmentations(self.shape, count, generator)

    def patches(self, how: str, count: int, generator: torch.Generator) -> Tensor:
        """As of images in memory."""
        return pasted(self.shape, len(self), how, count, generator)

    def copied(self, folder: Path) -> None:
        """Copy the files, by number: their names may say what is to be found out."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, file in enumerate(watched(self.files, "copying images")):
            shutil.copyfile(file, folder / f"{number:07}{file.suffix.lower()}")

    def smaller(self, batch: Tensor, scale: float) -> Tensor:
        """As of images in memory."""
        return shrunk(batch, scale)


class FileBatches(Batches):
    """A batch is decoded, then seen as one of images in memory; an epoch's are decoded while others train."""

    def __init__(self, images: ImageFiles, normalise: Normalisation, device: torch.device) -> None:
        self._images, self._normalise, self._device = images, normalise, device

    def __call__(self, index: Tensor, view: Tensor | None, patch: Tensor | None = None, mix: bool = False) -> Tensor:
        """One batch by itself."""
        (found,) = self.epoch([(index, view, patch)], mix)
        return found

    def epoch(self, steps: Sequence[Step], mix: bool = False) -> Iterator[Tensor]:
        """Every batch in turn, of cutmix with the images that boxes are pasted from."""
        needed = (torch.cat([index, patch[:, 0]]) if mix and patch is not None else index for index, _, patch in steps)
        decoding = self._images.stream(wanted.tolist() for wanted in needed)
        for pixels, (index, view, patch) in zip(decoding, steps, strict=True):
            places = torch.arange(len(index), device=self._device)
            if mix and patch is not None:
                patch = torch.cat([len(index) + places[:, None], patch[:, 1:]], 1)
            yield ImageBatches(Images(pixels), self._normalise, self._device)(places, view, patch, mix)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="images")


def _stacked(images: list[Future[Pixels]]) -> Tensor:
    return torch.from_numpy(np.stack([image.result() for image in images]))


def _pieces(count: int) -> list[slice]:
    return [slice(start, start + PIECE) for start in range(0, count, PIECE)]


def _digest(file: Path) -> str:
    try:
        about = file.stat()
        return _read_digest(file, about.st_mtime_ns, about.st_size)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); replace or remove it.") from None


@cache
def _read_digest(file: Path, changed: int, size: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
