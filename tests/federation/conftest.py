"""A small federation for every test here."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_federation import Federation


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"))


@pytest.fixture
def free_to_send(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site whose policy lets its node send without an approval."""
    policy = tmp_path_factory.mktemp("policy") / "policy.toml"
    policy.write_text("approval = false\n")
    monkeypatch.setenv("FEDOL_POLICY", str(policy))
    return policy
