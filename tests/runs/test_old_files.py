"""What the last two versions wrote is read: tasks, clients' files, models, and runs to show, resume and repeat."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from commands import Command

import fedol
from fedol import Knowledge
from fedol.federation.taskfolder import TaskFolder
from fedol.runs.eventlog import verify
from fedol.runs.listing import FINISHED, found

OLD = sorted((Path(__file__).parent / "old").glob("*.zip"))
NAMES = ("alice", "bob", "carol")


@pytest.fixture(params=OLD, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The files as they were, where they are now."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    about = json.loads((tmp_path / "run" / "task.json").read_text())
    (tmp_path / "run" / "task.json").write_text(json.dumps({**about, "folder": str(tmp_path / "task")}))
    return tmp_path


def test_there_are_two() -> None:
    assert len(OLD) == 2


def test_a_task_and_the_files_for_it(old: Path) -> None:
    folder = TaskFolder.open(old / "task")
    assert len(folder.samples()) == 12 and folder.task.classes == ("a", "b", "c")
    for number, name in enumerate(NAMES):
        told = Knowledge.load(old / f"{name}.fedol", folder.task).probabilities().numpy()
        sent = np.random.default_rng(number + 1).dirichlet(np.ones(3), 12)
        assert (told.argmax(1) == sent.argmax(1)).mean() > 0.9


def test_a_model_and_the_run_around_it(old: Path, command: Command) -> None:
    model = fedol.load(old / "run")
    assert model.predict_proba(TaskFolder.open(old / "task").public()).shape == (12, 3)
    (run,) = found([old / "run"])
    assert run.state == FINISHED and run.served
    assert command("report", old / "run").code == 0 and (old / "run" / "report.html").exists()


def test_a_run_is_gone_on_with(old: Path, command: Command) -> None:
    folder = TaskFolder.open(old / "task")
    Knowledge.from_probabilities(np.full((12, 3), 1 / 3), folder.task, "dave").save(old / "dave.fedol")
    said = command("distill", "--resume", old / "run", old / "dave.fedol", "--out", old / "on")
    assert said.code == 0, said.err
    again = command("distill", "--resume", old / "run", "--without", "bob")
    assert again.code == 0, again.err
    assert verify(old / "run").events == 3  # the first ones of a run that had no log
    assert "bob" not in json.loads((old / "run" / "roster.json").read_text())["clients"]


def test_a_run_is_made_again(old: Path, command: Command) -> None:
    """With the same targets; weights are those of the code of today, which need not be the old one's."""
    found = json.loads(command("reproduce", old / "run", "--json").out)
    assert {f"clients/{name}.fedol" for name in NAMES} <= set(found["same"])
    assert "server/01.votes.safetensors" in found["same"] and "code" in found["around"]


def test_a_version_that_is_not_known_is_refused_in_a_sentence(old: Path, command: Command) -> None:
    for file, words in (("task/task.json", "has the schema 99"), ("run/config.json", "was made by another version")):
        kept = (old / file).read_text()
        (old / file).write_text(json.dumps({**json.loads(kept), "schema": 99}))
        out = old / "run" if "run" in file else old / "new"
        said = command("distill", old / "task", *(old / f"{name}.fedol" for name in NAMES), "--out", out)
        assert said.code == 2 and words in said.err, said.err
        (old / file).write_text(kept)
