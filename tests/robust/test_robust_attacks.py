"""Attacks do what they say."""

import pytest
import torch

from fedol.core.voting import entropy
from fedol.robust.agreement import Opinions, confidence_agreement
from fedol.robust.attacks import attacked
from fedol.robust.trust import COPY

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
