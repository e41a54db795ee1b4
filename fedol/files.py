"""Files that are either there whole or not there: written under a temporary name, then renamed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fedol.errors import FedolError, InputError, cause

TEMPORARY = ".tmp"  # how the name of a file ends that is still being written
# What a damaged file raises while it is read; an ArithmeticError where JSON's Infinity stands for a whole number.
DAMAGE = (OSError, SafetensorError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def private_folder(path: Path) -> None:
    """Make a folder that its owner alone can look into; one that is there keeps its mode.

    What is wrong with the place is said by whoever writes there.
    """
    with suppress(OSError):
        path.mkdir(0o700, parents=True, exist_ok=True)


def write_atomically(path: Path, data: bytes, private: bool = False) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, never a part.

    A private one only its owner can read, and so it is with the folder, where it has to be made.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        if private:
            private_folder(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb", opener=_for_its_owner if private else None) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:  # a full disk, a folder without the right to write
        raise FedolError(
            f"{path} cannot be written ({error.strerror}); fix that and rerun the command.",
            path,
            complete=True,
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sweep(folder: Path, name: str = "*") -> None:
    """Remove what a killed process left half-written in a folder of ours; of one file, where it is named."""
    for leftover in folder.rglob(f".{name}.*{TEMPORARY}"):
        with suppress(OSError):
            leftover.unlink()


def write_json(path: Path, value: Any, private: bool = False) -> None:
    """Write a value as readable JSON, atomically; a private one only its owner can read.

    Half of a surrogate pair, which a stranger's text may hold, has no bytes: it becomes JSON's escape for it.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"), private)


@contextmanager
def intact(path: Path, advice: str) -> Iterator[None]:
    """Whatever goes wrong within means that this file is damaged: one error that names it and says what helps."""
    try:
        yield
    except DAMAGE as error:
        raise FedolError(f"{path} is damaged ({cause(error)}); {advice}.", path) from None


def read_json(path: Path, advice: str = "") -> Any:
    """Read a JSON file; ``advice`` is what helps where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        helps = f"; {advice}" if advice else ""
        raise FedolError(f"{path} cannot be read ({error}){helps}.", path) from None


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write named tensors with a JSON header, atomically; equal content gives equal bytes."""
    # A copy of each: safetensors refuses tensors that share memory, as tied weights do.
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, safetensors.torch.save(plain, {"fedol": json.dumps(header)}))


def read_header(path: Path) -> dict[str, Any]:
    """The JSON header that ``write_tensors`` wrote, where the file is ``intact``; without reading its tensors."""
    with safe_open(path, framework="pt") as file:
        return _header(file.metadata())


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what ``write_tensors`` wrote, where the file is ``intact``."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, _header(file.metadata())  # noqa: SIM118


def _header(metadata: dict[str, str] | None) -> dict[str, Any]:
    if "fedol" not in (metadata or {}):
        raise InputError("it was not written by FedOL")
    header: dict[str, Any] = json.loads((metadata or {})["fedol"])
    return header
