"""Samples of any kind, datasets of them, the public/private/test split, and partitions over clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedol.data.bundled import load_digits, load_fashion_mnist
from fedol.data.cifar import load_cifar10, load_cifar100
from fedol.data.dataset import Dataset, Labelled, Split, fingerprint, split
from fedol.data.encoding import Encoding
from fedol.data.imagefiles import ImageFiles
from fedol.data.images import Images, Normalisation
from fedol.data.kinds import from_pair, kind_of_arrays
from fedol.data.own import load_folder, load_npy, load_npz
from fedol.data.partitions import PARTITIONS, Partition, Pool, partition, register
from fedol.data.reading import Reading, load_rows
from fedol.data.rows import holds_rows
from fedol.data.samples import Preprocessing, Samples
from fedol.data.schemes import ClassesPerClient, Column, Dirichlet, Iid, Sites
from fedol.data.signals import Signals, Standardisation
from fedol.data.tables import Table
from fedol.data.texts import Texts, TfIdf
from fedol.data.waves import holds_waves, load_waves
from fedol.errors import InputError, unknown

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "ClassesPerClient",
    "Column",
    "Dataset",
    "Dirichlet",
    "Encoding",
    "Iid",
    "ImageFiles",
    "Images",
    "Labelled",
    "Normalisation",
    "Partition",
    "Pool",
    "Preprocessing",
    "Reading",
    "Samples",
    "Signals",
    "Sites",
    "Split",
    "Standardisation",
    "Table",
    "Texts",
    "TfIdf",
    "fingerprint",
    "from_pair",
    "kind_of",
    "load",
    "partition",
    "register",
    "split",
]

DATASETS: dict[str, Callable[[Path | None], Dataset]] = {
    "digits": load_digits,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "fashion-mnist": load_fashion_mnist,
    "npz": load_npz,
    "folder": load_folder,
}


def kind_of(name: str, text: str | None = None) -> str:
    """The kind of samples that ``load`` gives, as far as a name and the head of a file tell it."""
    path = Path(name).expanduser()
    if name in DATASETS:
        return Images.kind
    if holds_rows(path):
        return Texts.kind if text else Table.kind
    if path.is_dir() and holds_waves(path):
        return Signals.kind
    return kind_of_arrays(path) if path.suffix == ".npz" or (path / "train_x.npy").exists() else Images.kind


def load(name: str, data_dir: str | Path | None = None, reading: Reading = Reading()) -> Dataset:
    """Load a dataset by its name in ``DATASETS``, or by the path of a table, an ``.npz`` file or a folder of images.

    ``reading`` says what the columns of a table mean, and what size image files are made.
    """
    if reading.image_size is not None:
        folder = Path(data_dir or "") if name == "folder" else Path(name)
        if name != "folder" and (name in DATASETS or not folder.expanduser().is_dir()):
            raise InputError(f"An image size is for folders of image files, which {name} is not; leave it out.")
        return load_folder(folder.expanduser(), reading.image_size)
    if name in DATASETS:
        return DATASETS[name](None if data_dir is None else Path(data_dir).expanduser())
    path = Path(name).expanduser()
    if path.is_dir():
        if (path / "train_x.npy").exists():
            return load_npy(path)
        return load_waves(path) if holds_waves(path) else load_folder(path)
    if path.suffix == ".npz":
        return load_npz(path)
    if path.is_file() and holds_rows(path):
        return load_rows(path, reading)
    if path.exists():
        raise InputError(
            f"{path} is neither an .npz file nor a folder of images nor a table (.csv, .parquet, .jsonl); convert it."
        )
    if len(path.parts) > 1 or name.endswith("/") or holds_rows(path):
        raise InputError(f"There is no file or folder {path}; give a table, an .npz file, a folder or a known name.")
    raise unknown("dataset", name, DATASETS)
