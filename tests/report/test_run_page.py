"""report.html in a real browser: what it shows, that it works, and that everybody can use it."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from browsing import choose, opened, violations, visible

import fedol
from fedol.report.pages import write_report, write_share

THEMES = ("light", "dark")
WIDTHS = (1120, 390)


@pytest.fixture
def evidence(looked_at: Path) -> dict[str, Any]:
    return dict(json.loads((looked_at / "evidence.json").read_text()))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_opens_without_errors_or_network_and_everyone_can_use_it(
    browser: Any, looked_at: Path, theme: str, width: int
) -> None:
    opened(browser, looked_at / "report.html", theme, width)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked and all(url.startswith(("file:", "data:")) for url in asked)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width  # nothing sticks out
    assert violations(browser) == []


def test_the_accessibility_check_can_fail(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<html><title>x</title><p style='color:#ccc;background:#fff'>pale</p><img src='data:,'></html>")
    found = violations(opened(browser, page))
    assert any("color-contrast" in words for words in found) and any("image-alt" in words for words in found)


def test_filters(browser: Any, looked_at: Path, evidence: dict[str, Any]) -> None:
    opened(browser, looked_at / "report.html")
    samples, last = evidence["samples"], evidence["iterations"]
    label = [s["labels"][-1] if s["labels"][-1] >= 0 else s["mixture"][0] for s in samples]
    everything = list(range(len(samples)))
    assert visible(browser) == everything
    wanted = {
        "class": [i for i in everything if label[i] == 3],
        "client": [i for i in everything if samples[i]["votes"][1][4] <= last],
        "disagree": [i for i in everything if len({v[0] for v in samples[i]["votes"] if v[4] <= last}) > 1],
        "changed": [i for i in everything if len({c for c in samples[i]["labels"] if c >= 0}) > 1],
        "wrong": [i for i in everything if label[i] != samples[i]["truth"]],
    }
    values: dict[str, str | bool] = {"class": "3", "client": "1", "disagree": True, "changed": True, "wrong": True}
    for name, expected in wanted.items():
        assert 0 < len(expected) < len(everything), name  # a filter that keeps all or nothing shows nothing
        choose(browser, **{name: values[name]})
        assert visible(browser) == expected, name
        assert browser.find_element("id", "count").text == f"{len(expected)} of {len(everything)} samples"
        choose(browser, **{name: "" if isinstance(values[name], str) else False})
    choose(browser, client="1", stance="against")
    assert visible(browser) == [i for i in everything if samples[i]["votes"][1][0] != label[i]]
    browser.find_element("css selector", "#filters button[type=reset]").click()
    assert browser.execute_async_script("setTimeout(arguments[0], 20)") is None
    assert visible(browser) == everything


def test_the_votes_of_an_image(browser: Any, looked_at: Path, evidence: dict[str, Any]) -> None:
    opened(browser, looked_at / "report.html")
    browser.execute_script("document.querySelectorAll('.tile')[5].click()")
    detail = browser.find_element("id", "detail").text
    sample = evidence["samples"][5]
    assert f"Sample {sample['index']}" in detail and f"truth\n{sample['truth']}" in detail
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#detail tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    heaviest = sorted(zip(evidence["clients"], sample["votes"], strict=True), key=lambda pair: -pair[1][2])
    for row, (name, vote) in zip(rows, heaviest, strict=True):
        later = str(vote[4]) if vote[4] <= evidence["iterations"] else "never"
        assert row == [name, str(vote[0]), *(f"{value / 10:.1f} %" for value in vote[1:4]), later]
    steps = browser.execute_script("return [...document.querySelectorAll('.steps li')].map(s => s.textContent)")
    assert steps == [str(c) if c >= 0 else "–" for c in sample["labels"]]


def test_sorting(browser: Any, looked_at: Path) -> None:
    opened(browser, looked_at / "report.html")
    column = "return [...document.querySelectorAll('#clients tbody tr')].map(r => Number(r.cells[4].dataset.value))"
    before = browser.execute_script(column)
    heading = browser.find_element("css selector", "#clients thead th:nth-child(5)")
    for order, state in ((True, "descending"), (False, "ascending")):
        heading.find_element("tag name", "button").click()
        assert browser.execute_script(column) == sorted(before, reverse=order)
        assert heading.get_attribute("aria-sort") == state


def test_the_keyboard_reaches_everything(browser: Any, looked_at: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    opened(browser, looked_at / "report.html")
    reached = set()
    for _ in range(60):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        focus = browser.switch_to.active_element
        reached.add(focus.get_attribute("class") or focus.get_attribute("name") or focus.tag_name)
        if focus.get_attribute("class").startswith("tile"):
            break
    assert {"skip", "a", "button", "class", "disagree", "wrong"} <= reached
    first = browser.switch_to.active_element
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT, Keys.ENTER).perform()
    second = browser.switch_to.active_element
    assert second != first and second.get_attribute("aria-pressed") == "true"


def printed(browser: Any, page: Path) -> bytes:
    """The page as a PDF on A4, as the browser's print dialog makes it."""
    opened(browser, page, "dark")
    paper = {"paperWidth": 8.27, "paperHeight": 11.69}
    return base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", paper)["data"])


