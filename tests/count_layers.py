#!/usr/bin/env python3
"""Times of the layers of traces of PyTorch's profiler, counted anew: for every kernel all ranges of its thread are
looked through, instead of kept as a stack. Usage: count_layers.py MODEL.json TRACE
MODEL.json is what `measurement import TRACE --profile ranges` made of it. Exit 1, with the differences, unless all equal."""
import bisect
import collections
import decimal
import gzip
import json
import sys


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path) as f:
        doc = json.load(f, parse_float=decimal.Decimal)
    return doc["traceEvents"] if isinstance(doc, dict) else doc


def ns(e):
    start = round(decimal.Decimal(e["ts"]) * 1000)
    return start, start + round(decimal.Decimal(e["dur"]) * 1000)


class Thread:
    """Intervals of one thread, and those that hold a time, from the outermost on."""

    def __init__(self):
        self.all, self.starts, self.longest = [], [], 0

    def sort(self):
        self.all.sort(key=lambda x: (x[0], -x[1], x[2] != "node"))
        self.starts = [x[0] for x in self.all]
        self.longest = max((x[1] - x[0] for x in self.all), default=0)

    def at(self, t):
        low = bisect.bisect_left(self.starts, t - self.longest)
        high = bisect.bisect_right(self.starts, t)
        return [x for x in self.all[low:high] if x[1] > t]


def main():
    model, trace = sys.argv[1:3]
    events = [e for e in read(trace) if e.get("ph") == "X" and "ts" in e and "dur" in e]
    threads = collections.defaultdict(Thread)
    forward, updates, backward = (collections.defaultdict(list) for _ in range(3))
    launches, steps = {}, []
    not_layers = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)", "nccl:", "c10d::", "gloo:")
    nodes = []
    for e in events:
        cat, name, args = (e.get("cat") or "").lower(), e["name"], e.get("args") or {}
        seq = args.get("Sequence number", -1)
        seq = seq if 0 <= seq < 1 << 60 else -1
        if name.startswith("ProfilerStep#") and cat != "gpu_user_annotation":
            steps.append(ns(e))
        elif cat in ("cuda_runtime", "cuda_driver", "runtime") and args.get("correlation", -1) >= 0:
            launches[args["correlation"]] = (e["tid"], ns(e)[0])
        elif cat in ("cpu_op", "operator"):
            if "evaluate_function" in name:
                threads[e["tid"]].all.append((*ns(e), "node", len(nodes)))
                nodes.append((seq, e["tid"], ns(e)[0]))
                backward[e["tid"]].append(ns(e))
            elif seq >= 0 and "Backward" not in name:
                forward[seq].append((ns(e)[0], e["tid"]))
        elif cat == "user_annotation" and not name.startswith(not_layers):
            threads[e["tid"]].all.append((*ns(e), "range", name))
        elif cat == "python_function" and name.startswith("nn.Module: "):
            threads[e["tid"]].all.append((*ns(e), "range", name[len("nn.Module: "):]))
        if name.startswith("Optimizer.step"):
            updates[e["tid"]].append(ns(e))
    for t in threads.values():
        t.sort()
    in_order = sorted(range(len(nodes)), key=lambda i: nodes[i][1:])
    before = {b: a for a, b in zip(in_order, in_order[1:]) if nodes[a][1] == nodes[b][1]}

    def names(stack):
        return "/".join(x[3] for x in stack if x[2] == "range")

    def layer_of_node(i):
        seq, _, began = nodes[i]
        makers = [f for f in forward.get(seq, []) if f[0] < began]
        if makers:
            start, tid = max(makers)
            return names(threads[tid].at(start))
        return layer_of_node(before[i]) if i in before else ""

    sys.setrecursionlimit(100000)
    low = min(s[0] for s in steps) if steps else -1e30
    high = max(s[1] for s in steps) if steps else 1e30
    times = collections.defaultdict(lambda: [0, 0, 0])
    for e in events:
        cat, name = (e.get("cat") or "").lower(), e["name"]
        plain = "".join(c for c in name.lower() if c.isalnum())
        copy = cat in ("gpu_memcpy", "memcpy", "gpu_memset", "memset")
        if cat != "kernel" and not (copy and ("memset" in plain or "dtod" in plain)):
            continue
        if cat == "kernel" and any(w in plain for w in ("nccl", "rccl", "msccl")):
            continue
        start, end = ns(e)
        if not low <= start < high:
            continue
        what, layer = 0, ""
        launch = launches.get((e.get("args") or {}).get("correlation"))
        if launch:
            tid, t = launch
            if any(a <= t <= b for a, b in updates[tid]):
                continue
            what = 1 if any(a <= t <= b for a, b in backward[tid]) else 0
            stack = threads[tid].at(t)
            k = max((i for i, x in enumerate(stack) if x[2] == "node"), default=-1)
            if k < 0:
                layer = names(stack)
            elif any(x[2] == "range" for x in stack[k:]):
                what, layer = 2, names(stack)
            else:
                layer = layer_of_node(stack[k][3])
        times[layer or "(rest)"][what] += end - start
    doc = json.load(open(model))
    p, n = doc["profiles"][0], max(1, len(steps))
    got = {
        o["name"]: (p["forward_s"][i], p["backward_s"][i], p["again_s"][i] if "again_s" in p else 0)
        for i, o in enumerate(doc["ops"])
    }
    wrong = [
        (k, got.get(k), [t * 1e-9 / n for t in times.get(k, [0, 0, 0])])
        for k in set(got) | set(times)
        if any(abs(a - b * 1e-9 / n) > 1e-12 for a, b in zip(got.get(k, [0, 0, 0]), times.get(k, [0, 0, 0])))
    ]
    for w in wrong[:5]:
        print(*w)
    print(f"{len(got)} layers, {len(wrong)} differ")
    sys.exit(1 if wrong else 0)


main()
