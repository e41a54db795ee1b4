"""A server run in process: collection, training, report, late clients."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_federation import Federation

import fedol
from fedol.config import ServerConfig
from fedol.data import Labelled
from fedol.errors import FedolError, InputError
from fedol.federation.coordinator import Coordinator
from fedol.federation.resume import continued
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports import Inbox
from fedol.report.pages import Pages
from fedol.robust import DEFAULT

TINY = {"server_model": "mlp", "iterations": 2, "epochs": 2, "batch_size": 16, "device": "cpu"}


def coordinator(federation: Federation, out: Path, **settings: object) -> Coordinator:
    config = ServerConfig(federation.task.id, **{**TINY, **settings})  # type: ignore[arg-type]
    return Coordinator(TaskFolder.open(federation.task_dir), config, out)


def test_collect_train_report(federation: Federation, tmp_path: Path) -> None:
    bad = tmp_path / "bad.fedol"
    bad.write_bytes(b"\0" * 50)
    run = coordinator(federation, tmp_path / "run", epochs=20)
    run.collect([federation.file("alice"), bad, federation.file("bob"), federation.file("carol")])
    summary = run.run(Pages(), run.test_set(federation.folder / "test.npz"))
    assert [client["client"] for client in summary["clients"]] == ["alice", "bob", "carol"]
    assert summary["refused"][0]["file"] == str(bad) and "no JSON" in summary["refused"][0]["reason"]
    assert summary["test"]["accuracy"] > 0.4  # chance is 0.1
    curve = [record["diagnostics"]["test_accuracy"] for record in summary["history"]]
    assert len(curve) == run.config.iterations and curve[-1] == summary["test"]["accuracy"]
    assert sum(summary["public_class_mix"].values()) == pytest.approx(1)
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    for words in (
        "mlp",
        "3 clients sent one file each",
        "1 other file was refused",
        "digits",
        summary["versions"]["torch"],
        "Accuracy on 359",
        "too few to tell",
    ):
        assert words in card
    for name in ("alice", "bob", "carol", "bad.fedol"):  # the card goes with the model: it names nobody
        assert name not in card
    assert fedol.load(tmp_path / "run").predict(federation.public).shape == (80,)
    assert not (tmp_path / "run" / "epoch.safetensors").exists()
    assert coordinator(federation, tmp_path / "run", epochs=20).run() == summary  # a finished run is read back


@pytest.mark.parametrize(
    ("method", "training", "labels"),
    [
        ("fedol", "2 iterations of 2 epochs, batch 16, Adam 0.001, tau 0.2, rho 0.1 + 0.05 per", "come from a vote"),
        ("fedol+", "2 iterations of 2 epochs, batch 16, Adam 0.001, tau 0.2, seed", "pooled clients' surest"),
        ("fedol-tau0", "2 iterations of 2 epochs, batch 16, Adam 0.001, tau 0, rho 0.1 + 0.05 per", None),
        ("pooled", "2 epochs, batch 16, Adam 0.001, seed", None),
    ],
)
def test_the_card_says_what_a_method_heeds(
    method: str, training: str, labels: str | None, federation: Federation, tmp_path: Path
) -> None:
    run = coordinator(federation, tmp_path / "run", method=method)
    run.collect([federation.file("alice"), federation.file("bob")])
    run.run(Pages())
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    assert f"{method}: {training}" in card
    assert labels in card if labels else "Pseudo-labels" not in card
    assert f"Defence: {DEFAULT}." in card


def test_the_card_says_what_the_training_was_switched_to(federation: Federation, tmp_path: Path) -> None:
    switched = {"augment": True, "schedule": "cosine", "patch": "cutmix", "average": 0.9, "weight_decay": 0.1}
    run = coordinator(federation, tmp_path / "run", method="pooled", epochs=1, defence="none", **switched)
    run.collect([federation.file("alice"), federation.file("bob")])
    run.run(Pages())
    card = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    assert "pooled: 1 epoch, batch 16, Adam 0.001, flips and crops, a cosine learning rate, cutmix, weights" in card
    assert "weights averaged at 0.9, weight decay 0.1, seed" in card and "Defence: none." in card


@pytest.mark.parametrize(
    "setting",
    [{"augment": True}, {"schedule": "cosine"}, {"patch": "cutmix"}, {"average": 0.9}, {"weight_decay": 10.0}],
    ids=str,
)
def test_every_ingredient_reaches_the_server(
    setting: dict[str, object], federation: Federation, tmp_path: Path
) -> None:
    found = []
    for out, more in (("plain", {}), ("other", setting)):
        run = coordinator(federation, tmp_path / out, iterations=1, **more)
        run.collect([federation.file("alice"), federation.file("bob")])
        run.run()
        found.append((tmp_path / out / "model.safetensors").read_bytes())
    assert found[0] != found[1]


def test_what_no_training_can_do_is_refused_at_once(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cutmx.*cutmix"):
        coordinator(federation, tmp_path / "run", patch="cutmx")
    with pytest.raises(InputError, match="'augment' must be true or false, but is 'yes'"):
        coordinator(federation, tmp_path / "run", augment="yes")
    for method in ("fedavg", "local", "nope"):  # no file is taken before that is known
        with pytest.raises(InputError, match=f"no method of a server that learns from files '{method}'"):
            coordinator(federation, tmp_path / "run", method=method)
    for settings, words in [
        ({"epochs": "5"}, "a whole number"),
        ({"tau": "high"}, "a number"),
        ({"device": 0}, "text"),
    ]:
        with pytest.raises(InputError, match=words):
            coordinator(federation, tmp_path / "run", **settings)
    with pytest.raises(InputError, match="A model is a name"):
        coordinator(federation, tmp_path / "run", server_model=5)
    assert not (tmp_path / "run").exists()


def test_a_test_set_is_of_the_tasks_classes_and_shape(federation: Federation, tmp_path: Path) -> None:
    run, file = coordinator(federation, tmp_path / "run"), np.load(federation.folder / "test.npz")
    labels, turned = file["test_y"], [str(digit) for digit in reversed(range(10))]

    def told(name: str, x: np.ndarray, y: np.ndarray, **more: object) -> Labelled:
        np.savez(tmp_path / f"{name}.npz", test_x=x, test_y=y, **more)
        return run.test_set(tmp_path / f"{name}.npz")

    same = told("turned", file["test_x"], 9 - labels, classes=turned)  # by their names, whatever their order
    np.testing.assert_array_equal(same.y, labels)
    with pytest.raises(InputError, match=r"wide.npz are 1x8x9, but the task's public ones are 1x8x8"):
        told("wide", np.pad(file["test_x"], [(0, 0)] * 3 + [(0, 1)]), labels)
    with pytest.raises(InputError, match="more has the class '10', which the task has not"):
        told("more", file["test_x"], np.where(labels == 0, 10, labels))
    with pytest.raises(InputError, match="There is no file"):
        run.test_set(tmp_path / "none.npz")


def test_a_run_is_not_mixed_with_other_files(federation: Federation, tmp_path: Path) -> None:
    bad = tmp_path / "bad.fedol"
    bad.write_bytes(b"\0" * 50)
    moved = federation.inbox(tmp_path / "inbox", "bob") / "bob.fedol"
    files = [federation.file("alice"), moved, bad]
    coordinator(federation, tmp_path / "run").collect(files)
    again = coordinator(federation, tmp_path / "run")
    moved.unlink()  # the run has its copy
    assert list(again.collect(files).clients) == ["alice", "bob"]
    with pytest.raises(FedolError, match=r"files of alice, bob; .*carol.fedol is not among them.*--resume"):
        again.collect([*files, federation.file("carol")])
    with pytest.raises(FedolError, match="not all of them are given"):
        again.collect(files[:1])


def test_a_file_that_is_not_there_is_a_slip(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run")
    with pytest.raises(InputError, match=r"no file .*bbo.fedol; nothing was begun"):
        run.collect([federation.file("alice"), tmp_path / "bbo.fedol"])
    assert list(run.collect([federation.file("alice"), federation.file("bob")]).clients) == ["alice", "bob"]


def test_a_finished_run_is_scored_when_a_test_set_comes(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run")
    run.collect([federation.file("alice"), federation.file("bob")])
    before = run.run()
    model = (tmp_path / "run" / "model.safetensors").read_bytes()
    after = run.run(Pages(), run.test_set(federation.folder / "test.npz"))
    assert before["test"] is None and 0 < after["test"]["accuracy"] <= 1
    assert after["seconds"] == before["seconds"] and (tmp_path / "run" / "model.safetensors").read_bytes() == model
    assert "Accuracy on 359" in (tmp_path / "run" / "MODEL_CARD.md").read_text()
    for page in ("report.html", "report-share.html"):
        assert "on 359 test samples" in (tmp_path / "run" / page).read_text()
    assert run.run() == after
    (tmp_path / "run" / "summary.json").write_text("[]")
    with pytest.raises(FedolError, match="is not the summary of a run"):
        run.run(Pages(), run.test_set(federation.folder / "test.npz"))


def test_order_of_arrival_changes_nothing(federation: Federation, tmp_path: Path) -> None:
    names = ["alice", "bob", "carol"]
    for out, order in (("one", names), ("two", names[::-1])):
        run = coordinator(federation, tmp_path / out)
        run.collect([federation.file(name) for name in order])
        run.run()
    one, two = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("one", "two"))
    assert one == two


def test_watch_starts_at_quorum(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run")
    inbox = federation.inbox(tmp_path / "inbox", "alice", "bob")
    seen = []
    roster = run.watch(Inbox(inbox), 2, None, lambda roster, arriving: seen.append(len(roster.clients)))
    assert roster.closed == "quorum" and seen == [2]


def test_a_quorum_that_the_listed_clients_cannot_reach_is_refused(federation: Federation, tmp_path: Path) -> None:
    listed = replace(federation.task, clients={"alice": None, "bob": None})
    config = ServerConfig(listed.id, **TINY)  # type: ignore[arg-type]
    run = Coordinator(TaskFolder.create(tmp_path / "task", listed, federation.public), config, tmp_path / "run")
    inbox = Inbox(federation.inbox(tmp_path / "inbox", "alice", "bob"))
    with pytest.raises(InputError, match=r"quorum of 3 is more than the clients that the task lists \(2\)"):
        run.watch(inbox, 3, 0.0)
    assert run.watch(inbox, 2, None).closed == "quorum"


def test_watch_starts_at_the_deadline_and_names_what_never_arrived(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run")
    inbox = federation.inbox(tmp_path / "inbox", "alice")
    (inbox / "bob.fedol").write_bytes(federation.file("bob").read_bytes()[:-10])
    roster = run.watch(Inbox(inbox), 5, 0.0)
    assert roster.closed == "deadline" and list(roster.clients) == ["alice"]
    assert "ends after" in roster.refused["bob.fedol"]


def test_nobody_came(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run")
    with pytest.raises(FedolError, match="nothing to learn from"):
        run.watch(Inbox(federation.inbox(tmp_path / "inbox")), None, 0.0)
    with pytest.raises(InputError, match="say when to start"):
        run.watch(Inbox(tmp_path / "inbox"), None, None)


def test_late_clients_continue_from_the_model(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run", epochs=10)
    run.collect([federation.file("alice"), federation.file("bob")])
    run.run()
    late, files = continued(tmp_path / "run", [federation.file("dave")], None, {"iterations": 1}, None)
    late.collect(files)
    test = late.test_set(federation.folder / "test.npz")
    summary = late.run(Pages(), test)
    assert late.out == tmp_path / "run-resumed"
    assert [client["client"] for client in summary["clients"]] == ["alice", "bob", "dave"]
    assert summary["changed"]["new_clients"] == ["dave"]
    assert 0 <= summary["changed"]["public_labels_changed"] < 1
    assert len(summary["history"]) == 1 and summary["config"]["epochs"] == 10
    # It goes on: the first epochs' loss is that of a trained model, far below that of the first run's start.
    first = json.loads((tmp_path / "run" / "summary.json").read_text())["history"][0]["loss"]
    assert summary["history"][0]["loss"] < first
    with pytest.raises(InputError, match=r"alice.fedol is part of .*run already; give new files only"):
        continued(tmp_path / "run", [federation.file("alice")], tmp_path / "again", {}, None)
    with pytest.raises(FedolError, match="holds another run"):
        continued(tmp_path / "run", [federation.file("carol")], None, {}, None)


def test_why_a_run_cannot_be_continued_is_one_sentence(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run", iterations=1, epochs=1)
    run.collect([federation.file("alice")])
    run.run()

    def why(file: Path, **settings: object) -> str:
        with pytest.raises(FedolError) as caught:
            continued(tmp_path / "run", [file], None, settings, None)
        return str(caught.value)

    assert why(federation.file("bob"), augment="yes") == "The setting 'augment' must be true or false, but is 'yes'."
    missing = why(tmp_path / "none.fedol")
    assert "run cannot be continued: FileNotFoundError: " in missing and missing.endswith("none.fedol'.")


def test_resume_of_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(FedolError, match="not a finished server run"):
        continued(tmp_path, [tmp_path / "x.fedol"], None, {}, None)


def test_a_changed_setting_is_refused(federation: Federation, tmp_path: Path) -> None:
    coordinator(federation, tmp_path / "run")
    with pytest.raises(FedolError, match=r"lr was 0\.001, now 0\.1"):
        coordinator(federation, tmp_path / "run", lr=0.1)


def large(tmp_path: Path, width: int) -> str:
    """A model of the server's own, in a file."""
    file = tmp_path / "nets.py"
    file.write_text(f"""
from torch import nn

def large(classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear({width}), nn.ReLU(), nn.LazyLinear(classes))
""")
    return f"{file}:large"


