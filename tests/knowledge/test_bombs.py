"""Small files that claim to be large: a command given one refuses it and takes little memory."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from fedol import Task
from fedol.data import own
from fedol.data.own import load_images
from fedol.errors import InputError
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge.container import Container
from fedol.knowledge.header import Header
from fedol.knowledge.plain import LOWEST
from fedol.knowledge.task import TaskRef

IMAGES = np.arange(48, dtype=np.uint8).reshape(12, 1, 2, 2)
ALLOWED = 400 << 20  # bytes of memory beyond what a command takes anyway
PROGRAM = """
import resource, sys
from fedol.cli import main
import fedol.federation.client, fedol.knowledge.inspection, fedol.report.terminal, torch, numpy
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + int(sys.argv[1]),) * 2)
sys.argv = ["fedol", *sys.argv[2:]]
main()
"""
limited = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does")


def fedol(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command that has little memory."""
    command = [sys.executable, "-c", PROGRAM, str(ALLOWED), *map(str, arguments)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # each thread takes address space of its own
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


def bomb(samples: int, classes: int) -> bytes:
    """A file that keeps what it promises: so many predictions, all the same, in some hundred bytes."""
    header = Header(TaskRef("0" * 16, "", ""), samples, classes, "eve", "top1+zstd")
    sure, others, index = bytes(2 * samples), np.full(samples, LOWEST, "<f2").tobytes(), bytes(2 * samples)
    body = zstandard.ZstdCompressor(level=19).compress(sure + others + index)
    return Container(header.as_json(), body).pack()


def task(path: Path) -> Path:
    return TaskFolder.create(path, Task.of(IMAGES, ["a", "b", "c"], "t"), None).path


@limited
@pytest.mark.parametrize("given", [True, False], ids=["with a task", "without"])
def test_inspect(given: bool, tmp_path: Path) -> None:
    (tmp_path / "bomb.fedol").write_bytes(bomb(1 << 13, 1 << 15))  # 268 million predictions
    more = ["--task", task(tmp_path / "task")] if given else []
    done = fedol("inspect", tmp_path / "bomb.fedol", *more)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "it claims 8,192 x 32,768 predictions" in " ".join(done.stderr.split()), done.stderr


def test_what_a_file_may_hold_grows_with_it_up_to_a_limit() -> None:
    from fedol.knowledge.header import MOST_VALUES, likely_values

    assert likely_values(100) == 1 << 20 and likely_values(1 << 16) == 1 << 24
    assert likely_values(1 << 30) == MOST_VALUES == 1 << 25


def array(shape: tuple[int, ...]) -> bytes:
    """The header of an array, and nothing after it: enough to make a reader take the room."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": "|u1"})
    return file.getvalue()


HUGE = array((12, 3, 20_000, 20_000))
SMALL = array(IMAGES.shape) + IMAGES.tobytes()
PUBLIC = {
    "one": {"public.npy": HUGE},
    "the other of two": {"public.npy": SMALL, "public": HUGE},  # which NumPy takes, whatever the first one says
    "packed": {"images.npy": array((12, 30_000_000)) + bytes(360_000_000)},  # 350 kB
}


@limited
@pytest.mark.parametrize("members", PUBLIC)
def test_a_public_set(members: str, tmp_path: Path) -> None:
    folder = task(tmp_path / "task")
    with zipfile.ZipFile(folder / "public.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in PUBLIC[members].items():
            archive.writestr(name, data)
    program = tmp_path / "mine.py"
    program.write_text("def load():\n    return lambda images: None\n")
    done = fedol("client", "predict", folder, "--model", f"{program}:load", "--out", tmp_path / "eve.fedol")
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "bytes of samples, far more than its size makes likely" in " ".join(done.stderr.split()), done.stderr


@pytest.mark.parametrize("count", [3, 4])
def test_a_folder_of_images(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    for number in range(3):
        image.new("L", (100, 90)).save(tmp_path / f"{number}.png")
    assert load_images(tmp_path, 3)[0].shape == (3, 1, 90, 100)
    monkeypatch.setattr(own, "FEW_BYTES", 3 * 3 * 90 * 100 - 1)
    monkeypatch.setattr(own, "PACKED", 1)
    why = "claims 81,000 bytes of samples" if count == 3 else "holds 3 samples, but the task has 4"
    with pytest.raises(InputError, match=why):
        load_images(tmp_path, count)
    assert len(load_images(tmp_path)[0]) == 3  # your own


ARCHIVES = {
    "nothing": {},
    "no array": {"images.npy": b"x"},
    "a folder": {"images/": b""},
    "below nothing": {"images.npy": array((12, -5, 4, 4))},
    "beyond counting": {"images.npy": array((10**30, 2))},
    "many": {f"\x1b{number}.npy": b"" for number in range(10_000)},
}


@pytest.mark.parametrize("members", ARCHIVES)
@pytest.mark.parametrize("samples", [12, None])
def test_archives_that_are_none(members: str, samples: int | None, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name, data in ARCHIVES[members].items():
            archive.writestr(name, data)
    with pytest.raises(InputError) as error:
        load_images(tmp_path / "x.npz", samples)
    said = str(error.value).replace(str(tmp_path), "")
    assert said.isprintable() and len(said) < 400


def test_an_encrypted_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", SMALL)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(InputError, match="encrypted"):
        load_images(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "change",
    [{"width": "4"}, {"shape": [1, "2", 2]}, {"std": "0.5"}, {"mean": [0.5, 0.5]}, {"mean": [10**400]}, {"std": ["x"]}],
    ids=str,
)
def test_a_model_file_of_no_numbers(change: dict[str, object], tmp_path: Path) -> None:
    import fedol as package
    from fedol.errors import FedolError
    from fedol.files import write_tensors
    from fedol.models import create

    architecture = {"model": "mlp", "classes": ["a", "b"], "shape": [1, 2, 2], "width": 2, "mean": [0.5], "std": [0.5]}
    weights = create("mlp", classes=2, shape=(1, 2, 2), width=2).state_dict()
    path = tmp_path / "model.safetensors"
    write_tensors(path, weights, {"architecture": architecture, "history": []})
    assert package.load(path).classes == ("a", "b")
    write_tensors(path, weights, {"architecture": {**architecture, **change}, "history": []})
    with pytest.raises(FedolError, match=r"model\.safetensors is damaged"):
        package.load(path)
