"""A stranger's file of an estimator: refused, or a model that answers; never code, a crash, or memory without end."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fedol.data.samples import samples
from fedol.errors import FedolError, InputError
from fedol.files import read_tensors, write_tensors
from fedol.model import Architecture, ServerModel, load
from fedol.models import estimators, registry, stored
from fedol.models.estimators import NATIVE
from fedol.models.fitted import STATE, Fitted
from fedol.models.trees import check_tree

IMAGES = samples(np.random.default_rng(0).integers(0, 256, (40, 1, 2, 2)).astype(np.uint8))
LABELS = torch.arange(40) % 3
SMALL: dict[str, dict[str, int]] = {
    "logistic": {},
    "forest": {"n_estimators": 3},
    "hist-boosting": {"max_iter": 2},
    "lightgbm": {"n_estimators": 2},
    "xgboost": {"n_estimators": 2},
}


@cache
def learnt(name: str) -> ServerModel:
    """A small model of this name."""
    architecture = Architecture.on(IMAGES, name, ["a", "b", "c"], 16)
    module = architecture.build(0)
    assert isinstance(module, Fitted)
    module.learner.estimator.set_params(**SMALL[name])
    module.learn(architecture.prepare(IMAGES.batch(slice(None))), LABELS)
    return ServerModel(module, architecture)


def file_of(name: str, state: bytes, path: Path) -> Path:
    """A model file that holds these bytes."""
    header = {"architecture": learnt(name).architecture.header(), "history": []}
    write_tensors(path, {STATE: torch.from_numpy(np.frombuffer(state, dtype=np.uint8).copy())}, header)
    return path


def state_of(name: str) -> bytes:
    return bytes(learnt(name).module.state_dict()[STATE].numpy().tobytes())


def repacked(state: bytes, change: Callable[[str, bytes], bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    """The same zip with its parts changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(state)) as old, zipfile.ZipFile(buffer, "w", how) as new:
        for part in old.namelist():
            new.writestr(part, change(part, old.read(part)))
    return buffer.getvalue()


@pytest.mark.parametrize("name", sorted(SMALL.keys() - NATIVE))
def test_changed_bytes_are_refused_or_answer(name: str, tmp_path: Path) -> None:
    rng, whole, refused = random.Random(7), state_of(name), 0
    for trial in range(25):

        def scratched(part: str, data: bytes, trial: int = trial) -> bytes:
            made = bytearray(data)
            # Half of the trials leave the words alone, and go for the numbers.
            if part != stored.SCHEMA or trial % 2:
                for _ in range(rng.randint(1, 3)):
                    made[rng.randrange(len(made))] = rng.randrange(256)
            return bytes(made)

        path = file_of(name, repacked(whole, scratched), tmp_path / "m.safetensors")
        try:
            found = load(path).predict_proba(IMAGES)
        except FedolError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 900
        else:
            assert found.shape == (40, 3)
    assert refused > 3


def test_trees_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    for name, kind, change in [
        ("forest", "left_child", 10**6),
        ("forest", "right_child", 0),
        ("forest", "feature", 4),
        ("hist-boosting", "left", 10**6),
        ("hist-boosting", "feature_idx", 99),
    ]:

        def wrong(part: str, data: bytes, kind: str = kind, change: int = change) -> bytes:
            if part == stored.SCHEMA:
                return data
            array = np.load(io.BytesIO(data))
            if array.dtype.names is None or kind not in array.dtype.names:
                return data
            array[kind][0] = change
            buffer = io.BytesIO()
            np.save(buffer, array)
            return buffer.getvalue()

        with pytest.raises(FedolError, match=r"m.safetensors is damaged \(a tree in it (leads nowhere|asks for a fea)"):
            load(file_of(name, repacked(state_of(name), wrong), tmp_path / "m.safetensors"))


