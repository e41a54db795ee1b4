"""Labelled samples that a server's model is scored with in the end; nothing is chosen by them."""

from __future__ import annotations

from pathlib import Path

from fedol.data import Labelled
from fedol.data.npz import load_test
from fedol.errors import InputError, measures
from fedol.federation.client import task_classes
from fedol.knowledge.task import Task


def test_set(path: Path, task: Task, shape: tuple[int, ...]) -> Labelled:
    """``test_x`` and ``test_y`` of an .npz file, in the task's classes and of the public images' shape."""
    data = load_test(path)
    index = task_classes(data, task)
    if data.shape != tuple(shape):
        own, public = measures(data.shape), measures(shape)
        raise InputError(f"The test images in {path} are {own}, but the public ones are {public}; convert them.")
    return Labelled(data.test.samples, index[data.test.y])
