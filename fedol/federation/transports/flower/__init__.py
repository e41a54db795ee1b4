"""Flower as the way knowledge travels: thin apps over the same bytes and the same server.

``flwr`` is an extra, is imported only in this folder, and only where it is needed.
"""

from __future__ import annotations

from importlib.util import find_spec

from fedol.errors import FedolError


def check_installed() -> None:
    """One clear sentence where Flower is missing."""
    if find_spec("flwr") is None:
        raise FedolError("This needs Flower: pip install 'fedol[flower]'.")
