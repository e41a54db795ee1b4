"""Copies of private samples among the public ones: exact ones, and what is usually made of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedol.core.arrays import fingerprint
from fedol.data import Images, Preprocessing, Samples
from fedol.data.duplicates import duplicates
from fedol.data.samples import Index, Shape
from fedol.data.texts import Texts
from fedol.errors import InputError

RNG = np.random.default_rng(0)
COPIES = 40


def drawings(count: int, channels: int = 3, side: int = 32) -> np.ndarray:
    """Smooth random images, as different from one another as photographs."""
    coarse = torch.from_numpy(RNG.normal(size=(count, channels, 6, 6)))
    fine = F.interpolate(coarse, size=(side, side), mode="bicubic") + 0.1 * torch.from_numpy(
        RNG.normal(size=(count, channels, side, side))
    )
    return (128 + 40 * fine).clamp(0, 255).byte().numpy()


PUBLIC, PRIVATE = drawings(300), drawings(500)


def jpeg(images: np.ndarray) -> np.ndarray:
    Image = pytest.importorskip("PIL.Image", reason="recompression needs Pillow")
    found = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0)).save(buffer, "JPEG", quality=85)
        found.append(np.asarray(Image.open(buffer)).transpose(2, 0, 1))
    return np.stack(found)


@pytest.mark.parametrize(
    ("change", "exact"),
    [
        (lambda x: x, True),
        (lambda x: np.clip(x + 15.0, 0, 255).astype(np.uint8), False),
        (lambda x: (0.8 * x + 20).astype(np.uint8), False),
        (lambda x: np.roll(x, 1, axis=3), False),
        (lambda x: np.roll(x, -1, axis=2), False),
        (jpeg, False),
        (lambda x: np.clip(x + RNG.normal(0, 4, x.shape), 0, 255).astype(np.uint8), False),
    ],
)
def test_images_that_were_copied_into_the_public_set(change: Callable[[np.ndarray], np.ndarray], exact: bool) -> None:
    public = PUBLIC.copy()
    public[100 : 100 + COPIES] = change(PRIVATE[:COPIES])
    found = duplicates(Images(torch.from_numpy(PRIVATE)), Images(torch.from_numpy(public)))
    wanted = {(k, 100 + k) for k in range(COPIES)}
    assert set(found.exact if exact else found.near) == wanted and found.count == COPIES
    assert all(found.nearest[k] == place for k, place in wanted)


def test_images_of_which_none_was_copied() -> None:
    found = duplicates(Images(torch.from_numpy(PRIVATE)), Images(torch.from_numpy(PUBLIC)))
    assert found.count == 0 and found.usual == 0 and (found.private, found.public) == (500, 300)


def test_images_of_one_colour_are_alike_only_where_they_are_the_same() -> None:
    public, private = PUBLIC.copy(), PRIVATE.copy()
    public[0], private[0], private[1] = 200, 200, 100
    found = duplicates(Images(torch.from_numpy(private)), Images(torch.from_numpy(public)))
    assert found.exact == [(0, 0)] and found.near == []


def test_other_images_are_no_public_ones() -> None:
    with pytest.raises(InputError, match="Your images are 3x16x16, but the task's public ones are 3x32x32"):
        duplicates(Images(torch.from_numpy(PRIVATE[:, :, ::2, ::2].copy())), Images(torch.from_numpy(PUBLIC)))


@dataclass(frozen=True, eq=False)
class Rows(Samples):
    """Rows of numbers: what a kind has that says nothing of duplicates itself."""

    kind: ClassVar[str] = "rows"
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> Shape:
        return self.values.shape[1:]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.values)

    def take(self, index: Index) -> Rows:
        return Rows(self.values[index if isinstance(index, slice) else np.asarray(index)])

    def joined(self, others: Rows) -> Rows:
        return Rows(np.concatenate([self.values, others.values]))

    def batch(self, index: torch.Tensor | slice) -> torch.Tensor:
        return torch.from_numpy(self.values)[index]

    def array(self) -> np.ndarray:
        return self.values

    def fit(self, public: Any = None) -> Preprocessing:
        raise NotImplementedError("nothing is trained here")


TABLE = RNG.normal(size=(900, 8)) * np.array([1, 10, 100, 0.01, 1, 1, 5, 1]) + np.arange(8)


@pytest.mark.parametrize(
    ("change", "exact"),
    [
        (lambda x: x, True),
        (lambda x: x.astype(np.float32), False),
        (lambda x: np.round(x * 10 / TABLE.std(0)) / 10 * TABLE.std(0), False),  # to a tenth of a deviation
        (lambda x: x * np.array([1, 2.54, 1, 1, 1, 1, 1000, 1]) + 32, False),  # other units
    ],
)
def test_rows_that_were_copied_into_the_public_set(change: Callable[[np.ndarray], np.ndarray], exact: bool) -> None:
    private = TABLE[:600]
    public = change(np.concatenate([TABLE[600:], private[:COPIES]]))  # the whole set in other units, say
    found = duplicates(Rows(private), Rows(public))
    assert {k for k, _ in (found.exact if exact else found.near)} >= set(range(COPIES))
    assert all(place == 300 + k for k, place in found.exact + found.near if k < COPIES)
    assert found.count <= COPIES + 3  # of 560 others


def test_rows_of_which_none_was_copied_and_values_are_missing() -> None:
    private, public = TABLE[:600].copy(), TABLE[600:].copy()
    private[::7, 2] = np.nan
    found = duplicates(Rows(private), Rows(public))
    assert found.count <= 3
    public[5] = private[7]  # with what is missing in it
    assert duplicates(Rows(private), Rows(public)).exact == [(7, 5)]


def test_one_public_sample_and_the_same_everywhere() -> None:
    assert duplicates(Rows(TABLE[:5]), Rows(TABLE[:1])).exact == [(0, 0)]
    same = np.ones((50, 3))
    found = duplicates(Rows(same), Rows(same))
    assert len(found.exact) == 50 and found.near == []


def test_texts_that_were_copied_into_the_public_set() -> None:
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "kilo", "lima", "mike"]
    written = [" ".join(RNG.choice(words, 30)) for _ in range(400)]
    private = Texts(np.array(written[:250], dtype=object))
    copies = [written[0], written[1].upper(), written[2].replace(" ", "  "), f"{written[3]} the end"]
    found = duplicates(private, Texts(np.array([*written[250:], *copies], dtype=object)))
    assert found.exact == [(0, 150)] and found.near == [(1, 151), (2, 152), (3, 153)]
