"""Words for people: strangers' words through every writer, each of which shows them and obeys none, and times."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import exit_code
from rich.console import Console

from fedol.errors import InputError, brief
from fedol.federation.roster import Arrival, Roster
from fedol.files import read_json, write_json
from fedol.knowledge.task import Task
from fedol.report.charts import heat_map
from fedol.report.inspection import inspection_view
from fedol.report.live import Bars, Lines, roster_table
from fedol.report.pages import render, write_report, write_share
from fedol.report.share import model_card
from fedol.report.terminal import partition_table, plain, remarks, run_table, server_table
from fedol.text import clock, printable, seconds, shown

HALF = "\ud800"  # of a surrogate pair
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "![x](http://e.example/t.png) [y](javascript:alert(1)) <http://e.example> www.e.example http://e.example",
    "`` `a` ``` **b** _c_ ~~d~~ | e | \\| # f &lt;g&gt; &amp;h $i$ $$\\frac{1}$$",
    "\x1b]0;gotcha\x07\x1b[2J\x9b31m[bold]j[/bold][/nothing]:bomb:\r\n\tk\x00\u202etxt.exe\u200b" + HALF,
    '=HYPERLINK("http://e.example")',
)
FRIENDLY = ("A&B", "cat_dog", "naïve", "日本語", "it's", "-0.13", "C:\\data", "100 % [sure]", "x" * 40)


def commonmark(words: str) -> list[Any]:
    """The tokens of a line of Markdown, with tables and struck words as on GitHub."""
    parser = pytest.importorskip("markdown_it", reason="needs the package markdown-it-py").MarkdownIt("commonmark")
    return list(parser.enable(["table", "strikethrough"]).parse(words))


class Tags(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_line(words: str) -> None:
    """One line means itself in every medium."""
    seen = printable(words)
    assert seen.isprintable() and "\n" not in seen
    within = Tags(f"<p title='{shown(words, 'html')}'>{shown(words, 'html')}</p>")
    assert within.tags == [("p", "title")] and "".join(within.text) == seen
    paragraph, row = f"a {shown(words, 'markdown')} z", f"| a |\n|---|\n| a {shown(words, 'markdown')} z |"
    for line in (paragraph, row):
        inline = [token for token in commonmark(line) if token.type == "inline"][-1]
        assert {token.type for token in inline.children} == {"text"}, inline.children
        text = "".join(child.content for child in inline.children)
        assert re.sub(" +", " ", text) == re.sub(" +", " ", f"a {seen} z")
    cell = shown(words, "cell")
    ((read,),) = csv.reader([",".join(['"' + cell.replace('"', '""') + '"'])])
    assert read == cell and cell.removeprefix("'") == seen.removeprefix("'")
    number = re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", cell)
    assert number or not cell.lstrip().startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize("words", [*HOSTILE, *FRIENDLY])
def test_a_line(words: str) -> None:
    check_line(words)


def test_any_line() -> None:
    hypothesis = pytest.importorskip("hypothesis", reason="needs the package hypothesis")
    some = hypothesis.strategies
    special = some.text(some.sampled_from("\\`*_{}[]()<>#+-.!|~$&;:/@='\" \n\t\x1b\ud800ax1w"), max_size=24)

    @hypothesis.settings(max_examples=400, deadline=None)
    @hypothesis.given(some.one_of(special, some.text(max_size=12)))
    def check(words: str) -> None:
        check_line(words)

    check()


@pytest.mark.parametrize(
    ("words", "cell"),
    [("-0.13", "-0.13"), ("+1.5e-3", "+1.5e-3"), ("-1+1", "'-1+1"), ("=1", "'=1"), (" @x", "' @x"), ("＝1", "'＝1")],
)
def test_numbers_in_cells_stay_numbers(words: str, cell: str) -> None:
    assert shown(words, "cell") == cell


def test_friendly_words_read_well() -> None:
    assert [shown(word, "markdown") for word in ("cat_dog", "naïve", "日本語", "A&B")] == [
        "cat_dog",
        "naïve",
        "日本語",
        "A&amp;B",
    ]
    assert render_name("A&B") == "A&amp;B"  # and not &amp;amp;


def render_name(name: str) -> str:
    """A name in the heading of a page."""
    cell = {"id": "x", "name": name, "accuracy": 0.5, "chart": None, "curves": {}, "step": "round", "clients": []}
    page = render("cell.html", {"cell": {**cell, "settings": {}, "made": {}, "command": None, "file": "f"}})
    return page.split("<h2>")[1].split(":")[0]


@pytest.mark.parametrize("words", ["$x$", "$\\frac{$", "a$b", "\\$1", "$$", "{$}"])
def test_a_plot_sets_no_formulas(words: str, tmp_path: Path) -> None:
    text = pytest.importorskip("matplotlib.text", reason="needs the package matplotlib").Text
    from fedol.report.plots import partition_heat_map

    line, is_formula = text()._preprocess_math(shown(words, "plot"))
    assert line == words and not is_formula
    partition_heat_map(np.ones((2, 2), int), (words, "b"), f"{words}, iid", tmp_path / "plot.svg")


def told(*parts: Any) -> str:
    """What a terminal gets: colours are off, so nothing but text may be in it."""
    console = Console(width=4000, file=io.StringIO(), force_terminal=False)
    for part in parts:
        console.print(part)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", HOSTILE)
def test_terminal_tables(words: str) -> None:
    arrival = Arrival(words, 9, words, "0", words)
    roster = Roster(0.0, "", {words: arrival}, {words: words})
    named = {"client": words, "file": words, "bytes": 9, "codec": words, "privacy": words}
    server = {"model": words, "parameters": 9, "accuracy": 0.5}
    summary = {
        "task": {"name": words},
        "clients": [named],
        "refused": [{"file": words, "reason": words}],
        "screening": [],
        "server": server,
        "history": [{"loss": 1.0}],
        "test": None,
    }
    simulated = {"parameters": 9, "samples": 9, "upload_bytes": 9, "accuracy": 0.5, "classes": words, "model": words}
    run = {
        "config": {"dataset": words, "partition": words, "method": "fedol"},
        "clients": [{"client": words, **simulated}],
        "local": {"mean": 0.5},
        "ensemble": {"accuracy": 0.5},
        "server": server,
        "upload_bytes_per_client": 9,
    }
    found = {"client": words, "codec": words, "task": words, "signed": False, "privacy": None, "bytes": 9}
    found |= {"rate": {"loss": 0.01, "packed": words}}
    found |= {"float32_bytes": 9, "samples": 9, "classes": 1, "class_mix": {words: 1.0}, "held": [words]}
    found |= {"findings": None}
    found |= {"fits": {"fits": False, "reason": words}, "entropy": {"counts": [9], "edges": [0.0, 1.0]}}
    found["ratios"] = {"private": 9, "folds": 2, "mean_mass": 0.1, "expected": 1.0, "over_expected": 0.1}
    found["ratios"]["log_mass"] = found["entropy"]
    bars = Bars(console=Console(file=io.StringIO()))
    bars.add_task(words, total=2, note="", style="")
    log = Console(file=io.StringIO(), width=4000)
    lines = Lines(log, words, 2)
    lines._told = -100.0
    lines.tell(1)
    task = Task(("a", "b"), 1, "f", words.replace(HALF, ""))  # which a task refuses itself
    parts = {
        "roster": told(roster_table(roster, {words: words}, task, None)),
        "server": told(server_table(summary), *map(plain, remarks(summary))),
        "run": told(run_table(run)),
        "partition": told(partition_table(np.ones((1, 1), int), (words,))),
        "inspection": told(inspection_view(found)),
        "bars": told(bars.make_tasks_table(bars.tasks)),
        "lines": log.file.getvalue(),  # type: ignore[attr-defined]
    }
    for name, text in parts.items():
        assert printable(words) in text, name
        assert all(letter.isprintable() or letter == "\n" for letter in text), name


def replaced(value: Any, words: str, but: frozenset[str] = frozenset()) -> Any:
    """A value whose every text is ``words``, but for those under these keys."""
    if isinstance(value, dict):
        return {key: entry if key in but else replaced(entry, words, but) for key, entry in value.items()}
    if isinstance(value, list):
        return [replaced(entry, words, but) for entry in value]
    return words if isinstance(value, str) else value


OURS = frozenset(("method", "defence", "sha256"))  # words that the page looks up


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation by files, with a refused one, and a client that promises privacy."""
    from dataclasses import replace

    import torch

    from fedol import Knowledge
    from fedol.config import ServerConfig
    from fedol.data import load, split
    from fedol.federation.coordinator import Coordinator
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.header import Guarantee
    from fedol.report.pages import Pages

    folder = tmp_path_factory.mktemp("run")
    data = split(load("digits"), 40, 0)
    task = Task.of(data.public, data.classes, "digits")
    files = [folder / f"{name}.fedol" for name in ("a", "b", "c", "d")]
    for number, file in enumerate(files[:3]):
        probs = torch.softmax(torch.randn(40, 10, generator=torch.Generator().manual_seed(number)), 1)
        knowledge = Knowledge.from_probabilities(probs, task, file.stem)
        replace(knowledge, privacy=Guarantee(1.0, 1e-5, "all")).save(file)
    files[3].write_bytes(b"nothing")
    config = ServerConfig(task.id, "mlp", iterations=1, epochs=1, batch_size=20, device="cpu", defence="none")
    server = Coordinator(TaskFolder.create(folder / "task", task, data.public), config, folder / "out")
    server.collect(files)
    server.run(Pages(), data.test)
    return folder / "out"


