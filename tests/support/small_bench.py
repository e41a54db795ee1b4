"""The smoke size of every benchmark on digits: its settings, a run of it and what comes out."""

from fedol.bench.cells import digest
from fedol.bench.plan import Progress
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.files import write_json
from fedol.methods import compared
from fedol.report.bench_pages import collect, sheets, write

TINY = {"clients": 3, "public": 60, "epochs": 1, "iterations": 2, "device": "cpu", "width": 4, "codec": "float32"}
ONE_ROUND, ROUNDS = compared("one-round"), compared("rounds")
SMOKE = {"kind": "one-round", "preset": "quick", "partitions": "dirichlet:0.5", "settings": TINY}


class Silent(Progress):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__(lambda *told: self.told.append(told), every=0.0)
        self.told = []
        self.jobs = []

    def epoch(self, epoch):
        self.jobs.append(epoch.job.name)
        super().epoch(epoch)


def run(out, progress=None, time_limit=None, side_by_side=1, **changes):
    bench = Bench(Spec.from_json({**SMOKE, **changes}), out)
    return bench.run(progress or Silent(), time_limit, side_by_side)


def report(out):
    numbers = collect(out)
    write(out, numbers)
    return sheets(numbers), numbers


def results(out):
    return {(r["method"], r["settings"].get("rounds", 1)): r for r in BenchFolder(out).results()}


def rewritten(folder, result):
    """A cell with other settings, under their name."""
    result["hash"] = digest(result["settings"])
    write_json(folder / "cells" / f"{result['hash']}.json", result)
    return folder / "cells" / f"{result['hash']}.json"
