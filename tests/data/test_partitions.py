"""Partitions: every sample once, the schemes' promises, the published ones bit for bit, sites, and schemes of yours."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol.config import RunConfig
from fedol.data import PARTITIONS, ClassesPerClient, Dirichlet, Iid, Partition, Sites, load, partition, register, split
from fedol.data.partitions import canonical, parse
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
        ("foo", "known are: classes:20, column:hospital, dirichlet:0.05, iid"),
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


# What the one function made that these classes replaced: SHA-256 of each share's length and positions.
PUBLISHED = [
    ("digits", "iid", 0, "e869134601dd5a21"),
    ("digits", "iid", 1, "b5e937528b4cf83d"),
    ("digits", "iid", 2, "3cd935f890655efb"),
    ("digits", "dirichlet:0.3", 0, "5d34eaf4f5e4866d"),
    ("digits", "dirichlet:0.3", 1, "6c5ad82554547eea"),
    ("digits", "dirichlet:0.3", 2, "d5c3c3a2110ff698"),
    ("digits", "dirichlet:1.0", 0, "5f79fe110b033692"),
    ("digits", "dirichlet:1.0", 1, "e4f34a8cc247edc6"),
    ("digits", "dirichlet:1.0", 2, "b7e49e324b2ad350"),
    ("digits", "classes:3", 0, "17546c4c89652057"),
    ("digits", "classes:3", 1, "881b9626639715a1"),
    ("digits", "classes:3", 2, "b23edca2527c67c8"),
    ("synthetic", "iid", 0, "afd7563a64877d12"),
    ("synthetic", "iid", 1, "661744094a16abef"),
    ("synthetic", "iid", 2, "4715153f38ab721c"),
    ("synthetic", "dirichlet:1", 0, "c7916084a31af5d8"),
    ("synthetic", "dirichlet:1", 1, "1e57230e59e0ff3d"),
    ("synthetic", "dirichlet:1", 2, "d50dcce1d53dcc87"),
    ("synthetic", "dirichlet:0.05", 0, "0b1e837f118d7c02"),
    ("synthetic", "dirichlet:0.05", 1, "2c4c44a4d3f742d6"),
    ("synthetic", "dirichlet:0.05", 2, "d9c8a6ddf489b591"),
    ("synthetic", "classes:30", 0, "f1534047f70f0ae9"),
    ("synthetic", "classes:30", 1, "a7f5ad61ebd86b64"),
    ("synthetic", "classes:30", 2, "06abd53cde7fa2a8"),
    ("synthetic", "classes:20", 0, "acb17c9085f14338"),
    ("synthetic", "classes:20", 1, "45af80d5bae5788a"),
    ("synthetic", "classes:20", 2, "dd9d04aa5c6aceaa"),
]


@pytest.mark.parametrize(("labels", "spec", "seed", "digest"), PUBLISHED)
def test_published_partitions_are_dealt_bit_for_bit(labels, spec, seed, digest):
    if labels == "digits":
        y, classes = split(load("digits"), 400, 0).private.y, 10
    else:
        y, classes = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 450)), 100
    found = hashlib.sha256()
    for part in partition(y, spec, 10, seed, classes):
        found.update(len(part).to_bytes(8, "little") + part.astype("<i8").tobytes())
    assert found.hexdigest()[:16] == digest


@pytest.mark.parametrize(
    ("spec", "scheme", "spelled"),
    [
        ("iid", Iid(), "iid"),
        ("sites", Sites(), "sites"),
        ("dirichlet:0.050", Dirichlet(0.05), "dirichlet:0.05"),
        ("dirichlet:1.0", Dirichlet(1), "dirichlet:1"),
        ("classes:020", ClassesPerClient(20), "classes:20"),
    ],
)
def test_a_specification_is_a_partition_and_back(spec, scheme, spelled):
    assert parse(spec) == scheme and str(scheme) == canonical(spec) == canonical(scheme) == spelled
    labels = uniform(900, 30)
    groups = np.arange(900) % 3
    assert same(partition(labels, spec, 3, 0, 30, groups=groups), partition(labels, scheme, 3, 0, 30, groups=groups))


@pytest.mark.parametrize("wrong", [0, -1.5, "x", None, float("inf")])
def test_a_partition_made_in_python_is_checked_as_its_name_is(wrong):
    with pytest.raises(InputError, match=f"alpha of 'dirichlet:{wrong}' must be a number above 0, as in 'dirichlet:0"):
        Dirichlet(wrong)
    with pytest.raises(InputError, match=r"classes per client of .* whole number above 0, as in 'classes:20'"):
        ClassesPerClient(wrong)


def test_each_client_is_a_site_in_sorted_order():
    rng = np.random.default_rng(0)
    names = np.array(["north", "east", "west"])[rng.integers(0, 3, 120)]
    parts = partition(uniform(120, 4), "sites", 3, 0, 4, groups=names)
    assert [set(names[part]) for part in parts] == [{"east"}, {"north"}, {"west"}]
    assert_exact_cover(parts, 120, 10)
    assert same(parts, partition(uniform(120, 4), "sites", 3, 1, 4, groups=names))
    numbers = np.array([10, 9, 2])[rng.integers(0, 3, 120)]  # sorted as numbers, not as text
    parts = partition(uniform(120, 4), "sites", 3, 0, 4, groups=numbers)
    assert [set(numbers[part]) for part in parts] == [{2}, {9}, {10}]


@pytest.mark.parametrize(
    ("groups", "clients", "says"),
    [
        (None, 3, "'sites' needs the site of every training sample; save it as the array 'groups'"),
        (["a"] * 60 + ["b"] * 60, 3, "come from 2 sites, each of which is a client, but clients is 3; use --clients 2"),
        (["a"] * 60 + ["b"] * 51 + ["c"] * 9, 3, r"The site 'c' has 9 private samples \(minimum 10\); merge it"),
        (["a"] * 119, 3, "groups must be a list of 120"),
    ],
)
def test_sites_that_cannot_be_clients_are_refused(groups, clients, says):
    with pytest.raises(InputError, match=says):
        partition(uniform(120, 4), "sites", clients, 0, 4, groups=None if groups is None else np.array(groups))


@dataclass(frozen=True)
class Growing(Partition):
    """Larger shares for later clients."""

    name = "growing"
    power: float

    def owners(self, pool, rng):
        shares = np.arange(1, pool.clients + 1) ** self.power
        return rng.choice(pool.clients, size=len(pool.labels), p=shares / shares.sum())


@pytest.mark.usefixtures("own_partitions")
def test_a_partition_of_yours_is_one_like_the_others():
    labels = uniform(600, 5)
    with pytest.raises(InputError, match=r"Nothing finds the partition 'growing:2' .* write @register above"):
        RunConfig(partition=Growing(2))
    with pytest.raises(InputError, match="There is no partition 'growing:2'"):
        partition(labels, "growing:2", 3, 0, 5)
    assert register(Growing) is PARTITIONS["growing"] is Growing
    parts = partition(labels, "growing:2.0", 3, 0, 5)
    assert_exact_cover(parts, 600, 10)
    assert len(parts[0]) < len(parts[1]) < len(parts[2])
    assert same(parts, partition(labels, Growing(2), 3, 0, 5))
    assert RunConfig(partition=Growing(2)) == RunConfig(partition="growing:2")
    for spec, says in [
        ("growing:-1", "The power of 'growing:-1' must be a number above 0, as in 'growing:2'"),
        ("growin:3", "did you mean 'growing:3'"),
        ("growing", "did you mean 'growing:2'"),
        ("growing:30", r"growing:30 leaves a client with 0 samples \(minimum 10\); use fewer clients"),
    ]:
        with pytest.raises(InputError, match=says):
            partition(labels, spec, 3, 0, 5)


@pytest.mark.parametrize(
    ("owners", "says"),
    [
        (lambda pool: np.zeros(3, int), "must return the client of each of the 60 samples, integers in 0..1"),
        (lambda pool: np.full(60, 2), "must return the client"),
        (lambda pool: np.full(60, -1), "must return the client"),
        (lambda pool: np.zeros(60), "must return the client"),
        (lambda pool: 1 // 0, r"The partition 'wrong' failed: ZeroDivisionError"),
    ],
)
def test_a_partition_of_yours_that_is_wrong_is_refused(owners, says):
    @dataclass(frozen=True)
    class Wrong(Partition):
        name = "wrong"

        def owners(self, pool, rng):
            return owners(pool)

    with pytest.raises(InputError, match=says):
        partition(uniform(60, 3), Wrong(), 2, 0, 3)


def test_a_partition_without_a_name_or_with_two_values_is_not_registered():
    @dataclass(frozen=True)
    class Nameless(Partition):
        def owners(self, pool, rng):
            return np.zeros(len(pool.labels), int)

    @dataclass(frozen=True)
    class Twice(Growing):
        name = "twice"
        more: int

    @dataclass(frozen=True)
    class Colon(Growing):
        name = "a:b"

    for scheme, says in [(Nameless, "needs a name"), (Colon, "needs a name"), (Twice, "Twice has 2 fields")]:
        with pytest.raises(InputError, match=says):
            register(scheme)
    assert list(PARTITIONS) == ["iid", "dirichlet", "classes", "sites", "column"]
