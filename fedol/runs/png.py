"""PNG files from arrays, without an imaging library: thumbnails for reports."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
COLUMNS = 16  # images in a row of a sheet
LARGEST = 32  # pixels of a thumbnail's longer side: keeps a report of 240 photographs below 2 MB


def encode(image: Pixels) -> bytes:
    """A PNG of uint8 [channels, H, W] with one or three channels."""
    channels, height, width = image.shape
    colour = {1: 0, 3: 2}[channels]
    rows = np.ascontiguousarray(image.transpose(1, 2, 0)).reshape(height, width * channels)
    body = np.concatenate([np.zeros((height, 1), np.uint8), rows], 1).tobytes()  # a filter byte before every row
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(body, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def contact_sheet(images: Pixels) -> Pixels:
    """Images [N, channels, H, W] as one, ``COLUMNS`` in a row, each made smaller where it is large."""
    step = -(-max(images.shape[2:]) // LARGEST)
    small = np.stack([_shrunk(image, step) for image in images])
    count, channels, height, width = small.shape
    rows = -(-count // COLUMNS)
    sheet = np.zeros((rows * COLUMNS, channels, height, width), np.uint8)
    sheet[:count] = small
    grid = sheet.reshape(rows, COLUMNS, channels, height, width).transpose(2, 0, 3, 1, 4)
    return np.ascontiguousarray(grid.reshape(channels, rows * height, COLUMNS * width))


def _shrunk(image: Pixels, step: int) -> Pixels:
    """Means of ``step`` × ``step`` pixels; what is left over at the edges is cut off."""
    channels, height, width = image.shape
    high, wide = max(1, height // step), max(1, width // step)
    cut = image[:, : high * step, : wide * step]
    if cut.shape != (channels, high * step, wide * step):  # thinner than a step
        return np.ascontiguousarray(image[:, ::step, ::step])
    means: Pixels = np.rint(cut.reshape(channels, high, step, wide, step).mean((2, 4))).astype(np.uint8)
    return means


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
