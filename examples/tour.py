"""The five-minute tour: a federation, what came of it, and why.

    python examples/tour.py tour

Ten organisations hold handwritten digits, each mostly a few of them. They train models of their own, and send what
these say about four hundred images that all of them have. Nothing else leaves them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedol
from fedol.data import load, split


def tour(folder: Path, **settings: Any) -> dict[str, Any]:
    """Run it, and look at it from every side."""
    # 1. A whole federation in one call. The same call again reads the finished run.
    result = fedol.run(out=folder / "run", partition="dirichlet:0.3", **settings)
    summary = result.summary
    best = max(client["accuracy"] for client in summary["clients"])
    print(f"The best client is {best:.1%} accurate, the server {summary['server']['accuracy']:.1%}.")
    print(f"Each client sent {summary['upload_bytes_per_client']:,.0f} bytes, once.")

    # 2. What a client sent: one distribution per public image. Its mean gives away what the client holds.
    knowledge = fedol.Knowledge.load(folder / "run" / "clients" / "00.fedol")
    mix = knowledge.probabilities().mean(0).numpy()
    print("Client 0 speaks mostly of the digits", np.argsort(-mix)[:3].tolist())

    # 3. The vote, by hand: the models that are sure of an image decide on its label.
    files = sorted((folder / "run" / "clients").glob("*.fedol"))
    clients = np.stack([fedol.Knowledge.load(file).probabilities().numpy() for file in files])
    truth = split(load("digits"), len(clients[0]), seed=0).public_labels  # to look only; no training sees it
    for rho in (0.1, 0.5, 1.0):
        votes = fedol.pseudo_labels(clients, rho)
        given = np.asarray(votes.labels) >= 0
        right = (np.asarray(votes.labels) == truth)[given].mean()
        print(f"ρ = {rho}: {given.mean():.0%} of the images get a label, {right:.0%} of these are right")

    # 4. The trained model, like any other.
    test = load("digits").test
    model = fedol.load(folder / "run")
    print("It reads", model.predict(test.x[:8]).tolist(), "where the truth is", test.y[:8].tolist())

    # 5. And the page to look at.
    print("Open", folder / "run" / "report.html")
    return summary


if __name__ == "__main__":
    tour(Path(sys.argv[1] if len(sys.argv) > 1 else "tour"))