def test_it_prints(browser: Any, looked_at: Path) -> None:
    pdf = printed(browser, looked_at / "report.html")
    assert pdf.startswith(b"%PDF") and 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    width = {"width": 720, "height": 1000, "deviceScaleFactor": 1, "mobile": False}  # A4 less its margins
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", width)
    try:
        for gone in ("#filters", "nav"):
            assert not browser.find_element("css selector", gone).is_displayed()
        for part in ("data", "clients", "iterations", "why", "classes", "cost", "again"):
            assert browser.find_element("id", part).is_displayed()
        colours = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        assert browser.execute_script(colours) == ["rgb(29, 33, 38)", "rgb(255, 255, 255)"]  # also from the dark theme
        clipped = (
            "return [...document.querySelectorAll('.scroll, .grid, pre')].filter(e => getComputedStyle(e).overflowY "
            "!== 'visible' || e.scrollHeight > e.clientHeight + 1).map(e => e.getAttribute('aria-label'))"
        )
        assert browser.execute_script(clipped) == []  # paper cannot be scrolled
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_images_carry_the_class_that_the_server_was_taught(browser: Any, tmp_path: Path) -> None:
    small: dict[str, Any] = {"clients": 3, "public": 60, "epochs": 1, "width": 4, "partition": "classes:5"}
    out = fedol.run(out=tmp_path / "run", device="cpu", method="feddf", **small).out
    evidence = json.loads((out / "evidence.json").read_text())
    opened(browser, out / "report.html")
    shown = browser.execute_script("return [...document.querySelectorAll('.tile .name')].map((e) => e.textContent)")
    names = json.loads((out / "data.json").read_text())["classes"]
    assert shown == [names[sample["taught"][0]] for sample in evidence["samples"]]
    assert shown != [names[sample["mixture"][0]] for sample in evidence["samples"]]
    assert "the server's target" in browser.find_element("id", "detail").text


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_what_cannot_be_drawn_is_shown_in_words(
    browser: Any, looked_at: Path, tmp_path: Path, theme: str, width: int
) -> None:
    run = tmp_path / "run"
    shutil.copytree(looked_at, run)
    evidence = json.loads((run / "evidence.json").read_text())
    captions = [f"<b>patient {sample['index']}</b>, {'long ' * 20}" for sample in evidence["samples"]]
    (run / "evidence.json").write_text(json.dumps({**evidence, "captions": captions}))
    (run / "public.png").unlink()
    for page in (write_report(run), write_share(run)):
        opened(browser, page, theme, width)
        assert browser.get_log("browser") == [] and violations(browser) == []
        shown = browser.execute_script(
            "return [...document.querySelectorAll('.tile .caption')].map(e => e.textContent)"
        )
        assert shown == captions
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        browser.execute_script("document.querySelectorAll('.tile')[5].click()")
        assert captions[5].strip() in browser.find_element("css selector", "#detail .caption").text


def test_code_is_copied_by_keyboard_too(browser: Any, looked_at: Path) -> None:
    opened(browser, looked_at / "report.html")
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    buttons = browser.find_elements("css selector", "button.copy")
    assert [button.accessible_name for button in buttons] == ["Copy: Settings as TOML", "Copy: Command"]
    buttons[0].send_keys("\ue007")  # Enter
    read = "navigator.clipboard.readText().then(arguments[0], (error) => arguments[0](String(error)))"
    assert 'dataset = "digits"' in browser.execute_async_script(read)
    assert buttons[0].text == "Copied"


def test_on_a_phone_accuracy_stands_before_what_is_cut_off(browser: Any, looked_at: Path) -> None:
    opened(browser, looked_at / "report.html", width=390)
    where = (
        "const box = document.querySelector('#clients .scroll').getBoundingClientRect();"
        "const cells = [...document.querySelectorAll('#clients tfoot td')];"
        "return cells.map(c => c.getBoundingClientRect().right <= box.right)"
    )
    accuracy = browser.find_element("css selector", "#clients tfoot td").text
    assert accuracy.endswith(" %") and browser.execute_script(where)[0] is True


def test_the_losses_of_every_epoch_are_drawn(browser: Any, looked_at: Path) -> None:
    opened(browser, looked_at / "report.html")
    lines = [json.loads(line) for line in (looked_at / "metrics.jsonl").read_text().splitlines()]
    drawn = {
        stage: browser.execute_script(
            f"return [...document.querySelectorAll('#losses polyline.{look}')].map(l => l.points.numberOfItems)"
        )
        for stage, look in (("client", "client"), ("iteration", "server"))
    }
    assert drawn == {stage: [len(m["losses"]) for m in lines if m["stage"] == stage] for stage in drawn}
    assert all(drawn.values()) and set(drawn["client"]) == {6}


def test_calibration_is_said_in_words(browser: Any, looked_at: Path) -> None:
    opened(browser, looked_at / "report.html")
    evaluation = json.loads((looked_at / "evaluation.json").read_text())["server"]
    summary = json.loads((looked_at / "summary.json").read_text())
    said = browser.find_element("id", "classes").text
    assert f"and {100 * summary['server']['accuracy']:.1f} % right:" in said
    assert f"the two are {100 * evaluation['calibration']['ece']:.1f} points apart" in said


def test_a_run_that_has_kept_no_losses_has_a_page(looked_at: Path, tmp_path: Path) -> None:
    older = Path(shutil.copytree(looked_at, tmp_path / "older"))
    lines = [json.loads(line) for line in (older / "metrics.jsonl").read_text().splitlines()]
    kept = [{name: value for name, value in line.items() if name != "losses"} for line in lines]
    (older / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert 'id="losses"' not in write_report(older).read_text(encoding="utf-8")


def test_the_page_to_pass_on_has_no_clients_losses(served: Path) -> None:
    assert 'id="losses"' in write_report(served).read_text(encoding="utf-8")
    assert 'id="losses"' not in write_share(served).read_text(encoding="utf-8")
