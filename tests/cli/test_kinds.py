"""A federation on tables from the shell: every command from the task to the classes of new rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from commands import Command, one_sentence

import fedol
from fedol.data import Reading
from fedol.data.stored import load_samples


def rows(count: int, seed: int, *, names: str = "age,pain,ill", label: bool = True) -> str:
    """Older patients with chest pain are ill; of some the age is unknown."""
    rng, lines = np.random.default_rng(seed), [names]
    for _ in range(count):
        ill = int(rng.integers(2))
        age = "-9" if rng.random() < 0.1 else f"{rng.normal(50 + 15 * ill, 8):.0f}"
        pain = ["mild", "chest"][ill if rng.random() < 0.9 else 1 - ill]
        lines.append(",".join([age, pain, *([["no", "yes"][ill]] if label else [])]))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for seed, (name, count) in enumerate({"public": 200, "alice": 300, "bob": 250, "test": 100}.items()):
        (folder / f"{name}.csv").write_text(rows(count, seed))
    (folder / "new.csv").write_text(rows(3, 9, names="age,pain", label=False))
    return folder


def test_from_a_task_to_the_classes_of_new_rows(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def said(*words: object) -> str:
        result = command(*words)
        assert result.code == 0, result.err
        return result.out

    said("task", "new", "task", "--public", "public.csv", "--label", "ill", "--classes", "no,yes", "--missing", "-9")
    for client in ("alice", "bob"):  # the task knows what the columns mean
        small = ("--epochs", "8", "--folds", "2", "--device", "cpu", "--quiet")
        said("client", "fit", "task", "--data", f"{client}.csv", *small, "--out", f"{client}.safetensors")
        said("client", "predict", "task", "--model", f"{client}.safetensors", "--out", f"{client}.fedol")
    assert "masses" in said("inspect", "alice.fedol", "--task", "task")
    audit = said("audit", "--task", "task", "--model", "bob.safetensors", "--data", "bob.csv", "--shadows", "0")
    assert "trained on 20" in audit  # four fifths of 250
    server = ("--method", "union", "--epochs", "15", "--device", "cpu", "--quiet")
    said("distill", "task", "alice.fedol", "bob.fedol", *server, "--test", "test.csv", "--out", "server")
    summary = json.loads((folder / "server" / "summary.json").read_text())
    assert summary["test"]["accuracy"] > 0.85
    assert summary["server"]["model"] == "mlp-large", "nobody named a model, so it is one for tables"

    said("predict", "server", "new.csv", "--out", "classes.csv")
    with (folder / "classes.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [row["row"] for row in found] == ["1", "2", "3"] and {row["class"] for row in found} <= {"no", "yes"}

    said("export", "server", "--onnx", "server.onnx")
    model = fedol.load("server")
    new, _ = load_samples(folder / "new.csv", reading=Reading().under(model.architecture.prepare))
    session = onnxruntime.InferenceSession("server.onnx", providers=["CPUExecutionProvider"])
    (probs,) = session.run(None, {"tables": new.floats()})
    np.testing.assert_allclose(probs, model.predict_proba(new), atol=1e-6)
    told = {entry.key: json.loads(entry.value) for entry in onnx.load("server.onnx").metadata_props}
    assert told["columns"] == ["age", "pain"] and told["codes"]["pain"].keys() == {"mild", "chest"}


def test_a_task_without_its_samples_says_how_they_are_read(folder: Path, command: Command) -> None:
    task, public = folder / "apart", folder / "public.csv"
    made = ("--public", public, "--label", "ill", "--classes", "no,yes", "--missing", "-9", "--only-fingerprint")
    assert command("task", "new", task, *made).code == 0
    told = json.loads((task / "task.json").read_text())["reading"]
    assert told == {"label": "ill", "columns": {"age": "number", "pain": "category"}, "missing": ["-9"]}
    client = (
        "--data",
        folder / "bob.csv",
        "--epochs",
        "2",
        "--device",
        "cpu",
        "--quiet",
        "--out",
        folder / "b.safetensors",
    )
    assert command("client", "fit", task, *client).code == 0, "its own rows are read alike without the public ones"
    model = ("--model", folder / "b.safetensors", "--out", folder / "b.fedol")
    found = command("client", "predict", task, "--public", public, *model)
    assert found.code == 0, found.err
    broken = json.loads((task / "task.json").read_text()) | {"reading": {"columns": {"age": "colour"}}}
    (task / "task.json").write_text(json.dumps(broken))
    found = command("client", "predict", task, "--public", public, *model)
    assert found.code == 2 and "what its columns mean makes no sense" in found.err
    one_sentence(found.err.strip())


WRONG = {
    "a column less": ("age,ill\n50,no\n", "has no column 'pain'"),
    "a word for a number": ("age,pain,ill\n50,mild,no\nold,mild,yes\n", "row 2, column 'age': 'old' is not a number"),
    "a class of no task": ("age,pain,ill\n" + "50,mild,no\n60,mild,perhaps\n" * 5, "has the class 'perhaps'"),
    "nothing": ("", "is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_site_with_other_data_is_told_what_differs(name: str, folder: Path, command: Command) -> None:
    text, says = WRONG[name]
    site = folder / "site.csv"
    site.write_text(text)
    if not (folder / "other").exists():
        made = ("--public", folder / "public.csv", "--label", "ill", "--classes", "no,yes", "--missing", "-9")
        assert command("task", "new", folder / "other", *made).code == 0
    result = command("client", "fit", folder / "other", "--data", site, "--model", "mlp", "--out", folder / "x")
    assert result.code == 2 and says in result.err
    one_sentence(result.err.strip())
