#!/usr/bin/env python3
"""Records what a build of foreline answers, so that a change that should change nothing can be checked.

    yardstick.py FORELINE OUTDIR [--draws N] [--runs N]   record; OUTDIR must be new
    yardstick.py --compare OUTDIR OUTDIR                  list what differs; exit status 1 if anything does

Each draw takes a model, a platform, options and a seed at random, the same for every build: it plans, simulates
the plan on the analytic engine and, every fourth, on SimGrid. Also recorded are the parameters that tiny trainings
end with, and the options of every command. Each answer is one file; times, versions and command lines are left out,
and so are CPU seconds. Refused combinations are recorded with their message.
"""
import argparse
import concurrent.futures
import filecmp
import json
import os
import random
import re
import subprocess
import sys
import tempfile

MODELS = ["gpt-tiny", "gpt-tiny:layers=6", "mlp", "mlp:layers=9", "gpt2-small:layers=4", "bert-base:layers=4",
          "resnet", "llama3-8b:layers=4", "mixtral-8x7b:layers=4", "qwen3-30b-a3b:layers=4",
          "deepseek-v2-lite:layers=4", "gnmt", "t5-11b:layers=2", "vgg"]
PLATFORMS = [("laptop", 4), ("laptop", 4), ("two-racks", 16), ("dgx-h100-x4", 32), ("dgx-a100-x2", 16),
             ("pipedream-a", 16), ("cs336", 8), ("rail:nodes=2,gpus=8,type=H100", 16),
             ("fat-tree:nodes=4,gpus=4,type=A100-40", 16)]
SCHEDULES = ["sequential", "gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-v", "dualpipe-v",
             "pipedream", "macrobatch"]
CHUNKED = ("interleaved", "breadth-first")
ALGORITHMS = ["balanced", "balanced", "balanced", "uniform"]
RUNS = [
    ["mlp", "--stages", "1"], ["mlp", "--stages", "2", "--schedule", "gpipe"],
    ["gpt-tiny:layers=2", "--stages", "2", "--schedule", "1f1b"],
    ["gpt-tiny:layers=2", "--stages", "1", "--replicas", "2", "--zero", "1"],
    ["gpt-tiny:layers=2", "--stages", "1", "--tensor-parallel", "2"],
    ["gpt-tiny:layers=2", "--stages", "2", "--schedule", "zb-h1"],
]


def strategy(r, stages, replicas, shards):
    """Options that mostly go together; a few that do not are worth keeping, for the messages."""
    def maybe(chance, option, *values):
        return ([option] + ([r.choice(values)] if values else [])) if r.random() < chance else []

    schedule = r.choice(SCHEDULES)
    chunks = 2 if schedule in ("zb-v", "dualpipe-v") else r.choice([1, 2, 2]) if schedule in CHUNKED else 1
    args = ["--schedule", schedule, "--stages", str(stages * chunks)]
    args += ["--chunks", "2"] if chunks == 2 and schedule in CHUNKED else []
    args += ["--replicas", str(replicas)] if replicas > 1 else []
    args += ["--tensor-parallel", str(shards)] if shards > 1 else []
    if replicas > 1:
        zero = r.choice(["0", "1", "2", "3"])
        args += ["--zero", zero] + (maybe(0.4, "--zero-keep") if zero in "13" else [])
        args += maybe(0.5, "--bucket", "0", "1MiB", "25MB") + maybe(0.1, "--zero-group", "2")
        args += maybe(0.15, "--context-parallel", "2") + maybe(0.15, "--expert-parallel", "2")
    if shards > 1:
        args += r.choice([[], ["--sequence-parallel"], ["--sequence-parallel", "--tensor-overlap"], ["--p2p-scatter"]])
    recompute = r.choice(["none", "none", "selective", "full"])
    args += ["--recompute", recompute] + (maybe(0.3, "--recompute-unit", "2") if recompute == "full" else [])
    args += maybe(0.8, "--microbatches", "4", "8", "16") + maybe(0.4, "--microbatch-size", "1", "2", "4")
    args += maybe(0.1, "--reduce-dtype", "bf16") + maybe(0.1, "--offload", "optimizer", "activations", "both")
    args += maybe(0.2, "--optimizer", "sgd") + maybe(0.15, "--granularity", "layer", "op")
    return args + maybe(0.3, "--framework", "megatron", "fsdp", "deepspeed", "compiled", "eager")


