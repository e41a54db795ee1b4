"""``fedol evaluate``, ``fedol adapt`` and ``fedol report --benefits`` as a site would, wrong inputs included."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import numpy as np
import pytest
from commands import Command
from sklearn.ensemble import RandomForestClassifier
from small_federation import SMALL, Federation

import fedol
from fedol.data import load, partition, split


class Place:
    """A run that published its targets, and a site with its data and a forest."""

    def __init__(self, folder: Path) -> None:
        self.folder, federation = folder, Federation(folder)
        data = split(load("digits"), 80, seed=0)
        share = data.private.take(partition(data.private.y, "dirichlet:0.5", 4, 0, 10)[1])
        cut, classes = len(share) // 2, [str(digit) for digit in range(10)]
        arrays = {"train_x": share.x[cut:], "train_y": share.y[cut:], "test_x": share.x[:cut], "test_y": share.y[:cut]}
        np.savez(folder / "bob.npz", **arrays, classes=classes)
        one = share.y[:cut] == share.y[0]
        np.savez(folder / "one.npz", **{**arrays, "test_x": share.x[:cut][one], "test_y": share.y[:cut][one]})
        np.savez(folder / "wide.npz", **{**arrays, "train_x": arrays["train_x"].repeat(2, 3),
                                         "test_x": arrays["test_x"].repeat(2, 3)})  # fmt: skip
        np.savez(folder / "strange.npz", **arrays, classes=[*classes[:9], "ten"])
        np.savez(folder / "unlabelled.npz", images=share.x)
        forest = RandomForestClassifier(20, random_state=0)
        forest.fit(share.samples.floats()[cut:].reshape(-1, 64), share.y[cut:])
        joblib.dump(forest, folder / "forest.joblib")
        self.federation = federation


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def run(place: Place) -> Path:
    """A finished run of a task that publishes targets."""
    from commands import exit_code

    folder = place.folder
    np.savez(folder / "public.npz", public=place.federation.public)
    new = ["task", "new", str(folder / "open"), "--public", str(folder / "public.npz"), "--publish-targets"]
    assert exit_code(*new, "--classes", ",".join(map(str, range(10)))) == 0
    task = fedol.TaskFolder.open(folder / "open").task
    truth = np.eye(10)[split(load("digits"), 80, seed=0).public_labels]
    fedol.Knowledge.from_probabilities(0.8 * truth + 0.02, task, "alice").save(folder / "alice.fedol")
    learn = ["distill", str(folder / "open"), str(folder / "alice.fedol"), "--method", "union", *SMALL]
    assert exit_code(*learn, "--out", str(folder / "run"), "--quiet") == 0
    return folder / "run"


def test_a_site_compares_adapts_and_reports(place: Place, run: Path, command: Command, tmp_path: Path) -> None:
    about = ["--data", str(place.folder / "bob.npz"), "--model", str(place.folder / "forest.joblib")]
    said = command("evaluate", str(run), *about, "--html", str(tmp_path / "page.html"))
    assert said.code == 0 and "two standard errors" in said.out and "your model is" in said.out
    assert "<table" in (tmp_path / "page.html").read_text()
    adapted = tmp_path / "adapted.safetensors"
    said = command("adapt", str(run), *about, "--out", str(adapted))
    assert said.code == 0 and "Of 1" in said.out
    said = command("evaluate", str(adapted), *about, "--trust-code", "--json")
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "bob.json").write_text(said.out)
    (tmp_path / "back" / "eve.json").write_text(said.out)
    assert set(json.loads(said.out)["models"]) == {"own", "server", "adapted"}
    assert command("report", str(run), "--benefits", str(tmp_path / "back")).code == 0
    page = (run / "benefits.html").read_text()
    assert "bob" in page and "eve" in page and "All sites" in page


def test_a_site_trains_its_kind_again(place: Place, run: Path, command: Command, tmp_path: Path) -> None:
    about = ["--data", str(place.folder / "bob.npz"), "--model", str(place.folder / "forest.joblib"), "--retrain"]
    said = command("adapt", str(run), *about, "--out", str(tmp_path / "again.safetensors"), "--json")
    found = json.loads(said.out)
    assert said.code == 0 and found["inside"] in ("own", "retrained") and found["right"] >= found["right_own"]
    said = command("predict", str(tmp_path / "again.safetensors"), str(place.folder / "public.npz"), "--trust-code")
    assert said.code == 0 and len(said.out.splitlines()) == 80


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("one.npz", "nothing can be chosen on them"),
        ("wide.npz", "The model takes images of 1x8x8"),
        ("strange.npz", "has the class 'ten'"),
        ("unlabelled.npz", "has no array 'train_x'"),
        ("none.npz", "none.npz"),
    ],
)
def test_data_that_will_not_do(place: Place, run: Path, command: Command, data: str, words: str) -> None:
    said = command("adapt", str(run), "--data", str(place.folder / data), "--out", str(place.folder / "no.safetensors"))
    assert said.code == 2 and words in said.err and "Traceback" not in said.err and said.err.count("\n") == 1
    assert not (place.folder / "no.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--retrain"], "needs your kind of model"),
        (["--task", "task"], "--task is for --retrain"),
        (["--epochs", "3"], "is for --retrain"),
        (["--model", "none.joblib"], "There is no model file"),
        (["--model", "cn", "--retrain"], "did you mean"),
    ],
)
def test_options_that_will_not_do(place: Place, run: Path, command: Command, options: list[str], words: str) -> None:
    said = command("adapt", str(run), "--data", str(place.folder / "bob.npz"), *options)
    assert said.code == 2 and words in said.err and said.err.count("\n") == 1


def test_a_run_whose_task_publishes_nothing(place: Place, run: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes())
    about = ["--data", str(place.folder / "bob.npz"), "--model", str(place.folder / "forest.joblib"), "--retrain"]
    said = command("adapt", str(tmp_path), *about, "--task", str(place.folder / "open"))
    assert said.code == 2 and "--publish-targets" in said.err


@pytest.mark.parametrize("content", [None, "{", '{"classes": ["a"], "counts": []}', "[]"])
def test_benefits_that_cannot_be_read(run: Path, command: Command, tmp_path: Path, content: str | None) -> None:
    if content:
        (tmp_path / "eve.json").write_text(content)
    said = command("report", str(run), "--benefits", str(tmp_path))
    assert said.code == 2 and "fedol evaluate" in said.err and said.err.count("\n") == 1
