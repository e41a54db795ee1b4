"""Estimators as modules: what they learn, say, keep and refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from fedol.data.samples import samples
from fedol.errors import FedolError, InputError
from fedol.model import Architecture, ServerModel, load
from fedol.models import create, parameter_count, size_of
from fedol.models.estimators import ESTIMATORS
from fedol.models.fitted import STATE, Copies, Fitted, check_teachable
from fedol.models.held import Held
from fedol.models.openset import OpenSet
from fedol.training import Job, fit
from fedol.training.job import folds_of

IMAGES = samples(np.random.default_rng(0).integers(0, 256, (60, 1, 3, 3)).astype(np.uint8))
X = IMAGES.floats()
LABELS = torch.from_numpy((X[:, 0, 0, 0] * 2.999).astype(np.int64))  # three classes that the first pixel tells
CLASSES = ["a", "b", "c", "d"]  # nobody has the last


def taught(spec: Any, seed: int = 3, soft: bool = False) -> tuple[ServerModel, Fitted]:
    """A model of four classes on the images; with ``soft`` targets."""
    architecture = Architecture.on(IMAGES, spec, CLASSES, 16)
    module = architecture.build(seed)
    assert isinstance(module, Fitted)
    targets = 1.4 * (0.9 * torch.nn.functional.one_hot(LABELS, 4) + 0.025) if soft else LABELS
    module.learn(architecture.prepare(IMAGES.batch(slice(None))), targets)
    return ServerModel(module, architecture), module


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_named_one_learns_both_kinds_of_targets_and_is_the_same_once_read(name: str, tmp_path: Path) -> None:
    model, module = taught(name)
    again, soft = taught(name)[0], taught(name, soft=True)[0]
    for learnt in (model, soft):
        assert (learnt.predict(IMAGES) == LABELS.numpy()).mean() > 0.9
        assert np.allclose(learnt.predict_proba(IMAGES).sum(1), 1, atol=1e-6)
    model.save(tmp_path / "m.safetensors")
    again.save(tmp_path / "again.safetensors")
    read = load(tmp_path / "m.safetensors")
    read.save(tmp_path / "read.safetensors")
    whole = (tmp_path / "m.safetensors").read_bytes()
    assert whole == (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "read.safetensors").read_bytes()
    assert torch.equal(read.predict_log_proba(IMAGES), model.predict_log_proba(IMAGES))
    record = size_of(module)
    assert record["parameters"] == parameter_count(module) > parameter_count(create(name, classes=4, shape=(9,))) == 0
    assert record["size"].split()[0] == f"{record['parameters']:,}"


def test_rare_words_do_not_drown_those_that_a_logistic_regression_is_to_hear() -> None:
    rng, rare = np.random.default_rng(0), 1000
    labels = np.arange(400) % 2
    texts = np.zeros((400, 10 + rare), np.float32)
    for text, label in zip(texts, labels, strict=True):
        text[5 * label + rng.choice(5, 2, replace=False)] = 1  # two of its class's five words, which no other text has
        text[10 + rng.choice(rare, 10, replace=False)] = 1
    module = create("logistic", classes=2, shape=(10 + rare,))
    assert isinstance(module, Fitted)
    module.learn(torch.from_numpy(texts[:200]), torch.from_numpy(labels[:200]))
    assert (module(torch.from_numpy(texts[200:])).argmax(1).numpy() == labels[200:]).mean() > 0.98


def test_it_says_what_the_estimator_says_as_if_it_had_seen_one_sample_more() -> None:
    model, module = taught(RandomForestClassifier(5))
    rows = model.architecture.prepare(IMAGES.batch(slice(None))).flatten(1).numpy()
    for row, said in zip(module.learner.estimator.predict_proba(rows), model.predict_proba(IMAGES), strict=True):
        slow = [(60 * p + 1 / 4) / 61 for p in (*row, 0.0)]
        assert said == pytest.approx(slow, abs=1e-6)
    fresh = create("forest", classes=4, shape=(1, 3, 3))
    assert torch.allclose(fresh(torch.zeros(2, 1, 3, 3)).exp(), torch.tensor(0.25))


@pytest.mark.parametrize("given", [ExtraTreesClassifier(7), KNeighborsClassifier(3), GaussianNB(), "pipeline"], ids=str)
def test_any_estimator_is_handed_over_as_it_is(given: Any, tmp_path: Path) -> None:
    spec = make_pipeline(StandardScaler(), SVC(probability=True)) if given == "pipeline" else given
    model, module = taught(spec)
    assert module.learner.estimator is not spec and not hasattr(spec, "n_features_in_")
    model.save(tmp_path / "m.safetensors")
    read = load(tmp_path / "m.safetensors", model=spec)
    assert torch.equal(read.predict_log_proba(IMAGES), model.predict_log_proba(IMAGES))
    # Its class is code: what this process has built it reads again, and nobody else without a word.
    assert torch.equal(load(tmp_path / "m.safetensors").predict_log_proba(IMAGES), read.predict_log_proba(IMAGES))
    other, _ = taught(LogisticRegression())
    other.save(tmp_path / "other.safetensors")
    with pytest.raises(FedolError, match=r"other.safetensors is damaged \(.*\); give a FedOL model file"):
        load(tmp_path / "other.safetensors", model=spec)


def test_its_settings_and_its_name_are_code_that_counts() -> None:
    from fedol.config import RunConfig

    first, same, other = (RunConfig(server_model=RandomForestClassifier(n)) for n in (3, 3, 4))
    assert first.as_json()["server_model"] == "sklearn.ensemble._forest:RandomForestClassifier"
    assert first.code == same.code and not first.other_code(same.code)
    (changed,) = other.other_code(first.code)
    assert changed == "the model 'RandomForestClassifier' (server_model)"
    mixed = RunConfig(client_models=[GaussianNB(), "mlp", RandomForestClassifier(3)])
    assert [type(spec).__name__ for spec in mixed.client_models] == ["GaussianNB", "str", "RandomForestClassifier"]


def test_a_client_with_one_class_or_some_of_them() -> None:
    module = create("forest", classes=4, shape=(2,), seed=0)
    assert isinstance(module, Fitted)
    x = torch.arange(20.0).reshape(10, 2)
    module.learn(x, torch.full((10,), 2))
    assert module(x).argmax(1).tolist() == [2] * 10 and module(x).exp()[0, 0] == pytest.approx(1 / 44)
    fresh = create("forest", classes=4, shape=(2,), seed=1)
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh(x), module(x))
    held = Held(create("logistic", classes=2, shape=(2,)), [1, 3], 4)
    labels = torch.tensor([1, 3] * 5)
    assert held.own(labels).tolist() == [0, 1] * 5
    assert held.own(torch.eye(4)).tolist() == [[0, 0], [1, 0], [0, 0], [0, 1]]


def test_a_client_with_folds_has_an_estimator_for_each() -> None:
    from dataclasses import replace

    architecture = replace(Architecture.on(IMAGES, "logistic", CLASSES, 16), folds=3)
    module = architecture.build(0)
    assert isinstance(module, OpenSet)
    for net in module.nets:
        net.learn(architecture.prepare(IMAGES.batch(slice(None))), LABELS)  # type: ignore[operator]
    assert sorted(module.state_dict()) == [f"nets.{k}.{STATE}" for k in range(3)]
    again = architecture.build(1)
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(torch.zeros(2, 1, 3, 3)), module(torch.zeros(2, 1, 3, 3)))


def test_what_cannot_be_a_model_is_said_at_once() -> None:
    def build(spec: Any) -> Any:
        return create(spec, classes=3, shape=(1, 3, 3))

    with pytest.raises(InputError, match="The model 'SVC' has no predict_proba, so it cannot say how likely"):
        build(SVC())
    with pytest.raises(FedolError, match=r"The model 'Pipeline' holds .*<lambda>, which is code that no file may"):
        build(make_pipeline(FunctionTransformer(lambda x: x), LogisticRegression()))
    with pytest.raises(InputError, match="by sample_weight, which KNeighborsClassifier does not take"):
        check_teachable(build(KNeighborsClassifier()))
    check_teachable(build("mlp"))
    with pytest.raises(InputError, match=r"must create a torch.nn.Module or an estimator, not a dict"):
        build(lambda: {"a": 1})


def test_missing_values_go_to_those_that_take_them() -> None:
    x = torch.arange(30.0).reshape(10, 3)
    x[4, 1] = torch.nan
    for name in ("hist-boosting", "lightgbm", "xgboost", "forest"):
        module = create(name, classes=2, shape=(3,))
        module.learn(x, torch.arange(10) % 2)  # type: ignore[operator]
        assert torch.isfinite(module(x)).all()
    module = create("logistic", classes=2, shape=(3,))
    with pytest.raises(
        InputError, match="'logistic' cannot take a missing value, which sample 4 has in column 1; fill"
    ):
        module.learn(x, torch.arange(10) % 2)  # type: ignore[operator]
    x[7, 2] = torch.inf
    with pytest.raises(InputError, match="'xgboost' cannot take an infinite value, which sample 7 has in column 2"):
        create("xgboost", classes=2, shape=(3,)).learn(x, torch.arange(10) % 2)  # type: ignore[operator]


def test_a_failing_estimator_is_one_sentence() -> None:
    class Failing(LogisticRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            raise RuntimeError("no\nidea")

    module = Fitted(LogisticRegression(), 2, 3, "mine")
    module.learner.estimator = Failing()
    with pytest.raises(InputError, match=r"^The model .mine. cannot learn: RuntimeError: no idea\.$"):
        module.learn(torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize("folds", [0, 2])
def test_of_findings_it_is_an_estimator_for_each(folds: int, tmp_path: Path) -> None:
    marks = torch.stack([LABELS == 0, LABELS > 0, LABELS == 2], 1).long()
    whole = Architecture.on(IMAGES, "forest", ("no", "yes"), 16, findings=("none", "some", "much"))
    architecture = replace(whole, folds=folds)
    module = architecture.build(3)
    job = Job("x", module, IMAGES, marks, architecture.prepare)
    for one in folds_of(job, module, IMAGES, 2) if isinstance(module, OpenSet) else [job]:
        (result,) = fit([one], torch.device("cpu"))
        assert result.error is None
    model = ServerModel(module, architecture)
    assert (model.predict(IMAGES) == marks.numpy()).mean() > 0.9
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(IMAGES), model.predict_proba(IMAGES))
    assert size_of(again.module) == size_of(module)


def test_of_findings_an_answer_may_be_soft_or_nothing() -> None:
    whole = Architecture.on(IMAGES, "logistic", ("no", "yes"), 16, findings=("none", "some"))
    copies = whole.build(3)
    assert isinstance(copies, Copies)
    said = torch.nn.functional.one_hot(torch.stack([LABELS == 0, LABELS > 0], 1).long(), 2) * 0.8 + 0.1
    said[40:, 1] = 0  # nothing about the second finding of these
    copies.learn(whole.prepare(IMAGES.batch(slice(None))), said)
    assert [net.samples for net in copies.nets] == [60, 40]
    found = copies(whole.prepare(IMAGES.batch(slice(None)))).exp()
    assert torch.allclose(found.sum(-1), torch.ones(60, 2))
    assert found[:, 0, 1].mean() == pytest.approx(float(said[:, 0, 1].mean()), abs=0.02), "a regression keeps the mean"
