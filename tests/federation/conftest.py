"""A small federation for every test here."""

from __future__ import annotations

import pytest
from small_federation import Federation


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"))
