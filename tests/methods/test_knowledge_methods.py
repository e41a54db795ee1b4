"""Every knowledge method against cases small enough to compute by hand."""

import inspect

import numpy as np
import pytest
import torch

import fedol
from fedol import methods
from fedol.core.voting import entropy
from fedol.errors import FedolError, InputError
from fedol.knowledge import Knowledge
from fedol.methods import METHODS, Distillation, Method, everywhere, find
from fedol.methods.fedhkt import agreeing, clusters, distances
from fedol.methods.sides import once

# Two samples, three classes, three clients.
A = [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]
B = [[0.6, 0.3, 0.1], [0.1, 0.7, 0.2]]
C = [[0.1, 0.8, 0.1], [1 / 3, 1 / 3, 1 / 3]]


def knowledge(*clients):
    return [Knowledge.from_probabilities(np.array(p), client=f"client {k}") for k, p in enumerate(clients)]


def target(name, *clients):
    teacher = find(name).teacher(knowledge(*clients), Distillation())
    assert teacher.iterations == 1
    answer = teacher.targets(1, None)
    assert answer.soft.dtype == torch.float32 and not answer.restart
    return answer


def test_feddf_is_the_softmax_of_the_mean_logits():
    expected = np.exp(np.log([A, B, C]).mean(0))
    expected /= expected.sum(1, keepdims=True)
    assert target("feddf", A, B, C).soft.numpy() == pytest.approx(expected, abs=1e-6)


def test_feddf_is_the_same_for_logits_and_for_log_probabilities():
    logits = [torch.randn(7, 5, generator=torch.Generator().manual_seed(k)) for k in range(4)]
    raw = torch.softmax(torch.stack(logits).double().mean(0), 1)
    clients = [Knowledge.from_logits(z) for z in logits]
    assert torch.allclose(find("feddf").teacher(clients, Distillation()).targets(1, None).soft.double(), raw, atol=1e-6)


def test_feddf_probs_is_the_mean_of_probabilities():
    assert target("feddf-probs", A, B, C).soft.numpy() == pytest.approx(np.mean([A, B, C], 0), abs=1e-6)


def test_mixture_weights_by_confidence():
    p = np.array([A, B, C])
    weight = np.exp(-entropy(p))
    expected = (weight[..., None] * p).sum(0) / weight.sum(0)[:, None]
    assert target("mixture", A, B, C).soft.numpy() == pytest.approx(expected, abs=1e-6)


def test_fedhkt_with_a_group_per_client_is_the_mixture():
    few = target("fedhkt", A, B, C)
    assert few.record["groups"] == 3
    assert torch.allclose(few.soft, target("fedhkt-k", A, B, C).soft)


def test_fedhkt_lets_similar_clients_speak_as_one():
    # Six clients, five groups: the two equal ones are merged, so four of them weigh as much as one would.
    rng = np.random.default_rng(0)
    others = [rng.dirichlet(np.ones(3) * 0.3, size=2) for _ in range(4)]
    merged = target("fedhkt", A, A, *others)
    assert merged.record["groups"] == 5
    assert torch.allclose(merged.soft, target("mixture", A, *others).soft, atol=1e-6)


def test_fedhkt_groups_clients_by_their_mean_predictions_and_lets_the_groups_mean_speak():
    # The third and the fifth predict the classes about as often, but never the same one; the first two, who differ in
    # the mean, predict the same on the first sample.
    def sure(*classes):
        return np.where(np.eye(4)[list(classes)], 0.85, 0.05)

    third = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]])
    fifth = np.array([[0.1, 0.6, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1]])
    others = [sure(0, 0), sure(0, 3), sure(2, 2), sure(1, 3)]
    found = target("fedhkt", others[0], others[1], third, others[2], fifth, others[3])
    p = np.array([*others, (third + fifth) / 2])
    weight = np.exp(-entropy(p))
    assert found.record["groups"] == 5
    assert found.soft.numpy() == pytest.approx((weight[..., None] * p).sum(0) / weight.sum(0)[:, None], abs=1e-6)


def test_average_linkage_and_distance_agree_with_scipy():
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    spatial = pytest.importorskip("scipy.spatial.distance")
    rng = np.random.default_rng(1)
    for count in (1, 3, 5, 12):
        rows = rng.dirichlet(np.ones(8), size=12)
        mine = distances(rows)
        assert mine == pytest.approx(spatial.squareform(spatial.pdist(rows, "jensenshannon")), abs=1e-9)
        tree = hierarchy.linkage(spatial.squareform(mine, checks=False), "average")
        theirs, ours = hierarchy.fcluster(tree, count, "maxclust"), clusters(mine, count)
        same = np.equal.outer(theirs, theirs)
        assert (same == np.equal.outer(ours, ours)).all()


