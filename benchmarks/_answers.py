"""Real answers of many kinds of clients, with the masses of ``fedol.OpenSet``, and the same answers made hard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from federations import read
from kinds import READERS
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import fedol
from fedol import OpenSet
from fedol.data.findings import ANSWERS
from fedol.knowledge import Knowledge

KINDS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    "bayes": GaussianNB,
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "neighbours": lambda: KNeighborsClassifier(5),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=30, early_stopping=False, min_samples_leaf=5),
    "svc": lambda: make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)),
    "constant": lambda: DummyClassifier(strategy="prior"),
}
FAST = ("logistic", "bayes", "tree", "neighbours")  # where there are many samples or classes
NET = {"device": "cpu", "codec": "float32", "iterations": 1, "server_epochs": 1, "method": "union", "clients": 4}
# private and public samples, classes
SIZES = {"digits": (900, 200), "noisy digits": (900, 2000), "cancer": (369, 200), "heart": (500, 200)}
SIZES |= {"adult": (2000, 2000), "news": (2000, 2000), "many digits": (900, 50000)}
SIZES |= {"1,000 classes": (4000, 2000)}


@dataclass(frozen=True)
class Federation:
    """Its clients, and the labels that only scoring sees."""

    name: str
    clients: list[Knowledge]
    truth: torch.Tensor


def samples(name: str, data: Path, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Rows and labels in an order of chance, as many as are wanted."""
    wanted = sum(SIZES[name])
    if name == "cancer":
        x, y = load_breast_cancer(return_X_y=True)
    elif "digits" in name:
        x, y = load_digits(return_X_y=True)
        if name != "digits":  # each several times, dim, and with noise
            place = rng.permutation(np.arange(wanted) % len(y))
            x, y = x[place] * rng.uniform(0.6, 1, (wanted, 1)) + rng.normal(0, 2, (wanted, 64)), y[place]
    elif name == "1,000 classes":
        centres, y = rng.normal(0, 1, (1000, 32)), rng.integers(0, 1000, wanted)
        x = centres[y] + rng.normal(0, 0.4, (wanted, 32))
    else:
        _, rows, more = READERS["ag-news" if name == "news" else "heart" if name == "heart" else "adult"](data)
        cells = np.array([*rows, *more], dtype=object)
        if name == "news":
            y, cells = np.unique(cells[:, 0], return_inverse=True)[1], cells[:, 1] + " " + cells[:, 2]
            x = HashingVectorizer(n_features=256, alternate_sign=False).transform(cells).toarray()
        else:
            y = np.unique(cells[:, -1], return_inverse=True)[1]
            numbers = [c for c in range(cells.shape[1] - 1) if _is_number(cells[0, c])]
            words = [c for c in range(cells.shape[1] - 1) if c not in numbers]
            x = (
                make_column_transformer(
                    (OneHotEncoder(sparse_output=False, min_frequency=20), words), ("passthrough", numbers)
                )
                .fit_transform(cells)
                .astype(float)
            )
    order = rng.permutation(len(y))[:wanted]
    return x[order], y[order]


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "").isdigit()


def estimators(name: str, kinds: tuple[str, ...], clients: int, data: Path, seed: int) -> Iterator[Federation]:
    """A federation of each kind; classes are spread by Dirichlet(0.3), and so some clients have one."""
    rng = np.random.default_rng([seed, len(name), *map(ord, name)])
    (x, y), private = samples(name, data, rng), SIZES[name][0]
    own, public, classes = y[:private], x[private:], int(y.max()) + 1
    shares = rng.dirichlet(np.full(clients, 0.3), classes)
    whose = np.array([rng.choice(clients, p=shares[label]) for label in own])
    held = [np.flatnonzero(whose == client) for client in range(clients)]
    for kind in kinds:
        heard = []
        for place in held:
            if len(place) >= 10:
                found = OpenSet(KINDS[kind]()).fit(x[place], own[place], public, range(classes))
                heard.append(found.knowledge(client=f"client{len(heard)}"))
        yield Federation(f"{name}, {kind}", heard, torch.from_numpy(y[private:]).long())


