"""The folder of a benchmark. Names are hashes of settings, so folders of several machines merge by copying.

cells.jsonl                   finished cells, one a line: what ``pack`` makes of cells/, and what is kept and published
cells/<hash>.json             a finished cell that is not packed yet; it counts before a packed one of the same hash
lock                          held by the process that packs, empty
clients/<hash>/03.fedol       what client 3 uploaded
clients/<hash>/03.json        its record: test accuracy, seconds, bytes; written after the upload, which it marks whole
clients/<hash>/03.safetensors its model, written last; only ensembles and later rounds need it
clients/<hash>/lock           held by the process that trains these clients or servers from them, empty
servers/<hash>.safetensors    the server of an unfinished cell after its last iteration
rounds/<hash>/04/             an unfinished cell of several rounds after its fourth
timing/<name>.json            how much was computed in how many seconds, for estimates
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from fedol.bench.cells import Cell, digest
from fedol.errors import FedolError
from fedol.files import intact, read_header, read_json, sweep, write_atomically, write_json
from fedol.methods import CEILING
from fedol.progress import watched
from fedol.runs.locks import Taken, hold

RESULT = {"hash": str, "method": str, "settings": dict, "seed": int, "accuracy": int | float}  # what every cell has
ELSEWHERE = "move it out of this folder"  # what helps where a file is no result
PACKED = "cells.jsonl"
Result = dict[str, Any]


class BenchFolder:
    """Finished and half-finished work of benchmarks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packed_then: tuple[Any, dict[str, Result], list[FedolError]] = (None, {}, [])

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
        return self.result(cell) is not None

    def result(self, cell: Cell) -> Result | None:
        """A cell's result, where it is there and whole."""
        with suppress(FedolError):
            return self._result(self.cell(cell))
        return self._packed()[0].get(cell.hash)  # read last: packing writes this file before it removes the other

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

    def results(self) -> Iterator[Result]:
        """Every finished cell, in the order of hashes; ``file`` says where it is.

        Of two results for one hash that of ``cells/`` counts, and in ``cells.jsonl`` the later line: what was copied
        or appended last, as where one file replaces another.
        """
        own = {}
        for path in watched(sorted((self.path / "cells").glob("*.json")), "reading cells"):
            try:
                own[path.stem] = {**self._result(path), "file": f"cells/{path.name}"}
            except FedolError:
                if path.exists():
                    raise  # else another process has packed it meanwhile
        packed, damaged = self._packed()
        if damaged:
            raise damaged[0]
        found = {name: {**result, "file": f"{PACKED}#{name}"} for name, result in packed.items()} | own
        yield from (found[name] for name in sorted(found))

    def pack(self) -> int:
        """Move the finished cells into ``cells.jsonl``, and say how many it has.

        A process killed on the way leaves every result in at least one place; others may go on computing.
        """
        if not self.path.is_dir():
            raise FedolError(f"There is no folder {self.path}; give the --out of a benchmark.")
        try:
            lock = hold(self.path / "lock")
        except Taken:
            raise FedolError(f"Another process is packing {self.path}; wait until it has finished.") from None
        if lock is None:  # two at once could each drop what the other has just packed
            raise FedolError(f"{self.path} cannot be locked, so it is not packed; copy it to a local disk first.")
        with ExitStack() as held:
            held.callback(lock.release)
            sweep(self.path, PACKED)
            found = list(self.results())
            if not found:
                raise FedolError(f"There is no finished cell in {self.path}.")
            lines = ({name: value for name, value in result.items() if name != "file"} for result in found)
            write_atomically(self.path / PACKED, b"".join(map(_line, lines)))
            for result in found:
                if not result["file"].startswith(PACKED):
                    (self.path / result["file"]).unlink(missing_ok=True)
        return len(found)

    def _packed(self) -> tuple[dict[str, Result], list[FedolError]]:
        """The results in ``cells.jsonl`` by hash, and what is wrong with its other lines; read again if it changed."""
        path = self.path / PACKED
        try:
            with path.open("rb") as file:
                state = os.fstat(file.fileno())
                key = state.st_ino, state.st_size, state.st_mtime_ns
                if key != self._packed_then[0]:
                    self._packed_then = (key, *_parse(path, file.read()))
        except (FileNotFoundError, NotADirectoryError):
            return {}, []
        except OSError as error:
            raise FedolError(f"{path} cannot be read ({error.strerror}); {ELSEWHERE}.") from None
        return self._packed_then[1:]

    def _result(self, path: Path) -> Result:
        found = _checked(read_json(path, ELSEWHERE), str(path), ELSEWHERE)
        # A copy under another name would count as a further seed, and one over another's as that one's result.
        if path.stem != found["hash"]:
            raise FedolError(f"{path} is not named as the result in it, {found['hash']}; {ELSEWHERE}.")
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


def _line(result: Result) -> bytes:
    """A result on one line, its entries in the order that they have in a file of its own."""
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n"
    return text.encode(errors="backslashreplace")  # half of a surrogate pair: as in ``write_json``


def _parse(path: Path, content: bytes) -> tuple[dict[str, Result], list[FedolError]]:
    """The results in the lines of a file by hash, and what is wrong with the other lines."""
    found: dict[str, Result] = {}
    damaged = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        where, advice = f"{path}, line {number},", "remove that line"
        try:
            result = _checked(json.loads(line), where, advice)
            found[result["hash"]] = result
        except FedolError as error:
            damaged.append(error)
        except (RecursionError, ValueError) as error:
            damaged.append(FedolError(f"{where} cannot be read ({error}); {advice}."))
    return found, damaged


def _checked(found: Any, where: str, advice: str) -> Result:
    """What was read, if it is a whole result."""
    whole = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in RESULT.items())
    whole = whole and isinstance(found["settings"].get("method"), str) and 0 <= found["accuracy"] <= 1
    if not (whole and _measured(found)):
        raise FedolError(f"{where} is no result of a benchmark; {advice}.")
    if found["hash"] != (name := digest(found["settings"])):
        raise FedolError(f"{where} does not have the hash of its settings, {name}; {advice}.")
    result: Result = found
    return result


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
