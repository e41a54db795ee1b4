"""Both works with FedOL, which deals the data, trains the clients side by side, evaluates, and writes a report."""

import tempfile
from typing import Any

import torch
from work import Work, large, small

import fedol


def fedavg(work: Work) -> dict[str, torch.Tensor]:
    """One round."""
    with tempfile.TemporaryDirectory() as out:
        result = run(work, out, method="fedavg", parameter_model=small)
        return result.model.module.state_dict()


def distill(work: Work) -> dict[str, torch.Tensor]:
    """One upload, in full precision."""
    with tempfile.TemporaryDirectory() as out:
        result = run(work, out, method="feddf-probs", client_models=(small,), server_model=large, codec="float32")
        uploads = [fedol.Knowledge.load(path).probabilities() for path in result.out.glob("clients/*.fedol")]
        targets = sum(uploads) / len(uploads)
        return {"targets": targets, "server": result.model.predict_proba(work.raw_public())}


def run(work: Work, out: str, **method: Any) -> fedol.RunResult:
    """The same clients."""
    return fedol.run(
        dataset=work.settings["dataset"],
        public=work.settings["public"],
        development=work.settings["development"],
        clients=work.clients,
        partition=work.settings["partition"],
        epochs=work.epochs,
        batch_size=work.batch_size,
        lr=work.lr,
        optimiser="sgd",
        device="cpu",
        out=out,
        progress=False,
        **method,
    )
