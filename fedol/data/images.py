"""Images in memory: normalised per channel, and augmented by flips, crops and patches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from fedol.core.arrays import Array, fingerprint, to_tensor
from fedol.data.decoding import BYTE, DEEP, LARGEST_SIZE, Pixels
from fedol.data.likeness import Likeness, Pictures
from fedol.data.samples import Batches, Index, Preprocessing, Samples, Shape, register
from fedol.errors import InputError

PIECE = 1024  # images that are counted at once: counting widens them to int64
SMALL = 1 << 26  # bytes of float32 images that a CPU keeps normalised, rather than normalise them batch by batch


@register
@dataclass(frozen=True)
class Normalisation(Preprocessing):
    """Per-channel mean and standard deviation on the [0, 1] scale.

    ``levels`` is the brightest value, and ``image_size`` what image files are made;
    None where all images have one size.
    """

    kind: ClassVar[str] = "images"
    mean: tuple[float, ...]
    std: tuple[float, ...]
    levels: int = BYTE
    image_size: int | None = None

    def __call__(self, batch: Tensor) -> Tensor:
        """uint8 or uint16 [n, C, H, W] -> normalised float32."""
        mean = torch.tensor(self.mean, device=batch.device)[:, None, None]
        std = torch.tensor(self.std, device=batch.device)[:, None, None]
        return (batch.float() / self.levels - mean) / std

    def blank(self, shape: Shape) -> Tensor:
        """Two black images."""
        return torch.zeros(2, *shape, dtype=self._dtype)

    def header(self) -> dict[str, Any]:
        """Mean and deviation; depth and size where they are unusual."""
        unusual = ({"levels": self.levels} if self.levels != BYTE else {}) | (
            {"image_size": self.image_size} if self.image_size else {}
        )
        return {"mean": list(self.mean), "std": list(self.std), **unusual}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Self:
        """A number for each channel."""
        if len(shape) != 3:
            raise InputError("the shape of its images or its width makes no sense")
        mean, std = header["mean"], header["std"]
        for scale in (mean, std):
            if not (isinstance(scale, list) and len(scale) == shape[0] and all(map(_finite, scale))):
                raise InputError("the mean or the deviation of its pixels makes no sense")
        if min(std) <= 0:
            raise InputError("the deviation of its pixels is not above 0")
        levels, size = header.get("levels", BYTE), header.get("image_size")
        sensible = size is None or (type(size) is int and 1 <= size <= LARGEST_SIZE)
        if levels not in (BYTE, DEEP) or not sensible:
            raise InputError("the depth or the size of its images makes no sense")
        return cls(tuple(map(float, mean)), tuple(map(float, std)), levels, size)

    def accept(self, values: Samples | Array, shape: Shape) -> Samples:
        """Images of this shape."""
        if not isinstance(values, Samples):
            tensor = to_tensor(values, "images")
            if tensor.dtype != self._dtype:  # they would be divided by the brightest value again
                own, theirs = (str(dtype).removeprefix("torch.") for dtype in (self._dtype, tensor.dtype))
                raise InputError(
                    f"The model takes images as {own}, 0 to {self.levels}, but these are {theirs}; convert them."
                )
            values = Images(tensor)
        given = super().accept(values, shape)
        if bool(given.detail) != (self.levels == DEEP):
            bits = (16, 8) if self.levels == DEEP else (8, 16)
            raise InputError(f"The model takes images of {bits[0]} bits, but these have {bits[1]}; convert them.")
        return given

    @property
    def _dtype(self) -> torch.dtype:
        return torch.uint16 if self.levels == DEEP else torch.uint8


@dataclass(frozen=True, eq=False)
class Images(Samples):
    """Images of one size in memory."""

    kind: ClassVar[str] = "images"
    values: Tensor  # uint8 or, where 16 bits are kept, uint16 [N, channels, H, W]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> Shape:
        """Channels, height and width."""
        return tuple(self.values.shape[1:])

    @property
    def detail(self) -> str:
        """How deep they are, where that is unusual."""
        return "16 bits" if self.levels == DEEP else ""

    @property
    def levels(self) -> int:
        """The brightest value."""
        return DEEP if self.values.dtype == torch.uint16 else BYTE

    @property  # not kept: whoever made the images may write into them
    def fingerprint(self) -> str:
        """Of the pixels in their order."""
        return fingerprint(self.array())

    def take(self, index: Index) -> Images:
        """The images at these positions."""
        if isinstance(index, slice) or self.values.device.type != "cpu":
            return Images(self.values[index if isinstance(index, slice) else torch.as_tensor(index)])
        # NumPy keeps the strides of a single channel, PyTorch does not. They change no value, but a convolution chooses
        # its kernel by them: the last bits of what ``fedavg-bn`` measures on grey images.
        return Images(torch.from_numpy(self.values.numpy()[np.asarray(index)]))

    def joined(self, others: Images) -> Images:
        """Both."""
        return Images(torch.cat([self.values, others.values]))

    def batch(self, index: Tensor | slice) -> Tensor:
        """uint8 [n, channels, H, W]."""
        return self.values[index]

    def array(self) -> Pixels:
        """[N, channels, H, W]; on the CPU the very memory."""
        pixels: Pixels = self.values.cpu().numpy()
        return pixels

    def floats(self) -> npt.NDArray[np.float32]:
        """In [0, 1]."""
        return super().floats() / np.float32(self.levels)

    def pictures(self) -> npt.NDArray[np.uint8]:
        """Themselves; of 16 bits, the upper eight."""
        return self.array().astype(np.uint8) if self.levels == BYTE else (self.array() >> 8).astype(np.uint8)

    def likenesses(self, public: Images) -> list[Likeness]:
        """As pictures, whatever their brightness and contrast and a small shift."""
        return [Pictures()]

    def fit(self, public: Images | None = None) -> Normalisation:
        """To a mean of 0 and a deviation of 1 per channel, each site's images by themselves."""
        pixels = self.array()
        pieces = (pixels[start : start + PIECE] for start in range(0, len(pixels), PIECE))
        return Normalisation(*channel_statistics(pieces, self.levels), self.levels)

    def unfitted(self) -> Normalisation:
        """To -1 ... 1."""
        half = (0.5,) * self.shape[0]
        return Normalisation(half, half, self.levels)

    def on(self, device: torch.device, prepare: Preprocessing) -> Batches:
        """Pixels on the device."""
        assert isinstance(prepare, Normalisation)
        return ImageBatches(self, prepare, device)

    def views(self, count: int, generator: torch.Generator) -> Tensor:
        """As ``augmentations`` draws them."""
        return augmentations(self.shape, count, generator)

    def patches(self, how: str, count: int, generator: torch.Generator) -> Tensor:
        """As ``pasted`` draws them."""
        return pasted(self.shape, len(self), how, count, generator)

    def smaller(self, batch: Tensor, scale: float) -> Tensor:
        """As ``shrunk`` makes them."""
        return shrunk(batch, scale)


