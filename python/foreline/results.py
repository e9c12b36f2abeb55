"""Results: documents with plain attributes, tables and pictures."""
from __future__ import annotations

import html
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional, Union

from . import _svg
from ._command import command, options
from ._library import Error

if TYPE_CHECKING:
    from .plans import Plan


class Record(dict):
    """A JSON object whose keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return _seen(self[name])
        except KeyError:
            raise AttributeError(f"unknown name {name!r}; known: {', '.join(map(str, self))}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(str, self)]


def _seen(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    return [_seen(v) for v in value] if isinstance(value, list) else value


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from None
    return pandas


def _number(value: Any, unit: str = "") -> str:
    return "not known" if value is None else f"{value:.4g}{unit}"


class Picture:
    """What `foreline plot` draws of a result. Notebooks show it.

    kind, text, name  the kind of picture; the file that it is of, and what that is called
    """

    def __init__(self, kind: str, text: str, name: str, settings: dict) -> None:
        self.kind, self.text, self.name, self.settings = kind, text, name, settings
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "picture.svg")
            self._svg = (Path(folder) / "picture.svg").read_text(encoding="utf-8")

    def svg(self) -> str:
        return self._svg

    _repr_html_ = svg

    def save(self, path: Union[str, Path]) -> None:
        """Write the picture as .svg, .png or .pdf, and beside it the table of its data."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / self.name
            source.write_text(self.text, encoding="utf-8")
            command(["plot", self.kind, str(source), *options({**self.settings, "output": str(path)})])


def _tsv(rows: list[list[Any]]) -> str:
    return "".join("\t".join(re.sub(r"[\t\n\r]", " ", str(cell)) for cell in row) + "\n" for row in rows)


class Document:
    """Something that foreline says: each key of to_dict() is an attribute.

    document  the JSON document, as `foreline ... --json` prints it
    """

    _rows = ""  # the key whose list to_pandas() is of

    def __init__(self, document: dict) -> None:
        self.document = document

    def __getattr__(self, name: str) -> Any:
        if name == "document" or name.startswith("__"):
            raise AttributeError(name)
        if name in self.document:
            return _seen(self.document[name])
        raise AttributeError(f"{type(self).__name__} has no {name!r}; known: {', '.join(self.document)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.document]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute that may be absent."""
        return _seen(self.document.get(name, default))

    def to_dict(self) -> dict:
        """The document: SI units."""
        return self.document

    def save(self, path: Union[str, Path]) -> None:
        """Write the document as JSON."""
        Path(path).write_text(json.dumps(self.document), encoding="utf-8")

    def to_pandas(self) -> Any:
        """A DataFrame of the rows: ranks, candidates, points or plans. ImportError without pandas."""
        return _pandas().json_normalize(self.document[self._rows])

    def _facts(self) -> list[tuple[str, str]]:
        return []

    def svg(self) -> str:
        """The picture, as SVG that needs no other program; "" where there is nothing to draw."""
        chart = self._chart()
        return chart.svg() if chart else ""

    def plot(self, ax: Any = None, *, kind: Optional[str] = None, **settings: Any) -> Any:
        """With a kind or settings of `foreline plot` (style="paper", label={"old": "new"}): a Picture. Without: by matplotlib,
        into `ax` where that is given: returns the axes. Without matplotlib: an object that notebooks show as the SVG, with
        save(path)."""
        if kind or settings:
            standard, text, name, columns = self._plotted()
            return Picture(kind or standard, text, name, {**columns, **settings})
        chart = self._chart()
        if chart is None:
            raise Error(f"{type(self).__name__}: nothing to draw", "invalid")
        return chart.plot(ax)

    def _chart(self) -> Optional[_svg.Chart]:
        return None

    def _plotted(self) -> tuple[str, str, str, dict]:
        """Kind, text and name of a file for `foreline plot`, and columns of it: of bars a table."""
        chart = self._chart()
        if not isinstance(chart, _svg.Bars):
            raise Error(f"{type(self).__name__}: nothing to draw", "invalid")
        value = f"{chart.title} ({chart.unit})".replace("_", " ")
        return "throughput", _tsv([["part", value], *map(list, chart.bars)]), "bars.tsv", {
            "x": "part", "y": value, "xlabel": value.capitalize()}

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(v)}</td></tr>" for k, v in self._facts())
        return f"<table>{rows}</table>{self.svg()}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} " + ", ".join(f"{k} {v}" for k, v in self._facts()) + ">"


