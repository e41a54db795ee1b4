"""Folders of image files to learn from: dark, light and striped pictures of many sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

KINDS = ("dark", "light", "stripes")


def picture(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Values in [0, 1], [H, W]."""
    height, width = rng.integers(20, 40, 2)
    values = np.full((height, width), {"dark": 0.2, "light": 0.7, "stripes": 0.4}[kind])
    if kind == "stripes":
        values[:: height // 5] = 0.9
    return (values + rng.normal(0, 0.05, values.shape)).clip(0, 1)


def save(values: np.ndarray, file: Path, bits: int = 8, colour: bool = True) -> None:
    """As a file of its suffix."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if bits == 16:
        Image.fromarray(np.rint(values * 4095).astype(np.uint16)).save(file)  # as scanners of 12 bits do
        return
    grey = np.rint(values * 255).astype(np.uint8)
    Image.fromarray(np.repeat(grey[..., None], 3, 2) if colour else grey).save(file)


def draw(folder: Path, train: int, test: int, bits: int = 8, suffix: str = ".png") -> Path:
    """``train/CLASS/*`` and ``test/CLASS/*`` with so many images of each class."""
    rng = np.random.default_rng(bits)
    for part, count in (("train", train), ("test", test)):
        for kind in KINDS:
            for number in range(count):
                save(picture(kind, rng), folder / part / kind / f"{number:03}{suffix}", bits)
    return folder
