"""A small federation that sums in secret: a task with two helpers, and clients whose parts are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedol import Knowledge, Task
from fedol.files import write_atomically
from fedol.knowledge import signing
from fedol.knowledge.terms import Terms
from fedol.secret.encoding import Encoding, Part
from fedol.secret.helper import sum_up
from fedol.secret.keys import HelperKey, new_helper_key, read_public
from fedol.secret.opening import Opened, opened, read
from fedol.secret.sealed import Sealed, seal

NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace")
SAMPLES, CLASSES = 12, 3


def share(sealed: Sealed, task: Task, key: HelperKey) -> Part:
    """What a helper finds in a sealed file."""
    total = Encoding.of(task).nothing()
    sealed.open(task, key, total)
    return total


class Secret:
    """Keys, a task and an inbox in a folder."""

    def __init__(self, folder: Path, names: tuple[str, ...] = NAMES, **terms: Any) -> None:
        self.folder, self.inbox, self.names = folder, folder / "inbox", names
        for name in names:
            signing.new_key(folder / f"{name}.key")
        for helper in "AB":
            new_helper_key(folder / f"{helper}.key")
        helpers = {helper: read_public(folder / f"{helper}.pub") for helper in "AB"}
        keys = {name: signing.public_key(folder / f"{name}.key") for name in names}
        images = np.random.default_rng(0).integers(0, 256, (SAMPLES, 1, 4, 4), dtype=np.uint8)
        base = Task.of(images, [str(c) for c in range(CLASSES)], "small")
        self.public, self.task = images, replace(base, clients=keys, secret=Terms(helpers, **terms), nonce="1")

    def knowledge(self, name: str) -> Knowledge:
        """The client's answers: always the same, another client's differ."""
        rng = np.random.default_rng(self.names.index(name))
        ratios = np.exp(rng.normal(-1, 3, (SAMPLES, CLASSES)))
        ratios[0] = 0  # nobody knows the first sample
        return Knowledge.from_ratios(ratios, self.task, name, private=10 + self.names.index(name), folds=2)

    def sealed(self, name: str, task: Task | None = None) -> bytes:
        """Its file, rounded by a generator of its own."""
        rng = np.random.default_rng(100 + self.names.index(name))
        used = task or self.task
        return seal(replace(self.knowledge(name), task=used.ref), used, self.folder / f"{name}.key", rng)

    def send(self, *names: str, inbox: Path | None = None) -> None:
        for name in names:
            write_atomically((inbox or self.inbox) / f"{name}.fedol", self.sealed(name))

    def key(self, helper: str) -> HelperKey:
        return HelperKey.read(self.folder / f"{helper}.key")

    def sum(self, helper: str, *names: str, inbox: Path | None = None, out: str = "") -> Path:
        """What a helper writes."""
        written = self.folder / f"{out or helper}.part"
        ledger = self.folder / f"{helper}.ledger"
        sum_up(self.task, inbox or self.inbox, names, self.key(helper), ledger, written)
        return written

    def open(self, *parts: Path) -> Opened:
        return opened([read(part, self.task) for part in parts], self.task)
