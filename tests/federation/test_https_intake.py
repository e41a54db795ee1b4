"""Uploads over HTTPS: what is taken, gone on with, refused and signed; a real server, in this process."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("starlette", reason="listening needs the extra https: pip install 'fedol[https]'")
pytest.importorskip("cryptography", reason="receipts are signed, which needs the package cryptography")

from certificates import issue
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from small_federation import Federation
from small_intake import Listening, until

from fedol import Knowledge
from fedol.errors import FedolError, InputError
from fedol.federation.deploy import Authority, write_certificate
from fedol.federation.events import MOST_TURNED_AWAY, Door
from fedol.federation.receipts import DIGEST, Receipt
from fedol.federation.sending import look
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.tokens import Tokens, new_token
from fedol.federation.transports import https_client
from fedol.federation.transports.https_client import Sender
from fedol.federation.transports.https_server import Limits
from fedol.runs.eventlog import EventLog, read, verify


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody waits for a client that waits."""
    monkeypatch.setattr(https_client, "FIRST_WAIT", 0.05)


@pytest.fixture
def folder(federation: Federation, tmp_path: Path) -> TaskFolder:
    """The task, in a folder that has tokens of its own."""
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.json").write_bytes((federation.task_dir / "task.json").read_bytes())
    return TaskFolder.open(tmp_path / "task")


@pytest.fixture
def open_(folder: TaskFolder, tmp_path: Path) -> Iterator[Listening]:
    """Without TLS."""
    with Listening(folder, tmp_path / "run") as listening:
        yield listening


def asked(
    listening: Listening, method: str, name: str, token: str = "", body: bytes = b"", **headers: str
) -> tuple[int, Any]:
    """One request as no client of ours would make it."""
    connection = http.client.HTTPConnection("127.0.0.1", int(listening.url.rpartition(":")[2]), timeout=20)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        given["Authorization"] = f"Bearer {token}"
    connection.request(method, f"/inbox/{name}", body or None, given)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, json.loads(said)


def test_a_file_comes_whole_is_looked_at_and_signed_for(open_: Listening, federation: Federation) -> None:
    receipt, page = open_.send(federation.file("alice"), "alice")
    data = federation.file("alice").read_bytes()
    assert (receipt.state, receipt.client, receipt.size) == ("accepted", "alice", len(data))
    receipt.check(federation.task.id, "alice", hashlib.sha256(data).hexdigest(), open_.desk.public_key)
    assert (open_.out / "clients" / "alice.fedol").read_bytes() == data
    assert open_.roster.clients["alice"].file == "alice.https.fedol"
    assert page.startswith(f"{open_.url}/client/") and not list((open_.out / "intake").glob("*.part"))


def test_the_log_has_who_sent_what_by_which_token_and_who_was_turned_away(
    open_: Listening, federation: Federation
) -> None:
    receipt, _ = open_.send(federation.file("alice"), "alice")
    wrong = [asked(open_, "PUT", name, open_.token("alice"), b"x")[1]["error"] for name in ("bob", "bob")]
    assert verify(open_.out, receipt.event).events == 3  # the receipt holds the log to what it said
    listening, received, turned = read(open_.out)
    assert listening["facts"] == {"url": open_.url, "server": open_.desk.public_key}
    token = Tokens(open_.folder.path).hashes()["alice"]
    about = {"client": "alice", "address": "127.0.0.1", "known_by": f"token {token[:16]}"}
    assert received["facts"] == {**about, "sha256": receipt.sha256, "bytes": receipt.size}
    assert turned["facts"] == {"address": "127.0.0.1", "client": "bob", "why": wrong[0]}  # the same again is no news
    altered = replace(receipt, event="0" * 64)
    with pytest.raises(InputError, match="its signature is not the server's"):
        altered.check(federation.task.id, "alice", receipt.sha256)


def test_a_flood_of_strangers_does_not_fill_the_log(tmp_path: Path) -> None:
    told: list[bool] = []
    door = Door(EventLog(tmp_path), lambda address, client, why, news: told.append(news))
    for number in range(MOST_TURNED_AWAY + 20):
        door.turned_away("127.0.0.1", f"client{number}", "The token is wrong.")
    door.shut()
    assert told == [True] * MOST_TURNED_AWAY + [False] * 20
    lines = read(tmp_path)
    assert len(lines) == MOST_TURNED_AWAY + 1 and lines[-1]["facts"] == {"turned_away": MOST_TURNED_AWAY + 20}


