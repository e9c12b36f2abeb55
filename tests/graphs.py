#!/usr/bin/env python3
"""Cuts of graphs against all cuts, and against each proposer alone.

usage: graphs.py FORELINE exact FIRST LAST OPS STAGES [SCHEDULE]
       graphs.py FORELINE alone [MODEL...]

exact: random models of OPS ops, seeds FIRST to LAST, on two fast and two slow devices and on four
equal ones. All chains of down-sets on all orders of devices are simulated, and `auto` must find the
best: in nine of ten, 0.5 % above it on average, 5 % at worst.

alone: models that branch on six platforms, and random graphs. `auto` must not be beaten, by more
than 0.1 % as SimGrid simulates it, by any proposer alone. Says whose proposals the best cuts are.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

MICROBATCHES = 8
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="z" routing="Floyd">
    <prop id="memory_bandwidth" value="1000GBps"/>
    <router id="sa"/><router id="sb"/>
    <link id="up" bandwidth="{up}GBps" latency="20us" sharing_policy="SHARED"/>
    {hosts}{routes}    <route src="sa" dst="sb"><link_ctn id="up"/></route>
  </zone>
</platform>
"""
HOST = """<host id="{name}" speed="{speed}Tf"/>
<link id="{name}l" bandwidth="{port}GBps" latency="2us" sharing_policy="SPLITDUPLEX"/>
"""
ROUTE = """<route src="{name}" dst="s{side}"><link_ctn id="{name}l" direction="UP"/></route>
"""
DEVICES = ["a0", "a1", "b0", "b1"]


def foreline(*words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True)


def platform(path, slow, up):
    hosts = "".join(HOST.format(name=d, side=d[0], speed=slow if d[0] == "b" else 100,
                                port=slow / 5 if d[0] == "b" else 20) for d in DEVICES)
    with open(path, "w") as f:
        routes = "".join(ROUTE.format(name=d, side=d[0]) for d in DEVICES)
        f.write(PLATFORM.format(up=up, hosts=hosts, routes=routes))


def random_model(path, seed, n, flop=1e10, width=4):
    r = random.Random(seed)
    ops = []
    for i in range(n):
        reads = sorted({r.randrange(max(0, i - width), i) for _ in range(r.choice([1, 1, 2]))}) if i else []
        ops.append({"name": f"o{i}", "kind": "other", "inputs": [f"o{j}" for j in reads],
                    "forward_flop": int(r.uniform(2, 30) * flop), "backward_flop": 0,
                    "forward_bytes": 0, "backward_bytes": 0, "stash_bytes": 0,
                    "output_bytes": r.choice([1, 2, 5, 10, 20, 40]) * 250000 if i < n - 1 else 4,
                    "parameter_bytes": 1000000})
        ops[-1]["backward_flop"] = 2 * ops[-1]["forward_flop"]
    read = {j for o in ops for j in o["inputs"]}
    ops[-1]["inputs"] = sorted({*ops[-1]["inputs"], *(o["name"] for o in ops[:-1] if o["name"] not in read)})
    with open(path, "w") as f:
        json.dump({"format": "foreline-model", "version": 1,
                   "provenance": {"version": "x", "command": "x", "seed": 0}, "name": "random",
                   "tokens_per_sample": 0, "element_bytes": 4, "ops": ops}, f)
    return ops


def chains(ops, stages):
    """All chains of down-sets, as lists of the ops of each stage."""
    n, at = len(ops), {o["name"]: i for i, o in enumerate(ops)}
    reads = [sum(1 << at[j] for j in o["inputs"]) for o in ops]
    downs, seen = [0], {0}
    for d in downs:
        for i in range(n):
            more = d | 1 << i
            if not d >> i & 1 and reads[i] & ~d == 0 and more not in seen:
                seen.add(more)
                downs.append(more)
    full = (1 << n) - 1
    inner = sorted((d for d in downs if d not in (0, full)), key=lambda d: bin(d).count("1"))
    for between in itertools.combinations(inner, stages - 1):
        chain = (0, *between, full)
        if all(a & ~b == 0 and a != b for a, b in zip(chain, chain[1:])):
            yield [[i for i in range(n) if (b & ~a) >> i & 1] for a, b in zip(chain, chain[1:])]


def orders(stages, alike):
    """All orders of devices, one of those that are the same but for names."""
    seen = set()
    for p in itertools.permutations(DEVICES, stages):
        names = {}
        key = tuple((d[0], names.setdefault(d, sum(e[0] == d[0] for e in names))) for d in p) if alike else p
        if key not in seen:
            seen.add(key)
            yield p


