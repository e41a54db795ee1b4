"""What privacy costs and what it buys: the server's accuracy and an audit, against epsilon and against the codec.

    python benchmarks/privacy.py --json benchmarks/results/privacy-digits.json
    python benchmarks/privacy.py --dataset cifar100 --data-dir DATA --public 5000 --model resnet20 --server resnet56 \
        --epochs 50 --device cuda --json benchmarks/results/privacy-cifar100.json

Clients are trained with FedOL's own loop (epsilon inf) or with Opacus at each epsilon, and the server learns from their
files by FedOL. The audit attacks the first ``--audited`` clients with their own images among the queried ones; shadow
models are trained without privacy, so the likelihood-ratio attack is run where the client is, too. Means over clients.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from _record import table, write

import fedol
from fedol.config import RunConfig
from fedol.data import Images
from fedol.evaluation import accuracy
from fedol.federation.scenario import Scenario
from fedol.knowledge import Knowledge
from fedol.privacy.audit import audit
from fedol.privacy.converted import spec_for
from fedol.privacy.training import Budget, fit_private
from fedol.server import ServerModel
from fedol.training import fit

CODECS = ("float32", "q7c60+zstd", "q2c20+zstd", "top10+zstd", "top1+zstd")


def clients(here: Scenario, epsilon: float, delta: float) -> list[ServerModel]:
    """Every client's model, trained within the budget; the same architecture, without batch norm, at every epsilon."""
    trained = []
    for k in range(here.config.clients):
        architecture = here.architecture(spec_for(here.config.client_model(k)))
        job = here.job(k, architecture)
        if math.isinf(epsilon):
            (result,) = fit([job], here.device)
            assert result.error is None, result.error
        else:
            fit_private(job, Budget(epsilon, delta), here.device)
        trained.append(ServerModel(job.model, architecture, device=here.device))
    return trained


def cell(here: Scenario, models: list[ServerModel], codec: str, shadows: int, audited: int) -> dict[str, Any]:
    """The server that these clients' files make, and what the files reveal."""
    knowledge = [
        Knowledge.decode(Knowledge.from_logits(model.predict_log_proba(here.public), here.task).encode(codec))[0]
        for model in models
    ]
    c = here.config
    server = fedol.distill(
        knowledge, here.public, model=c.server_model, width=c.width, seed=c.seed, device=str(here.device),
        iterations=c.iterations, epochs=c.epochs, batch_size=c.batch_size,
    )  # fmt: skip
    test = here.data.test
    found = []
    for k in range(audited):
        rest = here.data.private.take(np.setdiff1d(np.arange(len(here.data.private)), here.shares[k]))
        others = Images(np.concatenate([test.x, rest.x]), np.concatenate([test.y, rest.y]))
        members = here.data.private.take(here.shares[k])
        found.append(audit(models[k], members, others, here.data.public, c.recipe, codec, shadows, c.seed))
    return {
        "server_accuracy": accuracy(server.predict_log_proba(test.x), test.y),
        "client_accuracy": float(np.mean([accuracy(m.predict_log_proba(test.x), test.y) for m in models])),
        "membership": {
            attack: {key: float(np.mean([f["membership"][attack][key] for f in found])) for key in leak}
            for attack, leak in found[0]["membership"].items()
        },
        "label_mix_error": float(np.mean([f["label_mix"]["error"] for f in found])),
        "codec": codec,
    }


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
    parser.add_argument("--codecs", nargs="+", default=list(CODECS))
    parser.add_argument("--shadows", type=int, default=8)
    parser.add_argument("--audited", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    o = parser.parse_args()
    here = Scenario(
        RunConfig(
            dataset=o.dataset, data_dir=o.data_dir, public=o.public, clients=o.clients, partition=o.partition,
            client_models=(o.model,), server_model=o.server, width=o.width, epochs=o.epochs, iterations=o.iterations,
            device=o.device,
        )
    )  # fmt: skip
    results = []
    for epsilon in o.epsilons:
        models = clients(here, epsilon, o.delta)
        open_model = math.isinf(epsilon)
        for codec in o.codecs if open_model else o.codecs[1:2]:
            one = cell(here, models, codec, o.shadows if open_model else 0, o.audited)
            results.append({"epsilon": None if open_model else epsilon, **one})
            print(results[-1], flush=True)
    rows = []
    for r in results:
        leak = r["membership"]
        ratio = leak.get("likelihood ratio", {})
        rows.append(
            [
                "inf" if r["epsilon"] is None else f"{r['epsilon']:g}",
                r["codec"],
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
    if o.json:
        settings = {key: str(value) for key, value in vars(o).items() if key != "json"}
        write(o.json, seed=0, settings=settings, results=results)


if __name__ == "__main__":
    main()