@pytest.mark.parametrize("change", [{"state": "refused"}, {"size": 1}, {"client": "bob"}, {"server": "00" * 32}])
def test_a_receipt_that_was_changed_is_none(open_: Listening, federation: Federation, change: dict[str, Any]) -> None:
    receipt, _ = open_.send(federation.file("alice"), "alice")
    with pytest.raises(InputError):
        replace(receipt, **change).check(federation.task.id, "alice", receipt.sha256)
    with pytest.raises(InputError, match="not by 1111111111111111"):
        receipt.check(federation.task.id, "alice", receipt.sha256, "11" * 32)


def test_folder_and_network_mix(open_: Listening, federation: Federation) -> None:
    federation.inbox(open_.out / "inbox", "bob", "carol")
    assert open_.send(federation.file("alice"), "alice")[0].state == "accepted"
    until(lambda: sorted(open_.roster.clients) == ["alice", "bob", "carol"])
    assert open_.desk.state("bob")[0] == "elsewhere"
    with pytest.raises(FedolError, match=r"Another file counts for 'bob': the file bob\.fedol of this client is in"):
        open_.send(federation.file("bob"), "bob")


def test_one_upload_a_token(open_: Listening, federation: Federation) -> None:
    first, _ = open_.send(federation.file("alice"), "alice")
    again, _ = open_.send(federation.file("alice"), "alice")  # a client that has lost its receipt
    assert again == first
    other = open_.out / "other.fedol"
    Knowledge.from_probabilities([[0.1] * 10] * 80, federation.task, "alice").save(other)
    with pytest.raises(FedolError, match=r"The file of 'alice' is in, so its one upload is spent\."):
        open_.send(other, "alice")
    assert (open_.out / "clients" / "alice.fedol").read_bytes() == federation.file("alice").read_bytes()
    with pytest.raises(FedolError, match="The token is not that of 'bob'"):
        open_.send(federation.file("bob"), "bob", token=open_.token("alice"))


def test_what_is_sent_in_another_name_is_refused(open_: Listening, federation: Federation) -> None:
    data = federation.file("bob").read_bytes()
    status, _ = asked(open_, "PUT", "alice", open_.token("alice"), data)
    assert status == 201
    state, why = until(lambda: open_.desk.state("alice") if open_.desk.state("alice")[0] != "waiting" else None)
    assert state == "refused" and why == "its sender is known as 'alice', but it is in the name of 'bob'"
    assert not open_.roster.clients
    assert open_.send(federation.file("alice"), "alice")[0].state == "accepted"  # a refused file may be mended


def test_files_that_are_none(open_: Listening, federation: Federation) -> None:
    good = federation.file("alice").read_bytes()
    for bad, why in ((good[:-1], "ends after"), (b"\0" * 100, "no JSON"), (good + b"x", "goes on after its end")):
        assert asked(open_, "PUT", "alice", open_.token("alice"), bad)[0] == 201
        state, said = until(lambda: open_.desk.state("alice") if open_.desk.state("alice")[0] != "waiting" else None)
        assert state == "refused" and why in said
    assert open_.desk.receipt("alice").state == "refused"


def test_it_goes_on_where_it_stopped(folder: TaskFolder, federation: Federation, tmp_path: Path) -> None:
    data = federation.file("alice").read_bytes()
    digest, half = hashlib.sha256(data).hexdigest(), len(data) // 2
    with Listening(folder, tmp_path / "run") as one:
        token = one.token("alice")
        part = {"Content_Range": f"bytes 0-{half - 1}/{len(data)}", DIGEST: digest}
        assert asked(one, "PUT", "alice", token, data[:half], **part)[0] == 202
        assert one.desk.offset("alice", digest) == half and not list((one.out / "inbox").iterdir())
        gap = {**part, "Content_Range": f"bytes 1-{len(data) - 1}/{len(data)}"}
        status, told = asked(one, "PUT", "alice", token, data[1:], **gap)
        assert (status, told["error"]) == (
            409,
            f"{half:,} bytes of this file are here, so go on from there, not from 1.",
        )
    with Listening(folder, tmp_path / "run") as two:
        assert two.desk.offset("alice", digest) == half and two.desk.public_key == one.desk.public_key
        written = []
        receiving = two.desk.receiving
        two.desk.receiving = lambda *given: written.append(given) or receiving(*given)  # type: ignore[method-assign]
        receipt, _ = two.send(federation.file("alice"), "alice")
        assert receipt.state == "accepted" and written == [("alice", digest, half, len(data))]
    with Listening(folder, tmp_path / "run") as three:  # and the receipt is still known
        three.roster = two.roster
        assert until(lambda: three.desk.receipt("alice").state == "accepted")