def test_equal_distances_merge_the_first_and_groups_are_numbered_in_order():
    assert clusters(np.ones((4, 4)) - np.eye(4), 2) == [0, 0, 0, 1]
    far = np.array([[0, 9, 9, 1], [9, 0, 2, 9], [9, 2, 0, 9], [1, 9, 9, 0.0]])
    assert clusters(far, 2) == [0, 1, 1, 0] and far[0, 3] == 1  # which are not changed


def test_a_method_that_returns_no_teacher_or_other_targets_is_named(monkeypatch):
    clients, public = knowledge(A, B), torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    for answer, words in (
        (torch.ones(2, 3), "The method 'odd' must return a teacher.*returns a Tensor"),
        (once(torch.ones(2)), r"Targets must be \[2, 3\].*the method's are \[2\]"),
        (once(torch.full((2, 3), torch.nan)), "targets of iteration 1 hold values that are not finite"),
    ):
        odd = Method("odd", targets=lambda known, settings, answer=answer: answer)
        monkeypatch.setitem(METHODS, "odd", odd)
        with pytest.raises(InputError, match=words):
            fedol.distill(clients, public, model="mlp", method="odd", epochs=1)


def test_equal_classes_of_fedets_consensus_are_a_tie_for_the_lowest():
    rng = np.random.default_rng(0)
    clients = rng.dirichlet([1, 1, 9, 1, 1, 9], size=(7, 300))
    # Every client has a twin who exchanges two classes: both sums are the same, but for rounding.
    twins = clients[::-1, :, [0, 1, 5, 3, 4, 2]]
    consensus = target("fedet", *clients, *twins).soft.argmax(1)
    assert (consensus == 2).sum() > 250 and not (consensus == 5).any()


def test_average_linkage_weighs_a_group_by_its_members():
    # {0, 1, 2} to 3 is (9 + 9 + 3) / 3 = 7, so that 3 and 4, at 6.5, are merged; (mean(9, 9) + 3) / 2 would be 6.
    far = np.array([[0, 1, 2, 9, 9], [1, 0, 2, 9, 9], [2, 2, 0, 3, 9], [9, 9, 3, 0, 6.5], [9, 9, 9, 6.5, 0.0]])
    assert clusters(far, 2) == [0, 0, 0, 1, 1]


def test_the_distance_of_certain_and_equal_rows_is_a_number():
    found = distances(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert found[0, 1] == 0 and found[0, 2] == pytest.approx(np.sqrt(np.log(2)))


def test_fedhkt_feedback_is_where_server_and_teacher_agree():
    server = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    teacher = torch.tensor([[0.6, 0.4], [0.8, 0.2], [0.9, 0.1]])
    assert agreeing(server, teacher).tolist() == [True, False, True]
    heeding = {name: method.feedback for name, method in METHODS.items() if method.feedback is not everywhere}
    assert heeding == {"fedhkt": agreeing, "fedhkt-k": agreeing}  # grouped or not


@pytest.mark.parametrize(("name", "varying"), [("fedet", np.log), ("fedet-probs", np.array)])
def test_fedet_by_hand(name, varying):
    z = np.log(np.array([A, B, C]))
    variance = varying([A, B, C]).var(2)  # [clients, samples]
    pooled = (variance[..., None] * z).sum(0)
    consensus = pooled.argmax(1)
    expected = np.eye(3)[consensus]
    for n in range(2):
        dissenters = [k for k in range(3) if z[k, n].argmax() != consensus[n] and variance[k, n] > 0]
        if dissenters:
            weights = variance[dissenters, n] / variance[dissenters, n].sum()
            s = np.exp((weights[:, None] * z[dissenters, n]).sum(0))
            expected[n] += 0.05 * s / s.sum()
    assert target(name, A, B, C).soft.numpy() == pytest.approx(expected, abs=1e-6)
    assert consensus[0] == 0 and target(name, A, B, C).soft[0].sum() == pytest.approx(1.05)


def test_the_two_readings_of_fedet_weigh_differently():
    one, other = [[0.001, 0.4995, 0.4995]] * 2, [[0.9, 0.08, 0.02]] * 2  # the first varies more in logits, not in p
    assert target("fedet", one, other).soft.argmax(1).tolist() == [1, 1]
    assert target("fedet-probs", one, other).soft.argmax(1).tolist() == [0, 0]


def test_fedet_drops_the_diversity_term_where_nobody_dissents():
    answer = target("fedet", A, B)
    # Both say class 0 of the first sample; they differ on the second.
    assert answer.soft[0].tolist() == [1.0, 0.0, 0.0]
    assert answer.soft[1].sum() == pytest.approx(1.05)
    assert answer.record["dissent"] == 0.5


def test_fedet_with_clients_that_know_nothing_is_still_a_number():
    flat = [[1 / 3] * 3, [1 / 3] * 3]
    assert torch.isfinite(target("fedet", flat, flat).soft).all()


def test_mine_takes_the_surest_client():
    assert target("mine", A, B, C).soft.numpy() == pytest.approx(np.array([A[0], B[1]]), abs=1e-6)
    assert target("mine-hard", A, B, C).soft.tolist() == [[1, 0, 0], [0, 1, 0]]


def test_mine_ties_go_to_the_earlier_client():
    mirrored = [[0.1, 0.1, 0.8]] * 2
    assert target("mine", [A[0]] * 2, mirrored).soft.numpy() == pytest.approx(np.array([A[0]] * 2), abs=1e-6)


@pytest.mark.parametrize("spread", [1, 3, 10])  # of the logits: from unsure to nearly certain
def test_mine_ties_are_ties_whatever_the_order_of_the_classes(spread):
    generator = torch.Generator().manual_seed(spread)
    logits = spread * torch.randn(300, 100, generator=generator)
    order = torch.stack([torch.randperm(100, generator=generator) for _ in logits])
    clients = [Knowledge.from_logits(z) for z in (logits, logits.gather(1, order))]
    soft = find("mine").teacher(clients, Distillation()).targets(1, None).soft
    assert torch.allclose(soft, clients[0].probabilities(), atol=1e-6)


def test_the_two_controls_of_fedol():
    clients, settings = knowledge(A, B, C), Distillation(iterations=3, rho=1.0)
    mixture = find("mixture").teacher(clients, settings).targets(1, None).soft
    without = find("fedol-tau0").teacher(clients, settings)
    assert without.iterations == 3 and torch.allclose(without.targets(1, None).soft, mixture)
    assert torch.allclose(without.targets(2, torch.tensor(C)).soft, mixture)  # the clients' alone: no server's
    restarted, plain = find("fedol-reinit").teacher(clients, settings), find("fedol").teacher(clients, settings)
    assert restarted.targets(2, mixture).restart and not plain.targets(2, mixture).restart
    assert torch.equal(restarted.targets(2, mixture).soft, plain.targets(2, mixture).soft)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.targets])
