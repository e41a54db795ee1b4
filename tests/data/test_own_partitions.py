"""A partition of yours, and the sites of your data, wherever a partition's name goes: runs, commands and benchmarks."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Command

import fedol
from fedol.bench.cells import Cell
from fedol.code import from_file
from fedol.config import configure
from fedol.data import Dataset, load, split
from fedol.errors import FedolError

OWN = """
from dataclasses import dataclass

import numpy as np

from fedol.data import Partition, register


@register
@dataclass(frozen=True)
class Growing(Partition):
    name = "growing"
    power: float

    def owners(self, pool, rng):
        shares = np.arange(1, pool.clients + 1) ** self.power
        return rng.choice(pool.clients, size=len(pool.labels), p=shares / shares.sum())
"""
SITES = np.array(["north", "south", "west"])


@pytest.fixture
def growing(tmp_path: Path, own_partitions: None) -> Any:
    """The class of a file of yours, which importing has registered."""
    (tmp_path / "mine.py").write_text(OWN)
    return from_file(tmp_path / "mine.py").Growing


def hospitals(sites: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of 240 training images."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    x = (40 * y[:, None, None] + rng.integers(0, 100, (300, 8, 8))).astype(np.uint8)
    return {"train_x": x[:240], "train_y": y[:240], "test_x": x[240:], "test_y": y[240:], "groups": sites}


def test_a_run_takes_the_name_or_the_object(growing: Any, tiny: dict[str, Any], tmp_path: Path) -> None:
    named = fedol.run(out=tmp_path / "named", **{**tiny, "partition": "growing:1"}).out
    given = fedol.run(out=tmp_path / "given", **{**tiny, "partition": growing(1)}).out
    for file in ("config.json", "data.json", "model.safetensors", "clients/00.fedol"):
        assert (named / file).read_bytes() == (given / file).read_bytes(), file
    assert json.loads((given / "config.json").read_text())["config"]["partition"] == "growing:1"
    few, many = map(sum, json.loads((given / "data.json").read_text())["samples_per_client_and_class"])
    assert 1.5 < many / few < 2.5


def test_the_commands_know_it(growing: Any, command: Command, tmp_path: Path) -> None:
    code, out, _ = command("partition", "--partition", "growing:2", "--clients", 3, "--json")
    assert code == 0
    sizes = [sum(row) for row in json.loads(out)["samples_per_client_and_class"]]
    assert sizes == sorted(sizes) and sum(sizes) == 1438 - 400 and sizes[2] > 5 * sizes[0]
    small = ["--clients", 2, "--public", 60, "--epochs", 1, "--width", 4, "--out", tmp_path / "bench"]
    asked = ["--preset", "quick", "--methods", "local", "--partitions", "growing:1.0,iid", *small]
    assert command("bench", "one-round", *asked)[0] == 0
    code, out, _ = command("bench", "one-round", *asked, "--dry-run", "--json")
    assert (code, json.loads(out)) == (0, [])  # all of it is there
    code, out, _ = command("bench", "report", tmp_path / "bench", "--json")
    ((table,), name) = json.loads(out)["one_round"], f"growing:1@{digest(growing)}"
    assert (code, table["partitions"]) == (0, ["iid", name])


def digest(scheme: Any) -> str:
    """What a cell knows the file of a partition by."""
    cell = Cell.of("local", configure(overrides={"partition": scheme(1)}))
    return str(cell.settings["partition"]).partition("@")[2]


def test_a_cell_knows_your_partition_by_its_code(growing: Any, tmp_path: Path) -> None:
    def cell(partition: str) -> Cell:
        return Cell.of("feddf", configure("paper", overrides={"partition": partition}))

    before = {cell("growing:1").hash, cell("growing:1").clients}
    assert before == {cell("growing:1").hash, cell("growing:1").clients} and len(before) == 2
    (tmp_path / "mine.py").write_text(OWN.replace("+ 1)", "+ 2)"))
    from_file(tmp_path / "mine.py")
    after = cell("growing:1")
    assert not before & {after.hash, after.clients}
    assert after.place == "growing:1, seed 0"
    assert [cell(name).settings["partition"] for name in ("iid", "dirichlet:0.05", "sites")] == [
        "iid",
        "dirichlet:0.05",
        "sites",
    ]


def test_a_run_on_a_partition_of_yours_that_has_changed_is_refused(
    growing: Any, tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**tiny, "partition": "growing:1", "out": tmp_path / "run"}
    fedol.run(**settings)
    (tmp_path / "mine.py").write_text(OWN.replace("** self.power", "** (2 * self.power)"))
    from_file(tmp_path / "mine.py")
    with pytest.raises(FedolError, match=r"The partition 'growing:1' has changed since .*run was made; .* --force"):
        fedol.run(**settings)
    assert not fedol.run(**settings, force=True).already_finished


def test_one_that_was_typed_into_a_session_has_a_fingerprint(
    own_partitions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(OWN, namespace)
    assert (
        Cell.of("local", configure(overrides={"partition": "growing:1"})).settings["partition"].startswith("growing:1@")
    )


def test_sites_from_a_file_are_the_clients(command: Command, tmp_path: Path) -> None:
    sites = SITES[np.random.default_rng(1).integers(0, 3, 240)]
    np.savez(tmp_path / "hospitals.npz", **hospitals(sites))
    private = split(load(str(tmp_path / "hospitals.npz")), 40, 0).private
    data = ["--dataset", tmp_path / "hospitals.npz", "--partition", "sites", "--public", 40]
    code, out, _ = command("partition", *data, "--clients", 3, "--json")
    expected = [np.bincount(private.y[private.groups == site], minlength=3).tolist() for site in SITES]
    assert code == 0 and json.loads(out)["samples_per_client_and_class"] == expected
    code, _, said = command("partition", *data)
    assert code == 2 and "come from 3 sites, each of which is a client, but clients is 10; use --clients 3" in said
    code, _, said = command("partition", "--partition", "sites")
    assert code == 2 and "'sites' needs the site of every training sample" in said and "Traceback" not in said


def test_a_run_on_sites(tiny: dict[str, Any], tmp_path: Path) -> None:
    arrays = hospitals(SITES[np.arange(240) % 3])
    settings = {**tiny, "partition": "sites", "clients": 3}
    result = fedol.run(dataset=Dataset.from_arrays(**arrays), out=tmp_path / "run", **settings)
    data = json.loads((result.out / "data.json").read_text())
    groups = split(Dataset.from_arrays(**arrays), 60, 0).private.groups
    assert groups is not None
    assert [sum(row) for row in data["samples_per_client_and_class"]] == [int((groups == site).sum()) for site in SITES]
