"""The method union by files: clients that send masses, from the training to the server, and those that do not."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from commands import ROOT, Command

from fedol import Knowledge, Task, TaskFolder
from fedol.data import load, partition, split
from fedol.errors import InputError
from fedol.federation.client import client_fit
from fedol.federation.predictors import predict_knowledge
from fedol.files import read_tensors
from fedol.knowledge.container import Container
from fedol.methods.union import answers
from fedol.model import load as load_model
from fedol.training import Epoch, Recipe, predict

pytestmark = pytest.mark.usefixtures("free_to_send")

NAMES = ("alice", "bob", "carol", "dave")
TINY = ["--model", "mlp", "--epochs", 3, "--batch-size", 16, "--device", "cpu"]


@dataclass(frozen=True)
class Sites:
    """A task and four clients' data; three clients' files have masses, dave's has none."""

    folder: Path
    task: Task

    def data(self, name: str) -> str:
        return str(self.folder / f"{name}.npz")

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.fedol"

    @property
    def model(self) -> Path:
        return self.folder / "alice.safetensors"

    @property
    def public(self) -> Any:
        return TaskFolder.open(self.folder / "task").samples()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    folder = tmp_path_factory.mktemp("sites")
    parts = split(load("digits"), 200, seed=0)
    task = Task.of(parts.public, [str(c) for c in range(10)], "digits")
    TaskFolder.create(folder / "task", task, parts.public)
    np.savez(folder / "test.npz", test_x=parts.test.x, test_y=parts.test.y)
    sites = Sites(folder, task)
    for name, share in zip(NAMES, partition(parts.private.y, "dirichlet:0.5", 4, 0, 10), strict=True):
        mine = parts.private.take(share)
        np.savez(sites.data(name), train_x=mine.x[20:], train_y=mine.y[20:], test_x=mine.x[:20], test_y=mine.y[:20])
        out, folds = folder / f"{name}.safetensors", 0 if name == "dave" else 2
        fit(sites, name, out, folds)
        predict_knowledge(str(out), sites.public, task, name).save(sites.file(name), "q7c60+zstd")
    return sites


def fit(sites: Sites, name: str, out: Path, folds: int = 2, epochs: int = 10, **more: Any) -> dict[str, Any]:
    recipe = Recipe(epochs=epochs, batch_size=32)
    shared = {"device": "cpu", "folds": folds, "public": sites.public, **more}
    return client_fit(sites.task, sites.data(name), "mlp", out, recipe, **shared)


def test_a_model_with_folds_answers_with_its_masses(sites: Sites) -> None:
    knowledge, header = Knowledge.read(sites.file("alice"))
    with np.load(sites.data("alice")) as mine:
        assert header.ratios and header.ratios.private == len(mine["train_y"]) and header.ratios.folds == 2
    model = load_model(sites.model)
    logs = answers(model.module, sites.public, model.architecture, model.device)  # type: ignore[arg-type]
    mass = torch.logsumexp(logs, 1)
    assert knowledge.log_mass is not None
    torch.testing.assert_close(knowledge.log_mass, mass, atol=1 / 128 + 1e-5, rtol=0)
    torch.testing.assert_close(
        knowledge.probabilities().argmax(1)[mass > 0], logs.argmax(1)[mass > 0]
    )  # the codec keeps the top class
    assert knowledge.mean_mass is not None and 0.2 < knowledge.mean_mass < 20
    assert Knowledge.load(sites.file("dave"), sites.task).mean_mass is None


def test_no_net_answers_on_a_sample_that_it_was_shown_as_public(sites: Sites) -> None:
    """Each net alone: its public samples are even or odd positions, and the answers are the other net's."""
    model = load_model(sites.model)
    nets, prepare = model.module.nets, model.architecture.prepare  # type: ignore[union-attr]
    found = answers(model.module, sites.public, model.architecture, model.device)  # type: ignore[arg-type]
    for number in range(2):
        alone = predict(nets[number], sites.public, prepare, model.device)  # type: ignore[index]
        expected = alone[:, :-1] - alone[:, -1:] + np.log(0.5)
        torch.testing.assert_close(found[number::2], expected[number::2], atol=1e-4, rtol=1e-4)


