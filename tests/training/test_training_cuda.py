"""The CUDA engine; skipped where there is no GPU. On one: ``pytest tests/training/test_training_cuda.py``."""

import copy
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import pytest
import torch
from torch import Tensor, nn
from training_jobs import COLOURS, bright

from fedol.models import create, nets
from fedol.training import Job, Process, Snapshot, drive, fit, graph
from fedol.training.cuda import CudaEngine
from fedol.training.loop import train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
DEVICE = torch.device("cuda")
job = partial(bright, samples=700, side=16, width=16, epochs=3)


def weights(model: nn.Module) -> list[Tensor]:
    return [value.detach().cpu() for value in model.state_dict().values()]


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found.detach().double() - wanted.detach()).norm() / wanted.detach().norm().clamp_min(1e-12))


@pytest.mark.parametrize("shape", [(64, 16, 32), (64, 64, 16), (64, 256, 8), (64, 64, 33), (64, 24, 7), (3, 40, 5)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
# as in a body, a shortcut, a block's end, the last block, the stem
@pytest.mark.parametrize(("residual", "relu", "twins"), [(0, 1, 0), (0, 0, 0), (1, 1, 1), (1, 1, 0), (0, 1, 1)])
def test_fused_norm_equals_float64(
    shape: tuple[int, int, int], dtype: torch.dtype, residual: bool, relu: bool, twins: bool
) -> None:
    samples, channels, side = shape
    generator = torch.Generator("cuda").manual_seed(sum(shape))

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, device=DEVICE, generator=generator)

    x = (2 * draw(samples, channels, side, side) + 5 * draw(1, channels, 1, 1)).to(dtype).requires_grad_()
    extra = draw(samples, channels, side, side).to(dtype).requires_grad_() if residual else None
    norm = nn.BatchNorm2d(channels).to(DEVICE)
    norm.weight.data.copy_(draw(channels).abs() + 0.5)
    norm.bias.data.copy_(draw(channels))
    exact = copy.deepcopy(norm).double()
    upstream, again = (draw(samples, channels, side, side).to(dtype) for _ in range(2))

    y, twin = nets.fused_kernels().norm_act(norm, x, extra, bool(relu))
    torch.autograd.backward([y, twin], [upstream, again]) if twins else y.backward(upstream)
    x64 = x.detach().double().requires_grad_()
    extra64 = extra.detach().double().requires_grad_() if extra is not None else None
    y64 = exact(x64) + (0 if extra64 is None else extra64)
    kept = (y > 0) if relu else torch.ones_like(y, dtype=torch.bool)  # where rounding decides the sign, ours does
    (y64 * kept).backward(upstream.double() + (again.double() if twins else 0))

    tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-5
    pairs = [
        (y, y64 * kept),
        (x.grad, x64.grad),
        (norm.weight.grad, exact.weight.grad),
        (norm.bias.grad, exact.bias.grad),
    ]
    pairs += [(norm.running_mean, exact.running_mean), (norm.running_var, exact.running_var)]
    if extra is not None and extra64 is not None:
        pairs.append((extra.grad, extra64.grad))
    for found, wanted in pairs:
        assert relative(found, wanted) < tolerance


def test_company_changes_no_bit() -> None:
    (alone,) = fit([job("a", "resnet20")], DEVICE)
    others = [job(f"b{k}", samples=400 + 37 * k, seed=k) for k in range(4)]
    together = {result.job.name: result for result in fit([*others, job("a", "resnet20")], DEVICE)}
    assert alone.losses == together["a"].losses
    assert all(map(torch.equal, weights(alone.job.model), weights(together["a"].job.model)))


@pytest.mark.parametrize("augment", [False, True])
def test_same_curve_as_the_plain_float32_loop(augment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (ours,) = fit([job(augment=augment, epochs=8)], DEVICE)
    monkeypatch.setattr(nets, "fused_kernels", lambda: None)
    plain = train(job(augment=augment, epochs=8), DEVICE, lambda epoch: None, Event())
    assert ours.path.startswith("CUDA graph") and plain.path == "plain loop"
    assert abs(ours.losses[0] - plain.losses[0]) < 0.03 * plain.losses[0]
    for a, b in zip(ours.losses, plain.losses, strict=True):
        assert abs(a - b) < 0.1 * plain.losses[0]
    assert ours.losses[-1] < ours.losses[0] / 2
    counters = [key for key in ours.job.model.state_dict() if key.endswith("num_batches_tracked")]
    assert all(ours.job.model.state_dict()[key] == plain.job.model.state_dict()[key] for key in counters)


def test_a_second_job_of_the_same_model_continues_with_a_fresh_optimiser() -> None:
    first = job(epochs=2)
    (one,) = fit([first], DEVICE)
    state = copy.deepcopy(first.model.state_dict())
    again = Job("again", first.model, first.inputs, first.targets, COLOURS, first.recipe, 7)
    fresh = job("again", epochs=2)
    fresh.model.load_state_dict({key: value.cpu() for key, value in state.items()})
    separate = Job("again", fresh.model, first.inputs, first.targets, COLOURS, first.recipe, 7)
    (continued,) = fit([again], DEVICE)
    (expected,) = fit([separate], DEVICE)
    assert continued.losses == expected.losses
    assert one.losses[-1] > continued.losses[-1]


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "muon"])
def test_resumes_from_every_epoch_with_the_same_bits(optimiser: str) -> None:
    snapshots: list[Snapshot] = []
    whole = replace(job(epochs=4, proximal=0.1, optimiser=optimiser), checkpoint=snapshots.append)
    (result,) = fit([whole], DEVICE)
    assert result.path.startswith("CUDA graph")
    assert [len(snapshot.losses) for snapshot in snapshots] == [1, 2, 3, 4]
    for snapshot in snapshots:
        (again,) = fit([replace(job(epochs=4, proximal=0.1, optimiser=optimiser), resume=snapshot)], DEVICE)
        assert again.losses == result.losses
        assert all(map(torch.equal, weights(whole.model), weights(again.job.model)))


