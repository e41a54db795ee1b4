"""A benchmark's folder."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedol.bench.cells import digest
from fedol.bench.store import PACKED, BenchFolder
from fedol.errors import FedolError
from fedol.files import write_json
from fedol.runs.locks import hold


def result(seed: int = 0, **more: Any) -> dict[str, Any]:
    settings = {"method": "feddf", "seed": seed}
    whole = {"hash": digest(settings), "method": "feddf", "settings": settings, "seed": seed, "accuracy": 0.25}
    return {**whole, "command": "fedol\u2028é\ud800", "seconds": 0.1 + seed, **more}


def keep(folder: Path, *results: dict[str, Any]) -> list[Path]:
    paths = [folder / "cells" / f"{one['hash']}.json" for one in results]
    for path, one in zip(paths, results, strict=True):
        write_json(path, one)
    return paths


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What the folder holds by hash, less where."""
    found = {one["hash"]: one for one in BenchFolder(folder).results()}
    return {name: {key: value for key, value in one.items() if key != "file"} for name, one in found.items()}


class Asked:
    """A cell, as far as a folder asks for it."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.hash = result["hash"]


@pytest.mark.parametrize("content", ["[1]", '"words"', '{"accuracy": 1}'])
def test_a_file_that_is_no_result_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "mine.json").write_text(content)
    with pytest.raises(FedolError, match=r"mine\.json is no result of a benchmark; move it out"):
        list(BenchFolder(tmp_path).results())


@pytest.mark.parametrize("accuracy", [float("nan"), 7.5, -0.1])
def test_what_is_no_accuracy_is_no_result(accuracy: float, tmp_path: Path) -> None:
    keep(tmp_path, result(accuracy=accuracy))
    with pytest.raises(FedolError, match="is no result of a benchmark"):
        list(BenchFolder(tmp_path).results())


def test_packing_keeps_every_value_and_the_order_of_its_entries(tmp_path: Path) -> None:
    results = [result(seed) for seed in range(5)]
    paths = keep(tmp_path, *results)
    written = {path.stem: path.read_bytes() for path in paths}
    assert BenchFolder(tmp_path).pack() == 5 and not any(path.exists() for path in paths)
    assert [one["file"] for one in BenchFolder(tmp_path).results()] == [f"cells.jsonl#{h}" for h in sorted(written)]
    for one in read(tmp_path).values():
        write_json(tmp_path / "again.json", one)
        assert (tmp_path / "again.json").read_bytes() == written[one["hash"]]
    before = (tmp_path / PACKED).read_bytes()
    assert BenchFolder(tmp_path).pack() == 5 and (tmp_path / PACKED).read_bytes() == before
    assert [json.loads(line)["hash"] for line in before.split(b"\n")[:-1]] == sorted(written)


def test_what_is_packed_is_finished_and_what_is_added_is_seen_at_once(tmp_path: Path) -> None:
    first, second, third = (result(seed) for seed in range(3))
    keep(tmp_path, first)
    folder = BenchFolder(tmp_path)
    folder.pack()
    assert folder.finished(Asked(first)) and not folder.finished(Asked(second))
    keep(tmp_path, second)
    BenchFolder(tmp_path).pack()  # another process
    assert folder.finished(Asked(first)) and folder.finished(Asked(second)) and not folder.finished(Asked(third))


def test_folders_merge_by_copying_and_by_appending(tmp_path: Path) -> None:
    one, two, three = (result(seed) for seed in range(3))
    for name, mine in {"a": [one, two], "b": [two, three]}.items():
        keep(tmp_path / name, *mine)
        BenchFolder(tmp_path / name).pack()
    both = (tmp_path / "a" / PACKED).read_bytes() + (tmp_path / "b" / PACKED).read_bytes()
    (tmp_path / "a" / PACKED).write_bytes(both)
    assert read(tmp_path / "a").keys() == {one["hash"], two["hash"], three["hash"]}
    keep(tmp_path / "b", one)
    assert read(tmp_path / "b") == read(tmp_path / "a")
    assert BenchFolder(tmp_path / "a").pack() == BenchFolder(tmp_path / "b").pack() == 3
    assert (tmp_path / "a" / PACKED).read_bytes() == (tmp_path / "b" / PACKED).read_bytes()


def test_of_two_results_for_one_cell_the_one_added_last_counts(tmp_path: Path) -> None:
    early, late, last = (result(accuracy=accuracy) for accuracy in (0.1, 0.2, 0.3))
    (tmp_path / PACKED).write_text(f"{json.dumps(early)}\n\n{json.dumps(late)}\r\n")
    assert [one["accuracy"] for one in BenchFolder(tmp_path).results()] == [0.2]
    keep(tmp_path, last)
    assert [one["accuracy"] for one in BenchFolder(tmp_path).results()] == [0.3]
    assert BenchFolder(tmp_path).pack() == 1 and read(tmp_path)[last["hash"]]["accuracy"] == 0.3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"hash": "x', r"cells\.jsonl, line 2, cannot be read \(.*\); remove that line"),
        ("[" * 99_999, "line 2, cannot be read"),
        ("{}", "line 2, is no result of a benchmark; remove that line"),
        (json.dumps(result(hash="0123456789abcdef")), "line 2, does not have the hash of its settings"),
    ],
    ids=["half", "deep", "empty", "other hash"],
)
def test_a_damaged_line_is_named_and_its_cell_not_finished(line: str, said: str, tmp_path: Path) -> None:
    whole, other = result(1), result(0)
    (tmp_path / PACKED).write_text(f"{json.dumps(whole)}\n{line}\n")
    folder = BenchFolder(tmp_path)
    assert folder.finished(Asked(whole)) and not folder.finished(Asked(other))
    for reading in (folder.pack, lambda: list(folder.results())):
        with pytest.raises(FedolError, match=said):
            reading()


def test_there_must_be_something_to_pack(tmp_path: Path) -> None:
    for folder, said in ((tmp_path / "none", "There is no folder"), (tmp_path, "There is no finished cell")):
        with pytest.raises(FedolError, match=said):
            BenchFolder(folder).pack()
    assert not (tmp_path / "none").exists() and not (tmp_path / PACKED).exists()


def test_two_do_not_pack_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = keep(tmp_path, result())
    held = hold(tmp_path / "lock")
    assert held is not None
    with pytest.raises(FedolError, match="Another process is packing"):
        BenchFolder(tmp_path).pack()
    held.release()
    monkeypatch.setattr("fedol.bench.store.hold", lambda path: None)  # a file system without locks
    with pytest.raises(FedolError, match="cannot be locked, so it is not packed"):
        BenchFolder(tmp_path).pack()
    assert path.exists() and not (tmp_path / PACKED).exists()


def test_a_cell_that_another_process_packs_while_we_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [result(seed) for seed in range(3)]
    keep(tmp_path, *results)

    def meanwhile(paths: list[Path], what: str) -> list[Path]:
        monkeypatch.undo()
        BenchFolder(tmp_path).pack()
        return paths

    monkeypatch.setattr("fedol.bench.store.watched", meanwhile)
    assert read(tmp_path).keys() == {one["hash"] for one in results}


KILLED = """
import os, signal, sys
from pathlib import Path
from fedol.bench.store import BenchFolder
count, real = 0, {name: getattr(os, name) for name in ("fsync", "unlink", "rename", "replace")}

def dying(name):
    def call(*args, **more):
        global count
        if count == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        return real[name](*args, **more)
    return call

for name in real:
    setattr(os, name, dying(name))
BenchFolder(Path(sys.argv[1])).pack()
"""


@pytest.mark.parametrize("step", range(5))
def test_a_process_killed_while_packing_loses_nothing(step: int, tmp_path: Path) -> None:
    """At each of its first changes on disk: before and after the new file is in place, and between the removals."""
    keep(tmp_path, *(result(seed) for seed in range(4)))
    BenchFolder(tmp_path).pack()
    keep(tmp_path, *(result(seed) for seed in range(3, 8)))
    before = read(tmp_path)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(step)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert read(tmp_path) == before
    assert BenchFolder(tmp_path).pack() == 8 and read(tmp_path) == before
    assert not list(tmp_path.glob(".*")) and not list((tmp_path / "cells").glob("*.json"))
