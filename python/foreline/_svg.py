"""Charts as SVG of a few kilobytes, or by matplotlib where that is there."""
from __future__ import annotations

import html
from pathlib import Path
from typing import Any, Sequence, Union

# By what they stand for; the rest in this order: colours of Okabe and Ito, told apart by colour-blind people.
_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"]
_MEANINGS = {"compute": "#0072b2", "forward": "#56b4e9", "backward": "#0072b2", "weight": "#003f66", "optimizer": "#009e73",
             "update": "#009e73", "bubble": "#bbbbbb", "collective": "#d55e00", "send": "#e69f00", "receive": "#f0c987"}
_WIDTH, _ROW = 720, 22


def _colour(name: str) -> str:
    waits = name.startswith("waiting") or name.endswith("measured")
    return _MEANINGS.get(name, _COLOURS[1] if waits else _COLOURS[0])


class Chart:
    """svg() needs nothing; plot() takes matplotlib, where it is installed."""

    title = ""

    def _body(self) -> tuple[int, list[str]]:
        """Height, elements below the title."""
        raise NotImplementedError

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError

    def svg(self) -> str:
        height, body = self._body()
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height + 30}" width="{_WIDTH}" '
                'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#ffffff"/>'
                + _text(10, 18, self.title, weight="bold") + '<g transform="translate(0 30)">' + "".join(body) + "</g></svg>")

    def _repr_html_(self) -> str:
        return self.svg()

    def save(self, path: Union[str, Path]) -> None:
        """Write the SVG."""
        Path(path).write_text(self.svg(), encoding="utf-8")

    def plot(self, ax: Any = None) -> Any:
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError:
                return self
            ax = plt.subplots(figsize=(7.2, 3.6))[1]
        self._draw(ax)
        ax.set_title(self.title, fontsize="medium", wrap=True)
        return ax


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{html.escape(str(text))}</text>'


def _box(x: float, y: float, w: float, h: float, colour: str, tip: str = "") -> str:
    return f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(w, 0.1):.2f}" height="{h:.1f}" fill="{colour}"><title>{html.escape(tip)}</title></rect>'


def _left(names: Sequence[str]) -> float:
    return min(260.0, 20 + 6.6 * max((len(str(n)) for n in names), default=0))


class Bars(Chart):
    """A bar for each name."""

    def __init__(self, title: str, unit: str, bars: Sequence[tuple[str, float]]) -> None:
        self.title, self.unit, self.bars = title, unit, bars

    def _body(self) -> tuple[int, list[str]]:
        left = _left([n for n, _ in self.bars])
        scale = (_WIDTH - left - 110) / (max((v for _, v in self.bars), default=0) or 1)
        out = []
        for i, (name, v) in enumerate(self.bars):
            out += [_text(left - 6, i * _ROW + 14, name, "end"), _box(left, i * _ROW + 3, v * scale, 15, _colour(name), name),
                    _text(left + v * scale + 5, i * _ROW + 14, f"{v:.4g} {self.unit}")]
        return len(self.bars) * _ROW + 8, out

    def _draw(self, ax: Any) -> None:
        names = [n for n, _ in self.bars]
        ax.barh(names, [v for _, v in self.bars], color=[_colour(n) for n in names])
        ax.invert_yaxis()
        ax.set_xlabel(self.unit)


