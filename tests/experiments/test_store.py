"""A benchmark's folder."""

from pathlib import Path

import pytest

from fedol.errors import FedolError
from fedol.experiments.store import BenchFolder


@pytest.mark.parametrize("content", ["[1]", '"words"', '{"accuracy": 1}'])
def test_a_file_that_is_no_result_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "mine.json").write_text(content)
    with pytest.raises(FedolError, match=r"mine\.json is no result of a benchmark; move it out"):
        list(BenchFolder(tmp_path).results())
