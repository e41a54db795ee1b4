"""One image file as pixels of a stated size and depth: what Pillow reads, and DICOM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.errors import InputError

DICOM = ".dcm"
BYTE, DEEP = 255, 65_535  # the brightest value of 8 and of 16 bits
MOST_PIXELS = 1 << 26  # of one file: a few kilobytes can claim gigabytes
LARGEST_SIZE = 4096

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Form:
    """What every image becomes: ``size`` pixels high and wide, grey or colour, 8 bits or, where it is grey, 16."""

    size: int
    channels: int
    levels: int = BYTE

    @property
    def dtype(self) -> npt.DTypeLike:
        """Of the pixels."""
        return np.uint16 if self.levels == DEEP else np.uint8


def check_size(size: int) -> None:
    """Refuse a size that no image is made."""
    if not 1 <= size <= LARGEST_SIZE:
        raise InputError(f"The image size must lie between 1 and {LARGEST_SIZE:,} pixels, but is {size}.")


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """An image file as Pillow opens it; whatever fails within is one sentence that names the file."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError("Reading image folders needs Pillow; run: pip install 'fedol[images]'.") from None
    try:
        with Image.open(file) as image:
            yield image
    except InputError:
        raise
    except Exception as error:  # a broken file can fail anywhere inside a decoder
        raise InputError(f"{file} cannot be read as an image ({error}); replace or remove it.") from error


def looked_at(file: Path) -> tuple[int, int]:
    """Channels and brightest value of a file by its header alone: nothing is decoded."""
    if file.suffix.lower() == DICOM:
        header = _dicom(file, pixels=False)
        _check_pixels(file, int(header.Rows) * int(header.Columns))
        if int(getattr(header, "NumberOfFrames", None) or 1) > 1:
            raise InputError(f"{file} holds {header.NumberOfFrames} frames; save each as a file of its own.")
        if int(header.SamplesPerPixel) > 1:
            return 3, BYTE
        return 1, BYTE if int(header.BitsStored) <= 8 else DEEP
    with opened(file) as image:
        _check_pixels(file, image.width * image.height)
        if image.mode == "F":
            raise InputError(f"{file} holds floating-point pixels; convert it to 8 or 16 bits.")
        if image.mode.startswith("I"):
            return 1, DEEP
        return (1 if image.mode in ("1", "L", "LA") else 3), BYTE


def decoded(file: Path, form: Form) -> Pixels:
    """The pixels of a file, [channels, size, size]; the whole image, whatever its own height and width."""
    if file.suffix.lower() == DICOM:
        return _resized(_scanned(file, form), form)
    with opened(file) as image:
        if form.levels == DEEP:
            return _resized(_deep(image, file), form)
        mode = "L" if form.channels == 1 else "RGB"
        image.draft(mode, (form.size, form.size))  # of a JPEG, which need not be decoded any larger
        return _resized(image.convert(mode), form)


def _check_pixels(file: Path, count: int) -> None:
    if count > MOST_PIXELS:
        raise InputError(f"{file} has {count:,} pixels, more than {MOST_PIXELS:,}; make it smaller.")


def _deep(image: Any, file: Path) -> Any:
    """An image of 16 bits as one of floats, which Pillow can make larger and smaller."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > DEEP:  # mode I holds 32 bits
        raise InputError(f"{file} has more than 16 bits per pixel; convert it to 16 bits.")
    return _image(values.astype(np.float32))


def _image(values: npt.NDArray[Any]) -> Any:
    from PIL import Image

    return Image.fromarray(values)


def _resized(image: Any, form: Form) -> Pixels:
    """[channels, size, size] of an image in one of the modes L, RGB and F."""
    if image.size != (form.size, form.size):
        from PIL.Image import Resampling

        image = image.resize((form.size, form.size), Resampling.BICUBIC)
    values: npt.NDArray[Any] = np.asarray(image)
    if form.levels == DEEP:
        values = np.rint(values).clip(0, DEEP)
    return (values[None] if values.ndim == 2 else values.transpose(2, 0, 1)).astype(form.dtype)


def _dicom(file: Path, pixels: bool = True) -> Any:
    try:
        from pydicom import dcmread
    except ImportError:
        raise InputError("Reading DICOM files needs pydicom; run: pip install 'fedol[dicom]'.") from None
    try:
        found = dcmread(file, stop_before_pixels=not pixels)
        _ = found.Rows, found.Columns, found.SamplesPerPixel, found.BitsStored  # of a report, say, there are none
        return found
    except Exception as error:  # a broken file can fail anywhere inside a reader
        raise InputError(f"{file} cannot be read as a DICOM image ({error}); replace or remove it.") from error


def _scanned(file: Path, form: Form) -> Any:
    """A DICOM image: black is 0 and white the brightest value, whatever the scanner stored.

    Where the file says what its values measure (Hounsfield units of CT), these count, and 0 becomes 32,768: two
    scanners that store the same tissue in different ways then agree. Elsewhere the stored bits are stretched to 16.
    """
    data = _dicom(file)
    try:
        stored = np.asarray(data.pixel_array)
    except Exception as error:  # a codec that is not installed, a file that ends too early
        raise InputError(f"{file} cannot be read as a DICOM image ({error}); replace or remove it.") from error
    if stored.ndim == 3:
        return _image(stored.astype(np.uint8))
    values, bits = stored.astype(np.float32), int(data.BitsStored)
    slope, intercept = (float(getattr(data, f"Rescale{name}", default)) for name, default in _RESCALING)
    if form.levels == DEEP and (slope, intercept) != (1.0, 0.0):
        values = values * slope + intercept + (DEEP + 1) / 2
    else:
        low = 2.0 ** (bits - 1) if int(getattr(data, "PixelRepresentation", 0)) else 0.0
        values = (values + low) * (form.levels / (2.0**bits - 1))
    if str(getattr(data, "PhotometricInterpretation", "")) == "MONOCHROME1":  # which stores white as 0
        values = form.levels - values
    values = values.clip(0, form.levels)
    if form.levels == DEEP:
        return _image(values)
    grey = _image(np.rint(values).astype(np.uint8))
    return grey if form.channels == 1 else grey.convert("RGB")


_RESCALING = (("Slope", 1.0), ("Intercept", 0.0))
