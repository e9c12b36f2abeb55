#!/usr/bin/env python3
"""A constraint never gives a better plan than none, nor do fewer devices.

usage: nested.py FORELINE drawn FIRST LAST [STEP]
       nested.py FORELINE pairs FIRST LAST [STEP]

drawn: inputs by seeds FIRST, FIRST + STEP, ... below LAST: a model, a platform (devices equal or not), a
batch and a framework. The search is asked with nothing given, with one or two knobs of the strategy table
given, and where the platform is part of a larger one, on that, too.

pairs: every pair of knobs on six large inputs, by number (`pairs 0 0` says how many).

Prints what is beaten by more than 0.1 %, how by how much, and CPU seconds.
"""

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

import graphs

SLACK = 1e-3  # finalists are few, and links that are shared are known of them alone

MODELS = [
    lambda r: f"gpt-tiny:layers={r.randint(2, 16)},hidden={r.choice([256, 1024])},heads=16,tokens=512,"
              f"vocabulary=4096,tied={r.randint(0, 1)}",
    lambda r: f"gpt2-small:layers={r.randint(2, 12)}",
    lambda r: f"mlp:layers={r.randint(2, 8)},hidden={r.choice([256, 1024])}",
    lambda r: f"llama3-8b:layers={r.choice([4, 8, 12])},tokens={r.choice([2048, 8192, 16384])}",
    lambda r: f"gpt3-13b:layers={r.choice([4, 8, 16])}",
    lambda r: f"mixtral-8x7b:layers={r.choice([2, 4, 8])},tokens={r.choice([1024, 4096])}",
    lambda r: f"vtransformer:layers={r.randint(2, 6)},hidden={r.choice([96, 192])}",
    lambda r: f"resnet:side={r.choice([32, 224])},depth={r.choice([18, 50])}",
    lambda r: f"bert-base:layers={r.randint(2, 6)}",
    lambda r: f"gnmt:layers={r.randint(2, 4)},hidden=512,vocabulary=4096",
]
PLATFORMS = [
    lambda r: "rail:nodes={},gpus=%d,type=%s" % (r.choice([2, 4, 8]), r.choice(["H100", "A100", "V100"])),
    lambda r: "leaf-spine:nodes={},gpus=%d,nic=%sGbps,type=A100" % (r.choice([1, 2, 4]), r.choice([10, 25, 100])),
    lambda r: "fat-tree:nodes={},gpus=%d,nic=%sGbps,type=V100" % (r.choice([2, 4]), r.choice([25, 100])),
    lambda r: r.choice(["two-racks", "laptop", "torus:x=2,y=2,z=2", "node:gpus=8,type=A100"]),
    lambda r: None,  # unequal devices
]
FRAMEWORKS = ["foreline", "foreline", "megatron", "megatron --no-launchable", "compiled --no-launchable",
              "deepspeed --no-launchable"]
# All that strategy.def says is searched, and what shapes differ in.
KNOBS = {
    "pp": ["--pp 1", "--pp 2", "--pp 4"], "stages": ["--stages 2", "--stages 4", "--stages 8"],
    "chunks": ["--chunks 2", "--chunks 3", "--chunks 4", "--chunks 8"],
    "tp": ["--tp 1", "--tp 2", "--tp 4", "--tp 8"], "dp": ["--replicas 1", "--replicas 2", "--replicas 4", "--replicas 8"],
    "mbs": ["--mbs 1", "--mbs 2", "--mbs 4"],
    "zero": ["--zero 0", "--zero 1", "--zero 2", "--zero 3"],
    "keep": ["--zero-keep", "--no-zero-keep"], "group": ["--zero-group 2", "--zero-group 4"],
    "bucket": ["--bucket 0", "--bucket 1MiB", "--bucket 8MiB", "--bucket 64MiB", "--bucket 512MiB"],
    "sp": ["--sp", "--no-sequence-parallel"], "overlap": ["--tensor-overlap", "--no-tensor-overlap"],
    "ep": ["--ep 1", "--ep 2", "--ep 4", "--ep 8"], "cp": ["--cp 1", "--cp 2", "--cp 4"],
    "recompute": ["--recompute none", "--recompute selective", "--recompute full",
                  "--recompute full --recompute-layers 2", "--recompute selective --recompute-modules layernorm",
                  "--recompute selective --recompute-modules core_attn"],
    "schedule": ["--schedule 1f1b", "--schedule gpipe", "--schedule interleaved", "--schedule zb-h1",
                 "--schedule zb-v", "--schedule breadth-first", "--schedule dualpipe-v"],
    "offload": ["--offload none", "--offload optimizer", "--offload activations"],
}
LARGE = [
    "--model llama3-70b --platform rail:nodes=8,gpus=8,type=H100 --batch 512 --framework megatron",
    "--model llama3-405b --platform rail:nodes=2048,gpus=8,type=H100 --batch 2048 --tokens 8192 --framework megatron",
    "--model mixtral-8x7b --platform rail:nodes=8,gpus=8,type=H100 --batch 256 --tokens 4096 --framework megatron",
    "--model gpt3-13b --platform leaf-spine:nodes=16,gpus=8,nic=100Gbps,type=A100 --batch 512 --framework foreline",
    "--model qwen3-30b-a3b --platform rail:nodes=16,gpus=8,type=H100 --batch 1024 --framework megatron --no-launchable",
    "--model llama2-70b --platform rail:nodes=32,gpus=8,type=A100 --batch 1024 --framework compiled --no-launchable",
]


