"""What may be said of all clients together: of two, an average is the other one's own number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedol.report.tables import count
from fedol.robust.screening import left_out

CROWD = 3  # clients, of which none can work out from an average and its own number what any other said


def crowd(summary: dict[str, Any]) -> bool:
    """Whether the server heard enough clients for what they said together to be told to each of them."""
    return len(summary["clients"]) - len(left_out(summary.get("screening", []))) >= CROWD


def promises(clients: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The privacy that clients promise, and instead of their names how many promise it."""
    found = Counter(client["privacy"] for client in clients if client.get("privacy"))
    return [{"client": count(number, "client"), "privacy": privacy} for privacy, number in sorted(found.items())]
