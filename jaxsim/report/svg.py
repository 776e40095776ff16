"""Small charts as inline SVG; their colours are classes of the page's style sheet, so they follow light and dark."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.report.figures import figure, time_unit
from jaxsim.report.html import Markup, markup, tag

_WIDTH, _HEIGHT = 420.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 12.0, 12.0, 34.0


@dataclass(frozen=True)
class Axis:
    """Values to pixels.

    Attributes:
        low: value at the start.
        high: value at the end.
        start: pixel of `low`.
        end: pixel of `high`.
        log: logarithmic.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low))
        share = (at - low) / (high - low) if high > low else 0.0
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round values in the range: at most 7."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            for steps in ((1, 2, 5), (1, 3), (1,)):
                found = [
                    step * 10.0**power
                    for power in range(first, last + 1)
                    for step in steps
                    if self.low <= step * 10.0**power * (1 + 1e-9) and step * 10.0**power <= self.high * (1 + 1e-9)
                ]
                if len(found) <= 7:
                    return found
            return found[:: math.ceil(len(found) / 6)]
        step = 10.0 ** math.floor(math.log10(max(self.high - self.low, 1e-12)))
        step = next(step * by for by in (0.2, 0.25, 0.5, 1, 2) if (self.high - self.low) / (step * by) <= 5)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band around it; arrays of one length, nan where there is nothing."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Mark:
    """A point with a text that shows when it is pointed at."""

    x: float
    y: float
    text: str


def percentile_chart(
    curve: Curve, marks: Sequence[Mark], label: str, limit_s: float | None = None, limit_label: str = ""
) -> Markup:
    """Latency by percentile: shares in nines along x, seconds (logarithmic) along y.

    Args:
        curve: shares in [0, 1) and seconds.
        marks: points of the curve, x a share.
        label: what a reader who cannot see it is told.
        limit_s: a promise, drawn across where it is near the curve.
        limit_label: its name.
    """
    lowest, highest = float(np.nanmin(curve.y)), float(np.nanmax(curve.y))
    for bound in (curve.low, curve.high):
        if bound is not None and np.isfinite(bound).any():
            highest = max(highest, float(np.nanmax(bound)))
    highest = max(highest, 1e-9)
    lowest = max(lowest, highest * 1e-4)
    shown = limit_s is not None and lowest / 2 < limit_s < highest * 8
    if shown:
        lowest, highest = min(lowest, limit_s or lowest), max(highest, limit_s or highest)
    x = Axis(0.0, float(_nines(curve.x[-1])), _LEFT, _WIDTH - _RIGHT)
    y = Axis(lowest / 1.15, highest * 1.15, _HEIGHT - _BOTTOM, _TOP, log=True)
    names = ((0.5, "P50"), (0.9, "P90"), (0.99, "P99"), (0.999, "P99.9"), (0.9999, "P99.99"))
    marked = [(share, name) for share, name in names if _nines(share) <= x.high + 1e-9]
    parts = [_grid(y, seconds_text), _bottom([(x(_nines(share)), name) for share, name in marked])]
    points = [(x(_nines(share)), y(value)) for share, value in zip(curve.x, curve.y, strict=True)]
    if curve.low is not None and curve.high is not None:
        known = np.flatnonzero(np.isfinite(curve.low) & np.isfinite(curve.high))
        upper = [(points[i][0], y(float(curve.high[i]))) for i in known]
        lower = [(points[i][0], y(float(curve.low[i]))) for i in known]
        parts.append(tag("path", d=_path([*upper, *reversed(lower)], closed=True), class_="band"))
    parts.append(tag("path", d=_path(points), class_="line"))
    if shown and limit_s is not None:
        parts.append(_limit(y(limit_s), limit_label))
    for mark in marks:
        if _nines(mark.x) <= x.high + 1e-9:
            dot = tag("circle", tag("title", mark.text), cx=_px(x(_nines(mark.x))), cy=_px(y(mark.y)), r=4)
            parts.append(dot)
    return _svg(parts, label)


