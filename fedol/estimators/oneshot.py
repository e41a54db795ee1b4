"""A federation in one call, as a scikit-learn classifier: clients of any kind teach a server of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from fedol import methods
from fedol.data.partitions import partition
from fedol.errors import InputError, brief
from fedol.estimators.net import NetClassifier
from fedol.knowledge import Knowledge
from fedol.knowledge.openset import OpenSet
from fedol.methods import Distillation, Method
from fedol.models.soft import Floats, SoftClassifier, seeded, weights_of
from fedol.progress import watched
from fedol.seeding import derive, numpy_generator

Labels = npt.NDArray[np.int64]
FOREST = RandomForestClassifier(100, min_samples_leaf=2)  # of a client with rows of numbers
LARGER = RandomForestClassifier(300, min_samples_leaf=2)
NETS, LARGER_NET = ("mlp", "cnn"), "cnn-large"  # where the samples are images


class OneShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Clients learn apart, answer once on shared samples without labels, and teach one server, which predicts.

    - ``clients``: an estimator for all, or several dealt in turn; one of scikit-learn or alike, or the name of one of
      FedOL's networks (``"cnn"``) where the samples are images. By default forests, or ``mlp`` and ``cnn``.
    - ``n_clients``: how many there are where ``fit`` is not told by ``groups`` who holds what.
    - ``partition``: how their samples are dealt then: ``iid``, ``dirichlet:0.3``, ``classes:2``.
    - ``method``: how answers become what the server learns; ``union`` needs ``folds`` + 1 fits of each client.
    - ``server``: an estimator whose ``fit`` takes ``sample_weight``, or a network; by default a larger one of its kind.
    - ``public_share``: of the samples, if ``fit`` gets no ``public`` ones: a random part, whose labels nobody uses.
    - ``random_state``: also of every client and server that has none of its own.
    """

    def __init__(
        self,
        clients: Any = None,
        n_clients: int = 5,
        method: str = "union",
        server: Any = None,
        partition: str = "iid",
        public_share: float = 0.2,
        folds: int = 2,
        random_state: Any = None,
    ) -> None:
        self.clients = clients
        self.n_clients = n_clients
        self.method = method
        self.server = server
        self.partition = partition
        self.public_share = public_share
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, public: Any = None, groups: Any = None) -> Self:
        """Train everyone. ``groups`` names the client of each sample; ``public`` are samples that all share.

        Samples are rows of an array, a sparse matrix or a pandas frame, or images.
        """
        method = _heard(self.method)
        if y is None:
            raise InputError("OneShotClassifier requires y to be passed, but the target y is None; give the labels.")
        X = self._samples(X)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(X, labels)
        check_classification_targets(labels)
        names = None if groups is None else column_or_1d(groups)
        check_consistent_length(X, names)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.classes_, encoded = np.unique(labels, return_inverse=True)
        mine = np.arange(len(encoded))
        if public is None:
            mine, shared = self._split(len(encoded), seed)
            public = _safe_indexing(X, shared)
        else:
            public = self._samples(public, first=False)
        shares = {
            name: mine[share] for name, share in self._deal(encoded[mine], None if names is None else names[mine], seed)
        }
        kinds, larger = self._kinds(np.ndim(X) > 2), self._larger(np.ndim(X) > 2)
        weights_of(larger)  # one that cannot learn is refused now
        server = SoftClassifier(seeded(larger, derive(seed, "server")))
        self.knowledge_: list[Knowledge] = []  # what each client has sent
        for k, (name, share) in enumerate(watched(list(shares.items()), "clients")):
            client = seeded(kinds[k % len(kinds)], derive(seed, "client", k))
            own = _safe_indexing(X, share)
            self.knowledge_.append(self._answer(method, client, name, own, encoded[share], public))
        self.server_ = self._taught(server, method, public)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities [N, classes], by the server alone."""
        check_is_fitted(self)
        return self.server_.predict_proba(self._samples(X, first=False))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each sample."""
        probs = self.predict_proba(X)
        found: npt.NDArray[Any] = self.classes_[probs.argmax(1)]
        return found

    def __sklearn_tags__(self) -> Any:
        """What samples it takes: those that everyone in it takes."""
        tags = super().__sklearn_tags__()
        known = [get_tags(each).input_tags for each in [*self._kinds(False), self._larger(False)] if _is_ours(each)]
        tags.input_tags.sparse = all(each.sparse for each in known)
        tags.input_tags.allow_nan = all(each.allow_nan for each in known)
        return tags

    def _samples(self, x: Any, first: bool = True) -> Any:
        """Samples as clients and server take them; whether they are good numbers, these say themselves."""
        if hasattr(x, "iloc"):
            return validate_data(self, x, reset=first, skip_check_array=True)
        return validate_data(
            self, x, reset=first, accept_sparse="csr", dtype=None, ensure_all_finite=False, allow_nd=True
        )

    def _split(self, count: int, seed: int) -> tuple[Labels, Labels]:
        """The positions of the private and of the public samples."""
        if not (isinstance(self.public_share, Real) and 0 < self.public_share < 1):
            raise InputError(f"public_share must lie between 0 and 1, but is {brief(self.public_share)}.")
        shared = max(self.folds, round(self.public_share * count))
        if count - shared < 1:
            raise InputError(f"{count} samples are too few for clients and a public set; give more, or public ones.")
        order = numpy_generator(seed, "split").permutation(count)
        return np.sort(order[shared:]), np.sort(order[:shared])

    def _deal(self, labels: Labels, groups: Any, seed: int) -> Iterator[tuple[str, Labels]]:
        """Each client's name and the positions of its samples."""
        if groups is not None:
            for name in np.unique(groups):
                yield str(name), np.flatnonzero(groups == name)
            return
        classes = len(self.classes_)
        for k, share in enumerate(partition(labels, self.partition, self.n_clients, seed, classes, min_size=1)):
            yield f"client {k}", share

    def _kinds(self, images: bool) -> list[Any]:
        """The clients' estimators, which are dealt in turn."""
        given = self.clients
        if given is None:
            given = NETS if images else FOREST
        return [_estimator(each) for each in (given if isinstance(given, list | tuple) else [given])]

    def _larger(self, images: bool) -> Any:
        return _estimator((LARGER_NET if images else LARGER) if self.server is None else self.server)

    def _answer(self, method: Method, client: Any, name: str, own: Any, labels: Labels, public: Any) -> Knowledge:
        """What a client sends: its predictions on the public samples, and their masses where the method adds these."""
        every = range(len(self.classes_))
        if method.client.sends == "ratios":
            return OpenSet(client, self.folds).fit(own, labels, public, classes=every).knowledge(client=name)
        held, encoded = np.unique(labels, return_inverse=True)
        probs = np.zeros((public.shape[0], len(every)))
        probs[:, held] = client.fit(own, encoded).predict_proba(public) if len(held) > 1 else 1.0
        return Knowledge.from_probabilities(probs, client=name)

    def _taught(self, server: SoftClassifier, method: Method, public: Any) -> SoftClassifier:
        """The server on the method's targets; where it is trained several times, each time anew."""
        teacher = method.teacher(self.knowledge_, Distillation(self.method))
        for iteration in range(1, teacher.iterations + 1):
            said = torch.from_numpy(server.predict_proba(public)) if iteration > 1 else None
            server.fit(public, teacher.targets(iteration, said).soft.double().numpy())
        return server


def _heard(name: Any) -> Method:
    """The method, if the server hears what clients predict."""
    if not isinstance(name, str):
        raise InputError(f"The method must be a name, but is {brief(name)}.")
    found = methods.find(name)
    if not found.hears:
        known = ", ".join(method.name for method in methods.METHODS.values() if method.hears)
        raise InputError(f"'{name}' is no method in which clients send predictions; those are {known}.")
    return found


def _estimator(spec: Any) -> Any:
    """An estimator itself; of a name, one of FedOL's networks."""
    return NetClassifier(spec) if isinstance(spec, str) else spec


def _is_ours(estimator: Any) -> bool:
    return isinstance(estimator, BaseEstimator)
