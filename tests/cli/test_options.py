"""Every setting is an option of every command that it belongs to, with help and default, and reaches the settings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import Any

import click
import pytest
from commands import exit_code
from typer.main import get_command

from fedol.cli import app
from fedol.config import ServerConfig, configure
from fedol.federation.transports.flower_client import Node
from fedol.settings import ClientSettings, Dealing, Models, RunSettings, ServerSettings, Training, Voting

TWICE = ("partition", "method", "seed")  # of which a benchmark has several
COMMANDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "run": (RunSettings, ()),
    "serve": (ServerSettings, ()),
    "distill": (ServerSettings, ()),
    "client fit": (ClientSettings, ()),
    "partition": (Dealing, ()),
    "bench one-round": (RunSettings, TWICE),
    "bench rounds": (RunSettings, TWICE),
    "bench cost": (RunSettings, TWICE),
}


def command(name: str) -> click.Command:
    found: Any = get_command(app)
    for part in name.split():
        found = found.commands[part]
    return found  # type: ignore[no-any-return]


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
    assert "config" in options, "settings can come from a file"


def test_training_and_voting_are_the_same_everywhere() -> None:
    """A field that is added to one record is in all that hold it."""
    for record in (RunSettings, ServerSettings, ClientSettings, Node, ServerConfig):
        names = {item.name for item in fields(record)}
        assert {item.name for item in fields(Training)} <= names
        if record not in (ClientSettings, Node):
            assert {item.name for item in fields(Voting)} <= names
    assert {item.name for item in fields(Models)} <= {item.name for item in fields(RunSettings)}


VALUES: dict[str, Any] = {"int": 7, "float": 0.5, "bool": True}


@pytest.mark.parametrize("item", fields(RunSettings), ids=lambda item: item.name)
def test_what_is_given_reaches_the_settings(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real command line, up to where the simulation would begin."""
    words = {
        "defence": "trust",
        "method": "feddf",
        "codec": "float16",
        "patch": "cutout",
        "client_patch": "cutout",
        "schedule": "cosine",
    }
    words |= {"server_schedule": "cosine", "optimiser": "sgd", "server_optimiser": "sgd", "partition": "iid"}
    value = VALUES.get(str(item.type).split(" | ")[0], words.get(item.name, "mlp"))
    seen: list[Any] = []

    def stopped(config: Any, **rest: Any) -> None:
        seen.append(config)
        raise click.exceptions.Exit(0)

    monkeypatch.setattr("fedol.api.run", stopped)
    given = [f"--{item.name.replace('_', '-')}", *([] if value is True else [str(value)])]
    exit_code("run", *given)
    assert seen == [configure(overrides={item.name: value})] != [configure()]


def test_options_are_made_without_torch() -> None:
    """Help and completion are for impatient people."""
    program = "import sys, fedol.cli; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
