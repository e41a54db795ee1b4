"""Sounds: what WAV files hold, what a transform makes of them, and what is wrong with some."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedol
from fedol.data import load
from fedol.data.waves import read_wave
from fedol.errors import InputError

RATE, FRAMES = 800, 160


def write(path: Path, values: Any, width: int = 2, channels: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = np.rint(np.asarray(values) * 2 ** (8 * width - 1)).astype(np.int64) + (128 if width == 1 else 0)
    with wave.open(str(path), "wb") as sound:
        sound.setparams((channels, width, RATE, len(whole) // channels, "NONE", ""))
        sound.writeframes(b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in whole))


def tone(cycles: float, seed: int) -> Any:
    noise = np.random.default_rng(seed).normal(0, 0.05, FRAMES)
    return np.clip(0.5 * np.sin(2 * np.pi * cycles * np.arange(FRAMES) / FRAMES) + noise, -0.99, 0.99)


def spectrum(values: Any, rate: int) -> Any:
    assert rate == RATE and values.shape == (1, FRAMES)
    return np.abs(np.fft.rfft(values[0]))[:32]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    for number in range(60):
        write(folder / "low" / f"{number}.wav", tone(5, number))
        write(folder / "high" / f"{number}.wav", tone(20, 100 + number))
    return folder


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_every_width(width: int, tmp_path: Path) -> None:
    values = np.array([0.0, 0.5, -0.5, -1.0, 0.25, -0.25])
    write(tmp_path / "a.wav", values, width, channels=2)
    found, rate = read_wave(tmp_path / "a.wav")
    np.testing.assert_allclose(found, values.reshape(-1, 2).T, atol=1e-6)
    assert rate == RATE and found.dtype == np.float32


def test_a_folder_is_a_dataset_of_signals(folder: Path) -> None:
    data = load(str(folder))
    assert data.train.samples.kind == "signals" and data.shape == (1, FRAMES) and data.classes == ("high", "low")
    assert len(data.train) == 96 and len(data.test) == 24
    again = fedol.Dataset.from_waves(folder)
    assert again.fingerprint == data.fingerprint


def test_a_transform_makes_what_is_learnt_from(folder: Path, tmp_path: Path) -> None:
    data = fedol.Dataset.from_waves(folder, spectrum)
    assert data.shape == (1, 32)
    result = fedol.run(
        dataset=data, clients=2, partition="iid", public=30, epochs=10, method="mixture", out=tmp_path, progress=False
    )
    assert result.accuracy is not None and result.accuracy > 0.9


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (lambda values, rate: values[5], "The transform fails on"),
        (lambda values, rate: values * np.nan, "must give finite numbers"),
        (lambda values, rate: values[:, : 10 + int(values[0, 0] > 0)], "cut them to one length"),
    ],
)
def test_a_transform_that_will_not_do(transform: Any, words: str, folder: Path) -> None:
    with pytest.raises(InputError, match=words):
        fedol.Dataset.from_waves(folder, transform)


def test_files_that_will_not_do(tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.wav", tone(5, 0))
    write(tmp_path / "a" / "2.wav", tone(5, 0)[:40])
    with pytest.raises(InputError, match=r"2.wav gives .* cut them to one length"):
        load(str(tmp_path))
    (tmp_path / "a" / "2.wav").write_bytes(b"RIFF and nothing")
    with pytest.raises(InputError, match=r"2\.wav cannot be read as WAV"):
        load(str(tmp_path))
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match="holds no WAV files"):
        load(str(tmp_path))
