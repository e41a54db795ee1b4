from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol.data import partition
from fedol.errors import InputError


def uniform(samples: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, samples)


def table(labels: np.ndarray, parts: list[np.ndarray], classes: int) -> np.ndarray:
    """Samples per client and class."""
    return np.array([np.bincount(labels[part], minlength=classes) for part in parts])


def assert_exact_cover(parts: list[np.ndarray], samples: int, min_size: int) -> None:
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(samples))
    for part in parts:
        assert part.dtype == np.int64 and len(part) >= min_size
        assert np.all(np.diff(part) > 0)


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@settings(deadline=None, max_examples=80)
@given(
    samples=st.integers(1, 400),
    classes=st.integers(1, 12),
    clients=st.integers(1, 12),
    min_size=st.integers(1, 12),
    spec=st.sampled_from(["iid", "dirichlet:0.05", "dirichlet:0.5", "dirichlet:100", "classes:1", "classes:3"]),
    seed=st.integers(0, 2**40),
)
def test_every_sample_once_and_no_small_client_or_a_refusal(samples, classes, clients, min_size, spec, seed):
    labels = uniform(samples, classes, seed % 1000)
    try:
        parts = partition(labels, spec, clients, seed, classes, min_size)
    except InputError:
        # Even divisions must be refused only where they are impossible.
        assert spec != "iid" or samples < clients * min_size
        return
    assert len(parts) == clients
    assert_exact_cover(parts, samples, min_size)
    assert same(parts, partition(labels, spec, clients, seed, classes, min_size))


@settings(deadline=None, max_examples=150)
@given(data=st.data(), classes=st.integers(1, 40), clients=st.integers(1, 40), seed=st.integers(0, 2**40))
def test_classes_are_exact_and_balanced(data, classes, clients, seed):
    each = data.draw(st.integers(-(-classes // clients), classes))  # whatever can hold every class
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), clients))
    labels = np.append(labels, labels[:1])  # one class is one larger: it does not divide evenly
    parts = partition(labels, f"classes:{each}", clients, seed, classes, min_size=1)
    assert_exact_cover(parts, len(labels), 1)
    counts = table(labels, parts, classes)
    assert np.all((counts > 0).sum(axis=1) == each)
    holders = (counts > 0).sum(axis=0)
    assert holders.min() >= 1 and holders.max() - holders.min() <= 1
    for column in counts.T:
        shares = column[column > 0]
        assert shares.max() - shares.min() <= 1


def test_the_papers_pathological_setting_has_two_holders_per_class():
    labels = np.repeat(np.arange(100), 450)
    counts = table(labels, partition(labels, "classes:20", 10, 0, 100), 100)
    assert np.all((counts > 0).sum(axis=0) == 2)
    assert set(np.unique(counts)) == {0, 225}


def test_class_assignment_is_mixed_not_dealt_in_blocks():
    """Without mixing, clients would form groups that cover the classes exactly: overlaps only 0 within a group."""
    labels = np.repeat(np.arange(100), 450)
    held = (table(labels, partition(labels, "classes:20", 10, 0, 100), 100) > 0).astype(int)
    overlaps = (held @ held.T)[np.triu_indices(10, 1)]
    assert np.mean(overlaps > 0) > 0.7


def test_iid_sizes_differ_by_at_most_one_and_classes_are_mixed():
    labels = np.repeat(np.arange(4), 251)
    parts = partition(labels, "iid", 10, 0, 4)
    assert {len(part) for part in parts} == {100, 101}
    assert table(labels, parts, 4).min() > 5


@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.5", "classes:4"])
def test_another_seed_is_another_partition(spec):
    labels = uniform(500, 10)
    parts = [partition(labels, spec, 5, seed, 10) for seed in range(5)]
    assert not any(same(parts[i], parts[j]) for i in range(5) for j in range(i))


def test_dirichlet_skew_follows_alpha():
    labels = uniform(5000, 10)

    def effective_classes(alpha: float) -> float:
        share = table(labels, partition(labels, f"dirichlet:{alpha}", 10, 0, 10), 10).astype(float)
        share /= share.sum(axis=1, keepdims=True)
        return float((1 / (share**2).sum(axis=1)).mean())

    assert effective_classes(0.05) < 3 < effective_classes(1) < 8 < effective_classes(1000)


