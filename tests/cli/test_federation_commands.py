"""The commands of a federation: what they print, and errors as one sentence with exit code 2."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from commands import Command
from rich.console import Console

from fedol import Knowledge, Task
from fedol.data import Normalisation
from fedol.federation.roster import Roster
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge.header import Guarantee
from fedol.knowledge.task import TaskRef
from fedol.model import Architecture, ServerModel
from fedol.models import create
from fedol.report.live import RosterView

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 1, 8, 8), dtype=np.uint8)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez("public.npz", public=IMAGES)
    return tmp_path


def test_task_new(command: Command, here: Path) -> None:
    Path("classes.txt").write_text("ant\nbee\n\n")
    key = "ab" * 32
    options = ["--classes", "classes.txt", "--client", "x", "--client", f"y={key}", "--codecs", "float16, q7c60"]
    code, out, _ = command("task", "new", "t", "--public", "public.npz", *options, "--json")
    assert code == 0
    task = json.loads(Path("t/task.json").read_text())
    assert task["id"] == json.loads(out)["id"] and task["name"] == "t"
    assert task["classes"] == ["ant", "bee"] and task["clients"] == {"x": None, "y": key}
    assert task["codecs"] == ["float16", "q7c60"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--public", "none.npz", "--classes", "a,b"], "There is no none.npz"),
        (["--public", "public.npz", "--classes", "a,a"], "must be distinct"),
        (["--public", "public.npz", "--classes", "a,b", "--codecs", "mp3"], "no codec 'mp3'"),
        (["--public", "public.npz", "--classes", "a,b", "--client", "x=123"], "not a public key"),
        (["--public", "public.npz", "--classes", "a,b", "--client", "../x"], "cannot be named"),
        (["--public", "public.npz", "--classes", "a,b,"], "Class 3 of 3 has no name"),
        (["--public", "public.npz", "--classes", "a,b", "--client", "x="], "not a public key"),
        (["--public", "public.npz", "--classes", "a,b", "--client", f"x={'ab' * 32}", "--client", "x"], "given twice"),
        (["--public", "public.npz", "--classes", "a,b", "--client", "x", "--client", "X"], "but for capital letters"),
    ],
)
def test_task_new_refuses(command: Command, here: Path, options: list[str], words: str) -> None:
    code, _, err = command("task", "new", "t", *options)
    assert code == 2 and words in err and not Path("t").exists()


@pytest.fixture
def task(command: Command, here: Path) -> Task:
    assert command("task", "new", "t", "--public", "public.npz", "--classes", "ant,bee")[0] == 0
    return TaskFolder.open("t").task


def test_inspect(command: Command, task: Task) -> None:
    probs = np.tile([0.9, 0.1], (12, 1))
    Knowledge.from_probabilities(probs, task, "alice").save("a.fedol", "float16")
    code, out, _ = command("inspect", "a.fedol", "--task", "t", "--json")
    found = json.loads(out)
    assert code == 0 and found["fits"]["fits"] and found["codec"] == "float16" and found["client"] == "alice"
    assert found["class_mix"] == {"ant": 1.0, "bee": 0.0} and sum(found["entropy"]["counts"]) == 12
    assert found["bytes"] == Path("a.fedol").stat().st_size
    code, out, _ = command("inspect", "a.fedol")
    assert code == 0 and "What it reveals" in out and "not checked" in out


def test_inspect_says_that_it_does_not_fit(command: Command, task: Task) -> None:
    other = dataclasses.replace(task, name="other")
    Knowledge.from_probabilities(np.full((12, 2), 0.5), other, "alice").save("a.fedol")
    code, out, _ = command("inspect", "a.fedol", "--task", "t", "--json")
    assert code == 2 and "another task" in json.loads(out)["fits"]["reason"]
    Path("b.fedol").write_bytes(b"junk")
    code, _, err = command("inspect", "b.fedol")
    assert code == 2 and "b.fedol is no knowledge file" in err


def test_keys(command: Command, here: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the package cryptography")
    code, out, _ = command("keys", "new", "my.key", "--json")
    assert code == 0 and len(json.loads(out)["public_key"]) == 64 and Path("my.key").exists()
    assert command("keys", "new", "my.key")[0] == 2


@pytest.fixture
def model(here: Path) -> ServerModel:
    architecture = Architecture("cnn", ("ant", "bee"), (1, 8, 8), 16, Normalisation((0.4,), (0.3,)))
    model = ServerModel(create("cnn", classes=2, shape=(1, 8, 8), seed=3).eval(), architecture)
    model.save("model.safetensors")
    return model


def test_predict(command: Command, model: ServerModel) -> None:
    code, out, _ = command("predict", "model.safetensors", "public.npz", "--json")
    found = json.loads(out)
    expected = model.predict(IMAGES)
    assert code == 0 and [line["class"] for line in found] == [model.classes[c] for c in expected]
    code, out, _ = command("predict", "model.safetensors", "public.npz")
    assert len(out.splitlines()) == 12 and out.splitlines()[0].split("\t")[1] in model.classes
    np.save("large.npy", np.zeros((2, 1, 9, 9), np.uint8))
    code, _, err = command("predict", "model.safetensors", "large.npy")
    assert code == 2 and "takes images of 1x8x8" in err


def test_predict_a_folder(command: Command, model: ServerModel) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs the package pillow")
    Path("pictures/sub").mkdir(parents=True)
    for name, pixels in (("b.png", IMAGES[0, 0]), ("sub/a.png", IMAGES[1, 0])):
        image.fromarray(pixels).save(f"pictures/{name}")
    Path("pictures/._b.png").write_bytes(b"what macOS knows about b.png")
    Path("pictures/.thumbnails").mkdir()
    Path("pictures/.thumbnails/b.png").write_bytes(b"hidden likewise")
    code, out, _ = command("predict", "model.safetensors", "pictures", "--json")
    assert code == 0 and [line["image"] for line in json.loads(out)] == ["b.png", "sub/a.png"]


def test_export(command: Command, model: ServerModel) -> None:
    pytest.importorskip("onnxscript", reason="needs the package onnxscript")
    runtime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    code, _, err = command("export", "model.safetensors", "--onnx", "model.onnx")
    assert code == 0, err
    session = runtime.InferenceSession("model.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["ant", "bee"]
    for images in (IMAGES, IMAGES[:1]):
        (probs,) = session.run(["probabilities"], {"images": images})
        np.testing.assert_allclose(probs, model.predict_proba(images), atol=1e-5)


def test_distill_refuses(command: Command, task: Task) -> None:
    code, _, err = command("distill", "t", "--out", "run")
    assert code == 2 and "no files" in err
    code, _, err = command("distill", "t", "none.fedol", "--out", "run", "--model", "mlp")
    assert code == 2 and "There is no file none.fedol; nothing was begun" in err
    code, _, err = command("distill", "t", "none.fedol")
    assert code == 2 and "--out" in err
    code, _, err = command("serve", "t", "--inbox", ".", "--out", "run2", "--model", "mlp", "--deadline", "soon")
    assert code == 2 and "'soon' is not a time" in err


def test_a_run_of_another_task_is_refused(command: Command, task: Task) -> None:
    Knowledge.from_probabilities(np.full((12, 2), 0.5), task, "alice").save("a.fedol")
    small = ["--model", "mlp", "--iterations", 1, "--epochs", 1, "--batch-size", 4, "--device", "cpu", "--json"]
    code, out, _ = command("distill", "t", "a.fedol", "--out", "run", *small)
    assert code == 0 and json.loads(out)["clients"][0]["client"] == "alice"
    assert command("task", "new", "t2", "--public", "public.npz", "--classes", "ant,bee")[0] == 0
    code, _, err = command("audit", "run")
    assert code == 2 and "run is a server's run" in err and "fedol audit --task TASK" in err
    code, _, err = command("distill", "t2", "a.fedol", "--out", "run", *small)
    assert code == 2 and "holds another run (task was" in err and "make it anew with --force" in err
    code, _, err = command("distill", "t2", "b.fedol", "--out", "run", *small, "--force")
    assert code == 2 and "There is no file b.fedol; nothing was begun" in err
    assert command("distill", "t", "a.fedol", "--out", "run", *small)[0] == 0  # it is still there
    Knowledge.from_probabilities(np.full((12, 2), 0.5), TaskFolder.open(Path("t2")).task, "bob").save("b.fedol")
    code, out, _ = command("distill", "t2", "b.fedol", "--out", "run", *small, "--force")
    assert code == 0 and [client["client"] for client in json.loads(out)["clients"]] == ["bob"]


# --- Names that mean something to Rich or to a terminal: they are shown, and do nothing.

HOSTILE = "[/red]:bomb:\x1b]0;gotcha\x07[bold]"
SHOWN = r"[/red]:bomb:\x1b]0;gotcha\x07[bold]"
TINY = ["--model", "mlp", "--iterations", 1, "--epochs", 1, "--batch-size", 4, "--device", "cpu"]


def told(answer: tuple[int, str, str], *words: str) -> None:
    """A command went well and said this, perhaps over several lines of a table."""
    code, *said = answer
    text = "".join(said).replace("\n", "")
    assert code == 0, text
    assert "\x1b" not in text and "\x07" not in text
    for word in words:
        assert word in text, text


@pytest.fixture
def hostile(command: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setenv("COLUMNS", "300")
    options = ["--public", "public.npz", "--classes", f"ant{HOSTILE},bee{HOSTILE}", "--name", HOSTILE]
    assert command("task", "new", "t", *options)[0] == 0
    task = TaskFolder.open("t").task
    promised = Guarantee(1.0, 0.0, HOSTILE)
    knowledge = dataclasses.replace(
        Knowledge.from_probabilities(np.full((12, 2), 0.5), task, "alice"), privacy=promised
    )
    knowledge.save("a[bold]:bomb:.fedol")
    dataclasses.replace(knowledge, task=TaskRef(HOSTILE, "", "")).save("b[bold]:bomb:.fedol")
    return task


def test_inspect_shows_a_strangers_words_as_they_are(command: Command, hostile: Task) -> None:
    told(command("inspect", "b[bold]:bomb:.fedol"), SHOWN, f"it covers {SHOWN}.")
    told(command("inspect", "a[bold]:bomb:.fedol", "--task", "t"), f"ant{SHOWN}", "yes")
    other = dataclasses.replace(hostile, name="other").ref
    stranger = dataclasses.replace(Knowledge.load("a[bold]:bomb:.fedol"), task=dataclasses.replace(other, id=HOSTILE))
    stranger.save("c.fedol")
    code, out, _ = command("inspect", "c.fedol", "--task", "t")
    assert code == 2 and f"it answers another task ({SHOWN}" in out and "\x1b" not in out


@pytest.mark.parametrize("out", ["runs[/b]", "exp[a]"])
def test_distill_shows_names_and_paths_as_they_are(command: Command, hostile: Task, out: str) -> None:
    files = ["a[bold]:bomb:.fedol", "b[bold]:bomb:.fedol"]
    said = [f"{SHOWN}: 1 client", *files, "refused: it was made for another list of classes", f"it covers {SHOWN}."]
    told(
        command("distill", "t", *files, "--out", out, *TINY),
        *said,
        f"Run folder: {out} (",
        f"Report: {out}/report.html",
    )


def test_serve_and_watch_show_an_inbox_as_it_is(command: Command, hostile: Task) -> None:
    Path("inbox").mkdir()
    shown = r"[b]:bomb:\x1b]0;gotcha\x07.fedol"
    for place, name in (
        ("a[bold]:bomb:.fedol", "a.fedol"),
        ("b[bold]:bomb:.fedol", "[b]:bomb:\x1b]0;gotcha\x07.fedol"),
    ):
        Path(place).rename(Path("inbox", name))
    served = command("serve", "t", "--inbox", "inbox", "--out", "runs[/b]", "--quorum", 1, *TINY)
    told(served, f"refused: {shown}: it was made for", "Run folder: runs[/b] (")
    told(command("deploy", "watch", "runs[/b]", "--once"), f"refused: {shown}: it was made for")
    terminal = io.StringIO()
    roster = Roster.read(Path("runs[/b]/roster.json"), 0.0).refuse("c.fedol", HOSTILE)
    with RosterView(Console(file=terminal, force_terminal=True, width=300), hostile, 3) as view:
        view.show(roster, {HOSTILE: HOSTILE})
    shown = terminal.getvalue()
    assert f"{SHOWN}: 1 of 3 clients" in shown and f"refused: {SHOWN}" in shown and f"awaited ({SHOWN})" in shown
    assert "\x1b]" not in shown


def test_run_and_partition_show_data_as_they_are_called(
    command: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (80, 8, 8), dtype=np.uint8), np.arange(80) % 2
    names = np.array([f"ant{HOSTILE}", f"bee{HOSTILE}"])
    np.savez("x[bold]:bomb:.npz", train_x=x, train_y=y, test_x=x, test_y=y, classes=names)
    data = ["--dataset", "x[bold]:bomb:.npz", "--clients", 2, "--partition", "iid", "--public", 20]
    told(command("partition", *data), f"ant{SHOWN} (")
    tiny = ["--client-models", "mlp", "--server-model", "mlp", "--epochs", 1, "--iterations", 1, "--device", "cpu"]
    told(command("run", *data, *tiny, "--out", "runs[/b]"), "x[bold]:bomb:.npz, iid", "Run folder: runs[/b] (")
    code, _, err = command("run", "--dataset", f"{HOSTILE}.npz")
    assert code == 2 and SHOWN in err and "\x1b" not in err


def test_a_file_that_the_server_would_refuse_is_not_made(command: Command, here: Path) -> None:
    Path("broken.py").write_text("def load():\n    raise RuntimeError('asked for nothing')\n")
    command("task", "new", "t", "--public", "public.npz", "--classes", "a,b", "--client", "alice")
    code, _, err = command("client", "predict", "t", "--model", "broken.py:load", "--out", "eve.fedol")
    assert code == 2 and "does not list the client 'eve'" in err and not Path("eve.fedol").exists()
    code, _, err = command(
        "client", "predict", "t", "--model", "broken.py:load", "--out", "alice.fedol", "--release", "nosie:1"
    )
    assert code == 2 and "There is no release 'nosie:1'" in err
    code, _, err = command("client", "predict", "t", "--model", "broken.py:load", "--out", "alice.fedol")
    assert code == 2 and "asked for nothing" in err  # so it was asked this time
