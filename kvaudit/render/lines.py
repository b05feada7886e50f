"""Lines of styled text: what every section of the text report is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.text import Text

GAP = "  "


def line(*parts: str | tuple[str, str], indent: int = 0) -> Text:
    """One line from plain parts and (text, style) pairs."""
    return Text.assemble(GAP * indent, *parts)


def heading(text: str) -> Text:
    """The first line of a section."""
    return Text(text, style="bold")


def aligned(
    rows: Sequence[Sequence[str | Text]], *, indent: int = 1, right: Collection[int] = ()
) -> list[Text]:
    """Rows as lines with their cells in columns; nothing is cut and nothing trails.

    Args:
        rows: cells; a row may be shorter than others.
        indent: levels to move right.
        right: columns of numbers, which end at one place.
    """
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    num_columns = max((len(row) for row in cells), default=0)
    widths = [
        max(row[column].cell_len for row in cells if column < len(row))
        for column in range(num_columns)
    ]
    lines = []
    for row in cells:
        text = Text(GAP * indent)
        for column, cell in enumerate(row):
            padding = " " * (widths[column] - cell.cell_len)
            text.append(GAP if column else "")
            text.append_text(Text(padding) + cell if column in right else cell + Text(padding))
        text.rstrip()
        lines.append(text)
    return lines
