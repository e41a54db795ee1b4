"""The cost analysis as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedol.bench.cells import FEEDBACK_EPOCHS
from fedol.bench.sheets import Sheet, settings_in_words
from fedol.methods import LOCAL, title


def _big(value: float) -> str:
    """A count of operations for people: 440 T."""
    for unit in ("", " k", " M", " G", " T"):
        if value < 1000 or unit == " T":
            break
        value /= 1000
    return f"{value:.3g}{unit}" if value < 1000 else f"{value:,.0f}{unit}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.3f}" if value == 0 or value >= 1e4 else f"{value / 1e6:.2g}"  # little is not nothing


# The columns of a cost table: heading, value of a row, and how it is written. One without any value is left out.
COSTS: list[tuple[str, str, Callable[[float], str]]] = [
    ("up, MB", "up_bytes", _megabytes),
    ("down, MB", "down_bytes_first", _megabytes),
    ("down later, MB", "down_bytes_later", _megabytes),
    ("paper, MiB", "paper_mb", "{:.2f}".format),
    ("client FLOPs", "client_flops", _big),
    ("client FLOPs later", "client_flops_later", _big),
    ("server FLOPs", "server_flops", _big),
    ("client s", "client_seconds", "{:.1f}".format),
    ("server s", "server_seconds", "{:.1f}".format),
]


def cost_sheet(table: dict[str, Any], number: int) -> Sheet:
    """What a round costs, by method."""
    columns = [column for column in COSTS if any(row.get(column[1]) is not None for row in table["rows"])]
    rows = [
        [title(row["method"]), *("–" if row.get(key) is None else word(row[key]) for _, key, word in columns)]
        for row in table["rows"]
    ]
    where = " and ".join(sorted({row["seconds_on"] for row in table["rows"] if row.get("seconds_on")}))
    note = (
        "Per client and round; 1 MB is 10⁶ bytes, 1 MiB 2²⁰. Later is a round after the first, where there are more: a "
        f"knowledge method's clients then also train {FEEDBACK_EPOCHS} epochs on the server's predictions for "
        "the public images (FedHKT-style: for those where it agrees with its teacher, so at most that). Uploads are "
        + _sent(table["rows"])
        + "; what comes down later in a knowledge method is reckoned, predictions for all public images in the same "
        "codec; the public images, which everyone holds beforehand, are not counted. Training costs three forward "
        "passes a sample; predictions, one pass each, are left out. "
        + (f"Seconds are those of trainings side by side on {where}, not what each takes alone. " if where else "")
        + table["explanation"]
    )
    heads = ["", *(head for head, _, _ in columns)]
    records = [
        {"method": title(row["method"]), **{key: row.get(key) for _, key, _ in columns}} for row in table["rows"]
    ]
    words = f"Cost: {settings_in_words(table['settings'])}"
    return Sheet(f"cost-{number}", words, heads, rows, note.strip(), records)


def _sent(rows: list[dict[str, Any]]) -> str:
    """Where the sizes of the uploads come from."""
    sending = [row for row in rows if row["method"] != LOCAL]
    made = [title(row["method"]) for row in sending if not row["measured"]]
    if not made:
        return "measured files"
    return "files as they would be sent" + (f" in {', '.join(made)}, else measured" if len(made) < len(sending) else "")
