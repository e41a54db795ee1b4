"""The pages of benchmarks and of federations by files, in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from browsing import choose, opened, violations, visible

from fedol.bench.cells import digest
from fedol.bench.paper import one_round
from fedol.errors import FedolError
from fedol.files import read_json, write_json
from fedol.report.bench_pages import MOST_RUNS, collect, sheets
from fedol.report.pages import write_report

SHARED = {
    "dataset": "cifar100",
    "width": 16,
    "public": 5000,
    "batch_size": 64,
    "lr": 0.001,
    "clients": 10,
    "epochs": 50,
}
PARTITIONS = ("dirichlet:0.05", "classes:20")
REACHED = {"feddf": [0.31, 0.33], "fedet": [0.29, 0.30], "fedol": [0.40, 0.43]}


def cell(folder: Path, method: str, partition: str, seed: int, accuracy: float, rounds: int = 1, **more: Any) -> None:
    own: dict[str, Any] = {"server_epochs": 50, **({"rounds": rounds} if rounds > 1 else {})}
    if method == "fedol":
        own |= {"iterations": 10, "tau": 0.2, "rho": 0.1, "rho_step": 0.05}
    settings = {**SHARED, "method": method, "partition": partition, "seed": seed, **own}
    name = digest(settings)
    result: dict[str, Any] = {"hash": name, "settings": settings, "method": method, "seed": seed, "accuracy": accuracy}
    result["command"] = "fedol bench one-round --preset paper"
    if rounds > 1:
        result["history"] = [{"accuracy": accuracy * (n + 1) / rounds} for n in range(rounds)]
    result |= more
    write_json(folder / "cells" / f"{name}.json", result)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark's folder as if it had been computed: two seeds, two partitions, and curves."""
    folder = tmp_path_factory.mktemp("bench")
    for method, accuracies in REACHED.items():
        for partition in PARTITIONS:
            for seed, accuracy in enumerate(accuracies):
                cell(folder, method, partition, seed, accuracy - 0.1 * PARTITIONS.index(partition))
    for seed, accuracy in enumerate(REACHED["feddf"]):
        cell(folder, "feddf", "dirichlet:0.05", seed, accuracy, rounds=4)
    write_report(folder)
    return folder


