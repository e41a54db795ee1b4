"""Files of clients that hold some of the task's classes: what they say, how large they are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedol import Knowledge, Task
from fedol.core.pooling import Pool
from fedol.distillation import hear
from fedol.errors import InputError
from fedol.knowledge import codecs
from fedol.knowledge.container import Container
from fedol.knowledge.header import MOST_LISTED
from fedol.knowledge.inspection import inspect
from fedol.methods import Distillation, find
from fedol.privacy.release import released
from fedol.robust import Defence, screen
from fedol.robust.attacks import attack_files

RNG = np.random.default_rng(0)
SAMPLES, NAMES = 40, ("ant", "bee", "cat", "dog", "eel", "fox")
TASK = Task.of(RNG.integers(0, 256, (SAMPLES, 1, 4, 4)).astype(np.uint8), NAMES)
OWN = ["fox", "bee", "cat"]  # in an order of the client's own
PROBS = RNG.dirichlet(np.ones(3), SAMPLES)
MASS = RNG.normal(-1, 1, SAMPLES)


def client(own: list[str] | None = None, probs: np.ndarray | None = None, mass: bool = False) -> Knowledge:
    own, probs = OWN if own is None else own, PROBS if probs is None else probs
    made = Knowledge.from_probabilities(probs, TASK, "alice", classes=own)
    return made.with_mass(MASS, 20, 2) if mass else made


@pytest.mark.parametrize("mass", [False, True])
@pytest.mark.parametrize("codec", ["float32", "float16+zstd", codecs.DEFAULT, codecs.SMALL, "top2", "top2+zstd"])
def test_a_file_has_the_columns_of_its_classes_alone(codec: str, mass: bool) -> None:
    data = client(mass=mass).encode(codec)
    knowledge, header = Knowledge.decode(data, TASK)
    assert header.held == knowledge.held == (1, 2, 5) and header.columns == 3
    expected = codecs.size(codecs.find(codec), SAMPLES, 3, mass)
    assert (expected is None) == ("zstd" in codec or codec == codecs.DEFAULT)
    assert expected is None or len(Container.unpack(data).body) == expected
    probs = knowledge.probabilities().numpy()
    assert (probs[:, [0, 3, 4]] < 1e-30).all() and np.isfinite(knowledge.log_probs.numpy()).all()
    if "float" in codec:
        np.testing.assert_allclose(probs[:, [5, 1, 2]], PROBS, atol=2e-3)
    if mass:
        logs = knowledge.log_ratios()
        assert (logs[:, [0, 3, 4]] == -torch.inf).all() and torch.isfinite(logs[:, [1, 2, 5]]).all()
    assert len(Container.unpack(knowledge.encode("float32")).body) == 12 * SAMPLES + 2 * SAMPLES * mass  # passed on


def test_it_is_smaller_than_one_of_all_classes() -> None:
    full = np.zeros((SAMPLES, 6))
    full[:, [5, 1, 2]] = PROBS
    everyone = Knowledge.from_probabilities(full, TASK, "alice")
    sizes = [len(Container.unpack(one.encode("float32")).body) for one in (client(), everyone)]
    assert sizes == [4 * 3 * SAMPLES, 4 * 6 * SAMPLES]
    torch.testing.assert_close(client().log_probs, everyone.log_probs)


def test_a_client_of_all_classes_sends_what_it_always_sent() -> None:
    full = RNG.dirichlet(np.ones(6), SAMPLES)
    plain = Knowledge.from_probabilities(full, TASK).encode()
    assert Knowledge.from_probabilities(full, TASK, classes=NAMES).encode() == plain
    turned = Knowledge.from_probabilities(full[:, ::-1], TASK, classes=NAMES[::-1])
    assert turned.encode() == plain and "held" not in Container.unpack(plain).header


@pytest.mark.parametrize("codec", ["float32", codecs.DEFAULT, "top3+zstd"])
def test_a_client_of_one_class_says_nothing_but_its_mass(codec: str) -> None:
    only = client(["dog"], np.ones((SAMPLES, 1)), mass=True)
    data = only.encode(codec)
    assert len(Container.unpack(data).body) == 2 * SAMPLES
    knowledge, _ = Knowledge.decode(data, TASK)
    assert knowledge.held == (3,) and (knowledge.probabilities()[:, 3] == 1).all()
    container = Container.unpack(data)
    with pytest.raises(InputError, match="its body has 81 bytes instead of 80"):
        Knowledge.decode(Container(container.header, container.body + b"x").pack(), TASK)


def test_every_way_to_make_knowledge_takes_the_names() -> None:
    logs = np.log(PROBS) + MASS[:, None]
    made = [
        client(),
        Knowledge.from_logits(np.log(PROBS), TASK, "alice", classes=np.array(OWN)),
        Knowledge.from_ratios(np.exp(logs), TASK, "alice", 20, 2, classes=[5, 1, 2]),
        Knowledge.from_log_ratios(torch.from_numpy(logs), TASK, "alice", 20, 2, classes=OWN),
    ]
    for knowledge in made:
        assert knowledge.held == (1, 2, 5)
        torch.testing.assert_close(knowledge.log_probs, made[0].log_probs, atol=1e-5, rtol=1e-5)
    assert made[2].encode() == made[3].encode()


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["fox", "fox", "bee"], "knows the class fox twice"),
        ([1, 1, 2], "knows the class 1 twice"),
        (["fox", "bee", "gnu"], "has not: gnu"),
        ([0, 1, 6], "has not: 6"),
        ([0, 1, -1], "has not: -1"),
        ([0, 1, np.nan], "has not: nan"),
        (["fox", "bee"], "There are 2 known classes"),
        ([["fox", "bee", "cat"]], "There are 3 known classes"),
    ],
)
def test_lists_that_fit_no_task(classes: Any, words: str) -> None:
    for make in (Knowledge.from_probabilities, Knowledge.from_logits, Knowledge.from_ratios):
        with pytest.raises(InputError, match=words):
            make(PROBS, TASK, classes=classes)
        with pytest.raises(InputError, match="give the task, too"):
            make(PROBS, classes=[0, 1, 2])


def listed(held: Any, codec: str = "float32") -> bytes:
    container = Container.unpack(client().encode(codec))
    return Container({**container.header, "held": held}, container.body).pack()


@pytest.mark.parametrize(
    "held",
    [
        *([2, 1, 5], [1, 1, 5], [1, 2, 6], [-1, 2, 5], [], [0, 1, 2, 3, 4, 5], [1, 2, 1 << 70]),
        *([1, 2, True], ["bee"], [1, 2, 5.0], "125", None, {"1": 1}, list(range(MOST_LISTED + 1))),
    ],
    ids=str,
)  # fmt: skip
def test_a_stranger_s_list_is_bounded_sorted_and_of_the_task(held: Any) -> None:
    for task in (TASK, None):
        with pytest.raises(
            InputError, match="its list of classes must name some of the 6, each once and in their order"
        ):
            Knowledge.decode(listed(held), task)


def test_a_list_of_other_length_has_other_bytes() -> None:
    with pytest.raises(InputError, match="its body has 480 bytes instead of 320"):
        Knowledge.decode(listed([1, 2]), TASK)
    with pytest.raises(InputError, match="unpacks to"):
        Knowledge.decode(listed([1, 2], "q7c60+zstd"), TASK)
    with pytest.raises(InputError, match=r"its body|its coded numbers"):
        Knowledge.decode(listed([1, 2], codecs.DEFAULT), TASK)
    for codec in ("float32", "q7c60+zstd"):  # a version that knows no lists takes the columns for no predictions
        container = Container.unpack(client().encode(codec))
        old = {key: value for key, value in container.header.items() if key != "held"}
        with pytest.raises(InputError, match=r"instead of 960|unpacks to"):
            Knowledge.decode(Container(old, container.body).pack(), TASK)


def test_a_signature_covers_the_list(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the package cryptography")
    from dataclasses import replace

    from fedol.knowledge import signing

    signing.new_key(tmp_path / "key")
    task = replace(TASK, clients={"alice": signing.public_key(tmp_path / "key")})
    data = Knowledge.from_probabilities(PROBS, task, "alice", classes=OWN).encode("float32", tmp_path / "key")
    assert Knowledge.decode(data, task)[0].held == (1, 2, 5)
    container = Container.unpack(data)
    forged = Container({**container.header, "held": [0, 2, 5]}, container.body).pack()
    with pytest.raises(InputError, match="its signature is not by the key"):
        Knowledge.decode(forged, task)


def test_a_list_that_no_header_has_room_for_is_not_sent() -> None:
    count = MOST_LISTED + 2
    task = Task.of(np.zeros((2, 1, 4, 4), np.uint8), [str(c) for c in range(count + 1)])
    made = Knowledge.from_probabilities(np.full((2, count), 1 / count), task, classes=range(count))
    back, header = Knowledge.decode(made.encode("float32"), task)
    assert header.held == () and header.columns == count + 1 and (back.probabilities()[:, -1] < 1e-30).all()


def test_inspect_names_them(tmp_path: Path) -> None:
    client().save(tmp_path / "a.fedol")
    assert inspect(tmp_path / "a.fedol", TASK)["held"] == ["bee", "cat", "fox"]
    assert inspect(tmp_path / "a.fedol")["held"] == ["1", "2", "5"]


def test_who_says_less_or_lies_says_nothing_of_its_classes(tmp_path: Path) -> None:
    assert released(client(mass=True), "noise:3").held == ()
    assert Knowledge.decode(released(client(), "label").encode(), TASK)[0].log_probs.shape == (SAMPLES, 6)
    client(mass=True).save(tmp_path / "a.fedol")
    (path,) = attack_files([tmp_path / "a.fedol"], "permuted", tmp_path / "out")
    assert Knowledge.load(path, TASK).held == ()


@pytest.mark.parametrize(
    "method", ["union", "fedol", "fedol+", "pooled", "mixture", "feddf", "fedet", "mine", "fedhkt"]
)
@pytest.mark.parametrize("mass", [False, True])
def test_every_method_hears_lists_that_differ(method: str, mass: bool) -> None:
    """Also where nobody holds some classes: the targets are distributions, and classes that are held share them."""
    clients = [
        client(mass=mass),
        client(["bee", "dog"], RNG.dirichlet(np.ones(2), SAMPLES), mass),
        client(["dog"], np.ones((SAMPLES, 1)), mass),
    ]
    soft = find(method).teacher(clients, Distillation(method=method)).targets(1, None).soft
    assert torch.isfinite(soft).all() and (soft >= 0).all()
    if method in ("union", "fedol", "mixture", "mine", "fedhkt") and mass:
        assert (soft[:, [0, 4]] < 1e-6).all()


def test_the_pool_centres_a_client_on_its_classes() -> None:
    """One client: its own opinion comes back, whatever the others' floor is."""
    pool, alone = Pool(), Pool()
    knowledge = client()
    pool.add(knowledge.log_probs, knowledge.held)
    alone.add(torch.from_numpy(np.log(PROBS)))
    score, expected = (part._sums()[0] for part in (pool, alone))
    torch.testing.assert_close(score[:, [5, 1, 2]], expected, atol=1e-4, rtol=1e-4)
    assert (score[:, [0, 3, 4]] == 0).all()
    with_one = Pool()
    with_one.add(knowledge.log_probs, knowledge.held)
    silent = client(["bee"], np.ones((SAMPLES, 1)))
    with_one.add(silent.log_probs, silent.held)
    torch.testing.assert_close(with_one._sums()[0], score)  # of one class, nothing can be told apart


def test_a_client_of_one_class_is_no_liar_where_its_mass_is_heard() -> None:
    """And is one to a method that hears predictions alone: nothing can be learnt from the same answer to everything."""
    truth = RNG.integers(0, 6, SAMPLES)
    honest = [
        Knowledge.from_probabilities(0.7 * np.eye(6)[truth] + 0.3 * RNG.dirichlet(np.ones(6), SAMPLES), TASK, f"c{k}")
        for k in range(5)
    ]
    clients = [*honest, client(["dog"], np.ones((SAMPLES, 1)), mass=True)]
    for method, out in (("union", []), ("fedol", [5])):
        settings = Distillation(method=method, defence=Defence(trust=True))
        _, screening = hear(find(method), clients, settings)
        assert [k for k, entry in enumerate(screening) if entry["left_out"]] == out
    assert screen(clients[-1:], True).kept == [0] and screen([clients[-1], *honest], True).kept == list(range(6))
    plain = [*honest, clients[-1].without_mass()]
    assert screen(plain, True).kept == screen(clients).kept == [0, 1, 2, 3, 4]
