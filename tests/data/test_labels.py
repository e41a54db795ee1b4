"""Labels of rows: one column of classes, or several of findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedol import Dataset
from fedol.data import Reading, from_pair, load
from fedol.data.findings import ANSWERS
from fedol.data.reading import load_test
from fedol.data.stored import load_samples, store
from fedol.errors import InputError

MARKS = np.array([[1, 0], [0, 0], [1, 1], [0, 1], [0, 0]] * 4)
AGES = np.arange(20.0)


def frame(**other: Any) -> pd.DataFrame:
    return pd.DataFrame({"age": AGES, "fever": MARKS[:, 0], "cough": MARKS[:, 1], **other})


def test_columns_of_marks_are_findings() -> None:
    data = Dataset.from_frame(frame(), label=["fever", "cough"], test=frame())
    assert data.findings == ("fever", "cough") and data.classes == ANSWERS
    assert data.train.y.tolist() == MARKS.tolist() == data.test.y.tolist()
    assert data.train.samples.shape == (1,), "no mark is a feature"


@pytest.mark.parametrize("words", [["no", "yes"], ["False", "True"], ["0.0", "1.0"], [False, True], [0.0, 1.0]])
def test_marks_are_spelt_in_several_ways(words: list[Any]) -> None:
    spelt = [words[mark] for mark in MARKS[:, 0]]
    data = Dataset.from_frame(frame(fever=spelt), label=("fever", "cough"), test=frame())
    assert data.train.y.tolist() == MARKS.tolist()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_files_have_findings_as_frames_have(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        frame().to_parquet(path)
    elif suffix == "csv":
        frame().to_csv(path, index=False)
    else:
        path.write_text(frame().to_json(orient="records", lines=True))
    found = load(str(path), reading=Reading(("fever, cough",)))  # as the command line gives it
    whole = Dataset.from_frame(frame(), label=["fever", "cough"])
    assert found.fingerprint == whole.fingerprint and found.findings == whole.findings
    assert len(found.train) == 17 and len(found.test) == 3


def test_a_fifth_of_each_stratum_is_held_out_and_repeats() -> None:
    data = [from_pair(np.arange(60.0).reshape(20, 3), MARKS) for _ in range(2)]
    assert data[0].fingerprint == data[1].fingerprint and data[0].findings == ("0", "1")
    assert {tuple(row) for row in data[0].train.y.tolist()} == {(1, 0), (0, 0), (1, 1), (0, 1)}


def test_a_frame_of_marks_names_its_findings() -> None:
    assert from_pair(AGES[:, None], frame()[["fever", "cough"]]).findings == ("fever", "cough")


def test_a_name_with_a_comma_is_one_column() -> None:
    odd = frame().rename(columns={"fever": "fever,cough"})
    assert Dataset.from_frame(odd, label="fever,cough").classes == ("0", "1")


def test_a_task_remembers_the_columns_of_findings(tmp_path: Path) -> None:
    data = Dataset.from_frame(frame(), label=["fever", "cough"])
    store(data.train.samples, tmp_path)
    kept, _ = load_samples(tmp_path / "public.npz")
    frame().to_csv(tmp_path / "site.csv", index=False)
    assert load_test(tmp_path / "site.csv", Reading().under(kept)).findings == ("fever", "cough")


@pytest.mark.parametrize(
    ("column", "label", "why"),
    [
        (["yes", None, *["no"] * 18], ["fever", "cough"], "row 2, column 'fever': there is no mark"),
        (["yes", "maybe", *["no"] * 18], ["fever", "cough"], "row 2, column 'fever': 'maybe' is no mark"),
        ([1, 2, *[0] * 18], ["fever", "cough"], "row 2, column 'fever': '2' is no mark"),
        ([1, np.nan, *[0] * 18], ["fever", "cough"], "row 2, column 'fever': there is no mark"),
        ([1, 0] * 10, ["fever", "chills"], "chills"),
        ([1, 0] * 10, ["fever", "fever"], "names that are all different"),
    ],
)
def test_what_is_no_mark_is_named(column: Any, label: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Dataset.from_frame(frame(fever=column), label=label)
