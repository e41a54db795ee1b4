"""FedAvg weights by size and includes buffers; recalibration measures; FedProx pulls."""

import pytest
import torch
from torch import nn

from fedol.data import Images, Normalisation
from fedol.errors import InputError
from fedol.methods.fedavg import average, recalibrate
from fedol.training import Job, Recipe, fit
from fedol.training.loop import pull

CPU, PLAIN = torch.device("cpu"), Normalisation((0.0,), (1.0,))


def test_the_average_is_weighted_by_size_and_covers_buffers_and_counters():
    one = {"w": torch.tensor([1.0, 0.0]), "running_mean": torch.tensor([10.0]), "num_batches_tracked": torch.tensor(10)}
    two = {"w": torch.tensor([5.0, 4.0]), "running_mean": torch.tensor([2.0]), "num_batches_tracked": torch.tensor(31)}
    mean = average([(one, 30), (two, 10)])
    assert mean["w"].tolist() == [2.0, 1.0]
    assert mean["running_mean"].tolist() == [8.0]
    assert mean["num_batches_tracked"].item() == 15 and mean["num_batches_tracked"].dtype == torch.int64
    assert mean["w"].dtype == torch.float32
    assert average([({"n": torch.tensor(3)}, 1), ({"n": torch.tensor(4)}, 3)])["n"].item() == 4  # 3.75


def test_one_client_comes_back_as_it_is():
    state = nn.BatchNorm2d(3).state_dict()
    mean = average([(state, 7)])
    assert list(mean) == list(state) and all(torch.equal(mean[name], state[name]) for name in state)


def test_nothing_to_average_is_an_error():
    with pytest.raises(InputError, match="nothing to average"):
        average([])


def test_recalibration_gives_the_statistics_of_the_public_images_and_touches_no_weight():
    public = torch.randint(0, 256, (40, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(16, 2))
    model[0].running_mean.fill_(99.0)
    before = [p.clone() for p in model.parameters()]
    recalibrate(model.eval(), Images(public), PLAIN, CPU, batch=20)
    pixels = public.float() / 255
    assert model[0].running_mean.item() == pytest.approx(pixels.mean().item(), abs=1e-5)
    halves = [half.var().item() for half in pixels.split(20)]
    assert model[0].running_var.item() == pytest.approx(sum(halves) / 2, rel=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert model[0].momentum == 0.1 and not model.training


@pytest.mark.parametrize("count", [251, 503])  # of 250 at a time: parts of 126 and 125, of 168, 168 and 167
def test_every_public_image_weighs_the_same_in_a_recalibration(count):
    public = torch.full((count, 1, 4, 4), 51, dtype=torch.uint8)
    public[250:] = 255
    norm = nn.BatchNorm2d(1)
    recalibrate(norm, Images(public), PLAIN, CPU)
    assert norm.running_mean.item() == pytest.approx((public.float() / 255).mean().item(), abs=1e-6)


def test_fedprox_pulls_towards_the_weights_it_was_sent():
    def distance(mu):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        start = [p.detach().clone() for p in model.parameters()]
        images = torch.randint(0, 256, (64, 1, 4, 4), dtype=torch.uint8)
        job = Job("client", model, Images(images), torch.arange(64) % 3, PLAIN, Recipe(20, 16, 1e-2, proximal=mu))
        (result,) = fit([job], CPU)
        assert result.error is None
        return sum((p - s).square().sum().item() for p, s in zip(model.parameters(), start, strict=True)) ** 0.5

    free, weak, strong = distance(0.0), distance(0.1), distance(10.0)
    assert free > weak > 3 * strong


def test_fedproxs_gradient_is_mu_times_the_way_from_the_start():
    # Of (0.3 / 2) ((1 - 0.5)² + (2 - 4)²), beside another gradient; a parameter without any is left alone.
    here, idle = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([7.0]))
    here.grad = torch.tensor([10.0, 20.0])
    pull([here, idle], [torch.tensor([0.5, 4.0]), torch.tensor([0.0])], 0.3)
    assert here.grad.tolist() == pytest.approx([10 + 0.3 * 0.5, 20 - 0.3 * 2]) and idle.grad is None
