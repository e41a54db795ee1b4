"""A whole federation in one process: split the data, train the clients, distill the server, evaluate at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from fedol.config import RunConfig
from fedol.data import Dataset
from fedol.distillation import Learnt
from fedol.errors import FedolError
from fedol.federation.scenario import Engine, Scenario, Scheme, in_process
from fedol.files import write_json
from fedol.model import ServerModel
from fedol.model import load as load_model
from fedol.models import describe, size_of
from fedol.models.fitted import check_teachable
from fedol.progress import NOBODY, Observer
from fedol.robust import left_out
from fedol.runs.benefit import Recall, account_for_benefit, recall
from fedol.runs.evaluation import (
    account_for_labels,
    account_for_tests,
    diagnosed,
    evaluate_clients,
    scored,
    summary_statistics,
)
from fedol.runs.folder import RunFolder, read_summary
from fedol.runs.provenance import commit, provenance
from fedol.runs.votes import Hearing
from fedol.training import drive


class Simulation:
    """The stages of one run. Each leaves its artefacts in the folder and is skipped where they are there."""

    def __init__(
        self,
        config: RunConfig,
        out: Path,
        dataset: Dataset | None = None,
        engine: Engine = in_process,
        force: bool = False,
    ) -> None:
        self.config, self._engine = config, engine
        self.scenario = Scenario(config, dataset)
        self.scheme = Scheme.of(self.scenario)
        # A model that cannot be built is an error now, not after the clients' training.
        clients = {self.scheme.architecture(k) for k in range(config.clients)}
        for architecture in clients:
            architecture.build()
        check_teachable(self.scenario.server.build())
        self.folder = RunFolder.open(out, config, force=force)
        self.folder.describe_data(self.scenario.describe())

    def run(self, observer: Observer = NOBODY) -> tuple[dict[str, Any], bool]:
        """All stages, the test set read in the last one alone: the summary, and whether it was there already."""
        done = self.folder.path / "summary.json"
        if done.exists():
            return read_summary(done), True
        commit()  # of the code that runs, not of what is checked out at the end
        started = time.perf_counter()
        resumed = any(self.folder.knowledge(k).exists() for k in range(self.config.clients))
        self.train_clients(observer)
        learnt = self.train_server(observer) if self.scheme.method.serves else None
        summary = {
            **self.evaluate(learnt),
            "seconds": round(time.perf_counter() - started, 2),  # of this start: a resumed run had some before
            "resumed": resumed,
            "provenance": provenance(self.config.seed, self.scenario.device),
        }
        write_json(done, summary)
        return summary, False

    def train_clients(self, observer: Observer) -> None:
        """Every client without an upload yet trains on its own share and sends what the method wants, once."""
        missing = [k for k in range(self.config.clients) if not self.folder.knowledge(k).exists()]
        observer.stage("clients", sum(map(self.scheme.trainings, missing)) * self.config.epochs)
        failed = self._engine(self.scheme, missing, self.folder, observer.epoch)
        if failed:
            raise FedolError(" ".join(failed))

    def train_server(self, observer: Observer) -> Learnt:
        """The method on the clients' files, exactly as they were uploaded."""
        settings, method = self.config.distillation, self.scheme.method
        missing = method.trainings(settings.iterations) - self.folder.finished()
        observer.stage("server", missing * settings.recipe.epochs)
        uploads = [self.folder.knowledge(k) for k in range(self.config.clients)]
        self._hearing = Hearing(self.scenario.task.rows, len(uploads), self.config.seed, settings.defence)
        note = self._hearing.note if method.hears else None
        process = self.scheme.server(uploads, self.folder, note=note)
        ((_, learnt),) = drive([process], self.scenario.device, observer.epoch)
        learnt.server.save(self.folder.path / "model.safetensors")
        return learnt

    def evaluate(self, learnt: Learnt | None) -> dict[str, Any]:
        """Test accuracies of clients, ensemble and server, and per iteration the diagnostics that need labels."""
        here, server = self.scenario, learnt.server if learnt else None
        screening = learnt.screening if learnt else []
        specs = [self.scheme.architecture(k).model for k in range(self.config.clients)]
        models = [load_model(self.folder.client_model(k), spec) for k, spec in enumerate(specs)]
        for model in models:
            model.device = here.device
        recalls = list[Recall]()
        accuracies, ensemble = evaluate_clients(
            models, here.data.test, lambda said: recalls.append(recall(said, here.data.test.answers))
        )
        if server is not None:
            self._account(server, models[int(np.argmax(accuracies))], left_out(screening))
            if not here.dataset.findings:
                account_for_benefit(self.folder, server, recalls, here.data.test, here.class_counts())
        sends = self.scheme.method.serves
        clients = [
            {
                "client": k,
                "model": describe(specs[k]),
                **size_of(models[k].module),
                "samples": len(share),
                "classes": int((here.data.private.take(share).counts(len(here.dataset.classes)) > 0).sum()),
                "accuracy": accuracies[k],
                "upload_bytes": self.folder.knowledge(k).stat().st_size if sends else 0,
            }
            for k, share in enumerate(here.shares)
        ]
        history = [] if server is None else server.history
        return {
            "config": self.config.as_json(),
            "clients": clients,
            "local": summary_statistics(accuracies),
            "ensemble": {"accuracy": ensemble},
            "server": None if server is None else self._describe_server(server),
            "upload_bytes_per_client": float(np.mean([client["upload_bytes"] for client in clients])),
            "screening": screening,
            "history": diagnosed(self.folder, history, here.device, here.data.test, here.data.public_labels.ravel()),
            "device": str(here.device),
        }

    def _account(self, server: ServerModel, best: ServerModel, unheard: set[str]) -> None:
        """What the report shows beside the summary; votes only where clients send predictions."""
        here = self.scenario
        account_for_tests(self.folder, {"server": server, "best_client": best}, here.data.test)
        if self.scheme.method.hears:
            truth = here.data.public_labels.ravel()
            account_for_labels(self.folder, self._hearing, server, here.public, truth, unheard)

    def _describe_server(self, server: ServerModel) -> dict[str, Any]:
        return {
            "model": describe(server.architecture.model),
            **size_of(server.module),
            **scored(server, self.scenario.data.test),
        }
