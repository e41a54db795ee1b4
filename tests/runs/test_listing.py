"""``fedol runs``: what it lists and compares, and that it removes runs and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from commands import Command

from fedol.runs.folder import LOCK
from fedol.runs.locks import hold


@pytest.fixture
def place(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a finished run, an unfinished one, and what is no run."""
    runs = tmp_path / "runs"
    for name in ("done", "begun"):
        shutil.copytree(finished, runs / name)
    (runs / "begun" / "summary.json").unlink()
    (runs / "photos").mkdir()
    (runs / "photos" / "config.json").write_text('{"config": {"camera": "mine"}}')
    (runs / "list.txt").write_text("not a folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runs


def files(place: Path) -> set[str]:
    return {str(file.relative_to(place)) for file in place.rglob("*")}


@pytest.mark.usefixtures("place")
def test_every_run_is_listed_with_its_state(command: Command) -> None:
    said = command("runs")
    assert "2 runs, 1 finished" in said.out and "photos" not in said.out
    assert said.out == command("runs", "list").out
    told = {run["run"]: run for run in json.loads(command("runs", "--json").out)}
    assert {name: run["state"] for name, run in told.items()} == {"runs/begun": "unfinished", "runs/done": "finished"}
    summary = json.loads(Path("runs/done/summary.json").read_text())
    assert told["runs/done"]["accuracy"] == summary["server"]["accuracy"]
    assert told["runs/begun"]["accuracy"] is None


def test_runs_are_compared_by_the_settings_that_differ(place: Path, command: Command) -> None:
    other = Path(shutil.copytree(place / "done", place / "other"))
    for name in ("config.json", "summary.json"):
        held = json.loads((other / name).read_text())
        held["config"]["tau"] = 0.9
        if "server" in held:
            held["server"]["accuracy"] = 0.99
        (other / name).write_text(json.dumps(held))
    told = json.loads(command("runs", "compare", "--json").out)
    assert [list(run["settings"]) for run in told] == [["tau"], ["tau"]]
    said = command("runs", "compare", place / "done", place / "other").out
    assert said.index("other") < said.index("done") and "99.0 %" in said and "0.9" in said


def test_nothing_goes_before_it_is_said_twice(place: Path, command: Command) -> None:
    before = files(place)
    said = command("runs", "prune", "--finished")
    assert "would be removed" in said.out and "--yes" in said.out
    assert files(place) == before


def test_what_goes_is_what_an_unfinished_run_has_written(place: Path, command: Command) -> None:
    (place / "begun" / "notes.txt").write_text("mine")
    others = {name for name in files(place) if not name.startswith("begun")}
    said = command("runs", "prune", "--yes")
    assert "notes.txt is not the run's and stays" in said.out
    assert files(place) == others | {"begun", "begun/notes.txt"}
    assert command("runs", "prune", "--yes").out == "There is no unfinished run here.\n"
    command("runs", "prune", place / "done", "--finished", "--yes")
    assert not (place / "done").exists()


def test_a_link_is_not_followed(place: Path, tmp_path: Path, command: Command) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "01.fedol").write_bytes(b"the only one")
    shutil.rmtree(place / "begun" / "clients")
    (place / "begun" / "clients").symlink_to(treasure)
    (place / "link").symlink_to(place / "done")
    command("runs", "prune", "--finished", "--yes")
    assert (treasure / "01.fedol").exists() and (place / "begun" / "clients").is_symlink()


def test_a_run_that_a_process_works_in_stays(place: Path, command: Command) -> None:
    held = hold(place / "begun" / LOCK)
    assert held
    try:
        said = command("runs", "prune", "--yes")
        assert "kept, for a process works in it" in said.out and (place / "begun" / "config.json").exists()
        assert {run["state"] for run in json.loads(command("runs", "--json").out)} == {"finished", "training"}
    finally:
        held.release()


def test_clients_files_that_may_be_there_once_only_stay(place: Path, command: Command) -> None:
    config = json.loads((place / "begun" / "config.json").read_text())
    config["config"]["task"] = "a task"
    (place / "begun" / "config.json").write_text(json.dumps(config))
    assert "kept, for it holds clients' files" in command("runs", "prune", "--yes").out
    assert (place / "begun" / "config.json").exists()


def test_a_place_without_runs_is_an_error_where_it_was_named(place: Path, command: Command) -> None:
    for wrong in ("nowhere", place / "photos", place / "list.txt"):
        said = command("runs", "prune", wrong, "--yes")
        assert said.code == 2 and "is no run and holds none" in said.err
    assert (place / "photos" / "config.json").exists()


def test_where_no_run_is_yet_it_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("runs").out == "There are no runs here; fedol run makes one.\n"
