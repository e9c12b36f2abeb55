"""An independent count of a trace of PyTorch's profiler, from docs/explanation/accuracy.md's definitions alone:
a sweep over begins and ends in whole nanoseconds. Usage: count_trace.py TRACE...; a line per trace: rank,
steps, and per step the nanoseconds of the window, compute, communication, exposed and idle."""
import gzip
import json
import sys
from fractions import Fraction


def ns(text):
    return int(Fraction(text) * 1000)


for path in sys.argv[1:]:
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        trace = json.load(f, parse_float=str, parse_int=str)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    spans, copies, steps = [], [], {}
    for e in events:
        if e.get("ph") != "X":
            continue
        category = str(e.get("cat", "")).lower()
        if category == "kernel":
            name = e["name"].lower()
            start = ns(e["ts"])
            spans.append(("nccl" in name or "rccl" in name, start, start + ns(e["dur"])))
        elif category in ("gpu_memcpy", "gpu_memset"):
            copies.append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
        elif e["name"].startswith("ProfilerStep#") and category != "gpu_user_annotation":
            start = ns(e["ts"])
            steps.setdefault(e["name"], (start, start + ns(e["dur"])))
    windows = list(steps.values()) or copies + [s[1:] for s in spans]
    first, last = min(w[0] for w in windows), max(w[1] for w in windows)
    turns = [(last, 0, 0)]
    for communicates, start, end in spans:
        start, end = max(start, first), min(end, last)
        if end > start:
            turns += [(start, communicates, 1), (end, communicates, -1)]
    running, before, sums = [0, 0], first, [0, 0, 0, 0]
    for at, communicates, change in sorted(turns):
        for i, counts in enumerate((running[0], running[1], running[1] and not running[0],
                                    not running[0] and not running[1])):
            sums[i] += at - before if counts else 0
        running[communicates] += change
        before = at
    rank = trace.get("distributedInfo", {}).get("rank", "0") if isinstance(trace, dict) else "0"
    n = len(steps) or 1
    print(rank, n, *("%.6f" % (x / n) for x in [last - first] + sums), sep="\t")
