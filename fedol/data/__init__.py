"""Samples of any kind, datasets of them, the public/private/test split, and partitions over clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedol.data.bundled import load_digits, load_fashion_mnist
from fedol.data.cifar import load_cifar10, load_cifar100
from fedol.data.dataset import Dataset, Labelled, Split, fingerprint, split
from fedol.data.imagefiles import ImageFiles
from fedol.data.images import Images, Normalisation
from fedol.data.own import from_pair, load_folder, load_npz
from fedol.data.partitions import PARTITIONS, Partition, Pool, partition, register
from fedol.data.samples import Preprocessing, Samples
from fedol.data.schemes import ClassesPerClient, Dirichlet, Iid, Sites
from fedol.errors import InputError, unknown

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "ClassesPerClient",
    "Dataset",
    "Dirichlet",
    "Iid",
    "ImageFiles",
    "Images",
    "Labelled",
    "Normalisation",
    "Partition",
    "Pool",
    "Preprocessing",
    "Samples",
    "Sites",
    "Split",
    "fingerprint",
    "from_pair",
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


def load(name: str, data_dir: str | Path | None = None, image_size: int | None = None) -> Dataset:
    """Load a dataset by its name in ``DATASETS``, or by the path of an ``.npz`` file or a folder of images.

    With an ``image_size`` the images of a folder are made it, and stay in their files until they are needed.
    """
    if image_size is not None:
        folder = Path(data_dir or "") if name == "folder" else Path(name)
        if name != "folder" and (name in DATASETS or not folder.expanduser().is_dir()):
            raise InputError(f"An image size is for folders of image files, which {name} is not; leave it out.")
        return load_folder(folder.expanduser(), image_size)
    if name in DATASETS:
        return DATASETS[name](None if data_dir is None else Path(data_dir).expanduser())
    path = Path(name).expanduser()
    if path.is_dir():
        return load_folder(path)
    if path.suffix == ".npz":
        return load_npz(path)
    if path.exists():
        raise InputError(f"{path} is neither an .npz file nor a folder of images; convert it to one of these.")
    if len(path.parts) > 1 or name.endswith("/"):
        raise InputError(f"There is no file or folder {path}; give an .npz file, a folder of images or a known name.")
    raise unknown("dataset", name, DATASETS)
