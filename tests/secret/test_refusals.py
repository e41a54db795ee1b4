"""What a helper, the opening and a server refuse, and in which words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sum import NAMES, Secret, share

from fedol import Knowledge, Task
from fedol.errors import FedolError, InputError
from fedol.federation.roster import Roster
from fedol.knowledge import signing
from fedol.knowledge.container import Container
from fedol.knowledge.terms import Terms
from fedol.secret.encoding import Encoding, Part
from fedol.secret.helper import Client, Ledger, held, packed, sum_up
from fedol.secret.keys import HelperKey, new_helper_key, read_public
from fedol.secret.sealed import Head, Sealed, seal, sizes_of

FEW = ("alice", "bob", "carol")


def resigned(secret: Secret, name: str, change: Callable[[dict[str, Any], bytes], bytes]) -> bytes:
    """The client's file with another header or body, signed anew by the client."""
    container = Container.unpack(secret.sealed(name))
    header = dict(container.header)
    body = change(header, container.body)
    sizes = sizes_of(secret.task)
    cut = [body[: sizes[0]], body[sizes[0] :]]
    header["envelopes"] = [hashlib.sha256(part).hexdigest() for part in cut]
    head = replace(Head.from_json(header), signature="")
    signature = signing.sign(secret.folder / f"{name}.key", head.message)
    return Container(replace(head, signature=signature).as_json(), body).pack()


def unsigned(secret: Secret) -> bytes:
    container = Container.unpack(secret.sealed("alice"))
    return Container({**container.header, "signature": ""}, container.body).pack()


def as_another(secret: Secret) -> bytes:
    """Bob sends Alice's envelopes as his own."""
    container = Container.unpack(secret.sealed("alice"))
    return resigned(secret, "bob", lambda header, body: container.body)


def swapped(secret: Secret) -> bytes:
    """Alice's envelope to A beside that of another file of hers to B: each signed, but of another nonce."""
    cut = sizes_of(secret.task)[0]
    other = Container.unpack(secret.sealed("alice")).body
    return resigned(secret, "alice", lambda header, body: body[:cut] + other[cut:])


def tampered(secret: Secret) -> bytes:
    data = bytearray(secret.sealed("alice"))
    data[-200] ^= 1
    return bytes(data)


def strange(secret: Secret) -> bytes:
    """By somebody whom the task does not list."""
    signing.new_key(secret.folder / "mallory.key")
    key = signing.public_key(secret.folder / "mallory.key")
    wider = replace(secret.task, clients={**secret.task.clients, "mallory": key})
    knowledge = replace(secret.knowledge("alice"), client="mallory", task=wider.ref)
    head = Container.unpack(seal(knowledge, wider, secret.folder / "mallory.key"))
    return Container(
        {**head.header, "task": Head.from_json(head.header).as_json()["task"] | vars(secret.task.ref)}, head.body
    ).pack()


def replayed(secret: Secret) -> bytes:
    """Made for the same federation a year ago."""
    return secret.sealed("alice", replace(secret.task, nonce="last year"))


def renamed(secret: Secret) -> bytes:
    """The same, with this year's task written over it."""
    container = Container.unpack(replayed(secret))
    return Container({**container.header, "task": vars(secret.task.ref)}, container.body).pack()


