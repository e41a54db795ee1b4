"""Training against a plain loop written out here; what trains beside a job changes nothing."""

import math
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedol.data import Images, Normalisation
from fedol.data.samples import samples
from fedol.errors import InputError
from fedol.models import create
from fedol.models.nets import fused_kernels
from fedol.seeding import derive
from fedol.training import Epoch, Fit, Job, Process, Recipe, drive, fit, predict, resolve_device

CPU = torch.device("cpu")
NORMALISE = Normalisation((0.3,), (0.2,))
GENERATOR = np.random.default_rng(0)
IMAGES = torch.from_numpy(GENERATOR.integers(0, 256, size=(50, 1, 8, 8), dtype=np.uint8))
HARD = torch.from_numpy(GENERATOR.integers(0, 4, size=50))
SOFT = torch.from_numpy(GENERATOR.dirichlet(np.ones(4), size=50)).float()


def job(model: Any = "cnn", name: str = "it", targets: Tensor = HARD, seed: int = 3, **recipe: Any) -> Job:
    settings = Recipe(**{"epochs": 3, "batch_size": 16, **recipe})
    module = create(model, classes=4, shape=(1, 8, 8), width=4, seed=seed)
    return Job(name, module, Images(IMAGES[: len(targets)]), targets, NORMALISE, settings, seed)


def train(*jobs: Job) -> dict[str, Fit]:
    return {result.job.name: result for result in fit(jobs, CPU)}


