"""What later rounds start from: the server, the clients and the uploads of the round before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedol.bench import rounds
from fedol.bench.plan import Progress
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.federation.scenario import Scenario, Scheme
from fedol.methods import Lesson, Method
from fedol.methods.fedavg import Weights

SETTINGS = {"clients": 3, "public": 60, "epochs": 1, "iterations": 2, "device": "cpu", "width": 4, "codec": "float32"}
THREE = {"kind": "rounds", "preset": "quick", "partitions": "iid", "settings": SETTINGS, "methods": "feddf"}


def weights(model: nn.Module) -> list[Tensor]:
    return [value.clone() for value in model.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_later_rounds_continue_and_learn_what_the_round_before_taught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[Tensor] | None] = []
    ended: list[list[Tensor]] = []
    shuffled: list[int] = []
    learned_from: list[tuple[int, list[Tensor]]] = []
    sent: dict[tuple[int, int], list[Tensor]] = {}
    taught: list[list[Path]] = []
    serve, uploads, heard, lesson = Scheme.server, Scheme.uploads, rounds.Course.heard, rounds.Lesson

    def watched_server(self: Any, *args: Any, start: nn.Module | None = None, **named: Any) -> Iterator[Any]:
        started.append(None if start is None else weights(start))
        process = serve(self, *args, start=start, **named)
        training = next(process)
        shuffled.append(training.seed)
        with pytest.raises(StopIteration) as end:
            process.send((yield training))
        ended.append(weights(end.value.value.server.module))
        return end.value.value

    def watched_uploads(self: Any, paths: list[Path]) -> Any:
        taught.append(list(paths))
        return uploads(self, paths)

    def watched_heard(self: Any, k: int, client: Any) -> None:
        sent[self.round, k] = weights(client.model.module)
        heard(self, k, client)

    def watched_lesson(number: int, model: nn.Module, *rest: Any) -> Any:
        learned_from.append((number, weights(model)))
        return lesson(number, model, *rest)

    monkeypatch.setattr(Scheme, "server", watched_server)
    monkeypatch.setattr(Scheme, "uploads", watched_uploads)
    monkeypatch.setattr(rounds.Course, "heard", watched_heard)
    monkeypatch.setattr(rounds, "Lesson", watched_lesson)
    Bench(Spec.from_json({**THREE, "rounds": 3, "feedback_epochs": 1}), tmp_path).run(Progress(lambda *_: None))
    assert started[0] is None and same(started[1] or [], ended[0]) and same(started[2] or [], ended[1])
    assert len(set(shuffled)) == 3  # every round in another order
    third = [model for number, model in learned_from if number == 3]
    assert len(third) == 3 and all(same(model, sent[2, k]) for k, model in enumerate(third))
    # The servers of rounds 1, 2 and 3 and, between them, what is sent back in rounds 2 and 3.
    assert len(taught) == 5 and taught[0] == taught[1] != taught[2] == taught[3] != taught[4]


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_later_rounds_of_averages_average_their_own_clients_and_start_from_the_last_average(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: dict[int, list[list[Tensor]]] = {}
    sent: dict[int, list[list[Tensor]]] = {}
    sizes: dict[int, list[int]] = {}
    averaged: list[list[Tensor]] = []
    train, finish = Weights.work, rounds.Course.finish

    def watched_client(self: Any, site: Any, k: int, lesson: Lesson | None = None) -> Iterator[Any]:
        number = lesson.round if lesson else 1
        process = train(self, site, k, lesson)
        job = next(process)
        begun.setdefault(number, []).append(weights(job.model))
        with pytest.raises(StopIteration) as end:
            process.send((yield job))
        sent.setdefault(number, []).append(weights(end.value.value.model.module))
        sizes.setdefault(number, []).append(len(site.shares[k]))
        return end.value.value

    def watched_finish(self: Any, server: Any) -> None:
        averaged.append(weights(server.module))
        finish(self, server)

    monkeypatch.setattr(Weights, "work", watched_client)
    monkeypatch.setattr(rounds.Course, "finish", watched_finish)
    uneven = {**THREE, "partitions": "dirichlet:0.5", "methods": method, "rounds": 3}
    Bench(Spec.from_json(uneven), tmp_path).run(Progress(lambda *_: None))
    assert len(averaged) == 3 and len(set(sizes[1])) == 3
    for number, server in enumerate(averaged, start=1):
        share = torch.tensor(sizes[number]).double() / sum(sizes[number])
        for mine, *theirs in zip(server, *sent[number], strict=True):
            expected = sum(s * value.double() for s, value in zip(share, theirs, strict=True))
            rounding = 1e-6 if mine.is_floating_point() else 0.5  # counters are whole
            assert (mine.double() - expected).abs().max() <= rounding
    for number in (2, 3):
        assert len(begun[number]) == 3 and all(same(start, averaged[number - 2]) for start in begun[number])


def test_fedhkts_clients_learn_feedback_where_the_server_agrees_with_its_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons: list[Lesson] = []
    taught: list[Tensor] = []
    teacher = Method.teacher

    def watched_lesson(*values: Any) -> Lesson:
        lessons.append(Lesson(*values))
        return lessons[-1]

    def watched_teacher(self: Any, *given: Any) -> Any:
        found = teacher(self, *given)
        taught.append(found.targets(1, None).soft)
        return found

    monkeypatch.setattr(rounds, "Lesson", watched_lesson)
    monkeypatch.setattr(Method, "teacher", watched_teacher)
    Bench(Spec.from_json({**THREE, "methods": "fedhkt", "rounds": 2}), tmp_path).run(Progress(lambda *_: None))
    assert len(lessons) == 3
    for lesson in lessons:
        assert lesson.feedback is not None and lesson.heeded is not None
        assert torch.equal(lesson.heeded, lesson.feedback.argmax(1) == taught[0].argmax(1))
        assert 0 < lesson.heeded.sum() < len(lesson.heeded)


def test_the_result_is_the_last_rounds_not_the_best(tmp_path: Path) -> None:
    (cell,) = Spec.from_json({**THREE, "rounds": 2}).cells()
    course = rounds.Course(cell, Scenario(cell.config), BenchFolder(tmp_path))
    course.history = [{"round": 1, "accuracy": 0.5}, {"round": 2, "accuracy": 0.3}]
    assert course.result == {"accuracy": 0.3, "history": course.history}
