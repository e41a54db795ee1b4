"""A server that learns from files: collects them, trains, writes the model and the report, and survives in between.

Every step leaves its artefact in the run folder (see ``fedol.runs.folder``), here also:

    task.json       which task, and where its folder is
    roster.json     who is in, who was refused and why
    clients/*.fedol copies of the accepted files
    sums/*.part     or of the helpers' sums, where clients were summed in secret
    targets.safetensors
                    what the server was taught, where the task allows to publish it
    screening.json  which of them the server listens to, and why not to the others (with the defence "trust")
    events.jsonl    what was decided, when and why (``fedol.runs.eventlog``)
    withdrawn.json  whom the run has forgotten, by hashes (``fedol.federation.withdrawal``)
    MODEL_CARD.md   what the model is, for whoever gets it
    report.html     how it came about, to look at: the coordinator's, with every client's answers
    report-share.html
                    the same without them, to pass on
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedol.config import ServerConfig
from fedol.data import Labelled
from fedol.distillation import Learnt, learn, serve
from fedol.errors import FedolError, InputError
from fedol.federation.events import Minutes
from fedol.federation.roster import Arrival, Roster, check_there
from fedol.federation.summary import about_task, federation_summary, supplement, test_set
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports import Transport
from fedol.files import file_digest, private_folder, write_atomically, write_json
from fedol.knowledge import signing
from fedol.knowledge.ahead import knowledge_files
from fedol.knowledge.container import read_bounded
from fedol.methods import knowing
from fedol.methods.union import summed
from fedol.model import Architecture, ServerModel, load
from fedol.models.fitted import check_teachable
from fedol.progress import NOBODY, Observer
from fedol.robust import left_out
from fedol.runs.evaluation import account_for_labels, account_for_tests, diagnosed
from fedol.runs.eventlog import EventLog
from fedol.runs.folder import CARD, REPORT, SHARED, RunFolder, read_summary
from fedol.runs.provenance import command, provenance
from fedol.runs.votes import Hearing
from fedol.secret.opening import Opened, opened, read
from fedol.secret.sealed import CODEC
from fedol.text import Deadline, naming, steady
from fedol.training import drive, resolve_device

POLL = 0.5  # seconds between two looks at the inbox
LAST_LOOK = 10.0  # seconds that a look may go on after quorum or deadline: a flood of files must not delay the start
PAGES = (REPORT, SHARED, CARD)  # which say whether the model was scored
MODEL = "model.safetensors"
SUMS = "sums"  # why a roster is closed that was read from two sums
OnRoster = Callable[[Roster, dict[str, str]], None]


class Coordinator:
    """The stages of one server run. Each is skipped where its artefact is there."""

    def __init__(
        self,
        folder: TaskFolder,
        config: ServerConfig,
        out: Path,
        public: Path | None = None,
        start: Path | None = None,
        force: bool = False,
    ) -> None:
        self.task, self.config = folder.task, config
        if any(folder.task.clients.values()):
            signing.check_installed()  # now, not at the first arrival
        self.device = resolve_device(config.device)
        self.public = folder.samples(public)
        # Fitted on the public samples: the server sees no private one.
        known = self.task
        self.architecture = Architecture.on(
            self.public, config.server_model, known.classes, config.width, findings=known.findings
        )
        self.settings = config.distillation
        check_teachable(
            self.architecture.build()
        )  # a model that cannot be built is an error now, not after the deadline
        self._start = start
        private_folder(out)  # its votes, verdicts and pages tell about single clients
        self.folder = RunFolder.open(out, config, every_epoch=True, force=force)
        self.folder.publish = self.task if self.task.publish_targets else None
        write_json(out / "task.json", about_task(folder))
        self._roster_file = out / "roster.json"
        self._opened: Opened | None = None
        self.forgotten = ""  # a client whose name must not be written down, not even as part of the command
        self.roster = Roster.read(self._roster_file, time.time()).go_on()
        self.log = EventLog(out)
        self._minutes = Minutes(self.log, self.task, self.roster, config.hash)
        self._write_roster()

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.folder.path

    def test_set(self, path: Path) -> Labelled:
        """Labelled samples for ``run``; whatever is wrong with them is said now, not after the training."""
        return test_set(path, self.task, self.public)

    @property
    def sealed(self) -> bool:
        """Whether all that is here are files that only the task's helpers together can sum."""
        return self.task.secret is not None and self._opened is None

    def open_sums(self, parts: Sequence[Path]) -> Roster:
        """Take both helpers' sums instead of clients' files; a run that is made of others is not mixed with them."""
        if self.task.secret is None:
            raise InputError("The task names no helpers, so it has no sums; give the clients' files.")
        shares = [read(path, self.task) for path in parts]
        self._opened = opened(shares, self.task)
        copies = [self.out / "sums" / f"{share.helper}.part" for share in shares]
        pairs = list(zip(copies, parts, strict=True))
        if self.roster.closed:
            if not all(copy.exists() and copy.read_bytes() == path.read_bytes() for copy, path in pairs):
                raise FedolError(f"The run in {self.out} is made of other files than these sums; choose another --out.")
            return self.roster
        for copy, path in pairs:
            write_atomically(copy, path.read_bytes(), private=True)
        said = [(client.name, client.bytes, client.digest) for client in self._opened.clients]
        clients = {name: Arrival(f"{name}.fedol", size, CODEC, digest) for name, size, digest in said}
        self.roster = replace(self.roster, clients=clients).close(SUMS)
        self._write_roster()
        return self.roster

    def collect(self, files: list[Path]) -> Roster:
        """Take these files and no others; a run that is made of other files is not mixed with them."""
        if self.task.secret:
            raise InputError(
                "The task's files are sealed, and only sums of them can be learnt from: fedol helper sum, once by each "
                "helper, then fedol distill TASK --sums A.part B.part."
            )
        if not self.roster.closed:
            check_there(files)
            for path in files:
                try:
                    data = read_bounded(path, self.task.limit)
                    self.roster = self.roster.take(data, str(path), self.task, self._clients)
                except InputError as error:
                    self.roster = self.roster.refuse(str(path), str(error))
            self._close("at once")
        elif why := self.roster.unlike(files, self.task.limit):
            raise FedolError(
                f"The run in {self.out} is made of the files of {', '.join(self.roster.clients)}; {why}. Choose "
                f"another --out, or go on from this run with --resume {self.out}."
            )
        return self.roster

    def watch(
        self, inbox: Transport, quorum: int | None, deadline: float | None, on_roster: OnRoster = lambda r, a: None
    ) -> Roster:
        """Take files as they arrive until ``quorum`` clients are in, or ``deadline`` seconds have passed."""
        quorum = quorum or len(self.task.clients) or None
        if quorum is None and deadline is None:
            raise InputError("The task lists no clients, so say when to start: --quorum, --deadline or both.")
        if quorum is not None and 0 < len(self.task.clients) < quorum:
            listed = len(self.task.clients)
            raise InputError(f"A quorum of {quorum} is more than the clients that the task lists ({listed}); lower it.")
        ends = None if deadline is None else Deadline(deadline, self.roster.opened)

        def enough() -> bool:
            return quorum is not None and len(self.roster.clients) >= quorum

        def late() -> bool:
            return ends is not None and not ends.left

        while not self.roster.closed:
            last = late()  # what came in time is looked at once more
            self._look(inbox, lambda: enough() or late())
            on_roster(self.roster, inbox.arriving)
            if enough():
                self._close("quorum", inbox)
            elif last:
                self._close("deadline", inbox)
            elif inbox.ended:
                self._close(inbox.ended, inbox)
            else:
                time.sleep(POLL)
        return self.roster

    def _look(self, inbox: Transport, due: Callable[[], bool]) -> None:
        """Take what has come. The roster is written once, however many files there are."""
        before, since = self.roster, None
        try:
            for roster in inbox.scan(before, self.task, self._clients):
                self.roster = roster
                if since is None:
                    since = steady() if due() else None
                elif steady() - since > LAST_LOOK:
                    break
        finally:
            self._minutes.arriving(inbox.arriving)
            if self.roster != before:
                self._write_roster()

    def _close(self, reason: str, inbox: Transport | None = None) -> None:
        for name, why in inbox.arriving.items() if inbox else ():
            self.roster = self.roster.refuse(name, why)
        missing = sorted(set(self.task.clients) - set(self.roster.clients))
        self.roster = self.roster.miss(
            dict.fromkeys(missing, "the task lists this client, but no file of it was accepted")
        )
        if not self.roster.clients:
            self._write_roster()
            raise FedolError(f"No client is in, so there is nothing to learn from ({self.roster.said_of_refused()}).")
        self.roster = self.roster.close(reason)
        self._write_roster()

    def _write_roster(self) -> None:
        """Keep it, after the log: a decision that was written down twice is better than one that was not."""
        self._minutes.roster(self.roster)
        self.roster.write(self._roster_file)

    def run(self, observer: Observer = NOBODY, test: Labelled | None = None) -> dict[str, Any]:
        """Train on what was collected; a finished run's summary is read back, scored if it was not yet."""
        done = self.out / "summary.json"
        before = read_summary(done) if done.exists() else None
        if before is None or (test is not None and before.get("test") is None):
            started = time.perf_counter()
            learnt, hearing = self._train(observer)
            server = learnt.server
            if test is not None:
                account_for_tests(self.folder, {"server": server}, test)
            if hearing:
                account_for_labels(self.folder, hearing, server, self.public, left_out=left_out(learnt.screening))
            summary = federation_summary(self.task, self.config, self.roster, server, self.public, self._start, test)
            if test is not None:
                summary["history"] = diagnosed(self.folder, server.history, self.device, test)
            summary["screening"] = learnt.screening
            summary |= supplement(self.out, self.task)
            # Of this start: a resumed run had some before.
            summary["seconds"] = before["seconds"] if before else round(time.perf_counter() - started, 2)
            summary["provenance"] = provenance(self.config.seed, self.device)
            if self.forgotten:
                summary["provenance"] |= {"command": naming(self.forgotten).sub("CLIENT", command())}
            write_json(done, summary)
            self.log.append("trained", clients=len(self.roster.clients), model=file_digest(self.out / MODEL))
            for name in PAGES:
                (self.out / name).unlink(missing_ok=True)  # one without the score
        observer.finished(self.out)
        return read_summary(done)

    @property
    def _clients(self) -> Path:
        """Where the copies of the accepted files are."""
        return self.out / "clients"

    def _train(self, observer: Observer) -> tuple[Learnt, Hearing | None]:
        """The method on the accepted files, client by client, or on sums, where there is nobody to hear."""
        method = knowing(self.settings.method)
        missing = method.trainings(self.settings.iterations) - self.folder.finished()
        observer.stage("server", missing * self.settings.recipe.epochs)
        start = load(self._start, self.config.server_model).module if self._start else None
        if self._opened:
            taught = serve(
                summed(self._opened.sums),
                self.public,
                self.architecture,
                self.settings.recipe,
                self.config.seed,
                self.device,
                self.folder,
                start=start,
            )
            ((_, server),) = drive([taught], self.device, observer.epoch)
            self._keep(server)
            return Learnt(server), None
        files = [self._clients / f"{name}.fedol" for name in self.roster.clients]
        hearing = Hearing(self.task.rows, len(files), self.config.seed, self.settings.defence)
        process = learn(
            method,
            knowledge_files(files, self.task),
            self.public,
            self.architecture,
            self.settings,
            self.config.seed,
            self.device,
            self.folder,
            start=start,
            note=hearing.note,
        )
        ((_, learnt),) = drive([process], self.device, observer.epoch)
        self._keep(learnt.server)
        return learnt, hearing

    def _keep(self, server: ServerModel) -> None:
        """The last iteration's model is the run's."""
        last = self.folder.checkpoint(len(server.history))
        write_atomically(self.out / MODEL, last.read_bytes())
