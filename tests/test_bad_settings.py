"""Wrong settings: the same clear sentence from Python, from the command line and from a TOML file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import one_sentence, refusal

import fedol
from fedol.errors import InputError

SETTINGS = [
    ("method", "FedOL", "no method 'FedOL'; did you mean 'fedol'"),
    ("dataset", "cifar1000", "no dataset 'cifar1000'; did you mean 'cifar100'"),
    ("dataset", "digits.foo", "no dataset 'digits.foo'"),
    ("dataset", "digits.txt", "no file or folder digits.txt"),
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
    assert refusal(argv, capsys) == str(caught.value)
    file = folder.parent / "settings.toml"
    file.write_text(f"{name} = {json.dumps(value) if value != float('inf') else 'inf'}\n")
    argv = ["run", "--out", str(folder), "--config", str(file), "--trust-code"]
    assert refusal(argv, capsys) == str(caught.value)
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
    message = refusal([command, "--config", str(file)], capsys)
    assert re.search(sentence, message), message


@pytest.mark.parametrize("settings", [{"preset": "papr"}, {"epocs": 3}])
def test_unknown_names_from_python(settings: dict[str, Any], folder: Path) -> None:
    with pytest.raises(InputError, match=r"There is no (preset|setting) '.*'; did you mean"):
        fedol.run(out=folder, **settings)
    settings.pop("preset", None)
    if settings:
        with pytest.raises(InputError, match="no setting 'epocs'; did you mean 'epochs'"):
            fedol.run(fedol.RunConfig(), out=folder, **settings)