def test_dirichlet_treats_the_last_client_like_the_others():
    """Flooring the cuts would hand the last client a stray sample of nearly every class."""
    labels = np.repeat(np.arange(100), 450)
    held = np.mean(
        [(table(labels, partition(labels, "dirichlet:0.05", 10, s, 100), 100) > 0).sum(1) for s in range(5)], 0
    )
    assert held[-1] < 1.3 * held[:-1].mean()


@pytest.mark.parametrize("alpha", ["1e-300", "1e-9", "1e9", "1e300"])
def test_dirichlet_extremes_still_use_every_sample(alpha):
    labels = uniform(3000, 60)
    assert_exact_cover(partition(labels, f"dirichlet:{alpha}", 5, 0, 60), 3000, 10)


def test_dirichlet_gives_up_with_a_sentence():
    with pytest.raises(
        InputError, match=r"dirichlet:0.001 left a client .*minimum 10.* 1000 draws; use a larger alpha"
    ):
        partition(uniform(300, 2), "dirichlet:0.001", 10, 0, 2)


@pytest.mark.parametrize("spec", ["iid", "dirichlet:1", "classes:3"])
def test_a_class_without_samples_is_a_class_without_samples(spec):
    labels = uniform(600, 5)
    labels[labels == 2] = 3
    parts = partition(labels, spec, 4, 0, 5)
    assert_exact_cover(parts, 600, 10)
    if spec == "classes:3":  # assigned like any other class, so its holders show one class fewer
        assert set((table(labels, parts, 5) > 0).sum(axis=1)) == {2, 3}


@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.05", "classes:6"])
def test_one_client_gets_everything(spec):
    assert np.array_equal(partition(uniform(50, 6), spec, 1, 0, 6)[0], np.arange(50))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("dirichlet:0", "number above 0"),
        ("dirichlet:-1", "number above 0"),
        ("dirichlet:x", "number above 0"),
        ("dirichlet:nan", "number above 0"),
        ("dirichlet:inf", "number above 0"),
        ("dirichlet:", "number above 0"),
        ("classes:2.5", "whole number above 0"),
        ("classes:0", "whole number above 0"),
        ("classes:-3", "whole number above 0"),
        ("dirchlet:0.3", "did you mean 'dirichlet:0.3'"),
        ("dirichlet", "did you mean 'dirichlet:0.05'"),
        ("idd", "did you mean 'iid'"),
        ("iid:3", "no partition 'iid:3'"),
        ("foo", "known are: classes:20, dirichlet:0.05, iid"),
        ("", "known are"),
        ("classes:11", "use classes:10"),
        ("classes:1", "use at least classes:2 or 10 clients"),
    ],
)
def test_bad_specifications_say_what_is_accepted(spec, says):
    with pytest.raises(InputError, match=says):
        partition(uniform(500, 10), spec, 5, 0, 10)


@pytest.mark.parametrize(
    ("labels", "clients", "min_size", "says"),
    [
        (np.zeros(5, int), 6, 1, "5 private samples are too few for 6 clients"),
        (np.zeros(50, int), 6, 10, "fewer clients"),
        (np.zeros(0, int), 1, 1, "too few"),
        (np.zeros(50, int), 0, 10, "at least 1 client"),
        (np.zeros(50, int), 2, 0, "at least 1 sample"),
        (np.array([0, 3] * 50), 2, 10, "from 0 to 3, not 0 to 2"),
        (np.array([0, -1] * 50), 2, 10, "from -1 to 0"),
        (np.zeros((50, 2), int), 2, 10, "list of integers"),
        (np.zeros(50), 2, 10, "list of integers"),
    ],
)
def test_bad_input_is_refused(labels, clients, min_size, says):
    with pytest.raises(InputError, match=says):
        partition(labels, "iid", clients, 0, 3, min_size)


def test_classes_that_starve_a_client_are_refused():
    labels = np.array([0] * 100 + [1] * 3)
    with pytest.raises(InputError, match=r"leaves a client with 3 samples \(minimum 10\); use more classes per client"):
        partition(labels, "classes:1", 2, 0, 2)