INGREDIENTS = {
    "cosine": {"schedule": "cosine"},
    "one-cycle": {"schedule": "one-cycle"},
    "cutout": {"patch": "cutout"},
    "cutmix": {"patch": "cutmix"},
    "average": {"average": 0.9},
    "decay": {"weight_decay": 10.0},
    "sgd": {"optimiser": "sgd", "lr": 0.02},
    "muon, growing": {"optimiser": "muon", "lr": 0.003, "weight_decay": 1.0, "grow": 0.7},
    "sgd with all": {"optimiser": "sgd", "lr": 0.02, "augment": True, "schedule": "cosine", "weight_decay": 5.0},
    "all": {"augment": True, "patch": "cutmix", "schedule": "one-cycle", "average": 0.9},
}


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("recipe", INGREDIENTS.values(), ids=INGREDIENTS)
def test_ingredients_train_as_in_the_plain_float32_loop(
    recipe: dict[str, object], soft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def task() -> Job:
        made = job(epochs=8, **recipe)
        return replace(made, targets=nn.functional.one_hot(made.targets, 10).float()) if soft else made

    (ours,) = fit([task()], DEVICE)
    monkeypatch.setattr(nets, "fused_kernels", lambda: None)
    plain = train(task(), DEVICE, lambda epoch: None, Event())
    assert ours.path.startswith("CUDA graph") and ours.error is None
    for a, b in zip(ours.losses, plain.losses, strict=True):
        assert abs(a - b) < 0.1 * plain.losses[0]
    # Weights too, relative to how far plain training moved: bf16 and float32 part ways, but not for elsewhere.
    start = weights(task().model)
    pairs = list(zip(weights(ours.job.model), weights(plain.job.model), start, strict=True))
    apart = sum(float((a.double() - b).square().sum()) for a, b, _ in pairs if a.is_floating_point())
    moved = sum(float((b.double() - c).square().sum()) for _, b, c in pairs if b.is_floating_point())
    assert apart < moved


def test_the_device_reads_each_steps_rate_from_the_table() -> None:
    # The last step of a cosine has almost no rate: an engine that kept the first rate would go on moving.
    ends = []
    for schedule in ("constant", "cosine"):
        snapshots: list[Snapshot] = []
        list(fit([replace(job(epochs=20, schedule=schedule), checkpoint=snapshots.append)], DEVICE))
        before, after = (snapshot.tensors for snapshot in snapshots[-2:])
        names = [name for name in after if name.startswith("model/") and name.endswith("weight")]
        ends.append(sum(float((after[name] - before[name]).norm()) for name in names))
    assert ends[1] < ends[0] / 10


def test_ingredients_resume_with_the_same_bits_and_a_next_job_starts_from_the_average() -> None:
    recipe = INGREDIENTS["all"]
    snapshots: list[Snapshot] = []
    whole = replace(job(epochs=3, **recipe), checkpoint=snapshots.append)
    list(fit([whole], DEVICE))
    for snapshot in snapshots:
        (again,) = fit([replace(job(epochs=3, **recipe), resume=snapshot)], DEVICE)
        assert all(map(torch.equal, weights(whole.model), weights(again.job.model)))
    averaged = {name[8:]: tensor for name, tensor in snapshots[-1].tensors.items() if name.startswith("average/")}
    state = whole.model.state_dict()
    assert averaged and all(torch.equal(state[name].cpu(), tensor) for name, tensor in averaged.items())


class Waits(nn.Module):
    """Makes the host wait for the GPU: no graph can hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(768, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x.flatten(1))
        return out * float(out.detach().abs().max().item() >= 0)


class Linear(nn.Sequential):
    """No convolution at all: nothing for the second stream."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(768, 10))


class Dropout(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Dropout(0.5), nn.Linear(768, 10))


class Broken(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(768, 10))
        nn.init.constant_(self[1].weight, float("nan"))


def test_fallbacks_say_their_path_and_a_broken_model_stops_alone() -> None:
    jobs = [job("waits", Waits()), job("dropout", Dropout()), job("broken", Broken()), job("linear", Linear())]
    jobs.append(job("good"))
    with pytest.warns(UserWarning, match="^Waits trains in the plain loop.*: it makes the host wait"):
        results = {result.job.name: result for result in fit(jobs, DEVICE)}
    assert results["waits"].path == "plain loop: it makes the host wait for the GPU"
    assert results["dropout"].path == "plain loop: its layers draw random numbers"
    assert results["broken"].error is not None and "broken diverged" in results["broken"].error
    for name in ("good", "linear"):
        assert results[name].path.startswith("CUDA graph") and results[name].error is None
    assert results["waits"].losses[-1] < results["waits"].losses[0]


class Sometimes(nn.Module):
    """Draws random numbers if told to, which its description does not show."""

    def __init__(self, noisy: bool) -> None:
        super().__init__()
        self.noisy, self.head = noisy, nn.Linear(768, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images.flatten(1)
        return self.head(x + torch.randn_like(x) if self.noisy else x)


def test_a_model_like_one_before_is_still_looked_at_closely() -> None:
    quiet, noisy = fit([job("quiet", Sometimes(False)), job("noisy", Sometimes(True))], DEVICE)
    results = {result.job.name: result for result in (quiet, noisy)}
    assert results["quiet"].path.startswith("CUDA graph")
    assert results["noisy"].path == "plain loop: its layers draw random numbers"


@pytest.mark.parametrize("recipe", [{}, {"average": 0.9, "schedule": "cosine", "proximal": 0.1}])
def test_a_second_model_of_a_kind_trains_as_if_it_were_the_first(
    monkeypatch: pytest.MonkeyPatch, recipe: dict[str, object]
) -> None:
    """The first takes two trial steps, one of them in the middle of its first epoch; the second none."""
    tried: set[object] = set()
    monkeypatch.setattr(graph, "_TRIED", tried)
    first, second = (next(fit([job("same", **recipe)], DEVICE)) for _ in range(2))
    assert len(tried) == 2 and first.losses == second.losses
    assert all(map(torch.equal, weights(first.job.model), weights(second.job.model)))


def test_a_batch_size_that_a_later_job_captures_is_captured_in_training_mode() -> None:
    """A job that was complete when it was killed leaves its last batch uncaptured; then somebody evaluates."""

    def process(evaluates: bool) -> Process[tuple[float, ...]]:
        first = job(epochs=2)
        yield replace(first, resume=snapshots[-1])
        first.model.train(not evaluates)
        return (yield replace(first, seed=7)).losses

    snapshots: list[Snapshot] = []
    list(fit([replace(job(epochs=2), checkpoint=snapshots.append)], DEVICE))
    ((_, expected),), ((_, found),) = (list(drive([process(evaluates)], DEVICE)) for evaluates in (False, True))
    assert found == expected


LATE = """
import torch
from triton import knobs
from fedol.models import create
from fedol.data import Images, Normalisation
from fedol.training import Job, Recipe, fit
late = []
knobs.runtime.jit_post_compile_hook = lambda **about: about["is_manual_warmup"] or late.append(about["repr"])
model = create("resnet11", classes=10, shape=(3, 32, 32), width=16)
images, labels = Images(torch.zeros(100, 3, 32, 32, dtype=torch.uint8)), torch.zeros(100, dtype=torch.int64)
(result,) = fit([Job("a", model, images, labels, Normalisation((0.5,) * 3, (0.25,) * 3), Recipe(epochs=1), 0)],
                torch.device("cuda"))
assert result.path.startswith("CUDA graph"), result.path
print(late)
"""


def test_no_kernel_is_compiled_while_somebody_waits(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LATE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_proximal_term_pulls_to_the_start() -> None:
    moved = []
    for strength in (0.0, 10.0):
        work = job(proximal=strength)
        before = [p.detach().clone() for p in work.model.parameters()]
        list(fit([work], DEVICE))
        after = [p.detach().cpu() for p in work.model.parameters()]
        moved.append(sum(float((a - b).norm()) for a, b in zip(after, before, strict=True)))
    assert moved[1] < moved[0] / 2


def test_what_finds_no_memory_waits_and_what_never_fits_stops_alone() -> None:
    def wide(name: str, seed: int = 0) -> Job:
        model = create("resnet20", classes=10, shape=(3, 16, 16), width=64, seed=seed)
        return job(name, model, seed=seed, batch_size=256, epochs=2)

    def leave(room: float) -> None:
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(DEVICE).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / total)

    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    (alone,) = fit([wide("a")], DEVICE)
    losses, needed = alone.losses, torch.cuda.max_memory_reserved() - before
    del alone
    try:
        leave(2 * needed)
        jobs = [wide("a"), *(wide(f"b{k}", seed=k) for k in range(7))]
        with CudaEngine(DEVICE, lambda epoch: None) as engine:
            for each in jobs:
                engine.submit(each)
            results = {result.job.name: result for result in (engine.next() for _ in jobs)}
            assert engine._most < len(jobs)  # else the memory was not short, and nothing is tested
        assert [result.error for result in results.values()] == [None] * len(jobs)
        assert results["a"].losses == losses
        del results, jobs, engine
        leave(needed / 4)
        fits = {result.job.name: result for result in fit([wide("large"), job("small")], DEVICE)}
        assert "more memory than the GPU has" in str(fits["large"].error) and fits["small"].error is None
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
