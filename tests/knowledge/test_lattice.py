"""The default codec: how much is lost, what it falls back to, and what a stranger's bytes cannot do."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
import torch

from fedol import Knowledge
from fedol.core.voting import shannon
from fedol.errors import InputError
from fedol.knowledge import codecs, lattice, transform
from fedol.knowledge.lattice import HEAD, OTHERS, Lattice, described, divergence
from fedol.knowledge.plain import Zstd
from fedol.knowledge.point import GRAIN, Point
from fedol.knowledge.rans import LARGEST

CODEC = Lattice(20)
# A whole body, made once: 12 samples of 3 classes with masses, and the hash of the numbers that all must read there.
STORED = bytes.fromhex("00ea020200deffb4ff6e0025fd04021912120cae3e08001521caeb83ef0d5e")
READ = "7d1bc590fa371746aefdc865f569ecc326b65e886225234ec3c85d33b9d4a4d8"


def net(samples: int, classes: int, seed: int = 0, width: int = 8, sharpness: float = 1.0) -> torch.Tensor:
    """Log-probabilities as of a net with a last layer of this width."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(samples, width, generator=generator).relu()
    return torch.log_softmax(sharpness * hidden @ torch.randn(width, classes, generator=generator), 1)


def through(codec: Lattice, log_probs: torch.Tensor) -> torch.Tensor:
    return codec.decode(codec.encode(log_probs), *log_probs.shape)[0]


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (37, 10), (5, 300), (400, 10), (300, 100)])
@pytest.mark.parametrize("sharpness", [0.1, 1.0, 10.0])
def test_no_more_is_lost_than_the_name_says(shape: tuple[int, int], sharpness: float) -> None:
    log_probs = net(*shape, sharpness=sharpness)
    for loss in (5, 20, 100):
        body = Lattice(loss).encode(log_probs)
        decoded, mass = Lattice(loss).decode(body, *shape)
        lost = divergence(log_probs, decoded)
        assert mass is None and decoded.dtype == torch.float32
        assert lost <= loss / 1000 and described(body)["loss"] == pytest.approx(lost, abs=1e-5)


def test_a_finer_codec_is_larger_and_loses_less() -> None:
    log_probs = net(1000, 50, sharpness=0.5)
    sizes = [len(Lattice(loss).encode(log_probs)) for loss in (2, 20, 200)]
    lost = [divergence(log_probs, through(Lattice(loss), log_probs)) for loss in (2, 20, 200)]
    assert sizes[0] > sizes[1] > sizes[2] and lost[0] < lost[1] < lost[2]


def test_half_of_what_quantising_takes_and_less_at_the_same_loss() -> None:
    log_probs = net(1000, 50)
    assert 2 * len(CODEC.encode(log_probs)) < len(codecs.find("q4c20+zstd").encode(log_probs))


@pytest.mark.parametrize(
    "log_probs",
    [
        torch.nn.functional.one_hot(net(600, 30).argmax(1), 30).double().clamp_min(1e-37).log().float(),
        torch.log_softmax(torch.randn(1, 100, generator=torch.Generator().manual_seed(0)), 1).repeat(300, 1),
        net(60, 100, width=50, sharpness=3),
        net(600, 10, sharpness=60),
        torch.log_softmax(torch.randn(300, 2, generator=torch.Generator().manual_seed(0)) * 40, 1),
        net(400, 300, width=40, sharpness=40),
    ],
    ids=["one-hot", "constant", "few images", "very confident", "two classes", "many classes, confident"],
)
def test_it_is_never_much_larger_than_the_best_of_the_others_that_lose_no_more(log_probs: torch.Tensor) -> None:
    body = CODEC.encode(log_probs)
    ours = lattice.harmed(log_probs, CODEC.decode(body, *log_probs.shape)[0])
    for name in ("q7c60", "q5c60", "q4c20", "q3c20", "q2c20", "top1", "top5", "float16"):
        other = codecs.find(f"{name}+zstd")
        theirs = other.encode(log_probs)
        assert isinstance(other, Zstd)
        if lattice.harmed(log_probs, other.decode(theirs, *log_probs.shape)).within(max(ours.nats, 1e-5)):
            assert len(body) <= 1.1 * len(theirs) + HEAD.size, name


