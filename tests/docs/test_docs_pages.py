"""Every code block of the documentation runs, page by page, as a reader would do it; and the site builds."""

import dataclasses
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from commands import exit_code
from typer.main import get_command

from fedol import config
from fedol import config as settings
from fedol.cli import app

ROOT = Path(__file__).resolve().parents[2]
STORIES = "tests/docs/test_docs_federation.py"  # each one long, told in one go
OWN_TEST = {"federation.md": STORIES, "gain.md": STORIES, "https.md": STORIES, "secret-sum.md": STORIES}
MACHINES = ("deploy.md",)  # needs several of them; tests/federation runs the same deployment on this one
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in (*OWN_TEST, *MACHINES))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
# The quick job's settings on these pages: each command is really run, on less.
LESS = {"clients": 4, "public": 100, "epochs": 2, "iterations": 2, "width": 4, "device": "cpu"}


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


@pytest.mark.usefixtures("own_partitions")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(config.PRESETS, "quick", LESS)
    names: dict[str, Any] = {}
    for language, block in blocks(page):
        assert language in ("python", "sh", "toml"), f"{page}: nothing runs a block of {language}"
        if language == "toml":
            (tmp_path / "run.toml").write_text(block)
            assert config.configure(file=tmp_path / "run.toml") != config.configure()
            continue
        if language == "python":
            exec(compile(block, page, "exec"), names)
            continue
        for line in block.strip().splitlines():
            assert line.startswith("fedol "), f"{page}: nothing runs {line}"
            assert exit_code(*shlex.split(line)[1:]) == 0, line


def test_the_deployment_page_names_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is written for real; of the rest, scripts are there and options are options."""
    pytest.importorskip("flwr", reason="a deployment needs Flower: pip install 'fedol[flower]'")
    monkeypatch.chdir(tmp_path)
    lines = [line.split("  #")[0].strip() for _, block in blocks("deploy.md") for line in block.strip().splitlines()]
    assert len(lines) > 8
    for line in lines:
        words = shlex.split(line)
        if line.startswith("fedol deploy new"):
            assert exit_code(*shlex.split(line)[1:]) == 0, line
        elif words[0].startswith("./"):
            assert (tmp_path / "federation" / "server" / words[0]).exists(), line
        elif "fedol" in words:
            found, rest = get_command(app), words[words.index("fedol") + 1 :]
            while isinstance(found, click.Group):
                found, rest = found.commands[rest[0]], rest[1:]
            known = {option for parameter in found.params for option in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= known, line
        else:
            assert words[0] in ("pip", "cd"), f"nothing looks at {line}"


def test_the_settings_page_has_every_value_of_every_preset() -> None:
    def word(value: Any) -> str:
        if value is None or isinstance(value, bool):
            return {None: "none", False: "no", True: "yes"}[value]
        return f"{value:g}" if isinstance(value, float) else ",".join(value) if isinstance(value, tuple) else str(value)

    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = {name: values.split(" | ") for name, values in re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", page, re.M)}
    presets = [config.configure(preset) for preset in config.PRESETS]
    names = [field.name for field in dataclasses.fields(config.RunConfig)]
    assert rows == {name: [word(getattr(preset, name)) for preset in presets] for name in names}
    server, paper = settings.ServerConfig("a task"), config.configure("paper")
    own = {field.name for field in dataclasses.fields(server)} - {"task", "parent", "added"}
    assert {name for name in own if getattr(server, name) != getattr(paper, name)} == {"defence"}
    assert f"`defence` is `{server.defence}`" in page


def test_the_install_page_has_every_extra() -> None:
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r"`([\w-]+)`", " ".join(table))) == project["optional-dependencies"].keys() - {"docs"}


def test_pages_with_a_test_of_their_own_have_it() -> None:
    for page, test in OWN_TEST.items():
        assert page in (ROOT / test).read_text(encoding="utf-8")


def test_the_site_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs the package mkdocs-material")
    pytest.importorskip("mkdocstrings", reason="needs the package mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("index.html"))
    assert len(pages) >= 12
    for page in pages:
        html = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=\"?(https?://[^\"\s>]+)", html)
        assert not fetched, (page, fetched)
    api = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    words = re.sub(r"<[^>]+>", "", api)  # what a constructor takes, with its default
    assert "n_clients: int = 5" in words and "max_bytes: int = 0" in words
    assert "One client&#39;s log-probabilities" in api or "One client's log-probabilities" in api
