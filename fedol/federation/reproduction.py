"""Making a finished run again, from what its folder holds, and comparing the bytes.

A server's run is made again from the copies of the files that it heard, which must be those that its roster names; a
simulated one from its settings and its dataset. Everything that is part of a result is compared: what clients sent,
checkpoints, votes, the verdict on clients and the model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedol.config import ServerConfig, configure
from fedol.errors import FedolError, InputError
from fedol.federation.coordinator import Coordinator
from fedol.federation.simulation import Simulation
from fedol.federation.taskfolder import TaskFolder
from fedol.files import DAMAGE, file_digest, intact, read_json, read_tensors
from fedol.models.registry import check_settings
from fedol.progress import NOBODY, Observer
from fedol.runs.folder import read_summary

RESULT = ("clients/*", "server/*.safetensors", "screening.json", "model.safetensors")
AROUND = ("commit", "code", "versions", "machine", "device")  # parts of a provenance that may explain a difference


@dataclass(frozen=True)
class Comparison:
    """What came of it: files with the same bytes, and the others with what is known about the difference."""

    same: list[str] = field(default_factory=list)
    different: dict[str, str] = field(default_factory=dict)
    around: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # what was not as it was then: (then, now)

    @property
    def whole(self) -> bool:
        """Whether every file has the same bytes."""
        return not self.different

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"reproduced": self.whole, **asdict(self)}


def reproduced(
    run: Path,
    out: Path,
    task: Path | None = None,
    public: Path | None = None,
    trust_code: bool = False,
    observer: Observer = NOBODY,
) -> Comparison:
    """Make a finished run again in the folder ``out`` and compare; ``task`` says where the task's folder is now."""
    summary, frozen = read_summary(run / "summary.json", "give the folder of a finished run"), run / "config.json"
    with intact(frozen, "give the folder of another run"):
        settings = dict(read_json(frozen)["config"])
    check_settings(settings, str(frozen), trust_code)
    if "task" in settings:
        _serve_again(run, out, settings, summary, task, public, observer)
    else:
        Simulation(configure("quick", overrides=settings), out).run(observer)
    now = read_summary(out / "summary.json")["provenance"]
    then = summary.get("provenance", {})
    around = {name: (then.get(name), now.get(name)) for name in AROUND if then.get(name) != now.get(name)}
    return _compared(run, out, around)


def _serve_again(
    run: Path,
    out: Path,
    settings: dict[str, Any],
    summary: dict[str, Any],
    task: Path | None,
    public: Path | None,
    observer: Observer,
) -> None:
    folder = TaskFolder.open(task) if task else TaskFolder.of_run(run)
    if folder.task.id != settings["task"]:
        raise InputError(
            f"{folder.path} holds the task {folder.task.id}, but {run} is about {settings['task']}; say where its task "
            "is with --task."
        )
    config = ServerConfig(**{**settings, "added": tuple(settings.get("added", ()))})
    coordinator = Coordinator(folder, config, out, public, start=_parent(run, settings, summary))
    if parts := sorted((run / "sums").glob("*.part")):
        coordinator.open_sums(parts)
    else:
        coordinator.collect([_upload(run, client) for client in summary["clients"]])
    coordinator.run(observer)


def _upload(run: Path, client: dict[str, Any]) -> Path:
    """The copy of a client's file, which must be the one that was accepted."""
    path = run / "clients" / f"{client['client']}.fedol"
    if not path.exists():
        raise FedolError(f"{path} is not there any more, so {run} cannot be made again; put the client's file there.")
    if file_digest(path) != client["sha256"]:
        raise FedolError(f"{path} is not the file that {run} was made of; put that one there.")
    return path


def _parent(run: Path, settings: dict[str, Any], summary: dict[str, Any]) -> Path | None:
    """The model that a run went on from."""
    if not settings.get("parent"):
        return None
    model = Path(summary["changed"]["from"])
    if not model.exists() or not file_digest(model).startswith(settings["parent"]):
        raise FedolError(f"{run} goes on from a model that is not in {model} any more; put it there.")
    return model


def _compared(run: Path, out: Path, around: dict[str, tuple[Any, Any]]) -> Comparison:
    found = Comparison(around=around)
    names = {
        path.relative_to(root).as_posix()
        for root in (run, out)
        for pattern in RESULT
        for path in root.glob(pattern)
        if path.is_file()
    }
    for name in sorted(names):
        then, now = run / name, out / name
        if not (then.exists() and now.exists()):
            found.different[name] = f"is only in {run if then.exists() else out}"
        elif file_digest(then) == file_digest(now):
            found.same.append(name)
        else:
            found.different[name] = _difference(then, now)
    return found


def _difference(then: Path, now: Path) -> str:
    """How two files differ, where they hold tensors."""
    if then.suffix != ".safetensors":
        return "has other bytes"
    try:
        (old, _), (new, _) = read_tensors(then), read_tensors(now)
    except DAMAGE:
        return "has other bytes, and one of them cannot be read"
    if {name: value.shape for name, value in old.items()} != {name: value.shape for name, value in new.items()}:
        return "has other tensors"
    apart = [(old[name].double() - new[name].double()).abs() for name in old if old[name].numel()]
    largest = max((float(each.max()) for each in apart), default=0.0)
    return f"differs by up to {largest:.3g}" if largest else "has the same values and another header"
