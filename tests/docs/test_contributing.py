"""CONTRIBUTING's map leads where it says: every room, in the order of the imports, and every answer."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHERE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("[start:where]")[1].split("[end:where]")[0]
ROOMS, ANSWERS = WHERE.split("| question | answer |")


def test_every_room_is_in_the_table_in_the_order_of_the_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    wanted = [{name.strip() for name in layer.split("|")} for layer in reversed(layers) if layer != "__main__"]
    shown = [re.findall(r"`fedol/(\w+)(?:\.py)?`", row.split("|")[1]) for row in ROOMS.splitlines() if "`fedol/" in row]
    assert [set(names) for names in shown] == wanted


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(fedol/[\w/]+(?:\.py)?)`", WHERE))))
def test_what_it_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "path"), re.findall(r"`(@?\w+)` in `(fedol/[\w/]+\.py)`", ANSWERS))
def test_what_an_answer_names_is_in_that_file(name: str, path: str) -> None:
    begins = name if name.startswith("@") else f"(def|class) {name}"
    assert re.search(rf"^{begins}\b", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_three_questions_of_a_stranger_are_answered() -> None:
    answers = dict(re.findall(r"^\| (.+?\?) \| .*?`(fedol/[\w/]+\.py)`", ANSWERS, flags=re.MULTILINE))
    assert answers["Where is an upload refused?"] == "fedol/knowledge/header.py"
    assert answers["Where does a codec go?"] == "fedol/knowledge/codecs.py"
    assert answers["What happens between the last client and the trained server?"] == "fedol/distillation.py"
