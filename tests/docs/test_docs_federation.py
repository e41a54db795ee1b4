"""The commands of docs/federation.md, docs/gain.md and docs/secret-sum.md, as a reader would give them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import exit_code

pytest.importorskip("cryptography", reason="the page signs, which needs the package cryptography")
pytest.importorskip("onnxscript", reason="the page exports to ONNX, which needs the package onnxscript")

ROOT = Path(__file__).resolve().parents[2]


def told(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Run every block of a page; the first words of its commands."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, object] = {}
    shell = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    (tmp_path / "bin").mkdir()
    for name, call in (("fedol", "-m fedol"), ("python", "")):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {call} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    ran = []
    for language, block in re.findall(
        r"```(sh|python)\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL
    ):
        if language == "python":
            exec(compile(block, f"docs/{page}", "exec"), names)
            continue
        for line in block.strip().splitlines():
            if line.startswith("fedol ") and not {"$", ">"} & set(
                line
            ):  # in this process: the same, without the start-up
                assert exit_code(*shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
            else:
                done = subprocess.run(["bash", "-ec", line], env=shell, capture_output=True, text=True)
                assert done.returncode == 0, (line, done.stderr)
            ran.append(line.split()[0:2])
    return ran


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    ran = told("federation.md", tmp_path, capsys)
    assert ["fedol", "serve"] in ran and ["fedol", "export"] in ran and len(ran) >= 15
    output = capsys.readouterr().out
    assert "Accuracy on 359 test samples" in output and "new: carol" in output
    for file in (
        "run/MODEL_CARD.md",
        "run/report-for-alice.html",
        "run-resumed/model.safetensors",
        "model.onnx",
        "signed/task.json",
    ):
        assert (tmp_path / "demo" / file).exists()


def test_a_sum_in_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cryptography.hazmat.primitives.hpke", reason="the page seals, which needs cryptography 47")
    monkeypatch.chdir(tmp_path)
    ran = told("secret-sum.md", tmp_path, capsys)
    assert ran.count(["fedol", "helper"]) == 3 and ["fedol", "distill"] in ran
    assert "the sum of 4 clients" in capsys.readouterr().out and (tmp_path / "demo/run/model.safetensors").exists()


@pytest.mark.slow
def test_what_a_site_gets_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = told("gain.md", tmp_path, capsys)
    assert ran.count(["fedol", "adapt"]) == 3 and ran.count(["fedol", "evaluate"]) == 4
    assert "two standard errors" in capsys.readouterr().out
    for file in ("demo/bob.html", "demo/retrained.safetensors", "demo/adapted.onnx", "demo/run/benefits.html"):
        assert (tmp_path / file).exists()
