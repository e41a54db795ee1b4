"""A run in a script shows how far it is, unless somebody else watches or nobody wants it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from commands import PERSON

import fedol
from fedol.errors import InputError
from fedol.progress import Observer
from fedol.report import live

SCRIPT = """
import fedol
from fedol.progress import Observer

settings = {settings}
watched = Observer()
choices = [{{}}, {{"progress": False}}, {{"observer": watched}}, {{"observer": watched, "progress": True}}]
for number, choice in enumerate(choices):
    print(f"run {{number}}", flush=True)
    fedol.run(out=f"run{{number}}", **choice, **settings)
"""


def test_a_script_on_a_terminal_has_bars_where_it_should(tmp_path: Path, tiny: dict[str, Any]) -> None:
    pexpect = pytest.importorskip("pexpect", reason="needs the package pexpect")
    (tmp_path / "script.py").write_text(SCRIPT.format(settings={**tiny, "epochs": 40}))
    process = pexpect.spawn(
        sys.executable,
        ["script.py"],
        cwd=str(tmp_path),
        env=PERSON,
        encoding="utf-8",
        timeout=120,
        dimensions=(30, 100),
    )
    said = process.read()
    process.close()
    assert process.exitstatus == 0, said
    _, shown, silent, watched, both = said.replace("\r", "").split("run ")
    assert "epochs" in shown and "epochs" in both
    assert silent.strip() == "1" and watched.strip() == "2"


def test_a_script_that_is_piped_says_nothing_of_what_is_soon_over(
    tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "EVERY", float("inf"))  # soon, also on a slow machine
    fedol.run(out=tmp_path / "run", **tiny)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_choice_is_said(tmp_path: Path, tiny: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="progress is 'auto', True or False"):
        fedol.run(out=tmp_path / "run", progress="always", **tiny)  # type: ignore[arg-type]


def test_an_observer_is_told_beside_the_display(tmp_path: Path, tiny: dict[str, Any]) -> None:
    class Count(Observer):
        epochs = 0

        def epoch(self, epoch: object) -> None:
            self.epochs += 1

    count = Count()
    fedol.run(out=tmp_path / "run", progress=True, observer=count, **tiny)
    assert count.epochs == 4  # two clients, two iterations
