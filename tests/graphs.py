#!/usr/bin/env python3
"""Cuts of graphs against all cuts, and against each proposer alone.

usage: graphs.py FORELINE exact ALL_CUTS FIRST LAST [STEP]
       graphs.py FORELINE make SEED DIRECTORY
       graphs.py FORELINE alone [MODEL...]

exact: random models of 8 to 12 ops in 2 to 5 stages on 2 to 5 devices, equal and unequal, on four
shapes of platforms, by three schedules: seeds FIRST, FIRST + STEP, ... below LAST. All chains of
down-sets on all orders of devices are simulated (tests/all_cuts.c), and `auto` must find the best:
in nine of ten, 0.5 % above it on average, 5 % at worst.

make: leaves the model and the platform of a seed, and prints the command that plans it.

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
    {parts}
  </zone>
</platform>
"""
LINK = """<link id="{name}" bandwidth="{speed}GBps" latency="{latency}us" sharing_policy="{policy}"/>
"""


def foreline(*words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True)


def platform(path, speed, port, router, middle):
    """Devices d0, d1, ... of so many TFLOP/s at routers 0, 1, ... by ports of so many GB/s; routers in
    a line, or of more than two in a ring, by shared links of `middle` GB/s."""
    routers = 1 + max(router)
    parts = "".join(f'<router id="s{k}"/>\n' for k in range(routers))
    routes = ""
    for k, (tflops, gbps) in enumerate(zip(speed, port)):
        parts += f'<host id="d{k}" speed="{tflops}Tf"/>\n'
        parts += LINK.format(name=f"l{k}", speed=gbps, latency=2, policy="SPLITDUPLEX")
        routes += f'<route src="d{k}" dst="s{router[k]}"><link_ctn id="l{k}" direction="UP"/></route>\n'
    for k in range(routers if routers > 2 else routers - 1):
        parts += LINK.format(name=f"up{k}", speed=middle, latency=20, policy="SHARED")
        routes += f'<route src="s{k}" dst="s{(k + 1) % routers}"><link_ctn id="up{k}"/></route>\n'
    with open(path, "w") as f:
        f.write(PLATFORM.format(parts=parts + routes))


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


def seconds(plan, engine):
    return json.loads(foreline("simulate", plan, "--engine", engine, "--json").stdout)["iteration_s"]


def fixed(algorithm, stages, schedule):
    """Options that leave nothing to choose but cuts and devices."""
    search = ["--recompute", "none", "--zero", "0"] if algorithm == "auto" else []
    return ["--algorithm", algorithm, "--stages", str(stages), "--replicas", "1", "--tensor-parallel", "1",
            "--microbatches", str(MICROBATCHES), "--microbatch-size", "1", "--schedule", schedule,
            "--optimizer", "sgd", "--granularity", "op", *search, "-o", "x.json"]


def plan(algorithm, stages, schedule, where, *more):
    done = foreline("plan", "--platform", where, *fixed(algorithm, stages, schedule), *more)
    return done.returncode == 0, done.stderr


SHAPES = ["one switch", "two racks", "unequal links", "ring"]
SCHEDULES = ["1f1b", "gpipe", "zb-h1"]


