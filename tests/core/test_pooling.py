"""Pooling against its formula written out, on synthetic clients and on the real ones."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedol.core.mixture import Mixture
from fedol.core.pooling import BOUND, Pool, balanced, estimate_prior, log_counts, tempered
from fedol.core.voting import shannon
from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, find
from fedol.methods.fedol_plus import FedOLPlus

REAL = Path(__file__).parents[3] / "shared" / "data" / "predictions"
CLASSES, SAMPLES = 12, 600


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A second thread only waits for tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def client(seed: int, truth: Tensor, knows: Tensor, strength: float = 4.0) -> Tensor:
    """Log-probabilities that see the truth where it is a known class, and say a known class otherwise."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(truth), CLASSES, generator=generator, dtype=torch.float64)
    logits += strength * torch.nn.functional.one_hot(truth, CLASSES) * knows[truth][:, None]
    return torch.log_softmax(logits + 3.0 * knows, 1)


def federation(truth: Tensor, strength: float = 4.0) -> list[Tensor]:
    """Six clients, each knowing a third of the classes."""
    knows = [torch.isin(torch.arange(CLASSES) % 6, torch.tensor([k, (k + 1) % 6])).double() for k in range(6)]
    return [client(k, truth, knows[k], strength) for k in range(6)]


def pool(clients: list[Tensor]) -> Pool:
    gathered = Pool()
    for one in clients:
        gathered.add(one)
    return gathered


def truths(weights: Tensor, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(weights.double(), SAMPLES, replacement=True, generator=generator)


BALANCED = truths(torch.ones(CLASSES))


def test_scores_are_the_formula() -> None:
    clients = federation(BALANCED)
    p = [one.exp().numpy() for one in clients]
    logits, standard = [], []
    for q in p:
        z = np.log(q) - np.log(q).mean(1, keepdims=True)
        logits.append(BOUND * np.tanh(z / BOUND / math.sqrt((z**2).mean())))
        standard.append((z - z.mean(0)) / z.std(0))
    scores = np.zeros((2, SAMPLES, CLASSES))
    for c in range(CLASSES):
        below = sum(math.sqrt(q[:, c].mean()) for q in p)
        for k, q in enumerate(p):
            scores[0, :, c] += math.sqrt(q[:, c].mean()) / below * logits[k][:, c]
            scores[1, :, c] += math.sqrt(q[:, c].mean()) / below * standard[k][:, c]
    for found, wanted in zip(pool(clients)._sums()[:2], torch.from_numpy(scores), strict=True):
        ratio = found / wanted  # one temperature for all
        torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio), atol=0, rtol=1e-6)
        assert ratio[0, 0] > 0


@pytest.mark.parametrize("scale", [1.0, 0.1], ids=["trained", "hardly"])
@pytest.mark.parametrize("form", ["pooled", "uniform", "prior_free"])
def test_targets_are_distributions_as_uncertain_as_the_mixture(form: str, scale: float) -> None:
    clients = [torch.log_softmax(scale * one, 1) for one in federation(BALANCED)]
    mixture = Mixture()
    for one in clients:
        mixture.add(one.exp())
    answer = getattr(pool(clients), form)()
    torch.testing.assert_close(answer.soft.sum(1), torch.ones(SAMPLES, dtype=torch.float64))
    assert shannon(answer.soft).mean().item() == pytest.approx(shannon(mixture.mean()).mean().item(), rel=1e-3)
    assert answer.prior.sum().item() == pytest.approx(1)


def test_the_order_of_the_clients_does_not_matter_and_one_more_leaves_the_pool_alone() -> None:
    clients = federation(BALANCED)
    whole = pool(clients[:-1])
    before = whole.pooled().soft
    more = whole.including(clients[-1])
    assert torch.equal(whole.pooled().soft, before) and len(whole) == 5 and len(more) == 6
    torch.testing.assert_close(more.pooled().soft, pool(clients[::-1]).pooled().soft)


def test_balancing_meets_the_prior() -> None:
    scores = 3 * torch.randn(400, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    prior = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64)
    torch.testing.assert_close(torch.softmax(balanced(scores, prior), 1).mean(0), prior, atol=1e-4, rtol=0)