class Gantt(Chart):
    """A row for each rank, of at most 64 evenly chosen: compute above, messages and collectives below."""

    def __init__(self, title: str, names: dict[int, str], spans: Sequence[tuple[int, float, float, str, str]]) -> None:
        self.names, self.spans = names, spans
        ranks = sorted(names)
        self.shown = ranks[::-(-len(ranks) // 64)] if len(ranks) > 64 else ranks
        self.title = title + (f": {len(self.shown)} of {len(ranks)} ranks" if len(ranks) > 64 else "")
        self.end = max((s[1] + s[2] for s in spans), default=0) or 1

    def _body(self) -> tuple[int, list[str]]:
        row = {r: i for i, r in enumerate(self.shown)}
        left = _left([self.names[r] for r in self.shown])
        scale = (_WIDTH - left - 20) / self.end
        out = [_text(left - 6, i * _ROW + 14, self.names[r], "end") for r, i in row.items()]
        out += [_box(left, i * _ROW + 2, self.end * scale, 18, "#eeeeee", "idle") for i in row.values()]
        for rank, begin, length, kind, name in self.spans:
            if rank in row and length * scale >= 0.05:
                below = kind in ("collective", "send", "receive")
                out.append(_box(left + begin * scale, row[rank] * _ROW + (13 if below else 2), length * scale, 7 if below else 11,
                                _colour(kind), f"{name}: {begin:.4g} ms, {length:.4g} ms"))
        bottom = len(row) * _ROW + 16
        out += [_text(left + self.end * scale * k / 4, bottom, f"{self.end * k / 4:.4g}", "middle") for k in range(5)]
        out.append(_text(left + self.end * scale / 2, bottom + 15, "ms", "middle"))
        for i, kind in enumerate(dict.fromkeys(s[3] for s in self.spans)):
            out += [_box(left + 90 * i, bottom + 26, 9, 9, _colour(kind)), _text(left + 90 * i + 13, bottom + 35, kind)]
        return bottom + 42, out

    def _draw(self, ax: Any) -> None:
        for i, r in enumerate(self.shown):
            for kind in dict.fromkeys(s[3] for s in self.spans):
                own = [(s[1], s[2]) for s in self.spans if s[0] == r and s[3] == kind]
                below = kind in ("collective", "send", "receive")
                ax.broken_barh(own, (i - 0.4 + 0.5 * below, 0.3 if below else 0.5), color=_colour(kind))
        ax.set_yticks(range(len(self.shown)), [self.names[r] for r in self.shown])
        ax.invert_yaxis()
        ax.set_xlabel("ms")


class Lines(Chart):
    """A line for each name over places on the x axis, in the order of their appearance."""

    def __init__(self, title: str, x: str, y: str, by: str, lines: dict[str, dict[str, float]]) -> None:
        self.title, self.x, self.y, self.by, self.lines = title, x, y, by, lines
        self.places = list(dict.fromkeys(p for line in lines.values() for p in line))

    def _body(self) -> tuple[int, list[str]]:
        top, height, left = 10, 200, 70
        right = _left(list(self.lines)) + 20
        most = max(v for line in self.lines.values() for v in line.values()) or 1
        step = (_WIDTH - left - right) / max(len(self.places) - 1, 1)
        at = {p: left + i * step for i, p in enumerate(self.places)}
        out = [_box(left, top + height, _WIDTH - left - right, 1, "#000000")]
        for k in range(5):
            out.append(_text(left - 6, top + height * (1 - k / 4) + 4, f"{most * k / 4:.4g}", "end"))
        out += [_text(at[p], top + height + 16, p, "middle") for p in self.places]
        out.append(_text(left + (_WIDTH - left - right) / 2, top + height + 32, self.x, "middle"))
        for i, (name, line) in enumerate(self.lines.items()):
            points = [(at[p], top + height * (1 - v / most)) for p, v in line.items()]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[i % 8]}" stroke-width="2"/>')
            out += [_box(x - 3, y - 3, 6, 6, _COLOURS[i % 8], f"{name}: {line[p]:.5g}") for p, (x, y) in zip(line, points)]
            out += [_box(_WIDTH - right + 6, top + 18 * i + 9, 9, 9, _COLOURS[i % 8]), _text(_WIDTH - right + 20, top + 18 * i + 18, name)]
        return max(top + height + 44, top + 18 * len(self.lines) + 20), out

    def _draw(self, ax: Any) -> None:
        at = {p: i for i, p in enumerate(self.places)}
        for name, line in self.lines.items():
            ax.plot([at[p] for p in line], list(line.values()), marker="o", label=name)
        ax.set_xticks(range(len(self.places)), self.places)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(self.x)
        ax.set_ylabel(self.y)
        ax.legend(title=self.by or None)

