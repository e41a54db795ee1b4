"""Knowledge files: the way there and back, and every reason to refuse one."""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from fedol import Knowledge, Task, methods
from fedol.errors import InputError
from fedol.knowledge import codecs
from fedol.knowledge.container import Container, Incomplete, read_bounded
from fedol.methods import Distillation

IMAGES = np.arange(6 * 4, dtype=np.uint8).reshape(6, 1, 2, 2)
TASK = Task.of(IMAGES, ["cat", "dog", "eel"], name="pets")
PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [1 / 3] * 3, [1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])


def good(codec: str = codecs.DEFAULT, task: Task = TASK) -> bytes:
    return Knowledge.from_probabilities(PROBS, task, "alice").encode(codec)


def changed(data: bytes, **entries: Any) -> bytes:
    """The same file with other entries in its header."""
    container = Container.unpack(data)
    return Container({**container.header, **entries}, container.body).pack()


def test_three_lines(tmp_path: Path) -> None:
    knowledge = Knowledge.from_probabilities(PROBS, TASK)
    size = knowledge.save(tmp_path / "my.fedol", "float32")
    back = Knowledge.load(tmp_path / "my.fedol", TASK)
    assert size == (tmp_path / "my.fedol").stat().st_size
    torch.testing.assert_close(back.probabilities(), torch.from_numpy(PROBS).float(), atol=1e-6, rtol=0)
    assert back.task == TASK.ref and back.client == "client"


