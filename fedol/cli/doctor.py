"""``fedol doctor``, what this machine can do: versions, devices and how fast they are, and what is not installed."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from fedol import __version__
from fedol.cli.options import Json
from fedol.progress import watched

if TYPE_CHECKING:
    import torch


def doctor(as_json: Json = False) -> None:
    """Show versions, devices, what is fast here and what is missing, in one screen.

    Example: fedol doctor
    """
    from fedol.report.live import LiveProgress

    with LiveProgress(quiet=as_json):
        found = diagnose()
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        Console().print(doctor_text(found), highlight=False, soft_wrap=True)


NEEDED = ("torch", "numpy", "safetensors", "zstandard", "scikit-learn", "rich", "typer", "jinja2")
# The package, what it is for, and how to get it.
EXTRAS = {
    "pillow": ("datasets that are folders of images", "fedol[images]"),
    "matplotlib": ("figures of partitions, runs and comparisons", "fedol[plot]"),
    "tensorboard": ("fedol run --log tensorboard", "fedol[tensorboard]"),
    "mlflow-skinny": ("fedol run --log mlflow", "fedol[mlflow]"),
    "wandb": ("fedol run --log wandb", "fedol[wandb]"),
    "pandas": ("results as frames", "fedol[frame]"),
    "pyarrow": ("tables in Parquet files", "fedol[parquet]"),
    "onnx": ("models as ONNX files", "fedol[onnx]"),
    "onnxruntime": ("clients whose model is an ONNX file", "fedol[onnx]"),
    "cryptography": ("signed uploads, and from version 47 on sums in secret", "fedol[secret]"),
    "opacus": ("fedol client fit --dp-epsilon", "fedol[privacy]"),
    "uvicorn": ("uploads over HTTPS: fedol serve --listen", "fedol[https]"),
    "flwr": ("federations over a network, on Flower", "fedol[flower]"),
}
SIDE, LONG_ENOUGH = 1024, 0.2  # of the matrices that are multiplied to time a device, and for how many seconds


def diagnose() -> dict[str, Any]:
    """Everything as plain values."""
    from fedol.training import resolve_device

    chosen = resolve_device("auto")
    return {
        "fedol": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: installed(name) for name in NEEDED},
        "devices": [_device(device, chosen) for device in watched(devices(), "measuring")],
        "extras": [
            {"package": name, "version": installed(name), "for": purpose, "install": f"pip install '{extra}'"}
            for name, (purpose, extra) in EXTRAS.items()
        ],
    }


def devices() -> list[torch.device]:
    """Every device that torch sees."""
    import torch

    found = [torch.device("cpu")]
    found += [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append(torch.device("mps"))
    return found


def installed(package: str) -> str | None:
    """Its version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device(device: torch.device, chosen: torch.device) -> dict[str, Any]:
    from fedol.runs.provenance import device_name, processor

    known = f"{processor()}, {os.cpu_count()} cores" if device.type == "cpu" else device_name(device)
    return {"device": str(device), "name": known, "chosen": device.type == chosen.type, "gflops": _speed(device)}


def _speed(device: torch.device) -> float:
    """Billions of float32 operations a second, from as many matrix products as fit into a moment."""
    import torch

    a = torch.ones(SIDE, SIDE, device=device)
    _finish(a @ a)  # the first one also sets the library up
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < LONG_ENOUGH:
        _finish(a @ a)
        count += 1
    return round(2 * SIDE**3 * count / elapsed / 1e9, 1)


def _finish(product: torch.Tensor) -> None:
    """Wait for the device: reading one number does, on every kind of it."""
    product[0, 0].item()


FAST, MODEST = 5_000, 200  # billions of operations a second: a graphics card, a desktop's processor


def doctor_text(found: dict[str, Any]) -> Text:
    """One screen of 80 columns."""
    text = Text()
    text.append(f"FedOL {found['fedol']}", "bold")
    text.append(f", Python {found['python']}, {found['system']}\n")
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
        text.append(f"{extra['package']:<14}{extra['version'] or '':<10}{extra['for']}\n")
        if not extra["version"]:
            text.append(f"{'':<16}{extra['install']}\n", "dim")
    return text


def _advice(speed: float) -> str:
    """What is fast here."""
    if speed >= FAST:
        return "Fast for everything, `fedol run --preset paper` included."
    if speed >= MODEST:
        return "Fast for small images and models; the paper's job takes hours to days."
    return "Fast for small jobs such as `fedol run`; use a graphics card for the paper's."
