"""Algorithm 1 against a literal, slow transcription of it, and every edge case of METHODS.md (d) by itself."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedol import Ballots, class_confidence, entropy, pseudo_labels
from fedol.core.voting import baseline_count, with_entropy
from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.methods import Distillation
from fedol.methods.fedol import FedOL

# --- The reference: the paper's pseudo-code in loops, C² and G in fractions, with the edge-case table.


def literal_entropy(row: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in row if p > 0)  # 0·log 0 = 0


def highest(candidates: list[int], value: list[Fraction], scale: Fraction | None = None) -> list[int]:
    """The classes with the highest value; what float64 cannot tell apart is a tie, on the values' own scale or this."""
    top = max(value[c] for c in candidates)
    return [c for c in candidates if value[c] >= top - Fraction(1, 10**12) * (abs(top) if scale is None else scale)]


def literal(probs: np.ndarray, n: int) -> tuple[list[int], list[float], list[int]]:
    """Algorithm 1; ``n`` is ⌈ρN⌉."""
    models, samples, classes = probs.shape
    p = [[[Fraction(float(v)) for v in row] for row in model] for model in probs]
    h = [[literal_entropy([float(v) for v in row]) for row in model] for model in probs]
    c2 = [[sum(row[c] for row in model) / samples for c in range(classes)] for model in p]
    baseline = [sorted(row)[n - 1] for row in h]  # line 1: the n-th lowest entropy
    labels, scores, voters = [], [], []
    for x in range(samples):  # line 2
        label, score = -1, -1.0  # line 3: ŷ = 0
        reliable: list[int] = []
        y: dict[int, list[int]] = {}
        for m in range(models):  # line 4
            if h[m][x] <= baseline[m] or math.isclose(h[m][x], baseline[m], rel_tol=1e-12):  # line 5
                reliable.append(m)
                top = max(range(classes), key=lambda c: (p[m][x][c], -c))  # argmax, ties to the lowest class
                y[m] = [1 if c == top else -1 for c in range(classes)]
        if reliable:  # line 10
            every = range(classes)
            below = [sum(c2[m][c] for m in reliable) for c in every]
            above = [sum(c2[m][c] * y[m][c] for m in reliable) for c in every]
            g = [above[c] / below[c] if below[c] else Fraction(-1) for c in every]  # Eq. 11
            mass = [sum(c2[m][c] for m in reliable if y[m][c] == 1) for c in every]
            support = [sum(p[m][x][c] for m in range(models)) for c in every]
            label = min(highest(highest(highest(list(every), g, Fraction(1)), mass), support))  # φ
            score = float(g[label])
        labels.append(label)
        scores.append(score)
        voters.append(len(reliable))
    return labels, scores, voters


def check(probs: np.ndarray, count: int) -> None:
    labels, scores, voters = literal(probs, count)
    ours = pseudo_labels(probs, count / probs.shape[1])
    assert ours.labels.tolist() == labels
    assert ours.voters.tolist() == voters
    np.testing.assert_allclose(ours.score, scores, rtol=0, atol=1e-12)


# --- Random inputs, with and without ties.


def quantised(rng: np.random.Generator, shape: tuple[int, int, int], parts: int) -> np.ndarray:
    """Multiples of 1/parts, drawn so that rows repeat, permute each other and hold zeros."""
    classes = shape[-1]
    flat = rng.multinomial(parts, rng.dirichlet(np.full(classes, 0.5), size=shape[:2]))
    return flat / parts


def one_hot(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:2])]


def draw(kind: str, rng: np.random.Generator) -> np.ndarray:
    shape = (int(rng.integers(1, 7)), int(rng.integers(1, 13)), int(rng.integers(2, 7)))
    concentration = float(rng.choice([0.02, 0.1, 1.0, 10.0]))
    probs = rng.dirichlet(np.full(shape[-1], concentration), size=shape[:2])
    if kind == "quantised":
        return quantised(rng, shape, int(rng.choice([2, 4, 8, 16])))
    if kind == "one-hot":
        return one_hot(rng, shape)
    if kind == "duplicated":
        return probs[rng.integers(shape[0], size=shape[0])]
    if kind == "mixed":
        probs[rng.random(shape[:2]) < 0.3] = 1 / shape[-1]
        constant = rng.random(shape[0]) < 0.3
        probs[constant] = one_hot(rng, shape)[constant]
        return probs
    return probs


