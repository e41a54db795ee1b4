"""What several test files share: a federation that takes a second, and one that is finished."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from commands import Command, Said, exit_code

import fedol
from fedol.data import PARTITIONS

# Where the suite runs in the background of a script, the shell makes it ignore Ctrl-C, and so would what it tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

TINY: dict[str, Any] = {
    "clients": 2,
    "partition": "iid",
    "public": 60,
    "client_models": "mlp",
    "server_model": "mlp",
    "width": 4,
    "epochs": 1,
    "iterations": 2,
    "device": "cpu",
}


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What encoders say is kept in a folder of the suite's, not in the user's."""
    with mock.patch.dict(os.environ, FEDOL_CACHE=str(tmp_path_factory.mktemp("cache"))):
        yield


@pytest.fixture
def tiny() -> dict[str, Any]:
    """The settings of the smallest sensible run."""
    return dict(TINY)


@pytest.fixture
def own_partitions() -> Iterator[None]:
    """Forgets the partitions that a test registers."""
    with mock.patch.dict(PARTITIONS):
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished tiny run; copy it before changing anything."""
    return fedol.run(out=tmp_path_factory.mktemp("finished") / "run", **TINY).out


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Gives a command in this process: its exit code, and what it said on both streams."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        said = Said(exit_code(*words), *capsys.readouterr())
        assert "Traceback" not in said.err
        return said

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run may go; the working directory is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def free_to_send(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site whose policy lets its node send without an approval."""
    policy = tmp_path_factory.mktemp("policy") / "policy.toml"
    policy.write_text("approval = false\n")
    monkeypatch.setenv("FEDOL_POLICY", str(policy))
    return policy
