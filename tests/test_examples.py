"""The examples run, at a small size."""

from __future__ import annotations

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