class Instance:
    """What a seed stands for. Consecutive seeds run through all classes: 4 numbers of devices, equal
    or not, 4 shapes, 3 schedules."""

    def __init__(self, seed):
        r = random.Random(1000 + seed)
        self.seed, self.devices = seed, 2 + seed % 4
        self.equal, self.shape = seed // 4 % 2 == 0, SHAPES[seed // 8 % 4]
        self.schedule = SCHEDULES[seed // 32 % 3]
        self.ops = r.randint(8, 12)
        self.stages = r.randint(2, self.devices)
        every = range(self.devices)
        self.speed = [100 if self.equal else r.choice([100, 50, 25, 75]) for _ in every]
        self.port = [r.choice([20, 10, 5, 2]) if self.shape == "unequal links" else 20 for _ in every]
        self.middle = r.choice([20, 6, 3, 1])
        self.router = {"ring": list(every), "two racks": [2 * k // self.devices for k in every]}.get(
            self.shape, [0] * self.devices)

    def write(self, folder="."):
        random_model(f"{folder}/m.json", self.seed, self.ops)
        platform(f"{folder}/p.xml", self.speed, self.port, self.router, self.middle)

    def hops(self, a, b):
        away = abs(self.router[a] - self.router[b])
        return min(away, self.devices - away) if self.shape == "ring" else away

    def orders(self):
        """All orders of devices, one of those that are the same but for names."""
        every = range(self.devices)
        alike = [p for p in itertools.permutations(every)
                 if all((self.speed[a], self.port[a]) == (self.speed[p[a]], self.port[p[a]]) for a in every)
                 and all(self.hops(a, b) == self.hops(p[a], p[b]) for a in every for b in every)]
        seen, out = set(), []
        for order in itertools.permutations(every, self.stages):
            if order not in seen:
                seen.update(tuple(p[k] for k in order) for p in alike)
                out.append(",".join(f"d{k}" for k in order))
        return out

    def words(self):
        return ["--platform", "p.xml", "--model", "m.json", *fixed("auto", self.stages, self.schedule)]

    def classes(self):
        return [f"{self.devices} devices", "equal" if self.equal else "unequal", self.shape, self.schedule,
                f"{self.stages} stages"]


def summary(name, over):
    best = sum(o <= 1e-6 for o in over)
    print(f"{name:14} {len(over):4} models: the best of all cuts in {best} ({100 * best / len(over):.1f} %), "
          f"{100 * sum(over) / len(over):.3f} % above it on average, {100 * max(over):.2f} % at worst")


def exact(all_cuts, first, last, step=1):
    over, of = [], {}
    for seed in range(int(first), int(last), int(step)):
        i = Instance(seed)
        i.write()
        done = foreline("plan", *i.words())
        assert done.returncode == 0, (seed, done.stderr)
        done = subprocess.run([all_cuts, "x.json", *i.orders()], capture_output=True, text=True)
        assert done.returncode == 0, (seed, done.stderr)
        given_s, best_s, seen, _, *cut = done.stdout.split()
        over.append(float(given_s) / float(best_s) - 1)
        for c in i.classes():
            of.setdefault(c, []).append(over[-1])
        if over[-1] > 1e-6:
            print(f"seed {seed}: {100 * over[-1]:.3f} % above the best of {seen}: {given_s} s, {best_s} s by "
                  f"{' '.join(cut)} ({i.ops} ops, {', '.join(i.classes())})", flush=True)
    for c in sorted(of):
        summary(c, of[c])
    summary("all", over)
    best = sum(o <= 1e-6 for o in over)
    return best >= 0.9 * len(over) and sum(over) <= 0.005 * len(over) and max(over) <= 0.05


def make(seed, folder):
    i = Instance(int(seed))
    i.write(folder)
    print(f"cd {folder}; foreline plan {' '.join(i.words())}; "
          f"all_cuts x.json {' '.join(i.orders())}")


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
            platform("slow.xml", [100, 100, 50, 50], [20, 20, 10, 10], [0, 0, 1, 1], 3)
            platform("equal.xml", [100] * 4, [20] * 4, [0, 0, 1, 1], 20)
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
    if len(sys.argv) < 3 or sys.argv[2] not in ("exact", "make", "alone"):
        sys.exit(__doc__)
    words = sys.argv[3:]
    sys.argv[1] = os.path.abspath(sys.argv[1])
    if sys.argv[2] == "make":
        make(*words)
        return
    if sys.argv[2] == "exact":
        words[0] = os.path.abspath(words[0])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        good = exact(*words) if sys.argv[2] == "exact" else alone(words)
        os.chdir("/")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
