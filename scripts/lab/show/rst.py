# SPDX-License-Identifier: GPL-2.0
"""Pages in reStructuredText, as lists of lines."""

import textwrap


def page(name):
    """The head of a page of results."""
    heading = f"Results: {name}"
    return [".. SPDX-License-Identifier: GPL-2.0", "", "=" * len(heading), *title(heading)[1:]]


def title(text, line="="):
    """A heading."""
    return ["", text, line * len(text), ""]


def prose(text, bullet=""):
    """A paragraph, or an item of a list."""
    return textwrap.wrap(bullet + text, 100, subsequent_indent=" " * len(bullet), break_long_words=False,
                         break_on_hyphens=False) + ([] if bullet else [""])


def table(head, rows):
    """A simple table; cells of the first column are not empty."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    # docutils needs rules of four or more characters.
    widths = [max(4, *(len(row[i]) for row in rows)) for i in range(len(head))]
    rule = "  ".join("=" * width for width in widths)
    body = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return [rule, body[0], rule, *body[1:], rule, ""]
