"""What each client of a simulation has from the server: weighed as its classes are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedol
from fedol.runs.benefit import at_home, recall


def test_recalls_are_weighed_by_what_the_client_holds() -> None:
    said = torch.tensor([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.8, 0.2, 0.0]]).log()
    found = recall(said, np.array([0, 0, 1, 1]))
    assert found[:2].tolist() == [1.0, 0.5] and np.isnan(found[2])
    assert at_home(found, np.array([30, 10, 5])) == pytest.approx((30 * 1.0 + 10 * 0.5) / 40)
    assert at_home(found, np.array([0, 0, 5])) is None


def test_of_a_client_with_the_test_sets_mix_it_is_the_accuracy() -> None:
    rng = np.random.default_rng(0)
    labels, said = rng.integers(0, 3, 60), torch.from_numpy(rng.normal(size=(60, 3)))
    right = float((said.argmax(1).numpy() == labels).mean())
    assert at_home(recall(said, labels), np.bincount(labels)) == pytest.approx(right)


def test_a_run_and_its_report_have_it(tiny: dict[str, Any], tmp_path: Path) -> None:
    fedol.run(dataset="digits", out=tmp_path / "run", progress=False, **tiny)
    found = json.loads((tmp_path / "run" / "benefit.json").read_text())
    assert [row["client"] for row in found] == [0, 1]
    assert all(0 <= row[name] <= 1 for row in found for name in ("own", "server", "prior"))
    assert "What each site has from it" in (tmp_path / "run" / "report.html").read_text()
