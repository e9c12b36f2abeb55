#!/usr/bin/env python3
"""`simulate --timeline` says of each op what `--trace` says, and memory that peaks where the prediction does.

usage: timeline_columns.py FORELINE

Seeded plans, op by op; then a plan of more than 256 devices, whose ranks alike share the ops of one: busy as long, with
as much memory, as the row of each rank says.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

PLANS = [["--pp", "4", "--replicas", "2", "--schedule", s] for s in ("1f1b", "gpipe", "zb-h1")] + [
    ["--pp", "2", "--vp", "2", "--tp", "2", "--replicas", "2", "--schedule", "interleaved", "--sp"],
    ["--pp", "1", "--replicas", "8", "--zero", "3", "--bucket", "4MiB"], ["--pp", "2", "--replicas", "4", "--recompute", "full", "--zero", "1"]]


def call(foreline, *words):
    run = subprocess.run([foreline, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if run.returncode:
        sys.exit(f"{words}: {run.returncode}: {run.stderr}")
    return run.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def expect(ok, what, plan):
    if not ok:
        sys.exit(f"{what}: {plan}")


def peak(t, k):
    """Most memory of a simulated rank by its ops: what stays, activations around an op of compute, scratch."""
    first, most, held = t["ranks"][k]["first"], 0, 0
    to = t["ranks"][k + 1]["first"] if k + 1 < len(t["ranks"]) else len(t["op"]["start"])
    for behind in t["op"]["held"][first:to]:
        most, held = max(most, held, behind), behind
    return t["ranks"][k]["static_bytes"] + t["ranks"][k]["scratch_bytes"] + most


def busy(t, k):
    to = t["ranks"][k + 1]["first"] if k + 1 < len(t["ranks"]) else len(t["op"]["start"])
    compute = {i for i, kind in enumerate(t["kinds"]) if kind in ("F", "B", "I", "W", "UPDATE")}
    return sum(t["op"]["duration"][i] for i in range(t["ranks"][k]["first"], to) if t["op"]["kind"][i] in compute) / 1e9


def same_as_trace(foreline, plan):
    call(foreline, "plan", "--algorithm", "balanced", "--model", "gpt2-small:layers=8,dtype=bf16", "--platform", "rail:nodes=2,gpus=4,type=H100",
         "--framework", "megatron", "--microbatches", str(8 * random.randint(1, 3)), *plan, "-o", "p.json")
    m = json.loads(call(foreline, "simulate", "p.json", "--engine", random.choice(["analytic", "simgrid"]), "--trace", "t.json", "--timeline", "l.json", "--json"))
    t, events = read("l.json"), [e for e in read("t.json")["traceEvents"] if e["ph"] == "X"]
    expect(len(events) == len(t["op"]["start"]) and t["of"] == list(range(len(m["ranks"]))), "ops and ranks", plan)
    for i, e in enumerate(events):
        op = {key: column[i] for key, column in t["op"].items()}
        rank = max(k for k, r in enumerate(t["ranks"]) if r["first"] <= i)
        said = (rank, op["stage"], op["microbatch"], op["peer"], op["bytes"] if "bytes" in e["args"] else None, t["kinds"][op["kind"]] in e["name"])
        told = (e["pid"], e["args"]["stage"], e["args"].get("microbatch", -1), e["args"].get("peer", -1),
                e["args"]["bytes"] * e["args"].get("calls", 1) if "bytes" in e["args"] else None, True)
        expect(said == told, f"op {i} {said} {told}", plan)
        expect(abs(op["start"] - e["ts"] * 1e3) <= 1 and abs(op["duration"] - e["dur"] * 1e3) <= 2, f"times of op {i}", plan)
        if op["peer"] >= 0:
            expect(t["op"]["match"][op["match"]] == i, f"the other end of op {i}", plan)
    for k, r in enumerate(m["ranks"]):
        expect(peak(t, k) == r["peak_bytes"], f"peak of rank {k}: {peak(t, k)} {r['peak_bytes']}", plan)


def large(foreline):
    plan = ["--pp", "4", "--tp", "4", "--replicas", "32"]
    call(foreline, "plan", "--algorithm", "balanced", "--model", "gpt3-13b", "--platform", "rail:nodes=64,type=H100", "--framework", "megatron",
         "--microbatches", "128", *plan, "-o", "p.json")
    m, t = json.loads(call(foreline, "simulate", "p.json", "--engine", "analytic", "--timeline", "l.json", "--json")), read("l.json")
    expect(len(t["of"]) == 512 and len(t["ranks"]) < 256, "one rank for those alike", plan)
    for r, k in zip(m["ranks"], t["of"]):
        expect(r["stage"] == t["ranks"][k]["stage"] and r["peak_bytes"] == peak(t, k), "memory of " + r["name"], plan)
        expect(abs(busy(t, k) / r["busy_s"] - 1) < 1e-3, f"time of {r['name']}: {busy(t, k)} {r['busy_s']}", plan)


def main():
    foreline = os.path.abspath(sys.argv[1])
    random.seed(46)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for plan in PLANS:
            same_as_trace(foreline, plan)
        large(foreline)
        os.chdir("/")


main()
