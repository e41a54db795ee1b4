"""Run folders that are none, are another's or are damaged: one clear sentence, and nothing is lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import one_sentence, refusal
from safetensors.torch import save_file

import fedol
from fedol.errors import FedolError
from fedol.methods.fedkt import load_labels
from fedol.runs.folder import read_kept
from fedol.training.snapshot import EpochFile


def copy(finished: Path, to: Path, unfinished: str | None = None) -> Path:
    """A run of one's own; without its summary, and without what ``unfinished`` matches, it continues."""
    shutil.copytree(finished, to)
    if unfinished is not None:
        (to / "summary.json").unlink()
        for file in to.glob(unfinished):
            file.unlink()
    return to


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


CONTINUES = "model.safetensors"
LAST_ITERATION = "server/02*"
DAMAGE: dict[str, tuple[str | None, Callable[[Path], object], str]] = {
    "another version": (
        None,
        lambda run: rewrite(run / "config.json", schema=99),
        r"another version \(schema 99, this is",
    ),
    "config cut": (None, lambda run: cut(run / "config.json"), r"config.json cannot be read"),
    "config empty": (None, lambda run: (run / "config.json").write_text("[]"), "not the configuration of a run"),
    "config of others": (None, lambda run: (run / "config.json").write_text("{}"), "not the configuration of a run"),
    "summary cut": (None, lambda run: cut(run / "summary.json"), r"summary.json cannot be read"),
    "data changed": (CONTINUES, lambda run: rewrite(run / "data.json", fingerprint="0"), "a run on other data"),
    "knowledge cut": (LAST_ITERATION, lambda run: cut(run / "clients/01.fedol"), r"01.fedol"),
    "knowledge empty": (LAST_ITERATION, lambda run: (run / "clients/01.fedol").write_bytes(b""), r"01.fedol"),
    "server cut": (CONTINUES, lambda run: cut(run / "server/02.safetensors"), r"02.safetensors is damaged"),
    "client cut": (CONTINUES, lambda run: cut(run / "clients/00.safetensors"), r"00.safetensors is damaged"),
    "votes cut": (CONTINUES, lambda run: cut(run / "server/01.votes.safetensors"), r"votes.safetensors is damaged"),
    "metrics broken": (
        LAST_ITERATION,
        lambda run: (run / "metrics.jsonl").write_text("{"),
        r"metrics.jsonl is damaged",
    ),
    "metrics in another encoding": (
        LAST_ITERATION,
        lambda run: (run / "metrics.jsonl").write_bytes(b"\xff\xfe"),
        r"metrics.jsonl is damaged",
    ),
    "summary empty": (None, lambda run: (run / "summary.json").write_text("[]"), "not the summary of a run"),
    "summary of others": (None, lambda run: (run / "summary.json").write_text("{}"), "not the summary of a run"),
    "no config": (None, lambda run: (run / "config.json").unlink(), "exists and is not a run; choose another --out"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_folder(
    damage: str,
    finished: Path,
    tiny: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unfinished, harm, sentence = DAMAGE[damage]
    harm(copy(finished, folder, unfinished))
    with pytest.raises(FedolError, match=sentence) as caught:
        fedol.run(out=folder, **tiny)
    one_sentence(str(caught.value))
    options = [f"--{name.replace('_', '-')}={value}" for name, value in tiny.items()]
    assert refusal(["run", "--out", str(folder), *options], capsys) == str(caught.value)


def test_a_changed_configuration_names_what_changed(finished: Path, tiny: dict[str, Any]) -> None:
    with pytest.raises(FedolError, match=r"holds another run \(tau was 0.2, now 0.3\); choose another --out"):
        fedol.run(out=finished, **{**tiny, "tau": 0.3})


def test_a_run_from_before_a_setting_existed_goes_on(finished: Path, tiny: dict[str, Any], folder: Path) -> None:
    config = copy(finished, folder) / "config.json"
    older = json.loads(config.read_text())
    del older["config"]["optimiser"]
    config.write_text(json.dumps({**older, "hash": "of that time"}))
    fedol.run(out=folder, **tiny)
    with pytest.raises(FedolError, match=r"holds another run \(optimiser was 'adam', now 'sgd'\)"):
        fedol.run(out=folder, **tiny, optimiser="sgd")


def test_a_setting_that_is_no_more_is_named_too(finished: Path, tiny: dict[str, Any], folder: Path) -> None:
    config = copy(finished, folder) / "config.json"
    before = json.loads(config.read_text())["config"]
    rewrite(config, config={**before, "temperature": 2}, hash="0")
    with pytest.raises(FedolError, match="temperature was 2, now None"):
        fedol.run(out=folder, **tiny)


@pytest.mark.parametrize("out", ["a file", "below a file", "not writable"])
def test_an_out_folder_that_cannot_be_one(out: str, tiny: dict[str, Any], folder: Path) -> None:
    folder.write_text("a file")
    path = {"a file": folder, "below a file": folder / "run", "not writable": Path("/proc/fedol-run")}[out]
    with pytest.raises(FedolError, match=r"exists and is not a run|cannot be written") as caught:
        fedol.run(out=path, **tiny)
    one_sentence(str(caught.value))


def test_an_out_folder_that_may_not_be_read(
    tiny: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_: Path) -> None:
        raise PermissionError(13, "Permission denied")  # root, as whom tests may run, is never refused

    folder.mkdir()
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(FedolError, match=r"run cannot be read \(Permission denied\); choose another --out"):
        fedol.run(out=folder, **tiny)


def test_a_disk_that_fills_up_is_one_sentence(
    tiny: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedol.files.os.fsync", full)
    with pytest.raises(FedolError, match=r"config.json cannot be written \(No space left on device\)") as caught:
        fedol.run(out=folder, **tiny)
    one_sentence(str(caught.value))
    assert [file.name for file in folder.iterdir()] == ["run.lock"]  # and nothing half written stays


@pytest.mark.parametrize("content", ["missing", "cut", "another file", "wrong weights", "a folder"])
def test_load(content: str, finished: Path, folder: Path) -> None:
    model = copy(finished, folder) / "model.safetensors"
    if content == "cut":
        cut(model)
    elif content == "another file":
        shutil.copy(folder / "server" / "01.votes.safetensors", model)
    elif content == "wrong weights":
        data = model.read_bytes()
        model.write_bytes(data.replace(rb"\"width\": 4", rb"\"width\": 3"))
    else:
        model.unlink()
        if content == "a folder":
            model.mkdir()
    with pytest.raises(FedolError, match=r"no trained model|FedOL model file|do not fit mlp|is the run finished"):
        fedol.load(folder)


TENSOR_READERS: dict[str, Callable[[Path], object]] = {
    "model": fedol.load,
    "kept": read_kept,
    "epoch": lambda path: EpochFile(path, {}).read(),
    "labels": lambda path: list(load_labels(path, fedol.Task.of(np.zeros((6, 1, 8, 8), np.uint8), "abc"), "client 0")),
}


@pytest.mark.parametrize("reader", TENSOR_READERS)
@pytest.mark.parametrize(
    ("header", "why"),
    [(None, "it was not written by FedOL"), ({"fedol": "{"}, "JSONDecodeError: .*"), ({"fedol": "{}"}, ".*")],
    ids=["foreign", "no JSON", "cut"],
)
def test_every_reader_of_tensors_names_a_damaged_file(
    reader: str, header: dict[str, str] | None, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.safetensors"
    save_file({"x": torch.zeros(100)}, path, header)
    if header == {"fedol": "{}"}:
        cut(path)
    with pytest.raises(FedolError, match=rf"file.safetensors is damaged \({why}\); \w+") as caught:
        TENSOR_READERS[reader](path)
    one_sentence(str(caught.value))
