"""Plans: made, read, simulated."""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Optional, Union

from . import _svg
from ._command import command, options
from ._library import Handle, Progress, UsageError, Value, Watched, call, document, library, make
from .captures import Capture, Path_
from .inputs import Model, Platform, Source, model_of, platform_of
from .results import Document, Measurement, Timeline, _number


class Plan(Document):
    """A plan: Plan("plan.json") reads one, foreline.plan() makes one.

    Of plans that were made here: iteration_s, samples_per_s, tokens_per_s, mfu, engine, framework, stages,
    expected_error (how far off it may be, by published runs), and of a search candidates, best first.
    Of plans that were read: what is in the file.
    """

    _rows = "candidates"
    iteration_s: float
    samples_per_s: float

    def __init__(self, path: Path_) -> None:
        self._take(make("plan_read", "plan", os.fspath(path).encode()), os.fspath(path),
                   json.loads(Path(path).read_text(encoding="utf-8")))

    def _take(self, handle: Handle, path: Optional[str], said: dict) -> None:
        super().__init__(said)
        self._handle, self.path = handle, path

    @classmethod
    def _made(cls, handle: Handle) -> "Plan":
        plan = cls.__new__(cls)
        plan._take(handle, None, json.loads(library().foreline_plan_json(handle.pointer)))
        return plan

    def save(self, path: Path_) -> None:
        """Write the plan file: what `foreline plan -o` writes."""
        call("plan_write", self._handle.pointer, os.fspath(path).encode())

    def _file(self) -> str:
        """For commands: of a plan that was made here a temporary file, which lives as long as the plan."""
        if self.path is None:
            folder = tempfile.mkdtemp(prefix="foreline-plan-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.path = str(Path(folder) / "plan.json")
            self.save(self.path)
        return self.path

    def _identity(self) -> dict[str, str]:
        """By which measurements of the plan are paired."""
        path = Path(self._file())
        return {"plan": str(path.resolve()), "plan_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def explain(self) -> str:
        """Where its time goes, and what would have to change: `foreline plan --explain`. Runs the command."""
        return command(["plan", "--explain", self._file()])

    def export(self, to: str, **settings: Value) -> str:
        """The arguments that run it in another framework: `foreline plan export --to NAME`. Runs the command."""
        return command(["plan", "export", self._file(), *options({"to": to, **settings})])

    def _facts(self) -> list[tuple[str, str]]:
        if "iteration_s" not in self.document:
            return [("file", str(self.path))]
        out = [("stages", str(len(self.document["stages"]))), ("iteration", _number(1e3 * self.iteration_s, " ms")),
               ("samples/s", _number(self.samples_per_s)), ("by", str(self.document["engine"]))]
        if self.document.get("tokens_per_s"):
            out.append(("tokens/s", _number(self.document["tokens_per_s"])))
        return out

    def _chart(self) -> Optional[_svg.Chart]:
        ranked = [c for c in self.document.get("candidates", []) if c.get("iteration_s")][:12]
        if not ranked:
            return None
        return _svg.Bars("candidates", "ms", [(_label(i, c), 1e3 * c["iteration_s"]) for i, c in enumerate(ranked, 1)])


def _label(i: int, c: dict) -> str:
    degrees = f"{i}: PP {c['stages'] // c['chunks']} DP {c['replicas']} TP {c['shards']}"
    return degrees + (f" ZeRO-{c['zero']}" if c.get("zero") else "") + ("" if c["fits"] else ", does not fit")


def plan(model: Union[Model, Source], platform: Union[Platform, str], *,
         progress: Optional[Progress] = None, **settings: Optional[Value]) -> Plan:
    """Search for the fastest plan within what is given, or plan by algorithm="balanced", ...

    settings  the options of `foreline plan`, with underscores: batch=512, tp=8, pp=4, zero=1, framework="megatron",
              schedule="1f1b", time_limit="10s"
    progress  called as progress(plans_scored, 0), which returns False to take the best plan so far.

    Raises InfeasibleError where nothing fits, UsageError for settings that do not exist or contradict each other.
    """
    model, platform = model_of(model), platform_of(platform)
    watched = Watched(settings, progress)
    out = watched.make("plan_find", model._handle.pointer, platform._handle.pointer)
    return Plan._made(Handle("plan", out, (model, platform)))


def simulate(plan: Union[Plan, Capture, Path_], platform: Union[Platform, str, None] = None, *, timeline: bool = False, # pylint: disable=redefined-outer-name
             progress: Optional[Progress] = None, **settings: Optional[Value]) -> Measurement:
    """Predict an iteration of a plan, or of a captured script.

    platform  instead of the plan's, with the same device names; None: the plan's. A capture needs one, and runs the command
    timeline  also when each operation ran, in the result's `timeline`
    settings  the options of `foreline simulate`, with underscores: engine="analytic", jitter="5%",
              slow="r0n0g1=2", fail="r0n0-nic@0.1s", forward_only=True; model="..." and batch=N instead of the plan's
    progress  called as progress(ops_done, ops), which returns False to stop, which raises Stopped; not of a capture
    """
    if not isinstance(plan, (Plan, Capture)):
        plan = Capture(plan) if Path(plan).is_dir() else Plan(plan)
    if platform is not None and not (isinstance(plan, Plan) and _is_of(plan, platform_of(platform))):
        settings["platform"] = platform_of(platform).spec
    made_of = plan if isinstance(plan, Plan) else None
    if not timeline:
        return Measurement(_simulate(plan, settings, progress), plan=made_of)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        said = _simulate(plan, {**settings, "trace": str(trace)}, progress)
        packed = trace.read_bytes()
    if packed[:2] == b"\x1f\x8b":
        import gzip
        packed = gzip.decompress(packed)
    return Measurement(said, Timeline(json.loads(packed)), made_of)


def _simulate(plan: Union[Plan, Capture], settings: dict, progress: Optional[Progress]) -> dict: # pylint: disable=redefined-outer-name
    if isinstance(plan, Capture):
        if progress:
            raise UsageError("simulate: progress has no effect on a capture", "usage")
        return json.loads(command(["simulate", plan.path, *options({**settings, "json": True})]))
    return document(Watched(settings, progress).make("simulate", plan._handle.pointer))


def _is_of(plan: Plan, platform: Platform) -> bool: # pylint: disable=redefined-outer-name
    if plan._handle._keeps:
        return plan._handle._keeps[1].spec == platform.spec
    return plan.document.get("platform") == platform.spec
