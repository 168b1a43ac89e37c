# SPDX-License-Identifier: GPL-2.0
"""Line charts as inline SVG: no script, no external font, light and dark."""

import math
from html import escape

WIDTH, HEIGHT = 400, 240
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 12, 40
# Apart in hue and in lightness, and of a lightness that both backgrounds bear.
COLORS = ("#2f7ed8", "#e8743b", "#19a979", "#945ecf", "#d1b000", "#ed4a7b",
          "#13a4b4", "#8d6e63")
LEGEND_MAX = 8


def step_of(top):
    """Distance of an axis' ticks: 1, 2, 2.5 or 5 x 10^n, so that there are 4 to 8."""
    if top <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(top / 4))
    for factor in (5, 2.5, 2):
        if factor * power * 4 <= top:
            return factor * power
    return power


def ceiling(value):
    """The first tick at or above the value."""
    step = step_of(value)
    return max(math.ceil(value / step * 0.999), 1) * step


def thin(xs, ys, points, how):
    """At most so many points: how (max, or mean) of every group."""
    group = -(-len(xs) // points) or 1
    thin_x, thin_y = [], []
    for i in range(0, len(xs), group):
        part = ys[i:i + group]
        thin_x.append(xs[min(i + group, len(xs)) - 1])
        thin_y.append(how(part))
    return thin_x, thin_y


def mean(values):
    """Arithmetic mean."""
    return sum(values) / len(values)


def _ticks(top, low=0):
    step = step_of(top - low)
    return [low + step * i for i in range(int((top - low) / step * 1.001) + 1)]


def _label(value):
    return f"{value:g}"


def legend(labels):
    """Colour and name of each line, as HTML; an empty name leaves its colour out."""
    parts = [f'<span><i style="background:{COLORS[i % len(COLORS)]}"></i>{escape(label)}</span>'
             for i, label in enumerate(labels[:LEGEND_MAX]) if label]
    if len(labels) > LEGEND_MAX:
        parts.append(f"<span>and {len(labels) - LEGEND_MAX} more</span>")
    return f'<div class="legend">{"".join(parts)}</div>'


def lines(series, x_top, y_top, x_title, y_title, mark=None, y_low=0, limit=None, dots=False):
    """A chart of [(label, xs, ys)].

    mark shades (from, until) on the x axis, limit is a dashed line at that y, dots
    are for lines of few points; y_low is where the y axis begins.
    """
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(x):
        return LEFT + width * x / x_top

    def y_of(y):
        part = (y - y_low) / (y_top - y_low)
        return TOP + height * (1 - min(max(part, 0), 1))
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="{escape(y_title)} over {escape(x_title)}">']
    if mark:
        begin, end = x_of(min(mark[0], x_top)), x_of(min(mark[1], x_top))
        out.append(f'<rect class="window" x="{begin:.1f}" y="{TOP}" '
                   f'width="{max(end - begin, 0):.1f}" height="{height}"/>')
    for tick in _ticks(y_top, y_low):
        y = y_of(tick)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + width}" y1="{y:.1f}" '
                   f'y2="{y:.1f}"/><text x="{LEFT - 6}" y="{y + 3.5:.1f}" '
                   f'text-anchor="end">{_label(tick)}</text>')
    for tick in _ticks(x_top):
        x = x_of(tick)
        out.append(f'<text x="{x:.1f}" y="{TOP + height + 14}" '
                   f'text-anchor="middle">{_label(tick)}</text>')
    if limit is not None:
        out.append(f'<line class="limit" x1="{LEFT}" x2="{LEFT + width}" y1="{y_of(limit):.1f}" '
                   f'y2="{y_of(limit):.1f}"/>')
    for i, (label, xs, ys) in enumerate(series):
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in zip(xs, ys))
        out.append(f'<polyline points="{points}" stroke="{COLORS[i % len(COLORS)]}">'
                   f"<title>{escape(label)}</title></polyline>")
        out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" '
                f'fill="{COLORS[i % len(COLORS)]}"/>' for x, y in zip(xs, ys) if dots]
    out.append(f'<path class="axis" d="M{LEFT} {TOP}V{TOP + height}H{LEFT + width}"/>')
    out.append(f'<text x="{LEFT + width / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
               f"{escape(x_title)}</text>")
    out.append(f'<text transform="translate(13 {TOP + height / 2}) rotate(-90)" '
               f'text-anchor="middle">{escape(y_title)}</text></svg>')
    return "".join(out)


def bars(values, limit=None):
    """Horizontal bars of {label: number}, with a dashed line at limit."""
    step, left = 24, 190
    top = ceiling(max([*values.values(), limit or 0]))
    width, height = WIDTH - left - RIGHT - 30, step * len(values)

    def x_of(value):
        return left + width * value / top
    out = [f'<svg viewBox="0 0 {WIDTH} {height + 8}" role="img">']
    for i, (label, value) in enumerate(values.items()):
        y = step * i + 4
        out.append(f'<text x="{left - 6}" y="{y + 13}" text-anchor="end">{escape(label)}</text>'
                   f'<rect x="{left}" y="{y}" width="{x_of(value) - left:.1f}" height="{step - 6}" '
                   f'fill="{COLORS[i % len(COLORS)]}"/>'
                   f'<text x="{x_of(value) + 4:.1f}" y="{y + 13}">{value:.2f}</text>')
    if limit is not None:
        out.append(f'<line class="limit" x1="{x_of(limit):.1f}" x2="{x_of(limit):.1f}" '
                   f'y1="0" y2="{height + 4}"/>')
    return "".join(out) + "</svg>"