def series_chart(time_s: np.ndarray, series: Sequence[tuple[str, np.ndarray]], label: str) -> Markup:
    """Quantities over time, each as a filled line.

    Args:
        time_s: float64 `[T]`, seconds, ascending.
        series: class of the style sheet and values `[T]` of each, the one behind first.
        label: what a reader who cannot see it is told.
    """
    highest = max(1.0, *(float(np.max(values)) for _, values in series))
    x = Axis(float(time_s[0]), float(max(time_s[-1], time_s[0] + 1e-9)), _LEFT, _WIDTH - _RIGHT)
    y = Axis(0.0, highest * 1.05, _HEIGHT - _BOTTOM, _TOP)
    scale, unit = (60.0, "min") if x.high > 600 else (1.0, "s")
    ticks = Axis(x.low / scale, x.high / scale, x.start, x.end)
    parts = [_grid(y, _count), _bottom([(ticks(tick), f"{tick:g} {unit}") for tick in ticks.ticks])]
    for name, values in series:
        points = [(x(float(at)), y(float(value))) for at, value in zip(time_s, values, strict=True)]
        floor = [(points[-1][0], y(0.0)), (points[0][0], y(0.0))]
        parts.append(tag("path", d=_path([*points, *floor], closed=True), class_=f"area {name}"))
        parts.append(tag("path", d=_path(points), class_=f"line {name}"))
    return _svg(parts, label)


def histogram_chart(values: np.ndarray, label: str, bins: int = 36) -> Markup:
    """How often whole numbers (1 or greater) occur, in bins of equal ratio.

    Args:
        values: the numbers.
        label: what a reader who cannot see it is told.
        bins: how many bars at most.
    """
    low, high = float(max(values.min(), 1)), float(max(values.max(), 1)) + 1
    edges = np.unique(np.ceil(np.geomspace(low, high, bins + 1)))
    counts, _ = np.histogram(values, edges)
    density = counts / np.diff(np.log(edges))
    x = Axis(low, high, _LEFT, _WIDTH - _RIGHT, log=True)
    y = Axis(0.0, float(density.max()) * 1.05 or 1.0, _HEIGHT - _BOTTOM, _TOP)
    bars = []
    for start, end, count, height in zip(edges, edges[1:], counts, density, strict=False):
        left, right, top = x(float(start)), x(float(end)), y(float(height))
        text = f"{start:,.0f}–{end - 1:,.0f}: {count:,}" if end - start > 1 else f"{start:,.0f}: {count:,}"
        box = {"x": _px(left), "y": _px(top), "width": _px(max(right - left - 1, 0.5)), "height": _px(y(0.0) - top)}
        bars.append(tag("rect", tag("title", text), class_="bar", **box))
    base = tag("path", d=_path([(x.start, y.start), (x.end, y.start)]), class_="grid")
    return _svg([base, *bars, _bottom([(x(tick), _count(tick)) for tick in x.ticks])], label)


def seconds_text(value: float) -> str:
    """A round number of seconds with its unit, such as `50 ms`."""
    scale, unit = time_unit(value * (1 + 1e-9))
    return f"{value / scale:,.4g} {unit}"


def _count(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.4g}k" if value < 10_000_000 else f"{value / 1e6:,.4g}M"
    return f"{value:,.4g}" if value == int(value) or value < 1 else figure(value, 2)


def _nines(share: float) -> float:
    return -math.log10(max(1 - share, 1e-12))


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(points: Sequence[tuple[float, float]], closed: bool = False) -> str:
    return ("M" + "L".join(f"{_px(x)} {_px(y)}" for x, y in points) + ("Z" if closed else "")) if points else ""


def _grid(y: Axis, text: Callable[[float], str]) -> Markup:
    parts = []
    for tick in y.ticks:
        at = y(tick)
        parts.append(tag("path", d=_path([(_LEFT, at), (_WIDTH - _RIGHT, at)]), class_="grid"))
        parts.append(tag("text", text(tick), x=_px(_LEFT - 6), y=_px(at + 4), text_anchor="end"))
    return markup(parts)


def _bottom(ticks: Sequence[tuple[float, str]]) -> Markup:
    """Labels below the chart, without those that would touch one before them."""
    parts, free = [], 0.0
    for at, text in ticks:
        half = 3.4 * len(text)
        anchor = "middle"
        if at + half > _WIDTH:
            at, anchor, half = _WIDTH - 1, "end", 2 * half
        if at - half >= free:
            parts.append(tag("text", text, x=_px(at), y=_px(_HEIGHT - _BOTTOM + 18), text_anchor=anchor))
            free = at + (0 if anchor == "end" else half) + 6
    return markup(parts)


def _limit(at: float, label: str) -> Markup:
    line = tag("path", d=_path([(_LEFT, at), (_WIDTH - _RIGHT, at)]), class_="limit")
    above = at - 5 if at > _TOP + 16 else at + 14
    return markup([line, tag("text", label, x=_px(_LEFT + 4), y=_px(above), class_="limit")])


def _svg(parts: Sequence[Markup], label: str) -> Markup:
    return tag("svg", parts, viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}", role="img", aria_label=label, class_="chart")
