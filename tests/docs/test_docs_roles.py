"""The pages for each role, walked through as its reader would: every command and every block of Python, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_docs_federation import ROOT, told

from fedol.federation.policy import Policy

pytest.importorskip("cryptography", reason="the pages sign, which needs the package cryptography")
PAGES = {
    "coordinator": ("demo/run/withdrawn.json", "the chain holds", "is reproduced"),
    "site-engineer": ("demo/alice.fedol.release.html", "approved by dpo"),
    "data-protection-officer": ("demo/bob.fedol.release.json", "40 exactly", "on duplicates"),
    "auditor": ("demo/run/model.safetensors", '"reproduced": true', '"kind": "trained"'),
}


@pytest.mark.slow
@pytest.mark.parametrize("role", PAGES)
def test_the_page_runs(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FEDOL_POLICY", raising=False)
    file, *words = PAGES[role]
    assert len(told(f"roles/{role}.md", tmp_path, capsys)) >= 5
    output = capsys.readouterr().out
    assert (tmp_path / file).exists() and all(each in output for each in words)


def test_every_role_has_a_page_that_is_walked_through() -> None:
    assert {page.stem for page in (ROOT / "docs" / "roles").glob("*.md")} == set(PAGES)


def test_the_policy_on_the_page_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "roles" / "data-protection-officer.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "policy.toml").write_text(block)
    policy = Policy.read(tmp_path / "policy.toml")
    rules = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert rules == ["codecs", "releases", "largest_auc", "duplicates", "approval", "approvers"]
    assert policy.approval and policy.largest_auc == 0.6