def weights(result: Fit | nn.Module) -> list[Tensor]:
    module = result if isinstance(result, nn.Module) else result.job.model
    return [value.clone() for value in module.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def plain_loop(task: Job) -> tuple[list[Tensor], list[float]]:
    """The paper's training with nothing around it, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = task.model.to(memory_format=torch.channels_last).train()
    kind = torch.optim.AdamW if task.recipe.weight_decay else torch.optim.Adam
    optimiser = kind(model.parameters(), lr=task.recipe.lr, weight_decay=task.recipe.weight_decay, fused=True)
    losses = []
    for epoch in range(1, task.recipe.epochs + 1):
        shuffle = torch.Generator().manual_seed(derive(task.seed, "shuffle", epoch))
        total, seen = 0.0, 0
        for batch in torch.randperm(len(task.inputs), generator=shuffle).split(task.recipe.batch_size):
            if len(batch) == 1:
                continue
            x = (task.inputs.batch(batch).float() / 255 - 0.3) / 0.2
            loss = F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), task.targets[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total, seen = total + loss.item() * len(batch), seen + len(batch)
        losses.append(total / seen)
    torch.set_num_threads(threads)
    return weights(model), losses


@pytest.mark.parametrize("targets", [HARD, SOFT, SOFT * 1.2, HARD[:49], HARD[:7]], ids=lambda t: f"{list(t.shape)}")
@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet11"])
def test_equals_the_plain_loop_bit_by_bit(model: str, targets: Tensor) -> None:
    expected, losses = plain_loop(job(model, targets=targets))
    result = train(job(model, targets=targets))["it"]
    assert result.error is None
    assert same(weights(result), expected)
    assert result.losses == pytest.approx(losses, rel=1e-6)


def test_weight_decay_is_adamws() -> None:
    expected, _ = plain_loop(job(weight_decay=0.1))
    assert same(weights(train(job(weight_decay=0.1))["it"]), expected)
    assert not same(weights(train(job())["it"]), expected)


class Noisy(nn.Module):
    """A net that draws while it trains."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


@pytest.mark.parametrize("model", ["cnn", Noisy], ids=["cnn", "dropout"])
def test_company_changes_nothing(model: Any) -> None:
    jobs = {f"job {seed}": (lambda seed=seed: job(model, f"job {seed}", seed=seed, epochs=8)) for seed in range(6)}
    alone = {name: weights(train(make())[name]) for name, make in jobs.items()}
    assert not same(alone["job 0"], alone["job 1"])
    together = train(*(make() for make in jobs.values()))
    assert {name: same(weights(result), alone[name]) for name, result in together.items()} == dict.fromkeys(jobs, True)


def test_dropout_is_drawn_anew_in_every_job_and_for_every_seed() -> None:
    def result(seed: int) -> list[Tensor]:
        task = job(Noisy, seed=1)
        return weights(train(Job("it", task.model, Images(IMAGES), HARD, NORMALISE, task.recipe, seed))["it"])

    assert same(result(1), result(1))
    assert not same(result(1), result(2))


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    train(job(Noisy, "a"), job(Noisy, "b"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_that_model_alone(bad: float) -> None:
    ruined = SOFT.clone()
    ruined[5, 1] = bad
    alone = weights(train(job(name="healthy"))["healthy"])
    results = train(job(name="healthy"), job(name="ruined", targets=ruined), job(name="other", seed=9))
    assert results["ruined"].error is not None
    assert results["ruined"].error.startswith("ruined diverged: its loss is ")
    assert results["ruined"].error.endswith("; try a smaller learning rate.")
    assert results["healthy"].error is results["other"].error is None
    assert same(weights(results["healthy"]), alone)


def test_a_trailing_batch_of_one_is_left_out() -> None:
    task = job(targets=HARD[:33])  # 16 + 16 + 1: batch normalisation has no variance for the last
    assert task.samples == len(task.order(1)) == 32
    assert train(task)["it"].error is None
    assert len(job(targets=HARD[:34]).order(1)) == 34


def test_every_epoch_has_another_order_and_every_sample_once() -> None:
    orders = [job().order(epoch) for epoch in (1, 2)]
    assert not torch.equal(*orders)
    assert all(torch.equal(order.sort().values, torch.arange(50)) for order in orders)


def distance(result: Fit, start: list[Tensor]) -> float:
    parameters = [p.detach() for p in result.job.model.parameters()]
    return math.sqrt(sum((a - b).square().sum().item() for a, b in zip(parameters, start, strict=True)))


def test_the_proximal_term_pulls_towards_the_start() -> None:
    start = [p.detach().clone() for p in job("mlp").model.parameters()]
    moved = [distance(train(job("mlp", proximal=mu, epochs=20))["it"], start) for mu in (0.0, 1.0, 100.0)]
    assert moved[0] > 1.5 * moved[1] > 2 * moved[2] > 0


def test_the_proximal_term_pulls_from_the_second_step_on() -> None:
    # One batch a step: the first step has no pull, so the second is where the two runs part.
    free, held = (train(job("mlp", proximal=mu, epochs=1, batch_size=50))["it"] for mu in (0.0, 5.0))
    assert same(weights(free), weights(held))
    free, held = (train(job("mlp", proximal=mu, epochs=2, batch_size=50))["it"] for mu in (0.0, 5.0))
    assert not same(weights(free), weights(held))


def test_epochs_are_reported_as_they_end() -> None:
    seen: list[Epoch] = []
    results = list(fit([job("mlp", "a"), job("mlp", "b")], CPU, seen.append))
    for result in results:
        mine = [epoch for epoch in seen if epoch.job is result.job]
        assert [(epoch.epoch, epoch.loss, epoch.samples) for epoch in mine] == [
            (number, loss, 50) for number, loss in enumerate(result.losses, 1)
        ]


def test_processes_run_side_by_side_and_get_their_own_fits() -> None:
    def process(name: str, rounds: int) -> Process[list[str]]:
        names = []
        for number in range(rounds):
            result = yield job("mlp", f"{name}{number}", epochs=1)
            names.append(result.job.name)
        return names

    results = dict(drive([process("a", 3), process("b", 1), process("c", 0)], CPU))
    assert results == {0: ["a0", "a1", "a2"], 1: ["b0"], 2: []}


def test_an_error_in_a_process_ends_them_all() -> None:
    def fails() -> Iterator[Job]:
        yield job("mlp", epochs=1)
        raise InputError("enough.")

    with pytest.raises(InputError, match="enough"):
        list(drive([fails()], CPU))  # type: ignore[list-item]


def test_predict_gives_log_probabilities_in_evaluation_mode_and_leaves_the_mode() -> None:
    module = create(Noisy, classes=4, shape=(1, 8, 8), seed=1)
    module.train()
    one, other = (predict(module, samples(images), NORMALISE, CPU) for images in (IMAGES, IMAGES.numpy()))
    assert torch.equal(one, other)  # no dropout
    torch.testing.assert_close(one.exp().sum(1), torch.ones(50))
    assert module.training
    module.eval()
    with torch.no_grad():
        torch.testing.assert_close(one, torch.log_softmax(module((IMAGES.float() / 255 - 0.3) / 0.2), 1))
    torch.testing.assert_close(predict(module, Images(IMAGES), NORMALISE, CPU, batch=7), one)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: job(epochs=0), "epochs must be at least 1"),
        (lambda: job(epochs=-3), "epochs must be at least 1"),
        (lambda: job(batch_size=1), "batch_size at least 2"),
        (lambda: job(lr=0.0), "lr must be a positive number"),
        (lambda: job(lr=math.nan), "lr must be a positive number"),
        (lambda: job(targets=HARD[:1]), "it has 1 training images; at least 2 are needed"),
        (lambda: job(targets=HARD[:0]), "it has 0 training images"),
        (lambda: Job("it", nn.Identity(), Images(IMAGES), HARD[:9], NORMALISE), "it has 50 images but 9 targets"),
        (lambda: resolve_device("tpu"), "no device 'tpu'"),
        (lambda: resolve_device("cpu:x"), "'cpu:x' is not available"),
        (lambda: resolve_device("cpu:"), "'cpu:' is not available"),
    ],
)
def test_mistakes(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()


def test_auto_is_a_device_that_is_here() -> None:
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    assert resolve_device("cpu") == CPU


@pytest.mark.parametrize("name", ["cuda:2", "cuda:256", "cuda:-1"])  # of 256, torch itself makes 0
def test_a_gpu_is_one_that_is_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [resolve_device(there).index for there in ("cuda", "cuda:0", "cuda:1")] == [None, 0, 1]
    with pytest.raises(InputError, match=f"'{name}' is not available"):
        resolve_device(name)


def test_without_triton_pytorchs_norms_train_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = property(lambda self: (_ for _ in ()).throw(RuntimeError("Failed to find C compiler.")))
    runtime = SimpleNamespace(driver=type("Driver", (), {"active": driver})())
    for triton, reason in ((None, "ModuleNotFoundError"), (SimpleNamespace(runtime=runtime), "find C compiler")):
        monkeypatch.setitem(sys.modules, "triton", triton)
        with pytest.warns(UserWarning, match=f"PyTorch's own norms train here.*{reason}"):
            assert fused_kernels.__wrapped__() is None