def test_a_changed_model_is_refused_and_force_keeps_what_clients_sent(federation: Federation, tmp_path: Path) -> None:
    files = [federation.file("alice"), federation.file("bob")]
    run = coordinator(federation, tmp_path / "run", server_model=large(tmp_path, 4))
    run.collect(files)
    run.run()
    assert coordinator(federation, tmp_path / "run", server_model=large(tmp_path, 4)).run() == run.run()
    changed = large(tmp_path, 5)
    with pytest.raises(FedolError, match=r"The model '.*nets.py:large' \(server_model\) has changed since .*--force"):
        coordinator(federation, tmp_path / "run", server_model=changed)
    config = ServerConfig(federation.task.id, **{**TINY, "server_model": changed})  # type: ignore[arg-type]
    copies = sorted((tmp_path / "run" / "clients").glob("*.fedol"))
    forced = Coordinator(TaskFolder.open(federation.task_dir), config, tmp_path / "run", force=True)
    assert not forced.roster.closed and not (tmp_path / "run" / "summary.json").exists()
    forced.collect(copies)  # they are all that may be left of one-shot uploads
    forced.run()
    fresh = coordinator(federation, tmp_path / "fresh", server_model=changed)
    fresh.collect(files)
    fresh.run()
    one, two = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("run", "fresh"))
    assert one == two
    simulated = fedol.run(out=tmp_path / "simulated", clients=1, public=60, epochs=1, iterations=1, device="cpu")
    with pytest.raises(FedolError, match="holds a simulated run"):
        Coordinator(TaskFolder.open(federation.task_dir), config, simulated.out, force=True)


def test_a_run_is_not_forced_away_by_the_one_that_goes_on_from_it(federation: Federation, tmp_path: Path) -> None:
    run = coordinator(federation, tmp_path / "run", iterations=1, epochs=1)
    run.collect([federation.file("alice")])
    run.run()
    for out in (tmp_path / "run", tmp_path / "run" / ".." / "run"):
        with pytest.raises(InputError, match="needs a folder of its own"):
            continued(tmp_path / "run", [federation.file("bob")], out, {}, None, force=True)
    assert (tmp_path / "run" / "model.safetensors").exists()
    resumed = continued(tmp_path / "run", [federation.file("bob")], None, {}, None)[0]
    with pytest.raises(FedolError, match="holds another run"):
        continued(tmp_path / "run", [federation.file("carol")], None, {}, None)
    again, files = continued(tmp_path / "run", [federation.file("carol")], None, {}, None, force=True)
    assert again.out == resumed.out and list(again.collect(files).clients) == ["alice", "carol"]
