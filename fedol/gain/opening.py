"""Models as a site opens them: the server's, adapted or not, and its own, of any framework."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from fedol import model as files
from fedol.adapted import FORMAT, AdaptedModel, Own, no_findings
from fedol.core.adaptation import Adaptation
from fedol.data import Labelled, Reading
from fedol.errors import FedolError, InputError
from fedol.federation.client import client_data
from fedol.federation.predictors import OURS, Asked, open_model
from fedol.files import intact, read_header, read_tensors
from fedol.knowledge.task import Task
from fedol.model import ServerModel
from fedol.models import ModelSpec

Opened = ServerModel | AdaptedModel
AGAIN = "give a FedOL model file, or make it again"


def load(run: str | Path, model: ModelSpec | None = None, trust_code: bool = False) -> Opened:
    """The trained server model of a run folder, or of one model file, ready to predict; also one adapted to a site.

    A file may name one of FedOL's models, or a class that this process has built a model of already: a run made here
    is read here. Any other name is code that loading would run, and a file's word is not enough for that: hand the
    class over as ``model``, or say ``trust_code=True`` if you trust whoever made the file. An adapted file may hold the
    site's own model as a ``.joblib``, which is code, too.
    """
    if not isinstance(run, str | Path) or not Path(run).is_file():
        return files.load(run, model, trust_code)
    path = Path(run)
    with intact(path, AGAIN):
        adapted = FORMAT in read_header(path)
    return _adapted(path, model, trust_code) if adapted else files.load(run, model, trust_code)


def _adapted(path: Path, model: ModelSpec | None, trust_code: bool) -> AdaptedModel:
    with intact(path, AGAIN):
        parts, header = read_tensors(path)
        suffix, evidence = header["own"], dict(header["evidence"])
        if suffix not in (None, OURS, ".onnx", ".joblib") or ("own" in parts) != (suffix is not None):
            raise InputError("its own model is of no known kind")
        data = {name: part.numpy().tobytes() for name, part in parts.items()}
    if suffix == ".joblib" and not trust_code:
        raise FedolError(
            f"{path} holds the site's own model as Python objects, which run code when they are read; say --trust-code "
            "(trust_code=True) if the file is yours."
        )
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / f"server{OURS}"
        place.write_bytes(data["server"])
        server, own = files.load(place, model, trust_code), None
        with intact(path, AGAIN):
            adaptation = Adaptation.from_json(header[FORMAT], len(server.classes))
        if suffix:
            place = Path(scratch) / f"own{suffix}"
            place.write_bytes(data["own"])
            own = opened(str(place), server.classes, trust_code)
    return AdaptedModel(server, adaptation, own, evidence)


def opened(spec: str, classes: tuple[str, ...], trust_code: bool = False) -> Own:
    """A site's own model about the server's classes: a file, or ``my.py:load``, which cannot go into another file."""
    found, path = open_model(spec, trust_code), Path(spec)
    if isinstance(found, ServerModel) and found.classes == classes:
        return Own.of(found, classes)
    file = path.read_bytes() if path.exists() else b""
    return Own(Asked(spec, found, common(classes)), file, path.suffix)


def common(classes: tuple[str, ...]) -> Task:
    """What a site and a server share where no public sample is asked about: the classes."""
    return Task(classes, 1, "")


def site_data(source: str, server: Opened, reading: Reading = Reading()) -> tuple[Labelled, Labelled]:
    """A site's training and held-out samples, labelled with the server's classes; such as the server takes."""
    no_findings(server)
    train, held = client_data(source, common(server.classes), reading.under(server.architecture.prepare))
    for part in (train, held):
        known = server.architecture
        known.prepare.accept(part.samples, known.shape)
    return train, held


def class_counts(parts: tuple[Labelled, ...], classes: int) -> list[int]:
    """How many of their samples are of each class."""
    labels = np.concatenate([part.y for part in parts])
    return [int(count) for count in np.bincount(labels, minlength=classes)]