def test_a_stopped_fit_goes_on_in_the_fold_that_it_was_in(sites: Sites, tmp_path: Path) -> None:
    def run(name: str, stop: int = 0) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        def on_epoch(epoch: Epoch) -> None:
            seen.append((epoch.job.name[-1], epoch.epoch))
            if len(seen) == stop:
                raise KeyboardInterrupt

        fit(sites, "bob", tmp_path / name, epochs=4, on_epoch=on_epoch)
        return seen

    whole = [(fold, epoch) for fold in "12" for epoch in (1, 2, 3, 4)]
    assert run("whole") == whole
    with pytest.raises(KeyboardInterrupt):
        run("stopped", stop=7)
    kept = sorted(path.name for path in tmp_path.glob("*.unfinished"))
    assert kept == ["stopped.fold1.unfinished", "stopped.fold2.unfinished"]
    assert run("stopped") in (whole[7:], whole[6:])  # the seventh epoch may have been stopped before it was kept
    assert (tmp_path / "stopped").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("*.unfinished"))


KILLED = """
import os, signal, sys
import fedol.training.snapshot as snapshot
keep, kept = snapshot.EpochFile.keep, []
def counted(self, state):
    keep(self, state)
    kept.append(state)
    if len(kept) == int(moment): os.kill(os.getpid(), signal.SIGKILL)
moment, sys.argv = sys.argv[1], ["fedol", *sys.argv[2:]]
snapshot.EpochFile.keep = counted
from fedol.cli import main
main()
"""


