"""Tasks as folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_federation import Federation

from fedol import Task
from fedol.errors import FedolError, InputError
from fedol.federation.taskfolder import TaskFolder

IMAGES = np.arange(48, dtype=np.uint8).reshape(3, 1, 4, 4)


def test_round_trip(tmp_path: Path) -> None:
    task = Task(("a", "b"), 3, Task.of(IMAGES, "ab").fingerprint, "t", ("float16",), 1000, {"x": None, "y": "ab" * 32})
    TaskFolder.create(tmp_path / "task", task, IMAGES)
    folder = TaskFolder.open(tmp_path / "task")
    assert folder.task == task and folder.task.codec == "float16"
    assert (folder.public() == IMAGES).all()


def test_only_the_fingerprint(tmp_path: Path) -> None:
    TaskFolder.create(tmp_path / "task", Task.of(IMAGES, "ab"), None)
    folder = TaskFolder.open(tmp_path / "task")
    with pytest.raises(FedolError, match="--public"):
        folder.public()
    np.savez(tmp_path / "mine.npz", images=IMAGES)
    assert (folder.public(tmp_path / "mine.npz") == IMAGES).all()
    np.savez(tmp_path / "other.npz", images=IMAGES[::-1])
    with pytest.raises(FedolError, match="not in its order"):
        folder.public(tmp_path / "other.npz")


def test_a_task_is_never_overwritten(federation: Federation) -> None:
    with pytest.raises(FedolError, match="holds a task already"):
        TaskFolder.create(federation.task_dir, federation.task, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["b", "a"]}, "id does not fit"),
        ({"schema": 9}, "schema 9"),
        ({"clients": {"a": "short"}}, "public key"),
        ({"clients": []}, "damaged"),
        ({"samples": None}, "damaged"),
        ({"codecs": ["mp3"]}, "no codec"),
    ],
)
def test_damaged_tasks(tmp_path: Path, change: dict[str, object], words: str) -> None:
    TaskFolder.create(tmp_path, Task.of(IMAGES, "ab"), None)
    values = json.loads((tmp_path / "task.json").read_text())
    (tmp_path / "task.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(FedolError, match=words):
        TaskFolder.open(tmp_path)


def test_no_task(tmp_path: Path) -> None:
    with pytest.raises(FedolError, match="There is no task"):
        TaskFolder.open(tmp_path)
    (tmp_path / "task.json").write_text("{")
    with pytest.raises(FedolError, match=r"task\.json cannot be read .*; get a fresh copy\."):
        TaskFolder.open(tmp_path)


@pytest.mark.parametrize("classes", [["a"], ["a", "a"], []])
def test_classes_of_a_task(classes: list[str]) -> None:
    with pytest.raises(InputError, match="distinct"):
        Task.of(IMAGES, classes)
