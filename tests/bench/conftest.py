"""A small benchmark for every test here."""

import pytest
from small_bench import ONE_ROUND, Silent, run


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """One round of all methods, then two rounds, once for all tests here."""
    out = tmp_path_factory.mktemp("bench")
    progress = Silent()
    every = len(ONE_ROUND)
    assert run(out, progress) == {"cells": every, "finished": every, "elsewhere": 0, "failed": []}
    assert run(out, kind="rounds", rounds=2, feedback_epochs=1)["finished"] == 7
    return out, progress
