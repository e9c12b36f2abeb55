"""Sweeps, comparisons, campaigns, calibration and runs: these start the command foreline."""
from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Union

from ._command import command, options
from ._library import Error, Progress, Stopped, Value, error_of
from .inputs import Model, Platform
from .plans import Path_, Plan
from .results import Campaign, CampaignTable, Comparison, Measurement, Sweep


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


def _table(said: str) -> list[dict]:
    """The rows of a tab-separated table."""
    table = csv.DictReader(io.StringIO(said), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [{k: _value(v) for k, v in row.items()} for row in table]


def _key(name: str) -> str:
    """Settings have dashes; parameters of models and names of links are as they are."""
    return name if name.startswith(("model.", "platform.")) else name.replace("_", "-")


def _plain(value: Any) -> Any:
    """As an experiment file has it: models and platforms by name, paths as text."""
    if isinstance(value, (Model, Platform)):
        return value.spec
    if isinstance(value, Mapping):
        return {_key(str(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(v) for v in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _axes(experiment: Mapping[str, Any], under: str = "") -> list[str]:
    out = []
    for key, value in experiment.items():
        if isinstance(value, dict) and key in ("plan", "cases"):
            out += _axes(value, "plan." if key == "plan" else "")
        elif isinstance(value, list) and key != "best":
            out.append("case" if key == "cases" else under + key)
    return out


def _yaml(experiment: Mapping[str, Any], where: str = "experiment") -> list[tuple[str, str]]:
    """Lines of YAML whose values are JSON, which is YAML; each with where the caller has it: "experiment['plan']['stages']"."""
    lines = []
    for key, value in experiment.items():
        name, at = _key(str(key)), f"{where}[{key!r}]"
        if isinstance(value, Mapping):
            lines += [(at, f"{name}:"), *((inside, "  " + line) for inside, line in _yaml(value, at))]
        elif isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) for v in value):
            lines += [(at, f"{name}:"), *((f"{at}[{i}]", f"  - {_flow(_plain(v))}") for i, v in enumerate(value))]
        else:
            lines.append((at, f"{name}: {_flow(_plain(value))}"))
    return lines


def _of_caller(e: Error, path: Path, lines: list[tuple[str, str]]) -> Error:
    """The error of a file that the caller has never seen, as one of the dictionary."""
    where = lines[e.line - 1][0] if e.file == str(path) and e.line and e.line <= len(lines) else "experiment"
    return error_of(re.sub(re.escape(str(path)) + r"(:\d+(:\d+)?)?", lambda _: where, e.message), e.status)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _counter(database: str, progress: Optional[Progress]) -> Optional[Callable[[], None]]:
    """Tells how many points are in the database, where this Python has sqlite3."""
    try:
        import sqlite3
    except ImportError:
        return None

    def tick() -> None:
        try:
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=0.05) as db:
                done, total = (db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("point", "member"))
        except sqlite3.Error: # not there yet, or busy
            return
        if progress and progress(float(done), float(total)) is False:
            raise Stopped(f"{database}: stopped at {done} of {total} points", "stopped")
    return tick if progress else None


def sweep(experiment: Union[Mapping[str, Any], Path_], *, database: Optional[Path_] = None,
          progress: Optional[Progress] = None, **settings: Optional[Value]) -> Sweep:
    """Predict every combination of settings. Runs `foreline sweep`, on all cores.

    experiment  the keys of an experiment file (docs/reference/sweep.md), whose lists are axes, or the path of one; relative
                names of files are seen from the current folder, those of a file from the file
    database    where results are kept: the same sweep again computes what is missing
    progress    called as progress(points_done, points), which returns False to stop, which raises Stopped
    settings    the options of `foreline sweep`: workers=1, retry=True
    """
    plain = _plain(experiment) if isinstance(experiment, Mapping) else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiment.yml" if plain is not None else Path(experiment) # type: ignore[arg-type]
        kept = os.path.abspath(database) if database else str(Path(folder) / "sweep.db")
        lines = _yaml(experiment) if isinstance(experiment, Mapping) else []
        if lines:
            path.write_text("".join(line + "\n" for _, line in lines), encoding="utf-8")
        words = ["sweep", str(path), *options({**settings, "output": kept, "export": "tsv"})]
        try:
            said = command(words, _counter(kept, progress))
        except Error as e:
            raise (_of_caller(e, path, lines) if lines else e) from None
    rows = _table(said)
    before = list(rows[0])[:list(rows[0]).index("status")] if rows else []
    axes = _axes(plain) if plain is not None else [c for c in before if len({r[c] for r in rows}) > 1]
    return Sweep(rows, [a for a in axes if rows and a in rows[0]], kept if database else None)


def compare(*measurements: Union[Measurement, Path_]) -> Comparison:
    """Predictions against runs of the same plans; predictions alone, or measurements alone, beside each other. Runs
    `foreline compare`."""
    with tempfile.TemporaryDirectory() as folder:
        paths: list[str] = []
        for m in measurements:
            if not isinstance(m, Measurement):
                paths.append(os.fspath(m))
                continue
            own = Path(folder) / str(len(paths))
            own.mkdir()
            said = dict(m.document)
            if m.made_of is not None and "plan_sha256" not in said:
                said.update(m.made_of._identity())
            paths.append(str(own / "measurement.json"))
            Measurement(said).save(paths[-1])
        return Comparison(json.loads(command(["compare", *paths, "--json"])))


def run(plan: Union[Plan, Path_], **settings: Optional[Value]) -> Measurement:
    """Train a plan for real on this machine, a worker process for each rank. Runs `foreline run`.

    settings  its options, with underscores: steps=10, transport="local", device="cuda", hosts="hosts.txt"
    """
    with tempfile.TemporaryDirectory() as folder:
        path = plan._file() if isinstance(plan, Plan) else os.fspath(plan)
        output = Path(folder) / "measured.json"
        command(["run", path, *options({**settings, "output": str(output)})])
        measured = Measurement.load(output)
    measured.made_of = plan if isinstance(plan, Plan) else None
    return measured


def campaign(plan: Union[Plan, Path_], tokens: Union[float, str], *, over: Optional[str] = None,
             **settings: Optional[Value]) -> Union[Campaign, CampaignTable]:
    """Days of a whole training with failures, checkpoints and repairs. Runs `foreline campaign`.

    tokens    of the training: 15e12 or "15T"
    over      "interval", "spares" or "size": a table of predictions over it
    settings  its options, with underscores: failures="llama3:gpu=50000h", storage="peer", recovery="hot", spares=16
    """
    path = plan._file() if isinstance(plan, Plan) else os.fspath(plan)
    for name in ("every", "iteration_time", "swap", "checkpoint_stop"): # numbers are seconds
        if isinstance(settings.get(name), (int, float)):
            settings[name] = f"{settings[name]}s"
    words = ["campaign", path, *options({**settings, "tokens": tokens, "over": over})]
    if over is not None:
        return CampaignTable(over, _table(command(words)))
    return Campaign(json.loads(command([*words, "--json"])))


def calibrate(output: Path_, **settings: Optional[Value]) -> Platform:
    """Measure this machine and write a platform file. Runs `foreline calibrate`.

    settings  its options, with underscores: ranks=2, model="gpt-tiny", repeats=3
    """
    command(["calibrate", *options({**settings, "output": os.fspath(output)})])
    return Platform(output)
