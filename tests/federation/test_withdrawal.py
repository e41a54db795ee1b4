"""A client that withdraws: the run forgets it, and the server is that of a run in which it never was."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import Command
from small_federation import SMALL, Federation

from fedol import Knowledge
from fedol.errors import InputError
from fedol.federation import withdrawal
from fedol.federation.withdrawal import name_hash
from fedol.files import file_digest
from fedol.runs.eventlog import read, verify
from fedol.runs.locks import hold

SAME = ("model.safetensors", "server/01.safetensors", "server/02.votes.safetensors", "screening.json")


@pytest.fixture
def run(federation: Federation, tmp_path: Path, command: Command) -> Path:
    files = [federation.file(name) for name in ("alice", "bob", "carol", "dave")]
    assert command("distill", federation.task_dir, *files, *SMALL, "--out", tmp_path / "run").code == 0
    (tmp_path / "run" / "report-for-bob.html").write_text("bob")
    return tmp_path / "run"


@pytest.fixture
def never(federation: Federation, tmp_path: Path, command: Command) -> Path:
    """The run in which bob never was."""
    files = [federation.file(name) for name in ("alice", "carol", "dave")]
    assert command("distill", federation.task_dir, *files, *SMALL, "--out", tmp_path / "never").code == 0
    return tmp_path / "never"


def test_same_bytes_as_if_it_had_never_been_there(
    run: Path, never: Path, federation: Federation, command: Command
) -> None:
    before, sent = file_digest(run / "model.safetensors"), file_digest(federation.file("bob"))
    assert command("distill", "--resume", run, "--without", "bob").code == 0
    for name in SAME:
        assert (run / name).read_bytes() == (never / name).read_bytes(), name
    assert file_digest(run / "model.safetensors") != before
    assert not (run / "clients" / "bob.fedol").exists() and not (run / "report-for-bob.html").exists()
    for file in (path for path in run.rglob("*") if path.suffix in (".json", ".jsonl", ".html", ".md")):
        assert not re.search(r"\bbob\b", file.read_text(errors="replace")), file
    (entry,) = json.loads((run / "summary.json").read_text())["withdrawn"]
    assert (entry["client_sha256"], entry["file_sha256"]) == (name_hash(federation.task.id, "bob"), sent)
    assert "1 more has withdrawn" in (run / "MODEL_CARD.md").read_text()
    assert verify(run).erased and read(run)[-1]["kind"] == "trained"
    assert [line["facts"]["client"] for line in read(run) if line["kind"] == "accepted" and "facts" in line] == [
        "alice", "carol", "dave",
    ]  # fmt: skip


def test_a_withdrawal_that_was_killed_is_finished(
    run: Path, never: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("_forget_training", "_forget_files", "Coordinator"):
        with monkeypatch.context() as patch:
            patch.setattr(withdrawal, step, lambda *_: (_ for _ in ()).throw(InputError("killed here.")))
            assert "killed here" in command("distill", "--resume", run, "--without", "bob").err
    assert command("distill", "--resume", run, "--without", "bob").code == 0
    for name in SAME:
        assert (run / name).read_bytes() == (never / name).read_bytes(), name
    assert len(json.loads((run / "withdrawn.json").read_text())) == 1
    verify(run)


def test_one_after_the_other_until_one_is_left(run: Path, command: Command) -> None:
    for name in ("bob", "carol", "dave"):
        assert command("distill", "--resume", run, "--without", name).code == 0
    said = command("distill", "--resume", run, "--without", "alice")
    assert said.code == 2 and "the only client" in said.err
    assert len(json.loads((run / "summary.json").read_text())["withdrawn"]) == 3
    verify(run)


def test_what_cannot_be_withdrawn_from(run: Path, federation: Federation, command: Command, tmp_path: Path) -> None:
    wrong = [
        (["--resume", run, "--without", "bobb"], "did you mean 'bob'?"),
        (["--without", "bob"], "give it with --resume RUN and no more"),
        (["--resume", run, "--without", "bob", federation.file("bob")], "and no more"),
        (["--resume", run, "--without", "bob", "--epochs", "9"], "and no more"),
        (["--resume", tmp_path / "none", "--without", "bob"], "is not a server run"),
        ([], "Give the task's folder"),
    ]
    for words, message in wrong:
        said = command("distill", *words)
        assert said.code == 2 and message in said.err, words
    assert (run / "clients" / "bob.fedol").exists() and (run / "summary.json").exists()
    assert command("distill", "--resume", run, "--without", "bob").code == 0
    again = command("distill", "--resume", run, "--without", "bob")
    assert again.code == 2 and "has withdrawn from" in again.err


def test_a_run_that_goes_on_from_a_model_that_learnt_from_it(
    run: Path, federation: Federation, command: Command, tmp_path: Path
) -> None:
    frozen = json.loads((run / "config.json").read_text())
    frozen["config"]["parent"] = "0123456789abcdef"
    (run / "config.json").write_text(json.dumps(frozen))
    said = command("distill", "--resume", run, "--without", "bob")
    assert said.code == 2 and "goes on from another run's model" in said.err


def test_nobody_withdraws_from_a_run_that_is_at_work(run: Path, command: Command) -> None:
    lock = hold(run / "run.lock")
    assert lock is not None
    said = command("distill", "--resume", run, "--without", "bob")
    lock.release()
    assert said.code == 2 and "Another process works in" in said.err and (run / "clients" / "bob.fedol").exists()


def test_a_client_that_is_called_as_a_file_of_the_run(federation: Federation, tmp_path: Path, command: Command) -> None:
    files = [tmp_path / f"{name}.fedol" for name in ("config", "roster", "x")]
    for number, file in enumerate(files):
        noise = np.random.default_rng(number).dirichlet(np.ones(10), 80)
        Knowledge.from_probabilities(noise, federation.task, file.stem).save(file)
    assert command("distill", federation.task_dir, *files, *SMALL, "--out", tmp_path / "run").code == 0
    assert command("distill", "--resume", tmp_path / "run", "--without", "config").code == 0
    assert list(json.loads((tmp_path / "run" / "roster.json").read_text())["clients"]) == ["roster", "x"]
    verify(tmp_path / "run")
