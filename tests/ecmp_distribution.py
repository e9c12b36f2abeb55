#!/usr/bin/env python3
"""Completion times of hashed flows: an emulated leaf-spine, whose kernel hashes, beside the analytic engine over seeds.

Two racks of eight nodes under four spines; 8, 16 or 32 flows of 1 MB from one rack to the other, each between a pair of
nodes of its own. Only cables to spines are narrow: a node's port has four times their bandwidth. So a flow takes a whole
multiple of its time alone, as many times as its cable has flows, and times are rounded to such multiples.

Statistics, chosen before the runs: the median over runs of the mean completion time, and of the slowest flow; the largest
distance of distributions (Kolmogorov and Smirnov) of all flows' times and of the slowest flow's. Flows of one run depend
on each other and times are discrete, so the distance that 1 % of predicted experiments exceed is counted, not looked up:
as many predicted runs as were measured, against as many as predict. Likewise how many predicted experiments have a median
more than 5 % off. Fails when a distance is beyond that of 1 % divided by the number of distances.

Usage: ecmp_distribution.py FORELINE [RUNS [FLOWS...]]
"""
import json
import os
import random
import subprocess
import sys
import tempfile

NODES, SPINES, BYTES, CABLE_BPS = 8, 4, 1000000, 5e6
ALONE_S = BYTES / CABLE_BPS
SEEDS, EXPERIMENTS, REDRAWN, OFF = 4000, 2000, 40, 0.05


def times(foreline, *words):
    """Completion times in whole multiples of a flow alone, sorted."""
    said = subprocess.run([foreline, "bench", "network", "--json", *words], capture_output=True, text=True, timeout=300)
    if said.returncode != 0:
        sys.exit(f"{' '.join(words)}: {said.stderr}")
    case = json.loads(said.stdout)["cases"][0]
    key = [k for k in case if k in ("analytic", "netns")][0]
    if None in case[key]:
        sys.exit(said.stderr)
    return sorted(round(x / ALONE_S) for x in case[key]), max(abs(x / ALONE_S / round(x / ALONE_S) - 1) for x in case[key])


def median(values):
    v = sorted(values)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def shares(values, most):
    """Cumulative distribution at 0, 1, ..., most."""
    count = [0] * (most + 1)
    for v in values:
        count[v] += 1
    total, out = 0, []
    for c in count:
        total += c
        out.append(total / len(values))
    return out


def distance(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def compare(name, measured, predicted, of, draw, tests):
    """A line of the table; False: rejected. `of` makes the values of a list of runs."""
    most = max(max(r) for r in measured + predicted)
    cdf = shares(of(predicted), most)
    d = distance(shares(of(measured), most), cdf)
    others = [shares(of(draw(predicted, len(predicted))), most) for _ in range(REDRAWN)]
    null = sorted(distance(shares(of(draw(predicted, len(measured))), most), others[i % REDRAWN]) for i in range(EXPERIMENTS))
    limit, hard = null[int(0.99 * EXPERIMENTS)], null[int((1 - 0.01 / tests) * EXPERIMENTS)]
    print(f"  {name:<12} D {d:.3f}, beyond {limit:.3f} rejected at 1 %: {'REJECTED' if d > limit else 'not rejected'};"
          f" {sum(x >= d for x in null) / EXPERIMENTS:.0%} of predicted experiments are further off")
    return d <= hard


def medians(name, measured, predicted, value, draw):
    m, p = median(value(r) for r in measured), median(value(r) for r in predicted)
    off = sum(abs(median(value(r) for r in draw(predicted, len(measured))) / p - 1) > OFF for _ in range(EXPERIMENTS)) / EXPERIMENTS
    print(f"  {name:<12} median measured {m:.3f}, predicted {p:.3f}: {100 * (m / p - 1):+.1f} %;"
          f" {off:.0%} of predicted experiments are more than 5 % off")


def main():
    foreline, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    flows = [int(f) for f in sys.argv[3:]] or [8, 16, 32]
    if subprocess.run([foreline, "emulate", "--check"], capture_output=True, timeout=120).returncode != 0:
        print("skipped: no emulated networks here")
        sys.exit(77)
    rng, good = random.Random(1), True
    with tempfile.TemporaryDirectory() as folder:
        platform = os.path.join(folder, "p.xml")
        spec = (f"leaf-spine:nodes={2 * NODES},gpus=1,rack={NODES},spines={SPINES},nic={4 * CABLE_BPS:.0f}Bps,"
                f"oversubscription=8,paths=ecmp")
        subprocess.run([foreline, "topology", "generate", spec, "-o", platform], check=True, timeout=60)
        for n in flows:
            file = os.path.join(folder, "flows")
            with open(file, "w") as f:
                for i in range(n):
                    f.write(f"{i % NODES} {NODES + (i + i // NODES) % NODES} {BYTES}\n")
            common = ("--platform", platform, "--flows", file)
            predicted = [times(foreline, *common, "--engines", "analytic", "--seed", str(s))[0] for s in range(SEEDS)]
            both = [times(foreline, *common, "--engines", "netns") for _ in range(runs)]
            measured = [b[0] for b in both]
            print(f"{n} flows, {runs} runs, {SEEDS} seeds; times are within {100 * max(b[1] for b in both):.1f} %"
                  " of whole multiples")
            draw = lambda p, k: rng.choices(p, k=k)
            medians("mean of flows", measured, predicted, lambda r: sum(r) / len(r), draw)
            medians("slowest", measured, predicted, max, draw)
            tests = 2 * len(flows)
            good &= compare("all flows", measured, predicted, lambda p: [t for r in p for t in r], draw, tests)
            good &= compare("slowest", measured, predicted, lambda p: [max(r) for r in p], draw, tests)
            most = max(max(r) for r in measured)
            print("  slowest      runs: " + ", ".join(f"{k} x {sum(max(r) == k for r in measured)}"
                                                      f" ({sum(max(r) == k for r in predicted) * runs / SEEDS:.1f})"
                                                      for k in range(1, most + 1) if any(max(r) == k for r in measured)))
            sys.stdout.flush()
    sys.exit(not good)


if __name__ == "__main__":
    main()
