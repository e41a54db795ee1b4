"""Hostile clients end to end on real images: ten trained clients, three of which lie, and the server's accuracy."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import exit_code

import fedol
from fedol.cli import main
from fedol.federation.scenario import Scenario
from fedol.federation.taskfolder import TaskFolder
from fedol.robust import DEFAULT, screen
from fedol.runs.folder import RunFolder

HOSTILE = (1, 4, 7)
SETTINGS: dict[str, Any] = {"client_models": "mlp", "epochs": 15, "method": "local", "device": "cpu"}
SERVER = ["--model", "mlp", "--iterations", "2", "--epochs", "15", "--batch-size", "32", "--device", "cpu"]


def call(*arguments: object) -> None:
    assert exit_code(*arguments) == 0


@pytest.fixture(scope="module", params=["dirichlet:1"])
def federation(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task, its test images and ten honest files."""
    out = tmp_path_factory.mktemp("hostile")
    run = fedol.run(out=out / "run", partition=request.param, **SETTINGS)
    here = Scenario(fedol.RunConfig(partition=request.param, **SETTINGS))
    TaskFolder.create(out / "task", here.task, here.data.public)
    np.savez(out / "test.npz", test_x=here.data.test.x, test_y=here.data.test.y)
    (out / "files").mkdir()
    for k in range(10):
        shutil.copy(RunFolder(run.out).knowledge(k), out / "files" / f"{k}.fedol")
    return out


def distilled(federation: Path, files: list[Path], out: Path, capsys: Any, *options: str) -> dict[str, Any]:
    capsys.readouterr()
    call(
        "distill",
        federation / "task",
        *files,
        *SERVER,
        *options,
        "--test",
        federation / "test.npz",
        "--out",
        out,
        "--json",
    )
    return dict(json.loads(capsys.readouterr().out))


def test_honest_clients_with_few_classes_stay(tmp_path: Path) -> None:
    out = fedol.run(out=tmp_path / "run", partition="dirichlet:0.3", **SETTINGS).out  # three or four classes each
    assert screen(fedol.Knowledge.load(RunFolder(out).knowledge(k)) for k in range(10)).verdict.excluded == ()


@pytest.mark.parametrize("attack", ["constant", "colluding", "forged"])
def test_three_liars_cost_the_server_little(federation: Path, attack: str, tmp_path: Path, capsys: Any) -> None:
    honest = [federation / "files" / f"{k}.fedol" for k in range(10) if k not in HOSTILE]
    hostile = [federation / "files" / f"{k}.fedol" for k in HOSTILE]
    knows = [part for file in honest for part in ("--knows", file)]
    call("attack", *hostile, "--attack", attack, *knows, "--out", tmp_path / "lies")
    files = [*honest, *sorted((tmp_path / "lies").iterdir())]
    removed = distilled(federation, honest, tmp_path / "removed", capsys)
    ours = distilled(federation, files, tmp_path / "ours", capsys)
    assert ours["test"]["accuracy"] > removed["test"]["accuracy"] - 0.03
    left_out = [entry["client"] for entry in ours["screening"] if entry["left_out"]]
    assert left_out == [f"client {k}" for k in HOSTILE]


@pytest.mark.parametrize("method", ["fedol", "fedol+"])
@pytest.mark.parametrize("federation", ["iid"], indirect=True)
def test_three_specialists_cost_the_server_little(
    federation: Path, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Certain that there are three classes only; agreement alone names none of them."""
    honest = [federation / "files" / f"{k}.fedol" for k in range(10) if k not in HOSTILE]
    hostile = [federation / "files" / f"{k}.fedol" for k in HOSTILE]
    knows = [part for file in honest for part in ("--knows", file)]
    call("attack", *hostile, "--attack", "specialist3", *knows, "--out", tmp_path / "lies")
    files = [*honest, *sorted((tmp_path / "lies").iterdir())]
    runs = {"removed": (honest, DEFAULT), "ours": (files, DEFAULT), "literal": (files, "none")}
    removed, ours, literal = (
        distilled(federation, these, tmp_path / name, capsys, "--method", method, "--defence", defence)
        for name, (these, defence) in runs.items()
    )
    assert ours["test"]["accuracy"] > removed["test"]["accuracy"] - 0.01
    assert literal["test"]["accuracy"] < removed["test"]["accuracy"] - 0.05
    named = {entry["client"]: entry["why"] for entry in ours["screening"] if entry["left_out"]}
    assert sorted(named) == [f"client {k}" for k in HOSTILE]
    assert all("claims to know too much" in why for why in named.values())


def test_the_report_names_them_and_the_paper_s_method_hears_them(
    federation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [federation / "files" / f"{k}.fedol" for k in range(10)]
    call("attack", *files[:3], "--attack", "constant", "--out", tmp_path / "lies")
    files = [*sorted((tmp_path / "lies").iterdir()), *files[3:]]
    literal = distilled(federation, files, tmp_path / "literal", capsys, "--defence", "none")
    assert literal["screening"] == []
    call("distill", federation / "task", *files, *SERVER, "--out", tmp_path / "ours")
    shown = " ".join(capsys.readouterr().out.split())
    assert "client 0 is suspicious (trust 0.00)" in shown and "--defence exact,cap,runoff" in shown
    assert "7 clients (3 more left out)" in (tmp_path / "ours" / "MODEL_CARD.md").read_text()
    # A run that is continued keeps its verdict.
    shutil.copy(tmp_path / "ours" / "screening.json", tmp_path / "before.json")
    (tmp_path / "ours" / "summary.json").unlink()
    call("distill", federation / "task", *files, *SERVER, "--out", tmp_path / "ours")
    assert (tmp_path / "ours" / "screening.json").read_text() == (tmp_path / "before.json").read_text()


def test_an_attack_does_not_overwrite_files(federation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fedol.errors import InputError
    from fedol.robust.attacks import attack_files

    with pytest.raises(InputError, match="no knowledge file"):
        attack_files([federation / "test.npz"], "constant", federation / "lies")
    with pytest.raises(InputError, match=r"Two of the files are named 0\.fedol"):
        attack_files([federation / folder / "0.fedol" for folder in ("files", "other")], "noise", federation / "lies")
    sys_argv = sys.argv
    sys.argv = [
        "fedol",
        "attack",
        str(federation / "files" / "0.fedol"),
        "--attack",
        "noise",
        "--out",
        str(federation / "files"),
    ]
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.argv = sys_argv
    assert end.value.code == 2 and "choose another folder" in " ".join(capsys.readouterr().err.split())
