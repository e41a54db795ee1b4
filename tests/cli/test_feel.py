"""How the command line feels: guidance by example, near misses, quiet, scripts, completion.

Ctrl-C: tests/runs/test_resume.py and tests/federation/test_interrupts.py; progress: test_progress.py.
"""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from commands import PERSON as ENV
from commands import exit_code, on_terminal
from commands import fedol as fedol_alone
from packaging.version import Version

import fedol
from fedol.cli import app
from fedol.report.loggers import Logged

TINY = ["--clients=2", "--partition=iid", "--public=60", "--client-models=mlp", "--server-model=mlp", "--width=4"]
SHORT = [*TINY, "--epochs=1", "--iterations=1", "--device=cpu"]
AGAIN = "fix that and rerun the command."


def call(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return fedol_alone(*argv, cwd=None, env={**ENV, **environment})


def in_process(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = exit_code(*argv)
    out, err = capsys.readouterr()
    return code, out + err


def commands(command: Any, *path: str) -> list[tuple[str, ...]]:
    """Every command and group, by the words that lead to it."""
    found: list[tuple[str, ...]] = [path]
    for name, inner in getattr(command, "commands", {}).items():
        found += commands(inner, *path, name)
    return found


EVERY = commands(typer.main.get_command(app))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_help_guides_by_example(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, told = in_process([*path, "--help"], capsys)
    assert code == 0
    assert f"fedol {' '.join(path)}".strip() in told.split("Usage:")[1].split("\n", 1)[1], "no example"


@pytest.mark.parametrize("path", [path for path in EVERY if path], ids=" ".join)
def test_examples_stand_below_each_other(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, told = in_process([*path, "--help"], capsys)
    examples = re.findall(r"^ (?:Examples: | *)(?=fedol )", told.split("╭", 1)[0], flags=re.MULTILINE)
    assert len(set(map(len, examples))) <= 1


@pytest.mark.parametrize("path", [path for path in EVERY if path])
def test_prose_wraps_where_the_terminal_does(path: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    assert not any("\n" in paragraph for paragraph in command.help.split("\n\n") if "Example" not in paragraph)


@pytest.mark.skipif(
    Version(version("click")) >= Version("8.5"), reason="typer 0.20 needs an older click to show what arguments are"
)
@pytest.mark.parametrize("path", [path for path in EVERY if path])
def test_every_argument_and_option_is_explained(path: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    assert [parameter.name for parameter in command.params if not parameter.help] == []


def test_there_are_commands_to_check() -> None:
    assert {("run",), ("report",), ("doctor",), ("bench", "one-round"), ("client", "fit")} <= set(EVERY)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["rnu"], "Did you mean 'run'?"),
        (["bench", "reprot"], "Did you mean 'report'?"),
        (["run", "--datset", "digits"], "--dataset"),
        (["run", "--method", "fedoll"], "did you mean 'fedol'?"),
        (["run", "--dataset", "cifar1000"], "did you mean 'cifar100'?"),
        (["run", "--server-model", "cnn-larg"], "did you mean 'cnn-large'?"),
        (["run", "--preset", "papr"], "did you mean 'paper'?"),
    ],
)
def test_a_near_miss_gets_a_hint_and_exit_code_2(
    argv: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    code, told = in_process(argv, capsys)
    assert code == 2 and hint in told and "Traceback" not in told
    assert told.lower().count("did you mean") == 1


def test_quiet_says_nothing_but_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", *SHORT, "--quiet", f"--out={tmp_path / 'run'}"]
    assert in_process(argv, capsys) == (0, "")
    assert (tmp_path / "run" / "report.html").exists()
    code, told = in_process([*argv, "--clients=0"], capsys)
    assert code == 2 and told.startswith("Error: ") and told.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device", "a[b].txt"), "a[b].txt cannot be opened (No space left on device)"),
        (TimeoutError("the line is dead."), "TimeoutError: the line is dead"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(
    error: OSError, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> None:
        raise error

    monkeypatch.setattr(sys.modules["fedol.cli.doctor"], "diagnose", refused)
    told = in_process(["doctor"], capsys)
    assert told == (2, f"Error: {sentence}; {AGAIN}\n")


@pytest.mark.parametrize(
    ("redirected", "end"),
    [
        ('("$@"; echo $? >&2) | true', "0\n"),  # a reader that has gone, as head may
        ('"$@" > /dev/full; echo $? >&2', f"Error: OSError: [Errno 28] {os.strerror(28)}; {AGAIN}\n2\n"),
        ('"$@" >&-; echo $? >&2', "0\n"),
    ],
    ids=["gone", "full", "closed"],
)
def test_output_that_nobody_takes_leaves_no_exception_of_pythons(redirected: str, end: str) -> None:
    command = ["sh", "-c", redirected, "sh", sys.executable, "-m", "fedol", "--version"]
    buffered = {name: value for name, value in ENV.items() if name != "PYTHONUNBUFFERED"}
    assert subprocess.run(command, capture_output=True, text=True, env={**buffered, "COLUMNS": "200"}).stderr == end


def test_colours_only_where_they_are_wanted() -> None:
    colour = re.compile(r"\x1b\[[\d;]*3[0-7]m")
    assert colour.search(on_terminal(["--help"]))
    assert not colour.search(on_terminal(["--help"], NO_COLOR="1"))
    assert "\x1b" not in call("--help").stdout  # not a terminal


def test_a_terminal_sees_progress_with_the_time_left(tmp_path: Path) -> None:
    shown = on_terminal(["run", *SHORT, "--epochs=40", f"--out={tmp_path / 'run'}"])
    assert "epochs" in shown and "loss" in shown and ":" in shown.split("epochs", 1)[1][:120]


def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    doctor = sys.modules["fedol.cli.doctor"]  # the package has the command by this name
    monkeypatch.setattr(doctor, "LONG_ENOUGH", 0.01)
    monkeypatch.setitem(doctor.EXTRAS, "no-such-package", ("nothing", "fedol[nothing]"))
    monkeypatch.setenv("COLUMNS", "80")
    code, told = in_process(["doctor"], capsys)
    assert code == 0 and len(told.splitlines()) <= 24  # one screen
    for words in (fedol.__version__, "torch", "→ cpu", "GFLOP/s", "no-such-package", "pip install 'fedol[nothing]'"):
        assert words in told
    found = json.loads(in_process(["doctor", "--json"], capsys)[1])
    assert found["packages"]["torch"] and found["devices"][0]["gflops"] > 0
    assert [extra["version"] for extra in found["extras"] if extra["package"] == "no-such-package"] == [None]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    variables = {
        "_FEDOL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "fedol part",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "fedol part",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    program = "import sys; sys.argv = ['fedol']; from fedol.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**ENV, **variables})
    assert "partition" in done.stdout and "serve" not in done.stdout


def test_tensorboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the package tensorboard"
    )
    out = tmp_path / "run"
    code, told = in_process(["run", *SHORT, "--tensorboard", f"--out={out}"], capsys)
    assert code == 0, told
    log = events.EventAccumulator(str(out / "tensorboard"))
    log.Reload()
    summary = json.loads((out / "summary.json").read_text())
    assert {"loss/client 0", "loss/client 1", "loss/server 1/1", "server/rho"} <= set(log.Tags()["scalars"])
    (last,) = log.Scalars("server/test_accuracy")
    assert last.value == pytest.approx(summary["server"]["accuracy"])
    assert [json.loads(line)["stage"] for line in (out / "metrics.jsonl").read_text().splitlines()].count("client") == 2


def test_threads_that_train_share_one_tensorboard_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[str]] = []

    class Writer:
        def __init__(self, folder: Path) -> None:
            time.sleep(0.05)  # long enough for every thread to come by
            written.append([])

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written[-1].append(name)

        def close(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    epochs = [SimpleNamespace(job=SimpleNamespace(name=f"client {k}"), epoch=1, loss=1.0) for k in range(8)]
    with Logged("tensorboard", tmp_path) as board, ThreadPoolExecutor(8) as threads:
        list(threads.map(board.epoch, epochs))
    (names,) = written
    assert sorted(names) == [f"loss/client {k}" for k in range(8)]


def test_without_tensorboard_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, told = in_process(["run", "--tensorboard", f"--out={tmp_path / 'run'}"], capsys)
    assert code == 2 and "fedol[tensorboard]" in told and not (tmp_path / "run").exists()
