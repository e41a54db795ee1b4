from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from fedol.data import DATASETS, Dataset, Labelled, fingerprint, load
from fedol.data.kinds import given_values
from fedol.data.samples import samples
from fedol.errors import InputError

X = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
Y = np.array([0, 1, 2, 0, 1, 2])


def make(x=X, y=Y, **more) -> Dataset:
    return Dataset.from_arrays(x, y, x, y, **more)


@pytest.mark.filterwarnings("error")
def test_images_that_are_read_only_are_neither_copied_nor_warned_of(tmp_path):
    np.save(tmp_path / "x.npy", X)
    whole = np.frombuffer(X.tobytes(), np.uint8).reshape(X.shape)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else PyTorch warns once a process
    try:
        for fixed in (whole, np.load(tmp_path / "x.npy", mmap_mode="r")):
            given = given_values(fixed, "images")
            assert np.array_equal(given.array()[:, 0], X) and np.shares_memory(given.array(), fixed)
    finally:
        torch.set_warn_always(before)


def test_the_three_layouts_give_the_same_images():
    rgb = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 5), dtype=np.uint8)
    assert make(X).shape == (1, 4, 5)
    for grey in (X[:, None], X[..., None]):
        assert np.array_equal(make(grey).train.x, make(X).train.x)
    last = make(rgb.transpose(0, 2, 3, 1))
    assert last.shape == (3, 4, 5) and np.array_equal(last.train.x, rgb)
    assert last.train.x.flags.c_contiguous and last.train.x.dtype == np.uint8 and last.train.y.dtype == np.int64


def test_channels_come_first_where_both_are_possible():
    x = np.random.default_rng(0).integers(0, 256, (6, 3, 3, 3), dtype=np.uint8)
    assert np.array_equal(make(x).train.x, x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_rounded_back_to_the_pixels_they_came_from(dtype):
    x = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    data = Dataset.from_arrays((x / 255).astype(dtype), [0], x, [1])
    assert np.array_equal(data.train.x, data.test.x)


def test_class_names():
    assert make().classes == ("0", "1", "2")
    assert make(classes=["a", "b", "c", "unused"]).classes == ("a", "b", "c", "unused")


@pytest.mark.parametrize(
    ("x", "y", "classes", "says"),
    [
        (X[0], Y, None, "has shape"),
        (np.zeros((6, 2, 4, 5), np.uint8), Y, None, "C 1 or 3"),
        (np.zeros((6, 4, 5, 4), np.uint8), Y, None, "C 1 or 3"),
        (X[:0], Y[:0], None, "is empty"),
        (np.zeros((6, 0, 5), np.uint8), Y, None, "is empty"),
        (X.astype(np.int64), Y, None, "type int64"),
        (X.astype(object), Y, None, "type object"),
        (np.full(X.shape, np.nan), Y, None, "not finite"),
        (np.full(X.shape, np.inf), Y, None, "not finite"),
        (X, Y[:5], None, "6 integers"),
        (X, Y[:, None], None, "6 integers"),
        (X, Y * 1.0, None, "6 integers"),
        (X, Y - 1, None, "label -1"),
        (X, Y * 10**9, None, "label 2000000000"),
        (X, Y, ["a", "b"], "label 2 has no name"),
        (X, Y, ["a", "b", "a"], "all different"),
        (X, Y * 0, None, "two or more"),
    ],
)
def test_bad_arrays_are_refused(x, y, classes, says):
    with pytest.raises(InputError, match=says) as caught:
        make(x, y, classes=classes, name="mine")
    assert str(caught.value).startswith("mine: ")


def test_train_and_test_must_have_one_size():
    with pytest.raises(InputError, match="1x4x5 but test images are 1x4x4"):
        Dataset.from_arrays(X, Y, X[:, :, :4], Y)


def test_fingerprint_is_of_content_order_dtype_and_shape():
    changed = X.copy()
    changed[3, 2, 1] ^= 1
    different = [X, X[::-1], X.reshape(6, 5, 4), X.astype(np.int8), changed, X[:5]]
    assert len({fingerprint(array) for array in different}) == len(different)
    assert fingerprint(X[::2]) == fingerprint(X[::2].copy())  # the memory layout does not count


def test_dataset_fingerprint_covers_every_part():
    other_y = np.array([0, 1, 2, 0, 2, 1])
    datasets = [
        make(),
        make(y=other_y),
        make(classes=["a", "b", "c"]),
        Dataset.from_arrays(X[::-1], Y, X, Y),
        Dataset.from_arrays(X, Y, X[::-1], Y),
        Dataset.from_arrays(X, Y, X, other_y),
    ]
    assert len({data.fingerprint for data in datasets}) == len(datasets)
    assert make(name="another name").fingerprint == make().fingerprint


@pytest.mark.parametrize(
    ("groups", "kept"),
    [
        ([10, 9, 2, 10, 9, 2], np.int64),
        (np.array([1, 1, 1, 2, 2, 2], np.uint8), np.int64),
        (["b", "a", "c", "b", "a", "long name"], "<U9"),
        (np.array(["b", "a", "c", "b", "a", "d"], object), "<U1"),  # as a column of a data frame comes
        (np.array(["b", "a", "c", "b", "a", "d"], "<U30"), "<U1"),
    ],
)
def test_groups_stay_beside_their_images(groups, kept):
    train = make(groups=groups).train
    assert train.groups.dtype == kept and train.groups.tolist() == list(groups)
    assert train.take(np.array([4, 0])).groups.tolist() == [groups[4], groups[0]]
    assert make().train.groups is None and make().train.take(np.array([4, 0])).groups is None


def test_groups_count_in_the_fingerprint_and_their_type_does_not():
    names = ["a", "b", "a", "b", "a", "b"]
    prints = [make(groups=groups).fingerprint for groups in (None, names, names[::-1], np.array(names, "<U30"))]
    assert len(set(prints)) == 3 and prints[1] == prints[3]


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (["a"] * 5, "mine: groups must be 6 names or integers, one per image"),
        ([0.5] * 6, "6 names or integers"),
        (np.array(["a", None] * 3, object), "6 names or integers"),
        (["a", "b", "", "a", "b", "a"], "groups has no name at 2; name the site"),
    ],
)
def test_bad_groups_are_refused(groups, says):
    with pytest.raises(InputError, match=says):
        make(name="mine", groups=groups)


