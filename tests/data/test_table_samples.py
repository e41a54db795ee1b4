"""Tables: what a cell is, what a row becomes, and what is refused with its row and column."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import fedol
from fedol.data import Dataset, Encoding, Reading, Table, load
from fedol.data.encoding import MOST, Choice, Scale, code
from fedol.data.kinds import of_values
from fedol.data.reading import labelled, unlabelled
from fedol.data.rows import BLOCK, frame_rows, read_rows
from fedol.data.samples import preprocessing_of, samples
from fedol.data.stored import load_samples, store, stored
from fedol.errors import InputError

FRAME = pd.DataFrame(
    {
        "age": [30.0, 50.0, np.nan, 40.0, 20.0, 60.0],
        "colour": ["red", "blue", "red", None, "green", "blue"],
        "size": [1, 2, 3, 4, 5, 6],
        "label": ["no", "yes", "no", "yes", "no", "yes"],
    }
)


def table(frame: Any = FRAME, **reading: Any) -> Table:
    found = of_values(frame, "the frame", Reading(**reading))
    assert isinstance(found, Table)
    return found


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_frame_is_a_table_without_its_labels() -> None:
    found = table()
    assert [(column.name, column.kind) for column in found.columns] == [
        ("age", "number"),
        ("colour", "category"),
        ("size", "number"),
    ]
    assert found.array().tolist()[1] == [50.0, "blue", 2.0] and found.array()[3, 1] is None
    assert np.isnan(found.values[2, 0]) and np.isnan(found.values[3, 1])
    assert found.captions()[2] == "age missing, colour red, size 3"
    pd.testing.assert_frame_equal(found.frame().astype(FRAME.dtypes.drop("label")), FRAME.drop(columns="label"))


def test_every_source_gives_the_same_table(tmp_path: Path) -> None:
    frame, wanted = FRAME.drop(columns="label"), table().fingerprint
    frame.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for name in ("a.csv", "a.csv.gz", "a.tsv", "a.parquet", "a.jsonl"):
        found, names = load_samples(tmp_path / name)
        assert found.fingerprint == wanted and names[0] == "1", name
    assert samples(pl.from_pandas(frame)).fingerprint == wanted


def test_a_row_becomes_features_by_the_public_rows() -> None:
    public, site = table(), table(pd.DataFrame({"age": [np.nan, 1e9], "colour": ["violet", None], "size": [3.5, 3.5]}))
    prepare = site.fit(public)
    assert prepare == public.fit() and site.columns != public.columns
    age = np.array([30, 50, 40, 40, 20, 60])  # the gap is the median
    assert prepare.columns == (
        Scale("age", 40.0, age.mean(), age.std(), True),
        Choice("colour", ("blue", "green", "red")),
        Scale("size", 3.5, 3.5, np.arange(6).std(), False),
    )
    assert prepare.features == [
        *("age", "size", "age is missing"),
        *("colour is missing", "colour is blue", "colour is green", "colour is red"),
    ]
    found = prepare(site.batch(slice(None)))
    assert found.tolist() == [[0, 0, 1, 0, 0, 0, 0], [MOST, 0, 0, 1, 0, 0, 0]]  # an unknown colour is none
    assert prepare.prepared(site.shape) == (7,) == found.shape[1:]
    again = preprocessing_of(json.loads(json.dumps(prepare.header())), (7,))
    assert again == prepare and torch.equal(again(public.batch(slice(None))), prepare(public.batch(slice(None))))


def test_a_category_has_one_number_in_every_file_and_spelling(tmp_path: Path) -> None:
    ones = load_samples(write(tmp_path / "a.csv", "c,d\nx,1\ny,2\n"), reading=Reading(categories=("d",)))[0]
    twos = load_samples(write(tmp_path / "b.csv", "c,d\ny,2.0\nx, 1.0\n"), reading=Reading(categories=("d",)))[0]
    assert torch.equal(ones.batch(slice(None)), twos.take([1, 0]).batch(slice(None)))
    assert ones.fingerprint == twos.take(np.array([1, 0])).fingerprint != twos.fingerprint
    both = ones.joined(twos)
    assert both.array().tolist() == [["x", "1"], ["y", "2"], ["y", "2"], ["x", "1"]]
    assert 0 <= code("x") < 2**24 and code("x") == float(np.float32(code("x")))


def test_columns_are_found_by_name() -> None:
    public = table()
    mixed = table(FRAME[["size", "colour", "age"]].assign(more=1))
    assert mixed.like(public).fingerprint == public.fingerprint
    with pytest.raises(InputError, match="no column 'age'"):
        table(FRAME.drop(columns="age")).like(public)
    with pytest.raises(InputError, match="'size' holds a category, but the task's a number"):
        table(FRAME.assign(size="big")).like(public)


def test_what_a_file_calls_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b\n1,x\n-9,?\n-9.0,NA\n,-9\n2,y\n")
    found = load_samples(path, reading=Reading(missing=("-9",)))[0]
    assert found.array().tolist()[0] == [1.0, "x"]
    assert np.isnan(found.array()[1:4, 0].astype(float)).all() and found.array()[1:4, 1].tolist() == [None] * 3
    again = load_samples(path, reading=Reading().under(found.fit()))[0]  # the model knows it
    assert again.fingerprint == found.fingerprint


def test_a_fifth_of_each_class_is_held_out_or_a_file_is_the_test(tmp_path: Path) -> None:
    rows = "".join(f"{i},{'ab'[i % 3 == 0]}\n" for i in range(60))
    path = write(tmp_path / "mine.csv", "x,target\n" + rows)
    data = load(str(path))
    assert data.name == "mine" and data.classes == ("a", "b")
    assert np.bincount(data.test.y).tolist() == [8, 4] and len(data.train) == 48
    assert load(str(path)).fingerprint == data.fingerprint
    test = write(tmp_path / "test.csv", "x,target\n7,b\n8,a\n")
    data = load(str(path), reading=Reading(test=str(test)))
    assert len(data.train) == 60 and data.test.y.tolist() == [1, 0]


def test_rows_to_predict_need_no_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,label,more\n1,,a\n2,b,b\n")
    known = table(pd.DataFrame({"x": [1.0, 2]})).fit()
    assert load_samples(path, reading=Reading().under(known))[0].array().tolist() == [[1.0], [2.0]]


def test_files_without_names_have_positions(tmp_path: Path) -> None:
    found = load(str(write(tmp_path / "a.csv", "3,x\n4,y\n" * 5)), reading=Reading(label="2"))
    assert found.classes == ("x", "y") and [column.name for column in found.train.samples.columns] == ["1"]  # type: ignore[attr-defined]


def test_more_rows_than_a_block(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "n,c\n" + "".join(f"{i},{'xyz'[i % 3]}\n" for i in range(BLOCK + 10)))
    found = load_samples(path)[0]
    assert len(found) == BLOCK + 10 and found.array()[-1].tolist() == [BLOCK + 9, "y"]


BAD = {
    "mixed": ("x,label\n" + "1,a\n" * 20 + "abc,b\n", "row 21, column 'x': 'abc' is not a number"),
    "infinite": ("x,label\n1,a\ninf,b\n", "row 2, column 'x'"),
    "twice": ("x,x,label\n1,2,a\n", "two columns 'x'"),
    "ragged": ("x,label\n1,a\n1,2,b\n", "row 2, has 3 cells and not 2"),
    "empty": ("", "is empty"),
    "head alone": ("x,label\n", "has no rows"),
    "delimiter": ("x~label\n1~a\n", "has one column"),
    "no label": ("x,z\n1,a\n", "say which one has the labels"),
    "label missing": ("x,label\n1,a\n2,\n", "row 2, has no label"),
    "label alone": ("label\na\nb\n", "no column beside the labels"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    text, says = BAD[name]
    with pytest.raises(InputError, match=says) as caught:
        load(str(write(tmp_path / "bad.csv", text)))
    assert "bad.csv" in str(caught.value)


def test_what_is_wrong_with_a_test_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,label\n" + "1,a\n2,b\n" * 5)
    for text, says in (
        ("x,label\n1,a\n2,c\n", "row 2, has the class 'c'"),
        ("w,label\n1,a\n", "no column 'x'"),
        ("x,label\nz,a\n", "'z' is not a number"),
    ):
        with pytest.raises(InputError, match=says):
            load(str(path), reading=Reading(test=str(write(tmp_path / "test.csv", text))))
    for name, says in (("a.jsonl", "row 1, is no JSON object"), ("a.parquet", "cannot be read as Parquet")):
        with pytest.raises(InputError, match=says):
            load(str(write(tmp_path / name, "nothing")))
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text in UTF-8"):
        load(str(tmp_path / "b.csv"))


def test_a_table_is_kept_and_read_back(tmp_path: Path) -> None:
    whole = table()
    public = whole.take(np.array([1, 2, 5]))
    store(public, tmp_path)
    found, _ = load_samples(stored(tmp_path), 3)
    assert isinstance(found, Table) and found.fingerprint == public.fingerprint
    assert found.columns[1].levels == ("blue", "red")  # of the private rows' green nothing is told
    with pytest.raises(InputError, match="holds 3 samples, but the task has 4"):
        load_samples(stored(tmp_path), 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": []},
        {"columns": [["a", "number", []]] * 2},
        {"columns": [["a", "number", []], ["b", "word", []]]},
        {"columns": [["a", "number", []], ["b", "category", ["x"]]]},
        {"columns": [["a", "number", []], ["b", "category", [7]]]},
        {"rows": np.full((2, 2), np.inf, np.float32)},
        {"rows": np.zeros((2, 3), np.float32)},
        {"rows": np.zeros((2, 2))},
    ],
)
def test_a_strangers_table_is_checked(wrong: dict[str, Any]) -> None:
    rows = np.array([[1, 0], [2, 1]], np.float32)
    columns = [["a", "number", []], ["b", "category", ["x", "y"]]]
    assert len(Table.unpacked({"columns": columns, "missing": [], "label": None}, {"rows": rows})) == 2
    with pytest.raises(InputError):
        about = {"columns": wrong.get("columns", columns), "missing": [], "label": None}
        Table.unpacked(about, {"rows": wrong.get("rows", rows)})


@pytest.mark.parametrize(
    "column",
    [
        {"name": "a", "median": 0, "mean": 0, "std": 0, "gaps": False},
        {"name": "a", "median": 0, "mean": "0", "std": 1, "gaps": False},
        {"name": 7, "categories": ["x"]},
        {"name": "a", "categories": "xy"},
        {"name": "a", "categories": [f"{k}" for k in range(101)]},
    ],
)
def test_a_strangers_encoding_is_checked(column: dict[str, Any]) -> None:
    good = {"kind": "tables", "columns": [{"name": "a", "categories": ["x"]}], "missing": []}
    assert isinstance(preprocessing_of(good, (2,)), Encoding)
    with pytest.raises(InputError):
        preprocessing_of(good, (3,))
    with pytest.raises(InputError):
        preprocessing_of({**good, "columns": [column]}, (2,))


def test_a_run_on_a_frame_and_what_its_server_says() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    frame = pd.DataFrame({"x": rng.normal(2 * y, 1), "site": np.array(list("NESW"))[rng.integers(0, 4, 400)], "y": y})
    frame["c"] = np.where(rng.random(400) < 0.9, y, 1 - y).astype(str)
    data = Dataset.from_frame(frame, "y", categories="c")
    small: dict[str, Any] = {"public": 100, "epochs": 10, "iterations": 2, "device": "cpu", "progress": False}
    result = fedol.run(dataset=data, partition="column:site", clients=4, method="union", **small)
    assert result.summary["config"]["server_model"] == "mlp-large" and result.summary["server"]["accuracy"] > 0.85
    model = fedol.load(result.out)
    assert [column.name for column in model.architecture.prepare.columns] == ["x", "c"]  # type: ignore[attr-defined]
    new = frame.drop(columns=["y", "site"])[["c", "x"]]
    assert (model.predict(new) == y).mean() > 0.85
    with pytest.raises(InputError, match="clients is 5; use --clients 4 or fewer"):
        fedol.run(dataset=data, partition="column:site", clients=5, **small)


def test_floats_in_rows_are_a_table_with_gaps() -> None:
    x = np.array([[1.0, np.nan], [2, 3]])
    data = Dataset.from_arrays(x, [0, 1], x, [0, 1])
    assert isinstance(data.train.samples, Table) and data.shape == (2,)
    with pytest.raises(InputError, match="an infinity in row 1, column '1'"):
        Dataset.from_arrays(np.where(np.isnan(x), np.inf, x), [0, 1], x, [0, 1])


def test_decimal_commas_are_numbers_where_cells_are_cut_at_semicolons(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("age;weight;label\n50;1,5;a\n60;-2,25;b\n70;,5e1;a\n80;3;b\n90;1.5;a\n")
    with read_rows(tmp_path / "x.csv") as rows:
        table = labelled(rows, Reading())[0]
    assert table.array()[:, 1].tolist() == [1.5, -2.25, 5.0, 3.0, 1.5]
    (tmp_path / "y.csv").write_text("1,5;2,5;3,5\n1,5;2;3\n")  # three commas and two semicolons
    with read_rows(tmp_path / "y.csv") as rows:
        assert labelled(rows, Reading(("3",)))[0].array().tolist() == [[1.5, 2.5], [1.5, 2.0]]


@pytest.mark.parametrize(
    "text", ['x,label\n"1,5",a\n"2,5",b\n', "x\tlabel\n1,5\ta\n2\tb\n", "x;label\n1.234,5;a\n7;b\n"]
)
def test_other_decimal_commas_do_not_become_categories(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    says = r"row 1, column 'x': '1[.,].*' has a comma.*declare"
    with pytest.raises(InputError, match=says), read_rows(tmp_path / "x.csv") as rows:
        labelled(rows, Reading())
    with read_rows(tmp_path / "x.csv") as rows:
        assert labelled(rows, Reading(categories=("x",)))[0].columns[0].kind == "category"


def test_none_is_a_category_among_words_and_missing_among_numbers() -> None:
    pain, age = ["none", "chest", None, "none"], ["50", "none", "60", "NA"]
    frame = pd.DataFrame({"pain": pain, "only": ["None"] * 4, "age": age})
    table = unlabelled(frame_rows(frame), Reading())
    assert isinstance(table, Table)
    assert [column.kind for column in table.columns] == ["category", "category", "number"]
    assert table.column("pain").tolist() == ["none", "chest", "missing", "none"]
    assert table.column("age").tolist() == ["50", "missing", "60", "missing"]
    declared = unlabelled(frame_rows(frame), Reading(missing=("none",)))
    assert isinstance(declared, Table) and declared.column("pain").tolist()[0] == "missing"