def test_a_part_of_another_file_is_not_gone_on_with(open_: Listening, federation: Federation) -> None:
    token, data = open_.token("alice"), federation.file("alice").read_bytes()
    asked(open_, "PUT", "alice", token, b"x" * 10, Content_Range=f"bytes 0-9/{len(data)}", **{DIGEST: "ab" * 32})
    assert open_.desk.offset("alice", "ab" * 32) == 10
    assert open_.send(federation.file("alice"), "alice")[0].state == "accepted"
    assert open_.desk.offset("alice", "ab" * 32) == 0


def test_what_was_announced_must_come(open_: Listening, federation: Federation) -> None:
    data = federation.file("alice").read_bytes()
    status, told = asked(open_, "PUT", "alice", open_.token("alice"), data, **{DIGEST: "ab" * 32})
    assert status == 422 and "its SHA-256 is another" in told["error"]
    assert not list((open_.out / "inbox").iterdir()) and not list((open_.out / "intake").glob("*.part"))


def test_refused_before_a_byte_of_the_body(open_: Listening, federation: Federation) -> None:
    """The answer comes although the body never does."""
    token, limit = open_.token("alice"), federation.task.limit
    much = {"Content-Length": "10", "Content-Range": "bytes 0-9/99999999999", DIGEST: "ab" * 32}
    for name, header, status, said in (
        ("alice", {"Content-Length": str(limit + 1)}, 413, f"at most {limit:,} are allowed"),
        ("alice", {"Content-Length": "9" * 15}, 413, "are allowed by the task"),
        ("alice", much, 413, "are allowed"),
        ("alice", {"Content-Length": "10", "Content-Range": "bytes 5-14/15"}, 400, "needs the header"),
        ("alice", {"Content-Length": "10", "Content-Range": "bytes 0-5/15"}, 400, "does not fit"),
        ("alice", {"Content-Length": "10", "Content-Range": "bytes 0-9/9"}, 400, "does not fit"),
        ("alice", {"Content-Length": "10", "Content-Range": "lines 0-9/10"}, 400, "does not fit"),
        ("alice", {"Content-Length": "10", DIGEST: "short"}, 400, "64 hexadecimal"),
        ("alice", {"Transfer-Encoding": "chunked"}, 411, "Content-Length"),
        ("alice", {"Content-Length": "0"}, 400, "empty"),
        ("bob", {"Content-Length": "100"}, 401, "not that of 'bob'"),
        ("x" * 80, {"Content-Length": "100"}, 404, "cannot be named"),
        ("%2e%2e", {"Content-Length": "100"}, 404, "cannot be named"),
    ):
        with socket.create_connection(("127.0.0.1", int(open_.url.rpartition(":")[2])), 10) as connection:
            lines = [f"PUT /inbox/{name} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
            lines += [f"{key}: {value}" for key, value in header.items()]
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            told = json.loads(answer.read())
        assert (answer.status, said in told["error"]) == (status, True), (header, told)
        assert told["error"].endswith(".") and open_.said[-1][2] == told["error"]
    assert not list((open_.out / "intake").glob("*.part"))


def test_nobody_without_a_token(open_: Listening, federation: Federation) -> None:
    status, told = asked(open_, "GET", "alice")
    assert status == 401 and told["error"] == "Nobody is known without a token or a client's certificate; give yours."
    statuses = [asked(open_, "GET", "alice", "wrong")[0] for _ in range(25)]
    assert set(statuses) == {401, 429} and statuses[0] == 401 and statuses[-1] == 429
    assert open_.send(federation.file("alice"), "alice")[0].state == "accepted"  # who has one is not kept out by that


def test_a_new_token_replaces_the_old(open_: Listening, folder: TaskFolder, tmp_path: Path) -> None:
    before = open_.token("alice")
    assert asked(open_, "GET", "alice", before)[0] == 200
    new_token(folder, "alice", tmp_path / "again.token")
    assert asked(open_, "GET", "alice", before)[0] == 401
    kept = (folder.path / "tokens.json").read_text()
    assert before not in kept and (tmp_path / "again.token").read_text().strip() not in kept
    assert not Tokens(folder.path).fits("nobody", "") and not Tokens(tmp_path).fits("alice", before)


def test_too_often_is_told_when_to_come_back(folder: TaskFolder, tmp_path: Path, federation: Federation) -> None:
    limits = Limits(own_requests=(20.0, 3.0))
    with Listening(folder, tmp_path / "run", limits) as listening:
        token = listening.token("alice")
        statuses = [asked(listening, "GET", "alice", token)[0] for _ in range(6)]
        assert statuses[:3] == [200, 200, 200] and 429 in statuses
        assert asked(listening, "GET", "bob", listening.token("bob"))[0] == 200  # the others do not feel it
        assert listening.send(federation.file("alice"), "alice")[0].state == "accepted"  # ours waits, and tries again
        assert any("Too many requests come from 'alice'" in line for line in listening.heard)


def test_slow_ones_are_cut_off_and_cost_nobody_else(folder: TaskFolder, tmp_path: Path, federation: Federation) -> None:
    data = federation.file("alice").read_bytes()
    limits = Limits(head=0.3, stall=0.3, per_address=8)
    with Listening(folder, tmp_path / "run", limits) as listening:
        where = ("127.0.0.1", int(listening.url.rpartition(":")[2]))
        head = f"PUT /inbox/alice HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {listening.token('alice')}\r\n"
        silent, half, stalled = (socket.create_connection(where, 20) for _ in range(3))
        half.sendall(head.encode())
        length = f"Content-Length: {len(data)}\r\n{DIGEST}: {hashlib.sha256(data).hexdigest()}\r\n\r\n"
        stalled.sendall(head.encode() + length.encode() + data[:100])
        assert listening.send(federation.file("bob"), "bob")[0].state == "accepted"
        assert silent.recv(10) == b"" and half.recv(10) == b""  # hung up
        assert stalled.recv(12).endswith(b"408")
        assert listening.desk.offset("alice", hashlib.sha256(data).hexdigest()) == 100
        crowd = [socket.create_connection(where, 20) for _ in range(20)]
        assert sum(connection.recv(1) == b"" for connection in crowd) == 20  # at once, or when their time is over
        assert listening.send(federation.file("alice"), "alice")[0].state == "accepted"
        for connection in (silent, half, stalled, *crowd):
            connection.close()


def test_two_uploads_of_one_client(open_: Listening, federation: Federation) -> None:
    data = federation.file("alice").read_bytes()
    head = f"PUT /inbox/alice HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {open_.token('alice')}\r\n"
    first = socket.create_connection(("127.0.0.1", int(open_.url.rpartition(":")[2])), 10)
    first.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:50])
    until(lambda: open_.desk.arriving)
    status, told = asked(open_, "PUT", "alice", open_.token("alice"), data)
    assert status == 423 and told["error"] == "Another upload of 'alice' is under way; try again when it has ended."
    first.close()
    until(lambda: not open_.desk.arriving)
    assert open_.send(federation.file("alice"), "alice")[0].state == "accepted"


