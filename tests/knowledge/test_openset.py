"""A client of any framework for the union: against a slow version, known densities, and every kind of input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import fedol
from fedol import Knowledge, OpenSet, Task
from fedol.core.mixture import Mixture
from fedol.data import partition
from fedol.errors import InputError

LOGISTIC = LogisticRegression()
FOREST = RandomForestClassifier(10, random_state=0)
MODELS = {"logistic": LOGISTIC, "forest": FOREST}


def blobs(counts: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Samples of a few overlapping classes, as many of each as said."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return rng.normal(0, 1, (len(y), 3)) + 2 * np.eye(len(counts), 3)[y], y


X, Y = blobs([30, 20, 25])
PUBLIC, _ = blobs([15, 15, 15], seed=1)


class Table:
    """What share of the samples in a cell has which label; it counts its fits, and scikit-learn cannot clone it."""

    fits: int = 0

    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        type(self).fits += 1
        self.counts = np.zeros((int(x.max()) + 1, int(y.max()) + 1))
        np.add.at(self.counts, (x[:, 0], y), 1.0)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        found = self.counts[x[:, 0]]
        return found / found.sum(1, keepdims=True)


def literal(model: Any, x: np.ndarray, y: np.ndarray, public: np.ndarray, classes: list[Any], folds: int) -> np.ndarray:
    """The definition, one public sample at a time, with fits of its own for each."""
    found = np.full((len(public), len(classes)), -math.inf)
    held = sorted(set(y.tolist()))
    closed = model.fit(x, y).predict_proba(public)
    for i in range(len(public)):
        shown = [public[j] for j in range(len(public)) if j % folds != i % folds]
        labels = [held.index(c) for c in y.tolist()] + [len(held)] * len(shown)
        says = model.fit(np.stack([*x, *shown]), labels).predict_proba(public[i][None])[0]
        least = 1 / (len(x) + len(shown) + len(held) + 1)
        mass = max(math.fsum(says[:-1]), least) / max(says[-1], least) * (folds - 1) / folds
        for column, c in enumerate(held):
            if closed[i, column] > 0:
                found[i, classes.index(c)] = math.log(closed[i, column]) + math.log(mass)
    return found


@pytest.mark.parametrize("folds", [2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_it_is_the_slow_version(model: str, folds: int) -> None:
    few = PUBLIC[:13]
    found = OpenSet(MODELS[model], folds).fit(X, Y + 4, few, classes=[6, 9, 4, 5]).log_ratios()
    expected = literal(MODELS[model].__sklearn_clone__(), X, Y + 4, few, [6, 9, 4, 5], folds)
    assert found.dtype == np.float64 and (found[:, 1] == -np.inf).all()
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_known_densities_are_found_exactly(folds: int) -> None:
    """With exact frequencies the sum over clients is the posterior of all their data, whoever holds what."""
    rng = np.random.default_rng(folds)
    held = rng.integers(1, 9, (4, 6, 3))  # samples of each client, cell and class
    public = np.repeat(np.arange(6), folds * rng.integers(1, 4, 6))[:, None]  # as many of a cell in every fold
    ratios = []
    for counts in held:
        x, y = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
        client = OpenSet(Table(), folds).fit(x[:, None], y, public)
        expected = (counts / np.bincount(public[:, 0])[:, None])[public[:, 0]]
        np.testing.assert_allclose(np.exp(client.log_ratios()), expected, rtol=1e-12)
        assert client.mass_ == pytest.approx(1.0) and client.familiar
        ratios.append(np.exp(client.log_ratios()))
    everything = held.sum(0)[public[:, 0]]
    np.testing.assert_allclose(fedol.union(np.stack(ratios)), everything / everything.sum(1, keepdims=True), rtol=1e-12)


def test_the_predictions_are_what_the_client_would_send_without_a_mass(tmp_path: Path) -> None:
    task = Task(("a", "b", "c"), len(PUBLIC), "x")
    sent = OpenSet(FOREST, folds=3).fit(X, Y, PUBLIC).knowledge(task, "alice")
    today = Knowledge.from_probabilities(FOREST.__sklearn_clone__().fit(X, Y).predict_proba(PUBLIC), task, "alice")
    assert torch.equal(sent.log_probs, today.log_probs) and sent.task == today.task and sent.client == "alice"
    assert sent.ratios is not None and (sent.ratios.private, sent.ratios.folds) == (len(Y), 3)
    sent.save(tmp_path / "alice.fedol", "float32")
    assert Knowledge.load(tmp_path / "alice.fedol", task).ratios == sent.ratios
    assert not hasattr(FOREST, "estimators_")  # copies were fitted


def test_a_client_of_one_class_needs_no_fit_for_its_predictions() -> None:
    Table.fits = 0
    cells, public = np.arange(8)[:, None] % 4, np.repeat(np.arange(4), 2)[:, None]
    client = OpenSet(Table()).fit(cells, ["eel"] * 8, public, classes=("cat", "eel"))
    assert Table.fits == 2
    assert (client.log_ratios()[:, 0] == -np.inf).all()
    np.testing.assert_allclose(client.log_ratios()[:, 1], 0.0, atol=1e-12)
    torch.testing.assert_close(client.knowledge().probabilities(), torch.tensor([[0.0, 1.0]] * 8))


@pytest.mark.parametrize("kind", ["list", "object", "text"])
def test_labels_may_be_names_or_positions_among_them(kind: str) -> None:
    names = ("wolf", "cat", "dog", "eel")
    numbers = OpenSet(LOGISTIC).fit(X, Y + 1, PUBLIC, classes=names)
    words = [names[c + 1] for c in Y]
    y: Any = words if kind == "list" else np.array(words, dtype=object if kind == "object" else None)
    by_name = OpenSet(LOGISTIC).fit(X, y, PUBLIC, classes=names)
    np.testing.assert_allclose(numbers.log_ratios(), by_name.log_ratios(), atol=1e-3)
    assert (by_name.log_ratios()[:, 0] == -np.inf).all() and by_name.classes_ == list(names)
    task = Task(names, len(PUBLIC), "x")
    for placed in (by_name, OpenSet(LOGISTIC).fit(X, y, PUBLIC), OpenSet(LOGISTIC).fit(X, Y + 1, PUBLIC)):
        found = placed.knowledge(task)
        assert (found.probabilities()[:, 0] < 1e-30).all()
        torch.testing.assert_close(found.log_probs, by_name.knowledge().log_probs, atol=1e-3, rtol=0)


def test_labels_that_are_whole_as_floats_or_bools_are_numbers() -> None:
    first = OpenSet(LOGISTIC).fit(X, Y.astype(float), PUBLIC).log_ratios()
    np.testing.assert_array_equal(first, OpenSet(LOGISTIC).fit(X, Y, PUBLIC).log_ratios())
    assert OpenSet(LOGISTIC).fit(X, Y > 0, PUBLIC).classes_ == [0, 1]


def test_sparse_matrices_are_what_arrays_are() -> None:
    dense = OpenSet(LOGISTIC).fit(X, Y, PUBLIC).log_ratios()
    for kind in (sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix):
        np.testing.assert_allclose(OpenSet(LOGISTIC).fit(kind(X), Y, kind(PUBLIC)).log_ratios(), dense, atol=1e-4)
    np.testing.assert_allclose(OpenSet(LOGISTIC).fit(X, Y, sparse.csr_array(PUBLIC)).log_ratios(), dense, atol=1e-4)


def test_samples_may_be_texts_in_a_list() -> None:
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    texts = ["a cat sat", "the cat ran", "a dog sat", "the dog ran"]
    found = OpenSet(model).fit(texts, ["cat", "cat", "dog", "dog"], ["one cat", "one dog", "a cat", "a dog"])
    assert found.log_ratios().argmax(1).tolist() == [0, 1, 0, 1]


def test_frames_are_what_arrays_are() -> None:
    pd = pytest.importorskip("pandas", reason="needs the package pandas")
    names = ["a", "b", "c"]
    own, public = pd.DataFrame(X, columns=names, index=np.arange(len(X)) + 7), pd.DataFrame(PUBLIC, columns=names)
    found = OpenSet(FOREST).fit(own, pd.Series(Y), public).log_ratios()
    np.testing.assert_array_equal(found, OpenSet(FOREST).fit(X, Y, PUBLIC).log_ratios())
    for other in (PUBLIC, public[["b", "a", "c"]]):
        with pytest.raises(InputError, match="same columns"):
            OpenSet(FOREST).fit(own, Y, other)


def test_a_frame_and_an_array_are_not_joined() -> None:
    class Frame:
        columns, shape, iloc = ("a", "b", "c"), X.shape, X

    with pytest.raises(InputError, match="same columns"):
        OpenSet(FOREST).fit(Frame(), Y, PUBLIC)


def test_lightgbm_is_a_client() -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="needs the package lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=20, min_child_samples=5, n_jobs=1, verbose=-1)
    public, truth = blobs([40, 40, 40], seed=2)
    found = OpenSet(model).fit(*blobs([60, 60, 60]), public).log_ratios()
    assert (found.argmax(1) == truth).mean() > 0.7
    alone = OpenSet(model).fit(X, np.zeros(len(X), int), public, classes=range(3))
    assert np.isfinite(alone.log_ratios()[:, 0]).all() and alone.mass_ > 0.1


def test_a_model_may_have_more_outputs_than_there_are_labels() -> None:
    class Wide(Table):
        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            return np.hstack([0.9 * super().predict_proba(x), np.full((len(x), 2), 0.05)])

    cells, y, public = np.arange(12)[:, None] % 4, np.arange(12) % 3, np.repeat(np.arange(4), 2)[:, None]
    wide, narrow = (OpenSet(model).fit(cells, y, public) for model in (Wide(), Table()))
    np.testing.assert_allclose(wide.log_ratios(), narrow.log_ratios(), atol=1e-12)


def test_what_a_model_rules_out_has_a_bounded_mass() -> None:
    """In cell 0 all is private, in cell 1 all public, as far as each fit can see; both are zeros by luck."""
    private, public = np.array([[0], [0], [0], [0], [1], [1]]), np.array([[0], [1], [2], [1], [2], [1]])

    class Unsure(Table):
        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            public_only = [0.0] * (self.counts.shape[1] - 1) + [1.0]
            return np.array([public_only if cell else public_only[::-1] for cell in x[:, 0]])

        def fit(self, x: np.ndarray, y: np.ndarray) -> None:
            self.counts = np.zeros((1, int(y.max()) + 1))

    client = OpenSet(Unsure()).fit(private, [0, 1] * 3, public)
    mass = np.logaddexp.reduce(client.log_ratios(), 1)
    labels = 6 + 3 + 3  # a fit's samples and its labels
    np.testing.assert_allclose(mass, np.log([labels / 2] + [1 / labels / 2] * 5))
    assert client.knowledge().log_mass is not None


def test_a_public_set_of_another_domain_is_noticed() -> None:
    alike = OpenSet(LOGISTIC).fit(X, Y, PUBLIC)
    strange = OpenSet(LOGISTIC).fit(X, Y, PUBLIC + 8)
    assert alike.familiar and 0.5 < alike.mass_ < 2
    assert not strange.familiar and strange.mass_ < 0.05


class Silent(Table):
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.full((len(x), 9), np.nan)


class Short(Table):
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.ones((len(x), 1))


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (LOGISTIC, {"y": Y[:-1]}, r"75 private samples, but y has the shape \[74\]"),
        (LOGISTIC, {"y": Y + 0.5}, "whole numbers or names"),
        (LOGISTIC, {"y": np.full(len(Y), np.nan)}, "whole numbers or names"),
        (LOGISTIC, {"y": np.array([None] * len(Y))}, "whole numbers or names"),
        (LOGISTIC, {"x": X[:0], "y": Y[:0]}, "none of the private samples"),
        (LOGISTIC, {"public": 3}, "none of the public samples"),
        (LOGISTIC, {"public": PUBLIC[:1]}, "1 public samples cannot be cut into 2 folds"),
        (LOGISTIC, {"public": PUBLIC[:, :2]}, r"shapes \[3\] and \[2\]"),
        (LOGISTIC, {"classes": [0, 1]}, "the class 2, which is not one of the 2 classes: 0, 1"),
        (LOGISTIC, {"classes": ["a", "b"]}, "the class 2, which is not one of the 2 classes: a, b"),
        (LOGISTIC, {"classes": [0, 1, 2, 1]}, "all be different"),
        (LOGISTIC, {"y": [f"c{c}" for c in Y], "classes": range(3)}, "the class c0"),
        (Silent(), {"x": Y[:, None], "public": Y[:, None]}, "Silent gives no probabilities"),
        (Short(), {"x": Y[:, None], "public": Y[:, None]}, r"Short was fitted to 3 labels.* \[75, 1\]"),
    ],
)
def test_what_does_not_fit_is_said(model: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        OpenSet(model).fit(**{"x": X, "y": Y, "public": PUBLIC, **changes})
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "folds", "words"),
    [
        (LOGISTIC, 1, "folds must be a whole number of at least 2, but is 1"),
        (LOGISTIC, 2.0, "whole number"),
        (LogisticRegression, 2, r"write LogisticRegression\(\)"),
        (SVC(), 2, "SVC has no predict_proba"),
        (object(), 2, "object has no fit"),
        (LogisticRegression(class_weight="balanced"), 2, "class_weight undoes"),
        (make_pipeline(LogisticRegression(class_weight="balanced")), 2, "logisticregression__class_weight undoes"),
    ],
)
def test_what_is_no_estimator_for_it_is_said(model: Any, folds: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        OpenSet(model, folds)


def test_nothing_is_answered_before_it_is_fitted_and_a_fit_that_fails_changes_nothing() -> None:
    client = OpenSet(LOGISTIC)
    for ask in (client.log_ratios, client.knowledge, lambda: client.familiar):
        with pytest.raises(InputError, match="call fit"):
            ask()
    before = client.fit(X, Y, PUBLIC).log_ratios()
    with pytest.raises(InputError, match="cannot be cut"):
        client.fit(X, Y, PUBLIC[:1], classes=range(5))
    np.testing.assert_array_equal(client.log_ratios(), before)
    assert client.classes_ == [0, 1, 2]


def test_on_skewed_digits_the_union_is_far_above_the_mixture() -> None:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    public, own = order[:400], order[400:]
    ratios, mixture = [], Mixture()
    for share in partition(y[own], "dirichlet:0.05", 10, 0, 10):
        mine = own[share]
        client = OpenSet(LogisticRegression(max_iter=300)).fit(x[mine] / 16, y[mine], x[public] / 16, range(10))
        ratios.append(np.exp(client.log_ratios()))
        mixture.add(client.knowledge().probabilities())
    found = (fedol.union(np.stack(ratios)).argmax(1) == y[public]).mean()
    assert found > 0.88
    assert found > (mixture.mean().argmax(1).numpy() == y[public]).mean() + 0.15


def test_masses_may_come_from_a_model_of_their_own() -> None:
    """One that knows its data by heart is sure of what is public; a simpler one has the mass that densities have."""
    rng = np.random.default_rng(0)
    x, public = rng.normal(size=(120, 30)), rng.normal(size=(120, 30))
    y = (x[:, 0] > 0).astype(int)
    free, held = LogisticRegression(C=1e4, max_iter=2000), LogisticRegression(C=1e-3)
    alone, both = OpenSet(free).fit(x, y, public), OpenSet(free, mass=held).fit(x, y, public)
    assert alone.mass_ > 5 and 0.8 < both.mass_ < 1.2
    predictions = [torch.log_softmax(torch.from_numpy(one.log_ratios()), 1) for one in (alone, both)]
    torch.testing.assert_close(*predictions)  # what it predicts is the same
    with pytest.raises(InputError, match="predict_proba"):
        OpenSet(free, mass=object())
