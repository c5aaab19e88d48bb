"""Results on standard output: lines that stay whole, and tables that lose no figure."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

#: Columns that no table needs.
_WIDEST = 10_000


class Printer(Console):
    """Prints text as it is, on lines as long as it is.

    For rich a pipe has 80 columns, and what does not fit is cut: a table is as wide here as it has
    to be, whatever the terminal makes of that.
    """

    def __init__(self) -> None:
        super().__init__(soft_wrap=True, highlight=False, markup=False, emoji=False)

    def table(self, table: Table) -> None:
        """Print a table."""
        room = self.options.update(max_width=_WIDEST)
        self.width = max(self.width, self.measure(table, options=room).maximum)
        self.print(table)

    def on_broken_pipe(self) -> None:
        """Leave what is done then to who called, and rich's exit aside."""
        raise
