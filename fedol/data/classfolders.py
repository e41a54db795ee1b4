"""Files in a folder of each class: which are for the training, which for the test, and what class each is of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedol.data.dataset import holdout
from fedol.errors import InputError

LAYOUT = "expected are train/CLASS/* and test/CLASS/*, or CLASS/* alone"


@dataclass(frozen=True)
class ClassFolders:
    """The files of both parts, one after the other, and their labels."""

    classes: tuple[str, ...]
    files: list[Path]
    labels: npt.NDArray[np.int64]
    cut: int  # the first test file

    @classmethod
    def of(cls, path: Path, suffixes: Collection[str], what: str) -> ClassFolders:
        """``train/CLASS/*`` and ``test/CLASS/*``, or ``CLASS/*`` with a fixed fifth of each class held out for test.

        Classes are the sorted folder names, files are taken in sorted order. The held-out fifth depends on the names
        ``CLASS/FILE`` only (see ``holdout``), so a copy of the tree elsewhere gives the same dataset.
        """
        if not path.is_dir():
            raise InputError(f"There is no folder {path}; {LAYOUT}.")
        if (path / "train").is_dir() and (path / "test").is_dir():
            train, test = (by_class(path / part, suffixes, what) for part in ("train", "test"))
            extra = sorted(test.keys() - train.keys())
            if extra:
                raise InputError(f"{path / 'test' / extra[0]} is a class that {path / 'train'} lacks; add it there.")
        else:
            train, test = {}, {}
            for name, files in by_class(path, suffixes, what).items():
                marked = holdout([f"{name}/{file.name}" for file in files])
                train[name] = [file for file, held in zip(files, marked, strict=True) if not held]
                test[name] = [file for file, held in zip(files, marked, strict=True) if held]
        names = list(train)
        sets = [[(file, names.index(name)) for name in part for file in part[name]] for part in (train, test)]
        labels = np.array([label for part in sets for _, label in part], dtype=np.int64)
        return cls(tuple(names), [file for part in sets for file, _ in part], labels, len(sets[0]))


def by_class(root: Path, suffixes: Collection[str], what: str) -> dict[str, list[Path]]:
    """The files of each class folder, both sorted; hidden folders are passed over."""
    found: dict[str, list[Path]] = {}
    for folder in sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")):
        found[folder.name] = chosen(folder, folder.iterdir(), suffixes)
        if not found[folder.name]:
            raise InputError(f"{folder} holds no {what} files; {LAYOUT}.")
    if not found:
        raise InputError(f"{root} holds no class folders; {LAYOUT}.")
    return found


def chosen(root: Path, entries: Iterable[Path], suffixes: Collection[str]) -> list[Path]:
    """The files with these endings among a folder's entries, sorted; hidden names are passed over."""
    files = (file for file in entries if file.suffix.lower() in suffixes and file.is_file())
    return sorted(file for file in files if not any(part.startswith(".") for part in file.relative_to(root).parts))
