#!/usr/bin/python3
"""Runs in which something goes wrong, one event each: do they end by themselves, soon, with nothing left, and with
the right rank named? Usage: torture.py BIN SHIM [--events N] [--first I] [--seed S] [--jobs J] [--scenarios A,B]
[--kinds A,B] [--numbers I,J] [--hang S] [--out FILE] [--list]. BIN has foreline and its workers. Status 77: no namespaces here.

Every job is the first process of namespaces of its own (processes, mounts, IPC, network): what is in them at the end
of an event is what the run has left, and nothing else can be reached or harmed from there."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import events
import scenarios

NAMED = 0.95     # so often the guilty rank must be named,
ENOUGH = 20      # where there are so many


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("bin")
    p.add_argument("shim")
    p.add_argument("--events", type=int, default=100)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=3)
    p.add_argument("--scenarios", default=",".join(scenarios.ALL))
    p.add_argument("--kinds", help="of the events with these numbers only such")
    p.add_argument("--numbers", help="these events alone")
    p.add_argument("--hang", type=float, default=100, help="seconds: a run that has not ended by then never does")
    p.add_argument("--out")
    p.add_argument("--list", action="store_true", help="only print the events")
    return p.parse_args()


def namespaces():
    """The words that start a process in namespaces of its own; None where that is not allowed."""
    words = ["unshare", "--mount", "--ipc", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    for more in ([], ["--user", "--map-root-user"]):
        if subprocess.run(words + more + ["true"], stderr=subprocess.DEVNULL).returncode == 0:
            return words + more
    return None


def torture(a, wanted, folder):
    """The events over `a.jobs` jobs; what became of each, in the order of their numbers."""
    words = namespaces()
    if not words:
        print("skipped: no namespaces here, and so no way to say what a run has left")
        sys.exit(77)
    jobs = []
    wanted = sorted(wanted, key=lambda e: e["scenario"])  # a job tries first how long each of its commands takes
    for j in range(a.jobs):
        asked = json.dumps({"bin": os.path.abspath(a.bin), "shim": os.path.abspath(a.shim), "seed": a.seed, "hang_s": a.hang,
                            "folder": os.path.join(folder, f"job{j}"), "events": wanted[j * len(wanted) // a.jobs:(j + 1) * len(wanted) // a.jobs]})
        p = subprocess.Popen(words + ["/usr/bin/python3", os.path.join(HERE, "job.py")], stdin=subprocess.PIPE,
                             stdout=open(os.path.join(folder, f"out{j}"), "w+"), text=True)
        p.stdin.write(asked)
        p.stdin.close()
        jobs.append(p)
    results = []
    for j, p in enumerate(jobs):
        if p.wait() != 0:
            sys.exit(f"torture: job {j} ended with {p.returncode}")
        with open(os.path.join(folder, f"out{j}")) as f:
            results += [json.loads(line) for line in f]
    return sorted(results, key=lambda r: r["number"])


def percentile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def report(results):
    """A table per scenario and one per kind; the number of faults."""
    for key in ("scenario", "kind"):
        print(f"{key:14s} events  came  failed  named   of    median_s   p95_s   max_s  faults")
        groups = collections.defaultdict(list)
        for r in results:
            groups[r[key]].append(r)
        for name, rs in sorted(groups.items()) + ([("all", results)] if key == "kind" else []):
            took = [r["took_s"] for r in rs if r["took_s"] is not None]
            guilty = [r["named"] for r in rs if r["named"] is not None]
            print(f"{name:14s} {len(rs):6d} {sum(r['came'] for r in rs):5d} {sum(r['status'] != 0 for r in rs):7d} "
                  f"{sum(guilty):6d} {len(guilty):4d} {percentile(took, .5):11.2f} {percentile(took, .95):7.2f} "
                  f"{max(took, default=float('nan')):7.2f} {sum(bool(r['faults']) for r in rs):7d}")
    bad = sum(bool(r["faults"]) for r in results)
    for r in results:
        if r["faults"]:
            print(f"FAULT {r['number']} {r['scenario']} {r['kind']}: {'; '.join(r.pop('faults'))}\n      {json.dumps(r)}")
    guilty = [r["named"] for r in results if r["named"] is not None]
    if len(guilty) >= ENOUGH and sum(guilty) < NAMED * len(guilty):
        print(f"FAULT the guilty rank is named {sum(guilty)} times of {len(guilty)}")
        bad += 1
    return bad


def main():
    a = arguments()
    names = a.scenarios.split(",")
    numbers = map(int, a.numbers.split(",")) if a.numbers else range(a.first, a.first + a.events)
    wanted = [events.draw(a.seed, i, names) for i in numbers]
    if a.kinds:
        wanted = [e for e in wanted if e["kind"] in a.kinds.split(",")]
    if a.list:
        for e in wanted:
            print(json.dumps(e))
        return 0
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        results = torture(a, wanted, folder)
    if a.out:
        with open(a.out, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in results)
    if len(results) != len(wanted):
        sys.exit(f"torture: {len(results)} results of {len(wanted)} events")
    return 1 if report(results) else 0


if __name__ == "__main__":
    sys.exit(main())