class ImageBatches(Batches):
    """Images [N, H, W, C] on the device, so that a gathered row is already channels last.

    As uint8, a quarter of float32; small data sets on a CPU normalised once and for all.
    """

    def __init__(self, images: Images, normalise: Normalisation, device: torch.device) -> None:
        self.pixels = images.values.to(device).permute(0, 2, 3, 1).contiguous()
        self._mean = torch.tensor(normalise.mean, device=device)
        self._std = torch.tensor(normalise.std, device=device)
        self._levels = normalise.levels
        self._normalised = device.type == "cpu" and 4 * self.pixels.numel() <= SMALL
        if self._normalised:
            self.pixels = self._normalise(self.pixels)

    def __call__(self, index: Tensor, view: Tensor | None, patch: Tensor | None = None, mix: bool = False) -> Tensor:
        """Normalised float32 [n, C, H, W] of the images ``index``, each seen as ``view`` says (see ``Images.views``).

        A ``patch`` (see ``Images.patches``) is filled from the other image, in the same view, or with the mean colour.
        So every pixel is gathered once: within the patch from another image, at another place where the view says so.
        """
        if view is None and not mix:
            pixels = self.pixels[index]
        else:
            source = index[:, None, None]
            if patch is not None and mix:
                source = torch.where(self._within(patch), patch[:, 0, None, None], source)
            pixels = self.pixels[source, *self._places(view)]
        images = pixels if self._normalised else self._normalise(pixels)
        if patch is not None and not mix:
            images = images.masked_fill(self._within(patch)[..., None], 0)
        return images.permute(0, 3, 1, 2)

    def _normalise(self, pixels: Tensor) -> Tensor:
        return (pixels.float() / self._levels - self._mean) / self._std

    def _within(self, patch: Tensor) -> Tensor:
        """Where each image's box is, bool [n, H, W]."""
        height, width = self.pixels.shape[1:3]
        row = torch.arange(height, device=patch.device)[:, None]
        column = torch.arange(width, device=patch.device)
        top, bottom, left, right = (side[:, None, None] for side in patch[:, 1:].unbind(1))
        return (row >= top) & (row < bottom) & (column >= left) & (column < right)

    def _places(self, view: Tensor | None) -> tuple[Tensor, Tensor]:
        """Rows and columns to read, broadcast to [n, H, W]: a reflect-padded crop and a flip are other numbers."""
        rows, columns = (torch.arange(size, device=self.pixels.device) for size in self.pixels.shape[1:3])
        if view is None:
            return rows[:, None], columns
        rows = _reflect(rows + view[:, :1], len(rows))
        columns = _reflect(columns + view[:, 1:2], len(columns))
        columns = torch.where(view[:, 2:] == 1, columns.flip(1), columns)
        return rows[:, :, None], columns[:, None, :]