def test_one_hot_answers_take_another_codec_inside_and_constant_ones_no_axes() -> None:
    certain = torch.nn.functional.one_hot(torch.arange(600) % 7, 30).double().clamp_min(1e-37).log().float()
    body = CODEC.encode(certain)
    assert described(body)["packed"] != "lattice" and len(body) <= HEAD.size + len(Zstd(OTHERS[0]).encode(certain))
    constant = net(1, 100).repeat(300, 1)
    assert len(CODEC.encode(constant)) == HEAD.size + 2 + 2 * 100


@pytest.mark.parametrize("log_probs", [net(400, 10), net(400, 10, sharpness=60)], ids=["lattice", "another inside"])
def test_masses_go_with_their_predictions(log_probs: torch.Tensor) -> None:
    mass = log_probs.max(1).values - 3 + 0.1 * torch.randn(400, generator=torch.Generator().manual_seed(1))
    sent = Knowledge.from_logits(log_probs).with_mass(mass, private=100, folds=2)
    data = sent.encode("lattice20")
    read, header = Knowledge.decode(data)
    assert read.log_mass is not None and sent.log_mass is not None and header.codec == "lattice20"
    assert (read.log_mass - sent.log_mass).square().mean() < 0.1
    assert read.mean_mass == pytest.approx(sent.mean_mass, rel=0.02)
    assert len(data) <= len(sent.without_mass().encode("lattice20")) + 2 * 400 + 100
    for again in ("q7c60+zstd", "float32"):  # what is read can be sent on
        other, _ = Knowledge.decode(read.encode(again))
        assert other.log_mass is not None and torch.equal(other.log_mass, read.log_mass)


def test_masses_beyond_what_a_mean_holds_are_stored_by_themselves() -> None:
    sent = Knowledge.from_logits(net(300, 10)).with_mass(torch.linspace(-330, -300, 300))
    read, _ = Knowledge.decode(sent.encode("lattice20"))
    assert read.log_mass is not None and sent.log_mass is not None
    torch.testing.assert_close(read.log_mass, sent.log_mass, atol=1.0, rtol=0)


def test_classes_keep_their_mean_probability() -> None:
    """Algorithm 1 divides by it."""
    log_probs = net(2000, 20)
    point = transform.place(log_probs.double().numpy(), None, 0.6)
    decoded = torch.log_softmax(torch.from_numpy(point.values()), 1)
    torch.testing.assert_close(decoded.exp().mean(0), log_probs.double().exp().mean(0), rtol=0.01, atol=1e-4)


def test_the_search_beats_rounding() -> None:
    """At the same grid it finds numbers that do less harm, and keep their classes, for no more bits."""
    log_probs = net(500, 30, sharpness=0.7).double().numpy()
    searched = transform.place(log_probs, None, 0.6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transform, "_nearest", lambda wanted, factor: np.round(wanted[:, None]))
        rounded = transform.place(log_probs, None, 0.6)
    lost = [divergence(torch.from_numpy(log_probs), torch.from_numpy(p.values())) for p in (searched, rounded)]
    turned = [(p.values().argmax(1) != log_probs.argmax(1)).sum() for p in (searched, rounded)]
    assert len(searched.pack()) < 1.01 * len(rounded.pack()) and lost[0] < lost[1] and 10 * turned[0] < turned[1]


def test_a_stored_body_reads_the_same_on_every_machine() -> None:
    log_probs, mass = CODEC.decode(STORED, 12, 3, has_masses=True)
    assert mass is not None and described(STORED)["packed"] == "lattice"
    read = log_probs.numpy().astype("<f4").tobytes() + mass.numpy().astype("<f4").tobytes()
    assert hashlib.sha256(read).hexdigest() == READ


