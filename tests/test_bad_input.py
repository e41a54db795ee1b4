"""Every mistake gets its one clear sentence, from Python and from the command line, or its defined result."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import ENV, exit_code
from safetensors.torch import save_file

import fedol
from fedol.data import Dataset
from fedol.errors import FedolError, InputError
from fedol.methods.fedkt import load_labels
from fedol.runs.folder import read_kept
from fedol.training.snapshot import EpochFile

UNIFORM = np.full((2, 6, 3), 1 / 3)
PUBLIC = np.zeros((6, 1, 8, 8), dtype=np.uint8)
QUICK = {"model": "mlp", "width": 4, "iterations": 1, "epochs": 1, "device": "cpu"}


def one_sentence(message: str) -> None:
    assert "\n" not in message, message
    assert message.endswith((".", "?")), message
    assert "Traceback" not in message


def cli(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the entry point itself and give back its error: exit code 2, nothing on stdout, one line on stderr."""
    code = exit_code(*argv)
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert err.startswith("Error: ")
    message = err.removeprefix("Error: ").rstrip("\n")
    one_sentence(message)
    return message


# --- Predictions that are none.


def broken(where: tuple[int, ...], value: float) -> np.ndarray:
    probs = UNIFORM.copy()
    probs[where] = value
    return probs


PREDICTIONS = {
    "NaN": (broken((1, 4, 2), np.nan), r"NaN or an infinity at \[.*4, 2\]"),
    "infinity": (broken((1, 4, 2), np.inf), r"NaN or an infinity at \[.*4, 2\]"),
    "negative": (broken((1, 4, 2), -0.5), r"between 0 and 1, but hold -0.5 at \[.*4, 2\]"),
    "above one": (broken((1, 4, 2), 1.5), r"between 0 and 1, but hold 1.5 at \[.*4, 2\]"),
    "logits": (broken((1, 4, 2), 0.9), r"sum to 1 over the classes, but sum to 1.567 at \[.*4\]"),
    "integers": (np.ones((2, 6, 3), dtype=np.int64), "must be floating-point numbers"),
    "empty": (np.zeros((2, 0, 3)), r"are empty \(shape \[.*0, 3\]\)"),
    "words": (np.full((2, 6, 3), "a"), "must be a NumPy array or a torch tensor of numbers"),
}
ONE_BY_ONE: dict[str, Callable[[Any], Any]] = {
    "Knowledge": lambda probs: [fedol.Knowledge.from_probabilities(client) for client in probs],
    "distill": lambda probs: fedol.distill(list(probs), PUBLIC, **QUICK),
}
TOGETHER: dict[str, Callable[[Any], Any]] = {
    "pseudo_labels": lambda probs: fedol.pseudo_labels(probs, 0.5),
    "soft_targets": fedol.soft_targets,
    "client_weights": fedol.client_weights,
    "class_confidence": fedol.class_confidence,
}


@pytest.mark.parametrize("mistake", PREDICTIONS)
@pytest.mark.parametrize("name", [*ONE_BY_ONE, *TOGETHER, "entropy"])
def test_predictions_that_are_none(name: str, mistake: str) -> None:
    probs, sentence = PREDICTIONS[mistake]
    call = {**ONE_BY_ONE, **TOGETHER, "entropy": fedol.entropy}[name]
    with pytest.raises(InputError, match=sentence) as caught:
        call(probs)
    one_sentence(str(caught.value))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("shape", [(6, 3), (3,), (2, 2, 6, 3)])
def test_predictions_of_another_shape(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"must have the shape \[models, samples, classes\], but have"):
        TOGETHER[name](np.full(shape, 1 / 3))


@pytest.mark.parametrize("rho", [0, 0.0, -0.1, 1.5, np.nan, np.inf])
def test_rho_outside_its_range(rho: float) -> None:
    with pytest.raises(InputError, match=r"rho must lie in \(0, 1\], but is"):
        fedol.pseudo_labels(UNIFORM, rho)