def test_after_the_end(open_: Listening, federation: Federation) -> None:
    open_.send(federation.file("alice"), "alice")
    open_.looking.clear()
    time.sleep(0.05)
    assert asked(open_, "PUT", "carol", open_.token("carol"), federation.file("carol").read_bytes())[0] == 201
    assert asked(open_, "PUT", "carol", open_.token("carol"), b"another")[0] == 423
    open_.close()
    with pytest.raises(FedolError, match="takes no more files; its training has begun"):
        open_.send(federation.file("bob"), "bob")
    assert asked(open_, "PUT", "bob", open_.token("bob"), b"x")[0] == 410
    assert open_.send(federation.file("alice"), "alice")[0].state == "accepted"  # who is in still gets a receipt
    assert open_.send(federation.file("carol"), "carol")[0].state == "late"


def test_a_file_for_another_task_does_not_leave(open_: Listening, federation: Federation, tmp_path: Path) -> None:
    other = replace(federation.task, name="other")
    file = tmp_path / "other.fedol"
    Knowledge.from_probabilities([[0.1] * 10] * 80, other, "alice").save(file)
    with pytest.raises(InputError, match="answers another task"):
        open_.send(file, "alice")
    assert open_.desk.offset("alice", "") == 0 and open_.desk.state("alice") == (None, "")
    asked(open_, "PUT", "alice", open_.token("alice"), file.read_bytes())  # by another program
    assert "answers another task" in until(lambda: open_.desk.state("alice")[1])


