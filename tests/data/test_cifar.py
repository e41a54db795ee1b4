"""CIFAR from a folder, an archive and a download, with tiny stand-ins published under a file:// address."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedol.data import cifar, load
from fedol.data.cifar import CIFAR10, CIFAR100, Source, load_arrays, load_source
from fedol.errors import InputError

RNG = np.random.default_rng(0)


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def publish(source: Source, root: Path, **contents: bytes) -> Source:
    """Write tiny files and their archive, and say so in a source of the same layout."""
    folder = root / source.folder
    folder.mkdir(parents=True)
    for name in (*source.train, *source.test):
        batch = {"data": RNG.integers(0, 256, (4, 3072), dtype=np.uint8), source.label_key: [0, 1, 2, 1]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    for name in source.meta:
        (folder / name).write_bytes(pickle.dumps({source.names_key: ["ant", "bee", "cat"]}, protocol=2))
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    archive = root / Path(source.url).name
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, source.folder)
    sums = {key: {name: md5(folder / name) for name in getattr(source, key)} for key in ("train", "test", "meta")}
    return replace(source, url=archive.as_uri(), md5=md5(archive), **sums)


@pytest.mark.parametrize(("source", "train"), [(CIFAR10, 20), (CIFAR100, 4)])
def test_folder_archive_and_download_are_the_same_data(tmp_path, source, train):
    tiny = publish(source, tmp_path / "web")
    data = load_source(tiny, tmp_path / "web" / source.folder)
    assert (len(data.train), len(data.test), data.shape) == (train, 4, (3, 32, 32))
    assert data.classes == ("ant", "bee", "cat") and data.train.y[:4].tolist() == [0, 1, 2, 1]
    first = pickle.loads((tmp_path / "web" / source.folder / next(iter(source.train))).read_bytes())["data"]
    assert np.array_equal(data.train.x[3, 2, 31], first[3, -32:])  # channels, then rows, then columns

    placed = tmp_path / "placed"
    placed.mkdir()
    archive = Path(tiny.url.removeprefix("file://"))
    (placed / archive.name).write_bytes(archive.read_bytes())
    offline = replace(tiny, url=f"file:///nowhere/{archive.name}")
    for source_, place in ((tiny, tmp_path / "web"), (tiny, tmp_path / "new" / "place"), (offline, placed)):
        assert load_source(source_, place).fingerprint == data.fingerprint
        assert (place / source.folder).is_dir()
    assert [file.name for file in (tmp_path / "new" / "place").iterdir()] == [source.folder]  # nothing left over
    assert load_source(offline, tmp_path / "new" / "place").fingerprint == data.fingerprint  # not fetched again


def test_the_default_place_is_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(cifar, "CIFAR10", publish(CIFAR10, tmp_path / "web"))
    assert len(load("cifar10").train) == 20
    assert (tmp_path / ".cache" / "fedol" / "cifar-10-batches-py").is_dir()


def test_no_internet_says_which_file_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "CIFAR100", replace(CIFAR100, url="file:///nowhere/cifar-100-python.tar.gz"))
    with pytest.raises(InputError, match=r"cifar-100-python.tar.gz is not in .*; put the file there") as caught:
        load("cifar100", tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_or_archive_is_refused_before_it_is_opened(tmp_path, monkeypatch):
    tiny = publish(CIFAR100, tmp_path)
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"something else")
    monkeypatch.setattr(cifar, "load_arrays", lambda data: pytest.fail("unpickled before the checksum"))
    with pytest.raises(InputError, match="train is not the published file"):
        load_source(tiny, tmp_path)
    with pytest.raises(InputError, match="is not the published archive"):
        load_source(replace(tiny, md5="0" * 32), tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()  # perhaps a mistyped name: nothing is left there


def test_an_incomplete_folder_says_what_is_missing(tmp_path):
    tiny = publish(CIFAR100, tmp_path)
    (tmp_path / "cifar-100-python" / "test").unlink()
    with pytest.raises(InputError, match=r"test cannot be read \(No such file"):
        load_source(tiny, tmp_path)


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    tiny = publish(CIFAR100, tmp_path / "web")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="give another --data-dir"):
        load_source(tiny, tmp_path / "file")


def test_an_archive_cannot_write_outside_its_folder(tmp_path):
    tiny = publish(CIFAR100, tmp_path / "web")
    archive = tmp_path / "web" / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "web" / "cifar-100-python" / "meta", "../../escaped")
    evil = replace(tiny, url=archive.as_uri(), md5=md5(archive))
    with pytest.raises(InputError, match="cannot be unpacked"):
        load_source(evil, tmp_path / "a" / "b")
    assert not list(tmp_path.rglob("escaped"))


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.system, eval, getattr, np.load, subprocess.call])
def test_a_pickle_that_runs_code_is_refused(tmp_path, function, protocol):
    witness = tmp_path / "ran"
    attack = pickle.dumps({"data": Evil(function, f"touch {witness}")}, protocol=protocol)
    with pytest.raises(pickle.UnpicklingError, match="is not an array"):
        load_arrays(attack)
    assert not witness.exists()


def test_a_published_pickle_that_runs_code_is_one_sentence(tmp_path):
    tiny = publish(CIFAR100, tmp_path, train=pickle.dumps(Evil(os.system, f"touch {tmp_path / 'ran'}")))
    with pytest.raises(InputError, match=r"train .*asks for posix.system"):
        load_source(tiny, tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", pickle.dumps([1, 2]), pickle.dumps({"other": 1})],
    ids=["empty", "junk", "list", "no data"],
)
def test_a_published_file_of_another_content_is_one_sentence(tmp_path, content):
    tiny = publish(CIFAR100, tmp_path, train=content)
    with pytest.raises(InputError, match="train is not a CIFAR file"):
        load_source(tiny, tmp_path)


@pytest.mark.parametrize("protocol", range(5))  # from 5 on NumPy writes its arrays in another way; CIFAR has 2
def test_arrays_pass(protocol):
    array = RNG.integers(0, 256, (3, 4), dtype=np.uint8)
    back = load_arrays(pickle.dumps({"data": array, "names": ["x", b"y"], "n": 3}, protocol=protocol))
    assert np.array_equal(back["data"], array) and back["names"] == ["x", b"y"] and back["n"] == 3


def test_the_real_cifar100(tmp_path):
    writer = Path(__file__).parents[3] / "shared" / "data" / "cifar100.py"
    if not writer.is_file():
        pytest.skip("../shared/data/cifar100.py, which writes the published files, is not beside this repository")
    subprocess.run([sys.executable, str(writer), str(tmp_path)], check=True, capture_output=True)
    data = load("cifar100", tmp_path)
    assert (len(data.train), len(data.test), data.shape) == (50_000, 10_000, (3, 32, 32))
    assert len(data.classes) == 100 and data.classes[0] == "apple" and data.classes[99] == "worm"
    assert set(np.bincount(data.train.y)) == {500} and set(np.bincount(data.test.y)) == {100}
    np.testing.assert_allclose(data.train.x.mean(axis=(0, 2, 3)) / 255, [0.5071, 0.4865, 0.4409], atol=1e-4)
