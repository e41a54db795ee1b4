"""A run whose model, method or data have changed is refused, never silently read; force makes it anew."""

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import ENV, exit_code
from torch import nn

import fedol
from fedol import cli
from fedol.config import RunConfig, ServerConfig
from fedol.data import Dataset
from fedol.errors import FedolError, InputError
from fedol.methods import METHODS, Method
from fedol.methods.sides import once
from fedol.runs.folder import RunFolder

ADVICE = "choose another --out, or make it anew with --force"


def linear(scale: float) -> type[nn.Module]:
    """A class of the same name and place every time, as when a file is edited; ``scale`` stands in its code."""
    space: dict[str, Any] = {"__name__": "__main__", "nn": nn}
    source = f"""
class LargeNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

    def forward(self, x):
        return {scale} * self.layers(x)
"""
    exec(source, space)
    found: type[nn.Module] = space["LargeNet"]
    return found


def averaged(knowledge: Any, settings: Any) -> Any:
    return once(torch.stack([client.probabilities() for client in knowledge]).mean(0).float())


def uniform(knowledge: Any, settings: Any) -> Any:
    shape = next(iter(knowledge)).log_probs.shape
    return once(torch.full(shape, 1 / shape[1]))


def register(monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any], name: str = "sharp") -> None:
    monkeypatch.setitem(METHODS, name, Method(name, targets=method))


