"""The command line, as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import exit_code

ENV = {**commands.ENV, "COLUMNS": "80"}


def options(settings: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def call(argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The entry point in this process: what it printed on stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "80")
    code = exit_code(*argv)
    out, err = capsys.readouterr()
    assert not code, err
    return out, err


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["partition", "--help"], ["--version"], []])
def test_help_answers_without_torch(argv: list[str]) -> None:
    program = (
        "import sys, atexit\n"
        "heavy = ('torch', 'numpy', 'sklearn', 'matplotlib')\n"
        "atexit.register(lambda: print('imported:', [name for name in heavy if name in sys.modules]))\n"
        f"sys.argv = ['fedol', *{argv!r}]\n"
        "from fedol.cli import main\n"
        "main()\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENV)
    assert "imported: []" in answer.stdout
    assert ("Usage" in answer.stdout) or argv == ["--version"]


def test_every_option_of_the_issue_is_there() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "fedol", "run", "--help"], capture_output=True, text=True, env={**ENV, "COLUMNS": "200"}
    )
    assert answer.returncode == 0
    listed = (
        "dataset data-dir clients partition public client-models server-model width iterations tau rho rho-step "
        "epochs batch-size lr seed device preset config out json"
    )
    for option in listed.split():
        assert f"--{option} " in answer.stdout, option
    for heeded in (
        "in fedol, its variants and fedol+",
        "in fedol and fedol+",
        "fedol+ finds its own",
        "fedol+ has none",
    ):
        assert heeded in answer.stdout, heeded  # by which methods an option is heeded, where not by all


def test_json_is_json_alone_and_a_finished_run_is_read(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "--json", f"--out={tmp_path / 'run'}", *options(tiny)]
    answer = subprocess.run([sys.executable, "-m", "fedol", *argv], capture_output=True, text=True, env=ENV)
    assert (answer.returncode, answer.stderr) == (0, "")
    result = json.loads(answer.stdout)
    assert result["provenance"]["command"].startswith("fedol run --json --out=")
    assert result["config"]["epochs"] == 1
    assert call(argv, monkeypatch, capsys) == (answer.stdout, "")


def test_the_tables(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", f"--out={tmp_path / 'run'}", *options(tiny)]
    out, err = call(argv, monkeypatch, capsys)
    assert err == ""  # progress bars are for terminals
    for words in ("client 0", "client 1", "Local (mean)", "Ensemble", "FedOL server", "uploaded", "best client"):
        assert words in out
    for words in ("iteration", "rho", "labelled", "labels right", "test accuracy", "Took ", "Run folder: "):
        assert words in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80
    assert "…" not in out  # nothing is cut at 80 columns
    again, _ = call(argv, monkeypatch, capsys)
    assert again == "This run was finished already; here is its result.\n" + out


def test_the_table_of_the_quick_job_fits_80_columns(tmp_path: Path) -> None:
    from rich.console import Console

    from fedol import methods
    from fedol.report.terminal import history_table, run_table

    client = {"model": "resnet22-wide", "parameters": 17_121_444, "samples": 45_000, "classes": 100, "accuracy": 1.0}
    summary = {
        "config": {"dataset": "cifar100", "partition": "dirichlet:0.05", "method": "fedol"},
        "clients": [{"client": k, "upload_bytes": 2_000_208, **client} for k in (0, 999)],
        "local": {"mean": 1.0, "std": 0.1, "n": 2},
        "ensemble": {"accuracy": 1.0},
        "server": client,
        "upload_bytes_per_client": 2_000_208,
    }
    record = {"iteration": 10, "rho": 0.55, "coverage": 1.0, "voters": 11.0, "score": 1.0, "loss": 1.613}
    diagnostics = {"test_accuracy": 1.0, "pseudo_label_accuracy": None}
    with open(tmp_path / "out", "w") as file:
        console = Console(file=file, width=80)
        for method in methods.names():  # whose titles are as long as "FedET, variance of probabilities"
            console.print(run_table({**summary, "config": {**summary["config"], "method": method}}))
        console.print(history_table([{**record, "diagnostics": diagnostics}]))
        console.print(history_table([{"iteration": 1, "loss": 0.5, "diagnostics": {"test_accuracy": 1.0}}]))
    text = (tmp_path / "out").read_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_command_line_over_file_over_preset(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text("tau = 0.4\nseed = 7\n")
    argv = ["run", "--json", f"--out={tmp_path / 'run'}", f"--config={file}", "--tau=0.6", *options(tiny)]
    config = json.loads(call(argv, monkeypatch, capsys)[0])["config"]
    assert (config["tau"], config["seed"], config["lr"]) == (0.6, 7, 1e-3)


def test_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["partition", "--dataset=digits", "--partition=classes:3", "--clients=5", "--public=100"]
    out, _ = call([*argv, f"--plot={tmp_path / 'heat.png'}"], monkeypatch, capsys)
    assert "1,338 private samples, 5 clients, 10 classes" in out
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")
    counts = json.loads(call([*argv, "--json"], monkeypatch, capsys)[0])["samples_per_client_and_class"]
    assert sum(map(sum, counts)) == 1338
    assert [sum(count > 0 for count in row) for row in counts] == [3] * 5


def test_the_partition_shown_is_the_partition_run(
    finished: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["partition", "--json", *options({name: tiny[name] for name in ("clients", "partition", "public")})]
    shown = json.loads(call(argv, monkeypatch, capsys)[0])["samples_per_client_and_class"]
    assert shown == json.loads((finished / "data.json").read_text())["samples_per_client_and_class"]


def test_the_partition_is_without_the_images_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "held.toml").write_text("development = 500")
    shown = json.loads(call(["partition", f"--config={tmp_path / 'held.toml'}", "--json"], monkeypatch, capsys)[0])
    assert sum(map(sum, shown["samples_per_client_and_class"])) == 1438 - 400 - 500