@pytest.mark.parametrize("name", sorted(NATIVE))
def test_what_compiled_readers_read_is_read_only_for_those_who_trust_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = learnt(name), tmp_path / "m.safetensors"
    model.save(path)
    assert load(path).architecture.model == name  # this process has built one
    monkeypatch.setattr(registry, "_BUILT", {})
    with pytest.raises(FedolError, match=f"holds a model of '{name}', whose own reader crashes .* add --trust-code"):
        load(path)
    for read in (load(path, trust_code=True), load(path, model=name)):
        assert torch.equal(read.predict_log_proba(IMAGES), model.predict_log_proba(IMAGES))


def test_a_tree_of_every_kind_is_checked_by_the_same_rule() -> None:
    check_tree([1, -1, -1], [2, -1, -1], [0, -2, -2], 1)
    for left, right, feature in [([0], [0], [0]), ([1, -1], [-1, -1], [0, 0]), ([1, -1, -1], [3, -1, -1], [0, 0, 0])]:
        with pytest.raises(InputError, match="leads nowhere"):
            check_tree(left, right, feature, 1)
    with pytest.raises(InputError, match="asks for a feature"):
        check_tree([1, -1, -1], [2, -1, -1], [1, 0, 0], 1)
    with pytest.raises(InputError, match="no nodes"):
        check_tree([], [], [], 1)


def test_code_within_is_not_run(tmp_path: Path) -> None:
    """A pipeline may hold a function that scikit-learn happens to import: never by a file's word."""
    import shutil

    evil = make_pipeline(FunctionTransformer(shutil.rmtree, kw_args={"ignore_errors": True}), estimators.logistic())
    state = skops.io.dumps({"estimator": evil, "known": [0, 1, 2], "samples": 9})
    with pytest.raises(FedolError, match=r"damaged \(it holds .*, which no file may make us build\)"):
        load(file_of("logistic", state, tmp_path / "m.safetensors"))
    other = skops.io.dumps({"estimator": learnt("forest").module.learner.estimator, "known": [0, 1, 2], "samples": 9})  # type: ignore[union-attr]
    with pytest.raises(FedolError, match=r"it holds a RandomForestClassifier in place of 'logistic'"):
        load(file_of("logistic", other, tmp_path / "m.safetensors"))


@pytest.mark.parametrize(
    ("known", "seen"), [([0, 1, 3], 9), ([1, 0], 9), ([], 9), ([True], 9), ("ab", 9), ([0, 1], 0), ([0, 1], "9")]
)
def test_classes_and_counts_that_make_no_sense(known: Any, seen: Any, tmp_path: Path) -> None:
    estimator = learnt("logistic").module.learner.estimator  # type: ignore[union-attr]
    state = skops.io.dumps({"estimator": estimator, "known": known, "samples": seen})
    with pytest.raises(FedolError, match=r"damaged \(the (classes that it knows|number of samples).* make"):
        load(file_of("logistic", state, tmp_path / "m.safetensors"))


def test_what_is_larger_than_its_file_is_not_unpacked(tmp_path: Path) -> None:
    packed = repacked(state_of("logistic"), lambda part, data: data, zipfile.ZIP_DEFLATED)
    with pytest.raises(FedolError, match=r"its estimator is (compressed|packed to be larger)"):
        load(file_of("logistic", packed, tmp_path / "m.safetensors"))

    def claims(part: str, data: bytes) -> bytes:
        return data.replace(b"'shape': (3,), ", b"'shape': (3000000,),")

    with pytest.raises(FedolError, match=r"claims another size than it has|cannot be read"):
        load(file_of("logistic", repacked(state_of("logistic"), claims), tmp_path / "m.safetensors"))
    for state in (b"", b"PK", bytes(99)):
        with pytest.raises(FedolError, match="is damaged"):
            load(file_of("logistic", state, tmp_path / "m.safetensors"))


def test_a_file_of_an_estimator_is_one_of_safetensors(tmp_path: Path) -> None:
    learnt("forest").save(tmp_path / "m.safetensors")
    tensors, header = read_tensors(tmp_path / "m.safetensors")
    assert list(tensors) == [STATE] and header["architecture"]["model"] == "forest"
    with zipfile.ZipFile(io.BytesIO(tensors[STATE].numpy().tobytes())) as parts:
        assert json.loads(parts.read(stored.SCHEMA))["__class__"] == "dict"
