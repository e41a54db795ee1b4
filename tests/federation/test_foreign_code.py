"""A folder from a stranger can be opened, reported and predicted with: no word in it runs code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ROOT, Command, fedol
from small_federation import SMALL, Federation

import fedol as package
from fedol.bench.runner import main as worker
from fedol.config import ServerConfig
from fedol.data import Normalisation, load
from fedol.errors import FedolError
from fedol.federation.coordinator import Coordinator
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports.flower_client import Node
from fedol.files import read_tensors, write_tensors
from fedol.model import Architecture, ServerModel
from fedol.models import create
from fedol.models.registry import is_code

pytestmark = pytest.mark.usefixtures("free_to_send")

# The same net as ``mlp``, so that it fits the files that name it; whoever imports it leaves a trace.
NETS = """from pathlib import Path

from fedol.models import create

Path(__file__).with_name("was-here").touch()


def net(classes, shape, width):
    return create("mlp", classes=classes, shape=shape, width=width)
"""


def renamed(file: Path, spec: str) -> None:
    """Write another model's name into a model file."""
    tensors, header = read_tensors(file)
    write_tensors(file, tensors, {**header, "architecture": {**header["architecture"], "model": spec}})


def foreign(run: Path, spec: str, *models: str) -> Path:
    """Make every file of a run that can name a model name this one."""
    for pattern in ("*.safetensors", "clients/*.safetensors", "server/[0-9][0-9].safetensors"):
        for file in run.glob(pattern):
            renamed(file, spec)
    frozen = json.loads((run / "config.json").read_text())
    named = {name: [spec] if name == "client_models" else spec for name in models}
    (run / "config.json").write_text(json.dumps({**frozen, "config": {**frozen["config"], **named}}))
    return run


class Stranger:
    """Folders and files of somebody who wants code of theirs to run."""

    def __init__(self, folder: Path, federation: Federation, served: Path, simulated: Path) -> None:
        self.folder, self.federation = folder, federation
        (folder / "nets.py").write_text(NETS)
        self.spec, self.trace = f"{folder / 'nets.py'}:net", folder / "was-here"
        self.served = foreign(shutil.copytree(served, folder / "served"), self.spec, "server_model")
        models = ("server_model", "client_models", "parameter_model")
        self.run = foreign(shutil.copytree(simulated, folder / "run"), self.spec, *models)
        data = load("digits")
        np.save(folder / "images.npy", data.test.x[:5])
        np.savez(
            folder / "mine.npz",
            train_x=data.train.x[:200],
            train_y=data.train.y[:200],
            test_x=data.test.x[:200],
            test_y=data.test.y[:200],
        )
        tiny = {"clients": 2, "partition": "iid", "public": 60, "epochs": 1, "iterations": 1, "device": "cpu"}
        settings = {**tiny, "server_model": self.spec, "client_models": [self.spec], "parameter_model": "cnn"}
        (folder / "run.toml").write_text("\n".join(f"{name} = {json.dumps(v)}" for name, v in settings.items()))
        kept = {name: value for name, value in settings.items() if name != "partition"}
        bench = {"kind": "one-round", "preset": "quick", "partitions": "iid", "methods": "local", "settings": kept}
        (folder / "bench.json").write_text(json.dumps(bench))
        variants = [{"settings": {"client_models": self.spec}}]
        plain = {**kept, "client_models": "mlp", "server_model": "mlp"}
        (folder / "variants.json").write_text(json.dumps({**bench, "settings": plain, "variants": variants}))


