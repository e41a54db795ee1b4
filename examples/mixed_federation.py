"""One federation, four frameworks: PyTorch, scikit-learn, LightGBM and ONNX Runtime, each with three lines of FedOL.

    python examples/mixed_federation.py demo-mixed

Every organisation trains what it likes on its own share of the digits and sends one file. Nobody runs FedOL's training
but the server, and the server never learns what made a file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from demo_data import write_demo

import fedol
from fedol.config import ServerConfig
from fedol.federation.coordinator import Coordinator
from fedol.federation.taskfolder import TaskFolder
from fedol.report.pages import Pages


def share(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """An organisation's own training images, as rows of floats, and labels."""
    with np.load(folder / f"{name}.npz") as arrays:
        x, y = arrays["train_x"], arrays["train_y"]
    return rows(x), y


def rows(images: np.ndarray) -> np.ndarray:
    """Flat floats in [0, 1], which all four like."""
    return (images.reshape(len(images), -1) / 255).astype(np.float32)


def train_net(folder: Path, name: str, hidden: int, epochs: int) -> torch.nn.Module:
    """An organisation's own PyTorch loop."""
    x, y = (torch.from_numpy(part) for part in share(folder, name))
    torch.manual_seed(hidden)
    model = torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model.eval()


def pytorch(folder: Path, task: fedol.Task, public: np.ndarray, epochs: int) -> None:
    """Alice: a torch.nn.Module."""
    model = train_net(folder, "alice", 64, epochs)
    with torch.no_grad():
        logits = model(torch.from_numpy(rows(public)))
    fedol.Knowledge.from_logits(logits, task, "alice").save(folder / "inbox" / "alice.fedol")


def scikit_learn(folder: Path, task: fedol.Task, public: np.ndarray) -> None:
    """Bob: a random forest, which has no gradients and no layers to average."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(100, random_state=0).fit(*share(folder, "bob"))
    probs = forest.predict_proba(rows(public))  # of the classes that Bob has seen
    knowledge = fedol.Knowledge.from_probabilities(probs, task, "bob", classes=forest.classes_)
    knowledge.save(folder / "inbox" / "bob.fedol")


def lightgbm(folder: Path, task: fedol.Task, public: np.ndarray) -> None:
    """Carol: gradient boosting."""
    from lightgbm import LGBMClassifier

    trees = LGBMClassifier(n_estimators=30, min_child_samples=5, n_jobs=1, random_state=0, verbose=-1)
    trees.fit(*share(folder, "carol"))
    probs = np.asarray(trees.predict_proba(rows(public)))
    knowledge = fedol.Knowledge.from_probabilities(probs, task, "carol", classes=trees.classes_)
    knowledge.save(folder / "inbox" / "carol.fedol")


def onnx_runtime(folder: Path, task: fedol.Task, public: np.ndarray, epochs: int) -> None:
    """Dave: a model that is only an ONNX file to him, wherever it was trained."""
    import onnxruntime

    model = train_net(folder, "dave", 48, epochs)
    batch = {0: torch.export.Dim("batch")}
    torch.onnx.export(
        model,
        (torch.zeros(2, 64),),
        folder / "dave.onnx",
        input_names=["x"],
        dynamic_shapes=(batch,),
        dynamo=True,
        verbose=False,
    )

    session = onnxruntime.InferenceSession(folder / "dave.onnx")
    (logits,) = session.run(None, {"x": rows(public)})
    fedol.Knowledge.from_logits(logits, task, "dave").save(folder / "inbox" / "dave.fedol")


def federate(folder: Path, epochs: int = 200, iterations: int = 5, server_epochs: int = 20) -> dict[str, Any]:
    """Four clients, four files, one server model."""
    write_demo(folder)
    (folder / "inbox").mkdir(exist_ok=True)
    public = np.load(folder / "public.npz")["public"]
    task = fedol.Task.of(public, [str(digit) for digit in range(10)], name="digits")
    tasks = TaskFolder.create(folder / "task", task, public)

    pytorch(folder, task, public, epochs)
    scikit_learn(folder, task, public)
    lightgbm(folder, task, public)
    onnx_runtime(folder, task, public, epochs)

    settings = ServerConfig(
        task.id, "cnn-large", iterations=iterations, epochs=server_epochs, batch_size=32, device="cpu"
    )
    server = Coordinator(tasks, settings, folder / "run")
    server.collect(sorted((folder / "inbox").glob("*.fedol")))
    return server.run(Pages(), server.test_set(folder / "test.npz"))


if __name__ == "__main__":
    summary = federate(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-mixed"))
    print({client["client"]: client["bytes"] for client in summary["clients"]}, summary["test"])