def strange(run: Path, to: Path, words: str) -> Path:
    """The run's folder as a stranger may write it: every text in it says something else."""
    copy = shutil.copytree(run, to)
    for name in ("summary.json", "evidence.json"):
        write_json(copy / name, replaced(read_json(copy / name), words, OURS))
    return copy


@pytest.mark.parametrize("write", [write_report, write_share], ids=["coordinator", "share"])
def test_pages_have_the_same_elements_whatever_the_words(
    write: Callable[[Path], Path], run: Path, tmp_path: Path
) -> None:
    pages = []
    for number, words in enumerate(("word", *HOSTILE)):
        page = write(strange(run, tmp_path / str(number), words)).read_text(encoding="utf-8")
        parsed = Tags(page)
        pages.append(parsed.tags)
        assert all(letter.isprintable() or letter == "\n" for letter in page)
        assert sum(printable(words) in text for text in parsed.text) >= 3
        (held,) = re.findall(r'id="evidence">(.*?)</script>', page, re.DOTALL)  # which a script puts onto the page
        assert all(name.isprintable() for key in ("classes", "clients") for name in json.loads(held)[key])
    assert all(tags == pages[0] for tags in pages)


def test_the_card_has_the_same_structure_whatever_the_words(run: Path) -> None:
    def structure(words: str) -> Iterator[str]:
        card = model_card({**replaced(read_json(run / "summary.json"), words, OURS), "changed": changes(words)})
        assert all(letter.isprintable() or letter == "\n" for letter in card)
        tokens = commonmark(card)
        texts = [c.content for token in tokens for c in token.children or () if c.type == "text"]
        assert sum(printable(words) in text for text in texts) >= 4
        for token in tokens:
            yield token.type
            yield from (child.type for child in token.children or () if child.type != "text")

    def changes(words: str) -> dict[str, Any]:
        return {"from": words, "new_clients": [words], "public_labels_changed": 0.5}

    friendly = list(structure("word"))
    assert not {"html_inline", "html_block", "image", "link_open"} & set(friendly)
    for words in (*HOSTILE, *FRIENDLY):
        assert list(structure(words)) == friendly, words


