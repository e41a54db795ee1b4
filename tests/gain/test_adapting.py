"""A server adapted to a site: as an object, as a file, as ONNX; and what is no good for that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import fedol
from fedol.adapted import Own
from fedol.data import Labelled, load, partition, split
from fedol.errors import FedolError, InputError
from fedol.federation.taskfolder import TaskFolder
from fedol.gain.again import Kind, kind_of, retrained
from fedol.gain.evaluation import contestants, evaluated
from fedol.gain.opening import opened
from fedol.gain.retraining import crossed, joined, lesson
from fedol.knowledge.task import Task
from fedol.methods.sides import Targets
from fedol.model import ServerModel, export_onnx
from fedol.model import load as load_plain
from fedol.runs.published import Published

CLASSES = tuple(str(digit) for digit in range(10))


class Site:
    """A server on digits, and a site that holds two classes much and others little."""

    def __init__(self) -> None:
        data = split(load("digits"), 400, seed=0)
        self.public, truth = data.shared, data.public_labels
        soft = np.full((400, 10), 0.02)
        soft[np.arange(400), truth] = 0.82
        self.server = fedol.distill([soft], self.public, model="mlp", method="union", epochs=15, device="cpu")
        share = data.private.take(partition(data.private.y, "dirichlet:0.3", 4, 0, 10)[1])
        self.train, self.held = share.take(np.arange(0, len(share), 2)), share.take(np.arange(1, len(share), 2))
        targets = Targets(fedol.Knowledge.from_probabilities(soft).probabilities())
        self.published = Published.of(targets, Task.of(self.public, CLASSES))


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


def rows(data: Labelled) -> np.ndarray:
    return data.samples.floats().reshape(len(data), -1)


def forest(site: Site, folder: Path) -> Path:
    path = folder / "forest.joblib"
    joblib.dump(RandomForestClassifier(20, random_state=0).fit(rows(site.train), site.train.y), path)
    return path


def test_the_server_keeps_the_prior_of_what_taught_it(site: Site) -> None:
    prior = site.server.history[-1]["prior"]
    assert len(prior) == 10 and sum(prior) == pytest.approx(1) and max(prior) < 0.2


def test_a_site_with_few_classes_gains_from_its_prior(site: Site) -> None:
    """Adapted without a model of its own, chosen on some samples and scored on others."""
    found = site.server.adapt(site.train.samples, site.train.y, counts=np.bincount(site.train.y, minlength=10).tolist())
    before, after = (np.mean(each.predict(site.held.samples) == site.held.y) for each in (site.server, found))
    assert after >= before and found.evidence["held_out"] == len(site.train)


@pytest.mark.parametrize("kind", ["none", "forest", "net"])
def test_a_file_says_the_same(site: Site, tmp_path: Path, kind: str) -> None:
    own: Own | ServerModel | None = None
    if kind == "forest":
        own = opened(str(forest(site, tmp_path)), CLASSES)
    elif kind == "net":
        own = site.server
    found = site.server.adapt(site.held.samples, site.held.y, own)
    found = replace(found, own=Own.of(own, CLASSES) if isinstance(own, ServerModel) else own)
    if own:
        found = replace(found, adaptation=replace(found.adaptation, own=0.7))
    found.save(tmp_path / "adapted.safetensors")
    again = fedol.load(tmp_path / "adapted.safetensors", trust_code=True)
    assert np.allclose(again.predict_proba(site.held.samples), found.predict_proba(site.held.samples))
    assert again.adaptation == found.adaptation and (again.own is None) == (kind == "none")
    if kind == "forest":
        with pytest.raises(FedolError, match="trust-code"):
            fedol.load(tmp_path / "adapted.safetensors")
        with pytest.raises(FedolError, match="none of FedOL's networks"):
            export_onnx(found, tmp_path / "model.onnx")
    with pytest.raises(FedolError, match="adapted to a site"):
        load_plain(tmp_path / "adapted.safetensors")


def test_its_onnx_says_the_same(site: Site, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    pytest.importorskip("onnxscript", reason="needs the package onnxscript")
    found = site.server.adapt(site.held.samples, site.held.y)
    found = replace(found, own=Own.of(site.server, CLASSES), adaptation=replace(found.adaptation, own=0.5))
    export_onnx(found, tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (said,) = session.run(None, {"images": site.held.samples.array()})
    assert np.allclose(said, found.predict_proba(site.held.samples), atol=1e-4)


def test_a_lesson_weighs_public_samples_by_how_often_the_site_has_them() -> None:
    targets = np.array([[0.9, 0.1], [0.1, 0.9]])
    heard = lesson(targets, [0.5, 0.5], [99, 0])
    assert heard[0].sum() > 5 * heard[1].sum() and heard[0, 0] == pytest.approx(0.9 * 2 * 99.5 / 100)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(10, random_state=0),
        pytest.param(fedol.NetClassifier("mlp", epochs=2, device="cpu", random_state=0), marks=pytest.mark.slow),
    ],
)
def test_its_kind_trained_again(site: Site, tmp_path: Path, estimator: object) -> None:
    found = retrained(site.server, site.train, Kind(estimator), site.public, site.published)
    assert found.evidence["right"] >= found.evidence["right_own"]
    assert isinstance(estimator, RandomForestClassifier) or found.raw()  # a network can be exported
    found.save(tmp_path / "adapted.safetensors")
    again = fedol.load(tmp_path / "adapted.safetensors", trust_code=True)
    assert np.allclose(again.predict_proba(site.held.samples), found.predict_proba(site.held.samples))


@pytest.mark.parametrize("kind", ["array", "sparse", "frame", "texts"])
def test_rows_of_any_kind_are_joined_and_cut(kind: str) -> None:
    """A kind of model that remembers how many rows it saw, cross-fitted on five folds."""

    class Counting:
        def __init__(self, rows: int) -> None:
            self.rows = rows

        def predict_proba(self, asked: Any) -> np.ndarray:
            return np.full((asked.shape[0] if hasattr(asked, "shape") else len(asked), 2), self.rows)

    values = np.arange(20.0).reshape(10, 2)
    given = {"array": values, "sparse": csr_matrix(values), "texts": [str(row) for row in values]}
    x = pytest.importorskip("pandas").DataFrame(values) if kind == "frame" else given[kind]

    def learn(own: Any, labels: np.ndarray) -> Counting:
        both = joined(own, x)
        return Counting(both.shape[0] if hasattr(both, "shape") else len(both))

    assert (crossed(learn, x, np.zeros(10, dtype=np.int64), 2, 0) == 18).all()


def test_targets_of_other_public_samples_are_refused(site: Site) -> None:
    other = replace(site.published, public="0" * 64)
    with pytest.raises(FedolError, match="other public samples"):
        retrained(site.server, site.train, Kind(LogisticRegression()), site.public, other)


def test_what_cannot_be_trained_again_is_refused(site: Site) -> None:
    with pytest.raises(InputError, match="cannot be trained again"):
        kind_of(site.server, "mine.safetensors")


def test_what_nothing_can_be_chosen_on_is_refused(site: Site) -> None:
    one = site.held.take(np.flatnonzero(site.held.y == site.held.y[0]))
    with pytest.raises(InputError, match=r"of the class '\d'"):
        site.server.adapt(one.samples, one.y)
    with pytest.raises(InputError, match="positions among the server's 10 classes"):
        site.server.adapt(site.held.samples, site.held.y + 5)
    with pytest.raises(InputError, match="one each"):
        site.server.adapt(site.held.samples, site.held.y[:-1])
    with pytest.raises(InputError, match="whole numbers"):
        site.server.adapt(site.held.samples, site.held.y / 2)
    old = replace(site.server, history=[{"iteration": 1, "loss": 0.1}])
    with pytest.raises(FedolError, match="earlier version"):
        old.adapt(site.held.samples, site.held.y)


def test_evaluation_counts(site: Site, tmp_path: Path) -> None:
    own = opened(str(forest(site, tmp_path)), CLASSES).answers
    adapted = site.server.adapt(site.held.samples, site.held.y)
    found = evaluated(contestants(adapted, own), site.held, CLASSES)
    right = {name: model["right"] for name, model in found["models"].items()}
    assert list(right) == ["own", "server", "adapted"] and sum(found["counts"]) == len(site.held)
    for name in ("server", "adapted"):
        gap = found["models"][name]["against_own"]
        assert right[name] - right["own"] == gap["wins"] - gap["losses"]
        assert gap["beyond_noise"] == (abs(gap["wins"] - gap["losses"]) > 2 * (gap["wins"] + gap["losses"]) ** 0.5)
        recall = np.array([value or 0 for value in found["models"][name]["recall"]])
        assert recall @ found["counts"] == pytest.approx(right[name])


def test_published_targets_come_back_and_damage_is_said(site: Site, tmp_path: Path) -> None:
    site.published.write(tmp_path)
    again = Published.read(tmp_path)
    assert np.array_equal(again.targets, site.published.targets) and again.classes == CLASSES
    (tmp_path / "targets.safetensors").write_bytes(b"no")
    with pytest.raises(FedolError, match="is damaged"):
        Published.read(tmp_path)
    with pytest.raises(FedolError, match="--publish-targets"):
        Published.read(tmp_path / "elsewhere")


def test_a_task_that_publishes_is_another_task(site: Site, tmp_path: Path) -> None:
    task = Task.of(site.public, CLASSES)
    publishing = replace(task, publish_targets=True)
    assert publishing.id != task.id
    TaskFolder.create(tmp_path / "a", publishing, site.public)
    TaskFolder.create(tmp_path / "b", task, site.public)
    assert TaskFolder.open(tmp_path / "a").task == publishing and TaskFolder.open(tmp_path / "b").task == task
    assert "publish_targets" not in (tmp_path / "b" / "task.json").read_text()