@pytest.mark.parametrize("kind", ["continuous", "quantised", "one-hot", "duplicated", "mixed"])
def test_equals_the_literal_algorithm(kind: str) -> None:
    rng = np.random.default_rng([7, len(kind)])
    for _ in range(600):
        probs = draw(kind, rng)
        check(probs, int(rng.integers(1, probs.shape[1] + 1)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_equals_the_literal_algorithm_on_whatever_hypothesis_finds(data: st.DataObject) -> None:
    models, samples, classes = (data.draw(st.integers(low, 4)) for low in (1, 1, 2))
    weights = data.draw(
        st.lists(
            st.lists(st.integers(0, 3), min_size=classes, max_size=classes).filter(any),
            min_size=models * samples,
            max_size=models * samples,
        )
    )
    rows = np.array(weights, dtype=np.float64)
    probs = (rows / rows.sum(1, keepdims=True)).reshape(models, samples, classes)
    check(probs, data.draw(st.integers(1, samples)))


def test_blocks_of_samples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(5), size=(4, 40))
    whole = pseudo_labels(probs, 0.4)
    monkeypatch.setattr("fedol.core.voting.BLOCK", 12)  # three samples at a time
    parts = pseudo_labels(probs, 0.4)
    for one, other in zip(vars(whole).values(), vars(parts).values(), strict=True):
        np.testing.assert_array_equal(one, other)


# --- METHODS.md (d), row by row.


def test_g_tie_goes_to_the_larger_mass_of_the_voters() -> None:
    # Everyone is sure of everything. On the last sample each of two models votes for a class that only it gives any
    # mass to, so both have G = 1; model 1 has the larger C² there.
    probs = np.zeros((2, 4, 3))
    probs[0, :, 0], probs[0, 3] = 1, [0, 1, 0]
    probs[1, :, 0], probs[1, 2:] = 1, [0, 0, 1]
    result = pseudo_labels(probs, 1.0)
    assert result.score[3] == 1
    assert result.labels[3] == 2
    assert pseudo_labels(probs[::-1].copy(), 1.0).labels[3] == 2
    check(probs, 4)


def test_g_and_mass_tie_goes_to_the_larger_sum_of_probabilities() -> None:
    # Two models, mirror images in C²: the same G and the same mass for classes 0 and 1 on every sample they dispute.
    # A third, unsure of that sample and so no voter, leans to class 1: only Σ_m p tells the two apart.
    probs = np.array(
        [
            [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
            [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
            [[0.25, 0.5, 0.25], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
        ]
    )
    result = pseudo_labels(probs, 2 / 3)
    assert result.labels[0] == 1
    assert result.voters[0] == 2
    check(probs, 2)


def test_a_tie_in_everything_goes_to_the_lowest_class() -> None:
    probs = np.array([[[0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0]]])
    assert pseudo_labels(probs, 1.0).labels.tolist() == [1]


def test_argmax_tie_inside_a_model_is_its_lowest_class() -> None:
    probs = np.array([[[0.2, 0.4, 0.4], [0.2, 0.2, 0.6]]])
    assert pseudo_labels(probs, 1.0).labels.tolist() == [1, 2]
    assert pseudo_labels(torch.from_numpy(probs), 1.0).labels.tolist() == [1, 2]


def test_zero_denominator_is_minus_one_and_never_wins() -> None:
    # No reliable model has any mass on class 0: Eq. 11 is 0/0 there, and NaN would win an argmax.
    probs = np.array([[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
    result = pseudo_labels(probs, 1.0)
    assert result.labels.tolist() == [2, 1]
    assert np.isfinite(result.score).all()
    check(probs, 2)


def test_a_sample_nobody_is_sure_of_has_no_label() -> None:
    probs = np.array([[[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]], [[0.1, 0.9], [0.5, 0.5], [0.2, 0.8]]])
    result = pseudo_labels(probs, 1 / 3)
    assert (result.labels[1], result.score[1], result.voters[1]) == (-1, -1.0, 0)
    assert result.voters[0] == 2


def test_entropy_ties_at_the_baseline_are_admitted() -> None:
    probs = np.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]])  # three at entropy 0, one asked for
    assert pseudo_labels(probs, 0.25).voters.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    "rows",
    [
        [[0.7, 0.2, 0.1, 0.0, 0.0], [0.1, 0.0, 0.7, 0.0, 0.2], [0.0, 0.1, 0.2, 0.7, 0.0]],
        [[0.25, 0.25, 0.25, 0.25, 0.0], [0.5, 0.125, 0.125, 0.125, 0.125]],  # two bits each
    ],
)
def test_equal_entropies_tie_whatever_the_order_of_their_terms(rows: list[list[float]]) -> None:
    probs = np.array([[*rows, [0.2] * 5]])
    assert pseudo_labels(probs, 1 / len(probs[0])).voters.tolist() == [1] * len(rows) + [0]


def test_tiny_entropies_of_a_sure_model_are_not_a_tie() -> None:
    tiny = np.array([1e-20, 1e-18, 1e-16, 1e-14])
    probs = np.stack([1 - tiny, tiny], 1)[None]
    assert [int(pseudo_labels(probs, share / 4).voters.sum()) for share in (1, 2, 3, 4)] == [1, 2, 3, 4]


def test_the_entropy_of_log_probabilities_is_that_of_their_distributions() -> None:
    log_probs = torch.log_softmax(5 * torch.randn(50, 7, generator=torch.Generator().manual_seed(0)), 1)
    before = log_probs.double().clone()
    for z in (log_probs, before):
        probs, nats = with_entropy(z)
        torch.testing.assert_close(probs, before.softmax(1), rtol=1e-14, atol=0)
        np.testing.assert_allclose(nats, [literal_entropy(row) for row in probs.tolist()], rtol=1e-12)
    assert torch.equal(before, log_probs.double())  # left as it was
    sure, unsure = torch.tensor([[0.0, -90.0, -95.0]]), torch.zeros(1, 4)
    assert with_entropy(sure)[1].item() == pytest.approx(91 * math.exp(-90) + 96 * math.exp(-95), rel=1e-12)
    assert with_entropy(unsure)[1].item() == pytest.approx(math.log(4), rel=1e-15)


@pytest.mark.parametrize("spread", [1, 3, 10])  # of the logits: from unsure to nearly certain
@pytest.mark.parametrize("way", [lambda client: client, lambda client: Knowledge.decode(client.encode())[0]])
def test_a_client_that_says_the_same_of_other_classes_is_as_sure_of_each_sample(
    spread: int, way: Callable[[Knowledge], Knowledge]
) -> None:
    generator = torch.Generator().manual_seed(spread)
    logits = spread * torch.randn(100, generator=generator)
    rows = [logits[torch.randperm(100, generator=generator)] for _ in range(60)]
    client = way(Knowledge.from_logits(torch.stack(rows)))
    votes = FedOL([client], Distillation(rho=1 / 60)).targets(1, None).votes
    assert votes is not None
    assert votes.voters.sum() == 60


@pytest.mark.parametrize(
    ("rho", "samples", "count"),
    [
        (0.1 + 0.05, 5000, 750),  # 0.15000000000000002: accumulated floats give 751
        (0.15, 5000, 750),
        (np.float32(0.15), 5000, 750),
        (Fraction(3, 20), 5000, 750),
        (0.1, 5000, 500),
        (1.0, 5000, 5000),
        (1, 7, 7),
        (0.1, 7, 1),
        (0.15, 7, 2),
        (1e-9, 5000, 1),  # at least one
        (1 / 3, 9, 3),
        (2 / 3, 9, 6),
    ],
)
def test_the_baseline_is_counted_in_integers(rho: float, samples: int, count: int) -> None:
    assert baseline_count(rho, samples) == count


@pytest.mark.parametrize("samples", [5000, 400, 7, 1])
def test_the_schedule_of_the_paper(samples: int) -> None:
    method = FedOL([Knowledge.from_probabilities(np.full((samples, 2), 0.5))], Distillation(iterations=20))
    for t in range(1, 21):
        assert baseline_count(method.rho(t), samples) == min(samples, -(-samples * (t + 1) // 20))
    assert method.rho(19) == method.rho(20) == 1  # clamped


def test_the_server_votes_from_the_second_iteration_on_with_what_it_predicts_now() -> None:
    rng = np.random.default_rng(5)
    clients, first, second = (rng.dirichlet(np.ones(4), size=size) for size in ((3, 30), (30,), (30,)))
    method = FedOL([Knowledge.from_probabilities(client) for client in clients], Distillation(rho=0.5, rho_step=0.0))
    stored = np.stack([Knowledge.from_probabilities(client).probabilities().numpy() for client in clients])
    for iteration, server in ((1, None), (2, first), (3, second), (4, first)):
        models = stored if server is None else np.concatenate([stored, server[None].astype(np.float32)])
        votes = method.targets(iteration, None if server is None else torch.from_numpy(server).float()).votes
        assert votes is not None
        assert votes.labels.tolist() == literal(models, 15)[0], f"iteration {iteration}"
        assert votes.voters.sum() == 15 * len(models)


def test_zero_times_log_zero_is_zero() -> None:
    assert entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist() == [0.0, pytest.approx(math.log(2), abs=1e-15)]


# --- Shapes, companies and sizes.


def test_entropy_and_class_confidence_equal_their_definitions() -> None:
    probs = np.random.default_rng(1).dirichlet(np.ones(6), size=(3, 20))
    np.testing.assert_allclose(entropy(probs), [[literal_entropy(list(row)) for row in model] for model in probs])
    assert entropy(probs[0, 0]).shape == ()
    np.testing.assert_allclose(class_confidence(probs), probs.mean(1), rtol=1e-14)


@pytest.mark.parametrize("wide", [False, True])
def test_numpy_and_torch_give_the_same_answers_in_their_own_company(wide: bool) -> None:
    probs = np.random.default_rng(2).dirichlet(np.ones(6), size=(3, 50)).astype(np.float64 if wide else np.float32)
    tensor = torch.from_numpy(probs)
    ours, theirs = pseudo_labels(probs, 0.3), pseudo_labels(tensor, 0.3)
    pairs = [
        *((getattr(ours, name), getattr(theirs, name)) for name in ("labels", "score", "voters")),
        (entropy(probs), entropy(tensor)),
        (class_confidence(probs), class_confidence(tensor)),
    ]
    for array, result in pairs:
        assert isinstance(array, np.ndarray)
        assert isinstance(result, torch.Tensor)
        np.testing.assert_array_equal(array, result.numpy())
        assert array.dtype in (np.int64, probs.dtype)
    assert ours.labels.dtype == ours.voters.dtype == np.int64


def test_lists_half_precision_and_strided_arrays_are_welcome() -> None:
    probs = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 10))
    assert pseudo_labels(probs.tolist(), 0.5).labels.tolist() == pseudo_labels(probs, 0.5).labels.tolist()
    assert pseudo_labels(torch.from_numpy(probs).half(), 0.5).score.dtype == torch.float32
    assert pseudo_labels(probs[:, ::-1], 0.5).labels.tolist() == pseudo_labels(probs, 0.5).labels.tolist()[::-1]


def test_inputs_are_left_as_they_were() -> None:
    probs = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 10))
    before = probs.copy()
    pseudo_labels(probs, 0.5)
    np.testing.assert_array_equal(probs, before)


def test_more_classes_than_sixteen_bits() -> None:
    classes = 40_000
    probs = torch.zeros(1, 2, classes)
    probs[0, 0, 39_999] = probs[0, 1, 33_000] = 1
    assert pseudo_labels(probs, 1.0).labels.tolist() == [39_999, 33_000]


def test_client_by_client_equals_all_at_once() -> None:
    probs = torch.from_numpy(np.random.default_rng(6).dirichlet(np.ones(5), size=(4, 25)))
    ballots = Ballots()
    for client in probs[:3]:
        ballots.add(client)
    with_server = ballots.including(probs[3])
    assert torch.equal(ballots.elect(10).labels, pseudo_labels(probs[:3], 0.4).labels)  # untouched by the server
    assert torch.equal(with_server.elect(10).labels, pseudo_labels(probs, 0.4).labels)
    assert (len(ballots), len(with_server)) == (3, 4)


def test_the_servers_support_breaks_no_tie_of_the_clients() -> None:
    ballots = Ballots()
    for row in ([1.0, 0.0], [0.0, 1.0], [0.4, 0.6]):  # the third is no voter on the first sample, but leans to class 1
        ballots.add(torch.tensor([row, [1.0, 0.0], [0.0, 1.0]]))
    assert ballots.elect(2).labels[0] == 1
    ballots.including(torch.tensor([[1.0, 0.0]] * 3))
    assert ballots.elect(2).labels[0] == 1


def test_an_election_needs_models_of_one_shape() -> None:
    with pytest.raises(InputError, match="no model to vote"):
        Ballots().elect(1)
    ballots = Ballots()
    ballots.add(torch.full((3, 2), 0.5))
    with pytest.raises(InputError, match=r"A model predicts \[4, 2\], the others \[3, 2\]"):
        ballots.add(torch.full((4, 2), 0.5))


@pytest.mark.parametrize("classes", [2, 10, 101])
def test_rows_in_blocks_are_the_rows_of_all_at_once(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, whatever the block, and in room that another client has left."""
    z = torch.log_softmax(3 * torch.randn(700, classes, generator=torch.Generator().manual_seed(classes)), 1)
    probs, nats = with_entropy(z)
    room = torch.full_like(probs, torch.nan)
    for cached in (1, 17 * classes, 1 << 30):
        monkeypatch.setattr("fedol.core.arrays.CACHED", cached)
        found, entropy = with_entropy(z, room)
        assert found is room and torch.equal(found, probs) and torch.equal(entropy, nats)
    assert with_entropy(z[:5], room)[0].shape == (5, classes)