@pytest.fixture(scope="session")
def served(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a server."""
    folder = tmp_path_factory.mktemp("served")
    config = ServerConfig(federation.task.id, server_model="mlp", iterations=1, epochs=1, batch_size=16, device="cpu")
    server = Coordinator(TaskFolder.open(federation.task_dir), config, folder / "run")
    server.collect([federation.file("alice"), federation.file("bob")])
    server.run()
    return folder / "run"


@pytest.fixture
def stranger(federation: Federation, served: Path, finished: Path, tmp_path: Path) -> Stranger:
    return Stranger(tmp_path, federation, served, finished)


DOORS: dict[str, Callable[[Stranger], list[object]]] = {
    "predict": lambda s: ["predict", s.run, s.folder / "images.npy"],
    "export": lambda s: ["export", s.run, "--onnx", s.folder / "model.onnx"],
    "client predict": lambda s: [
        *("client", "predict", s.federation.task_dir, "--model", s.run / "clients" / "00.safetensors"),
        *("--out", s.folder / "eve.fedol"),
    ],
    "audit of a run": lambda s: ["audit", s.run, "--clients", 1, "--shadows", 0],
    "audit of a model": lambda s: [
        *("audit", "--task", s.federation.task_dir, "--model", s.run / "model.safetensors"),
        *("--data", s.folder / "mine.npz", "--shadows", 0),
    ],
    "distill --resume": lambda s: ["distill", "--resume", s.served, s.federation.file("carol")],
    "run --config": lambda s: ["run", "--config", s.folder / "run.toml", "--out", s.folder / "mine"],
    "bench run": lambda s: ["bench", "run", s.folder / "bench.json", "--out", s.folder / "bench"],
    "bench run, a variant": lambda s: ["bench", "run", s.folder / "variants.json", "--out", s.folder / "bench"],
}


Done = subprocess.CompletedProcess[str]


@pytest.fixture
def here(command: Command) -> Callable[..., Done]:
    """The command line in this process, which is quicker."""
    return lambda *words: Done(words, *command(*words))


def refused(done: Done, spec: str) -> None:
    """Exit code 2 and one sentence that says what was found, where, and what to do."""
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("Error: "), done.stderr
    assert f"names the model '{spec[:50]}" in done.stderr and "--trust-code" in done.stderr and "model=" in done.stderr


@pytest.mark.parametrize("door", DOORS)
def test_what_a_file_names_is_not_run(door: str, stranger: Stranger, here: Callable[..., Done]) -> None:
    refused(here(*DOORS[door](stranger)), stranger.spec)
    assert not stranger.trace.exists()


@pytest.mark.parametrize("door", [pytest.param(d, marks=[pytest.mark.slow] * (d == "export")) for d in DOORS])
def test_what_a_file_names_is_run_for_who_says_so(door: str, stranger: Stranger, here: Callable[..., Done]) -> None:
    done = here(*DOORS[door](stranger), "--trust-code")
    assert done.returncode == 0, done.stderr
    assert stranger.trace.exists()


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_the_same_in_a_process_of_its_own(door: str, stranger: Stranger) -> None:
    refused(fedol(*DOORS[door](stranger)), stranger.spec)
    assert not stranger.trace.exists()
    done = fedol(*DOORS[door](stranger), "--trust-code")
    assert done.returncode == 0, done.stderr
    assert stranger.trace.exists()


def test_a_benchmark_without_the_command_line(stranger: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--spec", str(stranger.folder / "bench.json"), "--out", str(stranger.folder / "bench"), "--dry-run"]
    refused(subprocess.CompletedProcess(options, worker(options), *capsys.readouterr()), stranger.spec)
    assert not stranger.trace.exists()
    assert worker([*options, "--trust-code"]) == 0
    assert stranger.trace.exists()


@pytest.mark.parametrize("door", ["predict", pytest.param("distill --resume", marks=pytest.mark.slow)])
def test_a_name_that_would_end_the_process(door: str, stranger: Stranger) -> None:
    foreign(stranger.run, "os:abort", "server_model")
    foreign(stranger.served, "os:abort", "server_model")
    refused(fedol(*DOORS[door](stranger)), "os:abort")


def test_a_folder_can_be_opened_reported_and_predicted_with(stranger: Stranger, here: Callable[..., Done]) -> None:
    done = here("report", stranger.run)
    assert done.returncode == 0, done.stderr
    with pytest.raises(FedolError, match="names the model"):
        package.load(stranger.run)
    renamed(stranger.run / "model.safetensors", "mlp")  # what the rest of the folder says is not asked
    done = here("predict", stranger.run, stranger.folder / "images.npy")
    assert done.returncode == 0 and done.stdout.count("\n") == 5, done.stderr
    assert not stranger.trace.exists()


@pytest.mark.slow
def test_who_types_the_model_goes_on_without_a_word(stranger: Stranger) -> None:
    """The command that began a run also ends it, and goes on from it; its model file is a file like any other."""
    files = [stranger.federation.file(name) for name in ("alice", "bob")]
    small = [*SMALL[2:], "--model", stranger.spec]
    own = stranger.folder / "own"
    command = ["distill", stranger.federation.task_dir, *files, "--out", own, "--quiet", *small]
    for unfinished in ("nothing", "summary.json"):
        (own / unfinished).unlink(missing_ok=True)
        done = fedol(*command)
        assert done.returncode == 0, done.stderr
    late = ["distill", "--resume", own, stranger.federation.file("carol"), "--quiet", "--iterations", 1]
    refused(fedol(*late), stranger.spec)
    done = fedol(*late, "--model", stranger.spec)
    assert done.returncode == 0, done.stderr
    refused(fedol("predict", own, stranger.folder / "images.npy"), stranger.spec)


def test_a_toml_that_the_command_line_overrules(stranger: Stranger, here: Callable[..., Done]) -> None:
    command = [*DOORS["run --config"](stranger), "--quiet"]
    done = here(*command, "--client-models", "mlp", "--server-model", "mlp")
    assert done.returncode == 0, done.stderr
    assert not stranger.trace.exists()
    refused(here(*command, "--client-models", "mlp"), stranger.spec)


def test_an_optimiser_that_a_toml_names(stranger: Stranger, here: Callable[..., Done]) -> None:
    (stranger.folder / "own.py").write_text(NETS + "\n\nfrom torch.optim import NAdam as optimiser\n")
    spec, file = f"{stranger.folder / 'own.py'}:optimiser", stranger.folder / "fit.toml"
    file.write_text(f"optimiser = {json.dumps(spec)}\nepochs = 1\n")
    command = ["client", "fit", stranger.federation.task_dir, "--data", stranger.folder / "mine.npz", "--model", "mlp"]
    command += ["--config", file, "--device", "cpu", "--out", stranger.folder / "mine.safetensors"]
    done = here(*command)
    assert done.returncode == 2 and f"names the optimiser '{spec[:50]}" in done.stderr, done.stderr
    assert "--trust-code" in done.stderr and not stranger.trace.exists()
    done = here(*command, "--trust-code")
    assert done.returncode == 0 and stranger.trace.exists(), done.stderr


def test_a_run_of_this_process_is_read_by_it(stranger: Stranger, tiny: dict[str, Any]) -> None:
    result = package.run(out=stranger.folder / "own", **{**tiny, "server_model": stranger.spec})
    stranger.trace.unlink()
    (stranger.folder / "nets.py").write_text("raise RuntimeError('imported again')")
    model = package.load(result.out)
    images = np.load(stranger.folder / "images.npy")
    assert (model.predict(images) == result.model.predict(images)).all()
    model.save(stranger.folder / "again.safetensors")  # under a name that other processes find
    assert read_tensors(stranger.folder / "again.safetensors")[1]["architecture"]["model"] == stranger.spec
    foreign(result.out, "os:getcwd")  # which this process has imported, too, but not as a model
    with pytest.raises(FedolError, match="'os:getcwd', which is code"):
        package.load(result.out)


def test_a_node_reads_the_model_it_has_just_trained(stranger: Stranger) -> None:
    task = stranger.federation.task
    config: dict[str, object] = {"client": "alice", "epochs": 1, "device": "cpu", "model": stranger.spec}
    config |= {"task": str(stranger.federation.task_dir), "data": str(stranger.folder / "mine.npz")}
    config["cache"] = str(stranger.folder / "cache")
    assert Node.read(config).answer(task.id, task.fingerprint)
    del config["data"]
    given = {**config, "model": str(stranger.run / "model.safetensors")}
    renamed(stranger.run / "model.safetensors", "nowhere:Net")
    with pytest.raises(FedolError, match="'nowhere:Net', which is code"):
        Node.read(given).answer(task.id, task.fingerprint)
    with pytest.raises(FedolError, match="'nowhere:Net' cannot be imported"):
        Node.read({**given, "trust-code": True}).answer(task.id, task.fingerprint)


@pytest.mark.parametrize("width", [5, 1_500_000])
def test_a_run_goes_on_with_the_width_of_its_model(width: int, stranger: Stranger, here: Callable[..., Done]) -> None:
    """Also where a stranger's ``config.json`` claims another one: nothing is built of it."""
    renamed(stranger.served / "model.safetensors", "mlp")
    frozen = json.loads((stranger.served / "config.json").read_text())
    changed = {**frozen, "config": {**frozen["config"], "server_model": "mlp", "width": width}}
    (stranger.served / "config.json").write_text(json.dumps(changed))
    done = here("distill", "--resume", stranger.served, stranger.federation.file("carol"), "--quiet")
    assert done.returncode == 2 and f"has the width 16, and it goes on with that, not {width}" in done.stderr


def test_which_names_are_code() -> None:
    for name in ("mlp", "resnet56", "no-such-model", "fedol.privacy.converted:resnet20"):
        assert not is_code(name)
    for name in ("os:abort", "x.py:f", ":f", "fedol.models:create", "mlp:mlp"):
        assert is_code(name)
    for name in ("check", "Any", "nn.Module", "partial", "x.py:f", "mlp.__init__", ""):
        assert is_code(f"fedol.privacy.converted:{name}")


def test_what_is_found_is_shown_and_not_obeyed(stranger: Stranger) -> None:
    renamed(stranger.run / "model.safetensors", "\x1b[2J\u202e" * 100 + ":f")
    with pytest.raises(FedolError) as caught:
        package.load(stranger.run)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500 and "\\x1b[2J" in str(caught.value)
    renamed(stranger.run / "model.safetensors", "x" * 10_000)
    with pytest.raises(FedolError, match="is damaged \\(it names no model\\)"):
        package.load(stranger.run)


HEADERS: dict[str, Any] = {
    "model": [None, 5, ["mlp"], "\ud800"],
    "classes": [[], "ab", [1] * 10, [None] * 10, ["\ud800"] * 10, [["a"]] * 10],
    "shape": [[1, 8], [1, 8, 8, 1], [1, 8, 8.0], [1, 8, True], "188", [1, 0, 8], [1, -8, 8], [1, 8, 10**400]],
    "width": [0, -1, True, 4.0, "4", None, 10**400, 2**63],
    "mean": [[], [float("nan")], [float("inf")], ["0.5"], [0.5, 0.5], [10**400], [True], 0.5, [1e300]],
    "std": [[], [float("nan")], [0.0], [-1.0], [0], [10**400], None],
}


@pytest.mark.parametrize(("key", "number"), [(key, n) for key, values in HEADERS.items() for n in range(len(values))])
def test_a_header_that_makes_no_sense(key: str, number: int, finished: Path, tmp_path: Path) -> None:
    value = HEADERS[key][number]
    tensors, header = read_tensors(finished / "model.safetensors")
    write_tensors(
        tmp_path / "m.safetensors", tensors, {**header, "architecture": {**header["architecture"], key: value}}
    )
    with pytest.raises(FedolError, match=r"m\.safetensors is damaged \((it|its|the) [^:]*\); give a FedOL"):
        package.load(tmp_path / "m.safetensors")


CLAIMS: list[tuple[str, dict[str, Any]]] = [  # each would take gigabytes, or as much as there is
    ("mlp", {"width": 1_500_000}),
    ("mlp", {"shape": [1, 8, 1_500_000]}),
    ("cnn", {"width": 4000}),
    ("resnet11", {"shape": [1, 8000, 8000]}),
    ("cnn", {"shape": [1, 10**6, 10**6]}),
    ("resnet22-wide", {"shape": [1, 10**9, 10**9]}),
    ("mlp", {"width": 10**9}),
]
PROGRAM = """
import re, sys
from pathlib import Path
import fedol
from fedol.errors import FedolError
for path in sys.argv[1:]:
    try:
        fedol.load(path)
    except FedolError as error:
        # Not ru_maxrss, which begins with what the parent had.
        print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], error)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_claim_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    files = []
    for number, (model, change) in enumerate(CLAIMS):
        files.append(tmp_path / f"{number}.safetensors")
        architecture = Architecture(model, ("a", "b"), (1, 8, 8), 4, Normalisation((0.5,), (0.5,)))
        ServerModel(architecture.build(), architecture).save(files[-1])
        tensors, header = read_tensors(files[-1])
        write_tensors(files[-1], tensors, {**header, "architecture": {**header["architecture"], **change}})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, files)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert len(lines) == len(CLAIMS), done.stderr
    for kilobytes, said in lines:
        assert int(kilobytes) < 1_000_000, lines
        assert "do not fit" in said or "too large for a model here" in said or "cannot be created" in said, said


@pytest.mark.parametrize("model", ["mlp", "cnn", "cnn-large", "resnet11", "resnet22-wide"])
def test_a_model_that_takes_no_memory_at_first_is_whole_in_the_end(model: str, tmp_path: Path) -> None:
    """Nothing of it is left as it was allocated: every tensor that a built-in model has is in its file."""
    module = create(model, classes=2, shape=(1, 8, 8), width=4)
    assert {name for name, _ in module.named_buffers()} <= module.state_dict().keys()
    architecture = Architecture(model, ("a", "b"), (1, 8, 8), 4, Normalisation((0.5,), (0.5,)))
    ServerModel(module, architecture).save(tmp_path / "m.safetensors")
    loaded = package.load(tmp_path / "m.safetensors").module
    assert all(tensor.device.type == "cpu" for tensor in loaded.state_dict().values())
    assert [p.requires_grad for p in loaded.parameters()] == [p.requires_grad for p in module.parameters()]


def test_whole_numbers_scale_pixels_as_well_as_others(finished: Path, tmp_path: Path) -> None:
    """However large: torch takes no whole number beyond 64 bits, though a header may hold one."""
    tensors, header = read_tensors(finished / "model.safetensors")
    header["architecture"] |= {"mean": [0], "std": [2**63]}
    write_tensors(tmp_path / "m.safetensors", tensors, header)
    assert package.load(tmp_path / "m.safetensors").predict(np.zeros((2, 1, 8, 8), np.uint8)).shape == (2,)