def least_of_all(ops, stages, schedule):
    """Seconds of the best of all cuts on all orders of devices, by the analytic engine."""
    with open("all.yml", "w") as f:
        f.write("name: all\nengine: analytic\nplan:\n")
        k = 0
        for chain in chains(ops, stages):
            for order in orders(stages, True):
                plan = {"format": "foreline-plan", "version": 1,
                        "provenance": {"version": "x", "command": "x", "seed": 0},
                        "model": "m.json", "platform": "p.xml", "schedule": schedule,
                        "microbatches": MICROBATCHES, "microbatch_size": 1, "optimizer": "sgd", "seed": 1,
                        "stages": [{"ops": [ops[i]["name"] for i in s], "devices": [d], "replicas": 1,
                                    "tensor_parallel": 1, "recompute": False}
                                   for s, d in zip(chain, order)]}
                with open(f"{k}.json", "w") as g:
                    json.dump(plan, g)
                f.write(f"  - {k}.json\n")
                k += 1
    done = foreline("sweep", "all.yml")
    assert done.returncode == 0, done.stderr
    rows = foreline("sweep", "all.yml", "--export", "tsv").stdout.splitlines()
    column = rows[0].lstrip("# ").split("\t").index("iteration_s")
    return min(float(r.split("\t")[column]) for r in rows[1:]), k


def seconds(plan, engine):
    return json.loads(foreline("simulate", plan, "--engine", engine, "--json").stdout)["iteration_s"]


def plan(algorithm, stages, schedule, where, *more):
    search = ["--recompute", "none", "--zero", "0"] if algorithm == "auto" else []
    done = foreline("plan", "--platform", where, "--algorithm", algorithm, "--stages", str(stages),
                    "--replicas", "1", "--tensor-parallel", "1", "--microbatches", str(MICROBATCHES),
                    "--microbatch-size", "1", "--schedule", schedule, "--optimizer", "sgd",
                    "--granularity", "op", *search, *more, "-o", "x.json")
    return done.returncode == 0, done.stderr


def exact(first, last, n, stages, schedule="1f1b"):
    over = []
    for seed in range(int(first), int(last)):
        for name in os.listdir("."):
            os.remove(name)
        ops = random_model("m.json", seed, int(n))
        platform("p.xml", 100 if seed % 3 == 0 else 50, [3, 20, 1, 6][seed % 4])
        least_s, plans = least_of_all(ops, int(stages), schedule)
        made, error = plan("auto", stages, schedule, "p.xml", "--model", "m.json")
        assert made, error
        over.append(seconds("x.json", "analytic") / least_s - 1)
        if over[-1] > 1e-6:
            print(f"seed {seed}: {100 * over[-1]:.2f} % above the best of {plans}", flush=True)
    best = sum(o <= 1e-6 for o in over)
    mean, worst = sum(over) / len(over), max(over)
    print(f"{len(over)} models of {n} ops in {stages} stages, {schedule}: the best of all cuts in {best}, "
          f"{100 * mean:.2f} % above it on average, {100 * worst:.2f} % at worst")
    return best >= 0.9 * len(over) and mean <= 0.005 and worst <= 0.05


PLATFORMS = ["node:gpus=4,type=A100", "two-racks", "fat-tree:nodes=4,gpus=2", "laptop", "slow.xml", "equal.xml"]
MODELS = ["unet", "gnmt", "resnet", "vgg", "bart-base:layers=2", "mobilebert:layers=4", *(f"random:{k}" for k in range(12))]


def alone(models):
    algorithms = [line.split()[0] for line in foreline("plan", "--algorithm", "list").stdout.splitlines()
                  if line.split()[0].split(":")[0] in ("graph", "igraph", "balanced", "metis")]
    beaten, only = 0, {}
    for model in models or MODELS:
        for where in PLATFORMS:
            m = ["--model", model]
            if model.startswith("random:"):
                k = int(model[7:])
                random_model("m.json", k, 200 + 100 * k, 1e9, 3 + 4 * k)
                m = ["--model", "m.json"]
            platform("slow.xml", 50, 3)
            platform("equal.xml", 100, 20)
            made, error = plan("auto", 4, "1f1b", where, *m, "--candidates", "c.tsv")
            if not made:
                print(f"{model} on {where}: {error.splitlines()[-1]}")
                continue
            auto_s = seconds("x.json", "simgrid")
            best, by = float("inf"), ""
            for a in algorithms:
                if plan(a, 4, "1f1b", where, *m)[0] and (s := seconds("x.json", "simgrid")) < best:
                    best, by = s, a
            proposed = {}
            for row in open("c.tsv"):
                if not row.startswith("#"):
                    w = row.split("\t")
                    proposed[w[0]] = min(proposed.get(w[0], float("inf")), float(w[7]))
            winner = min(proposed, key=proposed.get) if proposed else "balanced"
            rest = min((s for p, s in proposed.items() if p != winner), default=float("inf"))
            if proposed and rest > proposed[winner] * 1.0001:
                only.setdefault(winner, []).append(f"{model} on {where}")
            worse = auto_s > best * 1.001
            beaten += worse
            print(f"{model} on {where}: auto {auto_s:.6g} s by {winner}, best alone {best:.6g} s by {by}"
                  f"{' BEATEN' if worse else ''}", flush=True)
    for winner, where in sorted(only.items()):
        print(f"{winner}: only source of the best plan in {len(where)}, such as {where[0]}")
    print(f"{beaten} beaten")
    return beaten == 0


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("exact", "alone"):
        sys.exit(__doc__)
    sys.argv[1] = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        good = exact(*sys.argv[3:]) if sys.argv[2] == "exact" else alone(sys.argv[3:])
        os.chdir("/")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
