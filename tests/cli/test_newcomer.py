"""A newcomer's first minutes at a terminal: help, a run, Ctrl-C, the same command again, a look at what came of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from commands import PERSON

pexpect = pytest.importorskip("pexpect", reason="the walk needs the package pexpect", exc_type=ImportError)

RUN = ["run", "--clients=3", "--public=100", "--client-models=mlp", "--server-model=mlp", "--width=4", "--device=cpu"]
RUN += ["--epochs=150", "--iterations=3"]
COLOUR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


class Terminal:
    """What a person types, and what is then on the screen."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def types(self, *words: str) -> pexpect.spawn:
        """A command that has begun."""
        command = [*["-m", "fedol"], *words]
        return pexpect.spawn(
            sys.executable,
            command,
            cwd=str(self._place),
            env=PERSON,
            encoding="utf-8",
            timeout=120,
            dimensions=(40, 110),
        )

    def sees(self, process: pexpect.spawn) -> tuple[str, int]:
        """The rest of what it says, and its exit code."""
        said = process.read()
        process.close()
        return COLOUR.sub("", said).replace("\r\n", "\n"), process.exitstatus


def test_a_newcomers_walk(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)

    said, code = terminal.sees(terminal.types("--help"))
    assert code == 0 and "Start with: fedol run" in " ".join(said.split()) and "runs" in said

    said, code = terminal.sees(terminal.types("run", "--method", "fedoll"))
    assert code == 2 and "did you mean 'fedol'?" in said and not (tmp_path / "runs").exists()

    first = terminal.types(*RUN)
    first.expect(r"clients .*epochs")  # bars, with how far it is
    first.expect(r"server .*epochs")
    first.sendintr()
    said, code = terminal.sees(first)
    assert code == 130 and "what is finished is kept, and the same command continues" in said
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "summary.json").exists()

    said, code = terminal.sees(terminal.types("runs"))
    assert code == 0 and "1 run, 0 finished" in said and "unfinished" in said

    sent = {file: file.stat().st_mtime_ns for file in folder.glob("clients/*.fedol")}
    assert len(sent) == 3, "the clients had finished"
    said, code = terminal.sees(terminal.types(*RUN))
    assert code == 0 and "FedOL server" in said and f"Run folder: runs/{folder.name}" in said.replace("\n", "")
    assert {file: file.stat().st_mtime_ns for file in sent} == sent, "nobody sends twice"

    said, code = terminal.sees(terminal.types("runs"))
    assert code == 0 and "1 run, 1 finished" in said and " %" in said

    said, code = terminal.sees(terminal.types("report", f"runs/{folder.name}"))
    assert code == 0 and (tmp_path / said.strip()).read_text(encoding="utf-8").startswith("<!doctype html>")

    said, code = terminal.sees(terminal.types("runs", "prune", "--finished", "--yes"))
    assert code == 0 and not folder.exists()
