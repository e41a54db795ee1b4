"""Every setting is an option of every command that it belongs to, with help and default, and reaches the settings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from typer.main import get_command

from fedol.cli import app
from fedol.config import ServerConfig, configure, configure_client, configure_server, recipe_of
from fedol.data import Reading
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports.flower_client import Node
from fedol.knowledge.task import Task
from fedol.settings import (
    DATA,
    METHOD,
    MODELS,
    TRAINING,
    ClientSettings,
    Columns,
    Dealing,
    Models,
    RunSettings,
    ServerSettings,
    Training,
    Voting,
    code_of,
)

TWICE = ("partition", "method", "seed")  # of which a benchmark has several
SAID = tuple(item.name for item in fields(RunSettings) if item.name not in ("data_dir", "device"))  # by its own file
COMMANDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "run": (RunSettings, ()),
    "serve": (ServerSettings, ()),
    "distill": (ServerSettings, ()),
    "client fit": (ClientSettings, ()),
    "task new": (Columns, ("test",)),
    "audit": (ClientSettings, ("width", "device", "folds", "own_classes")),  # the model's file says them
    "evaluate": (Columns, ()),
    "adapt": (ClientSettings, ("folds", "own_classes")),  # a network that is trained again
    "partition": (Dealing, ()),
    "bench one-round": (RunSettings, TWICE),
    "bench rounds": (RunSettings, TWICE),
    "bench cost": (RunSettings, TWICE),
    "bench run": (RunSettings, SAID),
}


def leaves(group: Any, before: str = "") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found |= leaves(command, f"{before}{name} ") if hasattr(command, "commands") else {f"{before}{name}": command}
    return found


def command(name: str) -> click.Command:
    return leaves(get_command(app))[name]


def test_no_command_with_settings_is_forgotten_here() -> None:
    panels = {DATA, MODELS, METHOD, TRAINING}
    found = {name for name, each in leaves(get_command(app)).items() if panels & {_panel(o) for o in each.params}}
    assert found == set(COMMANDS)


def _panel(option: Any) -> str | None:
    return getattr(option, "rich_help_panel", None)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_every_setting_of_its_record(name: str) -> None:
    record, but = COMMANDS[name]
    options = {option.name: option for option in command(name).params}
    for item in fields(record):
        if "help" not in item.metadata or item.name in but:
            continue
        option: Any = options[item.name]
        assert item.metadata["help"] in option.help and option.rich_help_panel == item.metadata["panel"]
        assert item.default is None or "(default: " in option.help
        assert f"--{item.name.replace('_', '-')}" in option.opts
    without = ("bench run", "task new", "evaluate")
    assert "config" in options or name in without, "settings can come from a file"


def test_training_and_voting_are_the_same_everywhere() -> None:
    """A field that is added to one record is in all that hold it."""
    for record in (RunSettings, ServerSettings, ClientSettings, Node, ServerConfig):
        names = {item.name for item in fields(record)}
        assert {item.name for item in fields(Training)} <= names
        if record not in (ClientSettings, Node):
            assert {item.name for item in fields(Voting)} <= names
    assert {item.name for item in fields(Models)} <= {item.name for item in fields(RunSettings)}


VALUES: dict[str, Any] = {"int": 7, "float": 0.5, "bool": True}
WORDS = {
    "defence": "floor",
    "method": "feddf",
    "codec": "float16",
    "partition": "iid",
    **dict.fromkeys(("patch", "client_patch"), "cutout"),
    **dict.fromkeys(("schedule", "server_schedule"), "cosine"),
    **dict.fromkeys(("optimiser", "server_optimiser"), "sgd"),
}


class Stopped(Exception):
    """Where the work would begin."""


def ways(task: Path) -> dict[str, tuple[str, list[Any], Callable[..., Any]]]:
    """For each command what would do its work, the words beside the settings, and the settings that work is given."""
    server = "fedol.federation.coordinator.Coordinator.__init__"
    wanted = ("recipe", "width", "seed", "device")
    return {
        "run": ("fedol.api.run", [], lambda config, **rest: config),
        "serve": (
            server,
            [task, "--inbox", task, "--out", task / "out"],
            lambda self, folder, config, *rest, **more: config,
        ),
        "distill": (
            server,
            [task, task / "task.json", "--out", task],
            lambda self, folder, config, *rest, **more: config,
        ),
        "client fit": (
            "fedol.federation.client.client_fit",
            [task, "--data", "mine.npz"],
            lambda task, data, model, out, *given, folds, own_classes, reading, **rest: {
                **dict(zip(wanted, given, strict=True)),
                "folds": folds,
                "own_classes": own_classes,
                "reading": reading,
            },
        ),
        "bench one-round": ("fedol.bench.spec.Spec.from_json", [], lambda values: values["settings"]),
        "bench rounds": ("fedol.bench.spec.Spec.from_json", [], lambda values: values["settings"]),
    }


def asked(name: str, task: TaskFolder, changes: dict[str, Any]) -> Any:
    """What that work should be given."""
    if name == "run":
        return configure(overrides=changes)
    if name in ("serve", "distill"):
        return configure_server(task.task.id, overrides=changes)
    if name == "client fit":
        client = configure_client(overrides=changes)
        kept = {name: getattr(client, name) for name in ("width", "seed", "device", "folds", "own_classes")}
        return {"recipe": recipe_of(client), "reading": Reading.of(client), **kept}
    return changes


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TaskFolder:
    images = np.zeros((20, 1, 4, 4), np.uint8)
    return TaskFolder.create(tmp_path_factory.mktemp("task"), Task.of(images, "ab"), images)


REACHES = [
    pytest.param(name, item, id=f"{name}, {item.name}")
    for name in ways(Path())
    for item in fields(COMMANDS[name][0])
    if "help" in item.metadata and item.name not in COMMANDS[name][1]
]


@pytest.mark.parametrize(("name", "item"), REACHES)
def test_what_is_given_reaches_the_work(
    name: str, item: Any, task: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real command line, up to where the work would begin."""
    work, words, told = ways(task.path)[name]
    value = VALUES.get(str(item.type).split(" | ")[0], WORDS.get(item.name, "mlp"))
    seen: list[Any] = []

    def stopped(*given: Any, **named: Any) -> None:
        seen.append(told(*given, **named))
        raise Stopped

    monkeypatch.setattr(work, stopped)
    option = [f"--{item.name.replace('_', '-')}", *([] if value is True else [str(value)])]
    with pytest.raises(Stopped):
        get_command(app)([*name.split(), *map(str, words), *option], standalone_mode=False)
    assert seen == [asked(name, task, {item.name: value})] != [asked(name, task, {})]


@pytest.mark.parametrize("record", [RunSettings, ServerSettings, ClientSettings])
def test_what_may_be_code_says_so(record: type) -> None:
    """Else a stranger's file could name it, and a run would not notice that it has changed."""
    takes_code = {item.name for item in fields(record) if "Callable" in str(item.type) or "ModelName" in str(item.type)}
    assert set(code_of(record)) == takes_code >= {"optimiser", "schedule"}


def test_options_are_made_without_torch() -> None:
    """Help and completion are for impatient people."""
    program = "import sys, fedol.cli; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
