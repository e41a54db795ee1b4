"""What ``fedol.compare`` gives back: a table of methods for a notebook, a script, a paper or a plot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedol.bench.comparison import Row, Table, word
from fedol.errors import MissingExtra, unknown
from fedol.methods import find, title
from fedol.report.terminal import count
from fedol.text import shown


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods by partition, with every value of a grid: mean ± standard deviation, and differences seed by seed."""

    table: Table
    out: Path  # the benchmark's folder, which has every cell
    failed: tuple[str, ...] = ()  # what has no result, and why

    def against(self, method: str) -> Comparison:
        """The same numbers, with the differences to another of its methods."""
        names = [row.method for row in self.table.rows]
        wanted = find(method).same_as or method
        if wanted not in names:
            raise unknown("method in this comparison", wanted, names)
        return replace(self, table=replace(self.table, against=wanted))

    def to_frame(self, per_seed: bool = False) -> Any:
        """A pandas ``DataFrame``: a line per method, value of the grid and partition, or for each of the seeds.

        Accuracies go from 0 to 1. ``difference`` is how far they are above the method that all are compared with,
        paired by seed; ``difference_n`` says over how many.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtra("A frame needs pandas: pip install 'fedol[frame]'.") from None
        return pandas.DataFrame(self.table.runs() if per_seed else self.table.records())

    def to_markdown(self) -> str:
        """Both tables as Markdown, the best in bold."""
        return "\n".join(sheet.markdown(mark=True) for sheet in self.table.sheets())

    def to_latex(self) -> str:
        """Both tables as LaTeX for the package booktabs, the best in bold."""
        return "\n".join(sheet.latex() for sheet in self.table.sheets())

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib ``Figure``: bars of methods, or lines over the values of a grid; into a file as well."""
        from fedol.report.plots import comparison_figure, save

        figure = comparison_figure(self.table)
        if path is not None:
            save(figure, Path(path))
        return figure

    def report(self) -> Path:
        """Make the page of the folder, which has every cell in it, and say where it is."""
        from fedol.report.pages import write_report

        return write_report(self.out)

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        rows, partitions = self.table.rows, self.table.partitions
        seeds = [entry["n"] for row in rows for p in partitions if (entry := self.table.entry(row, p))]
        size = f"{count(len(rows), 'row')} × {count(len(partitions), 'partition')}, n = {max(seeds, default=0)}"
        lost = f"; {len(self.failed)} failed" if self.failed else ""
        return f"Comparison({size}; {', '.join(map(self._leader, partitions))}{lost})"

    def _leader(self, partition: str) -> str:
        """The best of a partition in a few words."""
        places = sorted(self.table.best(partition)) or range(min(1, len(self.table.rows)))
        named = " and ".join(_brief(self.table.rows[place]) for place in places)
        entry = self.table.entry(self.table.rows[places[0]], partition) if places else None
        return f"{partition}: {named} {100 * entry['mean']:.1f} %" if entry else f"{partition}: nothing finished"

    def _repr_html_(self) -> str:
        lost = "".join(f"<p>Failed: {shown(reason, 'html')}</p>" for reason in self.failed)
        return "".join(sheet.html() for sheet in self.table.sheets()) + lost


def _brief(row: Row) -> str:
    """A row in a few words."""
    values = [f"{name} = {word(value)}" for name, value in row.values.items() if value is not None]
    return title(row.method) + (f" ({', '.join(values)})" if values else "")
