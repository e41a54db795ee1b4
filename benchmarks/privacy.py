"""What privacy costs and what it buys: the server's accuracy and an audit, against epsilon and against the codec.

    python benchmarks/privacy.py --json benchmarks/results/privacy-digits.json
    python benchmarks/privacy.py --dataset cifar100 --data-dir DATA --public 5000 --model cnn --server cnn \
        --epochs 10 --dp-batch-size 512 --delta 1e-5 --shadows 4 --json benchmarks/results/privacy-cifar100.json
    python benchmarks/privacy.py --folds 0 2 --seeds 0 1 2 --epsilons inf 8 \
        --json benchmarks/results/privacy-ratios.json

Clients are trained with FedOL's own loop (epsilon inf) or with Opacus at each epsilon, and the server learns from their
files by FedOL. The audit attacks the first ``--audited`` clients with their own images among the queried ones; shadow
models are trained without privacy, so the likelihood-ratio attack is run where the client is, too. Means over clients.
With ``--folds`` clients send ratios, the server learns by the union, and epsilon is that of all fits of a client.
The record is written after every cell; a cell that it, or a record in ``--known``, already has is not measured again,
so a run that was stopped goes on, and epsilons can be measured by processes side by side and put together by a last.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _record import script, table, write

import fedol
from fedol.config import RunConfig
from fedol.federation.scenario import Scenario
from fedol.knowledge import Knowledge
from fedol.methods.union import answers
from fedol.model import ServerModel
from fedol.models.openset import OpenSet
from fedol.privacy.audit import Attacker
from fedol.privacy.converted import spec_for
from fedol.privacy.training import Budget, fit_private
from fedol.runs.evaluation import accuracy
from fedol.training import Job, fit
from fedol.training.job import folds_of

CODECS = ("float32", "q7c60+zstd", "q2c20+zstd", "top10+zstd", "top1+zstd")
CODECS += ("lattice5", "lattice20", "lattice80", "lattice320")  # the default, and what its rate changes
# Options that say which cells, not how one is measured.
WHICH = ("json", "known", "epsilons", "codecs", "folds", "seeds")


def clients(here: Scenario, epsilon: float, delta: float, batch_size: int | None, folds: int) -> list[ServerModel]:
    """Every client's model, trained within the budget; the same architecture, without batch norm, at every epsilon."""
    found, jobs = [], list[Job]()
    for k in range(here.config.clients):
        architecture = replace(here.architecture(spec_for(here.config.client_model(k))), folds=folds)
        whole = here.job(k, architecture)
        assert isinstance(whole.model, OpenSet) == bool(folds)
        found.append(ServerModel(whole.model, architecture, device=here.device))
        split = isinstance(whole.model, OpenSet)
        jobs += folds_of(whole, whole.model, here.public, len(architecture.classes)) if split else [whole]
    if math.isinf(epsilon):
        for result in fit(jobs, here.device):
            assert result.error is None, result.error
    else:
        for job in jobs:
            recipe = replace(job.recipe, batch_size=batch_size or job.recipe.batch_size)
            fit_private(replace(job, recipe=recipe), Budget(epsilon, delta).part(max(1, folds)), here.device)
    return found


def sent(model: ServerModel, here: Scenario, private: int) -> Knowledge:
    """What a client sends."""
    if not isinstance(model.module, OpenSet):
        return Knowledge.from_logits(model.predict_log_proba(here.public), here.task)
    logs = answers(model.module, here.public, model.architecture, here.device)
    return Knowledge.from_log_ratios(logs, here.task, private=private, folds=len(model.module.nets))


def attackers(here: Scenario, models: list[ServerModel], shadows: int, audited: int) -> list[Attacker]:
    """One against each of the first clients, with images of all others and the test set to tell its own from."""
    test, found = here.data.test, []
    for k in range(audited):
        rest = here.data.private.take(np.setdiff1d(np.arange(len(here.data.private)), here.shares[k]))
        others = test.joined(rest)
        members = here.data.private.take(here.shares[k])
        c = here.config
        found.append(Attacker.of(models[k], members, others, here.public, c.recipe, shadows, c.seed))
    return found


