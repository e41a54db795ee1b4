"""Everything that README shows works; its tables are checked in ``tests/docs/test_tables.py``."""

import io
import json
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fedol.cli import main
from fedol.report.terminal import run_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


COMMANDS = [
    line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines() if line[:5] == "fedol"
]


def run_main(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def test_there_is_something_to_check() -> None:
    assert (len(blocks("python")), len(COMMANDS)) == (1, 6)


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.py").write_text(blocks("python")[0])
    monkeypatch.chdir(tmp_path)
    runpy.run_path("script.py", run_name="__main__")
    server, mean = [float(word) for word in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    assert 1 >= server > mean + 0.2 > 0.2


@pytest.mark.parametrize("command", COMMANDS)
def test_fedol_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option is one; the federation itself, which takes minutes or data, is not run."""

    class Reached(Exception):
        pass

    def simulate(config: Any, **_: Any) -> None:
        assert config.as_json()
        raise Reached

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedol.api.run", simulate)
    with pytest.raises(Reached):
        run_main(command, monkeypatch)


def test_data_and_models_of_ones_own_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=200)
    x = (80 * y[:, None, None] + rng.integers(0, 100, size=(200, 6, 6))).astype(np.uint8)
    np.savez("data.npz", train_x=x, train_y=y, test_x=x[:50], test_y=y[:50])
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "def Small(classes, shape): return nn.Sequential(nn.Flatten(), nn.Linear(36, classes))\n"
        "def Large(classes): return nn.Sequential(nn.Flatten(), nn.Linear(36, 99), nn.ReLU(), nn.Linear(99, classes))\n"
    )
    options = "--public 50 --clients 2 --partition iid --epochs 5 --iterations 2 --device cpu --json"
    models = "--client-models mlp,nets.py:Small --server-model nets.py:Large"
    run_main(f"fedol run --dataset data.npz {models} {options}", monkeypatch)
    summary = json.loads(capsys.readouterr().out)
    assert [client["model"] for client in summary["clients"]] == ["mlp", "nets.py:Small"]
    assert summary["server"]["parameters"] == 36 * 99 + 99 + 99 * 2 + 2


def test_the_table_is_that_of_the_committed_record() -> None:
    record = json.loads((ROOT / "results" / "quick.json").read_text())
    assert {"command", "commit", "seed", "device", "versions"} <= set(record["provenance"])
    assert not record["provenance"]["commit"].endswith("-dirty")
    printed = io.StringIO()
    Console(file=printed, width=80).print(run_table(record))
    whole = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
    shown = [part.strip("\n") for part in blocks("text")[0].split("…")]
    assert len(shown) == 2 and all(shown) and whole.startswith(shown[0]) and whole.endswith(shown[1])
    best = max(client["accuracy"] for client in record["clients"])
    assert record["server"]["accuracy"] > best
    assert record["seconds"] < 60  # a record of the past, which README's "under a minute" quotes


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_every_decimal_in_prose_stands_in_the_table(page: str) -> None:
    (table,) = re.findall(r"^<!-- table: readme -->\n(.*?)^<!-- /table -->", README, flags=re.MULTILINE | re.DOTALL)
    text = (ROOT / page).read_text(encoding="utf-8").replace(table, "")
    prose = re.sub(r"^```.*?^```$|\]\([^)]*\)|Python 3.11 to 3.13|Apache-2.0", "", text, flags=re.MULTILINE | re.DOTALL)
    numbers = set(re.findall(r"\d+\.\d+", prose))
    assert numbers and numbers <= set(re.findall(r"\d+\.\d+", table))


def test_every_link_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("https://")]
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
