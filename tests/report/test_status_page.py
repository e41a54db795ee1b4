"""The pages of a server that listens, in a real browser: live, safe, and of use to everybody."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("uvicorn", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("starlette", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("cryptography", reason="receipts are signed, which needs the package cryptography")

from browsing import opened, violations
from small_federation import Federation
from small_intake import Listening, until

from fedol import Knowledge
from fedol.federation.taskfolder import TaskFolder
from fedol.report import status_pages
from fedol.report.status_pages import Login

EVIL = "evil <img src=x onerror=window.owned=1>.fedol"
NAMES = ("alice", "bob", "carol", "dave")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_pages, "EVERY", 0.1)


@pytest.fixture
def listening(federation: Federation, tmp_path: Path) -> Iterator[Listening]:
    """A federation of four with hostile names; nobody is in, and one file was refused."""
    task = replace(federation.task, name="digits <script>window.owned=1</script>", clients=dict.fromkeys(NAMES))
    for name in NAMES:
        knowledge = Knowledge.load(federation.file(name))
        Knowledge(knowledge.log_probs, task.ref, name).save(tmp_path / "files" / f"{name}.fedol")
    with Listening(TaskFolder.create(tmp_path / "task", task, None), tmp_path / "run", quorum=3) as listening:
        (tmp_path / "run" / "inbox" / EVIL).write_bytes(b"\0" * 100)
        until(lambda: listening.roster.refused)
        yield listening


def sent(listening: Listening, name: str) -> str:
    """After this client has sent: the address of its page."""
    return str(listening.send(listening.out.parent / "files" / f"{name}.fedol", name)[1])


def logged_in(browser: Any, listening: Listening, theme: str = "light", width: int = 1120) -> Any:
    opened(browser, f"{listening.url}/login?code={listening.pages.login.code}", theme, width)
    browser.find_element("css selector", "button").click()
    until(lambda: browser.find_elements("id", "actions"))
    return browser


def says(browser: Any, part: str, words: str) -> None:
    """By script: an element may be replaced between finding and reading it."""
    read = "return document.getElementById(arguments[0])?.innerText.replaceAll(/\\s+/g, ' ') ?? ''"
    try:
        until(lambda: words in browser.execute_script(read, part))
    except AssertionError:
        raise AssertionError(f"{part} says: {browser.execute_script(read, part)}") from None


def asked(listening: Listening, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", int(listening.url.rpartition(":")[2]), timeout=20)
    connection.request(method, path, urlencode(form) if form is not None else None, headers)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, said


@pytest.mark.parametrize(("theme", "width"), [("light", 1120), ("dark", 390)])
def test_everybody_can_use_it_and_it_asks_nobody_else(
    browser: Any, listening: Listening, theme: str, width: int
) -> None:
    page = sent(listening, "alice")
    listening.desk.arriving["carol"] = 45, 100
    logged_in(browser, listening, theme, width)
    says(browser, "clients", "sending, 45 %")
    for address in ("", page):
        if address:
            opened(browser, address, theme, width)
        says(browser, "news", "in")
        assert violations(browser) == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script("return window.owned") is None
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        asked_for = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        assert asked_for and all(url.startswith((listening.url, "data:")) for url in asked_for)
        assert browser.get_log("browser") == []  # also nothing that the policy had to stop


def test_it_changes_as_clients_come_without_a_reload(browser: Any, listening: Listening) -> None:
    logged_in(browser, listening)
    browser.execute_script("window.same = true")
    says(browser, "news", "The intake is open: 0 of 3 clients are in, waiting for 3 more.")
    says(browser, "refused", EVIL)
    assert browser.find_element("id", "news").get_attribute("role") == "status"
    with pytest.raises(Exception, match="not that of 'bob'"):
        listening.send(listening.out.parent / "files" / "bob.fedol", "bob", token="wrong")
    sent(listening, "alice")
    says(browser, "news", "The intake is open: 1 of 3 clients are in, waiting for 2 more.")
    says(browser, "clients", "alice in")
    says(browser, "refused", "bob from 127.0.0.1 at")
    listening.close("deadline")
    listening.status.stage("server", 8)
    for _ in range(2):
        listening.status.epoch(None)  # type: ignore[arg-type]
    says(browser, "news", "The intake was closed by the deadline: 1 of 3 clients are in, and the server trains.")
    says(browser, "training", "2 of 8, about ")
    says(browser, "clients", "dave missing")
    assert browser.execute_script(
        "const p = document.querySelector('progress'); return [p.value, p.labels[0].innerText.trim()]"
    ) == [2, "Epochs"]
    assert browser.execute_script("return window.same") is True
    listening.pages.over = True
    says(browser, "connection", "The server has ended.")


def test_who_is_not_logged_in_sees_no_names_and_changes_nothing(browser: Any, listening: Listening) -> None:
    sent(listening, "alice")
    opened(browser, f"{listening.url}/")
    says(browser, "figures", "1 of 3")
    source = browser.page_source
    assert not any(name in source for name in (*NAMES, "evil")) and "Close the intake" not in source
    status, headers, _ = asked(listening, "GET", "/")
    policy = headers["content-security-policy"]
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    for path in ("/close", "/logout"):
        assert asked(listening, "POST", path, {"proof": ""})[0] == 403
        assert asked(listening, "POST", path, {"proof": "x" * 64}, Cookie="fedol=x")[0] == 403
    assert asked(listening, "GET", "/report")[0] == 404
    assert asked(listening, "GET", "/close")[0] == 405
    assert not listening.status.close_now.is_set()


def test_the_link_logs_in_once(listening: Listening) -> None:
    code = listening.pages.login.code
    assert asked(listening, "GET", f"/login?code={code}")[0] == 200  # to look at a link does not use it
    assert asked(listening, "POST", "/login", {"code": "wrong"})[0] == 403
    status, headers, _ = asked(listening, "POST", "/login", {"code": code})
    cookie = headers["set-cookie"]
    assert status == 303 and {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert asked(listening, "POST", "/login", {"code": code})[0] == 403
    assert "This link was used" in asked(listening, "GET", f"/login?code={code}")[2]
    session = cookie.split(";")[0]
    proof = listening.pages.login.proof(session.partition("=")[2])
    assert proof in asked(listening, "GET", "/", Cookie=session)[2]
    assert asked(listening, "POST", "/close", {"proof": "0" * 64}, Cookie=session)[0] == 403  # another site's form
    assert asked(listening, "POST", "/close", {"proof": "x" * 5000}, Cookie=session)[0] == 403
    assert asked(listening, "POST", "/close", {"proof": proof}, Cookie=session)[0] == 303
    assert not listening.status.close_now.is_set()  # nobody is in
    assert asked(listening, "POST", "/logout", {"proof": proof}, Cookie=session)[0] == 303
    assert proof not in asked(listening, "GET", "/", Cookie=session)[2]


def test_over_tls_the_session_never_leaves_it() -> None:
    login = Login(secure=True)
    answer = login.begin(login.code)
    assert answer is not None
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-fedol=") and "Secure" in cookie.split("; ")


def test_the_coordinator_closes_the_intake_by_keyboard(browser: Any, listening: Listening) -> None:
    from selenium.webdriver import ActionChains, Keys

    logged_in(browser, listening)
    says(browser, "actions", "as soon as one client is in")
    sent(listening, "alice")
    says(browser, "actions", "Close the intake now")
    assert listening.https.ended == ""
    reached = []
    for _ in range(20):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        focus = browser.switch_to.active_element
        reached.append(focus.tag_name)
        if focus.tag_name == "summary":
            ActionChains(browser).send_keys(Keys.ENTER, Keys.TAB).perform()
            assert browser.switch_to.active_element.accessible_name == "Close the intake and train"
            ActionChains(browser).send_keys(Keys.ENTER).perform()
            break
    assert reached[0] == "a" and reached[-1] == "summary"  # the first leads past the heading
    until(listening.status.close_now.is_set)
    assert listening.https.ended == "coordinator"


def test_a_client_sees_its_own_state_alone(browser: Any, listening: Listening) -> None:
    sent(listening, "alice")
    opened(browser, sent(listening, "bob"))
    says(browser, "news", "Your file is in.")
    receipt = listening.desk.receipt("bob")
    assert receipt is not None and receipt.sha256 in browser.find_element("id", "receipt").text
    assert not any(name in browser.page_source for name in ("alice", "carol", "dave", "evil"))
    listening.close("coordinator")
    says(browser, "receipt", "The intake is closed.")
    for wrong in ("x", "%ff", "alice", ""):
        assert asked(listening, "GET", f"/client/{wrong}")[0] == 404
    assert asked(listening, "GET", "/client/x/events")[0] == 404


def test_the_report_is_the_coordinators_and_cannot_act_for_him(
    browser: Any, listening: Listening, served: Path
) -> None:
    sent(listening, "alice")
    listening.close()
    logged_in(browser, listening)
    listening.status.finished(served)
    says(browser, "news", "Finished: 1 of 3 clients are in, and the model is trained.")
    says(browser, "training", "Open the report")
    browser.execute_script("document.querySelector('#training a').click()")
    until(lambda: browser.find_elements("id", "why"))
    assert browser.execute_script("return window.origin") == "null"  # of no origin: our cookies and forms are not its
    assert len(browser.find_elements("css selector", ".tile")) > 5  # its own script runs
    assert asked(listening, "GET", "/report")[0] == 404
