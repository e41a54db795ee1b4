"""The engines of ``benchmarks/peers.py`` do the same work; and what does other work is found out."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fedol.errors import FedolError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = {"public": 1000, "clients": 3, "epochs": 1}  # leaves 437 of the digits to the clients


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The benchmark, its tiny federation written; afterwards its modules are forgotten: their names are others' too."""
    before = set(sys.modules)
    for folder in (BENCHMARKS, BENCHMARKS / "peers"):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PEERS_WORK", str(tmp_path))
    monkeypatch.setenv("PEERS_BEGINS", "")
    benchmark = import_module("peers")
    benchmark.prepare(tmp_path, {**benchmark.FEDERATIONS["digits"], **TINY})
    yield benchmark
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


def found(peer: str, task: str) -> dict[str, np.ndarray]:
    """What a peer makes of the tiny federation."""
    result: dict[str, Any] = getattr(import_module(peer), task)(import_module("work").Work())
    return {name: np.asarray(value) for name, value in result.items()}


@pytest.mark.parametrize("task", ["fedavg", "distill"])
def test_ours_is_the_plain_loop(task: str, peers: ModuleType) -> None:
    plain = found("plain", task)
    peers.difference(found("ours", task), plain, "ours")
    assert set(plain) == {"targets", "server"} or {value.shape for value in plain.values()} >= {(16, 1, 3, 3), (10,)}


def test_other_work_is_found_out(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = found("plain", "fedavg")
    untrained = {name: value.numpy() for name, value in import_module("work").small().state_dict().items()}
    with pytest.raises(FedolError, match=r"untrained: 0\.weight differs"):
        peers.difference(untrained, plain, "untrained")
    with pytest.raises(FedolError, match="do not do the same"):
        peers.difference(found("plain", "distill"), plain, "another task")
    with pytest.raises(FedolError, match="differs from the plain loop's by nan"):
        peers.difference({**plain, "0.bias": plain["0.bias"] * np.nan}, plain, "broken")

    work = import_module("work").Work
    whole = work.client
    monkeypatch.setattr(work, "client", lambda self, k: (*whole(self, k)[:2], whole(self, k)[2].flip(1)))
    with pytest.raises(FedolError, match="differs"):  # the same batches in another order
        peers.difference(found("plain", "fedavg"), plain, "another order")


def test_lines_are_of_code_alone(peers: ModuleType) -> None:
    said, code = (
        '"""Says\nmuch."""\n\n# and more\nx = 1  # one\n\n\ndef f():\n',
        '    return (\n        """two\nlines"""\n    )\n',
    )
    source = f'{said}    """Too."""\n{code}'
    assert peers._lines(source) == 6
    loop = peers._lines((BENCHMARKS / "peers" / "loop.py").read_text())
    assert peers.lines("plain") == peers._lines((BENCHMARKS / "peers" / "plain.py").read_text()) + loop
    assert peers.lines("ours") < peers.lines("plain")


def test_a_peer_that_is_missing_is_left_out(peers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.installed("plain", sys.executable)
    assert not peers.installed("pfl_research", "/nowhere/python")
    assert capsys.readouterr().out.startswith("pfl_research is left out: /nowhere/python has no pfl;")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["fedavg", "distill"])
def test_flower_is_the_plain_loop(task: str, peers: ModuleType, tmp_path: Path) -> None:
    """As the benchmark runs it: a process of its own, whose start, work and memory are found."""
    pytest.importorskip("flwr", reason="Flower's part needs the package flwr")
    figures, theirs = peers.turn("flower", task, sys.executable, tmp_path)
    peers.difference(theirs, found("plain", task), "Flower")
    assert 0 < figures["start"] + figures["work"] < figures["total"]
    assert figures["memory"] > 2e8 and figures["versions"]["flwr"]


@pytest.mark.slow
def test_a_run_that_was_stopped_continues(peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "TASKS", {"digits": ("fedavg",)})
    settings = {"federation": {**peers.FEDERATIONS["digits"], **TINY}, "repeats": 2}
    chosen, kept = {"plain": sys.executable, "ours x1": sys.executable}, tmp_path / "turns.jsonl"
    first = peers.run(tmp_path, chosen, settings, kept)
    turns = kept.read_text().splitlines()
    assert len(first) == len(turns) == 4
    kept.write_text("\n".join(turns[:3]) + "\n")
    again = peers.run(tmp_path, chosen, settings, kept)
    # Beside the turn that was missing, the first of the plain loop again, with which all are compared.
    assert again[1:3] == first[1:3] and again[3] != first[3] and len(kept.read_text().splitlines()) == 3 + 2
    plain, ours = peers.summary(again)
    assert plain["ratios"]["work"] == 1 and ours["n"] == 2 and 0 < ours["difference"] < peers.TOLERANCE
    peers.run(tmp_path, {"plain": sys.executable}, {**settings, "repeats": 1}, kept)  # other settings: anew
    assert len(kept.read_text().splitlines()) == 5 + 1
