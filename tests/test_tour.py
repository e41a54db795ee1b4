"""The tour runs from top to bottom, as a lecturer would show it, and shows what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"


def test_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the package nbclient")
    client = pytest.importorskip("nbclient", reason="needs the package nbclient").NotebookClient
    pytest.importorskip("ipykernel", reason="needs the package ipykernel")
    for package in ("pandas", "matplotlib"):
        pytest.importorskip(package, reason=f"the tour shows what {package} makes")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    tour = nbformat.read(TOUR, as_version=4)
    assert not any(cell.get("outputs") for cell in tour.cells), "kept without outputs: they are of one machine"
    client(tour, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in tour.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.get("name") == "stderr"], "nothing warns"
    shown = [output["data"] for output in outputs if "data" in output]
    html = " ".join(data.get("text/html", "") for data in shown)
    for title in ("Dataset", "RunResult", "Knowledge", "ServerModel"):
        assert f"<b>{title}</b>" in html, title
    assert "Finished: <code>" in html, "the display of a run ends in a line"
    assert any("image/png" in data for data in shown) and "client 5" in html
    assert len(list((tmp_path / "runs").iterdir())) == 2
