# SPDX-License-Identifier: GPL-2.0
"""Figures for papers: SVG and PDF, drawn with matplotlib. Equal data give files that are equal byte by byte."""

import os
import tempfile
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from . import page

WIDTH, HEIGHT, COLUMNS = 3.2, 2.4, 3        # size of a panel in inches, panels in a row
LEGEND_LINES = 12
STYLE = {
    "font.size": 8, "axes.grid": True, "grid.alpha": 0.4, "grid.linewidth": 0.5, "lines.linewidth": 1,
    "lines.markersize": 3.5, "legend.frameon": False, "legend.fontsize": 7, "axes.axisbelow": True,
    "svg.hashsalt": "hpcc-lab", "pdf.fonttype": 42, "path.simplify": True,
}
# Lines can also be distinguished without colour.
DASHES = ("-", "--", "-.", ":")
MARKERS = "os^Dv<>p"
# The files contain no date.
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def _hue(text):
    """A colour of page.py in the form of matplotlib."""
    if not text.startswith("hsl"):
        return text
    h, s, v = (float(part.strip("%")) for part in text[4:-1].split(", "))
    chroma = (1 - abs(2 * v / 100 - 1)) * s / 100

    def channel(n):
        k = (n + h / 30) % 12
        return v / 100 - chroma / 2 * max(-1, min(k - 3, 9 - k, 1))
    return tuple(channel(n) for n in (0, 8, 4))


def _plain(value, _):
    return f"{value:g}"


def _lines(axes, figure, panel):
    hues = page.colors(len(panel.lines))
    few = len(panel.lines) <= len(page.COLORS)
    for i, line in enumerate(panel.lines):
        look = {"label": line.label, "color": _hue(hues[i])}
        if few and not figure.over_time:
            look["linestyle"] = DASHES[i % len(DASHES)]
        if figure.dots:
            look["marker"] = MARKERS[i % len(MARKERS)]
        if figure.steps:
            axes.step(line.xs, line.ys, where="post", **look)
        elif line.errors:
            axes.errorbar(line.xs, line.ys, line.errors, capsize=2, elinewidth=0.7, **look)
        else:
            axes.plot(line.xs, line.ys, **look)


def _panel(axes, figure, panel):
    _lines(axes, figure, panel)
    if panel.shade:
        axes.axvspan(*panel.shade, color="0.85", alpha=0.5, linewidth=0, zorder=0)
    axes.set_title(panel.title, fontsize=8)
    for log, axis, scale, ticks in ((figure.x_log, axes.xaxis, axes.set_xscale, (1,)),
                                    (figure.y_log, axes.yaxis, axes.set_yscale, (1, 2, 5))):
        if log:
            scale("log")
            axis.set_major_locator(LogLocator(subs=ticks))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(_plain))
    if figure.x_range:
        axes.set_xlim(*figure.x_range)
    if figure.ticks:
        axes.set_xticks(range(len(figure.ticks)), figure.ticks, fontsize=7)
    axes.set_ylim(*panel.y_range or figure.y_range)


def picture(figure):
    """A matplotlib Figure, with a legend in its first panel unless there are too many lines."""
    columns = min(len(figure.panels), COLUMNS)
    rows = -(-len(figure.panels) // columns)
    made = Figure(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
    grid = made.subplots(rows, columns, squeeze=False, sharex=True)
    for axes, panel in zip(grid.flat, figure.panels):
        _panel(axes, figure, panel)
    for i, axes in enumerate(grid.flat):
        axes.set_visible(i < len(figure.panels))
        if i + columns >= len(figure.panels):       # no panel is below
            axes.set_xlabel(figure.x_title)
            axes.tick_params(labelbottom=True)
    for row in grid:
        row[0].set_ylabel(figure.y_title)
    if 1 < len(figure.panels[0].lines) <= LEGEND_LINES:
        grid[0][0].legend()
    return made


def names(figures):
    """The names of the files that write() makes."""
    return [f"{figure.name}.{kind}" for figure in figures for kind in METADATA]


def write(figures, directory):
    """Write NAME.svg and NAME.pdf of each figure. Old files stay until all new ones are written."""
    matplotlib.rcdefaults()
    with matplotlib.rc_context(STYLE), tempfile.TemporaryDirectory(prefix=".new-", dir=directory) as new:
        for figure in figures:
            made = picture(figure)
            for kind, metadata in METADATA.items():
                made.savefig(Path(new, f"{figure.name}.{kind}"), metadata=metadata)
        for name in names(figures):
            os.replace(Path(new, name), directory / name)