FILES: dict[str, tuple[Callable[[Secret], bytes], str]] = {
    "unsigned": (unsigned, "it is not signed, but the task has a key for 'alice'"),
    "of another": (as_another, ""),
    "tampered": (tampered, "its envelopes are not those that were signed"),
    "strange": (strange, "the task does not list the client 'mallory'"),
    "replayed": (replayed, "it answers another task"),
    "replayed and renamed": (renamed, "its signature is not by the key that the task lists for 'alice'"),
    "truncated": (lambda secret: secret.sealed("alice")[:-100], "of its body"),
    "longer": (lambda secret: secret.sealed("alice") + b"1", "it goes on after its end"),
    "a share too short": (
        lambda secret: resigned(secret, "alice", lambda _, body: body[:-10]),
        "its envelopes have 350 bytes instead of 360",
    ),
    "a share too long": (
        lambda secret: resigned(secret, "alice", lambda _, body: body + bytes(10)),
        "its envelopes have 370 bytes instead of 360",
    ),
    "oversized": (lambda secret: secret.sealed("alice") + bytes(40_000), "bytes that are allowed"),
    "no file": (lambda secret: b"junk", "it ends before its header"),
    "a wrong header": (
        lambda secret: Container({"schema": "sealed 1", "client": 3}, b"").pack(),
        "its header lacks an entry or has one of a wrong type",
    ),
    "in the open": (
        lambda secret: secret.knowledge("alice").encode(),
        "it is not sealed, but the task's answers are summed in secret",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused(secret: Secret, name: str) -> None:
    """By a helper before it opens anything, and by a server that only collects."""
    make, words = FILES[name]
    data = make(secret)
    (secret.inbox / "alice.fedol").write_bytes(data)
    if words:
        with pytest.raises(InputError) as error:
            Sealed.decode(data, secret.task)
        assert words in str(error.value) and str(error.value).isprintable()
        assert "alice.fedol" not in {path.name for path in held(secret.task, secret.inbox)[0].values()}
    if words and "ends" not in words and "of its body" not in words:
        roster = Roster(0.0).take(data, "alice.fedol", secret.task, secret.folder / "clients")
        assert not roster.clients and words in roster.refused["alice.fedol"]
    with pytest.raises(InputError, match=r"alice\.fedol is refused: .*Nothing was summed"):
        secret.sum("A", *FEW)
    assert not (secret.folder / "A.part").exists() and not (secret.folder / "A.ledger").exists()


def test_envelopes_open_in_their_own_place_alone(secret: Secret) -> None:
    """Signed by the client itself, so nothing but the binding stops them."""
    words = "its envelope does not open: it was sealed to another key or for another place"
    for data, helper in ((swapped(secret), "B"), (as_another(secret), "A"), (as_another(secret), "B")):
        with pytest.raises(InputError, match=words):
            share(Sealed.decode(data, secret.task), secret.task, secret.key(helper))
    opened = share(Sealed.decode(swapped(secret), secret.task), secret.task, secret.key("A"))
    assert isinstance(opened, Part)  # that one is as it was


def test_a_point_of_small_order_opens_nothing(secret: Secret) -> None:
    """Whoever sends one knows the secret that both would share."""
    for point in (bytes(32), b"\1" + bytes(31)):
        data = resigned(secret, "alice", lambda _, body, point=point: point + body[32:])  # type: ignore[misc]
        with pytest.raises(InputError, match="its envelope does not open"):
            share(Sealed.decode(data, secret.task), secret.task, secret.key("A"))


def test_terms_of_another_task_with_the_same_id(secret: Secret, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator shows clients one task and helpers another, whose ids it has made alike: nothing opens."""
    monkeypatch.setattr("fedol.knowledge.task.SHORT", 2)
    strict = replace(secret.task, secret=replace(secret.task.secret, least=7))  # type: ignore[arg-type]
    alike = (replace(secret.task, nonce=str(number)) for number in range(10_000))
    lax = next(task for task in alike if task.id == strict.id)
    sealed = Sealed.decode(secret.sealed("alice", strict), lax)
    for helper in "AB":
        with pytest.raises(InputError, match="its envelope does not open"):
            share(sealed, lax, secret.key(helper))
        assert share(sealed, strict, secret.key(helper))


def test_a_sum_takes_nobodys_place(secret: Secret) -> None:
    """Least of all that of the key or the ledger."""
    for taken in ("A.key", "A.pub", "inbox/alice.fedol"):
        before = (secret.folder / taken).read_bytes()
        with pytest.raises(InputError, match="is no place for a sum: something else is there, and would be lost"):
            sum_up(secret.task, secret.inbox, FEW, secret.key("A"), secret.folder / "A.ledger", secret.folder / taken)
        assert (secret.folder / taken).read_bytes() == before
    ledger = secret.folder / "A.ledger"
    for _ in range(2):  # before there is one, and after
        with pytest.raises(InputError, match="is no place for a sum"):
            sum_up(secret.task, secret.inbox, FEW, secret.key("A"), ledger, ledger)
        secret.sum("A", *FEW)


def test_a_wrong_key(secret: Secret) -> None:
    with pytest.raises(InputError, match=r"alice.key is no helper's private key"):
        HelperKey.read(secret.folder / "alice.key")
    new_helper_key(secret.folder / "C.key")
    with pytest.raises(InputError, match=r"This key is none of the task's helpers' \(A, B\)"):
        secret.sum("C", *FEW)
    # The right one to sign with, the wrong one to open: as after a mix-up of two key files.
    mixed = replace(secret.key("A"), sealing=secret.key("B").sealing)
    with pytest.raises(InputError, match="does not open: it was sealed to another key"):
        share(Sealed.decode(secret.sealed("alice"), secret.task), secret.task, mixed)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["alice"], "A sum of 1 client would show too much of each; the task asks for at least 3"),
        (["alice", "bob"], "A sum of 2 clients would show too much of each"),
        (["alice", "bob", "alice"], "The list names 'alice' twice"),
        (["alice", "bob", "mallory"], "The list names 'mallory', whom the task does not list"),
    ],
)
def test_a_list_that_makes_no_sense(secret: Secret, names: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        secret.sum("A", *names)


def test_a_client_at_one_helper_only(secret: Secret) -> None:
    (secret.folder / "inbox-b").mkdir()
    secret.send("alice", "bob", "dave", "erin", inbox=secret.folder / "inbox-b")
    with pytest.raises(InputError, match="has no file of 'carol' that can be summed; leave the client out of both"):
        secret.sum("B", *FEW, inbox=secret.folder / "inbox-b")
    mine, other = (
        secret.sum("A", *FEW, "dave"),
        secret.sum("B", "alice", "bob", "dave", inbox=secret.folder / "inbox-b"),
    )
    with pytest.raises(InputError, match="The helper 'B' has not summed 'carol', the other has"):
        secret.open(mine, other)
    with pytest.raises(InputError, match="Both sums are by the helper 'A'"):
        secret.open(mine, mine)


def test_two_files_of_a_client(secret: Secret) -> None:
    """One at each helper; then in one inbox; then in two sums."""
    before = secret.sum("A", *FEW)
    secret.send("alice")
    with pytest.raises(InputError, match="The helpers have summed different files of 'alice'"):
        secret.open(before, secret.sum("B", *FEW))
    with pytest.raises(InputError, match="'alice' was summed before with another file"):
        secret.sum("A", "alice", "dave", "erin", "frank")
    (secret.inbox / "again.fedol").write_bytes(secret.sealed("dave"))
    assert "'dave' has sent another file" in held(secret.task, secret.inbox)[1]["dave.fedol"]


def test_files_need_not_be_named_after_their_clients(secret: Secret) -> None:
    whole = secret.sum("A", *FEW).read_bytes()
    for name in FEW:
        (secret.inbox / f"{name}.fedol").rename(secret.inbox / f"from {name}.fedol")
    assert secret.sum("A", *FEW).read_bytes() == whole
    (secret.inbox / "alice.fedol").write_bytes(secret.sealed("bob"))
    for name in ("bob", "carol"):
        (secret.inbox / f"from {name}.fedol").rename(secret.inbox / f"{name}.fedol")
    with pytest.raises(InputError, match="it is a file of 'bob'; name it so"):
        secret.sum("A", *FEW)


@pytest.mark.parametrize(
    ("lists", "shown"),
    [
        (["abcd", "abc"], "dave"),  # the difference is one client
        (["abc", "abcdefg"], ""),  # of four
        (["abcdef", "abcd"], "erin, frank"),
        (["abcde", "efg"], "erin"),  # overlapping in one: no difference shows fewer, and yet nobody's weight is his own
        (["abc", "def"], ""),
        (["abc", "def", "abcdefg"], "grace"),
        (["abc", "abc"], ""),
    ],
)
def test_lists_that_would_tell_clients_apart(secret: Secret, lists: list[str], shown: str) -> None:
    whole = [[next(name for name in NAMES if name[0] == letter) for letter in letters] for letters in lists]
    for names in whole[:-1]:
        secret.sum("A", *names)
    if not shown:
        secret.sum("A", *whole[-1])
        return
    with pytest.raises(
        InputError, match=f"this one would show {shown} apart from all others: fewer than the 3 clients"
    ):
        secret.sum("A", *whole[-1])


def test_a_damaged_ledger_stops_everything(secret: Secret) -> None:
    secret.sum("A", *FEW)
    for text in ("[]", '{"x": [3]}', "{"):
        (secret.folder / "A.ledger").write_text(text)
        with pytest.raises(FedolError, match="without it nobody knows which sums were given out"):
            secret.sum("A", *FEW)


def claimed(secret: Secret, names: tuple[str, ...]) -> Path:
    """A's sum, of ``FEW``, but with a list of others: signed, as a helper that lies can."""
    listed = [
        Client(name, Sealed.decode((secret.inbox / f"{name}.fedol").read_bytes(), secret.task).head.digest, 1)
        for name in sorted(names)
    ]
    encoding = Encoding.of(secret.task)
    total = encoding.nothing()
    for name in FEW:
        data = (secret.inbox / f"{name}.fedol").read_bytes()
        Sealed.decode(data, secret.task).open(secret.task, secret.key("A"), total)
    (secret.folder / "lie.part").write_bytes(packed(secret.task, secret.key("A"), listed, total))
    return secret.folder / "lie.part"


def test_a_helper_that_lies_about_its_list(secret: Secret) -> None:
    for names in ((*FEW, "dave"), ("alice", "bob", "dave")):
        other = secret.folder / "B.ledger"
        other.unlink(missing_ok=True)
        with pytest.raises(
            InputError, match=r"The two sums do not open: they count .* A helper's list is not what it summed"
        ):
            secret.open(claimed(secret, names), secret.sum("B", *names))
    with pytest.raises(InputError, match="The sums are of 2 different clients, but the task asks for at least 3"):
        few = claimed(secret, ("alice", "bob"))
        listed = [Client(name, secret_digest(secret, name), 1) for name in ("alice", "bob")]
        (secret.folder / "B2.part").write_bytes(
            packed(secret.task, secret.key("B"), listed, Encoding.of(secret.task).nothing())
        )
        secret.open(few, secret.folder / "B2.part")


def secret_digest(secret: Secret, name: str) -> str:
    return Sealed.decode((secret.inbox / f"{name}.fedol").read_bytes(), secret.task).head.digest


def test_a_client_that_keeps_to_no_terms_shows_in_the_sum(secret: Secret, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers, or a negative one: nobody can tell whose they are."""
    rng, encode = np.random.default_rng(1), Encoding.encode

    def mad(self: Encoding, *_: Any) -> Part:
        return Part(np.array([1, 1], np.uint64), rng.integers(0, 2**32, self.size, dtype=np.uint32))

    def below(self: Encoding, *given: Any) -> Part:
        part = encode(self, *given)
        part.values[5:6] -= np.uint32(1 << 20)
        return part

    for wrong, count in ((mad, None), (below, 1)):
        monkeypatch.setattr(Encoding, "encode", wrong)
        secret.send("bob")
        monkeypatch.setattr(Encoding, "encode", encode)
        for helper in "AB":
            (secret.folder / f"{helper}.ledger").unlink(missing_ok=True)
        with pytest.raises(InputError, match="did not keep to the task's terms, and nobody can tell which") as error:
            secret.open(secret.sum("A", *FEW), secret.sum("B", *FEW))
        assert count is None or f"at {count} of 72 values" in str(error.value)


PARTS: dict[str, tuple[Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]], str]] = {
    "of another task": (lambda h, b: ({**h, "task": "x"}, b), "it belongs to another task"),
    "of another helper": (lambda h, b: ({**h, "helper": "C"}, b), "'C' is none of the task's helpers"),
    "in another's name": (
        lambda h, b: ({**h, "helper": "B"}, b),
        "its signature is not by the key that the task lists",
    ),
    "unsigned": (lambda h, b: ({**h, "signature": ""}, b), "its signature is not by the key"),
    "with another sum": (lambda h, b: (h, b[:-1] + b"\0"), "its sum is not the one that was signed"),
    "no sum": (lambda h, b: ({**h, "schema": 2}, b), "it is no helper's sum; make one with: fedol helper sum"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_helpers_sum_is_refused(secret: Secret, name: str) -> None:
    change, words = PARTS[name]
    container = Container.unpack(secret.sum("A", *FEW).read_bytes())
    bad = secret.folder / "bad.part"
    bad.write_bytes(Container(*change(container.header, container.body)).pack())
    with pytest.raises(InputError, match=f"bad.part is refused: .*{words}"):
        secret.open(bad, secret.sum("B", *FEW))


def test_a_signed_sum_of_the_wrong_size(secret: Secret) -> None:
    from fedol.secret.helper import message

    container = Container.unpack(secret.sum("A", *FEW).read_bytes())
    bad = secret.folder / "bad.part"
    for body, listed, words in (
        (container.body[:-3], container.header["listed"], "has not the 232 bytes"),
        (container.body + bytes(3), container.header["listed"], "has not the 232 bytes"),
        (b"?" * len(container.body), container.header["listed"], "its list of clients cannot be read"),
        (container.body, "3", "has not the 232 bytes"),
    ):
        head = {**container.header, "listed": listed, "body": hashlib.sha256(body).hexdigest()}
        head["signature"] = secret.key("A").signing.sign(message(head)).hex()
        bad.write_bytes(Container(head, body).pack())
        with pytest.raises(InputError, match=words):
            secret.open(bad, secret.sum("B", *FEW))


KEY = "ab" * 64


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"helpers": {"A": KEY}}, "needs two helpers, but 1 are given"),
        ({"helpers": {"A": KEY, "B": KEY}}, "Both helpers have the same key"),
        ({"helpers": {"A": KEY, "B": "ab" * 32}}, "is no helper's public key: that is 128 hexadecimal digits"),
        ({"helpers": {"A": KEY, "B": "00" * 64}}, "under which anybody can sign"),
        ({"helpers": {"A": KEY, "B": "ac" * 32 + "00" * 32}}, "to which nothing can be sealed"),
        ({"helpers": {"A": KEY, "B": "ac" * 32 + "01" + "00" * 31}}, "to which nothing can be sealed"),
        ({"bits": 20}, "--bits must be one of 16, 24, 32"),
        ({"cap": 0.0}, "--cap must be a positive number"),
        ({"least": 2}, "--least must be at least 3"),
        ({"epsilon": 1.0}, "noise needs a positive epsilon, delta"),
    ],
)
def test_terms_that_make_no_sense(terms: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Terms(**{"helpers": {"A": KEY, "B": "ac" * 64}, **terms})


def test_a_task_needs_enough_clients_that_sign(secret: Secret) -> None:
    keys = dict(secret.task.clients)
    for clients in ({}, {"alice": keys["alice"], "bob": keys["bob"]}, {**keys, "alice": None}):
        with pytest.raises(InputError, match="must list at least 3 clients, each with its key"):
            replace(secret.task, clients=clients)


def test_a_client_must_sign_and_a_task_must_have_helpers(secret: Secret) -> None:
    with pytest.raises(InputError, match="only of clients that sign; give your --key"):
        seal(secret.knowledge("alice"), secret.task, None)
    plain = replace(secret.task, secret=None)
    with pytest.raises(InputError, match="not summed in secret: it names no helpers"):
        seal(secret.knowledge("alice"), plain, secret.folder / "alice.key")


def test_helpers_terms_are_part_of_the_task(secret: Secret) -> None:
    terms = secret.task.secret
    assert terms is not None
    others = [replace(terms, cap=32.0), replace(terms, least=4), replace(terms, bits=32)]
    others.append(replace(terms, helpers=dict(reversed(terms.helpers.items()))))
    ids = {replace(secret.task, secret=other).id for other in [terms, *others, None]}
    assert len(ids) == 6
    assert Terms.from_json(json.loads(json.dumps(terms.as_json()))) == terms and Terms.from_json(None) is None


def test_a_plain_file_is_no_answer_to_a_secret_task(secret: Secret) -> None:
    with pytest.raises(InputError, match="it is not sealed"):
        Knowledge.decode(secret.knowledge("alice").encode(), secret.task)


def test_keys_are_never_overwritten(secret: Secret) -> None:
    with pytest.raises(InputError, match="is where the public key goes, and a key is never overwritten"):
        new_helper_key(secret.folder / "A.key")
    with pytest.raises(InputError, match=r"cannot be read"):
        read_public(secret.folder / "nothing.pub")
    assert isinstance(secret.task, Task)


def test_a_ledger_of_one_task_says_nothing_about_another(secret: Secret) -> None:
    other = replace(secret.task, nonce="2")
    ledger = Ledger({}).allowing(secret.task, {"alice": "1", "bob": "2", "carol": "3"})
    assert set(ledger.allowing(other, {"alice": "1", "bob": "2", "dave": "3"}).tasks) == {secret.task.id, other.id}