@pytest.mark.parametrize(
    ("knowledge", "settings", "sentence"),
    [
        ([], {}, "no client to learn from"),
        (
            [np.full((6, 3), 1 / 3), np.full((6, 4), 1 / 4)],
            {},
            r"client 1 predicts \[6, 4\], .* client 0 has 3 classes",
        ),
        ([np.full((5, 3), 1 / 3)], {}, r"client 0 predicts \[5, 3\], but there are 6 public images"),
        ([np.zeros((0, 3))], {}, "client 0's probabilities are empty"),
        (list(UNIFORM), {"public": PUBLIC.astype(np.float32)}, "public samples must be uint8"),
        (list(UNIFORM), {"public": PUBLIC[:, 0]}, r"public samples must be uint8 \[N, channels, H, W\]"),
        (list(UNIFORM), {"classes": ["a", "b"]}, "There are 2 class names, but the clients predict 3 classes"),
        (list(UNIFORM), {"rho": 1.5}, "rho must lie in"),
        (list(UNIFORM), {"rho": 0}, "rho must lie in"),
        (list(UNIFORM), {"tau": -1.0}, "tau must be a finite number of at least 0"),
        (list(UNIFORM), {"iterations": 0}, "iterations must be at least 1"),
        (list(UNIFORM), {"epochs": -2}, "epochs must be at least 1"),
        (list(UNIFORM), {"epoch": 2}, "no setting 'epoch'; did you mean 'epochs'"),
        (list(UNIFORM), {"tau": "much"}, "'tau' must be a number, but is 'much'"),
        (list(UNIFORM), {"epochs": 1.5}, "'epochs' must be a whole number, but is 1.5"),
        (list(UNIFORM), {"iterations": 1.5}, "'iterations' must be a whole number, but is 1.5"),
        (list(UNIFORM), {"method": "fedoll"}, "no method 'fedoll'; did you mean 'fedol'"),
        (list(UNIFORM), {"model": "resnet57"}, "no model 'resnet57'.*nearest is 'resnet56'"),
        (list(UNIFORM), {"device": "tpu"}, "no device 'tpu'; use auto, cpu, cuda or mps"),
    ],
)
def test_distill(knowledge: list[np.ndarray], settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        fedol.distill(knowledge, **{"public": PUBLIC, **QUICK, **settings})
    one_sentence(str(caught.value))


# --- Settings, the same from Python, from the command line and from a TOML file.

SETTINGS = [
    ("method", "FedOL", "no method 'FedOL'; did you mean 'fedol'"),
    ("dataset", "cifar1000", "no dataset 'cifar1000'; did you mean 'cifar100'"),
    ("dataset", "digits.txt", "no dataset 'digits.txt'"),
    ("dataset", "nowhere.npz", "no file nowhere.npz"),
    ("server_model", "resnet21", "no model 'resnet21'.*nearest is 'resnet20'"),
    ("server_model", "nowhere.module:Net", "'nowhere.module:Net' cannot be imported"),
    ("client_models", "cnnn", "no model 'cnnn'; did you mean 'cnn'"),
    ("client_models", ",", "must name at least one model"),
    ("method", "fedoll", "no method 'fedoll'; did you mean 'fedol'"),
    ("method", "ceiling", "'ceiling' is not a method of a run.*`fedol bench one-round --methods ceiling`"),
    ("method", "ensemble", "`fedol bench one-round --methods ensemble`"),
    ("partition", "dirichlet:-1", "alpha of 'dirichlet:-1' must be a number above 0"),
    ("partition", "classes:20", "classes:20 asks for more than the 10 classes"),
    ("partition", "iidd", "no partition 'iidd'; did you mean 'iid'"),
    ("public", 1438, "public set must have 1 to 1,437 samples.*change --public"),
    ("public", 0, "public set must have 1 to 1,437 samples"),
    ("clients", 0, "clients and width must be at least 1"),
    ("clients", 1000, "private samples are too few for 1,000 clients"),
    ("width", 0, "clients and width must be at least 1"),
    ("rho", 0.0, r"rho must lie in \(0, 1\]"),
    ("rho", 1.5, r"rho must lie in \(0, 1\]"),
    ("rho_step", -0.1, r"rho_step in \[0, 1\]"),
    ("tau", -0.1, "tau must be a finite number of at least 0"),
    ("iterations", 0, "iterations must be at least 1"),
    ("epochs", -1, "epochs must be at least 1"),
    ("batch_size", 1, "batch_size at least 2"),
    ("lr", 0.0, "lr must be a positive number"),
    ("lr", float("inf"), "lr must be a positive number"),
    ("device", "tpu", "no device 'tpu'; use auto, cpu, cuda or mps"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.mark.parametrize(("name", "value", "sentence"), SETTINGS)
def test_a_wrong_setting_is_refused_before_anything_is_trained(
    name: str,
    value: Any,
    sentence: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("fedol.federation.simulation.drive", lambda *_: pytest.fail("training began"))
    with pytest.raises(InputError, match=sentence) as caught:
        fedol.run(out=folder, **{name: value})
    one_sentence(str(caught.value))
    argv = ["run", "--out", str(folder), f"--{name.replace('_', '-')}={value}"]
    assert cli(argv, capsys) == str(caught.value)
    file = folder.parent / "settings.toml"
    file.write_text(f"{name} = {json.dumps(value) if value != float('inf') else 'inf'}\n")
    argv = ["run", "--out", str(folder), "--config", str(file), "--trust-code"]
    assert cli(argv, capsys) == str(caught.value)
    assert not (folder / "clients").exists()


def test_a_client_that_would_be_empty(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"left a client with \d samples or fewer .* use a larger alpha or fewer clients"
    ):
        fedol.run(out=folder, partition="dirichlet:0.001", clients=30)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_here(folder: Path) -> None:
    with pytest.raises(InputError, match="'cuda' is not available on this machine; use --device auto or cpu"):
        fedol.run(out=folder, device="cuda")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, r"settings.toml cannot be read: .*No such file"),
        ("epochs = = 3", r"settings.toml cannot be read: .*line 1"),
        ("\x00", "settings.toml cannot be read"),
        ("epocs = 3", "no setting 'epocs'; did you mean 'epochs'"),
        ("[training]\nepochs = 3", "no setting 'training'"),
        ("epochs = 'three'", "'epochs' must be a whole number, but is 'three'"),
        ("epochs = 2.5", "'epochs' must be a whole number, but is 2.5"),
        ("epochs = true", "'epochs' must be a whole number, but is True"),
        ("dataset = 5", "'dataset' must be text, but is 5"),
        ("data-dir = 5", "'data_dir' must be text, but is 5"),
        ("partition = ['iid']", "'partition' must be text"),
        ("client_models = 5", "'client_models' must be a list of models, but is 5"),
        ("client_models = ['mlp', 5]", "A model is a name, .* not 5"),
        ("server_model = 5", "A model is a name, .* not 5"),
        ("preset = 'papr'", "no preset 'papr'; did you mean 'paper'"),
        ("preset = ['paper']", "no preset"),
    ],
)
@pytest.mark.parametrize("command", ["run", "partition"])
def test_a_configuration_that_cannot_be_used(
    command: str,
    text: str | None,
    sentence: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = folder.parent / "settings.toml"
    if text is not None:
        file.write_text(text)
    message = cli([command, "--config", str(file)], capsys)
    assert re.search(sentence, message), message


@pytest.mark.parametrize("settings", [{"preset": "papr"}, {"epocs": 3}])
def test_unknown_names_from_python(settings: dict[str, Any], folder: Path) -> None:
    with pytest.raises(InputError, match=r"There is no (preset|setting) '.*'; did you mean"):
        fedol.run(out=folder, **settings)
    settings.pop("preset", None)
    if settings:
        with pytest.raises(InputError, match="no setting 'epocs'; did you mean 'epochs'"):
            fedol.run(fedol.RunConfig(), out=folder, **settings)


# --- Run folders that are none, are another's or are damaged.


def copy(finished: Path, to: Path, unfinished: str | None = None) -> Path:
    """A run of one's own; without its summary, and without what ``unfinished`` matches, it continues."""
    shutil.copytree(finished, to)
    if unfinished is not None:
        (to / "summary.json").unlink()
        for file in to.glob(unfinished):
            file.unlink()
    return to


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


CONTINUES = "model.safetensors"
LAST_ITERATION = "server/02*"
DAMAGE: dict[str, tuple[str | None, Callable[[Path], object], str]] = {
    "another version": (
        None,
        lambda run: rewrite(run / "config.json", schema=99),
        r"another version \(schema 99, this is",
    ),
    "config cut": (None, lambda run: cut(run / "config.json"), r"config.json cannot be read"),
    "config empty": (None, lambda run: (run / "config.json").write_text("[]"), "not the configuration of a run"),
    "config of others": (None, lambda run: (run / "config.json").write_text("{}"), "not the configuration of a run"),
    "summary cut": (None, lambda run: cut(run / "summary.json"), r"summary.json cannot be read"),
    "data changed": (CONTINUES, lambda run: rewrite(run / "data.json", fingerprint="0"), "a run on other data"),
    "knowledge cut": (LAST_ITERATION, lambda run: cut(run / "clients/01.fedol"), r"01.fedol"),
    "knowledge empty": (LAST_ITERATION, lambda run: (run / "clients/01.fedol").write_bytes(b""), r"01.fedol"),
    "server cut": (CONTINUES, lambda run: cut(run / "server/02.safetensors"), r"02.safetensors is damaged"),
    "client cut": (CONTINUES, lambda run: cut(run / "clients/00.safetensors"), r"00.safetensors is damaged"),
    "votes cut": (CONTINUES, lambda run: cut(run / "server/01.votes.safetensors"), r"votes.safetensors is damaged"),
    "metrics broken": (
        LAST_ITERATION,
        lambda run: (run / "metrics.jsonl").write_text("{"),
        r"metrics.jsonl is damaged",
    ),
    "metrics in another encoding": (
        LAST_ITERATION,
        lambda run: (run / "metrics.jsonl").write_bytes(b"\xff\xfe"),
        r"metrics.jsonl is damaged",
    ),
    "summary empty": (None, lambda run: (run / "summary.json").write_text("[]"), "not the summary of a run"),
    "summary of others": (None, lambda run: (run / "summary.json").write_text("{}"), "not the summary of a run"),
    "no config": (None, lambda run: (run / "config.json").unlink(), "exists and is not a run; choose another --out"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_folder(
    damage: str,
    finished: Path,
    tiny: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unfinished, harm, sentence = DAMAGE[damage]
    harm(copy(finished, folder, unfinished))
    with pytest.raises(FedolError, match=sentence) as caught:
        fedol.run(out=folder, **tiny)
    one_sentence(str(caught.value))
    options = [f"--{name.replace('_', '-')}={value}" for name, value in tiny.items()]
    assert cli(["run", "--out", str(folder), *options], capsys) == str(caught.value)


def test_a_changed_configuration_names_what_changed(finished: Path, tiny: dict[str, Any]) -> None:
    with pytest.raises(FedolError, match=r"holds another run \(tau was 0.2, now 0.3\); choose another --out"):
        fedol.run(out=finished, **{**tiny, "tau": 0.3})


def test_a_run_from_before_a_setting_existed_goes_on(finished: Path, tiny: dict[str, Any], folder: Path) -> None:
    config = copy(finished, folder) / "config.json"
    older = json.loads(config.read_text())
    del older["config"]["optimiser"]
    config.write_text(json.dumps({**older, "hash": "of that time"}))
    fedol.run(out=folder, **tiny)
    with pytest.raises(FedolError, match=r"holds another run \(optimiser was 'adam', now 'sgd'\)"):
        fedol.run(out=folder, **tiny, optimiser="sgd")


def test_a_setting_that_is_no_more_is_named_too(finished: Path, tiny: dict[str, Any], folder: Path) -> None:
    config = copy(finished, folder) / "config.json"
    before = json.loads(config.read_text())["config"]
    rewrite(config, config={**before, "temperature": 2}, hash="0")
    with pytest.raises(FedolError, match="temperature was 2, now None"):
        fedol.run(out=folder, **tiny)


@pytest.mark.parametrize("out", ["a file", "below a file", "not writable"])
def test_an_out_folder_that_cannot_be_one(out: str, tiny: dict[str, Any], folder: Path) -> None:
    folder.write_text("a file")
    path = {"a file": folder, "below a file": folder / "run", "not writable": Path("/proc/fedol-run")}[out]
    with pytest.raises(FedolError, match=r"exists and is not a run|cannot be written") as caught:
        fedol.run(out=path, **tiny)
    one_sentence(str(caught.value))


def test_an_out_folder_that_may_not_be_read(
    tiny: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_: Path) -> None:
        raise PermissionError(13, "Permission denied")  # root, as whom tests may run, is never refused

    folder.mkdir()
    monkeypatch.setattr(Path, "iterdir", forbidden)
    with pytest.raises(FedolError, match=r"run cannot be read \(Permission denied\); choose another --out"):
        fedol.run(out=folder, **tiny)


def test_a_disk_that_fills_up_is_one_sentence(
    tiny: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedol.files.os.fsync", full)
    with pytest.raises(FedolError, match=r"config.json cannot be written \(No space left on device\)") as caught:
        fedol.run(out=folder, **tiny)
    one_sentence(str(caught.value))
    assert [file.name for file in folder.iterdir()] == ["run.lock"]  # and nothing half written stays


@pytest.mark.parametrize("content", ["missing", "cut", "another file", "wrong weights", "a folder"])
def test_load(content: str, finished: Path, folder: Path) -> None:
    model = copy(finished, folder) / "model.safetensors"
    if content == "cut":
        cut(model)
    elif content == "another file":
        shutil.copy(folder / "server" / "01.votes.safetensors", model)
    elif content == "wrong weights":
        data = model.read_bytes()
        model.write_bytes(data.replace(rb"\"width\": 4", rb"\"width\": 3"))
    else:
        model.unlink()
        if content == "a folder":
            model.mkdir()
    with pytest.raises(FedolError, match=r"no trained model|FedOL model file|do not fit mlp|is the run finished"):
        fedol.load(folder)


TENSOR_READERS: dict[str, Callable[[Path], object]] = {
    "model": fedol.load,
    "kept": read_kept,
    "epoch": lambda path: EpochFile(path, {}).read(),
    "labels": lambda path: list(load_labels(path, fedol.Task.of(PUBLIC, "abc"), "client 0")),
}


@pytest.mark.parametrize("reader", TENSOR_READERS)
@pytest.mark.parametrize(
    ("header", "why"),
    [(None, "it was not written by FedOL"), ({"fedol": "{"}, "JSONDecodeError: .*"), ({"fedol": "{}"}, ".*")],
    ids=["foreign", "no JSON", "cut"],
)
def test_every_reader_of_tensors_names_a_damaged_file(
    reader: str, header: dict[str, str] | None, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.safetensors"
    save_file({"x": torch.zeros(100)}, path, header)
    if header == {"fedol": "{}"}:
        cut(path)
    with pytest.raises(FedolError, match=rf"file.safetensors is damaged \({why}\); \w+") as caught:
        TENSOR_READERS[reader](path)
    one_sentence(str(caught.value))


# --- Data folders.


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100", "fashion-mnist", "npz", "folder"])
def test_a_data_dir_without_files(
    dataset: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no internet in this test")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    empty = folder.parent / "empty"
    empty.mkdir()
    for command in ("run", "partition"):
        message = cli([command, "--dataset", dataset, "--data-dir", str(empty)], capsys)
        assert str(empty) in message


def test_brackets_in_a_path_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = cli(["run", "--config", "[bold]/[/x].toml"], capsys)
    assert "[bold]/[/x].toml" in message


@pytest.mark.parametrize(
    "argv", [["run", "--rhoo", "1"], ["run", "--rho", "much"], ["rum"], ["partition", "--plot", "heat.nope"]]
)
def test_the_real_command_exits_with_two_and_without_a_traceback(argv: list[str], tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "fedol", *argv], capture_output=True, text=True, cwd=tmp_path, env=ENV
    )
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    assert "rror" in answer.stderr


# --- Defined results.


def test_one_client_alone_is_a_federation(tiny: dict[str, Any], folder: Path) -> None:
    summary = fedol.run(out=folder, **{**tiny, "clients": 1}).summary
    assert len(summary["clients"]) == 1
    assert summary["local"] == {"mean": summary["clients"][0]["accuracy"], "std": None, "n": 1}
    assert summary["ensemble"]["accuracy"] == summary["local"]["mean"]
    assert [record["voters"] for record in summary["history"]] == [pytest.approx(0.1), pytest.approx(0.3)]


def test_a_class_nobody_holds_is_a_class_like_any_other(tiny: dict[str, Any], folder: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, size=(200, 8, 8), dtype=np.uint8), rng.integers(0, 2, size=200)
    data = Dataset.from_arrays(x, y, x[:50], np.full(50, 2), classes=("cat", "dog", "unicorn"))
    result = fedol.run(out=folder, dataset=data, **tiny)
    assert [client["classes"] for client in result.summary["clients"]] == [2, 2]
    probs = result.model.predict_proba(x[:, None])
    assert probs.shape == (200, 3)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)
    assert result.model.classes == ("cat", "dog", "unicorn")


def test_a_client_that_diverges_is_named_and_the_others_are_kept(tiny: dict[str, Any], folder: Path) -> None:
    with pytest.raises(FedolError, match=r"client 0 diverged: its loss is (nan|inf) .* try a smaller learning rate"):
        fedol.run(out=folder, **{**tiny, "client_models": (Diverging, "mlp")})
    assert sorted(file.name for file in (folder / "clients").glob("*.fedol")) == ["01.fedol"]


class Diverging(torch.nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(x.flatten(1))
        return logits * torch.inf if self.training else logits