def test_sums_are_exact_whatever_their_order() -> None:
    """The largest numbers that a body can hold, on as fine and as coarse a grid as can be."""
    rng, r = np.random.default_rng(0), 64
    b, q = (rng.integers(-LARGEST, LARGEST + 1, shape) for shape in ((r, 70), (80, r)))
    exponent = rng.integers(0, 16, r)
    mean = rng.integers(-(1 << 15), 1 << 15, 70)
    point = Point.unpack(Point(mean, exponent, b, q).pack(), 80, 70)
    exact = (q.astype(object) @ (b.astype(object) << (15 - exponent)[:, None])) + mean.astype(object) * (2**15 // GRAIN)
    assert (point.values() * 2**15 == exact.astype(np.float64)).all()


def body(**changes: bytes) -> bytes:
    parts = {"head": HEAD.pack(0, 0), "r": b"\1\0", "mean": bytes(6), "sides": bytes([0, 4, 4])}
    parts["stream"] = Lattice(20).encode(net(40, 3, width=1))[-40:]
    return b"".join({**parts, **changes}.values())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "ends before it begins"),
        (HEAD.pack(len(OTHERS) + 1, 0), "a form that there is not"),
        (HEAD.pack(0, 0), "number of axes"),
        (body(r=b"\4\0"), "number of axes"),
        (body(r=b"\xff\xff"), "number of axes"),
        (body(r=b"\0\0"), "no possible size"),
        (HEAD.pack(0, 0) + b"\1\0" + bytes(7), "no possible size"),
        (body(sides=bytes([16, 4, 4])), "a grid or a model"),
        (body(sides=bytes([0, 56, 4])), "a grid or a model"),
        (body(sides=bytes([0, 4, 255])), "a grid or a model"),
        (body(stream=bytes(2)), "coded numbers"),
        (body(stream=bytes(400)), "coded numbers"),
        (body(stream=b"\xff" * 20), "coded numbers"),
        (HEAD.pack(1, 0) + b"no frame", "no zstd frame"),
    ],
)
def test_bodies_that_mean_nothing(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        CODEC.decode(data, 40, 3)


def test_masses_that_end_too_early() -> None:
    with pytest.raises(InputError, match="masses of 2 samples instead of 40"):
        CODEC.decode(HEAD.pack(1, 0) + bytes(4), 40, 3, has_masses=True)


def test_every_prefix_and_every_flipped_bit_is_refused_or_sound() -> None:
    good, (samples, classes) = CODEC.encode(net(60, 5)), (60, 5)
    for end in range(0, len(good), 3):
        with pytest.raises(InputError):
            CODEC.decode(good[:end], samples, classes)
    for place in range(0, 8 * len(good), 7):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        try:
            read, _ = CODEC.decode(bytes(bad), samples, classes)
        except InputError:
            continue
        assert torch.isfinite(read).all() and read.abs().max() <= lattice.FARTHEST


def test_random_bytes_are_refused_or_sound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        head = struct.pack("<BHH", 0, 0, int(rng.integers(0, 5)))
        data = head + bytes(8) + rng.integers(0, 50, 12, np.uint8).tobytes() + rng.bytes(int(rng.integers(0, 60)))
        try:
            read, _ = CODEC.decode(data, 50, 4)
        except InputError:
            continue
        assert torch.isfinite(read).all()


def test_older_files_with_masses_are_still_read() -> None:
    """Quantised bodies have them first, two bytes each, as before there was a lattice."""
    sent = Knowledge.from_logits(net(9, 4)).with_mass(torch.linspace(-4, 3, 9), private=30, folds=2)
    assert sent.log_mass is not None
    codec = codecs.find("q7c60")
    expected = (sent.log_mass * 64).numpy().astype("<i2").tobytes() + codec.encode(sent.log_probs)  # type: ignore[union-attr]
    assert codecs.pack(codec, sent.log_probs, sent.log_mass) == expected
    back = codecs.unpack(codec, expected, 9, 4, has_masses=True)[1]
    assert back is not None and torch.equal(back, sent.log_mass)


@pytest.mark.parametrize("sharpness", [0.002, 0.02, 30.0])
def test_rows_stay_apart_so_that_a_vote_hears_no_more_of_them(sharpness: float) -> None:
    """Of a collapsed client, and of a very confident one: ties at its baseline would all be heard."""
    log_probs = net(2000, 10, sharpness=sharpness)
    entropy, before = (shannon(torch.softmax(rows.double(), 1)) for rows in (through(CODEC, log_probs), log_probs))
    for rho in (0.1, 0.5):
        heard = int((entropy <= entropy.sort().values[int(rho * 2000) - 1] + 1e-12).sum())
        exact = int((before <= before.sort().values[int(rho * 2000) - 1] + 1e-12).sum())
        assert heard <= max(exact, rho * 2000 + 2 + 2000 // lattice.ALIKE)


@pytest.mark.parametrize("has_masses", [True, False], ids=["masses", "predictions alone"])
def test_answers_of_trees_survive_where_no_grid_tells_all_of_them_apart(has_masses: bool) -> None:
    """Of most samples they say nearly the same, in steps that are finer than a file's."""
    generator = torch.Generator().manual_seed(0)
    alike = torch.rand(250, generator=generator) < 0.6
    spread, mass = torch.randn(2, 250, generator=generator)
    logit = torch.where(alike, 6 + 1e-4 * spread, 4 * spread)
    log_probs = torch.nn.functional.logsigmoid(torch.stack([logit, -logit], 1))
    log_mass = torch.where(alike, -3.0, mass) if has_masses else None
    body = CODEC.encode(log_probs, log_mass)
    decoded, read = CODEC.decode(body, 250, 2, has_masses)
    said = described(body)["loss"]
    assert isinstance(said, float) and said <= 0.02 and divergence(log_probs, decoded) <= 0.02
    assert len(body) < len(codecs.pack(codecs.find("float16+zstd"), log_probs, log_mass))
    assert log_mass is None or (read is not None and (read - log_mass).square().mean() < 0.1)


@pytest.mark.parametrize("shift", [-300.0, 300.0])
def test_masses_far_from_zero_survive_where_no_codec_keeps_all_rows_apart(shift: float) -> None:
    """A lattice's mean ends at 128 nats: what came nearest of the predictions used to be sent without the masses."""
    generator = torch.Generator().manual_seed(0)
    logit = torch.where(torch.rand(250, generator=generator) < 0.6, 6.0, 1.0)
    logit = logit + 1e-4 * torch.randn(250, generator=generator)
    log_probs = torch.nn.functional.logsigmoid(torch.stack([logit, -logit], 1))
    log_mass = shift + torch.randn(250, generator=generator)
    _, read = CODEC.decode(CODEC.encode(log_probs, log_mass), 250, 2, has_masses=True)
    assert read is not None and (read - log_mass).abs().max() < 0.05


def votes(samples: int, classes: int, trees: int) -> torch.Tensor:
    """Shares of trees: of many rows a second class has nearly as many."""
    shares = np.random.default_rng(0).dirichlet(np.full(classes, 2), samples)
    counts = np.stack([np.random.default_rng(1).multinomial(trees, share) for share in shares])
    return Knowledge.from_probabilities(counts / trees).log_probs


def test_classes_that_are_clear_stay_the_likeliest() -> None:
    """Within the same nats a tenth of them used to change."""
    log_probs = votes(1000, 10, 100)
    first, second = log_probs.exp().topk(2, 1).values.T
    clear = first - second > 0.05
    same = (through(CODEC, log_probs).argmax(1) == log_probs.argmax(1))[clear]
    assert same.double().mean() >= 0.985


def test_rows_of_next_to_no_entropy_stay_apart() -> None:
    """Naive Bayes says 1 - 1e-12 of one sample and 1 - 1e-30 of another; Algorithm 1 hears the surest ones."""
    log_probs = net(1000, 10, sharpness=80)
    heard, before = lattice.heard(through(CODEC, log_probs)), lattice.heard(log_probs)
    assert (before[99], before[499]) == (100, 500)
    assert heard[99] <= 122 and heard[499] <= 522


def test_rows_that_tie_go_on_to_tie_beside_masses_that_differ() -> None:
    """Neighbours know few answers: Algorithm 1 hears all of the surest, not those whose masses suit the grid."""
    log_probs, mass = votes(400, 2, 5), torch.randn(400, generator=torch.Generator().manual_seed(0))
    decoded, _ = CODEC.decode(CODEC.encode(log_probs, mass), 400, 2, has_masses=True)
    assert lattice.heard(log_probs)[0] > 20
    assert (lattice.heard(decoded) - lattice.heard(log_probs)).abs().max() <= 2 + 400 // lattice.ALIKE


@pytest.mark.parametrize("classes", [2, 10])
def test_few_distinct_answers_are_no_larger_than_floats_compressed(classes: int) -> None:
    log_probs = votes(1000, classes, 5)
    assert len(CODEC.encode(log_probs)) <= 1.1 * len(codecs.find("float16+zstd").encode(log_probs))  # type: ignore[union-attr]


def test_no_more_axes_than_are_asked_for() -> None:
    """A search takes time that grows with their cube: none is begun that another codec is sure to beat."""
    log_probs = net(200, 60, width=60).double().numpy()
    assert transform.place(log_probs, None, 0.1).q.shape[1] > 20 == transform.place(log_probs, None, 0.1, 20).q.shape[1]