def model(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def content(out: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "run.lock"}


def refusal(out: Path, **settings: Any) -> str:
    """Why a run is refused; nothing in its folder changes."""
    before = content(out)
    with pytest.raises(FedolError) as caught:
        fedol.run(out=out, **settings)
    assert content(out) == before
    return str(caught.value)


def test_a_changed_method_is_refused_and_made_anew_by_force(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, averaged)
    settings = {**tiny, "method": "sharp", "out": tmp_path / "run"}
    fedol.run(**settings)
    assert fedol.run(**settings).already_finished
    register(monkeypatch, uniform)
    assert refusal(**settings) == f"The method 'sharp' has changed since {tmp_path / 'run'} was made; {ADVICE}."
    forced = fedol.run(**settings, force=True)
    assert not forced.already_finished and not forced.summary["resumed"]
    assert model(tmp_path / "run") == model(fedol.run(**{**settings, "out": tmp_path / "fresh"}).out)
    assert fedol.run(**settings).already_finished
    register(monkeypatch, averaged)
    assert "has changed" in refusal(**settings)


@pytest.mark.parametrize("left", ["everything", "clients"])
def test_a_changed_model_is_refused_finished_or_not(left: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    fedol.run(out=out, **{**tiny, "server_model": linear(1.0)})
    if left == "clients":
        for file in (out / "summary.json", out / "model.safetensors", *out.glob("server/*")):
            file.unlink()
    said = refusal(out, **{**tiny, "server_model": linear(2.0)})
    assert said == f"The model 'LargeNet' (server_model) has changed since {out} was made; {ADVICE}."
    assert fedol.run(out=out, **{**tiny, "server_model": linear(1.0)}).already_finished == (left == "everything")


def test_every_place_of_a_model_is_named(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, averaged)
    settings = {**tiny, "method": "sharp", "epochs": 1}
    fedol.run(out=tmp_path / "run", **{**settings, "client_models": ("mlp", linear(1.0)), "server_model": linear(1.0)})
    register(monkeypatch, uniform)
    changed = {**settings, "client_models": ("mlp", linear(3.0)), "server_model": linear(1.0)}
    assert refusal(tmp_path / "run", **changed).startswith(
        "The model 'LargeNet' (client_models[1]) and the method 'sharp' have changed since"
    )


def test_two_lambdas_are_two_models(tiny: dict[str, Any], tmp_path: Path) -> None:
    def model_of(width: int) -> Any:
        return lambda classes: nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.Linear(width, classes))

    fedol.run(out=tmp_path / "run", **{**tiny, "client_models": (model_of(4),)})
    assert fedol.run(out=tmp_path / "run", **{**tiny, "client_models": (model_of(4),)}).already_finished
    said = refusal(tmp_path / "run", **{**tiny, "client_models": (model_of(5),)})
    assert said.startswith("The model '<lambda>' (client_models[0]) has changed")


def test_a_file_may_be_commented_but_not_changed(tiny: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    net = """
from torch import nn

def large(classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear({}), nn.LazyLinear(classes))
"""
    settings = {**tiny, "out": tmp_path / "run", "server_model": f"{file}:large"}
    file.write_text(net.format(4))
    fedol.run(**settings)
    file.write_text("# Large enough.\n\n" + net.format(4))
    assert fedol.run(**settings).already_finished
    file.write_text(net.format(5))
    assert refusal(**settings).startswith(f"The model '{file}:large' (server_model) has changed")


def test_a_method_of_yours_under_a_name_of_fedols(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**tiny, "method": "feddf", "out": tmp_path / "run"}
    fedol.run(**settings)
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "feddf", Method("feddf", targets=uniform))
        assert "The method 'feddf' has changed" in refusal(**settings)
        fedol.run(**settings, force=True)
    assert "The method 'feddf' has changed" in refusal(**settings)


def test_folders_of_before_open_and_those_of_fedols_own_code_are_as_before(
    finished: Path, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(json.loads((finished / "config.json").read_text())) == ["schema", "hash", "config"]
    register(monkeypatch, averaged)
    settings = {**tiny, "method": "sharp", "server_model": linear(1.0), "out": tmp_path / "run"}
    fedol.run(**settings)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(config["code"]) == {"server_model", "method"}
    older = {name: config[name] for name in ("schema", "hash", "config")}
    (tmp_path / "run" / "config.json").write_text(json.dumps(older))
    register(monkeypatch, uniform)
    assert fedol.run(**settings).already_finished  # nobody noted what the method was


def test_another_python_cannot_tell(tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = {**tiny, "server_model": linear(1.0), "out": tmp_path / "run"}
    fedol.run(**settings)
    config = tmp_path / "run" / "config.json"
    noted = json.loads(config.read_text())
    config.write_text(json.dumps({**noted, "python": "3.9", "code": {"server_model": "of another Python"}}))
    said = refusal(**settings)
    assert said.startswith("Whether the model 'LargeNet' (server_model) has changed since") and "Python 3.9" in said


def test_data_that_changed_in_place_are_other_data(tiny: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (200, 1, 6, 6), dtype=np.uint8), rng.integers(0, 2, 200)
    data = Dataset.from_arrays(x, y, x[:20], y[:20], name="mine")
    fedol.run(dataset=data, out=tmp_path / "run", **tiny)
    assert fedol.run(dataset=data, out=tmp_path / "run", **tiny).already_finished
    x[:] = 255 - x  # the dataset's own arrays: they are not copied
    assert "dataset was 'mine@" in refusal(tmp_path / "run", dataset=data, **tiny)
    assert not fedol.run(dataset=data, out=tmp_path / "run", **tiny, force=True).already_finished


def test_force_makes_another_run_in_the_folder_and_leaves_what_is_not_the_runs(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    fedol.run(out=out, **{**tiny, "clients": 3, "method": "fedol", "iterations": 3})
    strangers = ["notes.txt", "clients/mine.fedol", "server/old.safetensors", "tensorboard/events", "model.onnx"]
    for name in strangers:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")
    assert refusal(out, **tiny).endswith(f"; {ADVICE}.")
    fedol.run(out=out, **tiny, force=True)
    fedol.run(out=tmp_path / "fresh", **tiny)
    assert {name: (out / name).read_text() for name in strangers} == dict.fromkeys(strangers, "mine")
    timed = ("metrics.jsonl", "summary.json", "report.html")
    made, fresh = (
        {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
        for folder in (out, tmp_path / "fresh")
    )
    assert made.keys() - fresh.keys() == set(strangers) and fresh.keys() <= made.keys()
    assert all(made[name].read_bytes() == file.read_bytes() for name, file in fresh.items() if name not in timed)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2 + 2  # a line per client and iteration, once


def test_force_touches_no_folder_that_is_not_such_a_run(tiny: dict[str, Any], tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[str, Any] | None, str]] = {
        "no run": (None, "exists and is not a run"),
        "config of others": ({"hidden_size": 768}, "is not the configuration of a run"),
        "a later version": ({"schema": 99, "hash": "", "config": {}}, "made by another version"),
    }
    for name, (config, sentence) in cases.items():
        out = tmp_path / name
        (out / "server").mkdir(parents=True)
        for file in ("model.safetensors", "server/01.safetensors"):
            (out / file).write_text("mine")
        if config is not None:
            (out / "config.json").write_text(json.dumps(config))
        assert sentence in refusal(out, **tiny, force=True)
    RunFolder.open(tmp_path / "server run", ServerConfig("a task"))
    (tmp_path / "server run" / "roster.json").write_text("what has come")
    for force in (False, True):
        assert "holds a run of serve or distill" in refusal(tmp_path / "server run", **tiny, force=force)


def test_force_waits_for_nobody_who_works_there(finished: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    held = (
        "import sys, time; from pathlib import Path; from fedol.runs.locks import hold\n"
        "lock = hold(Path(sys.argv[1]) / 'run.lock'); print('held', flush=True); time.sleep(60)"
    )
    fedol.run(out=out, **tiny)
    gc.collect()  # this process lets go of it
    other = subprocess.Popen([sys.executable, "-c", held, str(out)], stdout=subprocess.PIPE, env=ENV)
    try:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(FedolError, match="Another process works in"):
            fedol.run(out=out, **tiny, force=True)
        assert model(out) == model(finished)
    finally:
        other.kill()
        other.wait()


def test_killed_while_it_was_emptied(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    fedol.run(out=out, **{**tiny, "seed": 1})
    unlink, gone = Path.unlink, []

    def dies(path: Path, missing_ok: bool = False) -> None:
        if path.parent.name == "server":
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)
        gone.append(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", dies)
        fedol.run(out=out, **tiny, force=True)
    assert gone and (out / "server" / "02.safetensors").exists()
    result = fedol.run(out=out, **tiny)  # what is left of the old run is not taken for a part of this one
    assert model(out) == model(fedol.run(out=tmp_path / "fresh", **tiny).out)
    assert not result.summary["resumed"]
    assert "emptied" not in json.loads((out / "config.json").read_text())


SCRIPT = """
import sys
from torch import nn
import fedol

NAMES = {{"a", "b", "c"}}

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        assert "d" not in NAMES
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

    def forward(self, x):
        return {scale} * self.layers(x)

try:
    result = fedol.run(client_models=(Net, "mlp"), server_model=Net, out=sys.argv[1], clients=2, partition="iid",
                       public=60, width=4, epochs=1, iterations=2, device="cpu")
    print(result.already_finished, result.summary["resumed"])
except fedol.errors.FedolError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_script_run_again_continues_to_the_same_bytes(tmp_path: Path) -> None:
    def script(out: str, text: str, seed: int) -> str:
        file = tmp_path / "script.py"
        file.write_text(text)
        done = subprocess.run(
            [sys.executable, str(file), str(tmp_path / out)],
            env={**ENV, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    text = SCRIPT.format(scale=1.0)
    assert script("run", text, 1) == "False False"
    whole = model(tmp_path / "run")
    for name in ("summary.json", "model.safetensors", "server/02.safetensors", "clients/01.fedol"):
        (tmp_path / "run" / name).unlink()
    assert script("run", f"# Another line.\n{text}", 2) == "False True"
    assert model(tmp_path / "run") == whole
    assert script("run", text, 3) == "True True"
    said = script("run", SCRIPT.format(scale=2.0), 4)
    assert said.startswith("The model 'Net' (server_model) and the model 'Net' (client_models[0]) have changed since")


def test_the_command_says_that_force_would_begin_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*given: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedol.api.run", interrupted)
    for argv, kept in (
        (["run"], "the same command continues"),
        (["run", "--force"], "the same command without --force"),
    ):
        exit_code(*argv)
        assert kept in capsys.readouterr().err


def test_force_on_the_command_line(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fedol.run(out=tmp_path / "run", **{**tiny, "seed": 1})
    options = [f"--{name.replace('_', '-')}={value}" for name, value in tiny.items()]
    monkeypatch.setattr(sys, "argv", ["fedol", "run", "--json", "--force", f"--out={tmp_path / 'run'}", *options])
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code
    assert json.loads(capsys.readouterr().out)["config"]["seed"] == RunConfig().seed == 0


def test_a_model_that_cannot_be_built_costs_no_run(finished: Path, tiny: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be created"):
        fedol.run(out=finished, **{**tiny, "server_model": lambda classes: nn.Linear("x", classes)}, force=True)  # type: ignore[arg-type]
    assert fedol.run(out=finished, **tiny).already_finished
