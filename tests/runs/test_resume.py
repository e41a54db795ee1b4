"""A run killed at any moment and started again ends with the same bytes as one that was never interrupted."""

import gc
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import ENV
from filelock import FileLock

import fedol
from fedol.config import RunConfig
from fedol.errors import FedolError
from fedol.runs.folder import RunFolder

SETTINGS: dict[str, Any] = {
    "device": "cpu",
    "clients": 4,
    "public": 100,
    "partition": "iid",
    "client_models": "mlp,cnn",
    "server_model": "cnn",
    "width": 8,
    "epochs": 3,
    "iterations": 3,
}
OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]


def start(out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedol", "run", "--json", f"--out={out}", *OPTIONS]
    return subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(out: Path) -> None:
    """The same command again."""
    process = start(out)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def content(out: Path) -> dict[str, bytes]:
    """Every artefact but those that hold times or the date."""
    timed = ("metrics.jsonl", "summary.json", "report.html")
    files = [file for file in out.rglob("*") if file.is_file() and file.suffix != ".tmp" and file.name not in timed]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted") / "run"
    finish(out)
    return out


def there(*names: str) -> Callable[[Path], bool]:
    return lambda out: all((out / name).exists() for name in names)


def clients_done(count: int) -> Callable[[Path], bool]:
    return lambda out: len(list(out.glob("clients/*.fedol"))) >= count


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "folder just made": lambda out: out.exists(),
    "first client": clients_done(1),
    "in the middle of the clients": clients_done(2),
    "votes without their checkpoint": there("server/01.votes.safetensors"),
    "first iteration": there("server/01.safetensors"),
    "last iteration": there("server/03.safetensors"),
    "model written, not evaluated": there("model.safetensors"),
}
MORE_MOMENTS: dict[str, Callable[[Path], bool]] = {
    "config written": there("config.json"),
    "a client's model without its knowledge": lambda out: any(out.glob("clients/*.safetensors")),
    "all clients": clients_done(4),
    "a line of the metrics": there("metrics.jsonl"),
    "second iteration": there("server/02.safetensors"),
}


def kill_at(moment: Callable[[Path], bool], out: Path, how: signal.Signals) -> tuple[int, str, str]:
    """Start a run and send it a signal as soon as the moment has come; only a run that was under way counts."""
    process = start(out)
    while not moment(out):
        assert process.poll() is None, f"the run ended before the moment came: {process.communicate()}"
        time.sleep(0.0005)
    process.send_signal(how)
    printed, err = process.communicate(timeout=120)
    return process.returncode, printed, err


def killed(moment: Callable[[Path], bool], out: Path) -> None:
    """A run killed at the moment; on a busy machine the kill may come too late, and another run is needed."""
    for _ in range(5):
        if kill_at(moment, out, signal.SIGKILL)[0] == -signal.SIGKILL and not (out / "summary.json").exists():
            return
        shutil.rmtree(out)
    pytest.fail("five runs ended before they could be killed")


def check_killed_and_started_again(moment: Callable[[Path], bool], uninterrupted: Path, out: Path) -> None:
    killed(moment, out)
    survived = {file: file.stat().st_mtime_ns for file in out.glob("clients/*.fedol")}
    fedol.run(out=out, **SETTINGS)  # from this process: saves the seconds that another one takes to start
    assert content(out) == content(uninterrupted)
    assert {file: file.stat().st_mtime_ns for file in survived} == survived, "what was finished was done again"


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_started_again(moment: str, uninterrupted: Path, tmp_path: Path) -> None:
    check_killed_and_started_again(MOMENTS[moment], uninterrupted, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("moment", MORE_MOMENTS)
def test_killed_and_started_again_at_more_moments(moment: str, uninterrupted: Path, tmp_path: Path) -> None:
    check_killed_and_started_again(MORE_MOMENTS[moment], uninterrupted, tmp_path / "run")


def test_killed_twice_and_finished_by_the_same_command(uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for moment in ("first client", "first iteration"):
        killed(MOMENTS[moment], out)
    finish(out)
    assert content(out) == content(uninterrupted)
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    stages = [(line["stage"], line.get("client"), line.get("iteration")) for line in lines]
    assert len(stages) == len(set(stages)) == 4 + 3  # one per client and iteration, whatever was done twice


def test_a_file_half_written_in_the_first_moment_is_no_obstacle(uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / ".config.json.123.tmp").write_text('{"sche')
    fedol.run(out=out, **SETTINGS)
    assert content(out) == content(uninterrupted)


def test_interrupted_by_the_keyboard(uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, printed, err = kill_at(MOMENTS["first iteration"], out, signal.SIGINT)
    assert code == 130, err
    assert printed == ""
    assert err == "Stopped; what is finished is kept, and the same command continues.\n"
    fedol.run(out=out, **SETTINGS)
    assert content(out) == content(uninterrupted)


def test_a_finished_run_is_read_and_not_made_again(uninterrupted: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in uninterrupted.rglob("*.safetensors")}
    assert fedol.run(out=uninterrupted, **SETTINGS).already_finished
    assert before == {file: file.stat().st_mtime_ns for file in uninterrupted.rglob("*.safetensors")}


def test_two_processes_do_not_share_a_run(tmp_path: Path) -> None:
    """The second would take the first one's unfinished files away."""
    first = RunFolder.open(tmp_path / "run", RunConfig())
    again = RunFolder.open(tmp_path / "run", RunConfig())  # this process may
    held = "from filelock import FileLock; import sys; FileLock(sys.argv[1], timeout=0).acquire()"
    other = [sys.executable, "-c", held, str(tmp_path / "run" / "run.lock")]
    assert subprocess.run(other, capture_output=True, check=False).returncode != 0
    del first, again
    gc.collect()
    assert subprocess.run(other, capture_output=True, check=False).returncode == 0
    with FileLock(tmp_path / "run" / "run.lock"), pytest.raises(FedolError, match="Another process works in"):
        RunFolder.open(tmp_path / "run", RunConfig())