def test_a_chart_of_hostile_classes() -> None:
    benign = Tags(heat_map(np.ones((2, 3), int), ["w" * 20] * 3, ["k"] * 2)).tags
    for words in HOSTILE:
        chart = heat_map(np.ones((2, 3), int), [words] * 3, ["k"] * 2)
        assert Tags(chart).tags == benign and chart.isprintable()


def test_bench_tables_as_files() -> None:
    from fedol.bench.sheets import Sheet

    for words in HOSTILE:
        sheet = Sheet("name", words, ["", words], [[words, "-0.1"]], words, [{"method": words, "points": -0.13}])
        kinds = [token.type for token in commonmark(sheet.markdown())]
        benign = Sheet("name", "w", ["", "w"], [["w", "-0.1"]], "w")
        assert kinds == [token.type for token in commonmark(benign.markdown())]
        for token in commonmark(sheet.markdown()):
            assert {child.type for child in token.children or ()} <= {"text"}
        heading, row = csv.reader(io.StringIO(sheet.csv()))
        assert heading == ["method", "points"] and row == [shown(words, "cell"), "-0.13"]


def test_predict_shows_file_and_class_names(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image_module = pytest.importorskip("PIL.Image", reason="writes images with the package pillow")
    from dataclasses import replace

    import fedol

    model = fedol.load(run)
    names = ("=cmd|'/C calc'!A0\x1b[2J\ta", "-1", "A&B", "\x1b]0;gotcha\x07", *map(str, range(6)))
    model.architecture = replace(model.architecture, classes=names)
    model.save(tmp_path / "model.safetensors")
    images = tmp_path / "images"
    images.mkdir()
    files = ["=1+1.png", "a\x1b[2J\nb.png", "naïve 日本語.png"]
    for file in files:
        image_module.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)).save(images / file)
    assert exit_code("predict", str(tmp_path / "model.safetensors"), str(images)) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == [shown(file, "cell") for file in files] and all(len(row) == 3 for row in rows)
    assert rows[0][0] == "'=1+1.png" and {row[1] for row in rows} <= {shown(name, "cell") for name in names}


