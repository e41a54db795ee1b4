"""Several rounds for cells, all advancing together, one round at a time.

Round 1 is the one-shot method. Before each later one the server's knowledge goes back: a knowledge method's clients
learn its predictions on the public set (or, as in FedCC, the target that it learnt itself) and then their private data
again; a parameter method's clients start from the average. Servers continue from their weights; every training has a
fresh optimiser.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from fedol.bench.cells import TEACHER, Cell
from fedol.bench.evaluation import test_accuracy
from fedol.bench.one_round import Result
from fedol.bench.store import BenchFolder, measured
from fedol.distillation import Learnt
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario, Scheme
from fedol.files import read_json, write_json
from fedol.methods import Client, Lesson
from fedol.methods.sides import guarded
from fedol.model import ServerModel, load
from fedol.training import OnEpoch, Process, drive

T = TypeVar("T")


class Course:
    """One cell on its way through the rounds. Every finished round is a folder, its history written last."""

    def __init__(self, cell: Cell, scenario: Scenario, folder: BenchFolder) -> None:
        self.cell, self._folder = cell, folder
        self._scheme = Scheme.of(scenario.under(cell.config))
        self._scenario = self._scheme.scenario
        last = folder.last_round(cell)
        kept = folder.rounds(cell) / f"{last:02d}" / "history.json"
        self.history: list[Result] = read_json(kept) if last else []
        if not measured(self.history):
            raise FedolError(f"{kept} is no history of rounds.", kept)

    @property
    def round(self) -> int:
        """The round under way."""
        return len(self.history) + 1

    @property
    def result(self) -> Result | None:
        """The cell's, once all its rounds are finished."""
        asked = self.history[: self.cell.rounds]
        return {"accuracy": asked[-1]["accuracy"], "history": asked} if len(asked) == self.cell.rounds else None

    def clients(self) -> Iterator[tuple[int, Process[Client]]]:
        """The clients that have not finished this round yet; those of the first are there already."""
        missing = [k for k in range(self.cell.config.clients) if not self._client(k, self.round).exists()]
        if not missing:
            return
        server = self._last()
        if self._scheme.method.combine:
            for k in missing:
                yield k, self._scheme.client(k, Lesson(self.round, server.module))
            return
        feedback = server.predict_log_proba(self._scenario.public).exp()
        targets = self._scheme.teacher(self._uploads(self.round - 1)).targets(1, None).soft
        heeded = self._scheme.method.feedback(feedback, targets)
        if self.cell.feedback == TEACHER:
            feedback = targets / targets.sum(1, keepdim=True)  # Fed-ET's sum to more than one
        for k in missing:
            own = load(self._client(k, self.round - 1), self._scheme.architecture(k).model)
            yield k, self._scheme.client(k, Lesson(self.round, own.module, feedback, heeded, self.cell.feedback_epochs))

    def heard(self, k: int, client: Client) -> None:
        """Client k has finished this round."""
        client.send(self._uploads(self.round)[k])
        client.model.save(self._client(k, self.round))

    def server(self) -> Process[Learnt]:
        """The server's part of this round."""
        start = self._last().module if self.round > 1 else None
        name = f"{self.cell.method} round {self.round}"
        return self._scheme.server(self._uploads(self.round), name=name, start=start, round=self.round)

    def finish(self, server: ServerModel) -> None:
        """Keep this round; the ones before are not needed any more."""
        record = {"round": self.round, "accuracy": test_accuracy(server, self._scenario)}
        here = self._path(self.round)
        server.save(here / "server.safetensors")
        write_json(here / "history.json", [*self.history, record])
        for number in range(1, self.round):
            shutil.rmtree(self._path(number), ignore_errors=True)
        self.history.append(record)

    def _last(self) -> ServerModel:
        """The server after the round before."""
        config = self.cell.config
        spec = config.parameter_model if self._scheme.method.combine else config.server_model
        server = load(self._path(self.round - 1) / "server.safetensors", spec)
        server.device = self._scenario.device
        return server

    def _path(self, number: int) -> Path:
        return self._folder.rounds(self.cell) / f"{number:02d}"

    def _client(self, k: int, number: int) -> Path:
        cached = self._folder.client(self.cell.clients, k)
        return cached if number == 1 else self._path(number) / cached.name

    def _uploads(self, number: int) -> list[Path]:
        cached = [self._folder.upload(self.cell.clients, k) for k in range(self.cell.config.clients)]
        return cached if number == 1 else [self._path(number) / path.name for path in cached]


def run(
    cells: Sequence[tuple[Cell, Scenario]], folder: BenchFolder, on_epoch: OnEpoch, deadline: float | None = None
) -> Iterator[tuple[Cell, Result | FedolError]]:
    """Yield each cell's result when its last round is finished; no round begins that would end after the deadline."""
    courses, took = [], 0.0
    for cell, scenario in cells:
        try:
            courses.append(Course(cell, scenario, folder))
        except FedolError as error:
            yield cell, error
    while True:
        for course in list(courses):
            if result := course.result:  # perhaps since an earlier start, which others of its last round outlasted
                yield course.cell, result
                courses.remove(course)
        if not courses or (deadline is not None and time.monotonic() + took >= deadline):
            return
        began, device = time.monotonic(), cells[0][1].device
        failed: dict[Course, FedolError] = {}
        parts = [
            (course, k, guarded(part))
            for course, clients in _begun(courses, lambda course: list(course.clients()), failed)
            for k, part in clients
        ]
        yield from ((course.cell, error) for course, error in failed.items())
        for position, client in drive([part for _, _, part in parts], device, on_epoch):
            course, k, _ = parts[position]
            if isinstance(client, FedolError):
                if course not in failed:
                    yield course.cell, client
                failed[course] = client
            else:
                course.heard(k, client)
        unread: dict[Course, FedolError] = {}
        going = list(_begun([course for course in courses if course not in failed], Course.server, unread))
        yield from ((course.cell, error) for course, error in unread.items())
        for position, learnt in drive([guarded(part) for _, part in going], device, on_epoch):
            course = going[position][0]
            if isinstance(learnt, FedolError):
                yield course.cell, learnt
                failed[course] = learnt
            else:
                course.finish(learnt.server)
        courses = [course for course, _ in going if course not in failed]
        took = time.monotonic() - began


def _begun(
    courses: Sequence[Course], begin: Callable[[Course], T], failed: dict[Course, FedolError]
) -> Iterator[tuple[Course, T]]:
    """What each course begins with; one whose files cannot be read has failed, and stops no other."""
    for course in courses:
        try:
            yield course, begin(course)
        except FedolError as error:
            failed[course] = error