def cell(here: Scenario, models: list[ServerModel], readers: list[Attacker], codec: str) -> dict[str, Any]:
    """The server that these clients' files make, and what the files reveal."""
    files = [sent(model, here, len(share)).encode(codec) for model, share in zip(models, here.shares, strict=True)]
    knowledge = [Knowledge.decode(file)[0] for file in files]
    c, method = here.config, "union" if isinstance(models[0].module, OpenSet) else "fedol"
    server = fedol.distill(
        knowledge, here.public, model=c.server_model, width=c.width, seed=c.seed, device=str(here.device),
        method=method, iterations=c.iterations, epochs=c.epochs, batch_size=c.batch_size,
    )  # fmt: skip
    test, found = here.data.test, [reader.read(codec) for reader in readers]
    return {
        "server_accuracy": accuracy(server.predict_log_proba(test.samples), test.y),
        "client_accuracy": float(np.mean([accuracy(m.predict_log_proba(test.samples), test.y) for m in models])),
        "membership": {
            attack: {key: float(np.mean([f["membership"][attack][key] for f in found])) for key in leak}
            for attack, leak in found[0]["membership"].items()
        },
        "label_mix_error": float(np.mean([f["label_mix"]["error"] for f in found])),
        "codec": codec,
        "bytes": float(np.mean([len(file) for file in files])),
    }


def known(files: Iterable[Path], settings: dict[str, str]) -> list[dict[str, Any]]:
    """The cells that records under these settings hold."""
    records = [json.loads(file.read_text()) for file in files if file.exists()]
    return [result for record in records if record["settings"] == settings for result in record["results"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--public", type=int, default=400)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--partition", default="dirichlet:1")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--server", default="mlp")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[math.inf, 8, 4, 2, 1])
    parser.add_argument("--delta", type=float, default=1e-4)
    parser.add_argument("--dp-batch-size", type=int, help="of private training, which likes larger ones; as others")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--shadows", type=int, default=8)
    parser.add_argument("--audited", type=int, default=2)
    parser.add_argument("--folds", type=int, nargs="+", default=[0], help="of the public set; 0 for predictions alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--known", type=Path, nargs="+", default=[], help="records to take cells over from")
    o = parser.parse_args()
    settings = {key: str(value) for key, value in vars(o).items() if key not in WHICH}
    there = {identity(r): r for r in known([*o.known, *([o.json] if o.json else [])], settings)}
    results: list[dict[str, Any]] = []
    for seed, folds, epsilon in itertools.product(o.seeds, o.folds, o.epsilons):
        here = Scenario(
            RunConfig(
                dataset=o.dataset, data_dir=o.data_dir, public=o.public, clients=o.clients, partition=o.partition,
                client_models=(o.model,), server_model=o.server, width=o.width, epochs=o.epochs,
                iterations=o.iterations, device=o.device, seed=seed,
            )
        )  # fmt: skip
        is_open, models = math.isinf(epsilon), None
        for codec in o.codecs if is_open else o.codecs[1:2]:
            started, about = time.perf_counter(), {"epsilon": None if is_open else epsilon, "codec": codec}
            about |= {"folds": folds, "seed": seed}
            if identity(about) not in there:
                if models is None:
                    models = clients(here, epsilon, o.delta, o.dp_batch_size, folds)
                    readers = attackers(here, models, o.shadows if is_open else 0, o.audited)
                one = {**about, **cell(here, models, readers, codec)}
                there[identity(about)] = {**one, "seconds": time.perf_counter() - started}
            results.append(there[identity(about)])
            print(results[-1], flush=True)
            if o.json:
                write(o.json, seed=min(o.seeds), settings=settings, results=results, device=here.device)
    show(results)


def identity(cell: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a cell from the others of its record; the first records had predictions of one seed only."""
    return cell["epsilon"], cell["codec"], cell.get("folds", 0), cell.get("seed", 0)


def show(results: list[dict[str, Any]]) -> None:
    """The cells as a table."""
    rows = []
    for r in results:
        leak = r["membership"]
        ratio = leak.get("likelihood ratio", {})
        rows.append(
            [
                "inf" if r["epsilon"] is None else f"{r['epsilon']:g}",
                f"{r['codec']}, {r['folds']} folds" if r.get("folds") else r["codec"],
                f"{100 * r['server_accuracy']:.1f}",
                f"{100 * r['client_accuracy']:.1f}",
                f"{leak['threshold']['auc']:.3f}",
                f"{100 * leak['threshold']['tpr_at_1_percent']:.1f}",
                f"{ratio['auc']:.3f}" if ratio else "-",
                f"{100 * ratio['tpr_at_1_percent']:.1f}" if ratio else "-",
                f"{100 * r['label_mix_error']:.1f}",
            ]
        )
    header = ["epsilon", "codec", "server %", "client %", "AUC", "TPR@1%", "LiRA AUC", "TPR@1%", "mix error %"]
    table(header, rows)


if __name__ == "__main__":
    script(main)
