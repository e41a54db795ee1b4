"""``fedol doctor``: what this machine can do."""

from __future__ import annotations

import json

from fedol.cli.options import Json


def doctor(as_json: Json = False) -> None:
    """Show versions, devices, what is fast here and what is missing, in one screen.

    Example: fedol doctor
    """
    from rich.console import Console

    from fedol.cli.diagnosis import diagnose, doctor_text
    from fedol.report.live import LiveProgress

    with LiveProgress(quiet=as_json):
        found = diagnose()
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        Console().print(doctor_text(found), highlight=False, soft_wrap=True)
