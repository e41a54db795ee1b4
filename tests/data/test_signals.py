"""Signals: float arrays of any shape, which stay on the disk where they lie there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedol
from fedol.core.arrays import fingerprint
from fedol.data import Dataset, Images, Signals, load
from fedol.data import samples as module
from fedol.data.samples import Batches, preprocessing_of, samples
from fedol.data.stored import load_samples, store, stored
from fedol.errors import InputError

VALUES = np.random.default_rng(0).normal(3, 2, (20, 2, 50)).astype(np.float32)


def waves(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sines of two frequencies at any phase, in noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    phase = rng.uniform(0, 6, (count, 1))
    x = np.sin(np.arange(64) * (0.3 + 0.5 * y[:, None]) + phase) + rng.normal(0, 0.3, (count, 64))
    return (1000 * x[:, None]).astype(np.float32), y


def test_each_channel_is_scaled_by_the_public_signals() -> None:
    public = samples(VALUES)
    assert isinstance(public, Signals) and public.shape == (2, 50)
    prepare = public.take(slice(3)).fit(public)
    np.testing.assert_allclose(prepare.mean, VALUES.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(prepare.std, VALUES.std((0, 2)), rtol=1e-5)
    found = prepare(public.batch(slice(None)))
    assert found.dtype == torch.float32 and abs(found.mean().item()) < 1e-5
    assert preprocessing_of(json.loads(json.dumps(prepare.header())), (2, 50)) == prepare
    far = samples(VALUES.astype(np.float64) + 1e6)
    np.testing.assert_allclose(far.fit().std, far.array().astype(np.float64).std((0, 2)), rtol=1e-3)
    for wrong in ({"mean": [0, 0]}, {"std": [1, 1]}, {"std": [0]}, {"mean": [float("nan")]}):
        with pytest.raises(InputError):
            preprocessing_of({"kind": "signals", "mean": [0], "std": [1], **wrong}, (1, 5))


def test_parts_of_files_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    mapped, _ = load_samples(tmp_path / "a.npy")
    assert isinstance(mapped, Signals) and isinstance(mapped.parts[0], np.memmap)
    memory = samples(VALUES[:4])
    chosen = mapped.take(np.array([7, 1])).joined(memory).joined(mapped.take([3]))
    assert isinstance(chosen, Signals) and len(chosen.parts) == 2  # the file is there once
    wanted = np.concatenate([VALUES[[7, 1]], VALUES[:4], VALUES[[3]]])
    assert np.array_equal(chosen.array(), wanted) and chosen.fingerprint == fingerprint(wanted)
    assert np.array_equal(chosen.take([6, 0]).batch(slice(None)).numpy(), wanted[[6, 0]])


def test_batches_are_alike_prepared_at_once_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    public = samples(VALUES)
    ready = public.on(torch.device("cpu"), public.fit())
    monkeypatch.setattr(module, "SMALL", 0)
    later = public.on(torch.device("cpu"), public.fit())
    index = torch.tensor([5, 0, 5])
    assert isinstance(later, Batches) and torch.equal(ready(index, None), later(index, None))


def test_a_task_keeps_signals(tmp_path: Path) -> None:
    public = samples(VALUES)
    task = fedol.Task.of(public, ["a", "b"])
    found = fedol.TaskFolder.create(tmp_path, task, public).samples()
    assert isinstance(found, Signals) and found.fingerprint == public.fingerprint
    store(public.take(slice(19)), tmp_path)
    with pytest.raises(InputError, match="holds 19 samples, but the task has 20"):
        load_samples(stored(tmp_path), 20)


def test_floats_are_images_only_where_that_loses_nothing() -> None:
    levels = np.arange(256, dtype=np.float32).reshape(1, 16, 16) / 255
    labels: tuple[Any, ...] = ([0], levels, [1])
    assert isinstance(Dataset.from_arrays(levels, *labels).train.samples, Images)
    finer = np.random.default_rng(0).random((4, 3, 8, 8))
    data = Dataset.from_arrays(finer, [0, 1, 0, 1], finer, [0, 1, 0, 1])
    assert isinstance(data.train.samples, Signals) and np.array_equal(data.train.x, finer.astype(np.float32))


def test_what_is_wrong_names_the_row() -> None:
    bad = VALUES.copy()
    bad[7, 1, 3] = np.nan
    with pytest.raises(InputError, match="not finite, first in row 8"):
        samples(bad)
    with pytest.raises(InputError, match=r"takes images of .* take linear or mlp or mlp-large or cnn1d or cnn1d-large"):
        fedol.distill([np.full((20, 2), 0.5)], VALUES, model="cnn")


def test_a_run_on_a_folder_of_arrays(tmp_path: Path) -> None:
    for part, (x, y) in {"train": waves(300, 0), "test": waves(100, 1)}.items():
        np.save(tmp_path / f"{part}_x.npy", x)
        np.save(tmp_path / f"{part}_y.npy", y)
    assert isinstance(load(str(tmp_path)).train.samples.parts[0], np.memmap)  # type: ignore[attr-defined]
    small: dict[str, Any] = {"public": 100, "clients": 2, "epochs": 6, "device": "cpu", "method": "union"}
    result = fedol.run(dataset=tmp_path, partition="dirichlet:1", out=tmp_path / "run", progress=False, **small)
    assert result.summary["config"]["server_model"] == "cnn1d-large" and result.summary["server"]["accuracy"] > 0.9
    assert "1e+03" in json.dumps(json.loads((result.out / "evidence.json").read_text())["captions"])
