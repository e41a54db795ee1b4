"""Who else on the machine can read what clients have sent: nobody, on a system whose files are open by default."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import fedol
from small_federation import SMALL, Federation

from fedol.data import load
from fedol.federation.roster import Roster
from fedol.federation.transports.flower_client import Node
from fedol.files import write_atomically

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes"),
    pytest.mark.usefixtures("free_to_send"),
]


@pytest.fixture(autouse=True)
def others_may_read() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("there", [False, True])
def test_a_server_keeps_uploads_to_itself(federation: Federation, tmp_path: Path, there: bool) -> None:
    """``serve`` without Flower; also in a folder that others may look into, which stays as it is."""
    inbox, out = federation.inbox(tmp_path / "inbox", "alice", "bob"), tmp_path / "run"
    if there:
        out.mkdir()
    done = fedol("serve", federation.task_dir, "--inbox", inbox, "--quorum", 2, *SMALL, "--out", out, umask=0o022)
    assert done.returncode == 0, done.stderr
    assert mode(out) == (0o755 if there else 0o700)
    assert mode(out / "clients") == 0o700
    uploads = list((out / "clients").iterdir())
    assert sorted(path.name for path in uploads) == ["alice.fedol", "bob.fedol"]
    assert {mode(path) for path in [*uploads, out / "roster.json"]} == {0o600}


def test_so_does_distill(federation: Federation, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = fedol("distill", federation.task_dir, federation.file("alice"), *SMALL, "--out", out, umask=0o022)
    assert done.returncode == 0, done.stderr
    assert (mode(out), mode(out / "clients"), mode(out / "clients" / "alice.fedol")) == (0o700, 0o700, 0o600)


def test_an_upload_replaces_one_that_others_could_read(federation: Federation, tmp_path: Path) -> None:
    """A run that an earlier version began."""
    kept = tmp_path / "alice.fedol"
    kept.write_bytes(b"")
    assert mode(kept) == 0o644
    Roster(0.0).take(federation.file("alice").read_bytes(), "alice.fedol", federation.task, tmp_path)
    assert mode(kept) == 0o600


def test_a_node_keeps_its_cache_to_itself(federation: Federation, tmp_path: Path) -> None:
    """Its file and the model behind it, also where it was not started by ``supernode.sh``."""
    digits = load("digits")
    arrays = {"train_x": digits.train.x[:200], "train_y": digits.train.y[:200]}
    np.savez(tmp_path / "data.npz", **arrays, test_x=digits.test.x[:40], test_y=digits.test.y[:40])
    settings = {"task": str(federation.task_dir), "client": "alice", "data": str(tmp_path / "data.npz")}
    more = {"model": "mlp", "epochs": 1, "device": "cpu", "cache": str(tmp_path / "cache")}
    Node.read({**settings, **more}).answer(federation.task.id, federation.task.fingerprint)
    assert mode(tmp_path / "cache") == 0o700
    (kept,) = (tmp_path / "cache").glob("*.fedol")
    assert mode(kept) == 0o600


def test_other_files_are_as_open_as_their_owner_has_them(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new" / "model.onnx", b"to pass on")
    assert (mode(tmp_path / "new"), mode(tmp_path / "new" / "model.onnx")) == (0o755, 0o644)
