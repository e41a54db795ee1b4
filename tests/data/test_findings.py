"""Several findings of a sample: labels, their names, and what partitions deal by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marked import FINDINGS, marked_digits

from fedol import Dataset
from fedol.config import configure
from fedol.data import load
from fedol.data.findings import ANSWERS, strata
from fedol.errors import InputError
from fedol.federation.scenario import deal

IMAGES = np.zeros((4, 8, 8), dtype=np.uint8)
MARKS = np.array([[1, 0], [0, 0], [1, 1], [0, 1]])


def test_marks_make_a_dataset_of_findings() -> None:
    data = marked_digits()
    assert data.findings == FINDINGS and data.classes == ANSWERS
    assert data.train.y.shape == (900, 5) and data.train.answers.shape == (4500,)
    assert data.train.counts(2).tolist() == data.train.y.sum(0).tolist()
    assert data.facts()["findings"] == 5 and "classes" not in data.facts()


def test_an_npz_file_with_marks_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", train_x=IMAGES, train_y=MARKS, test_x=IMAGES, test_y=MARKS, classes=["a", "b"])
    assert load(str(tmp_path / "d.npz")).findings == ("a", "b")


def test_the_fingerprint_covers_marks_and_names() -> None:
    def made(marks: Any, names: Any) -> str:
        return Dataset.from_arrays(IMAGES, marks, IMAGES, MARKS, names).fingerprint

    same, other = made(MARKS, ["a", "b"]), 1 - MARKS
    assert made(MARKS, ["a", "b"]) == same and len({same, made(MARKS, ["a", "c"]), made(other, ["a", "b"])}) == 3


@pytest.mark.parametrize(
    ("marks", "names", "why"),
    [
        (MARKS * 2, None, "train_y must be zeros and ones"),
        (MARKS[:3], None, "train_y must be zeros and ones"),
        (MARKS, ["a"], "train_y marks 2 findings, but 1 have names"),
        (MARKS, ["a", "a"], "names that are all different"),
        (np.c_[MARKS, MARKS], None, "test_y marks 2 findings, but 4 have names"),
    ],
)
def test_marks_that_make_no_sense_are_refused(marks: Any, names: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Dataset.from_arrays(IMAGES, marks, IMAGES, MARKS, names)


def test_strata_are_the_rarest_finding_of_a_sample() -> None:
    marks = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [1, 0, 1]])  # the second is rarer than the third
    assert strata(marks)[0].tolist() == [1, 0, 3, 2, 2] and strata(marks)[1] == 4


def test_a_partition_by_strata_uses_every_sample_once() -> None:
    data = marked_digits()
    config = configure(overrides={"clients": 4, "partition": "dirichlet:0.5", "public": 100})
    shares = deal(config, data)
    assert sorted(np.concatenate(shares).tolist()) == list(range(800))
