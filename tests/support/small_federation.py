"""A small federation on disk, made once: a task, four clients' files and the labelled test images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedol import Knowledge, Task
from fedol.data import load, split
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge.container import Container

HALF = "\ud800"  # half of a surrogate pair: JSON can say it, no encoding can
SMALL = ["--model", "mlp", "--iterations", "2", "--epochs", "3", "--batch-size", "16", "--device", "cpu"]


class Federation:
    """Paths of a task and of clients' files."""

    def __init__(self, folder: Path) -> None:
        data = split(load("digits"), 80, seed=0)
        self.folder, self.task_dir, self.public = folder, folder / "task", data.public
        self.task = Task.of(data.public, [str(d) for d in range(10)], "digits")
        TaskFolder.create(self.task_dir, self.task, data.public)
        np.savez(folder / "test.npz", test_x=data.test.x, test_y=data.test.y)
        truth = torch.nn.functional.one_hot(torch.from_numpy(data.public_labels), 10).float()
        for number, name in enumerate(("alice", "bob", "carol", "dave")):
            noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(number))
            Knowledge.from_logits(4 * truth + 1.5 * noise, self.task, name).save(folder / "files" / f"{name}.fedol")

    def file(self, name: str) -> Path:
        return self.folder / "files" / f"{name}.fedol"

    def inbox(self, path: Path, *names: str) -> Path:
        """A new inbox with these clients' files."""
        path.mkdir(exist_ok=True)
        for name in names:
            (path / f"{name}.fedol").write_bytes(self.file(name).read_bytes())
        return path


def hostile(federation: Federation) -> dict[str, bytes]:
    """Files whose headers say what cannot be written down, or more than anybody wants to read."""
    good = Container.unpack(federation.file("alice").read_bytes())
    task = good.header["task"]
    changes: dict[str, dict[str, Any]] = {
        "schema": {"schema": HALF},
        "codec": {"codec": f"{HALF}\x1b[2J"},
        "task": {"task": {**task, "id": HALF * 500}},
        "client": {"client": HALF},
        "signature": {"signature": HALF},
        "privacy": {"client": "eve", "privacy": {"epsilon": 1.0, "delta": 0.0, "covers": f"{HALF}\x1b[2J\n<b>"}},
    }
    files = {name: Container({**good.header, **change}, good.body).pack() for name, change in changes.items()}
    inner = json.dumps({**good.header, "schema": "here"}).replace("here", HALF)  # unescaped, in the entry's own text
    head = json.dumps({"__metadata__": {"fedol": inner}, "body": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})
    return {**files, "raw": len(head).to_bytes(8, "little") + head.encode()}
