"""The command line: in this process, which is quicker, in one of its own, or on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from fedol.cli import main

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}  # this checkout, from any folder
PLAIN = {name: value for name, value in ENV.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
PERSON = {**PLAIN, "COLUMNS": "100", "TERM": "xterm-256color"}


class Said(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Said]


def exit_code(*words: object) -> int:
    """Of a command in this process; what it says stays with ``capsys``. The fixture ``command`` gives both."""
    with mock.patch.object(sys, "argv", ["fedol", *map(str, words)]), pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def one_sentence(message: str) -> None:
    assert "\n" not in message, message
    assert message.endswith((".", "?")) and not message.endswith(".."), message
    assert "Traceback" not in message


def refusal(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the entry point itself and give back its error: exit code 2, nothing on stdout, one line on stderr."""
    code = exit_code(*argv)
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert err.startswith("Error: ")
    message = err.removeprefix("Error: ").rstrip("\n")
    one_sentence(message)
    return message


def fedol(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "fedol", *map(str, words)]
    return subprocess.run(command, **{"cwd": ROOT, "capture_output": True, "text": True, "timeout": 300, **options})


def on_terminal(words: list[str], **environment: str) -> str:
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedol", *words],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**PERSON, **environment},
    )
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    assert process.wait() == 0
    os.close(leader)
    return written.decode()
