"""Run a benchmark: groups of cells that share their data, some at a time; what is finished is not done twice.

``python -m fedol.bench.runner --spec spec.json --out DIR`` needs no package of the command line (rich, typer), as on a
borrowed GPU; ``fedol bench ... --spec FILE`` writes such a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from fedol.bench import one_round, rounds
from fedol.bench.cells import Cell
from fedol.bench.plan import TRAINING, OutOfTime, Plan, Progress, forward_flops, plan, plans
from fedol.bench.spec import Spec, read_spec
from fedol.bench.store import BenchFolder
from fedol.bench.summary import label
from fedol.data import Dataset, Reading, load
from fedol.errors import FedolError, InputError
from fedol.federation.scenario import Scenario
from fedol.files import write_json
from fedol.methods import CEILING
from fedol.methods.sides import guarded
from fedol.models import parameter_count
from fedol.runs.provenance import commit, device_name, provenance
from fedol.text import clock, say, shown
from fedol.training import Job, Recipe, drive, fit


class Bench:
    """A benchmark in its folder."""

    def __init__(self, spec: Spec, out: Path, dataset: Dataset | None = None) -> None:
        dataset = dataset or load(spec.config.dataset, spec.config.data_dir, Reading.of(spec.config))
        self.spec, self.folder = spec.on(dataset), BenchFolder(out)
        # Work and speed depend on no partition; an even one cannot be dealt only where no other can either.
        self._scenario = Scenario(replace(self.spec.cells()[0].config, partition="iid"), dataset)
        self.device = self._scenario.device

    def plans(self) -> list[Plan]:
        """What is missing, group by group."""
        return plans(self.spec, self._scenario, self.folder)

    def estimates(self) -> list[dict[str, Any]]:
        """What is missing and how long it takes here, for people and programs."""
        self.folder.check()
        missing = self.plans()
        if not missing:
            return []  # the speed, which may have to be measured, matters to nobody
        known = self._known_speed()
        speed = self._measured_speed() if known is None else known
        return [group.as_json(speed, known is not None) for group in missing]

    def run(self, progress: Progress, time_limit: float | None = None, side_by_side: int = 1) -> dict[str, Any]:
        """Compute what is missing; after the limit (seconds) whatever is unfinished is left for the next time.

        ``side_by_side``: how many groups train at once. More keep a GPU busier, and more is lost when it is cut off.
        Several processes may work in one folder: each takes what no other has begun.
        """
        if time_limit is not None and not time_limit >= 0:
            raise InputError(f"The time limit must be at least 0 seconds, but is {time_limit:g}.")
        if side_by_side < 1:
            raise InputError(f"At least one group must train at a time, but side by side are {side_by_side}.")
        commit()  # of the code that runs, not of what is checked out when a cell is written
        began, todo = time.monotonic(), self.plans()
        failed: list[str] = []
        if todo:
            self.folder.open()
        progress.deadline = None if time_limit is None else began + time_limit
        progress.begin(sum(group.work for group in todo), sum(group.epochs for group in todo))
        progress.flops = self._flops()
        tried: set[str] = set()
        with contextlib.suppress(OutOfTime):
            least = 1  # something of the first group always begins, so that short leases get on
            while True:
                with contextlib.ExitStack() as held:
                    free = list(islice(self._free(todo, tried, held), side_by_side))
                    if not (batch := self._in_time(free, progress.deadline, least)):
                        break
                    self._run(batch, progress, failed)
                tried |= {cell.hash for group in batch for cell in group.cells}
                todo = [group for group in todo if any(cell.hash not in tried for cell in group.cells)]
                left = [
                    cells for group in todo if (cells := self._missing(group.cells, tried))
                ]  # less what others finished
                progress.total = progress.done + sum(self._plan(cells).work for cells in left)
                least = 0
        hashes = {cell.hash: self.folder.finished(cell) for cell in self.spec.cells()}
        counts = {"cells": len(hashes), "finished": sum(hashes.values()), "elsewhere": self._taken(todo)}
        return {**counts, "failed": failed}

    def _free(self, todo: list[Plan], tried: set[str], held: contextlib.ExitStack) -> Iterator[Plan]:
        """What of each group no other process works on, claimed as it is asked for; less what is finished or failed."""
        for group in todo:
            with contextlib.ExitStack() as mine:
                free = self.folder.claim(self._missing(group.cells, tried), mine)  # no lock where nothing is to do
                if not (cells := self._missing(free)):  # what another process has finished meanwhile
                    continue
                held.enter_context(mine.pop_all())
                yield group if cells == group.cells else self._plan(cells)

    def _taken(self, todo: list[Plan]) -> int:
        """How many unfinished cells other processes work on."""
        count = 0
        for group in todo:
            with contextlib.ExitStack() as held:  # of one group, for a moment: others may be looking too
                free = self.folder.claim(group.cells, held)
            count += sum(cell not in free for cell in self._missing(group.cells))
        return count

    def _missing(self, cells: Sequence[Cell], tried: Collection[str] = ()) -> list[Cell]:
        return [cell for cell in cells if cell.hash not in tried and not self.folder.finished(cell)]

    def _plan(self, cells: list[Cell]) -> Plan:
        return plan(cells, self._scenario, self.folder)

    def _in_time(self, batch: list[Plan], deadline: float | None, least: int) -> list[Plan]:
        """What of these groups is expected to end in time, trained together: of the last perhaps some cells only."""
        speed = self._known_speed()
        left = None if deadline is None or speed is None else (deadline - time.monotonic()) * speed
        while left is not None and batch and sum(group.total for group in batch) > left:
            *others, last = batch
            if len(last.cells) > 1 and last.cells[-1].rounds == 1:  # rounds go on where they stopped: all may begin
                batch = [*others, self._plan(last.cells[:-1])]
            elif len(batch) > least:
                batch = others
            else:
                break
        return batch

    def _measured_speed(self) -> float:
        """FLOPs per second on this device by a few batches of the server: small clients have less."""
        here, size = self._scenario, self.spec.config.batch_size
        inputs = here.public.take(torch.arange(4 * size) % len(here.public))  # of few samples the same again
        classes = torch.zeros(len(inputs), dtype=torch.long)
        job = Job("speed", here.server.build(), inputs, classes, here.server.prepare, Recipe(1, size), alone=True)
        (result,) = fit([job], self.device)
        return len(inputs) * TRAINING * forward_flops(here.server) / result.seconds

    def _known_speed(self) -> float | None:
        """FLOPs per second on this device, from what is finished in the folder."""
        return self.folder.speed(device_name(self.device), self.spec.config.width)

    def _run(self, batch: list[Plan], progress: Progress, failed: list[str]) -> None:
        """Some groups. What fails is added to ``failed``, also before the time is over, and stops nothing else."""
        started, before, predicted = time.monotonic(), progress.done, 0.0
        count = len(failed)
        try:
            self._train(batch, progress, failed)
            predicted = 0.0 if len(failed) > count else sum(group.predictions for group in batch)
        finally:  # also when the time is over: the next start then takes on no more than it can
            widths = {cell.config.width for group in batch for cell in group.cells}
            if len(widths) == 1:
                work, elapsed = progress.done - before + predicted, time.monotonic() - started
                self.folder.time(batch[0].cells[0].hash, device_name(self.device), widths.pop(), work, elapsed)

    def _train(self, batch: list[Plan], progress: Progress, failed: list[str]) -> None:
        """Clients, then servers, then rounds; each cell is kept as it is finished."""
        groups = []
        for group in batch:
            cells, config = group.cells, group.cells[0].config
            try:
                groups.append((cells, Scenario(config, self._scenario.dataset)))
            except FedolError as error:  # what one seed deals out, another may not
                said = f"{cells[0].place}: {error}"
                if said not in failed and any(cell.method != CEILING for cell in cells):
                    failed.append(said)
                if free := [cell for cell in cells if cell.method == CEILING]:  # which has no clients
                    groups.append((free, Scenario(replace(config, partition="iid"), self._scenario.dataset)))
        if not groups:
            return
        clients: dict[str, str] = {}
        try:
            one_round.train_clients(groups, self.folder, progress.epoch, clients)
        finally:  # also when the time is over
            failed += clients.values()
        pairs = [(cell, scenario) for cells, scenario in groups for cell in cells]
        ready = [(cell, here) for cell, here in pairs if cell.method == CEILING or cell.clients not in clients]
        single, several = ([pair for pair in ready if (pair[0].rounds == 1) is once] for once in (True, False))
        processes = [guarded(one_round.server(cell, scenario, self.folder)) for cell, scenario in single]
        done = ((single[position][0], result) for position, result in drive(processes, self.device, progress.epoch))
        for results in (done, rounds.run(several, self.folder, progress.epoch, progress.deadline)):
            for cell, result in results:
                if isinstance(result, FedolError):
                    failed.append(f"{label(cell.settings)}, {cell.place}: {result}{self._cure(cell, result)}")
                else:
                    self._finish(cell, result, progress)

    def _cure(self, cell: Cell, error: FedolError) -> str:
        """What helps where a file that we keep is damaged, unless the error says it (of a full disk, for instance)."""
        if error.file is None or error.complete:
            return ""
        if error.file.is_relative_to(self.folder.rounds(cell)):  # a round is made of the one before, which is gone
            return f" Remove the folder {self.folder.rounds(cell)}, and the same command begins its rounds again."
        damaged = any(error.file.is_relative_to(self.folder.path / name) for name in ("clients", "servers"))
        return " Remove that file, and the same command makes it again." if damaged else ""

    def _finish(self, cell: Cell, result: dict[str, Any], progress: Progress) -> None:
        """Write the result, then drop what only served to continue."""
        head = {"hash": cell.hash, "method": cell.method, "settings": cell.settings}
        write_json(self.folder.cell(cell), {**head, **result, **provenance(cell.config.seed, self.device)})
        self.folder.forget(cell)
        progress.cell(cell, result["accuracy"])

    def _flops(self) -> dict[int, float]:
        """What training on one sample costs, by a model's number of parameters."""
        found = {}
        for config, _ in self.spec.variants:
            models = {*map(config.client_model, range(config.clients)), config.server_model, config.parameter_model}
            for architecture in map(self._scenario.under(config).architecture, models):
                count = parameter_count(architecture.build())
                found[count] = TRAINING * float(forward_flops(architecture))
        return found


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when all cells are finished, 3 when some are left to do, 1 when some failed, 2 for an error."""
    parser = argparse.ArgumentParser(prog="fedol.bench.runner", description="Run a benchmark from a JSON file.")
    parser.add_argument("--spec", type=Path, required=True, help="the benchmark")
    parser.add_argument("--out", type=Path, required=True, help="its folder; the same again continues")
    parser.add_argument("--data-dir", help="where the dataset's files are")
    parser.add_argument("--device", help="auto, cpu, cuda or mps")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="begin nothing that would end later")
    parser.add_argument(
        "--side-by-side", type=int, default=1, metavar="N", help="partitions and seeds to train at once"
    )
    parser.add_argument("--trust-code", action="store_true", help="run models that are code, named in the file")
    parser.add_argument("--dry-run", action="store_true", help="print what would be computed")
    options = parser.parse_args(arguments)
    try:
        spec = read_spec(options.spec, options.trust_code, data_dir=options.data_dir, device=options.device)
        bench = Bench(spec, options.out)
        if options.dry_run:
            for line in bench.estimates():
                about = clock(line["seconds"])
                names = ", ".join(line["rows"])
                say(f"{line['partition']}, seed {line['seed']}: {line['clients']} clients, {names}; about {about}")
            return 0
        summary = bench.run(Progress(), options.time_limit, options.side_by_side)
    except FedolError as error:
        print(f"Error: {shown(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; what is finished is kept. The same command continues.", file=sys.stderr)
        return 130
    print(json.dumps(summary))
    return 1 if summary["failed"] else 0 if summary["finished"] == summary["cells"] else 3


if __name__ == "__main__":
    sys.exit(main())
