# SPDX-License-Identifier: GPL-2.0
"""Pages with charts that need no other file and no network.

dygraphs draws the charts, and the page contains it. If that package is not installed, the
page has no charts, and states this.
"""

import json
from html import escape
from pathlib import Path

LAB = Path(__file__).resolve().parent
DYGRAPHS = Path("/usr/share/javascript/dygraphs")
# Colours that differ in hue and in lightness, and that are readable on a light and on a dark background.
COLORS = ("#2f7ed8", "#e8743b", "#19a979", "#945ecf", "#d1b000", "#ed4a7b",
          "#13a4b4", "#8d6e63")
LEGEND_MAX = 12
DIGITS = 5
MISSING = "The charts are missing because dygraphs was not installed (Debian: libjs-dygraphs)."
# The licence requires that each copy contains it.
LICENCE = LAB / "dygraphs.licence"


def colors(count):
    """A colour for each line. If COLORS has too few, they are spread over the colour wheel."""
    if count <= len(COLORS):
        return list(COLORS[:count])
    return [f"hsl({360 * i / count:.0f}, 65%, {(42, 55)[i % 2]}%)" for i in range(count)]


def _hues(lines):
    """Colours of these lines."""
    places = [i if line.color is None else line.color for i, line in enumerate(lines)]
    shades = colors(1 + max(places, default=0))
    return [shades[i] for i in places]


def _short(value):
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _json(data):
    """JSON in which no text can close the HTML element that contains it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _column(line, xs, bars, low):
    """Values of a line at xs, None if the line has no value at an x; with bars, lists of low, middle and high."""
    errors = line.errors or [0] * len(line.ys)
    at = {x: [_short(max(y - e, low)), _short(y), _short(y + e)] if bars else _short(y)
          for x, y, e in zip(line.xs, line.ys, errors)}
    return [at.get(x, [None] * 3 if bars else None) for x in xs]


def _panel(figure, panel, legend):
    """A chart, and its data for page.js."""
    lines = panel.lines
    bars = any(line.errors for line in lines)
    y_range = panel.y_range or figure.y_range
    low = y_range[0]            # a log axis has no 0
    # All panels of a figure span the whole axis, also after zooming out.
    xs = sorted({*(figure.x_range or ()), *(x for line in lines for x in line.xs)})
    data = {
        "x": [_short(x) for x in xs], "y": [_column(line, xs, bars, low) for line in lines],
        "labels": [line.label for line in lines], "colors": _hues(lines),
        "x_title": figure.x_title, "y_title": figure.y_title, "y_range": y_range,
        "x_log": figure.x_log, "y_log": figure.y_log, "steps": figure.steps,
        "dots": figure.dots, "ticks": figure.ticks, "limit": figure.limit, "shade": panel.shade, "bars": bars,
    }
    head = f"<h3>{escape(panel.title)}</h3>" if panel.title else ""
    return (f'<section>{head}<div class="chart"{" data-time" if figure.over_time else ""}></div>'
            f'<script type="application/json">{_json(data)}</script>{legend}</section>')


def _legend(lines):
    """Names and colours. If there are many lines, the remaining names are shown only at the pointer."""
    items = [f'<span><i style="background:{color}"></i>{escape(line.label)}</span>'
             for line, color in zip(lines[:LEGEND_MAX], _hues(lines))]
    if len(lines) > LEGEND_MAX:
        items.append(f"<span>and {len(lines) - LEGEND_MAX} more</span>")
    return f'<div class="legend">{"".join(items)}</div>'


def panels(figures):
    """Charts side by side; they share one legend if their lines have the same names."""
    every = [(figure, panel) for figure in figures for panel in figure.panels]
    legends = [_legend(panel.lines) for _, panel in every]
    shared = len(set(legends)) == 1
    sections = "".join(_panel(figure, panel, "" if shared else legend)
                       for (figure, panel), legend in zip(every, legends))
    return (f'<div class="panels{" one" if len(every) == 1 else ""}">{sections}</div>'
            + (legends[0] if shared else ""))


def table(head, rows):
    """A table; a name in its head may have two lines."""
    first = "".join(f"<th>{escape(name)}</th>" for name in head).replace("\n", "<br>")
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table></div>'


def chart(figure):
    """A figure with its heading."""
    return f"<h2>{escape(figure.title)}</h2><p>{escape(figure.about)}</p>{panels([figure])}"


def _library():
    """The text of dygraphs and of its style, or None."""
    try:
        style, *scripts = ((DYGRAPHS / name).read_text(encoding="utf-8") for name in (
            "dygraph.min.css", "dygraph.min.js", "extras/synchronizer.js"))
    except OSError:
        return None
    text = "\n".join(scripts)
    if "</script" in text.lower() or "</style" in style.lower():
        return None
    # Remove links to source maps, which a debugger would try to load.
    return ("\n".join(line for line in text.splitlines() if not line.startswith("//# sourceMappingURL")),
            style.split("/*# sourceMappingURL")[0])


def document(title, body):
    """The whole page."""
    style, script = (LAB / "page.css").read_text(encoding="utf-8"), ""
    if 'class="chart"' in body:
        library = _library()
        if library:
            style = library[1] + style
            script = (f"<script>/*\n{LICENCE.read_text(encoding='utf-8')}*/\n{library[0]}</script>"
                      f"<script>{(LAB / 'page.js').read_text(encoding='utf-8')}</script>")
            body += ("<footer>Drag over a chart to zoom, double-click to zoom out, drag with shift to move. "
                     "Charts by dygraphs (MIT licence).</footer>")
        else:
            body = f"<p><b>{MISSING}</b></p>" + body
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
            f"<style>{style}</style></head><body><h1>{escape(title)}</h1>{body}{script}</body></html>\n")
