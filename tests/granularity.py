#!/usr/bin/env python3
"""Cutting between any two ops is never worse than cutting between layers.

usage: granularity.py FORELINE FIRST LAST

Inputs by seeds FIRST to LAST - 1: a model, a platform, and knobs of plans that are given. `auto` plans
each with --granularity layer and op; the plan by ops must not be slower, as the judge of searches says,
nor be missing where there is one by layers.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

MODELS = [
    lambda r: f"gpt-tiny:layers={r.randint(2, 8)},hidden={r.choice([64, 128, 256])}",
    lambda r: f"mlp:layers={r.randint(2, 8)},hidden={r.choice([256, 512, 1024])}",
    lambda r: f"gnmt:layers={r.randint(2, 6)},hidden={r.choice([128, 512])},vocabulary=4096",
    lambda r: f"resnet:side={r.choice([32, 64, 224])},depth={r.choice([18, 34, 50])}",
    lambda r: f"vgg:depth={r.choice([11, 16])},side={r.choice([32, 64])},hidden=512",
    lambda r: f"unet:side={r.choice([32, 64, 256])},width={r.choice([32, 64])}",
    lambda r: f"bart-base:layers={r.randint(1, 3)}",
    lambda r: f"gpt2-small:layers={r.randint(2, 6)}",
    lambda r: f"vtransformer:layers={r.randint(2, 6)},hidden={r.choice([96, 192])}",
    lambda r: f"bert-base:layers={r.randint(2, 4)}",
]
PLATFORMS = [
    "laptop", "two-racks", "node:gpus=4,type=A100", "node:gpus=8,type=V100", "leaf-spine:nodes=2,gpus=2,nic=25Gbps",
    "leaf-spine:nodes=4,gpus=1,rack=2,oversubscription=4", "fat-tree:nodes=2,gpus=2,nic=10Gbps",
    "rail:nodes=2,gpus=3", "torus:x=2,y=2,z=1",
]


def options(seed):
    r = random.Random(seed)
    words = ["--model", r.choice(MODELS)(r), "--platform", r.choice(PLATFORMS)]
    words += ["--microbatches", str(r.choice([4, 8, 16])), "--microbatch-size", str(r.choice([1, 2, 4]))]
    words += ["--stages", str(r.randint(2, 4))]
    if r.random() < 0.6:
        words += ["--replicas", "1", "--tensor-parallel", "1"]
    words += ["--schedule", r.choice(["1f1b", "1f1b", "gpipe", "zb-h1", "sequential"])]
    words += r.choice([[], [], ["--recompute", "none"], ["--recompute", "full"]])
    words += r.choice([[], [], ["--zero", "0"], ["--optimizer", "sgd"]])
    words += r.choice([[], ["--framework", "foreline"], ["--executable"]])
    return words


def seconds(tool, words, granularity):
    """Of the best plan; None without one, and why."""
    done = subprocess.run([tool, "plan", *words, "--granularity", granularity, "-o", granularity + ".json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.splitlines()[-1] if done.stderr else "no message"
    done = subprocess.run([tool, "simulate", granularity + ".json", "--engine", "simgrid", "--json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["iteration_s"], ""


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tool, seeds = os.path.abspath(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3]))
    worse = faster = without = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed in seeds:
            words = options(seed)
            (layer_s, _), (op_s, why) = seconds(tool, words, "layer"), seconds(tool, words, "op")
            without += layer_s is None
            if layer_s is None:
                continue
            faster += op_s is not None and op_s < layer_s * (1 - 1e-6)
            if op_s is None or op_s > layer_s * (1 + 1e-6):
                worse += 1
                how = f"no plan: {why}" if op_s is None else f"{100 * (op_s / layer_s - 1):.3f} % slower: {op_s:.6g} s"
                print(f"seed {seed}: by ops {how}, by layers {layer_s:.6g} s: foreline plan {' '.join(words)}", flush=True)
        os.chdir("/")
    print(f"{len(seeds)} inputs: {worse} worse by ops, {faster} better; {without} without a plan by layers")
    sys.exit(worse > 0)


if __name__ == "__main__":
    main()
