"""What a finished run leaves for its report, beside the summary.

evaluation.json   the server per class, its confusions and calibration, and the best client's beside it
evidence.json     a sample of the public images with every client's vote (``fedol.evidence``)
public.png        those images
"""

from __future__ import annotations

import json
from collections.abc import Collection

import numpy as np

from fedol.data import Images
from fedol.evidence import NOBODY_LIES, choose, gather
from fedol.examination import examine
from fedol.federation.uploads import Uploads
from fedol.files import write_atomically, write_json
from fedol.png import contact_sheet, encode
from fedol.robust.defence import Defence
from fedol.runs import RunFolder, read_votes
from fedol.server import ServerModel
from fedol.watching import watched


def account_for_tests(folder: RunFolder, models: dict[str, ServerModel], test: Images) -> None:
    """Write ``evaluation.json``: a closer look at each of these models."""
    found = {
        name: examine(model.predict_log_proba(test.x), test.y, len(model.classes))
        for name, model in watched(models.items(), "examining")
    }
    write_json(folder.path / "evaluation.json", found)


def account_for_labels(
    folder: RunFolder,
    uploads: Uploads,
    clients: int,
    server: ServerModel,
    public: np.ndarray,
    seed: int,
    truth: np.ndarray | None = None,
    defence: Defence = NOBODY_LIES,
    left_out: Collection[str] = (),
) -> None:
    """Write ``evidence.json`` and ``public.png``."""
    shown = choose(len(public), clients, seed)
    votes = [read_votes(path) for record in server.history if (path := folder.votes(record["iteration"])).exists()]
    write_atomically(folder.path / "public.png", encode(contact_sheet(public[shown])))
    found = gather(shown, uploads, votes, server, public, truth, defence, left_out)
    write_atomically(folder.path / "evidence.json", json.dumps(found, separators=(",", ":")).encode())
