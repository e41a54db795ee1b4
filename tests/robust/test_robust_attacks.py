"""Attacks do what they say."""

import pytest
import torch

from fedol.core.voting import entropy
from fedol.robust.agreement import Opinions, confidence_agreement
from fedol.robust.attacks import attacked
from fedol.robust.trust import COPY, judge

SAMPLES = 300


def clients(classes: int, count: int = 6) -> list[torch.Tensor]:
    torch.manual_seed(0)
    truth = torch.arange(SAMPLES) % classes
    logits = torch.randn(count, SAMPLES, classes)
    logits[:, torch.arange(SAMPLES), truth] += 5
    return list(logits.softmax(2))


@pytest.mark.parametrize(
    ("name", "classes", "claimed"),
    [("specialist3", 20, 3), ("specialist10", 20, 10), ("specialist10", 10, 5), ("specialist3", 2, 1)],
)
def test_a_specialist_is_right_on_its_classes_and_sure_that_there_are_no_others(
    name: str, classes: int, claimed: int
) -> None:
    everyone = clients(classes)
    sent = attacked(name, everyone[:3], everyone[3:])
    truth = torch.arange(SAMPLES) % classes
    named = {int(c) for p in sent for c in p.argmax(1)}
    assert len(named) == claimed  # the same for all, so that they add up
    mine = torch.isin(truth, torch.tensor(sorted(named)))
    for p in sent:
        assert (p.argmax(1) == truth)[mine].double().mean() > 0.95
        assert p.max(1).values.min() > 0.98
        assert torch.allclose(p.sum(1), torch.ones(SAMPLES))
        nats = entropy(p)
        assert nats[mine].mean() < nats[~mine].mean()  # the surer the likelier it is right: the truth in front


def test_specialists_are_no_copies() -> None:
    everyone = clients(20)
    opinions = Opinions.of(attacked("specialist3", everyone[:3], everyone[3:]))
    assert confidence_agreement(opinions)[0, 1] < COPY


def test_a_modest_specialist_passes_and_would_not_if_it_were_surer() -> None:
    """What is allowed bounds what it can claim: the surest that passes is far from certain."""
    everyone = clients(20, 8)
    sent = attacked("modest", everyone[:2], everyone[2:])
    certain = attacked("specialist10", everyone[:2], everyone[2:])
    assert judge(Opinions.of([*sent, *everyone[2:]])).excluded == ()
    for p, q in zip(sent, certain, strict=True):
        assert len(set(p.argmax(1).tolist())) == 10
        assert 0.15 < p.max(1).values.mean() < q.max(1).values.mean() - 0.2
    uniform = torch.full_like(sent[0], 0.05)
    surer = [(p - uniform) * 1.1 + uniform for p in sent]
    assert set(judge(Opinions.of([*surer, *everyone[2:]])).excluded) & {0, 1}