@pytest.mark.parametrize(("theme", "width"), [("light", 1120), ("dark", 390)])
def test_a_benchmarks_page(browser: Any, bench: Path, theme: str, width: int) -> None:
    opened(browser, bench / "report.html", theme, width)
    assert browser.get_log("browser") == [] and violations(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_ours_beside_theirs_with_spread(browser: Any, bench: Path) -> None:
    opened(browser, bench / "report.html")
    row = browser.find_element("xpath", "//section[@id='table-1']//tr[th[starts-with(., 'FedDF')]]")
    theirs = one_round("cifar100", "dirichlet:0.05", "feddf")
    assert theirs
    difference = 100 * (0.32 - theirs[0])
    beside = f"paper {100 * theirs[0]:.1f} ± {100 * theirs[1]:.1f} ({difference:+.1f})"
    for words in ("32.0 ± 1.4", beside, "-9.5 ± 0.7 over FedOL"):
        assert words in row.text
    assert len(row.find_elements("css selector", "td:nth-of-type(1) .whisker")) == 1  # our error bar
    chart = browser.find_element("css selector", "#rounds-1 svg.chart")
    drawn = {
        name: len(chart.find_elements("css selector", name)) for name in (".ours", ".paper.s0", ".level", ".whisker")
    }
    assert drawn == {".ours": 1, ".paper.s0": 1, ".level": 2, ".whisker": 4}


@pytest.mark.parametrize(
    ("links", "name", "accuracy"),
    [
        ("#table-1 tbody tr:nth-child(1) td:nth-of-type(1) a", "FedDF (50 epochs), dirichlet:0.05, seed 1", "33.0 %"),
        ("#rounds-1 tbody td:last-child a", "FedDF (50 epochs), dirichlet:0.05, 4 rounds, seed 1", "33.0 %"),
    ],
)
def test_a_cell_leads_to_its_runs(browser: Any, bench: Path, links: str, name: str, accuracy: str) -> None:
    opened(browser, bench / "report.html")
    assert not [cell for cell in browser.find_elements("class name", "one-run") if cell.is_displayed()]
    _, second = browser.find_elements("css selector", links)  # a run per seed
    second.click()
    (shown,) = [cell for cell in browser.find_elements("class name", "one-run") if cell.is_displayed()]
    assert shown.find_element("tag name", "h2").text == f"{name}: {accuracy}"
    assert violations(browser) == []
    assert "--preset paper" in shown.find_element("css selector", "[aria-label='Command']").text
    if "rounds" in name:
        assert "8.2 % 16.5 % 24.8 % 33.0 %" in shown.text and shown.find_elements("css selector", "svg polyline")
    record = shown.find_element("css selector", "a[href^='cells/']").get_attribute("href")
    assert read_json(Path(record.removeprefix("file://")))["seed"] == 1
    shown.find_element("link text", "Back to the tables").click()
    assert not shown.is_displayed()


def test_a_benchmarks_table_sorts(browser: Any, bench: Path) -> None:
    opened(browser, bench / "report.html")
    column = "return [...document.querySelectorAll('#table-1 tbody tr')].map(r => r.cells[0].textContent.split(' ')[0])"
    browser.find_element("css selector", "#table-1 thead th:nth-child(2) button").click()
    assert browser.execute_script(column) == ["FedOL", "FedDF", "FedET"]
    browser.find_element("css selector", "#table-1 thead th:nth-child(1) button").click()
    assert browser.execute_script(column) == ["FedOL", "FedET", "FedDF"]


def test_a_benchmarks_tables_are_there_to_copy(browser: Any, bench: Path) -> None:
    opened(browser, bench / "report.html")
    shown = browser.execute_script("return [...document.querySelectorAll('#copies pre')].map(p => p.textContent)")
    assert shown == [text for sheet in sheets(collect(bench)) for text in (sheet.latex(), sheet.csv())]
    browser.find_element("css selector", "#copies summary").click()
    button = browser.find_element("css selector", "#copies button.copy")
    assert button.is_displayed() and button.accessible_name.startswith("Copy: LaTeX: One round")


def test_numbers_stay_beside_the_names_of_their_rows(browser: Any, tmp_path: Path) -> None:
    for method in ("fedol", "feddf"):
        cell(tmp_path, method, "dirichlet:0.05", 0, 0.3)
    opened(browser, write_report(tmp_path), width=1280)
    assert browser.find_element("css selector", "#table-1 table").size["width"] < 500


def test_nobody_failed_to_pass_a_fedol_that_was_not_run(tmp_path: Path) -> None:
    for method, accuracy, rounds, never in (("feddf", 0.3, 4, False), ("fedol", 0.4, 1, True)):
        cell(tmp_path, method, "dirichlet:0.05", 0, accuracy, rounds)
        page = write_report(tmp_path).read_text()
        assert (">never<" in page) is never and ("(not run here)" in page) is not never


@pytest.mark.parametrize(
    ("damaged", "said"),
    [({"history": [7]}, "is damaged"), ({"clients": [7]}, "is no result of a benchmark; move it out")],
    ids=["history", "clients"],
)
def test_a_damaged_cell_is_named(tmp_path: Path, damaged: dict[str, Any], said: str) -> None:
    cell(tmp_path, "feddf", "dirichlet:0.05", 0, 0.3, **damaged)
    for read in (collect, write_report):
        with pytest.raises(FedolError, match=rf"cells/\w+\.json {said}"):
            read(tmp_path)


def test_points_above_a_fedol_that_other_clients_taught_are_marked(tmp_path: Path) -> None:
    for method, accuracy in {"fedol": 0.1, "feddf": 0.1, "mine": 0.2}.items():
        clients = [{"client": 0, "samples": 10, "accuracy": accuracy, "upload_bytes": 10}]
        cell(tmp_path, method, "classes:20", 0, 0.3, clients=clients)
    html = write_report(tmp_path).read_text()
    rows = {name: html.split(f">{name} (50 epochs)</th>")[1].split("</tr>")[0] for name in ("FedDF", "MinE")}
    assert {name: "over FedOL†" in row for name, row in rows.items()} == {"FedDF": False, "MinE": True}
    assert html.count("† With a seed whose clients") == 1


def test_a_large_benchmarks_page_is_small(tmp_path: Path) -> None:
    """More runs than the paper's tables have, in its size; those that the page does not hold are files beside it."""
    history = [
        {"diagnostics": {"test_accuracy": 0.3, "target_accuracy": 0.4, "pseudo_label_accuracy": 0.5}} for _ in range(10)
    ]
    clients = [{"client": k, "samples": 4500, "accuracy": 0.1234, "upload_bytes": 123456} for k in range(10)]
    for seed in range(MOST_RUNS + 20):
        cell(tmp_path, "fedol", PARTITIONS[seed % 2], seed, 0.4, history=history, clients=clients)
    page = write_report(tmp_path)
    html = page.read_text()
    assert 1_000_000 < page.stat().st_size < 2_000_000 and html.count('class="one-run"') == MOST_RUNS
    assert html.count('<a href="cells/') - MOST_RUNS == 20


@pytest.mark.parametrize(("theme", "width"), [("light", 1120), ("dark", 390)])
def test_a_federations_page(browser: Any, served: Path, theme: str, width: int) -> None:
    opened(browser, served / "report.html", theme, width)
    assert browser.get_log("browser") == [] and violations(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    words = browser.find_element("tag name", "body").text
    summary = read_json(served / "summary.json")
    assert f"{100 * summary['test']['accuracy']:.1f} % accurate on 359 test samples" in words
    assert "digits <b>shared</b>" in words  # as text
    assert summary["provenance"]["command"] in browser.find_element("id", "again").text
    told = browser.find_element("id", "attention").text
    assert "mallory.fedol was refused: " + summary["refused"][0]["reason"] in told
    assert len(visible(browser)) == 100
    assert not browser.find_elements("name", "wrong")  # nobody knows the public samples' labels
    assert "For the coordinator." in words
    for client in summary["clients"]:
        assert client["client"] in browser.find_element("id", "clients").text


def test_suspicious_clients_with_the_evidence(browser: Any, served: Path) -> None:
    opened(browser, served / "report.html")
    told = browser.find_element("id", "attention").text
    screening = {entry["client"]: entry for entry in read_json(served / "screening.json")}
    assert {name for name, entry in screening.items() if entry["left_out"]} == {"eve", "trent"}
    assert "learnt from 4 clients" in browser.find_element("class name", "headline").text
    assert "the predictions of 4 clients (2 more left out)" in (served / "MODEL_CARD.md").read_text()
    assert "2 clients were left out as suspicious" in browser.find_element("tag name", "body").text
    assert "eve suspicious, left out\nIt says the same of every image" in told
    assert "trent suspicious, left out\nIt sent the same predictions as alice." in told
    agreement = screening["trent"]["evidence"]["everywhere"], screening["trent"]["evidence"]["usual_everywhere"]
    row = browser.find_element("css selector", "[aria-label='Evidence on trent'] tbody tr").text
    assert row == f"agreement with the others beyond chance {agreement[0]:.2f} {agreement[1]:.2f}"
    assert "trust; below 0.5 it is left out 0.00 1.00" in told
    # From the client to the images on which it said something else, and to a vote that did not count.
    evidence = read_json(served / "evidence.json")
    for sample in evidence["samples"]:  # those shown as voters in the first iteration are those that were counted
        assert sum(vote[4] <= 1 for vote in sample["votes"]) == sample["voters"][0]
    browser.find_element("css selector", "[data-client='4']").click()
    label = [s["labels"][-1] if s["labels"][-1] >= 0 else s["mixture"][0] for s in evidence["samples"]]
    assert visible(browser) == [i for i, c in enumerate(label) if c != 3]
    row = browser.find_element("xpath", "//div[@id='detail']//tr[th='eve']").text
    assert row.split() == ["eve", "3", "100.0", "%", "0.0", "%", "50.0", "%", "left", "out"]  # C² is capped
    choose(browser, client="4", stance="votes")
    assert visible(browser) == []