def test_killed_in_either_fold(sites: Sites, tmp_path: Path) -> None:
    """Real processes and SIGKILL: after the first fold's second epoch, then in the second fold."""
    command = ["client", "fit", sites.folder / "task", "--data", sites.data("carol"), "--folds", 2, *TINY, "-q"]
    for name, moments in (("whole", ()), ("killed", (2, 2, 1))):
        words = [str(word) for word in (*command, "--out", tmp_path / name)]
        for moment in moments:
            killed = subprocess.run([sys.executable, "-c", KILLED, str(moment), *words], cwd=ROOT, capture_output=True)
            assert killed.returncode == -9 and not (tmp_path / name).exists(), killed.stderr
        done = subprocess.run([sys.executable, "-c", KILLED, "-1", *words], cwd=ROOT, capture_output=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.parametrize(
    ("folds", "public", "words"),
    [
        (1, True, "must lie between 2 and 64, or be 0"),
        (-2, True, "must lie between 2 and 64"),
        (65, True, "must lie between 2 and 64"),
        (2, False, "need at least 4 public samples, but none are given"),
        (64, "few", "64 folds need at least 128 public samples, but the task has 100"),
    ],
)
def test_folds_that_make_no_sense(sites: Sites, tmp_path: Path, folds: int, public: bool | str, words: str) -> None:
    shared = None if not public else sites.public.take(slice(100)) if public == "few" else sites.public
    with pytest.raises(InputError, match=words):
        fit(sites, "alice", tmp_path / "m", folds, public=shared)


def test_what_was_learnt_from_another_public_set_says_nothing_of_this_one(sites: Sites) -> None:
    other = sites.public.take(slice(50, 150))
    task = Task.of(other, sites.task.classes, "other")
    with pytest.raises(InputError, match="learnt what is public from other samples than this task's"):
        predict_knowledge(str(sites.model), other, task, "alice")


def test_a_private_training_divides_its_budget_and_keeps_its_number_to_itself(sites: Sites, tmp_path: Path) -> None:
    pytest.importorskip("opacus", reason="needs the package opacus")
    from fedol.privacy.training import Budget, fit_private

    spent, real = [], fit_private

    def noted(job: Any, budget: Budget, *rest: Any) -> Any:
        spent.append(budget)
        return real(job, budget, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedol.federation.client.fit_private", noted)
        fit(sites, "alice", tmp_path / "m.safetensors", epochs=2, budget=Budget(8.0, 1e-4))
    assert spent == [Budget(4.0, 5e-5)] * 2
    knowledge = predict_knowledge(str(tmp_path / "m.safetensors"), sites.public, sites.task, "alice")
    assert knowledge.privacy and 7 < knowledge.privacy.epsilon <= 8 and knowledge.privacy.delta == 1e-4
    assert knowledge.ratios and knowledge.ratios.private == 0 and knowledge.mean_mass is None
    assert read_tensors(tmp_path / "m.safetensors")[1]["history"][0]["ratios"]["private"] == 0


def test_an_audit_attacks_the_masses_too(sites: Sites, command: Command, tmp_path: Path) -> None:
    with np.load(sites.data("alice")) as mine:
        x, y = mine["train_x"], mine["train_y"]
    few, model = tmp_path / "few.npz", tmp_path / "few.safetensors"
    np.savez(few, train_x=x[::3], train_y=y[::3], test_x=np.delete(x, np.s_[::3], 0), test_y=np.delete(y, np.s_[::3]))
    client_fit(
        sites.task, str(few), "mlp", model, Recipe(80, 32), device="cpu", folds=2, public=sites.public
    )  # knows them by heart
    ask = ["audit", "--task", sites.folder / "task", "--model", model, "--data", few, "--shadows", 0]
    code, out, err = command(*ask, "--json")
    assert code == 0, err
    found = json.loads(out)["clients"][0]["membership"]
    assert set(found) == {"threshold", "masses"} and found["masses"]["auc"] > 0.6
    released = json.loads(command(*ask, "--json", "--release", "label").out)["clients"][0]["membership"]
    assert set(released) == {"threshold"}  # what is not sent gives nothing away
    plain = ["--model", sites.folder / "dave.safetensors", "--data", sites.data("dave"), "--shadows", 0, "--json"]
    assert "masses" not in command("audit", "--task", sites.folder / "task", *plain).out


class Fitted:
    """As ``fedol.OpenSet`` is: it answered while it was fitted."""

    def __init__(self, samples: int) -> None:
        self.ratios = np.full((samples, 10), 0.1)

    def log_ratios(self) -> np.ndarray:
        return np.log(self.ratios)

    def knowledge(self, task: Task | None = None, client: str = "client") -> Knowledge:
        return Knowledge.from_ratios(self.ratios, task, client, private=77, folds=3)


def test_an_object_that_has_its_ratios_already(sites: Sites, tmp_path: Path) -> None:
    joblib.dump(Fitted(200), tmp_path / "fitted.joblib")
    (tmp_path / "mine.py").write_text(
        f"import joblib\ndef load(): return joblib.load({str(tmp_path / 'fitted.joblib')!r})\n"
        "class Wrong:\n    def log_ratios(self): return 0\n    def knowledge(self, task, client): return 1 / 0\n"
        "class Strange(Wrong):\n    def knowledge(self, task, client): return 3\n"
    )
    for spec in (str(tmp_path / "fitted.joblib"), f"{tmp_path / 'mine.py'}:load"):
        found = predict_knowledge(spec, sites.public, sites.task, "erin")
        assert (found.client, found.task) == ("erin", sites.task.ref)
        assert found.ratios and (found.ratios.private, found.ratios.folds) == (77, 3)
    for name, words in (("Wrong", "fails on the public images: ZeroDivisionError"), ("Strange", "gives no knowledge")):
        with pytest.raises(InputError, match=words):
            predict_knowledge(f"{tmp_path / 'mine.py'}:{name}", sites.public, sites.task, "erin")
    joblib.dump(Fitted(199), tmp_path / "short.joblib")
    with pytest.raises(InputError, match=r"\[199, 10\], but the task has 200 public samples"):
        predict_knowledge(str(tmp_path / "short.joblib"), sites.public, sites.task, "erin")


def test_what_the_commands_say(sites: Sites, command: Command, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("settings.toml").write_text("folds = 2\nepochs = 3\n")
    fit_it = [
        "client",
        "fit",
        sites.folder / "task",
        "--data",
        sites.data("alice"),
        "--model",
        "mlp",
        "--device",
        "cpu",
    ]
    code, out, err = command(*fit_it, "--config", "settings.toml", "--out", "m.safetensors")
    assert code == 0 and "and 200 public ones in 2 folds" in out, err
    ask = ["client", "predict", sites.folder / "task", "--model", "m.safetensors", "--out", "a.fedol"]
    code, out, _ = command(*ask)
    with np.load(sites.data("alice")) as mine:
        private = len(mine["train_y"])
    told = f"With masses: how much each public sample looks like your data (2 folds, from {private}"
    assert code == 0 and told in out
    code, out, _ = command("inspect", "a.fedol", "--task", sites.folder / "task")
    assert code == 0 and "What looks like your data" in out and f"{private} samples over 200 public ones" in out
    code, out, _ = command(*ask, "--release", "label")
    assert code == 0 and "Without masses: --release" in out and Knowledge.read(Path("a.fedol"))[0].ratios is None
    code, out, err = command(*fit_it, "--folds", 1)
    assert code == 2 and "--folds must lie between 2 and 64" in err


def test_a_public_set_of_another_domain_is_said_to_be_one(sites: Sites, command: Command, tmp_path: Path) -> None:
    knowledge = Knowledge.load(sites.file("alice"), sites.task)
    assert knowledge.log_mass is not None and knowledge.ratios is not None
    joblib.dump(Fitted(200), tmp_path / "strange.joblib")  # a mass of 1 where 77 / 200 is expected: all is well
    ask = ["client", "predict", sites.folder / "task", "--out", tmp_path / "a.fedol", "--model"]
    assert "Warning" not in command(*ask, tmp_path / "strange.joblib").out
    strange = Fitted(200)
    strange.ratios = strange.ratios / 50
    joblib.dump(strange, tmp_path / "strange.joblib")
    code, out, _ = command(*ask, tmp_path / "strange.joblib")
    assert code == 0 and "Warning: the public samples hardly look like yours (0.052 of what is expected)" in out
    assert "Warning: the public samples" in command("inspect", tmp_path / "a.fedol").out


def broken(sites: Sites) -> dict[str, tuple[bytes, str]]:
    """Files whose masses are not what they should be, and why each is refused."""
    plain = Knowledge.load(sites.file("alice"), sites.task).encode("float32")
    good, header = Container.unpack(plain), {"private": 5, "folds": 2}
    packed = Container.unpack(sites.file("alice").read_bytes())
    old = {key: value for key, value in good.header.items() if key != "ratios"}  # what a version before sees
    old_packed = {key: value for key, value in packed.header.items() if key != "ratios"}
    nonsense = "says nothing sensible about its ratios"
    return {
        "short": (Container(good.header, good.body[2:]).pack(), "its body has 8,398 bytes instead of 8,400"),
        "none": (Container(good.header, good.body[400:]).pack(), "instead of 8,400"),
        "all": (Container(packed.header, packed.body[:100]).pack(), ""),
        "empty": (Container(packed.header, b"").pack(), ""),
        "huge": (Container({**good.header, "ratios": {**header, "private": 1 << 60}}, good.body).pack(), nonsense),
        "folds": (Container({**good.header, "ratios": {**header, "folds": 0}}, good.body).pack(), nonsense),
        "kind": (Container({**good.header, "ratios": [1, 2]}, good.body).pack(), nonsense),
        "old reader": (Container(old, good.body).pack(), "its body has 8,400 bytes instead of 8,000"),
        "old reader, packed": (Container(old_packed, packed.body).pack(), ""),
    }


def test_masses_that_are_broken_are_refused(sites: Sites, command: Command, tmp_path: Path) -> None:
    """Also what an older version makes of a file with masses: it refuses it, and takes nothing for predictions."""
    for name, (data, words) in broken(sites).items():
        with pytest.raises(InputError) as error:
            Knowledge.decode(data, sites.task)
        assert words in str(error.value) and str(error.value).isprintable(), name
        (tmp_path / f"{name}.fedol").write_bytes(data)
    code, _, err = command("inspect", tmp_path / "short.fedol")
    assert code == 2 and "its body has" in err


def test_a_server_hears_both_kinds_and_late_ones(sites: Sites, command: Command, tmp_path: Path) -> None:
    inbox, run = tmp_path / "inbox", tmp_path / "run"
    inbox.mkdir()
    for name in ("alice", "bob", "dave"):
        (inbox / f"{name}.fedol").write_bytes(sites.file(name).read_bytes())
    (inbox / "aaron.fedol").write_bytes(broken(sites)["short"][0])
    settings = ["--method", "union", *TINY, "--test", sites.folder / "test.npz", "--json"]
    serve = ["serve", sites.folder / "task", "--inbox", inbox, "--quorum", 3, "--out", run, *settings]
    code, out, err = command(*serve)
    assert code == 0, err
    summary = json.loads(out)
    assert [client["client"] for client in summary["clients"]] == ["alice", "bob", "dave"]
    assert [refused["file"] for refused in summary["refused"]] == ["aaron.fedol"]
    last = summary["history"][-1]
    assert last["ratios"] == pytest.approx(2 / 3) and last["familiarity"] > 0.2
    assert "unsure_above" not in last  # dave does not say what he does not know
    code, out, err = command(
        "distill", "--resume", run, sites.file("carol"), "--test", sites.folder / "test.npz", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["history"][-1]["ratios"] == 0.75 and json.loads(out)["changed"]["new_clients"] == ["carol"]


def test_what_is_like_nobody_s_data_is_flagged(sites: Sites, command: Command, tmp_path: Path) -> None:
    files = [sites.file(name) for name in ("alice", "bob", "carol")]
    distill = [
        "distill",
        sites.folder / "task",
        *files,
        "--method",
        "union",
        *TINY,
        "--out",
        tmp_path / "run",
        "--json",
    ]
    code, out, err = command(*distill)
    assert code == 0 and json.loads(out)["history"][-1]["unsure_above"] > 0, err
    model = load_model(tmp_path / "run")
    probs = model.predict_proba(sites.public)
    known = model.known(probs)
    assert known is not None and known.mean() > 0.5
    uniform = np.full((1, 10), 0.1)
    assert (model.known(np.eye(10)) == [True] * 10).all() and not model.known(uniform)  # type: ignore[union-attr]
    code, out, _ = command("predict", tmp_path / "run", sites.folder / "task" / "public.npz")
    flagged = [line.endswith("\tlike no client's data") for line in out.splitlines()]
    assert code == 0 and flagged == (~known).tolist()
    assert load_model(sites.model).known(uniform) is None


def test_the_report_says_what_is_like_nobody_s_data(sites: Sites, command: Command, tmp_path: Path) -> None:
    """On the coordinator's page and on the one to pass on; and nothing where the server cannot tell."""
    files = [sites.file(name) for name in ("alice", "bob", "carol")]
    for method, told in (("union", True), ("fedol+", False)):
        out, test = tmp_path / method, sites.folder / "test.npz"
        more = ["--iterations", 1, "--test", test, "--out", out]
        code, _, err = command("distill", sites.folder / "task", *files, "--method", method, *TINY, *more)
        assert code == 0, err
        evidence, tested = (json.loads((out / name).read_text()) for name in ("evidence.json", "evaluation.json"))
        model, parts = load_model(out), load("digits").test
        known = model.known(model.predict_proba(sites.public))
        assert ("strange" in evidence) == ("strange" in tested["server"]) == (known is not None) == told
        for page in ("report.html", "report-share.html"):
            text = (out / page).read_text(encoding="utf-8")
            assert ("like no client's data, as <code>fedol predict</code> marks them" in text) == told
            assert ("like no client's data: it is unsure of these" in text) == told
        if known is None:
            continue
        assert evidence["strange"] == (~known).sum()
        shown = {sample["index"]: sample["strange"] for sample in evidence["samples"]}
        assert shown == {index: not known[index] for index in shown}
        probs = model.predict_proba(parts.samples)
        marked, right = ~model.known(probs), probs.argmax(1) == parts.y  # type: ignore[operator]
        assert tested["server"]["strange"] == {
            "samples": marked.sum(),
            "of": len(parts),
            "right_of_these": pytest.approx(right[marked].mean()),
            "right_of_others": pytest.approx(right[~marked].mean()),
        }


def test_a_federation_without_masses_learns_from_the_pool(sites: Sites, command: Command, tmp_path: Path) -> None:
    distill = [
        "distill",
        sites.folder / "task",
        sites.file("dave"),
        "--method",
        "union",
        *TINY,
        "--out",
        tmp_path / "run",
    ]
    code, out, err = command(*distill)
    assert code == 0 and "No client sent masses" in out, err


def test_a_node_of_flower_sends_masses(sites: Sites, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs Flower")
    from fedol.federation.transports.flower_client import answer

    node = {"task": str(sites.folder / "task"), "client": "alice", "data": sites.data("alice"), "model": "mlp"}
    node |= {"epochs": 2, "device": "cpu", "cache": str(tmp_path / "cache"), "folds": 2}  # type: ignore[dict-item]
    reply = answer({"task": sites.task.id, "public": sites.task.fingerprint}, dict(node))
    knowledge, _ = Knowledge.decode(reply["knowledge"], sites.task)  # type: ignore[arg-type]
    assert knowledge.ratios and knowledge.ratios.folds == 2 and knowledge.mean_mass
    refused = answer({"task": sites.task.id, "public": sites.task.fingerprint}, {**node, "folds": 1})
    assert "--folds must lie between" in str(refused["error"])