class Measurement(Document):
    """An iteration, predicted by an engine or measured in a run.

    engine, plan, model, platform   what was simulated or run, by what
    iteration_s, samples_per_s, tokens_per_s, mfu, bubble_fraction, fits
    breakdown                       where the time goes: compute_s, exposed_s, optimizer_s, bubble_s
    bottleneck                      a sentence
    ranks, links, collectives       a record each
    warnings                        what to know before believing it
    timeline                        of simulate(..., timeline=True); else None

    Keys that a document does not have, such as tokens_per_s of a model without tokens, are None by get().
    """

    _rows = "ranks"
    iteration_s: float
    samples_per_s: float
    engine: str

    def __init__(self, document: dict, timeline: Optional["Timeline"] = None, plan: Optional["Plan"] = None) -> None:
        super().__init__(document)
        self.timeline, self.made_of = timeline, plan

    @classmethod
    def load(cls, path: Union[str, Path]) -> "Measurement":
        """A file of `simulate -o`, `run -o`, `measurement import`."""
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document.get("format") != "foreline-measurement":
            raise Error(f"{path}:1: format is {document.get('format')!r}, expected 'foreline-measurement'", "parse")
        if document.get("plan"): # relative to the file
            document["plan"] = str(Path(path).resolve().parent / document["plan"])
        return cls(document)

    @property
    def peak_bytes(self) -> int:
        """Of the fullest rank."""
        return max(rank["peak_bytes"] for rank in self.document["ranks"])

    def _facts(self) -> list[tuple[str, str]]:
        d = self.document
        out = [("engine", d["engine"]), ("iteration", _number(1e3 * d["iteration_s"], " ms"))]
        if d.get("tokens_per_s"):
            out.append(("tokens/s", _number(d["tokens_per_s"])))
        if d.get("mfu"):
            out.append(("MFU", f"{100 * d['mfu']:.1f} %"))
        if d.get("ranks"):
            out.append(("peak memory", _number(self.peak_bytes / 2**30, " GiB")))
        if "fits" in d:
            out.append(("fits", "yes" if d["fits"] else "no"))
        return out

    def _chart(self) -> Optional[_svg.Chart]:
        b = self.document.get("breakdown")
        if not b:
            return None
        parts = {"compute": b["compute_s"], **{f"waiting: {k}": v for k, v in b.get("exposed_s", {}).items()},
                 "optimizer": b["optimizer_s"], "bubble": b["bubble_s"]}
        return _svg.Bars("where an iteration goes", "ms", [(k, 1e3 * v) for k, v in parts.items() if v > 0])

    def _plotted(self) -> tuple[str, str, str, dict]:
        plan = Path(self.document.get("plan") or "measurement").stem
        return "breakdown", json.dumps(self.document), f"{plan}.json", {}

    def svg(self) -> str:
        return self.timeline.svg() if self.timeline else super().svg()


class Timeline(Document):
    """When each operation of each rank ran: document["traceEvents"], for ui.perfetto.dev, too."""

    _rows = "traceEvents"

    def _chart(self) -> _svg.Chart:
        names, spans = {}, []
        for e in self.document["traceEvents"]:
            if e["ph"] == "M" and e["name"] == "process_name":
                names[e["pid"]] = e["args"]["name"]
            elif e["ph"] == "X":
                spans.append((e["pid"], e["ts"] / 1e3, e["dur"] / 1e3, e["cat"], e["name"]))
        return _svg.Gantt("an iteration", names, spans)

    def _plotted(self) -> tuple[str, str, str, dict]:
        return "timeline", json.dumps(self.document), "timeline.json", {}


class Sweep(Document):
    """The points of an experiment: a record each, with settings, status and result.

    points    all of them, as `foreline sweep --export tsv` prints them; numbers are numbers
    axes      the columns that vary, in the order of the experiment
    database  path of the SQLite file, for `foreline report` and `plot`; None where nobody asked for one
    """

    _rows = "points"

    def __init__(self, points: list[dict], axes: list[str], database: Optional[str]) -> None:
        super().__init__({"points": points})
        self.axes, self.database = axes, database

    def __len__(self) -> int:
        return len(self.document["points"])

    def __iter__(self) -> Iterator[Record]:
        return iter(self.points)

    def best(self, of: str = "samples_per_s", **where: Any) -> Record:
        """The point with the most of a column among those that are ok and have these values."""
        kept = [p for p in self.points if p["status"] == "ok" and all(p.get(k) == v for k, v in where.items())]
        if not kept:
            raise Error("no point has status ok" + "".join(f", {k} = {v}" for k, v in where.items()), "infeasible")
        return max(kept, key=lambda p: p[of])

    def _facts(self) -> list[tuple[str, str]]:
        ok = sum(p["status"] == "ok" for p in self.document["points"])
        return [("points", f"{len(self)}"), ("ok", f"{ok}"), ("over", ", ".join(self.axes) or "nothing")]

    def _chart(self) -> Optional[_svg.Chart]:
        return self.chart()

    def _plotted(self) -> tuple[str, str, str, dict]:
        points = self.document["points"]
        names = list(dict.fromkeys(name for point in points for name in point))
        cells = [["" if point.get(name) is None else point[name] for name in names] for point in points]
        return "throughput", _tsv([names, *cells]), "sweep.tsv", {}

    def chart(self, x: Optional[str] = None, y: str = "samples_per_s", by: Optional[str] = None) -> Optional[_svg.Lines]:
        """y over x with a line for each value of `by`: by default the last axis and the one before it. Of several
        points in one place the highest counts."""
        x = x or (self.axes[-1] if self.axes else None)
        by = by or next((a for a in reversed(self.axes) if a != x), None)
        if not x:
            return None
        lines: dict[str, dict[str, float]] = {}
        for p in self.document["points"]:
            if p["status"] == "ok" and p.get(y) is not None:
                line = lines.setdefault(str(p[by]) if by else y, {})
                line[str(p[x])] = max(p[y], line.get(str(p[x]), p[y]))
        title = f"{y} over {x}" + (f", a line for each {by}" if by else "")
        return _svg.Lines(title, x, y, by or "", lines) if lines else None