def test_offsets_undo_what_a_skewed_client_adds_everywhere() -> None:
    # All clients favour class 0 by 3 nats on every sample: balancing takes it back exactly, the mixture cannot.
    shift = torch.zeros(CLASSES, dtype=torch.float64)
    shift[0] = 3.0
    clients = [torch.log_softmax(one + shift, 1) for one in federation(BALANCED)]
    answer = pool(clients).uniform()
    assert (answer.soft.argmax(1) == BALANCED).double().mean() > 0.9
    assert (answer.soft.argmax(1) == 0).double().mean() == pytest.approx(1 / CLASSES, abs=0.03)


def test_the_prior_is_uniform_where_the_estimates_disagree_and_found_where_they_agree() -> None:
    generator = torch.Generator().manual_seed(1)
    uniform = torch.full((CLASSES,), 1 / CLASSES, dtype=torch.float64)

    def votes(counts: Tensor) -> Tensor:
        """Scores whose argmax has these counts."""
        return torch.nn.functional.one_hot(torch.arange(CLASSES).repeat_interleave(counts), CLASSES).double() * 9

    rising = 10 + 8 * torch.arange(CLASSES)
    against = votes(rising.flip(0))
    shuffled = votes(rising)[torch.randperm(int(rising.sum()), generator=generator)]
    torch.testing.assert_close(estimate_prior(against, shuffled), uniform, atol=1e-9, rtol=0)
    agreed = estimate_prior(shuffled, shuffled)
    torch.testing.assert_close(agreed, (rising / rising.sum()).double(), atol=0.03, rtol=0)


