"""What later rounds start from: the server, the clients and the uploads of the round before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedol.experiments import rounds
from fedol.experiments.progress import Progress
from fedol.experiments.runner import Bench
from fedol.experiments.spec import Spec

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
    scheme = rounds.Predictions
    serve, teacher, heard, lesson = scheme.server, scheme.teacher, rounds.Course.heard, rounds.Lesson

    def watched_server(self: Any, *args: Any, start: nn.Module | None = None, **named: Any) -> Iterator[Any]:
        started.append(None if start is None else weights(start))
        process = serve(self, *args, start=start, **named)
        training = next(process)
        shuffled.append(training.seed)
        with pytest.raises(StopIteration) as end:
            process.send((yield training))
        ended.append(weights(end.value.value.module))
        return end.value.value

    def watched_teacher(self: Any, uploads: list[Path]) -> Any:
        taught.append(list(uploads))
        return teacher(self, uploads)

    def watched_heard(self: Any, k: int, client: Any) -> None:
        sent[self.round, k] = weights(client.model.module)
        heard(self, k, client)

    def watched_lesson(number: int, model: nn.Module, *rest: Any) -> Any:
        learned_from.append((number, weights(model)))
        return lesson(number, model, *rest)

    monkeypatch.setattr(scheme, "server", watched_server)
    monkeypatch.setattr(scheme, "teacher", watched_teacher)
    monkeypatch.setattr(rounds.Course, "heard", watched_heard)
    monkeypatch.setattr(rounds, "Lesson", watched_lesson)
    Bench(Spec.from_json({**THREE, "rounds": 3, "feedback_epochs": 1}), tmp_path).run(Progress(lambda *_: None))
    assert started[0] is None and same(started[1] or [], ended[0]) and same(started[2] or [], ended[1])
    assert len(set(shuffled)) == 3  # every round in another order
    third = [model for number, model in learned_from if number == 3]
    assert len(third) == 3 and all(same(model, sent[2, k]) for k, model in enumerate(third))
    # The servers of rounds 1, 2 and 3 and, between them, what is sent back in rounds 2 and 3.
    assert len(taught) == 5 and taught[0] == taught[1] != taught[2] == taught[3] != taught[4]
