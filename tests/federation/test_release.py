"""Releasing a file: the record finds copied data, the policy stops what it forbids, and an approval is a signature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from commands import Command
from sklearn.ensemble import RandomForestClassifier

from fedol import Task
from fedol.data import load
from fedol.errors import FedolError, InputError
from fedol.federation.policy import Policy, Unapproved
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge import signing

pytest.importorskip("cryptography", reason="approvals are signed, which needs the package cryptography")
COPIED = 60  # training images that are among the public ones


class Site:
    """A site with a forest, keys and a task whose public set has some of its training images."""

    def __init__(self, folder: Path) -> None:
        digits = load("digits")
        x, y = digits.train.x, digits.train.y
        self.folder = folder
        public = np.concatenate([x[:100], x[400 : 400 + COPIED]])
        TaskFolder.create(folder / "task", Task.of(public, digits.classes, "digits"), public)
        own = {"train_x": x[400:800], "train_y": y[400:800], "test_x": x[800:1200], "test_y": y[800:1200]}
        np.savez(folder / "own.npz", **own)
        forest = RandomForestClassifier(20, random_state=0).fit(own["train_x"].reshape(400, -1) / 255, own["train_y"])
        joblib.dump(forest, folder / "forest.joblib")
        self.keys = {name: signing.new_key(folder / f"{name}.key") for name in ("dpo", "intern")}

    def policy(self, **rules: Any) -> Path:
        lines = [f"{name} = {json.dumps(value)}" for name, value in rules.items()]
        path = self.folder / "policy.toml"
        path.write_text("\n".join([*lines, "[approvers]", f'dpo = "{self.keys["dpo"]}"']))
        return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def site(made: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """In its folder, without what an earlier test has left."""
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("HOME", str(made.folder))
    monkeypatch.delenv("FEDOL_POLICY", raising=False)
    for left in [*made.folder.glob("alice.*"), *made.folder.glob("*.toml")]:
        left.unlink()
    return made


PREDICT = ("client", "predict", "task", "--model", "forest.joblib", "--out", "alice.fedol")
RELEASE = ("client", "release", "alice.fedol", "--data", "own.npz")
APPROVE = ("client", "release", "alice.fedol", "--approve", "dpo", "--key", "dpo.key")


def leaves(policy: Path) -> None:
    file = Path("alice.fedol")
    Policy.read(policy).check_leaving(file, file.read_bytes())


def test_the_record_finds_copied_training_images(site: Site, command: Command) -> None:
    assert command(*PREDICT).code == 0
    assert not Path("alice.fedol.made.json").exists()  # nobody has asked for it
    said = command(*RELEASE, "--json")
    assert said.code == 0
    about = json.loads(said.out)["about"]
    assert about["duplicates"]["exact"] == COPIED and about["duplicates"]["exact_pairs"][0] == [0, 100]
    on_copies = about["membership"]["threshold on duplicates"]
    assert (
        on_copies["auc"] > 0.75 > about["membership"]["threshold"]["auc"] > 0.5
    )  # a forest knows its samples by heart
    assert about["label_mix_error"]["told"] < 0.2 and about["privacy"] is None
    crate = json.loads(said.out)["ro_crate"]["@graph"]
    assert {entry["@id"] for entry in crate} >= {"ro-crate-metadata.json", "./", "alice.fedol"}
    page = Path("alice.fedol.release.html").read_text()
    assert "60 exactly and 0 nearly" in page and "Nobody yet." in page and "http://" not in page
    assert Path("alice.fedol.release.json").stat().st_mode & 0o77 == 0


def test_the_model_behind_it_is_attacked_too(site: Site, command: Command) -> None:
    command(*PREDICT)
    assert command(*RELEASE, "--model", "forest.joblib").code == 0
    about = json.loads(Path("alice.fedol.release.json").read_text())["about"]
    assert about["membership"]["the model's threshold"]["auc"] > 0.7


def test_nothing_leaves_without_approval_by_somebody_listed(site: Site, command: Command) -> None:
    policy = site.policy(codecs=["lattice20"])
    assert command(*PREDICT, "--policy", policy).code == 0
    with pytest.raises(Unapproved, match="has no record of its release: fedol client release"):
        leaves(policy)
    assert command(*RELEASE, "--policy", policy).code == 0
    with pytest.raises(Unapproved, match="waits for approval"):
        leaves(policy)
    stranger = command(*APPROVE[:4], "dpo", "--key", "intern.key", "--policy", policy)
    assert stranger.code == 2 and "whose key" in stranger.err
    assert command(*APPROVE[:4], "intern", "--key", "intern.key", "--policy", policy).code == 2
    with pytest.raises(Unapproved):
        leaves(policy)
    assert command(*APPROVE, "--policy", policy).code == 0
    leaves(policy)
    assert "dpo" in Path("alice.fedol.release.html").read_text()


@pytest.mark.parametrize("change", ["record", "name", "file"])
def test_what_was_changed_after_the_approval_does_not_leave(change: str, site: Site, command: Command) -> None:
    policy = site.policy()
    command(*PREDICT)
    assert command(*RELEASE, *APPROVE[3:], "--policy", policy).code == 0
    leaves(policy)
    kept = Path("alice.fedol.release.json")
    values = json.loads(kept.read_text())
    if change == "record":
        values["about"]["duplicates"]["exact"] = 0
    elif change == "name":
        values["approval"]["date"] = "2020-01-01T00:00:00+00:00"
    else:
        assert command(*PREDICT, "--codec", "float32").code == 0
    kept.write_text(json.dumps(values))
    with pytest.raises(Unapproved, match=r"does not hold|about another file"):
        leaves(policy)


def test_client_send_lets_leave_what_the_policy_does(site: Site, command: Command) -> None:
    policy, inbox = site.policy(approval=True), site.folder / "inbox"
    inbox.mkdir(exist_ok=True)
    assert command(*PREDICT).code == 0
    sending = ("client", "send", "alice.fedol", inbox, "--policy", policy)
    for step in ((), RELEASE):  # without a record, and before anybody has approved
        assert not step or command(*step).code == 0
        said = command(*sending)
        assert said.code == 2 and said.err.startswith("Error: ") and not list(inbox.iterdir())
    assert command(*APPROVE).code == 0
    assert command(*sending).code == 0
    assert [file.read_bytes() for file in inbox.iterdir()] == [Path("alice.fedol").read_bytes()]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"duplicates": 10}, "allows 10 private samples among the public ones, and there are 60"),
        ({"largest_auc": 0.6}, "allows attacks an AUC of 0.6; 'threshold on duplicates' has"),
        ({"codecs": ["float32"]}, "allows the codecs float32, and this is lattice20"),
        ({"releases": ["noise:1", "label"]}, "wants --release noise:1 or label, and this is made without"),
    ],
)
def test_a_rule_that_is_broken(rules: dict[str, Any], words: str, site: Site, command: Command) -> None:
    command(*PREDICT)
    policy = site.policy(**rules, approval=False)
    said = command(*RELEASE, *APPROVE[3:], "--policy", policy)
    assert said.code == 2 and words in said.err
    assert json.loads(Path("alice.fedol.release.json").read_text())["approval"] is None  # kept, but not approved
    with pytest.raises(InputError, match="Nothing leaves here"):
        leaves(policy)


def test_a_release_that_says_too_much_is_not_even_made(
    site: Site, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = site.policy(releases=["noise:1", "response:3"], approval=False)
    monkeypatch.setenv("FEDOL_POLICY", str(policy))
    for words in ((), ("--release", "noise:0.5"), ("--release", "response:4"), ("--release", "label")):
        said = command(*PREDICT, *words)
        assert said.code == 2 and "wants --release noise:1 or response:3" in said.err
        assert not Path("alice.fedol").exists()
    assert command(*PREDICT, "--release", "noise:1.5").code == 0
    assert command(*RELEASE).code == 0  # how it was made is noted beside it
    leaves(policy)
    Path("alice.fedol.made.json").unlink()
    assert command(*RELEASE).code == 2


def test_where_nothing_is_asked_for_nothing_is_needed(site: Site, command: Command) -> None:
    command(*PREDICT)
    leaves(site.policy(approval=False))
    leaves(site.policy(approval=False, codecs=["lattice20"]))
    with pytest.raises(InputError, match="allows the codecs top10"):
        leaves(site.policy(approval=False, codecs=["top10"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("codecs = [", "cannot be read"),
        ("codec = ['float32']", "did you mean 'codecs'"),
        ("codecs = 'float32'", "must be a list of codecs"),
        ("codecs = ['float31']", "no codec 'float31'"),
        ("releases = ['noise']", "needs a number"),
        ("largest_auc = 0.4", "must lie in 0.5..1"),
        ("duplicates = true", "must be a whole number"),
        ("approval = 'no'", "must be true or false"),
        ("[approvers]\ndpo = 'me'", "not a public key"),
    ],
)
def test_a_policy_that_makes_no_sense_lets_nothing_leave(text: str, words: str, site: Site, command: Command) -> None:
    Path("policy.toml").write_text(text)
    said = command(*PREDICT, "--policy", "policy.toml")
    assert said.code == 2 and words in said.err


def test_which_policy_is_in_force(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Policy.found() is None
    usual = site.folder / ".config" / "fedol" / "policy.toml"
    usual.parent.mkdir(parents=True)
    usual.write_text("approval = false")
    found = Policy.found()
    assert found is not None and found.path == usual
    usual.unlink()
    monkeypatch.setenv("FEDOL_POLICY", "missing.toml")
    with pytest.raises(InputError, match=r"missing\.toml cannot be read"):
        Policy.found()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--approve", "dpo"), "has a name and a key"),
        (("--approve", "dpo", "--key", "none.key"), "has no record of its release"),
        (("--model", "forest.joblib"), "needs your data"),
        (("--data", "own.npz", "--task", "nowhere"), "There is no task in nowhere"),
        (("--data", "none.npz"), "none.npz"),
        (("--data", "own.npz", "--model", "forest.joblib", "--shadows", "2"), "leave --shadows out"),
    ],
)
def test_a_release_that_is_asked_for_wrongly(words: tuple[str, ...], said: str, site: Site, command: Command) -> None:
    command(*PREDICT)
    found = command("client", "release", "alice.fedol", *words)
    assert found.code == 2 and said in found.err


def test_a_file_of_another_task(site: Site, command: Command, tmp_path: Path) -> None:
    command(*PREDICT)
    public = load("digits").train.x[:50]
    TaskFolder.create(tmp_path / "other", Task.of(public, [str(d) for d in range(10)], "other"), public)
    found = command(*RELEASE, "--task", tmp_path / "other")
    assert found.code == 2 and "alice.fedol is refused: it was made on other public samples" in found.err
    Path("alice.fedol").write_bytes(b"junk")
    assert command(*RELEASE).code == 2


def test_a_record_that_was_damaged(site: Site, command: Command) -> None:
    command(*PREDICT)
    for text in ("{", "{}", '{"about": {"file": 3}, "approval": null}'):
        Path("alice.fedol.release.json").write_text(text)
        with pytest.raises(FedolError, match="make it again"):
            leaves(site.policy())