def test_an_error_shows_names(capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code("report", "\x1b]0;gotcha\x07[bold]x")
    said = capsys.readouterr().err
    assert code == 2 and r"\x1b]0;gotcha\x07[bold]x" in said and "\x1b" not in said


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2d", 172800)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1w", "1h30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        seconds(text)


def test_the_clock() -> None:
    assert (clock(3723), clock(62.4), clock(0)) == ("1:02:03", "1:02", "0:00")
    assert (clock(172_799), clock(172_800), clock(1e8)) == ("47:59:59", "2 days 0 h", "1,157 days 9 h")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.5, "0.5"),
        ("feddf", "'feddf'"),
        ([1, "a"], "[1, 'a']"),
        ("x" * 500, "text of 500 characters"),
        (list(range(500)), "a list of 500"),
        ([1.5] * 25, "a list of 25"),
        ({1, 2}, "a set of 2"),
        (np.zeros((3, 4)), "ndarray of shape [3, 4]"),
        ([1, np.zeros(3)], "a list with ndarray of shape [3] in it"),
        (np.ndarray, "ndarray"),
        (object(), "an object"),
    ],
)
def test_a_value_in_a_sentence_is_short(value: object, words: str) -> None:
    assert brief(value) == words


def test_latex_obeys_nothing() -> None:
    assert shown(r"a_b & 50% {\x} ~^ #1 $", "latex") == (
        r"a\_b \& 50\% \{\textbackslash{}x\} \textasciitilde{}\textasciicircum{} \#1 \$"
    )
    assert shown("-0.1 ± 2, τ × 3, non-iid", "latex") == r"$-$0.1 $\pm$ 2, $\tau$ $\times$ 3, non-iid"
