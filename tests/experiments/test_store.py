"""A benchmark's folder."""

from pathlib import Path

import pytest

from fedol.errors import FedolError
from fedol.experiments.cells import digest
from fedol.experiments.store import BenchFolder
from fedol.files import write_json


@pytest.mark.parametrize("content", ["[1]", '"words"', '{"accuracy": 1}'])
def test_a_file_that_is_no_result_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "mine.json").write_text(content)
    with pytest.raises(FedolError, match=r"mine\.json is no result of a benchmark; move it out"):
        list(BenchFolder(tmp_path).results())


@pytest.mark.parametrize("accuracy", [float("nan"), 7.5, -0.1])
def test_what_is_no_accuracy_is_no_result(accuracy: float, tmp_path: Path) -> None:
    settings = {"method": "feddf"}
    cell = {"hash": digest(settings), "method": "feddf", "settings": settings, "seed": 0, "accuracy": accuracy}
    write_json(tmp_path / "cells" / f"{cell['hash']}.json", cell)
    with pytest.raises(FedolError, match="is no result of a benchmark"):
        list(BenchFolder(tmp_path).results())