def test_no_client_is_an_error(name):
    with pytest.raises(InputError, match="no client to learn from"):
        find(name).teacher([], Distillation())


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.targets])
def test_knowledge_may_be_a_re_iterable_stream_of_one_client_at_a_time(name):
    class Stream:
        def __iter__(self):
            return iter(knowledge(A, B, C))

    streamed = find(name).teacher(Stream(), Distillation()).targets(1, None).soft
    assert torch.equal(streamed, find(name).teacher(knowledge(A, B, C), Distillation()).targets(1, None).soft)


def test_a_method_that_iterates_must_say_so(monkeypatch):
    monkeypatch.setitem(METHODS, "new", Method("new", targets=find("fedol").targets))
    with pytest.raises(InputError, match=r"'new' trains its server 10 times, .* registered with iterates=True"):
        find("new").teacher(knowledge(A, B), Distillation())
    monkeypatch.setitem(METHODS, "new", Method("new", targets=find("fedol").targets, iterates=True))
    assert find("new").teacher(knowledge(A, B), Distillation()).iterations == 10


def test_the_documented_way_to_add_a_method_works(monkeypatch):
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
    code = page.split("```python")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 20
    monkeypatch.setitem(METHODS, "geometric", None)  # which is then taken out again
    exec(code, {})
    expected = np.exp(2 * np.log([A, B, C]).mean(0))
    assert target("geometric", A, B, C).soft.numpy() == pytest.approx(
        expected / expected.sum(1, keepdims=True), abs=1e-6
    )
    test_no_client_is_an_error("geometric")
    assert "geometric" in methods.names() and methods.title("geometric") == "Geometric mean"


def test_where_a_method_of_yours_raises_is_said(monkeypatch):
    def helper():
        raise KeyError("deep")

    @torch.no_grad()
    def broken(knowledge, settings):
        helper()

    monkeypatch.setitem(METHODS, "broken", Method("broken", targets=broken))
    line = inspect.unwrap(broken).__code__.co_firstlineno + 2
    with pytest.raises(InputError, match=rf"\(test_knowledge_methods\.py, line {line}\): KeyError: 'deep'"):
        find("broken").teacher([], Distillation())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), FedolError("as it is")])
def test_what_is_no_failure_of_a_method_passes_through(error, monkeypatch):
    def stopped(knowledge, settings):
        raise error

    monkeypatch.setitem(METHODS, "stopped", Method("stopped", targets=stopped))
    with pytest.raises(type(error)) as raised:
        find("stopped").teacher([], Distillation())
    assert raised.value is error
