"""The examples run, at a small size."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest


def test_mixed_federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lightgbm", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"the mixed federation needs the package {package}")
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "examples"))
    monkeypatch.delitem(sys.modules, "mixed_federation", raising=False)
    from mixed_federation import federate  # type: ignore[import-not-found]

    summary = federate(tmp_path, epochs=100, iterations=2, server_epochs=15)
    assert [client["client"] for client in summary["clients"]] == ["alice", "bob", "carol", "dave"]
    assert not summary["refused"] and summary["test"]["accuracy"] > 0.7


def test_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "examples"))
    from tour import tour  # type: ignore[import-not-found]

    summary = tour(tmp_path, clients=4, epochs=5, iterations=2, device="cpu")
    best = max(client["accuracy"] for client in summary["clients"])
    told = capsys.readouterr().out
    assert f"{best:.1%}" in told and f"{summary['server']['accuracy']:.1%}" in told
    assert "ρ = 1.0: 100% of the images get a label" in told
    assert (tmp_path / "run" / "report.html").exists()


def test_compare_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "examples"))
    from compare_methods import compare  # type: ignore[import-not-found]

    small = {"clients": 3, "public": 100, "epochs": 2, "iterations": 2, "width": 4, "device": "cpu"}
    found = compare(tmp_path, methods="local,feddf,fedol", **small)
    assert [label.split(" (")[0] for label in found] == ["Local", "FedDF", "FedOL"]
    assert all(0 < accuracy < 1 for accuracy in found.values())
    assert "FedDF" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("network", ["stand-in", pytest.param("real", marks=pytest.mark.slow)])
def test_pretrained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], network: str
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "examples"))
    import pretrained  # type: ignore[import-not-found]

    if network == "stand-in":
        monkeypatch.setattr(pretrained, "find_spec", lambda package: None)
    name = pretrained.encoder()
    assert ("stands in for it" in capsys.readouterr().out) == (name != pretrained.PRETRAINED)
    if network == "real" and name != pretrained.PRETRAINED:
        pytest.skip("EfficientNet-Lite0 is not installed")
    sizes = {"train": 300, "test": 60, "public": 100} if network == "real" else {}
    summary = pretrained.federate(tmp_path, name, **sizes)
    assert summary["server"]["accuracy"] > max(0.4, summary["local"]["mean"])
    assert "to the first test image" in capsys.readouterr().out


@pytest.mark.parametrize("example", ["hospitals", "news"])
def test_tables_and_texts(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On their stand-ins, which are there everywhere."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "examples"))
    federate = importlib.import_module(example).federate
    summary = federate(tmp_path, tmp_path / "absent", clients=4, public=200, epochs=6, device="cpu")
    assert summary["server"]["accuracy"] > 0.75
    told = capsys.readouterr().out
    assert "made up" in told and f"{100 * summary['server']['accuracy']:.1f} %" in told
