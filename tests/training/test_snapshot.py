"""A training that is stopped after any epoch and goes on from its snapshot ends in the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedol.data import Images, Normalisation
from fedol.files import read_tensors, write_tensors
from fedol.models import create
from fedol.training import Job, Recipe, Snapshot, fit

CPU = torch.device("cpu")


def job(model: str, recipe: Recipe) -> Job:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 1, 8, 8), generator=generator, dtype=torch.uint8)
    targets = torch.rand(40, 3, generator=generator).softmax(1)
    module = create(model, classes=3, shape=(1, 8, 8), seed=1)
    return Job("job", module, Images(images), targets, Normalisation((0.5,), (0.3,)), recipe, seed=5)


@pytest.mark.parametrize("model", ["cnn", "resnet11"])
@pytest.mark.parametrize("recipe", [Recipe(4, 16, 1e-2), Recipe(4, 16, 1e-2, proximal=0.1, weight_decay=1e-3)])
def test_the_same_weights_from_every_epoch(model: str, recipe: Recipe, tmp_path) -> None:  # type: ignore[no-untyped-def]
    snapshots: list[Snapshot] = []
    whole = replace(job(model, recipe), checkpoint=snapshots.append)
    (result,) = fit([whole], CPU)
    assert [len(snapshot.losses) for snapshot in snapshots] == [1, 2, 3, 4]
    for number, snapshot in enumerate(snapshots):
        write_tensors(tmp_path / f"{number}.safetensors", snapshot.tensors, {})
        read = Snapshot(read_tensors(tmp_path / f"{number}.safetensors")[0], snapshot.losses)
        again = replace(job(model, recipe), resume=read)
        (resumed,) = fit([again], CPU)
        assert resumed.losses == result.losses
        for name, tensor in whole.model.state_dict().items():
            assert torch.equal(tensor, again.model.state_dict()[name]), name
