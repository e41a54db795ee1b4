"""The commands of docs/federation.md, gain.md, https.md and secret-sum.md, as a reader gives them, in their order."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
from commands import exit_code

pytest.importorskip("cryptography", reason="the page signs, which needs the package cryptography")
pytest.importorskip("onnxscript", reason="the page exports to ONNX, which needs the package onnxscript")

ROOT = Path(__file__).resolve().parents[2]


def told(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], **other: str) -> list[list[str]]:
    """Run every block of a page, with ``other`` words in it; the first words of its commands.

    What runs beside the others (``&``) has to end well, too, once all is done.
    """
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, object] = {}
    shell = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    (tmp_path / "bin").mkdir()
    for name, call in (("fedol", "-m fedol"), ("python", "")):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {call} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    ran, beside = [], list[subprocess.Popen[str]]()
    text = (ROOT / "docs" / page).read_text("utf-8")
    for was, now in other.items():
        text = text.replace(was, now)
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            exec(compile(block, f"docs/{page}", "exec"), names)
            continue
        for line in block.strip().splitlines():
            if line.endswith(" &"):
                words = ["bash", "-ec", f"exec {line.removesuffix(' &')}"]
                beside.append(subprocess.Popen(words, env=shell, stdout=PIPE, stderr=STDOUT, text=True))
            elif line.startswith("fedol ") and not {"$", ">"} & set(line):  # in this process, without the start-up
                assert exit_code(*shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
            else:
                done = subprocess.run(["bash", "-ec", line], env=shell, capture_output=True, text=True)
                assert done.returncode == 0, (line, done.stderr)
            ran.append(line.split()[0:2])
    for process in beside:
        try:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0, said
        finally:
            process.kill()
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


def test_over_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn", reason="the page listens, which needs the extra https")
    if shutil.which("openssl") is None:
        pytest.skip("the page makes a certificate, which needs the program openssl")
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ran = told("https.md", tmp_path, capsys, **{"8443": port})
    assert ran.count(["fedol", "client"]) == 5 and ["fedol", "serve"] in ran
    assert capsys.readouterr().out.count("it is in. Receipt, signed by the server:") == 2
    assert (tmp_path / "demo/run/report.html").exists() and (tmp_path / "demo/bob.fedol.receipt.json").exists()


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
