"""Observers in a notebook: what its kernel sends to the browser while a run trains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Message = dict[str, Any]
RUN = "fedol.run(out={out!r}, clients=3, epochs=2, iterations=2, public=60, observer={observer}); None"


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> Iterator[Callable[[str], list[Message]]]:
    """Executes code as a notebook does, in a kernel, and gives back the messages that its output is made of."""
    pytest.importorskip("ipykernel", reason="needs ipykernel, which the extra 'dev' has")
    from jupyter_client.manager import start_new_kernel

    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as environment:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
            environment.setenv(name, str(folder))
        manager, client = start_new_kernel(cwd=str(folder))
        try:

            def execute(code: str) -> list[Message]:
                said: list[Message] = []
                reply = client.execute_interactive(code, timeout=120, output_hook=said.append)
                assert reply["content"]["status"] == "ok", reply["content"]
                return [message for message in said if message["msg_type"] not in ("status", "execute_input")]

            yield execute
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def test_a_run_in_a_notebook_is_one_table_that_changes(cell) -> None:
    said = cell(
        "import fedol\nfrom fedol.report import observers\nobservers.EVERY = 0.0\n"
        + RUN.format(out="run", observer="observers.Notebook()")
    )
    assert [message["msg_type"] for message in said] == ["display_data", *["update_display_data"] * (len(said) - 1)]
    assert len({message["content"]["transient"]["display_id"] for message in said}) == 1
    pictures = [message["content"]["data"]["text/html"] for message in said]
    done = [int(m[1]) for picture in pictures if (m := re.search(r"clients</td>.*?<td>(\d+)/6</td>", picture))]
    assert done == [0, 1, 2, 3, 4, 5, 6]
    assert any("server</td>" in picture and "4/4" in picture for picture in pictures)
    assert any(re.search(r"client \d</td>.*loss \d", picture) for picture in pictures)
    assert pictures[-1] == "Finished: <code>run</code>"


def test_what_is_shown_on_a_terminal_is_lines_in_a_notebook(cell) -> None:
    """Rich's bars need ipywidgets there, and warn where they are missing."""
    said = cell(
        "import fedol\nfrom fedol.report import live\nlive.EVERY = 0.0\n"
        "with live.LiveProgress() as progress:\n    " + RUN.format(out="lines", observer="progress")
    )
    lines = [message["content"]["data"]["text/plain"].strip() for message in said]
    assert [line.partition(",")[0] for line in lines if "epochs:" in line] == ["clients"] * 6 + ["server"] * 4
    assert not any("warn" in line.lower() for line in lines)
