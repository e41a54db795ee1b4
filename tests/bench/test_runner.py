"""A benchmark without the command line: a worker that is killed, runs dry, and needs few packages."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from small_bench import SMOKE, TINY, results, run

from fedol.bench.runner import Bench, main

SCRIPT = "import sys; from fedol.bench.runner import main; sys.exit(main())"


def test_a_killed_benchmark_resumes_without_doing_finished_cells_again(tmp_path):
    spec = tmp_path / "spec.json"
    slow = {**TINY, "iterations": 25}
    spec.write_text(json.dumps({**SMOKE, "settings": slow, "methods": "local,feddf,fedol"}))
    command = [sys.executable, "-c", SCRIPT, "--spec", str(spec), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    cells, servers = tmp_path / "out" / "cells", tmp_path / "out" / "servers"
    while process.poll() is None and not (len(list(cells.glob("*.json"))) == 2 and list(servers.glob("[!.]*"))):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
    before = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(before) == 2
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert json.loads(again.stdout) == {"cells": 3, "finished": 3, "elsewhere": 0, "failed": []}
    after = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert {name: after[name] for name in before} == before
    run(tmp_path / "straight", settings=slow, methods="fedol")
    assert results(tmp_path / "out")["fedol", 1]["accuracy"] == results(tmp_path / "straight")["fedol", 1]["accuracy"]


def test_the_worker_dry_runs_and_reports_errors_in_a_sentence(tmp_path, capsys):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({**SMOKE, "methods": "local,feddf"}))
    assert main(["--spec", str(spec), "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    assert "dirichlet:0.5, seed 0: 3 clients, Local, FedDF (1 epoch); about 0:" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert main(["--spec", str(tmp_path / "no.json"), "--out", str(tmp_path / "out")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["--spec", str(spec), "--out", str(tmp_path / "out"), "--time-limit", "0"]) == 3


def test_a_dry_run_of_what_is_finished_measures_nothing(smoke, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Bench, "_measured_speed", lambda bench: pytest.fail("the speed matters to nobody"))
    (tmp_path / "spec.json").write_text(json.dumps(SMOKE))
    assert main(["--spec", str(tmp_path / "spec.json"), "--out", str(smoke[0]), "--dry-run"]) == 0
    assert capsys.readouterr().out == ""


def test_the_worker_needs_neither_typer_nor_rich_nor_scikit_learn(tmp_path):
    code = (
        "import sys\n"
        "for name in ('typer', 'rich', 'sklearn', 'scipy', 'matplotlib'): sys.modules[name] = None\n"
        "import fedol.bench.runner, fedol.report.bench_pages, fedol.bench.cost\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
