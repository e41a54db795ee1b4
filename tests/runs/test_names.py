"""What a run is called that is not told where to go: readable, distinct, and found again by the same settings."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import fedol
from fedol.config import RunConfig, configure
from fedol.runs.folder import LOCK, RunFolder
from fedol.runs.names import LONGEST, default_folder, readable


@pytest.mark.parametrize(
    ("preset", "settings", "name"),
    [
        (None, {}, "digits-dirichlet0.3-fedol-seed0"),
        (None, {"epochs": 8, "tau": 0.5, "seed": 3}, "digits-dirichlet0.3-fedol-seed3-tau0.5-epochs8"),
        (None, {"augment": True, "server_model": "cnn"}, "digits-dirichlet0.3-fedol-seed0-server-model-cnn-augment"),
        ("best", {"data_dir": "/data"}, "cifar100-dirichlet0.05-pooled-seed0-best"),
        ("best", {"augment": False}, "cifar100-dirichlet0.05-pooled-seed0-best-no-augment"),
        (None, {"dataset": "/my data/sites.npz", "partition": "sites"}, "sites-sites-fedol-seed0"),
        (None, {"dataset": "custom@0123456789ab", "method": "fedol+"}, "custom-dirichlet0.3-fedol+-seed0"),
    ],
)
def test_a_name_says_what_differs(preset: str | None, settings: dict[str, object], name: str) -> None:
    assert readable(configure(preset, overrides=settings)) == name


def test_a_name_has_an_end_and_nothing_that_a_shell_or_a_file_system_reads() -> None:
    config = RunConfig(dataset="a b;c$d*.npz", server_model="my dir/nets.py:Net", lr=0.02, rho=0.3, mu=0.1)
    name = readable(replace(config, batch_size=48, iterations=3, epochs=3, clients=3, public=33, width=3))
    assert len(name) <= LONGEST + 1 and not set(name) & set(" ;$*/:\\'\"")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_a_hash_sets_apart_what_is_called_the_same_whichever_was_there_first() -> None:
    first, second = RunConfig(), RunConfig(data_dir="elsewhere")
    assert default_folder(first) == default_folder(second)
    RunFolder.open(default_folder(first), first)
    assert default_folder(first).name == "digits-dirichlet0.3-fedol-seed0"
    apart = default_folder(second)
    assert apart.name == f"digits-dirichlet0.3-fedol-seed0-{second.hash[:6]}"
    RunFolder.open(apart, second)
    shutil.rmtree(default_folder(first))
    assert default_folder(second) == apart, "a run that is there keeps its name"


@pytest.mark.usefixtures("here")
def test_a_folder_that_a_run_killed_in_its_first_moment_has_left_is_its_own() -> None:
    folder = default_folder(RunConfig())
    folder.mkdir(parents=True)
    (folder / LOCK).touch()
    assert default_folder(RunConfig()) == folder


def test_what_somebody_else_has_put_there_is_left_alone(here: Path) -> None:
    folder = here / default_folder(RunConfig())
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert default_folder(RunConfig()).name == f"{folder.name}-{RunConfig().hash[:6]}"


def test_a_run_that_was_named_by_its_hash_is_found(here: Path, tiny: dict[str, object]) -> None:
    config = configure(overrides=tiny)
    old = Path("runs") / f"digits-{config.hash}"
    made = fedol.run(config, out=old, progress=False)
    again = fedol.run(config, progress=False)
    assert again.out == old and again.already_finished and again.summary == made.summary
    assert [folder.name for folder in (here / "runs").iterdir()] == [old.name]
