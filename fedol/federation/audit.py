"""Audits as they are asked for and read: of a finished run's clients, and in a data owner's words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedol.config import configure
from fedol.errors import FedolError, InputError
from fedol.federation.scenario import Scenario
from fedol.files import intact, read_json
from fedol.knowledge.header import Guarantee
from fedol.knowledge.task import Task
from fedol.model import load
from fedol.privacy.audit import audit
from fedol.progress import watched
from fedol.runs.folder import RunFolder
from fedol.training import OnEpoch


def run_audit(
    folder: Path,
    clients: int,
    codec: str | None,
    shadows: int,
    on_epoch: OnEpoch = lambda epoch: None,
    release: str | None = None,
    trust_code: bool = False,
) -> dict[str, Any]:
    """The audit of a finished simulation's first clients, each against samples of other clients and the test set.

    A client's model may be code (``my.py:Net``) only with ``trust_code``: the run may be a stranger's.
    """
    if not (folder / "summary.json").exists():
        raise FedolError(f"{folder} is not a finished run of 'fedol run'.")
    frozen, advice = folder / "config.json", "audit another run"
    with intact(frozen, advice):
        settings = dict(read_json(frozen, advice)["config"])
    if "partition" not in settings:
        raise FedolError(
            f"{folder} is a server's run, which has no client's model or data; a client audits its own: fedol audit "
            "--task TASK --model MODEL --data DATA."
        )
    config = configure(overrides=settings)
    here, found = Scenario(config), []
    check_auditable(here.task)
    for k in watched(range(min(clients, config.clients)), "clients"):
        model = replace(load(RunFolder(folder).client_model(k), trust_code=trust_code), device=here.device)
        rest = here.data.private.take(np.setdiff1d(np.arange(len(here.data.private)), here.shares[k]))
        others = here.data.test.joined(rest)
        members = here.data.private.take(here.shares[k])
        public, how = here.public, codec or config.codec
        one = audit(model, members, others, public, config.recipe, how, shadows, config.seed, on_epoch, release)
        found.append({"client": k, "samples": len(members), **one})
    return {"run": str(folder), "clients": found}


def check_auditable(task: Task) -> None:
    """Refuse a task of findings: an attacker's figures are about the one class of a sample."""
    if task.findings:
        raise InputError("There is no audit where a sample has several findings; its figures are about classes.")


def words(found: dict[str, Any]) -> list[str]:
    """The result as a data owner reads it."""
    lines = []
    if found["shadows"]:
        lines.append(
            f"The attacker trained {found['shadows']} models of the same kind, each on half of "
            f"{found['images']} samples, yours and others (epochs: {found['recipe']['epochs']})."
        )
    for name, leak in found["membership"].items():
        lines.append(
            f"Membership, {name.replace('both', 'predictions and masses')}: shown one of your samples and one that is "
            "not, the attacker picks yours "
            f"{100 * leak['auc']:.0f} % of the time (50 % is guessing). Where it may accuse 1 % of foreign samples "
            f"wrongly, it finds {100 * leak['tpr_at_1_percent']:.1f} % of yours; at 0.1 %, "
            f"{100 * leak['tpr_at_01_percent']:.1f} %."
        )
        if leak["others"] < 1000:
            both = leak["others"] < 100
            few = f"{'1' if both else '0.1'} % is less than one: read {'both figures' if both else 'that figure'}"
            lines.append(f"With {leak['others']} foreign samples, {few} with care.")
    if found.get("privacy") and found["shadows"]:
        lines.append(
            "Your model was trained with differential privacy and the attacker's shadow models were not, so a better "
            f"attacker may find more; what bounds every attacker is the promise: {Guarantee(**found['privacy'])}"
        )
    mix = found["label_mix"]
    lines.append(
        f"Class mix: the file gives away how many samples of each class you hold up to an error of "
        f"{100 * mix['error']:.0f} % (guessing that all are equal: {100 * mix['error_of_guessing_evenly']:.0f} %)."
    )
    lines.append(
        "Membership was tried with your samples among the public ones. Where none is, nobody sees your model's "
        "predictions on them, and this attack does not apply; the class mix always shows."
    )
    return lines
