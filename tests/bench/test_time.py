"""Time limits and estimates: what begins, what does not, and how long the rest will take."""

import json
import time
from contextlib import ExitStack

import pytest
from small_bench import SMOKE, TINY, Silent, run

from fedol.bench.plan import OutOfTime
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.errors import FedolError
from fedol.methods import METHODS, Method, find


def test_after_the_time_limit_nothing_new_begins(smoke, tmp_path):
    summary = run(tmp_path, time_limit=0.0, methods="local,feddf", seeds=2)
    assert summary == {"cells": 4, "finished": 0, "elsewhere": 0, "failed": []}


def test_a_time_limit_is_a_number_of_seconds(tmp_path):
    for limit in (float("nan"), -1):
        with pytest.raises(FedolError, match="time limit must be at least 0 seconds"):
            run(tmp_path, methods="local", time_limit=limit)


def test_no_more_groups_begin_than_end_in_time(tmp_path, monkeypatch):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "local", "seeds": 4}), tmp_path)
    plans = bench.plans()
    assert len(plans) == 4
    monkeypatch.setattr(bench.folder, "speed", lambda device, width: plans[0].total / 10)  # ten seconds a group
    in_time = {seconds: bench._in_time(plans, time.monotonic() + seconds, least=0) for seconds in (5, 25, 100)}
    assert [len(batch) for batch in in_time.values()] == [0, 2, 4]
    assert bench._in_time(plans, time.monotonic(), least=1) == plans[:1] and bench._in_time(plans, None, 0) == plans


def test_of_a_group_that_is_too_long_some_cells_begin(tmp_path, monkeypatch):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine,fedet"}), tmp_path)
    (group,) = bench.plans()
    two = bench._plan(group.cells[:2]).total
    monkeypatch.setattr(bench.folder, "speed", lambda device, width: two / 1000)  # far more than the test takes
    now = time.monotonic()
    in_time = {seconds: bench._in_time([group], now + seconds, least=1) for seconds in (0, 1100, 9000)}
    assert [[cell.method for cell in batch[0].cells] for batch in in_time.values()] == [
        ["feddf"], ["feddf", "mine"], ["feddf", "mine", "fedet"],
    ]  # fmt: skip
    assert bench._in_time([group], now, least=0) == []
    # It was faster than expected, so that the rest begins too, without its clients, which are there.
    batches, run_batch = [], bench._run
    monkeypatch.setattr(bench, "_run", lambda batch, *rest: batches.append(batch) or run_batch(batch, *rest))
    assert bench.run(Silent(), time_limit=1100)["finished"] == 3
    assert [[len(part.cells), part.clients] for (part,) in batches] == [[2, TINY["clients"]], [1, 0]]


def test_rounds_all_begin_because_they_go_on_where_they_stopped(tmp_path, monkeypatch):
    bench = Bench(Spec.from_json({**SMOKE, "kind": "rounds", "rounds": 2, "methods": "feddf,mine"}), tmp_path)
    (group,) = bench.plans()
    monkeypatch.setattr(bench.folder, "speed", lambda device, width: group.total / 1000)
    assert len(group.cells) == 2 and bench._in_time([group], time.monotonic() + 1, least=1) == [group]


def test_an_estimate_goes_by_models_of_the_same_width(tmp_path):
    run(tmp_path, methods="feddf")
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf"}), tmp_path)
    device, width = "cpu", bench.spec.config.width
    known = bench.folder.speed(device, width)
    assert known and bench._known_speed() == known and bench.folder.speed(device, width + 1) is None
    bench.folder.time("wide", device, width + 1, work=6e9, seconds=3.0)
    for number, broken in enumerate(["[]", "{}", f'{{"device": "cpu", "width": {width}, "work": "much"}}', "{"]):
        (tmp_path / "timing" / f"{number}.json").write_text(broken)  # an estimate is not worth an error
    assert (bench.folder.speed(device, width), bench.folder.speed(device, width + 1)) == (known, 2e9)
    bench.folder.time("none", device, width + 2, work=0.0, seconds=0.0)
    assert bench.folder.speed(device, width + 2) is None


def test_models_of_several_widths_say_nothing_about_one(tmp_path):
    wide = {"settings": {"width": 2 * Spec.from_json(SMOKE).config.width}}
    assert run(tmp_path, methods="feddf", variants=[{}, wide])["finished"] == 2
    assert not list((tmp_path / "timing").glob("*.json"))


def test_a_start_out_of_time_knows_how_fast_it_went(tmp_path):
    class Slow(Silent):
        def epoch(self, epoch):
            super().epoch(epoch)
            if self.done > 0.5 * self.total:
                raise OutOfTime

    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine"}), tmp_path)
    progress = Slow()
    assert bench.run(progress)["finished"] < 2
    (timing,) = (json.loads(path.read_text()) for path in (tmp_path / "timing").iterdir())
    assert timing["work"] == progress.done > 0 and bench.estimates()[0]["timed"]


def test_the_time_is_estimated_where_there_is_one_public_image(tmp_path):
    few = {**TINY, "public": 1}
    assert Bench(Spec.from_json({**SMOKE, "settings": few, "methods": "local"}), tmp_path).estimates()[0]["seconds"] > 0


def test_predictions_count_as_work_where_nothing_of_the_batch_failed(tmp_path, monkeypatch):
    failures = iter([True, False])

    def sometimes(knowledge, settings):
        if next(failures):
            raise ValueError("once")
        return find("feddf").targets(knowledge, settings)

    monkeypatch.setitem(METHODS, "sometimes", Method("sometimes", targets=sometimes))
    work = []
    monkeypatch.setattr(BenchFolder, "time", lambda self, name, device, width, done, seconds: work.append(done))
    settings = {**TINY, "client_models": ["mlp"]}
    wanted = {**SMOKE, "methods": "feddf,sometimes", "partitions": "iid,classes:5", "settings": settings}
    bench = Bench(Spec.from_json(wanted), tmp_path)
    failing, whole = bench.plans()
    assert len(bench.run(Silent())["failed"]) == 1
    assert work[0] < failing.work
    assert work[1] == pytest.approx(whole.total)


def test_what_failed_is_not_left_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "broken", Method("broken", targets=lambda knowledge, settings: 1 / 0))
    bench = Bench(Spec.from_json({**SMOKE, "methods": "broken,fedavg", "partitions": "iid,classes:5"}), tmp_path)
    first, second = bench.plans()
    found, train = [], Bench._train

    def watched(self, batch, progress, failed):
        if failed:  # the second batch
            left = [bench._plan([first.cells[1]]), bench._plan(second.cells)]
            found.append((progress.total - progress.done, sum(group.work for group in left)))
        train(self, batch, progress, failed)

    monkeypatch.setattr(Bench, "_train", watched)
    bench.folder.open()
    with ExitStack() as other:
        assert bench.folder.claim([first.cells[1]], other)  # FedAvg's clients: the broken one alone begins
        bench.run(Silent())
    ((left, expected),) = found
    assert left == pytest.approx(expected)
