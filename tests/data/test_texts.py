"""Texts: hashed n-grams by the public set's rarity, strings for everybody else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch

import fedol
from fedol.data import Reading, Texts, load
from fedol.data.samples import preprocessing_of
from fedol.data.stored import load_samples, store, stored
from fedol.data.texts import HASHES, MOST, hashed
from fedol.errors import InputError
from fedol.federation.predictors import predict_knowledge

PUBLIC = ["the cat sat", "the dog sat", "The cat, the cat!", "a bird"]
WORDS = {"cats": ["cat", "purr", "whiskers", "kitten"], "dogs": ["dog", "bark", "tail", "puppy"]}


def texts(values: list[str]) -> Texts:
    return Texts.of(values, "these")


def corpus(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Two words of the class among three of no class."""
    rng = np.random.default_rng(seed)
    labels = [list(WORDS)[c] for c in rng.integers(0, 2, count)]
    fillers = ["a", "the", "of", "in", "on"]
    found = [" ".join([*rng.choice(WORDS[label], 2), *rng.choice(fillers, 3)]) for label in labels]
    return found, labels


def test_features_are_those_of_a_slow_count() -> None:
    public, text = texts(PUBLIC), "The cat sat. The CAT sat here"
    prepare = public.fit()

    def grams(words: str) -> Counter[int]:
        split = words.lower().replace(",", "").replace("!", "").replace(".", "").split()
        pairs = [" ".join(split[k : k + 2]) for k in range(len(split) - 1)]
        return Counter(crc32(gram.encode()) % HASHES for gram in [*split, *pairs])

    counts = [grams(each) for each in PUBLIC]
    held = {gram: sum(gram in each for each in counts) for each in counts for gram in each}
    kept = sorted(gram for gram, number in held.items() if number > 1)
    assert prepare.grams == tuple(kept)
    idf = [np.log(5 / (1 + held[gram])) + 1 for gram in kept]
    here = grams(text)
    row = np.array(
        [(1 + np.log(here[gram])) * weight if here[gram] else 0 for gram, weight in zip(kept, idf, strict=True)]
    )
    row *= np.sqrt((row > 0).sum()) / np.linalg.norm(row)
    np.testing.assert_allclose(prepare(texts([text]).batch(slice(None)))[0].numpy(), row, rtol=1e-5)
    unknown = prepare(texts(["zebra"]).batch(slice(None)))
    assert not unknown.any()  # nobody's word is no word, and no NaN
    again = preprocessing_of(json.loads(json.dumps(prepare.header())), prepare.prepared(public.shape))
    assert again == prepare


def test_batches_do_not_depend_on_what_is_beside() -> None:
    public = texts(PUBLIC)
    prepare = public.fit()
    whole = prepare(public.batch(slice(None)))
    for row in range(4):
        assert torch.equal(prepare(public.batch(torch.tensor([row])))[0], whole[row])
    assert len(hashed("word " * 10_000)) < MOST
    assert public.take([2, 0]).joined(public.take(slice(1))).array().tolist() == [PUBLIC[2], PUBLIC[0], PUBLIC[0]]


def test_a_task_keeps_texts(tmp_path: Path) -> None:
    public = texts([*PUBLIC, "ӝ 日本 🙂"])
    store(public, tmp_path)
    found, names = load_samples(stored(tmp_path), 5)
    assert found.fingerprint == public.fingerprint and names[0] == "0"
    good = public.packed()[1]
    for wrong in (
        {**good, "lengths": good["lengths"] + 1},
        {**good, "lengths": -good["lengths"]},
        {**good, "letters": good["letters"].astype(np.int16)},
    ):
        with pytest.raises(InputError):
            Texts.unpacked({"text": [], "label": None}, wrong)
    for name, value in (
        ("text", [7]),
        ("grams", [2, 1]),
        ("grams", [HASHES, HASHES + 1]),
        ("idf", [-1.0, 1.0]),
        ("idf", [1.0]),
    ):
        with pytest.raises(InputError):
            preprocessing_of({"kind": "texts", "grams": [1, 2], "idf": [1.0, 1.0], "text": [], name: value}, (2,))


def test_texts_from_columns_and_lines(tmp_path: Path) -> None:
    table, lines = tmp_path / "news.csv", tmp_path / "lines.txt"
    table.write_text('1,Title,"Some, text"\n2,Other,words\n' * 5)
    data = load(str(table), reading=Reading(label="1", text=("2", "3")))
    assert data.classes == ("1", "2") and data.train.samples.array()[0] == "Title Some, text"
    unlabelled, _ = load_samples(table, reading=Reading().under(data.train.samples.fit()))
    assert unlabelled.array()[1] == "Other words" and isinstance(unlabelled, Texts)
    lines.write_text("one line\nanother\n")
    assert load_samples(lines)[0].array().tolist() == ["one line", "another"]
    lines.write_text("one line\n\n")
    with pytest.raises(InputError, match=r"lines.txt, row 2: the text is empty"):
        load_samples(lines)
    with pytest.raises(InputError, match="row 2: the text is no text"):
        Texts.of(["a", 7], "these")


def test_a_run_on_texts_and_a_client_that_reads_them_itself(tmp_path: Path) -> None:
    small: dict[str, Any] = {"public": 100, "clients": 2, "epochs": 10, "iterations": 1, "device": "cpu"}
    result = fedol.run(dataset=corpus(400, 0), partition="iid", out=tmp_path / "run", progress=False, **small)
    assert result.summary["server"]["accuracy"] > 0.9
    model, (new, truth) = fedol.load(result.out), corpus(100, 1)
    assert np.mean([model.classes[c] == label for c, label in zip(model.predict(new), truth, strict=True)]) > 0.9
    evidence = json.loads((result.out / "evidence.json").read_text())
    assert evidence["captions"][0] in (result.out / "report.html").read_text()

    module = tmp_path / "mine.py"
    module.write_text(
        "import numpy as np\n"
        "def load():\n"
        "    return lambda texts: np.array([[0.9, 0.1] if 'cat' in text else [0.2, 0.8] for text in texts])\n"
    )
    public = texts(new)
    task = fedol.Task.of(public, ["cats", "dogs"])
    found = predict_knowledge(f"{module}:load", public, task, "mine")
    assert (found.probabilities()[:, 0] > 0.5).tolist() == ["cat" in text for text in new]
