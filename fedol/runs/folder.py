"""A run is a folder: its configuration, one artefact per finished stage, each there whole or not at all.

    config.json                 frozen configuration with its hash
    data.json                   who holds how many samples of which class
    clients/03.fedol            client 3's knowledge: exactly what it uploads
    clients/03.safetensors      client 3's model (a simulation's own copy; a real client never sends it)
    server/02.safetensors       the server after iteration 2
    server/02.votes.safetensors the pseudo-labels it was trained on
    server/02.targets.safetensors
                                the class that its target named for each public sample, and how surely
    epoch.safetensors           the last epoch of an iteration under way, where every epoch is kept
    model.safetensors           the final server model
    metrics.jsonl               one line per finished stage
    evaluation.json, evidence.json, public.png
                                what the report shows beside the summary (``fedol.runs.evaluation``)
    targets.safetensors         what the server was taught, where the task publishes it (``fedol.runs.published``)
    benefit.json                what each client of a simulation has from the server (``fedol.runs.benefit``)
    summary.json                the result
    report.html                 the result to look at; made of the files above by ``fedol report``
    report-share.html           the same without what single clients sent, where there are strangers to pass it on to
    run.lock                    held by the process that works here, empty

Starting the same run again skips what is finished. A changed configuration is refused, and so are other data and
your own model or method whose code has changed; ``force`` removes what the run has written and starts over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fedol.code import PYTHON
from fedol.config import Frozen
from fedol.errors import FedolError, brief
from fedol.files import TEMPORARY, intact, read_json, read_tensors, sweep, write_atomically, write_json, write_tensors
from fedol.knowledge.task import Task
from fedol.methods import Targets
from fedol.model import ServerModel, load
from fedol.models import ModelSpec
from fedol.runs.locks import Held, Taken, hold
from fedol.runs.published import FILE as PUBLISHED
from fedol.runs.published import Published
from fedol.training import Fit, Snapshot
from fedol.training.snapshot import EpochFile

SCHEMA = 1
# What is to be looked at: the coordinator's page, and what may be passed on.
REPORT, SHARED, CARD = "report.html", "report-share.html", "MODEL_CARD.md"
METRICS, LOCK = "metrics.jsonl", "run.lock"
AGAIN = "choose another --out or remove the file"  # what helps where a file is damaged that would be made again
ANEW = "choose another --out, or make it anew with --force"  # what helps where a folder holds what is not asked for
EMPTIED = "emptied"  # in a config.json: the run was to be made anew, and part of what it was may still be there
# What every run writes beside config.json and run.lock.
WRITTEN = ["data.json", "epoch.safetensors", "model.safetensors", METRICS, "server/[0-9]*.safetensors"]
WRITTEN += ["evaluation.json", "evidence.json", "public.png", "summary.json", "report.html", "report-share.html"]
WRITTEN += [PUBLISHED, "benefit.json"]
_HELD: WeakValueDictionary[Path, Held] = WeakValueDictionary()  # by this process; one may open a run twice


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path, server_model: ModelSpec | None = None, every_epoch: bool = False) -> None:
        self.path = path
        self._server_model = server_model
        self._every_epoch = every_epoch
        self.publish: Task | None = None  # whose targets go into a file of their own
        self._lock: Held | None = None  # released with the last object that holds it

    @classmethod
    def open(cls, path: Path, config: Frozen, every_epoch: bool = False, force: bool = False) -> RunFolder:
        """Start a run in an empty folder, or continue the same one; ``every_epoch``: lose no more than one.

        ``force`` makes the run in the folder anew, whatever its settings, data and code were.
        """
        run = cls(path, config.server_model, every_epoch)
        new, frozen = is_empty(path), path / "config.json"
        if not new and not frozen.exists():
            raise FedolError(f"{path} exists and is not a run; choose another --out.")
        run._lock = _lock(path)
        sweep(path)
        if not new:
            found = run._frozen(config)
            if not force and EMPTIED not in found:
                run._check(found, config)
                return run
            run._clear(found, config)
        noted = {"code": code, "python": PYTHON} if (code := config.code) else {}
        write_json(frozen, {"schema": SCHEMA, "hash": config.hash, "config": config.as_json(), **noted})
        return run

    def _frozen(self, config: Frozen) -> dict[str, Any]:
        """What the run in the folder was made with; it must be of the kind of this configuration."""
        frozen = self.path / "config.json"
        try:
            found = read_json(frozen, "choose another --out")
            found = {**found, "schema": found["schema"], "config": dict(found["config"])}
            found["code"] = dict(found.get("code", {}))
        except (KeyError, TypeError, ValueError):
            raise FedolError(f"{frozen} is not the configuration of a run; choose another --out.") from None
        if found["schema"] != SCHEMA:
            raise FedolError(
                f"{self.path} was made by another version (schema {found['schema']}, this is {SCHEMA}); "
                "choose another --out."
            )
        if (served := "task" in found["config"]) != ("task" in config.as_json()):
            kind = "run of serve or distill" if served else "simulated run"
            raise FedolError(f"{self.path} holds a {kind}; choose another --out.")
        return found

    def _check(self, found: dict[str, Any], config: Frozen) -> None:
        if changes := config.changes(found["config"]):
            words = "; ".join(f"{name} was {brief(then)}, now {brief(now)}" for name, (then, now) in changes.items())
            raise FedolError(f"{self.path} holds another run ({words}); {ANEW}.")
        if other := config.other_code(found["code"]):
            words, have = " and ".join(other), "has" if len(other) == 1 else "have"
            if found.get("python", PYTHON) == PYTHON:
                raise FedolError(f"{words[0].upper()}{words[1:]} {have} changed since {self.path} was made; {ANEW}.")
            raise FedolError(
                f"Whether {words} {have} changed since {self.path} was made cannot be told, because that was with "
                f"Python {found['python']} and this is {PYTHON}; {ANEW}."
            )

    def _clear(self, found: dict[str, Any], config: Frozen) -> None:
        """Remove what a run of this kind has written, and nothing else."""
        write_json(self.path / "config.json", {**found, EMPTIED: True})  # a start killed here is made good by the next
        for file in (file for pattern in (*WRITTEN, *config.written) for file in self.path.glob(pattern)):
            try:
                file.unlink()
            except OSError as error:
                raise FedolError(
                    f"{file} cannot be removed ({error.strerror}); fix that and rerun the command."
                ) from None

    def describe_data(self, description: dict[str, Any]) -> None:
        """Keep what the data are; a run continues on the very same data only (a file may have changed meanwhile)."""
        path = self.path / "data.json"
        if path.exists() and read_json(path, AGAIN) != description:
            raise FedolError(f"{self.path} holds a run on other data than it would get now; {ANEW}.")
        write_json(path, description)

    def knowledge(self, client: int) -> Path:
        """Client k's upload; it is there exactly when the client has finished."""
        return self.path / "clients" / f"{client:02d}.fedol"

    def client_model(self, client: int) -> Path:
        """Client k's own model, for evaluation in a simulation."""
        return self.path / "clients" / f"{client:02d}.safetensors"

    def checkpoint(self, iteration: int) -> Path:
        """The server after an iteration."""
        return self.path / "server" / f"{iteration:02d}.safetensors"

    def votes(self, iteration: int) -> Path:
        """The pseudo-labels of an iteration."""
        return self.path / "server" / f"{iteration:02d}.votes.safetensors"

    def targets(self, iteration: int) -> Path:
        """What the targets of an iteration said, in short."""
        return self.path / "server" / f"{iteration:02d}.targets.safetensors"

    def server(self, iteration: int) -> ServerModel:
        """The server after a finished iteration."""
        return load(self.checkpoint(iteration), self._server_model)

    def finished(self) -> int:
        """How many iterations of the server are finished."""
        stems = (path.stem for path in (self.path / "server").glob("*.safetensors"))
        return max((int(stem) for stem in stems if stem.isdecimal()), default=0)

    def last(self) -> ServerModel | None:
        """The server after the last finished iteration."""
        return self.server(finished) if (finished := self.finished()) else None

    def screening(self) -> list[dict[str, Any]] | None:
        """The verdict on the clients; judged once, because it is part of what the run is made of."""
        kept = self.path / "screening.json"
        return list(read_json(kept, AGAIN)) if kept.exists() else None

    def judged(self, screening: list[dict[str, Any]]) -> None:
        """Keep the verdict."""
        write_json(self.path / "screening.json", screening)

    def finish(self, server: ServerModel, targets: Targets, fit: Fit) -> None:
        """Keep a finished iteration; the checkpoint comes last, because it is what marks it finished."""
        record = server.history[-1]
        if targets.votes:
            votes = {"labels": targets.votes.labels, "score": targets.votes.score, "voters": targets.votes.voters}
            write_tensors(self.votes(record["iteration"]), votes, {})
        confidence, classes = targets.soft.max(1)
        taught = {"classes": classes.int(), "confidence": confidence.float()}
        write_tensors(self.targets(record["iteration"]), taught, {})
        if self.publish:
            Published.of(targets, self.publish).write(self.path)
        self.log({"stage": "iteration", **record, "seconds": fit.seconds, "losses": fit.losses})
        server.save(self.checkpoint(record["iteration"]))
        self._epoch(record["iteration"]).forget()

    def keep(self, iteration: int) -> Callable[[Snapshot], None] | None:
        """What keeps each epoch of an iteration, the newest in place of the one before."""
        return self._epoch(iteration).keep if self._every_epoch else None

    def snapshot(self, iteration: int) -> Snapshot | None:
        """The last epoch that was kept, if it belongs to this iteration and not to one that had just finished."""
        return self._epoch(iteration).read()

    def _epoch(self, iteration: int) -> EpochFile:
        return EpochFile(self.path / "epoch.safetensors", {"iteration": iteration})

    def log(self, record: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl; a stage done again after a crash replaces its line."""
        identity = ("stage", "client", "iteration")
        kept = [line for line in read_metrics(self.path) if any(line.get(key) != record.get(key) for key in identity)]
        lines = "".join(json.dumps(line) + "\n" for line in [*kept, record])
        write_atomically(self.path / METRICS, lines.encode())


def frozen_settings(path: Path) -> dict[str, Any] | None:
    """The settings that a run in this folder was made with; None where there is no run that this version could read."""
    try:
        found = json.loads((path / "config.json").read_bytes())
        return dict(found["config"]) if found["schema"] == SCHEMA and isinstance(found["hash"], str) else None
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return None


def is_empty(path: Path) -> bool:
    """Nothing is there yet, or only what a run killed in its first moment has left."""
    try:
        return not path.exists() or all(file.suffix == TEMPORARY or file.name == LOCK for file in path.iterdir())
    except NotADirectoryError:
        return False
    except OSError as error:
        raise FedolError(f"The run folder {path} cannot be read ({error.strerror}); choose another --out.") from None


def _lock(path: Path) -> Held | None:
    """Keep other processes out: two that train in one folder would take each other's unfinished files away."""
    place = path.resolve() / LOCK
    lock = _HELD.get(place)
    if lock is None:
        try:
            lock = hold(place)
        except Taken:
            raise FedolError(f"Another process works in {path}; wait until it ends, or choose another --out.") from None
        if lock is not None:
            _HELD[place] = lock
    return lock


def read_summary(path: Path, advice: str = AGAIN) -> dict[str, Any]:
    """The result of a finished run; ``advice`` is what helps where the file holds none."""
    found = read_json(path, advice)
    if not isinstance(found, dict) or not found.keys() >= {"config", "clients", "server", "history"}:
        raise FedolError(f"{path} is not the summary of a run; {advice}.")
    return found


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """One record per finished stage; none where the file is not there."""
    path = run / METRICS
    if not path.exists():
        return []
    with intact(path, "remove it to go on without its lines"):
        return [dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def read_kept(path: Path) -> dict[str, Any]:
    """What an iteration has kept of its pseudo-labels or its targets."""
    with intact(path, "choose another --out"):
        return dict(read_tensors(path)[0])