def test_whom_the_task_does_not_list(federation: Federation, tmp_path: Path) -> None:
    folder = TaskFolder.create(tmp_path / "task", replace(federation.task, clients={"alice": None}), None)
    with pytest.raises(InputError, match="does not list the client 'bob'"):
        new_token(folder, "bob", tmp_path / "bob.token")
    with Listening(folder, tmp_path / "run") as listening:
        token = listening.token("alice")
        values = json.loads((folder.path / "tokens.json").read_text())
        values["sha256"]["bob"] = values["sha256"]["alice"]
        (folder.path / "tokens.json").write_text(json.dumps(values))
        assert asked(listening, "GET", "bob", token)[0] == 403


def test_a_kill_between_file_and_record(open_: Listening, federation: Federation, tmp_path: Path) -> None:
    """The file had its name, nothing else was written: it is taken, and its client gets a receipt all the same."""
    with Listening(open_.folder, tmp_path / "other") as other:
        token = other.token("alice")
        (other.out / "inbox" / "alice.https.fedol").write_bytes(federation.file("alice").read_bytes())
        until(lambda: other.desk.receipt("alice"))
        status, told = asked(other, "GET", "alice", token)
        receipt = Receipt.from_json(told["receipt"])
        assert status == 200 and receipt.state == "accepted"
        receipt.check(federation.task.id, "alice", hashlib.sha256(federation.file("alice").read_bytes()).hexdigest())


def test_sealed_files_go_the_same_way(tmp_path: Path) -> None:
    """The server cannot read them; both helpers sum what it has put into its inbox."""
    pytest.importorskip("cryptography.hazmat.primitives.hpke", reason="files are sealed, which needs cryptography 47")
    from small_sum import Secret

    (tmp_path / "secret").mkdir()
    secret = Secret(tmp_path / "secret", ("alice", "bob", "carol"))
    secret.send("alice", "bob", "carol")
    with Listening(TaskFolder.create(tmp_path / "task", secret.task, None), tmp_path / "run") as listening:
        for name in secret.names:
            assert listening.send(secret.inbox / f"{name}.fedol", name)[0].state == "accepted"
        with pytest.raises(FedolError, match="The token is not that of 'bob'"):
            listening.send(secret.inbox / "bob.fedol", "bob", token=listening.token("alice"))
    parts = [secret.sum(helper, *secret.names, inbox=tmp_path / "run" / "inbox") for helper in "AB"]
    assert [client.name for client in secret.open(*parts).clients] == list(secret.names)


