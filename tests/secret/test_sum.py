"""The sum that two helpers open is the plain sum, bit for bit; and one share alone says nothing."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import ENV, ROOT
from scipy import stats
from small_sum import CLASSES, NAMES, SAMPLES, Secret, share

from fedol.core.union import Union
from fedol.knowledge.container import Container
from fedol.methods.union import summed
from fedol.secret.encoding import Encoding, Part
from fedol.secret.sealed import Sealed


def rng(name: str) -> np.random.Generator:
    """What a client's file was rounded with."""
    return np.random.default_rng(100 + NAMES.index(name))


def test_the_opened_sum_is_the_plain_sum_bit_for_bit(secret: Secret) -> None:
    names, encoding = ("alice", "carol", "dave", "grace"), Encoding.of(secret.task)
    found = secret.open(secret.sum("A", *names), secret.sum("B", *reversed(names)))
    parts = [encoding.encode(secret.knowledge(name), rng(name)) for name in names]
    whole = sum(part.values.astype(np.int64) for part in parts) / encoding.scale
    assert found.sums.ratios.numpy().tobytes() == whole[: SAMPLES * CLASSES].tobytes()
    mixture = whole[SAMPLES * CLASSES :] / encoding.terms.cap
    assert found.sums.mixture.numpy().tobytes() == mixture.tobytes()
    assert found.sums.share == (10 + 12 + 13 + 16) / SAMPLES
    assert [client.name for client in found.clients] == sorted(names)
    assert {client.bytes for client in found.clients} == {(secret.inbox / "alice.fedol").stat().st_size}


def test_the_sum_is_that_of_the_ratios(secret: Secret) -> None:
    """Up to a rounding for each client, and to the cap."""
    found, encoding = secret.open(secret.sum("A", *NAMES), secret.sum("B", *NAMES)).sums, Encoding.of(secret.task)
    total, mixture = torch.zeros(SAMPLES, CLASSES).double(), torch.zeros(SAMPLES, CLASSES).double()
    for name in NAMES:
        knowledge = secret.knowledge(name)
        probs = knowledge.log_probs.double().softmax(1)
        total += probs * knowledge.log_mass.double().exp().clamp_max(64)[:, None]
        nats = -(probs * probs.clamp_min(1e-300).log()).sum(1, keepdim=True)
        mixture += torch.exp(-nats) * probs
    assert (found.ratios - total).abs().max() <= len(NAMES) / encoding.scale
    assert (found.mixture - mixture).abs().max() <= len(NAMES) / encoding.scale / 64
    plain = Union()
    plain.add(total.log())
    taught = summed(found).targets(1, None)
    assert (taught.soft.argmax(1) == plain.posterior().argmax(1))[1:].all()
    torch.testing.assert_close(taught.soft[0], torch.full((CLASSES,), 1 / CLASSES))


def slowly(secret: Secret, names: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """The same by another library and by Python's own whole numbers, from the files' bytes alone."""
    hpke = pytest.importorskip("Crypto.Protocol.HPKE", reason="needs pycryptodome, which Flower brings")
    from Crypto.Cipher import AES
    from Crypto.Protocol.DH import import_x25519_private_key

    terms = json.loads(json.dumps(secret.task.secret.as_json()))  # type: ignore[union-attr]
    keys = {helper: (secret.folder / f"{helper}.key").read_text().split()[1] for helper in "AB"}
    count = (SAMPLES + SAMPLES) * CLASSES
    counts, values = [0, 0], [0] * count
    for name in names:
        data = (secret.inbox / f"{name}.fedol").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        head = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["fedol"])
        body, cut = data[8 + length :], 16 + 3 * count + 48
        opened = []
        for helper, envelope in (("A", body[:cut]), ("B", body[cut:])):
            bound = [secret.task.digest, name, head["nonce"], terms["helpers"], helper]
            cipher = hpke.new(
                receiver_key=import_x25519_private_key(bytes.fromhex(keys[helper])),
                aead_id=hpke.AEAD.AES256_GCM,
                enc=envelope[:32],
                info=b"fedol share\n" + json.dumps(bound).encode(),
            )
            opened.append(cipher.unseal(envelope[32:]))
        stream = AES.new(opened[1], AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(16 + 4 * count))
        for place in range(2):
            numbers = [int.from_bytes(each[8 * place : 8 * place + 8], "little") for each in (opened[0], stream)]
            counts[place] = (counts[place] + sum(numbers)) % 2**64
        for place in range(count):
            mine = int.from_bytes(opened[0][16 + 3 * place : 19 + 3 * place], "little")
            other = int.from_bytes(stream[16 + 4 * place : 20 + 4 * place], "little")
            values[place] = (values[place] + mine + other) % 2**24
    return counts, values


