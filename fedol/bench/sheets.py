"""The tables of a benchmark for any medium, as text and as numbers: after one round, above FedOL's, over rounds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedol.bench.records import Record, one_round_records, over_fedol_records, rounds_records
from fedol.bench.summary import first_above
from fedol.methods import METHODS, title
from fedol.text import Medium, shown
from fedol.training import Recipe

BESIDE = ("paper", "difference")  # columns that belong to the one before them
OTHERS = "†"  # other clients taught it than the FedOL of the same seed
BEST = "the best of a column is bold, among methods that see no labels"


@dataclass(frozen=True)
class Sheet:
    """A table of text for people, and its numbers for programs."""

    name: str  # of its files
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)  # what CSV has of it
    best: frozenset[tuple[int, int]] = frozenset()  # rows and columns of the highest numbers

    def markdown(self, mark: bool = False) -> str:
        """As Markdown, with the best in bold if they are to be marked."""
        lines = [f"### {shown(self.title, 'markdown')}", "", _line(self.columns)]
        lines.append("|" + "|".join(["---", *["---:"] * (len(self.columns) - 1)]) + "|")
        for row in self._words("markdown", ("**", "**") if mark else ("", "")):
            lines.append(f"| {' | '.join(row)} |")
        return "\n".join([*lines, "", *([shown(self.note, "markdown"), ""] if self.note else [])])

    def latex(self) -> str:
        """As a LaTeX table for the package booktabs, with the best in bold."""
        head = " & ".join(shown(column, "latex") for column in self.columns)
        rows = [" & ".join(row) + r" \\" for row in self._words("latex", (r"\textbf{", "}"))]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\toprule",
                rf"{head} \\",
                r"\midrule",
                *rows,
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{shown('. '.join(part for part in (self.title, self.note) if part), 'latex')}}}",
                r"\end{table}",
                "",
            ]
        )

    def html(self) -> str:
        """As a table of a page or a notebook, with the best in bold."""
        align = ["left", *["right"] * (len(self.columns) - 1)]
        head = "".join(
            f'<th style="text-align:{side}">{shown(column, "html")}</th>'
            for column, side in zip(self.columns, align, strict=True)
        )
        rows = (
            "".join(f'<td style="text-align:{side}">{word}</td>' for word, side in zip(row, align, strict=True))
            for row in self._words("html", ("<b>", "</b>"))
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f'<caption style="caption-side:bottom;text-align:left">{shown(self.note, "html")}</caption>'
        return f"<h4>{shown(self.title, 'html')}</h4><table>{caption}<tr>{head}</tr>{body}</table>"

    def _words(self, medium: Medium, around: tuple[str, str]) -> Iterator[list[str]]:
        """The rows as a medium shows them, the best with something around them."""
        for place, row in enumerate(self.rows):
            words = [shown(cell, medium) for cell in row]
            yield [around[0] + each + around[1] if (place, k) in self.best else each for k, each in enumerate(words)]

    def csv(self) -> str:
        """As CSV: numbers, so that nothing has to be taken apart."""
        text, names = io.StringIO(), dict.fromkeys(name for record in self.records for name in record)
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: shown(value, "cell") if isinstance(value, str) else value for key, value in record.items()}
            for record in self.records
        )
        return text.getvalue()


def _line(cells: list[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(shown(cell, 'markdown') for cell in cells)} |"


def over_fedol(table: dict[str, Any], number: int) -> Sheet:
    """How far the rows are above FedOL's."""
    partitions = table["partitions"]
    lines = {row["label"]: [row["cells"].get(p, {}).get("over_fedol") for p in partitions] for row in table["rows"]}
    count, over = over_seeds([entry for line in lines.values() for entry in line if entry])
    rows = [
        [name, *(spread(entry, count, "+") + mark(entry) if entry else "" for entry in line)]
        for name, line in lines.items()
        if any(line)
    ]
    note = (
        f"{measure(table['settings'])}: points above {table['fedol']}, seed by seed, so on the same split of the data; "
        f"{over}."
    )
    note += f" {others}" if (others := other_clients(table)) else ""
    title = f"Above FedOL: {settings_in_words(table['settings'])}"
    return Sheet(f"over-fedol-{number}", title, ["", *partitions], rows, note, over_fedol_records(table))


def over_seeds(entries: list[dict[str, Any]]) -> tuple[bool, str]:
    """Whether the numbers of seeds differ, and in words what the entries are."""
    counts = {entry["n"] for entry in entries}
    if counts == {1}:
        return False, "n = 1 seed"
    several = "n seeds (no ± where n = 1)" if len(counts) > 1 else f"n = {next(iter(counts))} seeds"
    return len(counts) > 1, f"mean ± standard deviation over {several}"


def one_round(table: dict[str, Any], number: int) -> Sheet:
    """Every method on every partition, the paper's numbers beside ours."""
    entries = [(partition, entry) for row in table["rows"] for partition, entry in row["cells"].items()]
    beside = {partition for partition, entry in entries if entry["paper"]}  # where the paper has numbers
    count, over = over_seeds([entry for _, entry in entries])
    columns = [""]
    for partition in table["partitions"]:
        columns += [partition, *(BESIDE if partition in beside else ())]
    rows = []
    for row in table["rows"]:
        words = [row["label"]]
        for partition in table["partitions"]:
            entry = row["cells"].get(partition)
            words.append("" if entry is None else spread(entry, count) + mark(entry["over_fedol"]))
            if partition in beside:
                words += ["", ""] if entry is None else [_paper(entry), _signed(entry["difference"])]
        rows.append(words)
    note = (
        f"{measure(table['settings'])} in %, {over}"
        + ("; the paper's beside it; the difference in points" if beside else "")
        + ". The number of epochs is the server's."
    )
    spreads = [f"{100 * entry['over_clients']:.1f}" for _, entry in entries if entry["over_clients"] is not None]
    note += f" Local's standard deviation over the clients of a seed: {', '.join(spreads)}." if spreads else ""
    note += f" {others}" if (others := other_clients(table)) else ""
    title = f"One round: {settings_in_words(table['settings'])}"
    best = {(place, columns.index(partition)) for partition, places in best_rows(table).items() for place in places}
    return Sheet(f"one-round-{number}", title, columns, rows, note, one_round_records(table), frozenset(best))


