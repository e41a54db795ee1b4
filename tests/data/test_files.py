"""Fashion-MNIST, .npz files and folders of images, whole and broken."""

from __future__ import annotations

import builtins
import gzip
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedol.data import bundled, fingerprint, load
from fedol.errors import InputError

RNG = np.random.default_rng(0)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


FASHION = {
    "train-images-idx3-ubyte": RNG.integers(0, 256, (20, 28, 28), dtype=np.uint8),
    "train-labels-idx1-ubyte": np.arange(20) % 10,
    "t10k-images-idx3-ubyte": RNG.integers(0, 256, (10, 28, 28), dtype=np.uint8),
    "t10k-labels-idx1-ubyte": np.arange(10),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_fashion_mnist(tmp_path, compressed):
    for name, array in FASHION.items():
        data = idx(array)
        (tmp_path / (name + ".gz" * compressed)).write_bytes(gzip.compress(data) if compressed else data)
    data = load("fashion-mnist", tmp_path)
    assert data.shape == (1, 28, 28) and data.classes[0] == "T-shirt/top" and data.classes[9] == "Ankle boot"
    assert np.array_equal(data.train.x[:, 0], FASHION["train-images-idx3-ubyte"])
    assert np.array_equal(data.test.y, np.arange(10))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not an idx file"),
        (b"\0\0\x08", "not an idx file"),
        (idx(np.arange(20)), "0x00000801, not 0x00000803"),
        (struct.pack(">4I", 0x803, 2**32 - 1, 28, 28), "4294967295x28x28"),
        (struct.pack(">4I", 0x803, 20, 2**31, 2**31), "20x2147483648"),
        (idx(FASHION["train-images-idx3-ubyte"])[:-1], "less than the 15,680 bytes"),
        (idx(FASHION["train-images-idx3-ubyte"]) + b"x", "more than the 15,680 bytes"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_broken_idx_files_are_refused(tmp_path, content, says, compressed):
    suffix = ".gz" if compressed else ""
    path = tmp_path / f"train-images-idx3-ubyte{suffix}"
    path.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(InputError, match=says):
        load("fashion-mnist", tmp_path)


@pytest.mark.parametrize("content", [b"no gzip at all", gzip.compress(idx(FASHION["train-images-idx3-ubyte"]))[:-9]])
def test_broken_gzip_is_refused(tmp_path, content):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(InputError, match="get a fresh copy"):
        load("fashion-mnist", tmp_path)


def test_missing_fashion_mnist_says_what_and_where(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\[.gz\] is not in .*; put the four idx files there"):
        load("fashion-mnist", tmp_path)
    for name, array in FASHION.items():
        (tmp_path / name).write_bytes(idx(array))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nobody")
    monkeypatch.setattr(bundled, "SYSTEM", tmp_path)
    assert len(load("fashion-mnist").train) == 20  # found where Debian's package puts it
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="t10k-labels"):
        load("fashion-mnist")


ARRAYS = {
    "train_x": RNG.integers(0, 256, (8, 5, 5, 3), dtype=np.uint8),
    "train_y": np.arange(8) % 2,
    "test_x": RNG.random((2, 5, 5, 3)),
    "test_y": np.array([0, 1]),
}


def test_npz_by_name_and_by_path(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, **ARRAYS, classes=np.array(["cat", "dog"]))
    data = load(str(path))
    assert data.name == "mine" and data.shape == (3, 5, 5) and data.classes == ("cat", "dog")
    assert load("npz", path).fingerprint == load("npz", str(path)).fingerprint == data.fingerprint
    np.savez(path, **ARRAYS)
    assert load(str(path)).classes == ("0", "1") and load(str(path)).train.groups is None
    np.savez(path, **ARRAYS, groups=np.array(["north", "south"] * 4))
    assert load(str(path)).train.groups.tolist() == ["north", "south"] * 4


def test_broken_npz_files_are_refused(tmp_path):
    path = tmp_path / "mine.npz"

    def refused(says: str) -> None:
        with pytest.raises(InputError, match=says):
            load("npz", path)

    refused("There is no file")
    path.write_bytes(b"")
    refused("cannot be read")
    path.write_bytes(b"not a zip")
    refused("cannot be read")
    np.savez(path, **{key: value for key, value in ARRAYS.items() if key != "test_x"})
    refused("has no array 'test_x'")
    np.savez(path, **{**ARRAYS, "train_y": np.array([object()] * 8)})
    refused("cannot be read")  # a pickle inside
    np.savez(path, **ARRAYS)
    path.write_bytes(path.read_bytes()[:-300])
    refused("cannot be read")
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    refused("cannot be read")
    path.unlink()
    path.mkdir()
    refused("cannot be read")


def draw(path: Path, mode: str = "L", size: tuple[int, int] = (6, 4), value: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(pixels).convert(mode) if value is None else Image.new(mode, size, value)
    image.save(path)


def test_folder_with_train_and_test(tmp_path):
    for part, value in (("train", 10), ("test", 20)):
        for offset, name in enumerate(("zebra", "ant")):
            draw(tmp_path / part / name / "1.png", value=value + offset)
    (tmp_path / "train" / "ant" / "notes.txt").write_text("passed over")
    (tmp_path / "train" / "ant" / "._1.png").write_bytes(b"passed over")
    (tmp_path / "train" / ".hidden").mkdir()
    data = load(str(tmp_path))
    assert data.classes == ("ant", "zebra") and data.shape == (1, 4, 6)
    assert data.train.x[:, 0, 0, 0].tolist() == [11, 10] and data.train.y.tolist() == [0, 1]
    assert data.test.x[:, 0, 0, 0].tolist() == [21, 20] and data.test.y.tolist() == [0, 1]


def test_folder_of_classes_holds_out_a_fixed_fifth_of_each(tmp_path):
    for name, count in (("a", 10), ("b", 20), ("c", 2)):
        for number in range(count):
            draw(tmp_path / "one" / name / f"{number:02}.png")
    data = load("folder", tmp_path / "one")
    assert np.bincount(data.test.y).tolist() == [2, 4, 1] and np.bincount(data.train.y).tolist() == [8, 16, 1]
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert load("folder", tmp_path / "two").fingerprint == data.fingerprint
    both = np.concatenate([data.train.x, data.test.x])
    assert len({fingerprint(image) for image in both}) == 32


def test_one_colour_image_makes_all_three_channels(tmp_path):
    for name, mode in (
        ("a/1", "L"),
        ("a/2", "LA"),
        ("b/1", "RGB"),
        ("b/2", "RGBA"),
        ("b/3", "P"),
        ("c/1", "1"),
        ("c/2", "L"),
    ):
        draw(tmp_path / f"{name}.png", mode=mode)
    data = load(str(tmp_path))
    assert data.shape == (3, 4, 6)
    grey = data.train.x[data.train.y == 0]
    assert np.array_equal(grey[:, 0], grey[:, 2])


def test_broken_folders_are_refused(tmp_path, monkeypatch):
    def refused(says: str) -> None:
        with pytest.raises(InputError, match=says):
            load("folder", tmp_path / "tree")

    refused("There is no folder")
    (tmp_path / "tree").mkdir()
    refused("holds no class folders; expected are train/CLASS")
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        draw(tmp_path / "tree" / name)
    (tmp_path / "tree" / "c").mkdir()
    refused("c holds no image files")
    draw(tmp_path / "tree" / "c" / "1.png", size=(6, 5))
    refused("6x5 pixels but .* is 6x4; resize")
    (tmp_path / "tree" / "c" / "1.png").write_bytes(b"\x89PNG but no more")
    refused(r"c/1.png cannot be read as an image")
    Image.fromarray(np.full((4, 6), 40_000, np.uint16)).save(tmp_path / "tree" / "c" / "1.png")
    refused("more than 8 bits")
    shutil.rmtree(tmp_path / "tree" / "c")

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda name, *rest: _no_pillow(real, name, *rest))
    refused(r"pip install 'fedol\[images\]'")


def _no_pillow(real, name, *rest):
    if name.startswith("PIL"):
        raise ImportError(name)
    return real(name, *rest)


def test_a_test_class_without_training_images_is_refused(tmp_path):
    for name in ("train/a/1.png", "train/b/1.png", "test/a/1.png", "test/c/1.png"):
        draw(tmp_path / name)
    with pytest.raises(InputError, match=r"test/c is a class that .*train lacks"):
        load("folder", tmp_path)
