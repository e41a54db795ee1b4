"""A federation with every client's file in, for every test here."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cryptography.hazmat.primitives.hpke", reason="sums in secret need cryptography 47 or newer")

from small_sum import NAMES, Secret


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    made = Secret(tmp_path)
    made.send(*NAMES)
    return made