def best_rows(table: dict[str, Any]) -> dict[str, set[int]]:
    """The rows of the highest number of each partition; a control, which may see labels, is not one."""
    return {
        partition: highest([None if _control(row["method"]) else row["cells"].get(partition) for row in table["rows"]])
        for partition in table["partitions"]
    }


def highest(entries: Sequence[Record | None]) -> set[int]:
    """The places of the highest mean of two or more: several where they print alike, to the tenth of a point."""
    means = {place: round(100 * entry["mean"], 1) for place, entry in enumerate(entries) if entry is not None}
    return {place for place, mean in means.items() if mean == max(means.values())} if len(means) > 1 else set()


def _control(method: str) -> bool:
    return method in METHODS and METHODS[method].control


def rounds(panel: dict[str, Any], number: int) -> Sheet:
    """Every baseline round by round, and when it passes FedOL."""
    length = max(len(line["rounds"]) for line in panel["lines"])
    columns = ["", *(str(n) for n in range(1, length + 1)), "passes FedOL in round"]
    fedol = [panel["fedol"]] if panel["fedol"] else []
    count, over = over_seeds([*(point for line in panel["lines"] for point in line["rounds"]), *fedol])
    rows = [["FedOL, its one round", spread(level, count), *[""] * length] for level in fedol]
    for line in panel["lines"]:
        name = line["label"] + (f" (n = {line['rounds'][0]['n']})" if count else "")
        ours = [spread(point, count=False) for point in line["rounds"]]
        passes = str(line["passes_fedol"] or "never") if panel["fedol"] else ""
        rows.append([name, *ours, *[""] * (length - len(ours)), passes])
        if line["paper"]:
            curve = [f"{100 * value:.1f}" for value in line["paper"][:length]]
            their = panel["paper_fedol"]
            passes = str(first_above(line["paper"], their) or "never") if their else ""
            rows.append([f"{title(line['method'])}, paper", *curve, *[""] * (length - len(curve)), passes])
    level = "" if fedol else " FedOL: not run."
    theirs = f" FedOL's one round in the paper: {100 * panel['paper_fedol']:.1f} %." if panel["paper_fedol"] else ""
    return Sheet(
        f"rounds-{number}",
        f"Rounds: {panel['partition']}, {settings_in_words(panel['settings'])}",
        columns,
        rows,
        f"{measure(panel['settings'])} in %, {over}.{level}{theirs}",
        rounds_records(panel),
    )


def has(table: dict[str, Any], value: str) -> bool:
    """Whether any cell of a table has it: the paper's number, or FedOL's with the same seeds."""
    return any(entry[value] for row in table["rows"] for entry in row["cells"].values())


def other_clients(table: dict[str, Any]) -> str:
    """What the mark means, where other clients taught some row than the FedOL that it is compared with."""
    compared = [entry["over_fedol"] for row in table["rows"] for entry in row["cells"].values()]
    if not any(over["other_clients"] for over in compared if over):
        return ""
    return (
        f"{OTHERS} With a seed whose clients were trained at another time than FedOL's, and one came out a point or "
        "more apart."
    )


def settings_in_words(settings: dict[str, Any]) -> str:
    """What all cells of a table share."""
    clients, epochs = settings["clients"], settings["epochs"]  # None where a ceiling stands alone
    words = [f"{settings['dataset']}, width {settings['width']}"]
    words += [] if clients is None else [f"{clients} client{'s' if clients != 1 else ''}"]
    words += [f"{settings['public']:,} public samples"]
    words += [] if epochs is None else [f"{epochs} epoch{'s' if epochs != 1 else ''}"]
    words += ["flips and crops"] if settings.get("augment") else []
    words += [str(settings["optimiser"]).upper()] if settings.get("optimiser", "adam") not in (None, "adam") else []
    schedule = settings.get("schedule") or "constant"
    words += [] if schedule == "constant" else [f"{schedule} schedule"]
    words += [] if settings["lr"] == Recipe.lr else [f"learning rate {settings['lr']:g}"]
    words += [] if settings["batch_size"] == Recipe.batch_size else [f"batches of {settings['batch_size']}"]
    return ", ".join(words)


def measure(settings: dict[str, Any]) -> str:
    """What the accuracies of a table are of."""
    held_out = settings["development"]
    return f"Accuracy on {held_out:,} samples held out of the private ones" if held_out else "Test accuracy"


def spread(entry: dict[str, Any], count: bool = True, sign: str = "") -> str:
    """Mean and spread; with ``count``, of how many."""
    number = f" (n = {entry['n']})" if count else ""
    spread = "" if entry["std"] is None else f" ± {100 * entry['std']:.1f}{number}"
    return f"{100 * entry['mean']:{sign}z.1f}{spread}"


def mark(over: dict[str, Any] | None) -> str:
    """Says of a difference that other clients taught the two sides."""
    return OTHERS if over and over["other_clients"] else ""


def _paper(entry: dict[str, Any]) -> str:
    return f"{100 * entry['paper']['mean']:.1f} ± {100 * entry['paper']['std']:.1f}" if entry["paper"] else ""


def _signed(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+z.1f}"