@pytest.mark.parametrize("method", ["pooled", "fedol+", "fedet", "fedol", "mine"])
def test_the_largest_logits_give_targets_that_are_numbers(method: str) -> None:
    far = Knowledge.from_logits(torch.tensor([[3e38, -3e38, 0.0], [-3e38, -3e38, 3e38], [0.0, 1.0, -3e38]]))
    near = Knowledge.from_logits(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(far.probabilities()[:2], torch.tensor([[1.0, 0, 0], [0, 0, 1]]))
    assert torch.isfinite(methods.find(method).teacher([far, near], Distillation()).targets(1, None).soft).all()


def test_it_is_a_safetensors_file_and_reproducible(tmp_path: Path) -> None:
    (tmp_path / "a.fedol").write_bytes(good())
    with safe_open(tmp_path / "a.fedol", "np") as file:
        assert list(file.keys()) == ["body"] and json.loads(file.metadata()["fedol"])["client"] == "alice"
    assert good() == good()


@pytest.mark.parametrize("codec", ["float32", "float16+zstd", codecs.DEFAULT, codecs.SMALL, "top2"])
def test_every_codec_travels(codec: str) -> None:
    knowledge, header = Knowledge.decode(good(codec), TASK)
    assert header.codec == codec and knowledge.log_probs.shape == (6, 3)
    assert knowledge.probabilities().argmax(1).tolist()[:2] == [0, 2]


def test_a_task_id_tells_apart_whatever_differs() -> None:
    other = [
        Task.of(IMAGES, ["cat", "dog", "eel"], name="other"),
        Task.of(IMAGES, ["dog", "cat", "eel"], name="pets"),
        Task.of(IMAGES[::-1], ["cat", "dog", "eel"], name="pets"),
        Task.of(IMAGES[:5], ["cat", "dog", "eel"], name="pets"),
    ]
    assert len({TASK.id, *(task.id for task in other)}) == 5


REFUSED = {
    "empty": (b"", "ends before its header"),
    "truncated header": (good()[:60], "ends within its header"),
    "truncated body": (good()[:-1], "ends after"),
    "goes on": (good() + b"x", "goes on after its end"),
    "gigantic header": (struct.pack("<Q", 2**62) + good()[8:], "header claims"),
    "header is no JSON": (struct.pack("<Q", 8) + b"{{{{{{{{", "no JSON"),
    "header nests deeply": (struct.pack("<Q", 16000) + b"[" * 16000, "no JSON"),
    "header is a list": (struct.pack("<Q", 8) + b"[]      ", "no JSON object"),
    "other safetensors": (struct.pack("<Q", 8) + b"{}      ", "no knowledge file"),
    "wrong dtype": (good().replace(b'"U8"', b'"F4"'), "type U8"),
    "other schema": (changed(good(), schema=99), "schema 99"),
    "no client": (changed(good(), client=None), "lacks an entry"),
    "client is a path": (changed(good(), client="../../etc/cron.d/x"), "cannot be named"),
    "samples true": (changed(good(), samples=True), "wrong type"),
    "task is a list": (changed(good(), task=[1]), "wrong type"),
    "negative samples": (changed(good(), samples=-6), "wrong type"),
    "unknown codec": (changed(good(), codec="pickle"), "no codec"),
    "too few bytes": (changed(good("float32"), codec="float16"), "instead of"),
    "other class list": (good(task=Task.of(IMAGES, ["cat", "dog", "fly"], "pets")), "another list of classes"),
    "order of classes": (good(task=Task.of(IMAGES, ["dog", "cat", "eel"], "pets")), "another order of them"),
    "order of images": (good(task=Task.of(IMAGES[::-1], TASK.classes, "pets")), "other public samples"),
    "another task": (good(task=Task.of(IMAGES, TASK.classes, "zoo")), "answers another task"),
    "no task": (Knowledge.from_probabilities(PROBS, None, "alice").encode(), "another list of classes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_own_sentence(case: str, tmp_path: Path) -> None:
    data, words = REFUSED[case]
    (tmp_path / "bad.fedol").write_bytes(data)
    with pytest.raises(InputError, match=words) as caught:
        Knowledge.load(tmp_path / "bad.fedol", TASK)
    message = str(caught.value)
    assert str(tmp_path / "bad.fedol") in message and "\n" not in message and not message.endswith("..")


def test_a_directory_is_refused_and_not_left_open(tmp_path: Path) -> None:
    def lowest_free() -> int:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = lowest_free()
    with pytest.raises(InputError, match="cannot be read"):
        read_bounded(tmp_path)
    assert lowest_free() == before


def test_truncation_at_every_byte_is_seen_as_such() -> None:
    data = good()
    for end in range(len(data)):
        with pytest.raises(Incomplete):
            Container.unpack(data[:end])


def test_bit_flips_are_refused_or_harmless() -> None:
    """A flipped bit in a float32 body may leave distributions; whatever is accepted is finite and normalised."""
    data = bytearray(good("float32"))
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        try:
            knowledge, _ = Knowledge.decode(bytes(flipped), TASK)
        except InputError:
            continue
        assert torch.isfinite(knowledge.log_probs).all()


def test_limits_of_the_task(tmp_path: Path) -> None:
    data = good("float32")
    (tmp_path / "a.fedol").write_bytes(data)
    with pytest.raises(InputError, match="more than the 100 bytes"):
        Knowledge.load(tmp_path / "a.fedol", dataclasses.replace(TASK, max_bytes=100))
    with pytest.raises(InputError, match="accepts float16"):
        Knowledge.decode(data, dataclasses.replace(TASK, codecs=("float16",)))
    with pytest.raises(InputError, match="does not list"):
        Knowledge.decode(data, dataclasses.replace(TASK, clients={"bob": None}))


def test_without_a_task_a_claim_is_bounded_too() -> None:
    with pytest.raises(
        InputError, match="1,000,000,000 x 1,000,000,000 predictions in 39 bytes, but at most 1,048,576 values"
    ):
        Knowledge.decode(changed(good("q7c60+zstd"), samples=10**9, classes=10**9))


@pytest.mark.parametrize(
    ("probs", "words"),
    [
        (np.full((6, 3), np.nan), "NaN"),
        (np.tile([1.2, -0.2, 0.0], (6, 1)), "between 0 and 1"),
        (np.tile([0.5, 0.2, 0.1], (6, 1)), "sum to 1"),
        (PROBS[:5], "public samples"),
        (np.tile([0.5, 0.5], (6, 1)), "classes"),
    ],
)
def test_from_probabilities_refuses(probs: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Knowledge.from_probabilities(probs, TASK)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "x" * 65, "a\n", " a", "-", "é"])
def test_names_that_could_be_paths(name: str) -> None:
    with pytest.raises(InputError, match="cannot be named"):
        Knowledge.from_probabilities(PROBS, TASK, name)


def test_a_client_that_knows_some_classes() -> None:
    two = np.tile([0.75, 0.25], (6, 1))
    for known in (np.array([2, 0]), ["eel", "cat"]):
        probs = Knowledge.from_probabilities(two, TASK, classes=known).probabilities()
        np.testing.assert_allclose(probs[0], [0.25, 0, 0.75], atol=1e-6)
    half = torch.from_numpy(two).bfloat16()  # which NumPy has not
    np.testing.assert_allclose(
        Knowledge.from_probabilities(half, TASK, classes=[2, 0]).probabilities()[0], [0.25, 0, 0.75], atol=1e-6
    )
    for known, words in [([0, 3], "has not: 3"), (["cat", "fly"], "has not: fly"), ([0], "1 known"), ([0.5, 1], "0.5")]:
        with pytest.raises(InputError, match=words):
            Knowledge.from_probabilities(two, TASK, classes=known)
    with pytest.raises(InputError, match="give the task"):
        Knowledge.from_probabilities(two, classes=[0, 1])
