"""The notebook's display, in IPython itself: what it sends to the browser while a run trains."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, fedol
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
InteractiveShell.instance()
from fedol.report import notebook
notebook.EVERY = 0.0
with capture_output() as seen:
    fedol.run(out="run", clients=3, epochs=2, iterations=2, public=60, observer=notebook.Notebook())
print(json.dumps([output.data["text/html"] for output in seen.outputs]))
"""


def test_a_run_in_a_notebook_is_one_table_that_changes(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    shell = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    assert shell.returncode == 0, shell.stderr
    pictures = json.loads(shell.stdout.splitlines()[-1])
    done = [int(m[1]) for picture in pictures if (m := re.search(r"clients</td>.*?<td>(\d+)/6</td>", picture))]
    assert done == [0, 1, 2, 3, 4, 5, 6]
    assert any("server</td>" in picture and "4/4" in picture for picture in pictures)
    assert any(re.search(r"client \d</td>.*loss \d", picture) for picture in pictures)
    assert pictures[-1] == "Finished: <code>run</code>"