def nets(folder: Path, seed: int) -> Iterator[Federation]:
    """FedOL's own, on digits."""
    for model in ("mlp", "cnn"):
        out = folder / model
        fedol.run(**NET, client_models=(model,), seed=seed, out=out)
        files = sorted(out.glob("clients/[0-9]*.fedol"))
        clients = [Knowledge.read(file)[0] for file in files]
        mean = torch.stack([client.probabilities() for client in clients]).mean(0)
        yield Federation(f"digits, {model}", clients, mean.argmax(1))  # of no label: what they say together


def stored(folder: Path) -> Iterator[Federation]:
    """Nets of CIFAR-100, on whose answers the lattice's constants were set; and a few of their classes alone."""
    for name, logits, truth in read(folder):
        yield Federation(f"CIFAR-100, {name}", [Knowledge.from_logits(each) for each in logits], truth)
    for count in (2, 5, 20):
        some = logits[:, truth < count][:, :, :count]  # of the last file
        yield Federation(f"CIFAR-100, {count} classes", list(map(Knowledge.from_logits, some)), truth[truth < count])


def findings(seed: int) -> Federation:
    """Of digits: even, above four, with a loop; each client a forest for each."""
    x, y = load_digits(return_X_y=True)
    marks = np.stack([y % 2 == 0, y > 4, np.isin(y, (0, 6, 8, 9))], 1).astype(int)
    order = np.random.default_rng(seed).permutation(len(y))
    x, marks = x[order], marks[order]
    clients = [
        OpenSet(KINDS["forest"]()).fit(x[part], marks[part], x[1200:]).knowledge()
        for part in (slice(k, 1000, 5) for k in range(5))
    ]
    assert len(ANSWERS) == clients[0].log_probs.shape[1]
    return Federation("findings, forest", clients, torch.from_numpy(marks[1200:].reshape(-1)).long())


def made_hard(of: Federation) -> Iterator[Federation]:
    """The same answers far surer, nearly alike, as labels, as one answer; and with masses far from zero."""

    def changed(name: str, how: Callable[[torch.Tensor], torch.Tensor]) -> Federation:
        clients = [
            replace(Knowledge.from_logits(how(c.log_probs)), log_mass=c.log_mass, ratios=c.ratios) for c in of.clients
        ]
        return replace(of, name=f"{of.name}, {name}", clients=clients)

    def weighed(name: str, how: Callable[[torch.Tensor], torch.Tensor]) -> Federation:
        clients = [c.with_mass(how(c.log_mass)) for c in of.clients if c.log_mass is not None]
        return replace(of, name=f"{of.name}, {name}", clients=clients)

    yield changed("sharpened", lambda logs: 20 * logs)
    yield changed("flattened", lambda logs: 1e-3 * logs)
    yield changed("labels", lambda logs: 1000.0 * (logs == logs.amax(1, keepdim=True)))
    yield changed("one answer", lambda logs: logs[:1].expand_as(logs))
    noise = torch.distributions.StudentT(1.0)
    for shift in (-300, 300):
        yield weighed(f"masses {shift:+}", lambda mass, shift=shift: mass + shift)  # type: ignore[misc]
    torch.manual_seed(0)
    yield weighed("heavy tails", lambda mass: mass + 5 * noise.sample(mass.shape))
    yield weighed("masses alone", lambda mass: 20 * mass)


def all_kinds(data: Path, predictions: Path, seed: int) -> Iterator[Federation]:
    """Every federation of a seed."""
    for name in SIZES:
        few = name.startswith(("many", "1,000"))
        clients = 2 if few else 4 if name == "heart" else 10 if SIZES[name][1] == 200 else 5
        for federation in estimators(name, FAST if few else tuple(KINDS), clients, data, seed):
            yield federation
            if federation.name in ("digits, logistic", "heart, logistic", "adult, forest", "heart, boosting"):
                yield from made_hard(federation)
    yield findings(seed)
    with TemporaryDirectory() as folder:
        yield from nets(Path(folder), seed)
    yield from stored(predictions)
