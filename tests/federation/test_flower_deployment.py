"""Real SuperLink and SuperNodes on loopback, TLS and node authentication on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_federation import Federation

pytest.importorskip("flwr", reason="these tests need Flower: pip install 'fedol[flower]'")

from real_deployment import Deployment, until

import fedol


def test_three_nodes_with_tls_and_authentication(federation: Federation, tmp_path: Path) -> None:
    with Deployment(tmp_path, federation) as there:
        there.superlink()
        there.register()
        for name in there.names:
            there.node(name)
        printed = there.run("run", "deadline='100s'")
        out = there.folder / "server" / "run"
        assert (out / "summary.json").exists(), printed
        summary = json.loads((out / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == there.names, summary["refused"]
        assert summary["refused"] == [] and summary["closed"] == "quorum"
        assert "3 connected" in printed and "3 done, 0 refused" in printed
        assert fedol.load(out).predict(federation.public).shape == (80,)
        # What arrived is what each node keeps on its own disk.
        for name in there.names:
            (kept,) = (there.folder / name / "cache").glob("*.fedol")
            assert kept.read_bytes() == (out / "clients" / f"{name}.fedol").read_bytes()
