"""A whole federation in one process: split the data, train the clients, distill the server, evaluate at the end."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedol.config import RunConfig, configure
from fedol.data import Dataset, Split, load, partition, split
from fedol.distillation import distillation
from fedol.errors import FedolError
from fedol.evaluation import accuracy, evaluate_clients, pseudo_label_accuracy, summary_statistics
from fedol.federation.uploads import Uploads
from fedol.files import read_json, write_atomically, write_json
from fedol.knowledge import Knowledge
from fedol.methods import Distillation
from fedol.models import describe, parameter_count
from fedol.runs import RunFolder, read_votes
from fedol.seeding import derive
from fedol.server import Architecture, ServerModel
from fedol.server import load as load_model
from fedol.task import Task
from fedol.training import Job, Normalisation, OnEpoch, Recipe, drive, fit, predict, resolve_device


@dataclass(frozen=True)
class RunResult:
    """What a run gave: its folder, and the summary that ``summary.json`` holds."""

    out: Path
    summary: dict[str, Any]

    @property
    def model(self) -> ServerModel:
        """The trained server model."""
        return load_model(self.out)


def run(
    config: RunConfig | None = None,
    *,
    out: str | Path | None = None,
    dataset: str | Dataset | None = None,
    on_epoch: OnEpoch = lambda epoch: None,
    on_stage: Callable[[str, int], None] = lambda name, epochs: None,
    **settings: Any,
) -> RunResult:
    """Simulate a federation; ``settings`` are fields of ``RunConfig`` (and ``preset``).

    ``dataset`` is a name, a path or a ``Dataset`` of your own. The run folder ``out`` defaults to ``runs/`` and the
    dataset's name and configuration hash; the same call again continues or reads it.
    """
    own = dataset if isinstance(dataset, Dataset) else None
    if own is not None:
        settings["dataset"] = f"{own.name}@{own.fingerprint[:12]}"
    elif dataset is not None:
        settings["dataset"] = dataset
    if config is None:
        config = configure(settings.pop("preset", None), overrides=settings)
    elif settings:
        config = dataclasses.replace(config, **settings)
    folder = Path(out) if out is not None else Path("runs") / f"{Path(config.dataset).stem}-{config.hash}"
    return Simulation(config, folder, own).run(on_epoch, on_stage)


class Simulation:
    """The stages of one run. Each leaves its artefacts in the folder and is skipped where they are there."""

    def __init__(self, config: RunConfig, out: Path, dataset: Dataset | None = None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.recipe = Recipe(config.epochs, config.batch_size, config.lr)
        self.distillation = Distillation(
            config.method, config.iterations, config.tau, config.rho, config.rho_step, self.recipe
        )
        data = dataset or load(config.dataset, config.data_dir)
        self.data: Split = split(data, config.public, config.seed)
        self.shares = partition(self.data.private.y, config.partition, config.clients, config.seed, len(data.classes))
        self.task = Task.of(self.data.public, data.classes)
        self.shape = data.shape
        self.clients = [self._architecture(config.client_model(k)) for k in range(config.clients)]
        self.server = self._architecture(config.server_model)
        self.server.build()  # a model that cannot be built is an error now, not after the clients' training
        self.folder = RunFolder.open(out, config)
        write_json(out / "data.json", self._describe_data(data))

    def _architecture(self, model: Any) -> Architecture:
        normalise = Normalisation(self.data.mean, self.data.std)
        return Architecture(model, self.data.classes, self.shape, self.config.width, normalise)

    def _describe_data(self, data: Dataset) -> dict[str, Any]:
        counts = [np.bincount(self.data.private.y[share], minlength=len(data.classes)) for share in self.shares]
        return {
            "dataset": data.name,
            "fingerprint": data.fingerprint,
            "task": self.task.id,
            "classes": list(data.classes),
            "public": len(self.data.public),
            "test": len(self.data.test),
            "samples_per_client_and_class": [count.tolist() for count in counts],
        }

    def run(self, on_epoch: OnEpoch, on_stage: Callable[[str, int], None]) -> RunResult:
        """All stages; the test set is read in the last one alone."""
        done = self.folder.path / "summary.json"
        if not done.exists():
            started = time.perf_counter()
            self.train_clients(on_epoch, on_stage)
            server = self.train_server(on_epoch, on_stage)
            summary = {**self.evaluate(server), "seconds": round(time.perf_counter() - started, 2)}
            write_json(done, summary)
        return RunResult(self.folder.path, read_json(done))

    def train_clients(self, on_epoch: OnEpoch, on_stage: Callable[[str, int], None]) -> None:
        """Every client without an upload yet trains on its own share and predicts the public set, once."""
        jobs = {f"client {k}": k for k in range(self.config.clients) if not self.folder.knowledge(k).exists()}
        on_stage("clients", len(jobs) * self.recipe.epochs)
        failed = []
        for result in fit([self._client_job(name, k) for name, k in jobs.items()], self.device, on_epoch):
            if result.error:
                failed.append(result.error)
                continue
            k, model = jobs[result.job.name], result.job.model
            log_probs = predict(model, self.data.public, self.clients[k].normalise, self.device)
            ServerModel(model, self.clients[k]).save(self.folder.client_model(k))
            self.folder.log({"stage": "client", "client": k, "loss": result.losses[-1], "seconds": result.seconds})
            Knowledge.from_logits(log_probs, self.task, result.job.name).save(
                self.folder.knowledge(k), self.config.codec
            )
        if failed:
            raise FedolError(" ".join(failed))

    def _client_job(self, name: str, k: int) -> Job:
        share, seed = self.data.private.take(self.shares[k]), self.config.seed
        return Job(
            name=name,
            model=self.clients[k].build(derive(seed, name, "init")),
            images=torch.from_numpy(share.x),
            targets=torch.from_numpy(share.y),
            normalise=self.clients[k].normalise,
            recipe=self.recipe,
            seed=derive(seed, name),
        )

    def train_server(self, on_epoch: OnEpoch, on_stage: Callable[[str, int], None]) -> ServerModel:
        """The method on the clients' files, exactly as they were uploaded."""
        on_stage("server", self.distillation.iterations * self.recipe.epochs)
        public = torch.from_numpy(self.data.public)
        uploads = Uploads([self.folder.knowledge(k) for k in range(self.config.clients)], self.task)
        process = distillation(
            uploads, public, self.server, self.distillation, self.config.seed, self.device, self.folder
        )
        ((_, server),) = drive([process], self.device, on_epoch)
        last = self.folder.checkpoint(len(server.history))
        write_atomically(self.folder.path / "model.safetensors", last.read_bytes())
        return server

    def evaluate(self, server: ServerModel) -> dict[str, Any]:
        """Test accuracies of clients, ensemble and server, and per iteration the diagnostics that need labels."""
        models = [
            load_model(self.folder.client_model(k), self.config.client_model(k)) for k in range(len(self.clients))
        ]
        for model in models:
            model.device = self.device
        accuracies, ensemble = evaluate_clients(models, self.data.test)
        clients = [
            {
                "client": k,
                "model": describe(self.config.client_model(k)),
                "parameters": parameter_count(models[k].module),
                "samples": len(share),
                "classes": len(np.unique(self.data.private.y[share])),
                "accuracy": accuracies[k],
                "upload_bytes": self.folder.knowledge(k).stat().st_size,
            }
            for k, share in enumerate(self.shares)
        ]
        history = [self._diagnose(record) for record in server.history]
        return {
            "config": self.config.as_json(),
            "clients": clients,
            "local": summary_statistics(accuracies),
            "ensemble": {"accuracy": ensemble},
            "server": {
                "model": describe(self.config.server_model),
                "parameters": parameter_count(server.module),
                "accuracy": history[-1]["diagnostics"]["test_accuracy"],
            },
            "upload_bytes_per_client": float(np.mean([client["upload_bytes"] for client in clients])),
            "history": history,
            "device": str(self.device),
        }

    def _diagnose(self, record: dict[str, Any]) -> dict[str, Any]:
        """An iteration's record with what labels say about it; nothing was trained or chosen by these."""
        iteration = record["iteration"]
        model = load_model(self.folder.checkpoint(iteration), self.config.server_model)
        model.device = self.device
        test = accuracy(model.predict_log_proba(self.data.test.x), self.data.test.y)
        diagnostics: dict[str, Any] = {"test_accuracy": test}
        if self.folder.votes(iteration).exists():
            labels = read_votes(self.folder.votes(iteration))["labels"]
            diagnostics["pseudo_label_accuracy"] = pseudo_label_accuracy(labels, self.data.public_labels)
        return {**record, "diagnostics": diagnostics}
