"""What a finished run leaves for its report, beside the summary.

evaluation.json   the server per class, its confusions and calibration, and the best client's beside it
evidence.json     a sample of the public images with every client's vote (``fedol.runs.votes``)
public.png        those images
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedol.data import Images
from fedol.files import write_atomically, write_json
from fedol.model import ServerModel
from fedol.progress import watched
from fedol.runs.evaluation import accuracy, examine, pseudo_label_accuracy
from fedol.runs.folder import RunFolder, read_kept
from fedol.runs.png import contact_sheet, encode
from fedol.runs.votes import Hearing


def account_for_tests(folder: RunFolder, models: dict[str, ServerModel], test: Images) -> None:
    """Write ``evaluation.json``: a closer look at each of these models."""
    found = {
        name: examine(model.predict_log_proba(test.x), test.y, len(model.classes))
        for name, model in watched(models.items(), "examining")
    }
    write_json(folder.path / "evaluation.json", found)


def diagnosed(
    folder: RunFolder,
    history: list[dict[str, Any]],
    device: torch.device,
    test: Images,
    truth: npt.NDArray[np.int64] | None = None,
) -> list[dict[str, Any]]:
    """The iterations' records with what labels say about them; nothing was trained or chosen by these."""
    found = []
    for record in watched(history, "iterations"):
        server = folder.server(record["iteration"])
        server.device = device
        diagnostics: dict[str, Any] = {"test_accuracy": accuracy(server.predict_log_proba(test.x), test.y)}
        votes = folder.votes(record["iteration"])
        if truth is not None and votes.exists():
            diagnostics["pseudo_label_accuracy"] = pseudo_label_accuracy(read_kept(votes)["labels"], truth)
        found.append({**record, "diagnostics": diagnostics})
    return found


def account_for_labels(
    folder: RunFolder,
    hearing: Hearing,
    server: ServerModel,
    public: np.ndarray,
    truth: np.ndarray | None = None,
    left_out: Collection[str] = (),
) -> None:
    """Write ``evidence.json`` and ``public.png``."""
    votes = [read_kept(path) for record in server.history if (path := folder.votes(record["iteration"])).exists()]
    write_atomically(folder.path / "public.png", encode(contact_sheet(public[hearing.shown])))
    last = folder.targets(server.history[-1]["iteration"])
    taught = read_kept(last) if last.exists() else None  # runs of earlier versions have not kept it
    found = hearing.evidence(votes, server, public, truth, left_out, taught)
    write_atomically(folder.path / "evidence.json", json.dumps(found, separators=(",", ":")).encode())
