"""The folder of a benchmark. Names are hashes of settings, so folders of several machines merge by copying.

cells/<hash>.json             a finished cell
clients/<hash>/03.fedol       what client 3 uploaded
clients/<hash>/03.json        its record: test accuracy, seconds, bytes; written after the upload, which it marks whole
clients/<hash>/03.safetensors its model, written last; only ensembles and later rounds need it
clients/<hash>/lock           held by the process that trains these clients or servers from them, empty
servers/<hash>.safetensors    the server of an unfinished cell after its last iteration
rounds/<hash>/04/             an unfinished cell of several rounds after its fourth
timing/<name>.json            how much was computed in how many seconds, for estimates
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from fedol.errors import FedolError
from fedol.experiments.cells import Cell, digest
from fedol.files import intact, read_header, read_json, sweep, write_json
from fedol.locks import Taken, hold
from fedol.methods import CEILING
from fedol.watching import watched

RESULT = {"hash": str, "method": str, "settings": dict, "seed": int, "accuracy": int | float}  # what every cell has
ELSEWHERE = "move it out of this folder"  # what helps where a file is no result


class BenchFolder:
    """Finished and half-finished work of benchmarks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> None:
        """Make sure that results belong here."""
        if (self.path / "config.json").exists():
            raise FedolError(f"{self.path} holds a run and is no benchmark's folder; choose another --out.")
        if self.path.exists() and not self.path.is_dir():
            raise FedolError(f"The folder {self.path} cannot be written (it is a file); choose another.")

    def open(self) -> None:
        """Make sure that results belong here and can be written, before anything is computed."""
        self.check()
        try:
            (self.path / "cells").mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self.path / "cells").close()
        except OSError as error:
            raise FedolError(f"The folder {self.path} cannot be written ({error.strerror}); choose another.") from None

    def claim(self, cells: Sequence[Cell], held: ExitStack) -> list[Cell]:
        """Those cells on whose clients no other process works; while ``held`` is open none will."""
        free = set()
        for clients in sorted({cell.clients for cell in cells}):
            try:
                lock = hold(self.path / "clients" / clients / "lock")
            except Taken:
                continue
            free.add(clients)
            if lock is not None:  # as it is on a file system without locks, where nobody knows who writes what
                held.callback(lock.release)
                self._sweep([cell for cell in cells if cell.clients == clients])
        return [cell for cell in cells if cell.clients in free]

    def _sweep(self, cells: Sequence[Cell]) -> None:
        """Remove what a killed process has left half-written."""
        for cell in cells:
            if cell.method == CEILING:  # which other groups may be making, under other locks
                continue
            for folder in (self.path / "clients" / cell.clients, self.rounds(cell)):
                sweep(folder)
            for file in (self.cell(cell), self.server(cell)):
                sweep(file.parent, file.name)

    def cell(self, cell: Cell) -> Path:
        """A cell's result."""
        return self.path / "cells" / f"{cell.hash}.json"

    def finished(self, cell: Cell) -> bool:
        """Whether a cell's result is there and whole; one that is damaged is computed again."""
        with suppress(FedolError):
            self._result(self.cell(cell))
            return True
        return False

    def upload(self, clients: str, k: int) -> Path:
        """What client k sent."""
        return self.path / "clients" / clients / f"{k:02d}.fedol"

    def client(self, clients: str, k: int) -> Path:
        """Client k's model."""
        return self.path / "clients" / clients / f"{k:02d}.safetensors"

    def record(self, clients: str, k: int) -> Path:
        """What is known about client k."""
        return self.path / "clients" / clients / f"{k:02d}.json"

    def server(self, cell: Cell) -> Path:
        """The server of a cell under way."""
        return self.path / "servers" / f"{cell.hash}.safetensors"

    def rounds(self, cell: Cell) -> Path:
        """A cell of several rounds under way: one folder per round."""
        return self.path / "rounds" / cell.hash

    def last_round(self, cell: Cell) -> int:
        """The last round that is finished, of a cell of several under way; 0 before the first."""
        finished = [path.parent.name for path in self.rounds(cell).glob("*/history.json")]
        return max((int(name) for name in finished if name.isdecimal()), default=0)

    def heard(self, cell: Cell) -> int:
        """How many clients have finished the round under way, of those after the first."""
        under_way = self.rounds(cell) / f"{self.last_round(cell) + 1:02d}"
        return sum(1 for _ in under_way.glob("[0-9]*.safetensors"))

    def iterations(self, cell: Cell) -> int:
        """How many iterations the server of a cell under way has finished."""
        with suppress(FedolError), intact(self.server(cell), ELSEWHERE):
            return len(read_header(self.server(cell))["history"])
        return 0

    def forget(self, cell: Cell) -> None:
        """Drop what only served to continue a cell that is finished now."""
        self.server(cell).unlink(missing_ok=True)
        shutil.rmtree(self.rounds(cell), ignore_errors=True)

    def results(self) -> Iterator[dict[str, Any]]:
        """Every finished cell."""
        for path in watched(sorted((self.path / "cells").glob("*.json")), "reading cells"):
            yield {**self._result(path), "file": f"cells/{path.name}"}

    def _result(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = read_json(path, ELSEWHERE)
        whole = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in RESULT.items())
        whole = whole and isinstance(found["settings"].get("method"), str) and 0 <= found["accuracy"] <= 1
        if not (whole and _measured(found)):
            raise FedolError(f"{path} is no result of a benchmark; {ELSEWHERE}.")
        # A copy under another name would count as a further seed, and one over another's as that one's result.
        if not path.stem == found["hash"] == digest(found["settings"]):
            raise FedolError(f"{path} is not named as the result in it, {digest(found['settings'])}; {ELSEWHERE}.")
        return found

    def time(self, name: str, device: str, width: int, work: float, seconds: float) -> None:
        """Remember how long something took; nothing of what was hardly any work."""
        if work <= 0:
            return
        entry = {"device": device, "width": width, "work": work, "seconds": seconds}
        write_json(self.path / "timing" / f"{name}.json", entry)

    def speed(self, device: str, width: int) -> float | None:
        """Work per second so far, on this kind of device with models of this width: a GPU is slow with narrow ones."""
        work = seconds = 0.0
        for path in (self.path / "timing").glob("*.json"):
            with suppress(FedolError, KeyError, TypeError):  # an estimate is not worth an error
                time = read_json(path)
                if (time["device"], time["width"]) == (device, width):
                    work, seconds = work + time["work"], seconds + time["seconds"]
        return work / seconds if work and seconds else None


def _measured(found: dict[str, Any]) -> bool:
    """Whether a result has an accuracy for each of its clients, and for each round that it is said to have."""
    rounds = found["settings"].get("rounds", 1)
    records = [found.get("clients", [])] + ([found.get("history")] if rounds != 1 else [])
    return all(map(measured, records)) and (rounds == 1 or len(found["history"]) == rounds)


def measured(records: Any) -> bool:
    """Whether these are records with an accuracy each."""
    return isinstance(records, list) and all(
        isinstance(one, dict) and isinstance(one.get("accuracy"), int | float) for one in records
    )
