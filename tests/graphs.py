#!/usr/bin/env python3
"""Cuts of graphs against all cuts, and against each proposer alone.

usage: graphs.py FORELINE exact ALL_CUTS FIRST LAST [STEP]
       graphs.py FORELINE make SEED DIRECTORY
       graphs.py FORELINE alone FIRST LAST [STEP [WORKLOADS]]
       graphs.py FORELINE table FILE...

exact: random models of 8 to 12 ops in 2 to 5 stages on 2 to 5 devices, equal and unequal, on four
shapes of platforms, by three schedules: seeds FIRST, FIRST + STEP, ... below LAST. All chains of
down-sets on all orders of devices are simulated (tests/all_cuts.c), and `auto` must find the best:
in nine of ten, 0.5 % above it on average, 5 % at worst.

make: leaves the model and the platform of a seed, and prints the command that plans it.

alone: models that branch, 60 series-parallel and 60 other random graphs of 200 to 4,000 ops, and
shapes of inception, nasnet and densenet, in 4 stages on eight platforms: cases FIRST, FIRST + STEP,
... below LAST of all pairs (`alone 0 0` says how many). Neither `auto` nor `graph` must be beaten, by
more than 0.1 % as SimGrid simulates it, by any proposer or published partitioner alone. Prints a row of
JSON for each: seconds of all of them, and of the best cuts that annealing reached from each proposal. A
folder WORKLOADS adds the profiles of PipeDream's authors. Then, as `table` of rows that were kept: who
was beaten, and whose proposals the best plans are from, as proposed and behind the search.
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


def write_model(path, r, n, reads, flop):
    """Ops of random work and outputs; reads(i): the ops that op i reads. What nobody reads, the last does."""
    ops = []
    for i in range(n):
        ops.append({"name": f"o{i}", "kind": "other", "inputs": [f"o{j}" for j in reads(i)],
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


def some_before(r, i, width, how_many):
    return sorted({r.randrange(max(0, i - width), i) for _ in range(r.choice(how_many))}) if i else []


def random_model(path, seed, n, flop=1e10, width=4):
    r = random.Random(seed)
    write_model(path, r, n, lambda i: some_before(r, i, width, [1, 1, 2]), flop)


def series_parallel(r, n, reads, start):
    """Append n ops behind op `start`; the last one is the end."""
    if n < 5 or r.random() < 0.2:
        for _ in range(n):
            reads.append([start] if start is not None else [])
            start = len(reads) - 1
    elif r.random() < 0.5:
        first = r.randint(1, n - 1)
        start = series_parallel(r, n - first, reads, series_parallel(r, first, reads, start))
    else:
        reads.append([start] if start is not None else [])
        start, left, ends = len(reads) - 1, n - 2, []
        for branch in range(r.randint(2, 4), 0, -1):
            size = left if branch == 1 else r.randint(0, left)
            left -= size
            if size > 0:
                ends.append(series_parallel(r, size, reads, start))
        reads.append(ends)
        start = len(reads) - 1
    return start


def inception(r, n, reads):
    """Modules of four branches of 1, 2, 3 and 2 ops and a concatenation."""
    reads.append([])
    while len(reads) < n:
        start, ends = len(reads) - 1, []
        for length in (1, 2, 3, 2):
            for k in range(length):
                reads.append([len(reads) - 1 if k else start])
            ends.append(len(reads) - 1)
        reads.append(ends)


def nasnet(r, n, reads):
    """Cells of five sums of two ops each, of the two cells before and of sums."""
    reads += [[], [0]]
    cells = [0, 1]
    while len(reads) < n:
        inputs = cells[-2:]
        for _ in range(5):
            a, b = r.choice(inputs), r.choice(inputs)
            reads += [[a], [b], [len(reads), len(reads) + 1]]
            inputs = [*inputs, len(reads) - 1]
        reads.append([i for i in inputs if not any(i in x for x in reads[cells[-1] + 1:])] or [len(reads) - 1])
        cells.append(len(reads) - 1)


def densenet(r, n, reads):
    """Blocks of layers of two ops that read all layers before them in the block."""
    reads.append([])
    while len(reads) < n:
        block = [len(reads) - 1]
        for _ in range(8):
            reads += [list(block), [len(reads)]]
            block.append(len(reads) - 1)
        reads.append(list(block))


SIZES = [200, 300, 400, 600, 800, 1200, 1600, 2000, 3000, 4000]


def graph_model(path, family, k):
    """Number k of a family: sizes in turn."""
    r, reads = random.Random(f"{family} {k}"), []
    n = SIZES[k % len(SIZES)]
    if family == "sp":
        series_parallel(r, n, reads, None)
    elif family == "dag":
        width = r.choice([3, 5, 8, 16, 40])
        reads = [some_before(r, i, width, [1, 1, 2, 3]) for i in range(n)]
    else:
        {"inception": inception, "nasnet": nasnet, "densenet": densenet}[family](r, n // 2, reads)
    write_model(path, r, len(reads), reads.__getitem__, 1e9)


def seconds(plan, engine):
    return json.loads(foreline("simulate", plan, "--engine", engine, "--json").stdout)["iteration_s"]


def fixed(algorithm, stages, schedule):
    """Options that leave nothing to choose but cuts and devices."""
    search = ["--recompute", "none", "--zero", "0"] if algorithm == "auto" else []
    return ["--algorithm", algorithm, "--stages", str(stages), "--replicas", "1", "--tensor-parallel", "1",
            "--microbatches", str(MICROBATCHES), "--microbatch-size", "1", "--schedule", schedule,
            "--optimizer", "sgd", "--granularity", "op", "--framework", "foreline", *search, "-o", "x.json"]


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


PLATFORMS = ["node:gpus=4,type=A100", "two-racks", "fat-tree:nodes=4,gpus=2", "laptop",
             "leaf-spine:nodes=4,gpus=1,rack=2,oversubscription=4", "slow.xml", "equal.xml", "ring.xml"]
PROFILES = ["resnet50", "gnmt", "densenet121", "squeezenet1_0", "vgg16"]
PUBLISHED = ["pippy graphsplit", "pippy sizesplit", "pippy milp", "pipedream pipedream"]


def models(workloads):
    names = ["unet", "gnmt", "resnet", "vgg", "bart-base:layers=2", "mobilebert:layers=4",
             *(f"{family} {k}" for k in range(4) for family in ("inception", "nasnet", "densenet"))]
    if workloads:
        names += [f"{workloads}/pipedream/profiles/{p}/graph.txt" for p in PROFILES]
    return names + [f"{family} {k}" for k in range(60) for family in ("sp", "dag")]


def published(name, where, m):
    """The plan of a published partitioner; false without one."""
    objective, algorithm = name.split()
    words = ["--straight", "--machines", "4", "--bandwidth", "10GBps"] if objective == "pipedream" else [
        "--stages", "4", *(["--time-limit", "3s"] if algorithm == "milp" else [])]
    done = foreline("plan", "--objective", objective, "--algorithm", algorithm, "--platform", where, *m, *words,
                    "--microbatches", str(MICROBATCHES), "--microbatch-size", "1", "--schedule", "1f1b",
                    "--optimizer", "sgd", "-o", "x.json")
    return done.returncode == 0


def found_by(candidates):
    """The best cut that the search reached from each proposal: seconds on the analytic engine."""
    best = {}
    with open(candidates) as f:
        for row in f:
            if not row.startswith("#"):
                w = row.split("\t")
                best[w[0]] = min(best.get(w[0], float("inf")), float(w[7]))
    return best


def proposers():
    """Algorithms that answer alone."""
    names = [line.split()[0] for line in foreline("plan", "--algorithm", "list").stdout.splitlines()
             if "--objective" not in line]
    return [n for n in names if n in ("balanced", "metis") or n.startswith(("graph:", "igraph:"))]


def one_case(model, where, algorithms):
    m = ["--model", model]
    if " " in model:
        family, k = model.split()
        graph_model("m.json", family, int(k))
        m = ["--model", "m.json"]
    name = model.split("/")[-2] if "/" in model else model
    row = {"model": name, "platform": where}
    made, error = plan("auto", 4, "1f1b", where, *m, "--candidates", "c.tsv")
    if not made:
        return {**row, "refused": error.splitlines()[-1]}
    row["found"] = found_by("c.tsv")
    row["planned"] = seconds("x.json", "analytic")
    row["took"] = took = {"auto": seconds("x.json", "simgrid")}
    for a in ["graph", *algorithms]:
        if plan(a, 4, "1f1b", where, *m)[0]:
            took[a] = seconds("x.json", "simgrid")
    for a in PUBLISHED:
        if published(a, where, m):
            took[a] = seconds("x.json", "simgrid")
    return row


def alone(first, last, step=1, workloads=""):
    cases = list(itertools.product(models(workloads), PLATFORMS))
    algorithms = proposers()
    platform("slow.xml", [100, 100, 50, 50], [20, 20, 10, 10], [0, 0, 1, 1], 3)
    platform("equal.xml", [100] * 4, [20] * 4, [0, 0, 1, 1], 20)
    platform("ring.xml", [100, 50, 75, 100], [20] * 4, [0, 1, 2, 3], 6)
    rows = []
    for model, where in cases[int(first):int(last):int(step)]:
        rows.append(one_case(model, where, algorithms))
        print(json.dumps(rows[-1]), flush=True)
    print(f"of {len(cases)} cases")
    return tell(rows)


def best_of(seconds_by, least_s):
    """Who is as good as `least_s`, and whether all others are more than 0.01 % worse."""
    near = [a for a, s in seconds_by.items() if s <= least_s * 1.0001]
    return [a for a in near if seconds_by[a] <= least_s * (1 + 1e-6)], len(near) == 1


def winners(rows, best):
    """By proposer: cases where it is among the best, and where it alone is. best(row): its best ones."""
    among, only = {}, {}
    for row in rows:
        names, is_only = best(row)
        for n in names:
            among.setdefault(n, []).append(row)
            if is_only:
                only.setdefault(n, []).append(row)
    return among, only


def as_proposed(row):
    own = {a: s for a, s in row["took"].items() if a in ("balanced", "metis") or a.startswith(("graph:", "igraph:"))}
    return best_of(own, min(own.values()))


def behind_the_search(row):
    """Of the plan that was chosen. None, where it is no cut of the graph's search."""
    if min(row["found"].values(), default=float("inf")) > row["planned"] * (1 + 1e-6):
        return ["(no cut)"], False
    return best_of(row["found"], row["planned"])


