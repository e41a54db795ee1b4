from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol.data import Dataset, split
from fedol.errors import InputError


def numbered(count: int, channels: int = 1) -> Dataset:
    """Images that carry their own position, labels that follow from it."""
    x = np.zeros((count, channels, 2, 2), np.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = np.arange(count) % 256, np.arange(count) // 256
    return Dataset.from_arrays(x, np.arange(count) % 3, x[:2], [0, 2])


def positions(images: np.ndarray) -> np.ndarray:
    return images[:, 0, 0, 0].astype(int) + 256 * images[:, 0, 0, 1].astype(int)


@settings(deadline=None)
@given(data=st.data(), count=st.integers(3, 600), seed=st.integers(0, 2**40))
def test_public_and_private_are_the_training_data(data, count, seed):
    public = data.draw(st.integers(1, count - 1))
    dataset = numbered(count)
    parts = split(dataset, public, seed)
    shown, kept = positions(parts.public), positions(parts.private.x)
    assert len(shown) == public and np.array_equal(np.sort(np.concatenate([shown, kept])), np.arange(count))
    assert np.array_equal(parts.public_labels, shown % 3) and np.array_equal(parts.private.y, kept % 3)
    assert parts.test is dataset.test and parts.classes == dataset.classes
    assert np.array_equal(positions(split(dataset, public, seed).public), shown)


def test_another_seed_is_another_public_set():
    drawn = {tuple(positions(split(numbered(500), 50, seed).public)) for seed in range(5)}
    assert len(drawn) == 5


def test_the_public_set_is_drawn_from_everywhere():
    assert abs(positions(split(numbered(600), 300, 0).public).mean() - 300) < 40


def test_statistics_are_of_the_private_images_only():
    x = np.random.default_rng(0).integers(0, 256, (3000, 3, 4, 4), dtype=np.uint8)
    x[:, 1] //= 2
    x[:, 2] = 51
    parts = split(Dataset.from_arrays(x, np.arange(3000) % 2, x[:5] // 5, [0, 1, 0, 1, 0]), 1000, 0)
    private = parts.private.x / 255
    np.testing.assert_allclose(parts.prepare.mean, private.mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(parts.prepare.std[:2], private.std(axis=(0, 2, 3))[:2], rtol=1e-12)
    assert parts.prepare.std[2] == 1.0  # a constant channel is not divided by zero
    assert not np.isclose(parts.prepare.mean[0], x[:, 0].mean() / 255, rtol=1e-6)


@pytest.mark.parametrize("public", [10, 11, 0, -1, 2.5, 10**12])
def test_a_public_set_out_of_range_says_the_limit(public):
    with pytest.raises(InputError, match=r"1 to 9 samples.*change --public"):
        split(numbered(10), public, 0)


def test_labels_that_count_from_one_are_noticed_where_no_names_say_otherwise():
    x, y = np.zeros((20, 8, 8), np.uint8), np.arange(20) % 4 + 1
    for names, test_y in ((None, y % 4), ("abcde", y)):  # a class may be rare, or known to have no image
        assert len(split(Dataset.from_arrays(x, y, x, test_y, names), 5, 0).classes) == 5
    with pytest.raises(InputError, match="begin with 1 and not with 0; subtract 1"):
        split(Dataset.from_arrays(x, y, x, y), 5, 0)


def test_a_development_set_is_taken_from_the_private_images_and_takes_the_tests_place():
    plain, tuned = split(numbered(500), 50, 3), split(numbered(500), 50, 3, development=100)
    assert np.array_equal(positions(plain.public), positions(tuned.public))
    held, private = positions(tuned.test.x), positions(tuned.private.x)
    assert (len(held), len(private)) == (100, 350)
    assert set(held) | set(private) == set(positions(plain.private.x))
    assert not np.array_equal(held, positions(split(numbered(500), 50, 4, development=100).test.x))
    for wrong in (-1, 450):
        with pytest.raises(InputError, match=r"development must lie in 0\.\.449"):
            split(numbered(500), 50, 3, development=wrong)