def seconds(foreline, words):
    """Of the best plan; None without one."""
    run = subprocess.run([foreline, "plan", *words.split(), "--json"], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1, 2):
        sys.exit(f"plan {words}: {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)["iteration_s"] if run.returncode == 0 else None


def unequal(r, path, n):
    """n devices of two racks, and the first half of them; two files."""
    speed = [r.choice([100, 50, 25]) for _ in range(n)]
    port = [r.choice([20, 10, 5]) for _ in range(n)]
    rack = [k % 2 for k in range(n)]
    middle = r.choice([20, 6, 3])
    for name, k in (("all", n), ("half", n // 2)):
        graphs.platform(f"{path}/{name}.xml", speed[:k], port[:k], rack[:k], middle)
    return f"{path}/half.xml", f"{path}/all.xml"


def drawn(seed, folder):
    """Words of an input, of the same on more devices (None: there are none), and of constraints."""
    r = random.Random(seed)
    name, model, framework = r.choice(PLATFORMS)(r), r.choice(MODELS)(r), r.choice(FRAMEWORKS)
    more, n = None, r.choice([2, 3, 4])
    if not name:
        name, more = unequal(r, folder, r.choice([4, 6, 8]))
    elif "{}" in name:
        name, more = name.format(n), name.format(2 * n)
    rest = f"--batch {r.choice([8, 16, 48, 64])} --framework {framework} -o {folder}/x.json"
    knobs = [k for k in KNOBS if k not in ("ep",) or "mixtral" in model]
    constraints = [" ".join(r.choice(KNOBS[k]) for k in r.sample(knobs, r.choice([1, 2]))) for _ in range(3)]
    return (f"--model {model} --platform {name} {rest}", more and f"--model {model} --platform {more} {rest}",
            constraints)


class Tally:
    """What is compared with a plan that is no worse."""

    def __init__(self):
        self.over, self.worst = [], []

    def add(self, words, best_s, found_s):
        """best_s must be the least."""
        self.over.append(best_s / found_s - 1 if best_s else float("inf"))
        if self.over[-1] > SLACK:
            print(f"FAIL {100 * self.over[-1]:.2f} %: {words}: {found_s:.6g} s, the larger space {best_s or 0:.6g} s",
                  flush=True)

    def summary(self, what):
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        beaten = sorted(x for x in self.over if x > 0)
        failed = [x for x in beaten if x > SLACK]
        print(f"{len(self.over)} {what}: {len(beaten)} better than the larger space, {len(failed)} by more than "
              f"{100 * SLACK:g} %{f', by {100 * failed[-1]:.2f} % at worst' if failed else ''}; "
              f"{used.ru_utime + used.ru_stime:.0f} CPU s")
        return not failed and bool(self.over)


def all_drawn(foreline, seeds, folder):
    knobs, devices = Tally(), Tally()
    for seed in seeds:
        words, more, constraints = drawn(seed, folder)
        free = seconds(foreline, words)
        if more and free:
            devices.add(f"seed {seed}: {words} (fewer devices)", seconds(foreline, more), free)
        for constraint in constraints:
            found = seconds(foreline, f"{words} {constraint}")
            if found:
                knobs.add(f"seed {seed}: {words} {constraint}", free, found)
                break
    good = knobs.summary("constraints")
    return devices.summary("pairs of platforms") and good if devices.over else good


def all_pairs(foreline, numbers):
    """Of a pair of knobs one value each, by its number."""
    cases = [(a, b, words) for a, b in itertools.combinations(KNOBS, 2) for words in LARGE]
    print(f"{len(cases)} cases")
    knobs, free = Tally(), {}
    for k in numbers:
        a, b, words = cases[k]
        r = random.Random(k)
        if words not in free:
            free[words] = seconds(foreline, words)
        constraint = f"{r.choice(KNOBS[a])} {r.choice(KNOBS[b])}"
        found = seconds(foreline, f"{words} {constraint}")
        if found:
            knobs.add(f"{words} {constraint}", free[words], found)
    return knobs.summary("pairs of knobs") or not knobs.over


def main():
    if len(sys.argv) < 5 or sys.argv[2] not in ("drawn", "pairs"):
        sys.exit(__doc__)
    foreline, numbers = os.path.abspath(sys.argv[1]), range(*map(int, sys.argv[3:]))
    with tempfile.TemporaryDirectory() as folder:
        good = all_drawn(foreline, numbers, folder) if sys.argv[2] == "drawn" else all_pairs(foreline, numbers)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
