"""Settings as keyword arguments: all of them, of the right types, for type checkers and for completion."""

from __future__ import annotations

import inspect
import os
import runpy
import subprocess
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import fedol
from fedol import settings
from fedol.data.partitions import Partition
from fedol.settings import ModelName, RunSettings, Training, Voting, keywords

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"Partition": Partition, "Callable": Callable, "Sequence": Sequence, "Any": Any, "ModelName": ModelName}
WIDER = {"client_models": ModelName | Sequence[ModelName], "partition": str | Partition}


def hints(record: type) -> dict[str, Any]:
    return typing.get_type_hints(record, localns=NAMES)


CASES = [
    ("RunKeywords", RunSettings, {"dataset"}, {"preset"}),
    ("GridKeywords", RunSettings, {"dataset", "method", "partition", "seed"}, {"preset"}),
    ("TrainingKeywords", Training, set(), set()),
]


@pytest.mark.parametrize(("name", "record", "but", "more"), CASES, ids=[case[0] for case in CASES])
def test_every_setting_is_a_keyword_of_its_type(name: str, record: type, but: set[str], more: set[str]) -> None:
    typed, kinds = hints(getattr(keywords, name)), typing.get_type_hints(record, vars(settings))
    assert set(typed) == {item.name for item in fields(record)} - but | more
    for item in fields(record):
        kind = WIDER.get(item.name, kinds[item.name])
        wanted = kind | Sequence[kind] if name == "GridKeywords" else kind
        assert item.name in but or typed[item.name] == wanted, item.name


def test_distill_takes_voting_and_training() -> None:
    named = set(inspect.signature(fedol.distill).parameters)
    wanted = {item.name for record in (Voting, Training) for item in fields(record)}
    assert wanted <= set(hints(keywords.ServerKeywords)) | named


def test_the_file_is_made_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: make tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = runpy.run_path(str(ROOT / "benchmarks" / "_keywords.py"))
    assert script["FILE"].read_text(encoding="utf-8") == script["keywords"]()


@pytest.mark.parametrize(
    ("function", "records", "but"),
    [
        (fedol.run, [RunSettings], {"dataset"}),
        (fedol.compare, [RunSettings], {"dataset", "method", "partition", "seed"}),
        (fedol.distill, [Voting, Training], {"method"}),
    ],
)
def test_completion_shows_every_setting_with_its_default(
    function: Callable[..., Any], records: list[Any], but: set[str]
) -> None:
    shown, help_text = inspect.signature(function).parameters, inspect.getdoc(function)
    for item in (item for record in records for item in fields(record)):
        if item.name not in but:
            assert shown[item.name].default == item.default and shown[item.name].kind is inspect.Parameter.KEYWORD_ONLY
            assert f"{item.name}: {item.metadata['help']}" in str(help_text)
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())


SCRIPT = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import fedol

images, labels = np.zeros((200, 8, 8), np.uint8), np.arange(200) % 10
result: fedol.RunResult = fedol.run(dataset=(images, labels), epochs=2, client_models=["mlp", "cnn"], tau=0.3)
accuracy: float | None = result.accuracy
found: fedol.Comparison = fedol.compare(
    fedol.Dataset.from_arrays(images, labels, images, labels), ["fedol", "union"], ["iid"], seeds=[0, 1], tau=[0.1, 0.5]
)
print(found.to_markdown(), found.against("union"))
model: fedol.ServerModel | fedol.AdaptedModel = fedol.load(result.out)
classes: tuple[str, ...] = model.classes
task: fedol.Task = fedol.Task.of(images[:, None], classes)
client = fedol.OpenSet(RandomForestClassifier()).fit(images.reshape(200, -1), labels, images.reshape(200, -1))
server = fedol.distill([client.knowledge()], images[:, None], model="cnn", method="union", epochs=3, iterations=2)
clients = [RandomForestClassifier(), RandomForestClassifier()]
learnt = fedol.OneShotClassifier(clients, method="union").fit(images.reshape(200, -1), labels)
print(learnt.predict_proba(images.reshape(200, -1)).shape, fedol.NetClassifier("cnn", epochs=1))
"""
WRONG = """
import fedol

fedol.run(epochs="many")
fedol.run(epoch=3)
fedol.compare("digits", tau=["a"])
fedol.load("run").classes.append("a")
"""


CHECKER = """
[mypy]
strict = true
follow_imports = silent
cache_dir = {cache}

[mypy-torch.*,sklearn.*,matplotlib.*,pandas.*,rich.*,jinja2.*,flwr.*,hypothesis.*,IPython.*,wandb.*,mlflow.*]
follow_imports = skip
ignore_missing_imports = true
"""


def test_a_users_script_is_checked_strictly(tmp_path: Path) -> None:
    """Without a look into torch, which would take half a minute."""
    pytest.importorskip("mypy", reason="needs the package mypy")
    assert (ROOT / "fedol" / "py.typed").exists()  # which lets a type checker look into an installed package
    (tmp_path / "good.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "mypy.ini").write_text(CHECKER.format(cache=tmp_path / "cache"))
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "good.py", "wrong.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    errors = [line.partition(": error: ")[0].split(":") for line in found.stdout.splitlines() if ": error: " in line]
    assert {file for file, _ in errors} == {"wrong.py"}, found.stdout + found.stderr
    assert {line for _, line in errors} == {"4", "5", "6", "7"}, found.stdout
