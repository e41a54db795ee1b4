"""Accuracy and diagnostics, read off the finished artefacts of a run: its only place that sees a withheld label.

What a finished run leaves for its report, beside the summary:

evaluation.json   the server per class, its confusions and calibration, and the best client's beside it
evidence.json     a sample of the public set with every client's vote (``fedol.runs.votes``)
public.png        those of it, where they can be drawn
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.data import Labelled
from fedol.data.samples import Samples
from fedol.files import write_atomically, write_json
from fedol.model import ServerModel
from fedol.progress import watched
from fedol.runs.folder import RunFolder, read_kept
from fedol.runs.png import contact_sheet, encode
from fedol.runs.votes import Hearing


def accuracy(log_probs: Tensor, labels: np.ndarray) -> float:
    """The share of samples whose most probable class is the true one."""
    return float((log_probs.argmax(1).numpy() == labels).mean())


def evaluate_clients(
    clients: Sequence[ServerModel], test: Labelled, note: Callable[[Tensor], object] = lambda said: None
) -> tuple[list[float], float]:
    """Each client's test accuracy, and that of their ensemble (the λ mixture of Eq. 12 that the server learns from).

    ``note`` is handed what each says of the test samples, in their order.
    """
    mixture, single = Mixture(), []
    for client in watched(clients, "evaluating"):
        log_probs = client.predict_log_proba(test.samples)
        note(log_probs)
        single.append(accuracy(log_probs, test.answers))
        mixture.add(log_probs.exp())
    return single, accuracy(mixture.mean(), test.answers)


def pseudo_label_accuracy(labels: Tensor, truth: np.ndarray) -> float | None:
    """How many of the given pseudo-labels are right; None where there is none."""
    given = labels >= 0
    if not given.any():
        return None
    return float((labels == torch.from_numpy(truth))[given].double().mean())


def summary_statistics(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (n − 1) and n."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "std": spread, "n": len(values)}


def finding_by_finding(log_probs: Tensor, marks: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Of each finding how many test samples have it, and how well a model tells them from those that have not.

    Null where all samples have it, or none. ``auroc``: how often a sample that has it is given a higher probability
    than one that has not.
    """
    from sklearn.metrics import roc_auc_score

    probs = log_probs[:, 1].double().exp().numpy().reshape(marks.shape)
    found = []
    for said, marked in zip(probs.T, marks.T, strict=True):
        has, yes = marked == 1, said > 0.5
        found.append(
            {
                "samples": int(has.sum()),
                "sensitivity": float(yes[has].mean()) if has.any() else None,
                "specificity": float((~yes[~has]).mean()) if not has.all() else None,
                "auroc": float(roc_auc_score(marked, said)) if 0 < has.sum() < len(has) else None,
            }
        )
    return found


def mean_auroc(log_probs: Tensor, marks: npt.NDArray[np.int64]) -> float | None:
    """The mean over the findings that some test samples have and some have not; None where there is none."""
    known = [row["auroc"] for row in finding_by_finding(log_probs, marks) if row["auroc"] is not None]
    return sum(known) / len(known) if known else None


def scored(model: ServerModel, test: Labelled) -> dict[str, float | None]:
    """The accuracy, which of findings is the share of right answers, and then the mean AUROC beside it."""
    log_probs = model.predict_log_proba(test.samples)
    of_findings = {"auroc": mean_auroc(log_probs, test.y)} if model.findings else {}
    return {"accuracy": accuracy(log_probs, test.answers), **of_findings}


BINS = 10  # of the reliability diagram, equally wide in confidence


def examine(log_probs: Tensor, labels: np.ndarray, classes: int) -> dict[str, Any]:
    """Confusion counts [true][predicted], accuracy per class (null for a class without samples), and calibration."""
    probs = log_probs.double().exp().numpy()
    predicted = probs.argmax(1)
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    totals = confusion.sum(1)
    right = confusion.diagonal()
    return {
        "samples": totals.tolist(),
        "per_class": [int(r) / int(t) if t else None for r, t in zip(right, totals, strict=True)],
        "confusion": confusion.tolist(),
        "calibration": calibration(probs.max(1), predicted == labels),
    }


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Reliability bins and the expected calibration error: the mean gap between how sure and how right, by samples."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins, gap = [], 0.0
    for number in range(BINS):
        here = place == number
        count = int(here.sum())
        sure, correct = (float(confidence[here].mean()), float(right[here].mean())) if count else (None, None)
        bins.append({"count": count, "confidence": sure, "accuracy": correct})
        if sure is not None and correct is not None:
            gap += count * abs(sure - correct)
    return {"bins": bins, "ece": gap / max(1, len(confidence))}


def strangers(known: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """How many samples a model calls like no client's data, and how many it has right of these and of the others."""
    parts = {"right_of_these": right[~known], "right_of_others": right[known]}
    accuracies = {name: float(part.mean()) if len(part) else None for name, part in parts.items()}
    return {"samples": int((~known).sum()), "of": len(known), **accuracies}


def account_for_tests(folder: RunFolder, models: dict[str, ServerModel], test: Labelled) -> None:
    """Write ``evaluation.json``: a closer look at each of these models."""
    found = {}
    for name, model in watched(models.items(), "examining"):
        log_probs = model.predict_log_proba(test.samples)
        found[name] = examine(log_probs, test.answers, len(model.classes))
        if model.findings:
            found[name]["findings"] = finding_by_finding(log_probs, test.y)
        elif (known := model.known(log_probs.exp())) is not None:
            found[name]["strange"] = strangers(known, log_probs.argmax(1).numpy() == test.y)
    write_json(folder.path / "evaluation.json", found)


def diagnosed(
    folder: RunFolder,
    history: list[dict[str, Any]],
    device: torch.device,
    test: Labelled,
    truth: npt.NDArray[np.int64] | None = None,
) -> list[dict[str, Any]]:
    """The iterations' records with what labels say about them; nothing was trained or chosen by these."""
    found = []
    for record in watched(history, "iterations"):
        server = folder.server(record["iteration"])
        server.device = device
        diagnostics: dict[str, Any] = {"test_accuracy": accuracy(server.predict_log_proba(test.samples), test.answers)}
        votes = folder.votes(record["iteration"])
        if truth is not None and votes.exists():
            diagnostics["pseudo_label_accuracy"] = pseudo_label_accuracy(read_kept(votes)["labels"], truth)
        found.append({**record, "diagnostics": diagnostics})
    return found


def account_for_labels(
    folder: RunFolder,
    hearing: Hearing,
    server: ServerModel,
    public: Samples,
    truth: np.ndarray | None = None,
    left_out: Collection[str] = (),
) -> None:
    """Write ``evidence.json``, and ``public.png`` where the samples can be drawn; else they are there in words."""
    votes = [read_kept(path) for record in server.history if (path := folder.votes(record["iteration"])).exists()]
    seen = public.take(hearing.shown // max(1, len(server.findings)))
    pictures = seen.pictures()
    if pictures is not None:
        write_atomically(folder.path / "public.png", encode(contact_sheet(pictures)))
    last = folder.targets(server.history[-1]["iteration"])
    taught = read_kept(last) if last.exists() else None  # runs of earlier versions have not kept it
    found = hearing.evidence(votes, server, public, truth, left_out, taught)
    if pictures is None:
        found["captions"] = seen.captions()
    write_atomically(folder.path / "evidence.json", json.dumps(found, separators=(",", ":")).encode())