def places(rows):
    return ", ".join(f"{r['model']} / {r['platform']}" for r in rows)


def tell(rows):
    for row in rows:
        if "refused" in row:
            print(f"refused: {places([row])}: {row['refused']}")
    rows = [row for row in rows if "refused" not in row]
    tables = [winners(rows, as_proposed), winners(rows, behind_the_search)]
    print(f"\n{len(rows)} cases\n\n| source | proposal among the best | the only best | "
          "search from it among the best | the only best |\n|---|---|---|---|---|")
    for n in sorted({n for t in tables for n in t[0]}):
        print(f"| `{n}` | " + " | ".join(str(len(t.get(n, []))) for pair in tables for t in pair) + " |")
    for words, (_, only) in zip(("as proposed", "behind the search"), tables):
        for n in sorted(only):
            print(f"\n`{n}` alone, {words}: {places(only[n])}")
    good = True
    for a in ("auto", "graph"):
        beaten = []
        for row in rows:
            others = {b: s for b, s in row["took"].items() if b != a and (a == "auto" or b != "auto")}
            by = min(others, key=others.get)
            over = row["took"].get(a, float("inf")) / others[by] - 1
            if over > 0.001:
                beaten.append((over, by, row))
        print(f"\n{a}: beaten in {len(beaten)} of {len(rows)}")
        for over, by, row in sorted(beaten, key=lambda x: -x[0]):
            print(f"* {places([row])}: by {by}, {100 * over:.2f} %")
        good = good and (a == "graph" or not beaten)
    return good


def table(*files):
    return tell([json.loads(line) for name in files for line in open(name) if line.startswith("{")])


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("exact", "make", "alone", "table"):
        sys.exit(__doc__)
    words = sys.argv[3:]
    sys.argv[1] = os.path.abspath(sys.argv[1])
    if sys.argv[2] == "make":
        make(*words)
        return
    if sys.argv[2] == "table":
        sys.exit(0 if table(*words) else 1)
    if sys.argv[2] == "exact":
        words[0] = os.path.abspath(words[0])
    if sys.argv[2] == "alone" and len(words) > 3:
        words[3] = os.path.abspath(words[3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        good = exact(*words) if sys.argv[2] == "exact" else alone(*words)
        os.chdir("/")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
