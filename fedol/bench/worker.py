"""Run a benchmark from a JSON file without the packages of the command line (rich, typer): for a borrowed GPU.

``python -m fedol.bench.worker --spec spec.json --out DIR``; ``fedol bench ... --spec FILE`` writes such a file.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fedol.bench.plan import Progress
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.errors import FedolError, InputError
from fedol.models.registry import check_settings
from fedol.text import clock, say, shown


def read_values(path: Path, trust_code: bool = False, **settings: Any) -> dict[str, Any]:
    """A benchmark's file, as ``Spec.from_json`` reads it; ``settings`` that are not None replace its own.

    It may name models that are code (``my.py:Net``) only with ``trust_code``.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise InputError(f"The benchmark {path} cannot be read: {error}.") from None
    if not isinstance(values, dict) or not isinstance(values.get("settings", {}), dict):
        raise InputError(f'The benchmark {path} must be like {{"kind": "one-round", "settings": {{"width": 16}}}}.')
    variants = values.get("variants", [])
    for part in (values, *(variants if isinstance(variants, list) else ())):
        if isinstance(part, dict) and isinstance(part.get("settings"), dict):
            check_settings(part["settings"], str(path), trust_code)
    given = {name: value for name, value in settings.items() if value is not None}
    return {**values, "settings": {**values.get("settings", {}), **given}}


def read_spec(path: Path, trust_code: bool = False, **settings: Any) -> Spec:
    """The benchmark of a file."""
    return Spec.from_json(read_values(path, trust_code, **settings))


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when all cells are finished, 3 when some are left to do, 1 when some failed, 2 for an error."""
    parser = argparse.ArgumentParser(prog="fedol.bench.worker", description="Run a benchmark from a JSON file.")
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
