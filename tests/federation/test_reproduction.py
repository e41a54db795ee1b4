"""A finished run made again: the same bytes, or which files differ and what was not as it was."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from commands import Command
from small_federation import SMALL, Federation

from fedol.files import read_tensors, write_tensors
from fedol.runs import provenance
from fedol.runs.provenance import code


@pytest.fixture(scope="module")
def made(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished server run, and one that goes on from it."""
    from commands import exit_code

    place = tmp_path_factory.mktemp("made")
    files = [federation.file(name) for name in ("alice", "bob")]
    assert exit_code("distill", federation.task_dir, *files, *SMALL, "--out", place / "run", "-q") == 0
    assert exit_code("distill", "--resume", place / "run", federation.file("carol"), "--out", place / "on", "-q") == 0
    return place


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


def test_a_servers_run_gives_the_same_bytes(run: Path, command: Command) -> None:
    said = command("reproduce", run, "--json")
    found = json.loads(said.out)
    assert said.code == 0 and found["reproduced"] and found["different"] == {} and found["around"] == {}
    assert {"model.safetensors", "clients/alice.fedol", "server/01.safetensors", "screening.json"} <= set(found["same"])


def test_a_run_that_goes_on_from_another(made: Path, command: Command) -> None:
    said = command("reproduce", made / "on")
    assert said.code == 0 and "is reproduced" in said.out
    shutil.move(made / "run" / "model.safetensors", made / "elsewhere")
    said = command("reproduce", made / "on")
    shutil.move(made / "elsewhere", made / "run" / "model.safetensors")
    assert said.code == 2 and "goes on from a model that is not in" in said.err


def test_a_simulated_run_gives_the_same_bytes(finished: Path, command: Command, tmp_path: Path) -> None:
    said = command("reproduce", finished, "--out", tmp_path / "again")
    assert said.code == 0 and "is reproduced" in said.out and (tmp_path / "again" / "summary.json").exists()
    said = command("reproduce", finished, "--out", tmp_path / "again")
    assert said.code == 2 and "is there already" in said.err


def test_what_differs_is_said(run: Path, command: Command) -> None:
    tensors, header = read_tensors(run / "model.safetensors")
    name = next(iter(tensors))
    tensors[name] = tensors[name] + 0.25
    write_tensors(run / "model.safetensors", tensors, header)
    (run / "server" / "03.safetensors").write_bytes(b"more")
    summary = json.loads((run / "summary.json").read_text())
    summary["provenance"]["code"] = "0" * 16
    (run / "summary.json").write_text(json.dumps(summary))
    said = command("reproduce", run)
    assert said.code == 1 and "is not reproduced" in said.out
    assert "model.safetensors differs by up to 0.25" in said.out and "server/03.safetensors is only in" in said.out
    assert f"code was {'0' * 16}, now {code()}" in said.out


def test_what_cannot_be_made_again(run: Path, federation: Federation, command: Command, tmp_path: Path) -> None:
    said = command("reproduce", tmp_path / "none")
    assert said.code == 2 and "give the folder of a finished run" in said.err
    kept = (run / "clients" / "alice.fedol").read_bytes()
    (run / "clients" / "alice.fedol").write_bytes(federation.file("bob").read_bytes())
    said = command("reproduce", run)
    assert said.code == 2 and "is not the file that" in said.err
    (run / "clients" / "alice.fedol").unlink()
    assert "is not there any more" in command("reproduce", run).err
    (run / "clients" / "alice.fedol").write_bytes(kept)
    about = json.loads((run / "task.json").read_text())
    assert about["public"] == federation.task.fingerprint and "clients" not in about
    (run / "task.json").write_text(json.dumps({**about, "folder": str(tmp_path / "moved")}))
    assert "There is no task in" in command("reproduce", run).err
    assert command("reproduce", run, "--task", federation.task_dir).code == 0


def test_the_code_is_always_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDOL_COMMIT", raising=False)
    assert re.fullmatch("[0-9a-f]{16}", code())
    package = tmp_path / "fedol"
    shutil.copytree(provenance.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = code()
    monkeypatch.setattr(provenance, "PACKAGE", package)  # as a wheel is installed: no checkout
    for kept in (provenance.code, provenance.commit):
        kept.cache_clear()
    try:
        found = provenance.provenance(0)
        assert found["commit"] is None and "is not in a git checkout" in found["commit_unknown"]
        assert found["code"] == before  # the same files
        (package / "seeding.py").write_text("# another\n")
        provenance.code.cache_clear()
        assert provenance.code() != before
    finally:
        for kept in (provenance.code, provenance.commit):
            kept.cache_clear()