def test_an_independent_slow_version_opens_the_same(secret: Secret) -> None:
    counts, values = slowly(secret, NAMES)
    found, encoding = secret.open(secret.sum("A", *NAMES), secret.sum("B", *NAMES)).sums, Encoding.of(secret.task)
    assert counts == [len(NAMES), sum(range(10, 17))] and max(values) < 2**23
    both = torch.cat([found.ratios, found.mixture * 64]).flatten() * encoding.scale
    torch.testing.assert_close(both, torch.tensor(values).double(), rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize("helper", ["A", "B"])
def test_one_share_alone_is_uniform(secret: Secret, helper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one and the same part, by fixed seeds: each byte of the values, and their top bits pair by pair."""
    seeds, encoding = np.random.default_rng(7), Encoding.of(secret.task)
    monkeypatch.setattr("fedol.secret.sealed.secrets.token_bytes", lambda size: seeds.bytes(size))
    shares = []
    for _ in range(200):
        opened = share(Sealed.decode(secret.sealed("alice"), secret.task), secret.task, secret.key(helper))
        shares.append(opened.values & np.uint32(0xFFFFFF))
    drawn = np.stack(shares)
    assert drawn.shape == (200, encoding.size)
    for shift in (0, 8, 16):
        counts = np.bincount(((drawn >> np.uint32(shift)) & np.uint32(255)).ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-3
    top = (drawn >> np.uint32(23)).astype(int)
    pairs = np.bincount((2 * top[:, 1:] + top[:, :-1]).ravel(), minlength=4)
    assert stats.chisquare(pairs).pvalue > 1e-3
    truth = encoding.encode(secret.knowledge("alice"), rng("alice")).values
    correlation = np.corrcoef(np.concatenate([drawn.ravel(), np.tile(truth, 200)]).reshape(2, -1))[0, 1]
    assert abs(correlation) < 4 / np.sqrt(drawn.size)


def test_both_shares_of_a_file_are_its_part(secret: Secret) -> None:
    encoding, sealed = Encoding.of(secret.task), Sealed.decode(secret.sealed("bob"), secret.task)
    total = share(sealed, secret.task, secret.key("A"))
    sealed.open(secret.task, secret.key("B"), total)
    expected = encoding.encode(secret.knowledge("bob"), rng("bob"))
    assert total.counts.tolist() == [1, 11]
    np.testing.assert_array_equal(total.values & np.uint32(0xFFFFFF), expected.values)


def test_each_file_has_seeds_of_its_own(secret: Secret) -> None:
    first, second = (Sealed.decode(secret.sealed("bob"), secret.task) for _ in range(2))
    assert first.head.nonce != second.head.nonce and first.head.digest != second.head.digest
    one, other = (share(sealed, secret.task, secret.key("B")) for sealed in (first, second))
    assert (one.values != other.values).any()


KILLED = """
import os, signal, sys
import fedol.secret.helper as helper
moment, sys.argv = sys.argv[1], ["fedol", *sys.argv[2:]]
write, ledger, done = helper.write_atomically, helper.Ledger.write, helper.Ledger.write
def killed(*_): os.kill(os.getpid(), signal.SIGKILL)
def then_killed(self, path):
    ledger(self, path)
    killed()
if moment == "before": helper.Ledger.write = killed
if moment == "between": helper.Ledger.write = then_killed
from fedol.cli import main
main()
"""


def test_killed_anywhere_it_ends_in_the_same_bytes(secret: Secret) -> None:
    """Before the ledger is written, between ledger and sum, and not at all."""
    from fedol.federation.taskfolder import TaskFolder

    TaskFolder.create(secret.folder / "task", secret.task, secret.public)
    out = secret.folder / "A.part"
    words = ["helper", "sum", "task", "--key", "A.key", "--inbox", "inbox", "--clients", "alice,bob,carol", "--out"]
    for moment, ledger in (("before", False), ("between", True)):
        command = [sys.executable, "-c", KILLED, moment, *words, str(out)]
        done = subprocess.run(command, cwd=secret.folder, env={**ENV, "PYTHONPATH": str(ROOT)}, capture_output=True)
        assert done.returncode == -signal.SIGKILL and not out.exists(), done.stderr
        assert (secret.folder / "A.key.ledger").exists() == ledger
    for _ in range(2):
        command = [sys.executable, "-m", "fedol", *words, str(out)]
        done = subprocess.run(command, cwd=secret.folder, env=ENV, capture_output=True)
        assert done.returncode == 0, done.stderr
        whole = out.read_bytes()
    assert whole == secret.sum("A", "alice", "bob", "carol", out="once").read_bytes()
    assert oct(os.stat(secret.folder / "A.key.ledger").st_mode)[-3:] == "600"


def test_a_sum_over_many_clients_cannot_leave_the_ring(tmp_path: Path) -> None:
    """All at the cap, always rounded up: the lower half holds them, for as many clients as a task may list."""
    for clients in (3, 10, 10_000):
        for bits, cap in ((24, 64.0), (32, 1e4)):
            encoding = plain(clients, bits, cap)
            assert clients * (cap * encoding.scale + 1) <= (1 << bits - 1) - 1


def plain(clients: int, bits: int = 24, cap: float = 64.0, samples: int = 4, classes: int = 2) -> Encoding:
    from fedol.knowledge.terms import Terms

    helpers = {"A": "ab" * 64, "B": "ac" * 64}
    return Encoding(Terms(helpers, bits=bits, cap=cap), clients, samples, classes)


def test_sums_of_a_container_are_whole(secret: Secret) -> None:
    """Nothing of a single client is in a helper's file but its name, its hash and its size."""
    container = Container.unpack(secret.sum("B", *NAMES).read_bytes())
    listed: list[Any] = json.loads(container.body[: container.header["listed"]])
    assert [set(map(type, entry)) for entry in listed] == [{str, int}] * len(NAMES)
    assert len(container.body) == container.header["listed"] + Encoding.of(secret.task).packed


def test_parts_wrap_around() -> None:
    encoding, values = plain(3), np.array([0, 1, 2**24 - 1, 2**23] * 4, np.uint32)
    part = Part(np.array([2**64 - 1, 5], np.uint64), values)
    again = encoding.unpack(encoding.pack(part))
    assert again.counts.tolist() == part.counts.tolist() and again.values.tolist() == values.tolist()
    again.add(Part(np.array([1, 0], np.uint64), np.ones(16, np.uint32)))
    assert again.counts.tolist() == [0, 5] and (encoding.unpack(encoding.pack(again)).values[2]) == 0