class Secured:
    """Certificates of all kinds."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.other = Authority.new("ours"), Authority.new("others")
        write_certificate(folder / "ca.crt", self.authority.certificate)
        write_certificate(folder / "other.crt", self.other.certificate)
        self.ca, self.stranger = folder / "ca.crt", folder / "other.crt"
        self.cert, self.key = issue(folder, "server", self.authority, "127.0.0.1", "localhost")
        self.alice = issue(folder, "alice", self.authority)
        self.mallory = issue(folder, "mallory", self.other)
        self.expired = issue(folder, "expired", self.authority, "127.0.0.1", days=-1)
        self.elsewhere = issue(folder, "elsewhere", self.authority, "example.org")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("certificates"))


def test_over_tls(folder: TaskFolder, federation: Federation, tmp_path: Path, secured: Secured) -> None:
    tls = {"cert": secured.cert, "key": secured.key, "client_ca": secured.ca, "ca": secured.ca}
    with Listening(folder, tmp_path / "run", **tls) as listening:
        assert listening.send(federation.file("bob"), "bob")[0].state == "accepted"  # by a token
        cert, key = secured.alice
        assert listening.send(federation.file("alice"), None, cert=cert, key=key)[0].state == "accepted"
        with pytest.raises(FedolError, match="The certificate is that of 'alice', not of 'carol'"):
            listening.send(federation.file("carol"), None, cert=cert, key=key)
        with pytest.raises(FedolError, match="hangs up at once; it may not accept your certificate"):
            listening.send(federation.file("carol"), None, cert=secured.mallory[0], key=secured.mallory[1])
        with pytest.raises(FedolError, match=r"is not trusted .*; give its authority with --ca"):
            listening.send(federation.file("carol"), "carol", ca=secured.stranger)
        with pytest.raises(InputError, match="cannot be used: they do not belong together"):
            listening.send(federation.file("carol"), "carol", cert=cert, key=secured.mallory[1])
        with pytest.raises(InputError, match="shows token and file to everybody"):
            sender(listening, federation, url=listening.url.replace("https", "http"))
        with pytest.raises(FedolError, match="hangs up at once; it may want https://"):
            sender(listening, federation, url=listening.url.replace("https", "http"), insecure=True).send("")
        assert "carol" not in listening.roster.clients
    shown = hashlib.sha256(x509.load_pem_x509_certificate(cert.read_bytes()).public_bytes(Encoding.DER)).hexdigest()
    known_by = [line["facts"]["known_by"] for line in read(tmp_path / "run") if line["kind"] == "received"]
    assert known_by[0].startswith("token ") and known_by[1] == f"certificate {shown[:16]}"


def sender(listening: Listening, federation: Federation, **given: Any) -> Sender:
    outgoing = look(federation.file("carol"))
    server = replace(listening.server("carol"), **given)
    return Sender(server, outgoing.data, "carol", listening.heard.append, 2.0)


@pytest.mark.parametrize("name", ["expired", "elsewhere"])
def test_a_server_that_cannot_be_trusted(
    name: str, folder: TaskFolder, federation: Federation, tmp_path: Path, secured: Secured
) -> None:
    cert, key = getattr(secured, name)
    with Listening(folder, tmp_path / "run", cert=secured.cert, key=secured.key, ca=secured.ca) as listening:
        context = listening.https.server.context
        assert context is not None
        context.load_cert_chain(cert, key)  # as if it had expired while the server ran
        with pytest.raises(FedolError, match=r"is not trusted .*(expired|not valid for)"):
            listening.send(federation.file("carol"), "carol")


def test_a_server_without_tls(open_: Listening, federation: Federation) -> None:
    with pytest.raises(FedolError, match="does not speak TLS"):
        sender(open_, federation, url=open_.url.replace("http", "https")).send("")


def test_no_server_or_none_of_ours(federation: Federation, open_: Listening) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(FedolError, match=r"No connection to .* \(Connection refused\)\. Given up; the same command"):
        sender(open_, federation, url=f"http://127.0.0.1:{port}").send("")
    assert "Trying again in" in open_.heard[-1]
    for wrong in ("ftp://x", "https://", "https://x:y", "https://u@x", "https://x/path", "http://[::1"):
        with pytest.raises(InputError, match=r"write https://HOST:PORT"):
            sender(open_, federation, url=wrong)


def test_a_connection_that_breaks_is_taken_up(folder: TaskFolder, federation: Federation, tmp_path: Path) -> None:
    """A relay between client and server that cuts the first connections after some bytes."""
    from relay import Relay

    with Listening(folder, tmp_path / "run") as listening, Relay(listening.url, cuts=[300, 700, 0]) as relay:
        receipt, _ = listening.send(federation.file("alice"), "alice", url=relay.url, patience=20.0)
        assert receipt.state == "accepted" and relay.cut == 3 and len(listening.heard) >= 3


def test_a_server_that_is_begun_again_at_its_port(folder: TaskFolder, federation: Federation, tmp_path: Path) -> None:
    with Listening(folder, tmp_path / "run") as listening:
        url, token = listening.url, listening.token("alice")
    listening.address = replace(listening.address, port=int(url.rpartition(":")[2]))
    with listening:
        assert listening.url == url and asked(listening, "GET", "alice", token)[0] == 200
        with pytest.raises(InputError, match=r"Nothing can listen at 127\.0\.0\.1:.* choose another --listen"):
            listening.address.bind()