class Comparison(Document):
    """Predicted against measured: plans, mean_abs_error, median_abs_error, p95_abs_error, kendall_tau, regret. Of plans,
    predictions or measurements alone: plans, per, warnings; of two: faster, difference_s, time, changes."""

    _rows = "plans"

    def _facts(self) -> list[tuple[str, str]]:
        d = self.document
        if "per" in d:
            return [(p["plan"] or p["file"], f"{_number(p['time_s'], ' s')} per {d['per']}") for p in d["plans"]]
        return [("predicted by", d["engine"]), ("measured by", d["measured_by"]), ("plans", f"{len(d['plans'])}"),
                ("mean error", f"{100 * d['mean_abs_error']:.1f} %")]

    def _chart(self) -> _svg.Chart:
        bars = []
        if "per" in self.document:
            rows = [(Path(p["plan"] or p["file"]).stem, 1e3 * p["time_s"]) for p in self.document["plans"]]
            return _svg.Bars(f"time per {self.document['per']}", "ms", rows)
        for p in self.document["plans"]:
            name = Path(p["plan"]).stem
            bars += [(f"{name}, predicted", 1e3 * p["predicted_s"]), (f"{name}, measured", 1e3 * p["measured_s"])]
        return _svg.Bars("predicted and measured iteration", "ms", bars)


class Campaign(Document):
    """A training of weeks: p5_s, p50_s, p95_s of wall time, effective, every_s, spares, causes, remedies."""

    _rows = "causes"

    def _facts(self) -> list[tuple[str, str]]:
        d = self.document
        days = [_number(None if d[q] is None else d[q] / 86400) for q in ("p50_s", "p5_s", "p95_s")]
        return [("days", f"{days[0]} ({days[1]} to {days[2]})"), ("effective", f"{100 * d['effective']:.1f} %"),
                ("a checkpoint every", f"{_number(d['every_s'], ' s')}"), ("spare nodes", f"{d['spares']}")]

    def _chart(self) -> _svg.Chart:
        d = self.document
        parts = [(p[:-2], d[p]) for p in ("work_s", "saving_s", "waiting_s", "reduced_s", "slow_s")]
        parts += [(c["cause"], c["lost_s"] + c["down_s"]) for c in d["causes"]]
        return _svg.Bars("where the time goes", "days", [(name, s / 86400) for name, s in parts if s > 0])


class CampaignTable(Document):
    """Campaigns over checkpoint intervals, spare nodes or sizes of the cluster.

    rows  a record each: interval_s, spares or devices; days, p5_days, p95_days, effective, every_s, spare_nodes
    """

    _rows = "rows"

    def __init__(self, over: str, rows: list[dict]) -> None:
        super().__init__({"over": over, "rows": rows})

    def __len__(self) -> int:
        return len(self.document["rows"])

    def __iter__(self) -> Iterator[Record]:
        return iter(self.rows)

    def _facts(self) -> list[tuple[str, str]]:
        best = min(self.rows, key=lambda r: r["days"], default=None)
        x = next(iter(best), "") if best else ""
        return [("over", self.over), ("rows", f"{len(self)}"), *([("fewest days", f"{_number(best.days)} at {x} {_number(best[x])}")] if best else [])]

    def _chart(self) -> Optional[_svg.Chart]:
        if not self.rows:
            return None
        x = next(iter(self.rows[0]))
        return _svg.Lines(f"days over {x}", x, "days", "", {"days": {str(r[x]): r["days"] for r in self.rows}})