def test_take_keeps_the_order_asked_for():
    data = Labelled(samples(X[:, None]), Y).take(np.array([4, 0]))
    assert len(data) == 2 and np.array_equal(data.x[:, 0], X[[4, 0]]) and data.y.tolist() == [1, 0]


def test_digits():
    from sklearn.datasets import load_digits

    data = load("digits")
    assert (len(data.train), len(data.test), data.shape) == (1438, 359, (1, 8, 8))
    assert data.classes == tuple("0123456789") and data.train.x.max() == 255
    assert np.bincount(data.test.y).min() > 25  # every class is tested
    source = load_digits().images
    seen = np.concatenate([data.train.x, data.test.x])[:, 0]
    assert sorted(map(bytes, seen)) == sorted(map(bytes, np.rint(source * 255 / 16).astype(np.uint8)))
    # The held-out fifth is fixed for ever: results of different versions stay comparable.
    assert data.fingerprint == "9127e7c902c6c19cf2337a4c0f71489dc740e08b5f266abbb421342d357d403c"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cifar-100", "did you mean 'cifar100'"),
        ("digit", "did you mean 'digits'"),
        ("zzz", "known are: cifar10, cifar100, digits"),
        ("nowhere/x.npz", "There is no file nowhere/x.npz"),
        ("nowhere/images", "There is no file or folder nowhere/images"),
        ("nowhere/", "There is no file or folder nowhere"),
        ("npz", "needs a file"),
        ("folder", "needs a folder"),
        (__file__, "neither an .npz file nor a folder"),
    ],
)
def test_unknown_names(name, says):
    with pytest.raises(InputError, match=says):
        load(name)


def test_the_registry():
    assert set(DATASETS) == {"digits", "cifar10", "cifar100", "fashion-mnist", "npz", "folder"}


def test_the_room_needs_neither_sklearn_nor_pillow():
    """Torch it does since ``Samples``: a kind gives batches as tensors and prepares them on the device that trains.

    Without, every kind would be written twice, here in NumPy and again in the training. What people wait for, help and
    completion, imports no torch (``tests/cli/test_options.py``).
    """
    code = "import sys, fedol.data; print([m for m in ('sklearn', 'PIL') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
