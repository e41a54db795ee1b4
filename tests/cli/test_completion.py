"""What the Tab key offers for a value, and what help says of the presets."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from commands import PERSON, Command
from test_feel import EVERY
from typer.main import get_command
from typer.testing import CliRunner

from fedol.cli import app, complete
from fedol.config import PRESETS, configure
from fedol.knowledge.codecs import find as codec
from fedol.methods import METHODS
from fedol.models.registry import names as models


def offered(*words: str) -> list[str]:
    """What the shell is told for the last word."""
    environment = {"_FEDOL_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(app, [], prog_name="fedol", env=environment)
    return done.output.split()


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("fedol", "run", "--method", "pool"), "pooled"),
        (("fedol", "run", "--preset", "p"), "paper"),
        (("fedol", "run", "--partition", "dir"), "dirichlet:0.05"),
        (("fedol", "run", "--dataset", "fash"), "fashion-mnist"),
        (("fedol", "run", "--log", "m"), "mlflow"),
        (("fedol", "run", "--client-models", "mlp,cnn-"), "mlp,cnn-large"),
        (("fedol", "serve", "task", "--defence", "trust,ru"), "trust,runoff"),
        (("fedol", "client", "fit", "task", "--schedule", "cos"), "cosine"),
        (("fedol", "bench", "one-round", "--methods", "fedol,uni"), "fedol,union"),
    ],
)
def test_values_are_completed(words: tuple[str, ...], first: str) -> None:
    assert offered(*words)[0] == first


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_tab_key_in_a_real_shell(tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect", reason="needs the package pexpect", exc_type=ImportError)
    program = tmp_path / "fedol"
    program.write_text(f"#!{sys.executable}\nfrom fedol.cli import main\n\nmain()\n")
    program.chmod(0o755)
    environment = {**PERSON, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = pexpect.spawn("bash", ["--norc"], cwd=str(tmp_path), env=environment, encoding="utf-8", timeout=60)
    shell.sendline('eval "$(fedol --show-completion)"; echo told"" once')
    shell.expect("told once")
    for typed, completed in (("run --preset p", "paper"), ("bench --methods fedol,un", "union"), ("ser", "serve")):
        shell.send(f"fedol {typed}\t")
        shell.expect(f"{completed} ")
        shell.sendcontrol("u")
    shell.close(force=True)


def test_every_name_that_is_offered_is_accepted() -> None:
    for setting in ("method", "partition", "codec", "optimiser", "schedule", "patch", "defence", "server_model"):
        found = complete.OF[setting]("")
        assert len(found) > 2, setting
        for name in found:
            configure(overrides={setting: name})
    assert set(complete.OF["method"]("")) == {name for name, method in METHODS.items() if not method.control}
    assert set(complete.OF["server_model"]("")) == set(models())
    assert all(codec(name) for name in complete.OF["codec"](""))


def test_folders_of_runs_are_completed(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "first").symlink_to(finished)
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "else" / "where").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert offered("fedol", "report", "")[0] == "runs/first"
    assert offered("fedol", "runs", "compare", "runs/f") == ["runs/first"]
    assert offered("fedol", "predict", "e") == ["else/"]
    assert offered("fedol", "predict", "else/w") == ["else/where/"]


def test_help_says_what_each_preset_has(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    told = command("run", "--help").out
    for words in ("(default: 20; paper: 50; best: 100)", "(default: digits; paper, best: cifar100)", "best: cosine)"):
        assert words in told
    for panel in ("Data", "Models", "Method", "Training", "Settings", "Output"):
        assert f"─ {panel} ─" in told
    assert "paper: " not in command("client", "fit", "--help").out, "which has no presets"
    assert set(PRESETS) == {"quick", "paper", "best"}


@pytest.mark.parametrize("path", [path for path in EVERY if path], ids=" ".join)
def test_help_points_to_no_file_of_the_repository(path: tuple[str, ...]) -> None:
    found = get_command(app)
    for name in path:
        found = found.commands[name]  # type: ignore[attr-defined]
    said = [found.help or "", *(getattr(parameter, "help", "") or "" for parameter in found.params)]
    assert not re.search(r"\b(docs|results|benchmarks|tests|examples)/", " ".join(said))


def test_no_message_points_to_a_file_of_the_repository() -> None:
    """In the package's own words: docstrings of modules may, what a user is told may not."""
    for file in Path(complete.__file__).parents[1].rglob("*"):
        if file.suffix == ".py":
            told = re.findall(r'(?:Error|say|print)\(\s*f?"[^"]*', file.read_text(encoding="utf-8"))
        elif file.parent.name == "templates":
            told = [file.read_text(encoding="utf-8")]
        else:
            continue
        assert not [words for words in told if re.search(r"\b(docs|results)/\w+", words)], file
