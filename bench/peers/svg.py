"""Charts as SVG text: lines over a number, in panels, in the style of the figures of `thermocline bench`."""

import math
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import NamedTuple

# The colours of crates/workloads/src/figures/sheet.rs.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#777777", "#332288", "#999933", "#882255"]
INK, GRID, EVENT = "#333333", "#E4E4E4", "#D0D0D0"

WIDTH, HEIGHT, HEAD, MARGIN = 380, 280, 92, 16
# Around the plot of a panel: labels left and below, title above.
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 30, 48
TEXT, TITLE = 12, 18
# Ticks that an axis has room for.
TICKS = 5


class Point(NamedTuple):
    """A value of a series; points of one place are drawn as their median."""

    panel: str
    series: str
    x: float
    y: float


@dataclass(frozen=True)
class Axis:
    """An axis."""

    label: str
    """Title, with the unit."""
    log: bool = False
    """Whether equal ratios have equal distances; what is not positive is left out."""
    falls: bool = False
    """Whether the greatest value comes first."""
    ticks_at_values: bool = False
    """Whether each value has a tick."""
    text: object = None
    """The function that writes a value; `number` if None."""

    def place(self, value):
        """Place of a value; None if it has none."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        return math.log10(value) if self.log else value

    def value(self, place):
        return 10**place if self.log else place

    def bounds(self, values):
        """First and last place of an axis with these values, which are not the same."""
        places = [place for place in map(self.place, values) if place is not None]
        if not places:
            return 0.0, 1.0
        low, high = min(places), max(places)
        if self.log or self.ticks_at_values:
            margin = max((high - low) * 0.06, 0.05)
            return low - margin, high + margin
        low, high = min(low, 0.0) * 1.1, max(high, 0.0) * 1.1
        return (0.0, 1.0) if low == high else (low, high)

    def ticks(self, low, high, values):
        """Places of round values, or of the values themselves."""
        if self.ticks_at_values:
            return sorted({self.place(value) for value in values} - {None})
        if self.log:
            return log_ticks(low, high)
        rough = (high - low) / TICKS
        decade = 10 ** math.floor(math.log10(rough))
        step = next((step * decade for step in (1, 2, 5) if step * decade >= rough), 10 * decade)
        return [count * step for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_ticks(low, high):
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        decades = range(math.floor(low), math.ceil(high) + 1)
        found = [decade + math.log10(step) for decade in decades for step in steps]
        found = [place for place in found if low <= place <= high]
        if len(found) >= 3:
            return found
    return [low, high]


def number(value):
    """A number with three significant digits."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -4 <= magnitude < 7:
        return f"{value:.1e}"
    text = f"{value:.{max(2 - magnitude, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(value):
    """Bytes with the largest unit that divides them."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 1 << shift and value % (1 << shift) == 0:
            return f"{int(value) >> shift} {unit}"
    return f"{value:g} B"


def text(x, y, words, anchor="start", size=TEXT, more=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="{size}" fill="{INK}" '
        f'text-anchor="{anchor}"{more}>{escape(words)}</text>'
    )


def line(x1, y1, x2, y2, colour, width=1):
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
    )


def mark(series, x, y):
    """A mark at a point; neighbouring series have different shapes."""
    colour = COLOURS[series % len(COLOURS)]
    if series % 4 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    if series % 4 == 1:
        return f'<path d="M{x:.1f},{y - 5:.1f} l4.5,8 l-9,0 Z" fill="{colour}"/>'
    if series % 4 == 2:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="none" stroke="{colour}" stroke-width="2"/>'
    cross = f"M{x - 4:.1f},{y - 4:.1f} l8,8 M{x - 4:.1f},{y + 4:.1f} l8,-8"
    return f'<path d="{cross}" stroke="{colour}" stroke-width="2"/>'


def legend(series):
    """A square in each series' colour, and its name."""
    parts, left = [], MARGIN
    for index, name in enumerate(series):
        parts.append(f'<rect x="{left}" y="66" width="12" height="12" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(text(left + 18, 77, name))
        # Estimated, because there is no font to measure with.
        left += 40 + int(len(name) * TEXT * 0.56)
    return parts, left


def lines(title, subtitle, x, y, points, *, marks=True, events=None, columns=None):
    """A chart for each panel of `points`, all with the same axes; None if there is nothing to draw.

    `events` has places along x by panel, which get a vertical line each.
    """
    points = [point for point in points if x.place(point.x) is not None and y.place(point.y) is not None]
    if not points:
        return None
    panels, series = list(dict.fromkeys(p.panel for p in points)), list(dict.fromkeys(p.series for p in points))
    columns = columns or math.ceil(math.sqrt(len(panels)))
    columns = max(1, min(columns, len(panels)))
    width, height = (2 * WIDTH, 3 * HEIGHT // 2) if len(panels) == 1 else (WIDTH, HEIGHT)
    head, right = legend(series)
    total = max(width * columns, right + MARGIN), HEAD + height * math.ceil(len(panels) / columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" '
        f'viewBox="0 0 {total[0]} {total[1]}">',
        f'<rect width="{total[0]}" height="{total[1]}" fill="#FFFFFF"/>',
        text(MARGIN, 28, title, size=TITLE),
        text(MARGIN, 50, subtitle),
        *head,
    ]
    for index, panel in enumerate(panels):
        corner = index % columns * width, HEAD + index // columns * height
        own = [point for point in points if point.panel == panel]
        parts += chart(panel, corner, (width, height), x, y, own, series, marks, (events or {}).get(panel, []))
    return "\n".join([*parts, "</svg>\n"])


def chart(panel, corner, extent, x, y, points, series, marks, events):
    left, right = corner[0] + LEFT, corner[0] + extent[0] - RIGHT
    top, bottom = corner[1] + TOP, corner[1] + extent[1] - BOTTOM
    xs, ys = [point.x for point in points], [point.y for point in points]
    (x_low, x_high), (y_low, y_high) = x.bounds(xs), y.bounds(ys)

    def across(place):
        share = (place - x_low) / (x_high - x_low)
        return left + (right - left) * (1 - share if x.falls else share)

    def up(place):
        return bottom - (bottom - top) * (place - y_low) / (y_high - y_low)

    parts = [text((left + right) / 2, top - 10, panel, "middle", TEXT + 1)]
    for place in x.ticks(x_low, x_high, xs):
        parts.append(line(across(place), top, across(place), bottom, GRID))
        parts.append(text(across(place), bottom + 16, (x.text or number)(x.value(place)), "middle"))
    for place in y.ticks(y_low, y_high, ys):
        parts.append(line(left, up(place), right, up(place), GRID))
        parts.append(text(left - 6, up(place) + 4, (y.text or number)(y.value(place)), "end"))
    parts += [line(across(at), top, across(at), bottom, EVENT) for at in events if x_low <= at <= x_high]
    parts += [line(left, bottom, right, bottom, INK), line(left, top, left, bottom, INK)]
    parts.append(text((left + right) / 2, bottom + 36, x.label, "middle"))
    middle = corner[0] + 16, (top + bottom) / 2
    parts.append(text(*middle, y.label, "middle", more=f' transform="rotate(-90 {middle[0]:.1f} {middle[1]:.1f})"'))
    for index, name in enumerate(series):
        places = {}
        for point in points:
            if point.series == name:
                places.setdefault(point.x, []).append(point.y)
        path = [(across(x.place(at)), up(y.place(median(values)))) for at, values in sorted(places.items())]
        if not path:
            continue
        drawn = " ".join(f"{at:.1f},{value:.1f}" for at, value in path)
        stroke = f'stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="2"'
        parts.append(f'<polyline points="{drawn}" fill="none" {stroke}/>')
        parts += [mark(index, *at) for at in path] if marks else []
    return parts
