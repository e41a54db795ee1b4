"""`fedol bench` from the command line."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import exit_code
from typer.main import get_command
from typer.testing import CliRunner

from fedol.bench.spec import Spec
from fedol.cli import app
from fedol.data import load
from fedol.errors import FedolError, InputError

TINY = ["--preset", "quick", "--clients", "2", "--public", "50", "--epochs", "1", "--width", "4", "--device", "cpu"]


def bench(*words, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_run_report_and_cost(tmp_path):
    words = ("--partitions", "iid", "--methods", "local,feddf", "--out", tmp_path)
    counts = {"cells": 2, "finished": 2, "elsewhere": 0, "failed": []}
    told = json.loads(bench("one-round", *TINY, *words, "--json"))
    assert told == {**counts, **json.loads(bench("report", tmp_path, "--json"))}
    assert "2 of 2 cells are finished" in bench("one-round", *TINY, *words)
    bench("rounds", *TINY, *words[:2], "--methods", "fedavg", "--rounds", 2, "--out", tmp_path)
    found = json.loads(bench("report", tmp_path, "--json"))
    assert [row["method"] for row in found["one_round"][0]["rows"]] == ["local", "feddf"]
    assert len(found["rounds"][0]["lines"][0]["rounds"]) == 2
    assert "FedDF" in bench("report", tmp_path)
    size = [w for w in TINY if w not in ("--device", "cpu")]
    rows = json.loads(bench("cost", *size, "--out", tmp_path, "--json"))["rows"]
    assert {"local", "fedavg", "fedkt", "fedol"} <= {row["method"] for row in rows}
    assert "FedKT" in bench("cost", *size, "--out", tmp_path)


def test_packed_cells_are_finished_and_make_the_same_report(tmp_path):
    words = (*TINY, "--partitions", "iid", "--methods", "local,feddf", "--out", tmp_path)
    bench("one-round", *words)
    before = {path.name: path.read_bytes() for path in (tmp_path / "report").glob("*.[mc]*")}
    rows = json.loads((tmp_path / "report" / "report.json").read_text())["one_round"][0]["rows"]
    assert "cells.jsonl has 2 cells." in " ".join(bench("pack", tmp_path).split())
    assert not list(tmp_path.glob("cells/*.json")) and len((tmp_path / "cells.jsonl").read_text().splitlines()) == 2
    assert bench("one-round", *words, "--dry-run").strip() == "Nothing is left to compute."
    bench("report", tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "report").glob("*.[mc]*")} == before
    page = (tmp_path / "report.html").read_text()
    for row in rows:
        (file,) = row["cells"]["iid"]["files"]
        assert page.count(f'id="cell-{Path(file).stem}"') == 1
        assert f'href="cells.jsonl#{Path(file).stem}"' in page


def test_cost_knows_what_was_measured_on_data_of_yours(tmp_path):
    digits, mine = load("digits"), tmp_path / "mine.npz"
    arrays = {"train_x": digits.train.x, "train_y": digits.train.y, "test_x": digits.test.x, "test_y": digits.test.y}
    np.savez(mine, **arrays)
    words = (*TINY[:-2], "--dataset", mine, "--out", tmp_path / "out", "--json")
    bench("one-round", *words, "--partitions", "dirichlet:0.3", "--methods", "feddf")
    rows = {row["method"]: row["measured"] for row in json.loads(bench("cost", *words))["rows"]}
    assert rows["feddf"] and not rows["fedavg"]


def test_a_dry_run_computes_nothing(tmp_path):
    words = ("--partitions", "iid,classes:5", "--methods", "feddf", "--out", tmp_path / "out", "--dry-run")
    plans = json.loads(bench("one-round", *TINY, *words, "--json"))
    assert [(p["partition"], p["clients"], p["methods"]) for p in plans] == [
        ("iid", 2, ["feddf"]),
        ("classes:5", 2, ["feddf"]),
    ]
    assert all(plan["seconds"] > 0 for plan in plans) and not (tmp_path / "out").exists()
    assert "2 groups to compute" in bench("one-round", *TINY, *words)
    done = ("--partitions", "iid", "--methods", "feddf", "--out", tmp_path / "done")
    assert "1 group to compute" in bench("one-round", *TINY, *done, "--dry-run")
    bench("one-round", *TINY, *done, "--quiet")
    assert "Nothing is left to compute." in bench("one-round", *TINY, *done, "--dry-run")


def test_a_dry_run_of_rounds_says_how_many_and_all_are_those_that_its_help_names(tmp_path):
    (plan,) = json.loads(bench("rounds", *TINY, "--rounds", 4, "--out", tmp_path / "out", "--dry-run", "--json"))
    several = {"fedavg": 4, "fedprox": 4, "feddf": 4, "fedhkt": 4, "fedet": 4, "mine": 4, "fedol": 1}
    assert dict(zip(plan["methods"], plan["rounds"], strict=True)) == several
    assert "4 rounds of FedAvg" in plan["rows"] and plan["rows"][-1].startswith("FedOL (")
    (methods,) = (p for p in get_command(app).commands["bench"].commands["rounds"].params if p.name == "methods")
    assert f"'all' ({', '.join(several).replace(', fedol', ' and, for one round, fedol')})" in methods.help


def test_a_wrong_name_leaves_no_folder(tmp_path):
    with pytest.raises(InputError, match="There is no dataset 'nope'"):
        bench("cost", "--preset", "quick", "--dataset", "nope", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_written_benchmark_is_what_the_worker_reads(tmp_path, capsys):
    from fedol.bench.runner import main as worker

    spec = tmp_path / "spec.json"
    bench("one-round", *TINY, "--partitions", "iid", "--methods", "local", "--spec", spec)
    assert worker(["--spec", str(spec), "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["finished"] == 1


def test_a_written_benchmark_runs_and_with_variants_it_is_an_ablation(tmp_path):
    spec, out = tmp_path / "spec.json", tmp_path / "out"
    bench("one-round", *TINY, "--partitions", "iid", "--methods", "feddf", "--spec", spec)
    assert "1 of 1 cells are finished" in bench("run", spec, "--out", out)
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "variants": [{}, {"settings": {"patch": "cutout"}}]}))
    (plan,) = json.loads(bench("run", spec, "--out", out, "--dry-run", "--json"))
    assert plan["methods"] == ["feddf"] and plan["clients"] == 0  # the other variant is done, and has trained them
    assert "cutout" in bench("run", spec, "--out", out)


def test_tables_are_printed_even_where_they_cannot_be_written(tmp_path, capsys):
    bench("one-round", *TINY, "--partitions", "iid", "--methods", "local", "--out", tmp_path, "--json")
    assert "Local" in (tmp_path / "report" / "report.md").read_text()  # which says what is printed, not what is written
    shutil.rmtree(tmp_path / "report")
    (tmp_path / "report").write_text("a file where the folder would be")
    for words, shown in (([], "Local"), (["--json"], '"one_round"')):
        code = exit_code("bench", "report", str(tmp_path), *words)
        said = capsys.readouterr()
        assert code == 2 and shown in said.out and "cannot be written" in said.err


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_failed_is_said_even_where_there_are_no_tables(words, tmp_path, capsys):
    every = [*TINY, "--partitions", "iid", "--out", str(tmp_path)]
    bench("one-round", *every, "--methods", "local")
    next(tmp_path.glob("clients/*/00.fedol")).write_bytes(b"")
    (tmp_path / "cells" / "notes.json").write_text("{}")
    code = exit_code("bench", "one-round", *every, "--methods", "local,feddf", *words)
    said = " ".join(capsys.readouterr().err.split())
    assert code == 2 and "notes.json is no result of a benchmark" in said
    assert "Failed: FedDF" in said and "00.fedol" in said


def test_a_cost_needs_no_partition_that_can_be_dealt(tmp_path):
    few = ["--preset", "quick", "--clients", "100", "--out", tmp_path, "--json"]  # dirichlet:0.3, the preset's, cannot
    table = json.loads(bench("cost", *few))
    assert table["rows"] and table["settings"]["partition"] == "dirichlet:0.3"


def test_rounds_without_matplotlib_have_all_but_the_figure(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    words = [*TINY, "--partitions", "iid", "--methods", "fedavg", "--rounds", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["bench", "rounds", *words], catch_exceptions=False)
    assert result.exit_code == 0 and "The figure is not drawn. Plots need matplotlib" in result.stderr
    assert (tmp_path / "report.html").exists() and (tmp_path / "report" / "rounds-1.csv").exists()
    assert not (tmp_path / "report" / "rounds.png").exists()


def test_a_folder_is_printed_as_it_is_called(tmp_path):
    out = tmp_path / "a[bold]b"
    out.mkdir()
    said = bench("one-round", *TINY, "--partitions", "iid", "--methods", "local", "--out", out)
    assert "a[bold]b/report.html" in "".join(said.split("\n"))


def test_work_left_by_the_time_limit_has_its_own_exit_code(tmp_path):
    words = ("--partitions", "iid", "--out", tmp_path, "--time-limit", 0)
    bench("one-round", *TINY, *words, code=3)
    assert json.loads(bench("one-round", *TINY, *words, "--json", code=3))["finished"] == 0


def test_a_folder_that_may_not_be_entered_is_named(monkeypatch, capsys, tmp_path):
    def refused(self, **_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", refused)
    code = exit_code("report", str(tmp_path))
    said = "".join(capsys.readouterr().err.split("\n"))
    assert code == 2 and f"{tmp_path / 'summary.json'} cannot be opened" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["one-round", "--methods", "feddff"], "did you mean 'feddf"),
        (["one-round", "--partitions", "dirichlet:x"], "must be a number above 0"),
        (["--methods", "feddff"], "did you mean 'feddf"),
        (["--set", "tau"], "as in --set tau=0.1,0.5, not 'tau'"),
        (["--set", "taau=1"], "did you mean 'tau'"),
        (["--set", "tau=a,b"], "'tau' must be a number, but is 'a'"),
        (["--set", "dataset=digits,cifar10"], "A benchmark has one 'dataset'"),
        (["--set", "seed=1,2"], "has 'seeds' beside its settings"),
        (["--methods", "union", "--set", "tau=1,2"], "None of these methods depends on tau"),
        (["--seeds", "5-1"], "seeds must be"),
        (["rounds", "--rounds", "1"], "at least 2"),
        (["report", "nowhere"], "no finished cell"),
        (["run", "nowhere.json"], "cannot be read"),
        (["run", "list.json"], "must be like"),
        (["run", "deep.json"], "cannot be read"),
        (["one-round", *TINY, "--partitions", "iid", "--out", "a-run"], "a-run holds a run and is no benchmark's"),
        (["cost", *TINY[:-2], "--out", "a-run"], "a-run holds a run and is no benchmark's"),
    ],
)
def test_errors_are_one_sentence(words, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "a-run").mkdir()
    (tmp_path / "a-run" / "config.json").write_text("{}")
    code = exit_code("bench", *words)
    message = capsys.readouterr().err
    assert code == 2 and sentence in message and "Traceback" not in message


def test_a_comparison_needs_no_command_and_takes_values_seeds_and_a_runs_file(tmp_path):
    file, spec = tmp_path / "run.toml", tmp_path / "spec.json"
    file.write_text('partition = "classes:5"\nmethod = "fedol"\nseed = 7\ntau = [0.1, 0.5]\nclients = 2\nwidth = 4\n')
    bench("--config", file, "--set", "client-models=mlp,cnn", "--set", "client_models=mlp", "--spec", spec)
    written = json.loads(spec.read_text())
    assert written["preset"] == "quick" and written["settings"] == {"clients": 2, "width": 4}
    assert (written["partitions"], written["methods"], written["seeds"]) == (["classes:5"], ["fedol"], [7])
    assert written["grid"] == {"tau": [0.1, 0.5], "client_models": ["mlp,cnn", "mlp"]}
    wider = ("--methods", "union,fedol", "--partitions", "iid", "--seeds", "2,4-6", "--set", "tau=0.3")
    bench("--config", file, "--preset", "paper", *wider, "--spec", spec)
    written = json.loads(spec.read_text())
    assert (written["preset"], written["grid"]) == ("paper", {"tau": [0.3]})
    assert Spec.from_json(written).seeds == (2, 4, 5, 6) and Spec.from_json(written).partitions == ("iid",)


def test_tables_as_latex(tmp_path):
    words = (*TINY, "--partitions", "iid", "--methods", "local,feddf", "--out", tmp_path)
    for said in (bench("one-round", *words, "--latex"), bench("report", tmp_path, "--latex")):
        assert said == (tmp_path / "report" / "one-round-1.tex").read_text() + "\n"
        assert said.count(r"\toprule") == 1 and r"Local & " in said


@pytest.mark.parametrize("place", ["settings", "grid", "toml"])
def test_a_file_that_names_code_in_any_place_is_refused(place, tmp_path):
    (tmp_path / "nets.py").write_text("raise SystemExit('this must not run')\n")
    name = f"{tmp_path / 'nets.py'}:Net"
    values = {"kind": "one-round", "preset": "quick", place: {"server_model": [name] if place == "grid" else name}}
    file = tmp_path / ("run.toml" if place == "toml" else "spec.json")
    file.write_text(f'server_model = "{name}"\n' if place == "toml" else json.dumps(values))
    words = ("one-round", "--config", file) if place == "toml" else ("run", file)
    with pytest.raises(FedolError, match=r"code of whoever made it: .* add --trust-code"):
        bench(*words, "--dry-run", "--out", tmp_path / "out")
