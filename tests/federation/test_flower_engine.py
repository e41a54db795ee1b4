"""``fedol run --engine flower``: clients on Ray, and the same result as in this process, to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, SOURCES, fedol

from fedol import run
from fedol.data import PARTITIONS, Iid, load
from fedol.errors import InputError
from fedol.methods import METHODS, Method
from fedol.methods.feddf import feddf

pytest.importorskip("flwr", reason="these tests need Flower: pip install 'fedol[flower]'")
pytest.importorskip("ray", reason="a simulation needs Ray: pip install 'fedol[flower]'")

from fedol.federation.transports.flower_engine import on_ray


def test_the_same_server_as_in_process(finished: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    options = [f"--{key.replace('_', '-')}={value}" for key, value in tiny.items()]
    home = {**os.environ, "FLWR_HOME": str(tmp_path / "flower"), "PYTHONPATH": SOURCES}
    done = fedol("run", *options, "--engine", "flower", "--out", tmp_path / "run", "--json", env=home)
    assert done.returncode == 0, done.stderr
    for file in ("model.safetensors", "clients/00.fedol", "clients/01.fedol", "clients/01.safetensors", "data.json"):
        assert (tmp_path / "run" / file).read_bytes() == (finished / file).read_bytes(), file
    ours, theirs = json.loads(done.stdout), json.loads((finished / "summary.json").read_text())
    for key in ("clients", "server", "history", "config"):
        assert ours[key] == theirs[key]


def test_what_it_refuses(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="CPU share above 0"):
        on_ray(cpus=0)
    with pytest.raises(InputError, match="cannot travel to other processes"):
        run(dataset=load("digits"), out=tmp_path / "run", engine=on_ray(), **tiny)
    monkeypatch.setitem(PARTITIONS, "mine", type("Mine", (Iid,), {"name": "mine", "__module__": "mine"}))
    with pytest.raises(InputError, match="Your own partition is not known in other processes; train in this one"):
        run(out=tmp_path / "other", engine=on_ray(), **{**tiny, "partition": "mine"})
    monkeypatch.setitem(METHODS, "own", Method("own", targets=lambda knowledge, settings: feddf(knowledge, settings)))
    with pytest.raises(InputError, match="Your own method is not known in other processes; train in this one"):
        run(out=tmp_path / "own", engine=on_ray(), **{**tiny, "method": "own"})
    wrong = fedol("run", "--engine", "flowr")
    assert wrong.returncode == 2 and "did you mean 'flower'" in wrong.stderr


@pytest.mark.slow
def test_more_than_the_machine_has_is_one_clear_sentence(tiny: dict[str, Any], tmp_path: Path) -> None:
    options = [f"--{key.replace('_', '-')}={value}" for key, value in tiny.items()]
    home = {**os.environ, "FLWR_HOME": str(tmp_path / "flower"), "PYTHONPATH": SOURCES}
    wanted = ["--engine", "flower", "--client-cpus", "10000", "--out", tmp_path / "run"]
    done = fedol("run", *options, *wanted, env=home)
    assert done.returncode == 2 and "Ray could not run the clients with 10000 CPUs" in done.stderr
    assert "Traceback" not in done.stderr


def test_flower_is_imported_only_where_it_is_used() -> None:
    program = "import sys, fedol, fedol.cli, fedol.api, fedol.federation.transports.flower_engine as e; "
    program += "assert not {'flwr', 'ray'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
