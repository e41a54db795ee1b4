"""The doctor's findings for a terminal."""

from __future__ import annotations

from typing import Any

from rich.text import Text

FAST, MODEST = 5_000, 200  # billions of operations a second: a graphics card, a desktop's processor


def doctor_text(found: dict[str, Any]) -> Text:
    """One screen of 80 columns."""
    text = Text()
    text.append(f"FedOL {found['fedol']}", "bold")
    text.append(f", Python {found['python']}\n{found['system']}\n\n")
    missing = [name for name, version in found["packages"].items() if version is None]
    versions = ", ".join(f"{name} {version}" for name, version in found["packages"].items() if version)
    text.append(f"{versions}\n")
    if missing:
        text.append(f"Not installed, but needed: {', '.join(missing)}; pip install fedol\n", "bold red")
    text.append("\nDevices\n", "bold")
    for device in found["devices"]:
        text.append(f"{'→' if device['chosen'] else ' '} {device['device']:<7} {device['gflops']:>8,.0f} GFLOP/s  ")
        text.append(f"{device['name'].strip()}\n")
    text.append(f"  {_advice(max(device['gflops'] for device in found['devices']))}\n")
    text.append("\nOptional parts\n", "bold")
    for extra in found["extras"]:
        mark, style = ("✓", "green") if extra["version"] else ("–", "yellow")
        text.append(f"{mark} ", style)
        text.append(f"{extra['package']:<13}{extra['version'] or '':<10}{extra['for']}\n")
        if not extra["version"]:
            text.append(f"{'':<15}{extra['install']}\n", "dim")
    return text


def _advice(speed: float) -> str:
    """What is fast here."""
    if speed >= FAST:
        return "Fast for everything, `fedol run --preset paper` included."
    if speed >= MODEST:
        return "Fast for small images and models; the paper's job takes hours to days."
    return "Fast for small jobs such as `fedol run`; use a graphics card for the paper's."
