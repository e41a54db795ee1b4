"""The page to pass on, and the model card: nothing of a single client, but the reader's own."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import choose, opened, violations, visible
from commands import exit_code

from fedol.errors import FedolError
from fedol.files import read_json, write_json
from fedol.report.pages import write_report, write_share
from fedol.report.share import model_card

NAMES = ("alice", "bob", "carol", "dave", "eve", "trent")
SAMPLE = {"index", "truth", "server", "labels", "votes"}


def named(words: str) -> set[str]:
    """The clients, and the sender of the refused file, that a text names."""
    return {name for name in (*NAMES, "mallory") if re.search(rf"\b{name}\b", words)}


def embedded(page: Path) -> dict[str, Any]:
    """What a page holds for its script."""
    found = re.search(r'<script type="application/json" id="evidence">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


def turned(values: list[Any]) -> list[Any]:
    """The same values, each at another client's place: every sum and every median is as before."""
    return values[1:] + values[:1]


def changed(run: Path, to: Path, but: str = "") -> Path:
    """A copy of a run in which every client but one sent, said and scored something else, and together the same."""
    copy = shutil.copytree(run, to)
    summary, evidence = read_json(copy / "summary.json"), read_json(copy / "evidence.json")
    places = [k for k, client in enumerate(summary["clients"]) if client["client"] != but]

    def turn(values: list[Any]) -> None:
        for place, value in zip(places, turned([values[k] for k in places]), strict=True):
            values[place] = value

    for key, other in {"file": "x.fedol", "codec": "float16", "sha256": "0" * 64}.items():
        for k in places:
            summary["clients"][k][key] = other
    for number, k in enumerate(places):
        summary["clients"][k]["bytes"] += 50 * (2 * (number % 2) - 1) if number < 2 * (len(places) // 2) else 0
        own = summary["screening"][k]
        own["trust"], own["why"] = 0.123, "It has other reasons."
        own["evidence"] = dict.fromkeys(own["evidence"], 0.321)
    for entry in summary["refused"]:
        entry |= {"file": "another.fedol", "reason": "another reason"}
    summary["provenance"]["command"] = "fedol distill task another.fedol"
    turn(evidence["agreement"])
    for sample in evidence["samples"]:
        turn(sample["votes"])
        sample |= {"score": [1] * len(sample["score"]), "voters": [1] * len(sample["voters"])}
        sample |= {"labels": [7] * len(sample["labels"]), "mixture": [7, 700], "taught": [7, 700]}
    if not but:
        strange = {name: f"stranger {k}" for k, name in enumerate(evidence["clients"])}
        evidence |= {"clients": list(strange.values()), "left_out": [strange[name] for name in evidence["left_out"]]}
        for entry in (*summary["clients"], *summary["screening"]):
            entry["client"] = strange[entry["client"]]
    write_json(copy / "summary.json", summary)
    (copy / "evidence.json").write_text(json.dumps(evidence))
    return copy


def test_it_names_nobody_and_holds_no_answer(served: Path) -> None:
    page, summary = served / "report-share.html", read_json(served / "summary.json")
    words = page.read_text()
    assert named((served / "report.html").read_text()) == {*NAMES, "mallory"}  # the coordinator's does
    for told in (words, (served / "MODEL_CARD.md").read_text()):
        assert named(told) == set()
        for client in summary["clients"]:
            assert client["sha256"] not in told and client["file"] not in told
        assert not any(entry["why"] in told for entry in summary["screening"])
    assert "2 clients were left out as suspicious; 1 file was refused" in words
    found = embedded(page)
    assert found.keys() == {"of", "classes", "sheet", "size", "samples", "clients", "iterations", "gated"}
    assert found["clients"] == [] and len(found["samples"]) == 100
    for sample in found["samples"]:
        assert sample.keys() == SAMPLE and sample["votes"] == sample["labels"] == []


def test_it_is_the_same_whatever_each_client_said(served: Path, tmp_path: Path) -> None:
    """Federations that differ in what clients sent and scored, but not in what came of it, have one page and card."""
    other = changed(served, tmp_path / "other")
    pages = write_share(served), write_share(other)
    assert pages[0].read_bytes() == pages[1].read_bytes()
    cards = [model_card(read_json(run / "summary.json")) for run in (served, other)]
    assert cards[0] == cards[1] == (served / "MODEL_CARD.md").read_text()
    before = (served / "report.html").read_text()
    assert write_report(other).read_text() != before and "stranger 3" not in before  # what was changed can be seen


@pytest.mark.parametrize("reader", ["alice", "trent"])
def test_its_reader_finds_its_own_and_nobody_elses(reader: str, served: Path, tmp_path: Path) -> None:
    run = shutil.copytree(served, tmp_path / "run")
    page, place = write_share(run, reader), NAMES.index(reader)
    words, evidence = page.read_text(), read_json(served / "evidence.json")
    assert page.name == f"report-for-{reader}.html" and named(words) == {reader}
    assert ("left out as suspicious; the coordinator" in words) == (
        reader == "trent"
    )  # not: because of alice's answers
    assert f"{100 * evidence['agreement'][place]:.1f} %" in words
    for told, sample in zip(embedded(page)["samples"], evidence["samples"], strict=True):
        assert told.keys() == {*SAMPLE, "own"} and told["own"] == sample["votes"][place][:2]
    assert write_share(changed(run, tmp_path / "other", reader), reader).read_bytes() == page.read_bytes()
    assert write_share(run).read_bytes() == (served / "report-share.html").read_bytes()


AVERAGES = (
    "on average",
    "received",
    "Uploads",
    "labelled</dt>",
    "The iterations",
    "coverage",
    "each, once",
    "1 being usual",
)


def test_of_two_clients_there_are_no_averages(served: Path, tmp_path: Path) -> None:
    def few(run: Path, keep: int) -> tuple[str, str]:
        summary, evidence = read_json(run / "summary.json"), read_json(run / "evidence.json")
        for values in (summary["clients"], summary["screening"], evidence["clients"], evidence["agreement"]):
            del values[keep:]
        for sample in evidence["samples"]:
            del sample["votes"][keep:]
        write_json(run / "summary.json", summary)
        (run / "evidence.json").write_text(json.dumps(evidence))
        return write_share(run, "alice").read_text(), model_card(summary)

    for keep in (3, 2):
        page, card = few(shutil.copytree(served, tmp_path / str(keep)), keep)
        assert {word for word in AVERAGES if word in page + card} == (set(AVERAGES) if keep == 3 else set())
        assert ("Too few clients were heard for averages" in page) == (keep == 2)
        assert ("an average would be somebody's own number" in card) == (keep == 2)
        assert "accurate on 359 test samples" in page and "| loss | test_accuracy |" in card  # the model's own


def test_simulated_clients_have_one_too(looked_at: Path, tmp_path: Path) -> None:
    run = shutil.copytree(looked_at, tmp_path / "run")
    assert not (run / "report-share.html").exists()  # nobody gets it: these clients are the reader's own
    summary, words = read_json(run / "summary.json"), write_share(run, "client 2").read_text()
    for part in ("Who holds what", "best client", "longest client", "heat", "client 0", "client 1", "client 3"):
        assert part in (run / "report.html").read_text() and part not in re.sub(
            "<style>.*</style>", "", words, flags=re.S
        )
    own = summary["clients"][2]
    assert f"{own['samples']:,}" in words and f"{100 * own['accuracy']:.1f} %" in words
    assert f"{100 * summary['local']['mean']:.1f} %" in words and "You, client 2" in words


def test_promises_are_counted(served: Path) -> None:
    summary = read_json(served / "summary.json")
    for k, promise in ((0, "ε = 8"), (1, "ε = 2; it *covers* <b>all</b>"), (3, "ε = 8")):
        summary["clients"][k]["privacy"] = promise
    card = model_card(summary)
    assert "\n- 1 client: ε = 2; it \\*covers\\* &lt;b&gt;all&lt;/b&gt;\n- 2 clients: ε = 8\n" in card
    assert named(card) == set()


def test_the_command(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(served, tmp_path / "run")
    for page in run.glob("report*.html"):
        page.unlink()
    for more, name in (([], "report-share.html"), (["--client", "bob"], "report-for-bob.html")):
        assert not exit_code("report", run, "--share", *more)
        assert capsys.readouterr().out == f"{run / name}\n"
        assert [page.name for page in run.glob("report*.html")] == [name]
        (run / name).unlink()
    for wrong, said in {
        ("--client", "bob"): "give --share, too",
        ("--share", "--client", "bobby"): "No client 'bobby' took part",
        ("--share", "--client", "../bob"): "A client cannot be named '../bob'",
    }.items():
        assert exit_code("report", run, *wrong) == 2 and said in capsys.readouterr().err
    (tmp_path / "bench" / "cells").mkdir(parents=True)
    with pytest.raises(FedolError, match="only that of a run has clients"):
        write_share(tmp_path / "bench")


@pytest.mark.parametrize(("theme", "width"), [("light", 1120), ("dark", 390)])
@pytest.mark.parametrize("reader", [None, "bob"])
def test_in_a_browser(browser: Any, served: Path, tmp_path: Path, reader: str | None, theme: str, width: int) -> None:
    run = shutil.copytree(served, tmp_path / "run")
    opened(browser, write_share(run, reader), theme, width)
    assert browser.get_log("browser") == [] and violations(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    samples = read_json(run / "evidence.json")["samples"]
    assert visible(browser) == list(range(len(samples)))
    names = browser.execute_script("return [...document.querySelectorAll('.tile .name')].map((e) => e.textContent)")
    assert names == [str(sample["server"][0]) for sample in samples]
    choose(browser, **{"class": names[0]})
    assert visible(browser) == [i for i, name in enumerate(names) if name == names[0]]
    choose(browser, **{"class": ""})
    browser.execute_script("document.querySelectorAll('.tile')[5].click()")
    detail = browser.find_element("id", "detail").text
    said = [f"server, trained\n{names[5]}, {samples[5]['server'][1] / 10:.1f} %"]
    if reader:
        vote = samples[5]["votes"][NAMES.index(reader)]
        said.insert(0, f"you\n{vote[0]}, {vote[1] / 10:.1f} %")
        choose(browser, against=True)
        other: Callable[[int], bool] = lambda i: str(samples[i]["votes"][NAMES.index(reader)][0]) != names[i]  # noqa: E731
        assert visible(browser) == [i for i in range(len(samples)) if other(i)]
    assert detail == "\n".join([f"Sample {samples[5]['index']}", *said])
