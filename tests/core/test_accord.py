"""How far clients agree: against all pairs one by one, and at the ends."""

from itertools import permutations

import pytest
import torch
from torch import Tensor

from fedol.core.pooling import Accord, Pool
from fedol.core.voting import shannon

SAMPLES, CLASSES = 300, 6


def draws(count: int, seed: int = 0, truth: float = 0.0) -> list[Tensor]:
    """Clients whose logits are noise, plus ``truth`` on a class that all of them see."""
    generator = torch.Generator().manual_seed(seed)
    seen = torch.nn.functional.one_hot(torch.randint(CLASSES, (SAMPLES,), generator=generator), CLASSES)
    noise = torch.randn(count, SAMPLES, CLASSES, generator=generator, dtype=torch.float64)
    return list(torch.softmax(noise + truth * seen, 2))


def reliability(clients: list[Tensor]) -> float:
    accord = Accord()
    for probs in clients:
        accord.add(probs)
    return accord.reliability()


def test_it_is_the_mean_over_all_pairs() -> None:
    clients = draws(4, truth=1.5)
    same = torch.zeros(SAMPLES, dtype=torch.float64)
    pairs = torch.zeros(SAMPLES, dtype=torch.float64)
    share = torch.zeros(CLASSES, dtype=torch.float64)
    total = sum(torch.exp(-shannon(p)) for p in clients)
    for one, other in permutations(clients, 2):
        weight = torch.exp(-shannon(one) - shannon(other))
        same += weight * (one.argmax(1) == other.argmax(1))
        pairs += weight
    for p in clients:
        voted = torch.nn.functional.one_hot(p.argmax(1), CLASSES)
        share += (torch.exp(-shannon(p)) / total)[:, None].mul(voted).mean(0)
    chance = share.square().sum()
    wanted = (((same / pairs).mean() - chance) / (1 - chance)).sqrt().item()
    assert reliability(clients) == pytest.approx(wanted) and 0.2 < wanted < 0.8


def test_all_alike_is_one_and_nothing_in_common_is_nothing() -> None:
    (one,) = draws(1, truth=4.0)
    assert reliability([one] * 3) == pytest.approx(1.0)
    assert reliability(draws(10)) < 0.15
    assert reliability([one]) == 0.0 and Accord().reliability() == 0.0


def test_the_order_does_not_matter() -> None:
    clients = draws(5, truth=1.0)
    assert reliability(clients) == pytest.approx(reliability(clients[::-1]))


def test_colluders_who_always_say_the_same_class_prove_nothing() -> None:
    constant = torch.zeros(SAMPLES, CLASSES, dtype=torch.float64)
    constant[:, 2] = 1.0
    assert reliability([constant] * 3) == 0.0
    assert reliability([*draws(7), *[constant] * 3]) < 0.1


def test_the_pool_follows_the_mixture_as_far_as_clients_agree() -> None:
    def distance(truth: float) -> float:
        pool, clients = Pool(), draws(6, truth=truth)
        for probs in clients:
            pool.add(probs.log())
        weights = torch.softmax(torch.stack([-shannon(p) for p in clients]), 0)[:, :, None]
        mixture = (weights * torch.stack(clients)).sum(0)
        return (pool.pooled().soft - mixture).abs().mean().item()

    assert distance(6.0) < 0.2 * distance(1.0)
