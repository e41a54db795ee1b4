"""Clients that send ratios: lies in predictions and masses, and honest sites that look odd by their predictions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedol.core.union import CREDIT, TAIL, Union, excess
from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, find
from fedol.robust import Defence, screen
from fedol.robust.agreement import Opinions, Weighed
from fedol.robust.attacks import attack_files, attacked
from fedol.robust.denial import denial, levelled
from fedol.robust.mass_attacks import CLAIMS, MANY, claimed
from fedol.seeding import numpy_generator

SAMPLES, CLASSES, EACH = 400, 10, 200  # public samples, and each client's private ones
HOSTILE = (1, 4, 7)


def truth() -> Tensor:
    return torch.arange(SAMPLES) % CLASSES


def site(held: list[int], seed: int, private: int = EACH, wrong: float = 0.1) -> Knowledge:
    """An honest site of some classes: right but for some samples, with the masses of its densities and some noise."""
    rng, labels = numpy_generator(seed, "site"), truth()
    logits = torch.full((SAMPLES, CLASSES), -9.0)
    logits[:, held] = torch.from_numpy(rng.normal(0, 0.5, (SAMPLES, len(held)))).float()
    named = torch.where(torch.from_numpy(rng.random(SAMPLES) < wrong), torch.tensor(held)[0], labels)
    known = torch.isin(named, torch.tensor(held))
    logits[known, named[known]] += 4
    mass = torch.where(torch.isin(labels, torch.tensor(held)), CLASSES / len(held), 0.02).log()
    mass = mass + math.log(private / SAMPLES) + torch.from_numpy(rng.normal(0, 0.3, SAMPLES)).float()
    return Knowledge.from_logits(logits, None, f"client {seed}").with_mass(mass, private, 2)


def federation(few: bool = False) -> list[Knowledge]:
    """Ten sites of all classes, or of three each."""
    return [site([(k + c) % CLASSES for c in range(3 if few else CLASSES)], k) for k in range(10)]


def lying(clients: list[Knowledge], attack: str, claim: str) -> list[Knowledge]:
    honest = [client for k, client in enumerate(clients) if k not in HOSTILE]
    lies = attacked(attack, [clients[k].probabilities() for k in HOSTILE], [c.probabilities() for c in honest])
    masses = [client.log_mass for client in honest if client.log_mass is not None]
    sent, rng = list(clients), numpy_generator(0, attack, claim)
    for k, lie in zip(HOSTILE, lies, strict=True):
        said = Knowledge.from_probabilities(lie, None, clients[k].client).with_mass(clients[k].log_mass, EACH, 2)
        sent[k] = claimed(claim, said, masses, rng)
    return sent


def score(clients: list[Knowledge], defence: str = "none") -> float:
    kept = screen(clients, True).kept if "trust" in defence else range(len(clients))
    settings = Distillation(method="union", defence=Defence.parse(defence))
    soft = find("union").teacher([clients[k] for k in kept], settings).targets(1, None).soft
    return (soft.argmax(1) == truth()).double().mean().item()


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("attack", ["constant", "colluding", "specialist3"])
def test_liars_among_like_sites_are_left_out(attack: str, claim: str) -> None:
    clients = lying(federation(), attack, claim)
    assert sorted(screen(clients, True).verdict.excluded) == sorted(HOSTILE)
    assert score(clients, "trust,cap") == score([c for k, c in enumerate(clients) if k not in HOSTILE])


def test_an_inflated_mass_takes_the_union_and_the_cap_takes_it_back() -> None:
    clients = lying(federation(), "permuted", "thousandfold")
    assert score(clients) < 0.3 < 0.9 < score(clients, "cap")


@pytest.mark.parametrize("few", [False, True])
def test_no_defence_changes_anything_among_honest_clients(few: bool) -> None:
    clients = federation(few)
    assert screen(clients, True).verdict.excluded == ()
    taught = [
        find("union").teacher(clients, Distillation(method="union", defence=Defence.parse(defence))).targets(1, None)
        for defence in ("none", "trust,exact,cap,runoff")
    ]
    assert torch.equal(taught[0].soft, taught[1].soft)


def test_a_site_of_one_class_is_no_liar_with_its_masses() -> None:
    clients = [*federation()[:9], site([3], 9, EACH // 4)]
    assert screen(clients, True).verdict.excluded == ()
    assert screen([client.without_mass() for client in clients]).verdict.excluded == (9,)
    # but one that says one class of everything is
    assert screen([*clients[:9], claimed("flat", clients[9], [], numpy_generator(0))], True).verdict.excluded == (9,)


def test_the_only_site_that_knows_classes_is_denied_by_nobody() -> None:
    clients = [site([0, 1, 2], k) for k in range(5)] + [site([3, 4, 5, 6, 7, 8, 9], 5, 5 * EACH)]
    told = {entry["client"]: entry for entry in screen(clients, True).as_json()}
    assert not told["client 5"]["left_out"] and told["client 5"]["evidence"]["denied"] < 0.1


def test_denial_against_its_definition() -> None:
    clients = lying(federation(few=True), "constant", "crowd")
    answers = [Weighed(c.probabilities(), c.log_mass, c.share) for c in clients if c.log_mass is not None and c.share]
    opinions = Opinions.of(answers)
    among = [0, 1, 2, 4, 6, 9]
    masses = torch.stack([answers[k].log_mass.double() for k in among])
    masses = (masses + levelled(masses, torch.full((len(among),), EACH / SAMPLES, dtype=torch.float64))).exp().numpy()
    probs = [answers[k].probs.double().numpy() for k in among]
    for place, found in enumerate(denial(opinions, among)):
        others = [j for j in range(len(among)) if j != place]
        rest = masses[others].sum(0)
        known = np.minimum(1, rest / np.exp(np.quantile(np.log(rest), 0.75)))
        total = claims = 0.0
        for x in range(SAMPLES):
            behind = np.zeros(CLASSES)
            for j in others:
                behind[probs[j][x].argmax()] += masses[j, x] / rest[x] * probs[j][x].max()
            share = masses[place, x] / (masses[place, x] + rest[x])
            own = probs[place][x]
            total += share * known[x] * own.max() * (behind.max() - behind[own.argmax()])
            claims += share
        assert found == pytest.approx(total / claims, rel=1e-4)


def test_levelled_masses_say_the_parts_of_the_posterior() -> None:
    rng = np.random.default_rng(0)
    masses = torch.from_numpy(rng.normal(0, 1, (5, 300)))
    shares = masses.exp().mean(1)
    masses[2] += math.log(1000)
    added = levelled(masses, shares)
    found = torch.softmax(masses + added, 0).mean(1)
    wanted = shares.clamp(max=shares.median().item())
    np.testing.assert_allclose(found.numpy(), (wanted / wanted.sum()).numpy(), rtol=5e-3)


@pytest.mark.parametrize("times", [0.5, 1.0, 3.0, 1000.0])
def test_masses_are_held_to_their_samples(times: float) -> None:
    log_mass = torch.from_numpy(np.random.default_rng(1).normal(0, 1, 500))
    share = log_mass.exp().mean().item() / times
    above = excess(log_mass, share)
    mean = (log_mass - math.log(share) - above).exp().clamp(max=TAIL).mean().item()
    assert above == 0.0 if times <= 1 else mean == pytest.approx(CREDIT)


def test_a_few_overconfident_answers_cost_an_honest_net_nothing() -> None:
    log_mass = torch.zeros(500)
    log_mass[0] = 12.0
    assert excess(log_mass, 1.1) == 0.0


def test_as_many_samples_as_it_likes_are_no_help_to_a_liar() -> None:
    clients = federation()
    clients[0] = claimed("samples", clients[0], [], numpy_generator(0))
    assert clients[0].ratios is not None and clients[0].ratios.private == MANY * EACH

    def weight(defence: str) -> float:
        ours, theirs = ([clients[0]], clients[1:])
        alone = find("union").teacher([*ours, *theirs], Distillation(method="union", defence=Defence.parse(defence)))
        without = Union()
        for client in theirs:
            without.add(client.log_ratios())
        return float((alone.targets(1, None).soft.double() - without.posterior()).abs().sum(1).mean())

    assert weight("none") > 2 * weight("cap")


def test_hostile_files_with_masses(tmp_path: Path) -> None:
    clients = federation()
    for k, client in enumerate(clients):
        client.save(tmp_path / f"{k}.fedol", "q7c60+zstd")  # which keeps masses to a hundredth
    files = [tmp_path / f"{k}.fedol" for k in range(10)]
    written = attack_files(files[:2], "constant", tmp_path / "lies", files[2:], claim="tenfold")
    for path, client in zip(written, clients, strict=False):
        lie = Knowledge.read(path)[0]
        assert lie.log_mass is not None and client.log_mass is not None
        torch.testing.assert_close(
            lie.log_mass - client.log_mass, torch.full((SAMPLES,), math.log(10)), atol=0.02, rtol=0
        )
        assert lie.probabilities().argmax(1).unique().numel() == 1
    with pytest.raises(InputError, match="did you mean 'tenfold'"):
        attack_files(files[:1], "constant", tmp_path / "more", claim="tenfodl")


def test_clients_of_both_kinds_are_judged_together() -> None:
    clients = [client if k % 2 else client.without_mass() for k, client in enumerate(federation())]
    assert screen(clients, True).verdict.excluded == ()
    sent = lying(federation(), "constant", "crowd")
    mixed = [client if k in HOSTILE or k % 2 else client.without_mass() for k, client in enumerate(sent)]
    assert sorted(screen(mixed, True).verdict.excluded) == sorted(HOSTILE)
    told = screen(mixed, True).as_json()
    assert told[0]["evidence"]["denied"] is None and told[1]["evidence"]["denied"] > 0.2


def test_three_liars_on_real_images() -> None:
    """Ten clients of a few digits each, by scikit-learn: nobody is left out, and then the liars are."""
    from sklearn.linear_model import LogisticRegression

    import fedol
    from fedol.data import load, partition, split

    data = split(load("digits"), 400, seed=100)
    x, y = (part.reshape(len(part), -1) / 255 for part in (data.private.x, data.public)), data.private.y
    private, public = x
    shares = partition(y, "dirichlet:0.3", 10, 100, 10)
    model = LogisticRegression(max_iter=200)
    clients = [
        fedol.OpenSet(model).fit(private[share], y[share], public, classes=range(10)).knowledge(client=f"client {k}")
        for k, share in enumerate(shares)
    ]
    assert screen(clients, True).verdict.excluded == ()
    for attack, claim in (("constant", "thousandfold"), ("specialist3", "flat")):
        assert sorted(screen(lying(clients, attack, claim), True).verdict.excluded) == sorted(HOSTILE), (attack, claim)
