"""``fedol.OneShotClassifier``: scikit-learn's own checks, its tools, and what makes it a federation."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedol
from fedol.data.partitions import partition
from fedol.errors import InputError
from fedol.models.soft import SoftClassifier, likely

# What a classifier of its nature cannot do, by the name of scikit-learn's check: so far it can do all of it.
CANNOT: dict[str, str] = {}
SMALL = {"clients": RandomForestClassifier(6), "n_clients": 2, "server": RandomForestClassifier(12), "random_state": 0}


@parametrize_with_checks(
    [
        fedol.OneShotClassifier(LogisticRegression(), 2, server=LogisticRegression(), random_state=0),
        fedol.OneShotClassifier(**SMALL),
        fedol.OneShotClassifier(LogisticRegression(), 2, "pooled", LogisticRegression(), random_state=0),
    ],
    expected_failed_checks=lambda estimator: CANNOT,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def digits() -> tuple[Any, ...]:
    return tuple(train_test_split(*load_digits(return_X_y=True), random_state=0))


def uneven(labels: np.ndarray, clients: int = 6) -> np.ndarray:
    """Who holds each sample."""
    owner = np.empty(len(labels), dtype=object)
    for k, share in enumerate(partition(labels, "dirichlet:0.05", clients, 0, 10)):
        owner[share] = f"site {k}"
    return owner


@pytest.mark.slow
def test_uneven_clients_teach_a_server_of_another_kind(digits: tuple[Any, ...]) -> None:
    train, test, y, truth = digits
    public, private = np.split(np.random.default_rng(0).permutation(len(y)), [300])
    sites = uneven(y[private])
    score = {}
    for method in ("union", "feddf-probs"):
        learnt = fedol.OneShotClassifier(
            RandomForestClassifier(40, min_samples_leaf=2),
            method=method,
            server=LogisticRegression(max_iter=500),
            random_state=0,
        )
        score[method] = learnt.fit(train[private], y[private], train[public], groups=sites).score(test, truth)
        assert [each.client for each in learnt.knowledge_] == [f"site {k}" for k in range(6)]
        assert all(each.log_probs.shape == (300, 10) for each in learnt.knowledge_)
    assert score["union"] > 0.85 > 0.6 > score["feddf-probs"]


def test_the_labels_of_a_public_share_are_used_by_nobody(digits: tuple[Any, ...]) -> None:
    train, test, y, _ = digits
    learnt = fedol.OneShotClassifier(**SMALL)
    before = learnt.fit(train, y).predict_proba(test)
    shared = np.setdiff1d(np.arange(len(y)), learnt._split(len(y), _seed())[0])
    assert len(shared) == round(0.2 * len(y))
    other = y.copy()
    other[shared] = np.roll(y[shared], 1)
    assert (fedol.OneShotClassifier(**SMALL).fit(train, other).predict_proba(test) == before).all()
    other = y.copy()
    other[np.setdiff1d(np.arange(len(y)), shared)[:50]] = 0
    assert not (fedol.OneShotClassifier(**SMALL).fit(train, other).predict_proba(test) == before).all()


def _seed() -> int:
    """What ``random_state=0`` comes to."""
    return int(np.random.RandomState(0).randint(2**31 - 1))


def test_pipelines_search_cross_validation_and_copies(digits: tuple[Any, ...]) -> None:
    train, test, y, truth = (part[:700] for part in digits)
    learnt = fedol.OneShotClassifier(**SMALL)
    scores = cross_val_score(learnt, train, y, cv=3)
    assert len(scores) == 3 and scores.min() > 0.5
    sites = np.arange(len(y)) % 3
    routed = cross_val_score(learnt, train, y, groups=sites, cv=GroupKFold(3), params={"groups": sites})
    assert routed.min() > 0.5
    search = GridSearchCV(learnt, {"server__max_depth": [1, 10], "clients__n_estimators": [5]}, cv=2).fit(train, y)
    assert search.best_params_ == {"server__max_depth": 10, "clients__n_estimators": 5}
    scaled = make_pipeline(StandardScaler(), fedol.OneShotClassifier(**{**SMALL, "clients": LogisticRegression()}))
    assert scaled.fit(train, y, oneshotclassifier__groups=sites).score(test, truth) > 0.6
    probs = learnt.fit(train, y).predict_proba(test)
    for copy in (pickle.loads(pickle.dumps(learnt)), clone(learnt).fit(train, y)):
        assert (copy.predict_proba(test) == probs).all()


def test_names_frames_and_sparse_matrices() -> None:
    pandas = pytest.importorskip("pandas", reason="frames need pandas (fedol[frame])")
    from scipy import sparse

    wine = load_wine(as_frame=True)
    names = wine.target_names[wine.target]
    frame = wine.data.assign(note="plain").astype({"note": "category"})
    forests = {
        "clients": HistGradientBoostingClassifier(max_iter=20),
        "server": HistGradientBoostingClassifier(max_iter=20),
    }
    learnt = fedol.OneShotClassifier(n_clients=2, random_state=0, **forests).fit(frame, names)
    assert set(learnt.predict(frame)) <= set(wine.target_names) and learnt.score(frame, names) > 0.7
    assert list(learnt.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        learnt.predict(frame.rename(columns={"ash": "dust"}))
    logistic = {"clients": LogisticRegression(max_iter=500), "server": LogisticRegression(max_iter=500)}
    rows = StandardScaler().fit_transform(wine.data)
    dense = fedol.OneShotClassifier(n_clients=2, random_state=0, **logistic).fit(rows, names)
    thin = fedol.OneShotClassifier(n_clients=2, random_state=0, **logistic).fit(sparse.csr_matrix(rows), names)
    assert np.allclose(dense.predict_proba(rows), thin.predict_proba(sparse.csr_matrix(rows)), atol=0.05)
    assert isinstance(frame, pandas.DataFrame)


def test_networks_are_clients_and_servers_of_images() -> None:
    digits = load_digits()
    images = np.minimum(digits.images * 16, 255).astype(np.uint8)
    train, test, y, truth = train_test_split(images, digits.target, random_state=0)
    nets = [fedol.NetClassifier(name, epochs=6) for name in ("cnn", "mlp")]
    learnt = fedol.OneShotClassifier(
        [*nets, "mlp"], 3, server=fedol.NetClassifier("cnn-large", epochs=15, batch_size=16), random_state=0
    ).fit(train, y)
    assert learnt.score(test, truth) > 0.8
    again = pickle.loads(pickle.dumps(learnt))
    assert (again.predict_proba(test) == learnt.predict_proba(test)).all()
    alone = fedol.NetClassifier("mlp", epochs=15, random_state=0).fit(train, digits.target_names[y])
    assert alone.score(test, truth) > 0.8 and set(alone.get_params()) >= {"epochs", "lr", "patch", "average"}
    with pytest.raises(InputError, match=r"A network takes images, .* but these are \[10, 64\]"):
        alone.predict(np.zeros((10, 64)))


def test_soft_targets_are_learnt_as_they_are() -> None:
    soft = np.array([[0.7, 0.3, 0.0], [0.2, 0.795, 0.005], [0.1, 0.1, 1.0]])
    place, label, weight = likely(soft)
    slow = [(n, c, t) for n, row in enumerate(soft) for c, t in enumerate(row) if t >= 0.01 * row.sum()]
    assert list(zip(place, label, strict=True)) == [(n, c) for n, c, _ in slow]
    assert [weight[place == n].sum() for n in range(3)] == pytest.approx(soft.sum(1))
    # Of samples that cannot be told apart, the best answer is the mean target.
    alike, many = np.zeros((60, 1)), np.tile([[0.7, 0.3, 0.0], [0.1, 0.9, 0.0]], (30, 1))
    server = SoftClassifier(LogisticRegression(C=1e6)).fit(alike, many)
    assert server.predict_proba(alike[:1])[0] == pytest.approx([0.4, 0.6, 0.0], abs=1e-3)
    within = SoftClassifier(make_pipeline(StandardScaler(), LogisticRegression(C=1e6))).fit(alike, many)
    assert within.predict_proba(alike[:1])[0] == pytest.approx([0.4, 0.6, 0.0], abs=1e-3)


class Counting(LogisticRegression):
    """Counts its trainings."""

    fits = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


def test_a_method_of_several_iterations_trains_its_server_as_often(digits: tuple[Any, ...]) -> None:
    train, test, y, truth = (part[:400] for part in digits)
    Counting.fits = 0
    learnt = fedol.OneShotClassifier(RandomForestClassifier(10), 2, "fedol", Counting(max_iter=200), random_state=0)
    assert learnt.fit(train, y).score(test, truth) > 0.6
    assert Counting.fits == 10


class Mute(BaseEstimator):  # type: ignore[misc]
    """Predicts no probabilities."""

    def fit(self, x: Any, y: Any) -> Mute:
        return self


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "fedavg"}, "no method in which clients send predictions; those are feddf,"),
        ({"method": "unoin"}, "did you mean 'union'"),
        ({"method": np.zeros((9, 9))}, r"must be a name, but is ndarray of shape \[9, 9\]"),
        ({"server": KNeighborsClassifier()}, "by sample_weight, which KNeighborsClassifier does not take"),
        ({"clients": Mute()}, "has no predict_proba"),
        ({"clients": "cnn"}, "A network takes images"),
        ({"public_share": 1.5}, "must lie between 0 and 1, but is 1.5"),
        ({"public_share": np.zeros(9)}, r"between 0 and 1, but is ndarray of shape \[9\]"),
        ({"n_clients": 1000}, "too few for 1,000 clients"),
        ({"n_clients": "two"}, "a whole number, not 'two'"),
        ({"partition": "dirichlet"}, "There is no partition"),
        ({"folds": 1}, "folds must be"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(changes: dict[str, Any], words: str, digits: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=words):
        fedol.OneShotClassifier(**{**SMALL, **changes}).fit(digits[0][:100], digits[2][:100])