def _reflect(place: Tensor, size: int) -> Tensor:
    """Positions outside 0..size-1 mirrored at the border pixels, which are not repeated."""
    return ((size - 1) - ((size - 1) - place.abs()).abs()).clamp_min(0)


def augmentations(shape: Shape, count: int, generator: torch.Generator) -> Tensor:
    """int64 [count, 3]: rows and columns to shift by, and whether to flip.

    By up to an eighth of a side, four pixels of CIFAR's 32: of digits' 8, four would leave nothing to recognise.
    """
    down, right = (side // 8 for side in shape[-2:])
    ranges = (-down, down + 1), (-right, right + 1), (0, 2)
    return torch.stack([torch.randint(*ends, (count,), generator=generator) for ends in ranges], 1)


def shrunk(batch: Tensor, scale: float) -> Tensor:
    """Images at this share of their height and width: all pixels count, none is skipped."""
    size = [max(1, round(scale * side)) for side in batch.shape[-2:]]
    small = F.interpolate(batch, size, mode="bilinear", align_corners=False, antialias=True)
    return small.contiguous(memory_format=torch.channels_last)


def pasted(shape: Shape, images: int, how: str, count: int, generator: torch.Generator) -> Tensor:
    """int64 [count, 5]: the one of so many images that a box is pasted from, then its top, bottom, left and right.

    Cutout: half as long and wide as the image, and clipped at its border. Cutmix: of any share of the image, and
    empty for half of them.
    """
    sides = torch.tensor(shape[-2:])
    other = torch.randint(images, (count, 1), generator=generator)
    centre = torch.rand(count, 2, generator=generator) * sides
    area, coin = torch.rand(2, count, 1, generator=generator)
    share = torch.full_like(area, 0.5) if how == "cutout" else area.sqrt() * (coin < 0.5)
    low = (centre - share * sides / 2).round().clamp_min(0).long()
    high = (centre + share * sides / 2).round().long().minimum(sides)
    return torch.cat([other, torch.stack([low, high], 2).flatten(1)], 1)


def channel_statistics(pieces: Iterable[Pixels], levels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel on the [0, 1] scale, of images that come piece by piece.

    Counted, not summed: exact counts of every level need no float copy of the images and round only once.
    """
    counts: Any = 0
    for images in pieces:
        channels = images.swapaxes(0, 1).reshape(images.shape[1], -1)
        counts = counts + np.stack([np.bincount(pixels, minlength=levels + 1) for pixels in channels])
    share, level = counts / counts.sum(axis=1, keepdims=True), np.arange(levels + 1) / levels
    mean = share @ level
    std = np.sqrt((share * (level - mean[:, None]) ** 2).sum(axis=1))
    constant = (counts > 0).sum(axis=1) == 1  # exactly one pixel value: nothing to scale
    return tuple(mean.tolist()), tuple(np.where(constant, 1.0, std).tolist())


def _finite(value: Any) -> bool:
    """Whether it is a number that float32 can hold; NaN is smaller than nothing."""
    return type(value) in (int, float) and abs(value) < 1e38