def test_the_prior_is_the_formula() -> None:
    """Also where the histograms are the same, so that nothing but counting is left of their errors."""
    rng = np.random.default_rng(0)
    for same in (False, True):
        named = [rng.choice(CLASSES, SAMPLES, p=rng.dirichlet(np.full(CLASSES, 3.0))) for _ in range(2)]
        named[1][: SAMPLES // 2] = named[0][: SAMPLES // 2]  # so that they have something in common
        named[1] = named[0] if same else named[1]
        g, h = (np.log(np.bincount(name, minlength=CLASSES) + 1) for name in named)
        g, h = g - g.mean(), h - h.mean()
        shared = (g * h).mean()
        assert shared > 0.05
        v_g, v_h = (max((part**2).mean() - shared, CLASSES / SAMPLES) for part in (g, h))
        theta = np.exp((g / v_g + h / v_h) / (1 / v_g + 1 / v_h + 1 / shared))
        scores = [torch.nn.functional.one_hot(torch.from_numpy(name), CLASSES).double() for name in named]
        found = estimate_prior(scores[1], scores[0])
        torch.testing.assert_close(found, torch.from_numpy(theta / theta.sum()), atol=1e-9, rtol=0)


@pytest.mark.parametrize("scale", [1.0, 0.05], ids=["trained", "hardly"])
def test_targets_are_the_formula(scale: float) -> None:
    """Scores, tempered, balanced, tempered; then the mixture's share, and the mixture's entropy again."""
    clients = [torch.log_softmax(scale * one, 1) for one in federation(BALANCED, 6.0)]
    gathered, prior = pool(clients), torch.linspace(1, 2, CLASSES, dtype=torch.float64) / (1.5 * CLASSES)
    w = torch.stack([torch.exp(-shannon(one.exp())) for one in clients])
    mixture = (w[:, :, None] / w.sum(0)[None, :, None] * torch.stack(clients).exp()).sum(0)
    share, nats = gathered.reliability(), shannon(mixture).mean().item()
    assert 0.05 < share < 0.95

    def at(scores: Tensor, entropy: float) -> Tensor:
        temperature = 1e-3
        for step in (2.0, 1.1, 1.01, 1.001, 1.0001, 1.00001):
            while shannon(torch.softmax(scores / (temperature * step), 1)).mean().item() < entropy:
                temperature *= step
        return scores / temperature

    scores = at(gathered._sums()[0], min(nats, 0.9 * math.log(CLASSES)))
    offset = torch.zeros(CLASSES, dtype=torch.float64)
    for _ in range(300):
        offset += 0.5 * torch.log(prior / torch.softmax(scores + offset, 1).mean(0))
    blend = share * mixture + (1 - share) * torch.softmax(at(scores + offset, nats), 1)
    wanted = torch.softmax(at(blend.log(), nats), 1)
    torch.testing.assert_close(gathered.balanced_to(prior).soft, wanted, atol=2e-5, rtol=0)


def test_one_entry_counts_for_five_spreads_at_most() -> None:
    loud = federation(BALANCED)[0].clone()
    loud[0, 0] -= 1000  # some eighty spreads, which this entry itself makes larger
    assert pool([loud])._sums()[0][0, 0].item() == pytest.approx(-5.0, rel=1e-3)


def test_a_long_tail_is_noticed() -> None:
    tail = torch.logspace(0, -1.3, CLASSES)
    truth = truths(tail)
    answer, uniform = pool(federation(truth, 2.0)).pooled(), pool(federation(truth, 2.0)).uniform()
    right = [(found.soft.argmax(1) == truth).double().mean().item() for found in (answer, uniform)]
    assert right[0] > right[1] + 0.03
    assert torch.corrcoef(torch.stack([answer.prior, tail.double()]))[0, 1] > 0.8


def test_clients_that_have_hardly_learned_do_not_leave_all_to_the_prior() -> None:
    tail = truths(torch.logspace(0, -1.3, CLASSES))
    flat = [torch.log_softmax(0.01 * one, 1) for one in federation(tail)]
    right = (pool(flat).pooled().soft.argmax(1) == tail).double().mean()
    assert right > 0.85  # as flat as the mixture, scores balanced to the tail would say its two first classes: 0.25


@pytest.mark.parametrize("loudness", [20.0, 1e4])
def test_a_client_that_shouts_noise_is_as_loud_as_any_other(loudness: float) -> None:
    noise = torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    clients = [*federation(BALANCED), torch.log_softmax(loudness * noise, 1)]
    right = (pool(clients).pooled().soft.argmax(1) == BALANCED).double().mean()
    assert right > 0.8
    ten_times = [*clients[:-1], torch.log_softmax(10 * loudness * noise, 1)]
    torch.testing.assert_close(pool(ten_times)._logits, pool(clients)._logits, atol=0.05 * BOUND, rtol=0)


@pytest.mark.parametrize(
    "odd",
    [
        torch.zeros(SAMPLES, CLASSES),
        torch.eye(CLASSES)[0].repeat(SAMPLES, 1) * 60,
        torch.eye(CLASSES, dtype=torch.float64)[0].repeat(SAMPLES, 1) * 2.7,
    ],
    ids=["knows nothing", "constant", "constant but for rounding"],
)
def test_a_client_that_never_changes_its_mind_is_no_trouble(odd: Tensor) -> None:
    answer = pool([*federation(BALANCED), torch.log_softmax(odd, 1)])
    for soft in (answer.pooled().soft, answer.prior_free().soft, pool([odd]).pooled().soft):
        assert torch.isfinite(soft).all()
    for soft in (answer.pooled().soft, answer.prior_free().soft):
        assert (soft.argmax(1) == BALANCED).double().mean() > 0.8


def test_mistakes() -> None:
    with pytest.raises(InputError, match="nothing to pool"):
        Pool().pooled()
    with pytest.raises(InputError, match="the logarithm of zero is one"):
        pool([torch.eye(CLASSES).log()])
    with pytest.raises(InputError, match=r"A client predicts \[599, 12\], the others \[600, 12\]"):
        pool(federation(BALANCED)).add(federation(BALANCED)[0][1:])


def test_small_pieces() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    counts = torch.log(torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(log_counts(scores), counts - counts.mean())
    assert shannon(torch.softmax(tempered(scores, 0.5), 1)).mean().item() == pytest.approx(0.5, abs=1e-6)


def knowledge(clients: list[Tensor]) -> list[Knowledge]:
    return [Knowledge.from_logits(one) for one in clients]


def test_the_methods_are_the_pools_forms() -> None:
    known, whole = knowledge(federation(BALANCED)), pool(federation(BALANCED))
    forms = {"pooled": whole.pooled, "pooled-uniform": whole.uniform, "pooled-free": whole.prior_free}
    for name, form in forms.items():
        teacher = find(name).teacher(known, Distillation())
        assert teacher.iterations == 1
        torch.testing.assert_close(teacher.targets(1, None).soft, form().soft.float(), atol=1e-5, rtol=0)


def test_fedol_plus_labels_the_surest_as_far_as_halves_agree() -> None:
    clients = federation(BALANCED, 2.5)
    teacher = FedOLPlus(knowledge(clients), Distillation(iterations=3, tau=0.5))
    assert teacher.iterations == 3
    halves = [pool(clients[start::2]).pooled().soft.argmax(1) for start in (0, 1)]
    assert teacher.rho == pytest.approx((halves[0] == halves[1]).double().mean().item(), abs=0.01)
    answer = teacher.targets(1, None)
    assert answer.votes is not None
    labels, soft = answer.votes.labels, pool(clients).pooled().soft
    covered = labels >= 0
    assert covered.sum() == (halves[0] == halves[1]).sum() == round(answer.record["coverage"] * SAMPLES)
    assert 0 < covered.sum() < SAMPLES
    assert soft.max(1).values[covered].min() >= soft.max(1).values[~covered].max() - 1e-6
    added = answer.soft - soft.float()
    expected = 0.5 * torch.nn.functional.one_hot(labels.clamp_min(0), CLASSES) * covered[:, None]
    torch.testing.assert_close(added, expected.float(), atol=1e-5, rtol=0)


def test_no_label_is_lost_to_rounding() -> None:
    teacher = FedOLPlus(knowledge([one[:50] for one in federation(BALANCED)]), Distillation())
    teacher.rho = 29 / 50  # times 50 that is 28.999999999999996
    assert teacher.targets(1, None).record["coverage"] == 29 / 50


def test_the_server_joins_fedol_pluss_pool_and_only_for_that_iteration() -> None:
    clients = federation(BALANCED)
    teacher = FedOLPlus(knowledge(clients[:-1]), Distillation())
    first = teacher.targets(1, None)
    joined = teacher.targets(2, clients[-1].exp())
    assert (first.record["voters"], joined.record["voters"]) == (5, 6)
    expected = FedOLPlus(knowledge(clients), Distillation(tau=0.0)).targets(1, None).soft
    alone = FedOLPlus(knowledge(clients[:-1]), Distillation(tau=0.0))
    torch.testing.assert_close(alone.targets(2, clients[-1].exp()).soft, expected, atol=1e-5, rtol=0)
    assert torch.equal(teacher.targets(1, None).soft, first.soft)
    certain = torch.nn.functional.one_hot(BALANCED, CLASSES).float()  # a server may be surer than float32 can log
    assert torch.isfinite(teacher.targets(2, certain).soft).all()


def test_one_client_has_nobody_to_agree_with() -> None:
    answer = FedOLPlus(knowledge(federation(BALANCED)[:1]), Distillation()).targets(1, None)
    assert answer.record["coverage"] == 0 and answer.votes is not None and (answer.votes.labels == -1).all()


@pytest.mark.skipif(not REAL.exists(), reason="the real predictions are not beside this checkout (../shared)")
def test_on_real_clients_it_gains_under_skew_and_survives_a_long_tail() -> None:
    held = np.load(REAL / "dirichlet-0.05_plain.npz")
    logits = torch.from_numpy(held["public_logits"].astype(np.float32))
    truth = torch.from_numpy(held["public_labels"].astype(np.int64))
    order = torch.randperm(100, generator=torch.Generator().manual_seed(11)).double()
    keep = torch.rand(5000, generator=torch.Generator().manual_seed(12)) < 50 ** (-order[truth] / 99)
    right = {}
    for case, rows in (("balanced", torch.ones_like(keep)), ("tail", keep)):
        known = [Knowledge.from_logits(one[rows]) for one in logits]
        for name in ("mixture", "pooled"):
            soft = find(name).teacher(known, Distillation()).targets(1, None).soft
            right[case, name] = 100 * (soft.argmax(1) == truth[rows]).double().mean().item()
    assert right["balanced", "pooled"] > right["balanced", "mixture"] + 5
    assert right["tail", "pooled"] > right["tail", "mixture"] - 1