def draw(k):
    """The arguments of plan, without the file that it writes."""
    r = random.Random(f"yardstick {k}")
    if k % 20 == 19:  # a whole search, small enough to end by itself
        return ["--model", "gpt-tiny:layers=2", "--platform", "laptop", "--batch", str(r.choice([4, 8])),
                "--stages", str(r.choice([1, 2])), "--finalists", "2"]
    platform, devices = r.choice(PLATFORMS)
    shapes = [(s, d, t) for s in (1, 2, 3, 4) for d in (1, 2, 4) for t in (1, 2, 4) if s * d * t <= devices]
    return ["--model", r.choice(MODELS), "--platform", platform, "--seed", str(r.randrange(1, 1000)), "--algorithm",
            r.choice(ALGORITHMS)] + strategy(r, *r.choice(shapes))


def without_provenance(value):
    """The value without what differs from run to run or from build to build."""
    if isinstance(value, dict):
        return {k: without_provenance(v) for k, v in value.items()
                if k not in ("provenance", "cpu_s", "plan_sha256", "elapsed_s", "wall_s")}
    if isinstance(value, list):
        return [without_provenance(v) for v in value]
    return value


def plain(text):
    try:
        return json.dumps(without_provenance(json.loads(text)), indent=1, sort_keys=True)
    except ValueError:
        return text


# The program chooses OpenBLAS's kernels by itself: parameters depend on them.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "FORELINE_"))}


def call(foreline, folder, args):
    """Exit status, standard output and standard error as one text."""
    p = subprocess.run([foreline] + args, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=300, env=ENVIRONMENT)
    return f"$ foreline {' '.join(args)}\nstatus {p.returncode}\n{plain(p.stdout)}\n{p.stderr}"


def record_draw(foreline, out, k):
    with tempfile.TemporaryDirectory() as folder:
        text = call(foreline, folder, ["plan"] + draw(k) + ["-o", "plan.json"])
        plan = os.path.join(folder, "plan.json")
        if os.path.exists(plan):
            with open(plan) as f:
                text += plain(f.read()) + "\n"
            engines = ["analytic", "simgrid"] if k % 4 == 0 else ["analytic"]
            for engine in engines:
                text += call(foreline, folder, ["simulate", "--engine", engine, "--json", "plan.json"])
    write(out, f"draw_{k:03}.txt", text)


def record_run(foreline, out, k):
    with tempfile.TemporaryDirectory() as folder:
        text = call(foreline, folder, ["plan", "--platform", "laptop", "--algorithm", "balanced", "--microbatches",
                                       "4", "-o", "plan.json", "--model"] + RUNS[k])
        run = subprocess.run([foreline, "run", "--json", "--steps", "2", "--warmup", "1", "plan.json"], cwd=folder,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                             env=ENVIRONMENT)
        if run.returncode != 0:
            text += run.stderr
        else:
            answer = json.loads(run.stdout)
            text += json.dumps({key: v for key, v in answer.items() if re.search("sha256|loss", key)
                                and key != "plan_sha256"}, indent=1)
    write(out, f"run_{k}.txt", text)


def record_options(foreline, out):
    listed = subprocess.run([foreline, "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^  (\w+) +\S", listed, re.M):
        write(out, f"options_{command}.txt", subprocess.run([foreline, command, "--help", "all"], capture_output=True,
                                                            text=True, check=False).stdout)


def write(out, name, text):
    with open(os.path.join(out, name), "w") as f:
        f.write(text + "\n")


def record(a):
    foreline = os.path.abspath(a.first)
    os.makedirs(a.second)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(record_draw, foreline, a.second, k) for k in range(a.draws)]:
            done.result()
    for k in range(min(a.runs, len(RUNS))):
        record_run(foreline, a.second, k)
    record_options(foreline, a.second)
    names = sorted(os.listdir(a.second))
    planned = [n for n in names if n.startswith("draw") and "\nstatus 0\n" in open(os.path.join(a.second, n)).read()]
    print(f"{len(names)} files in {a.second}: {a.draws} draws, {len(planned)} of them with a plan")


def compare(a):
    names = sorted(set(os.listdir(a.first)) | set(os.listdir(a.second)))
    if not names:
        sys.exit("nothing recorded")
    same, differ, alone = filecmp.cmpfiles(a.first, a.second, names, shallow=False)
    for name in differ:
        print(f"differs: {name}")
    for name in alone:
        print(f"in one only: {name}")
    print(f"{len(same)} of {len(names)} files are equal")
    sys.exit(1 if differ or alone else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("first", metavar="FORELINE|OUTDIR")
    parser.add_argument("second", metavar="OUTDIR")
    a = parser.parse_args()
    if a.compare:
        compare(a)
    else:
        record(a)


if __name__ == "__main__":
    main()
