#!/usr/bin/env python3
"""Real trainings whose ranks are killed, hang or become slow at drawn times: they end with the parameters of an undisturbed one, and take as
long as predicted. Usage: campaigns.py FORELINE N [BOUND]: N trainings; with BOUND, the median error may be so much."""
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

foreline, n = os.path.realpath(sys.argv[1]), int(sys.argv[2])
bound = float(sys.argv[3]) if len(sys.argv) > 3 else None
MODEL = "gpt-tiny:layers=4,hidden=64,heads=4,tokens=64"
KINDS = ["", ":slow=2s,slower=1,slow-found=0.5s", ":hang=0.3"]
SHAPES = [(1, 2), (2, 1), (2, 2), (4, 1), (1, 4), (3, 2), (2, 3)]  # stages, replicas


def call(*words, may_say=()):
    """What it prints; None: it fails with one of these messages."""
    r = subprocess.run([foreline, *words], capture_output=True, text=True, timeout=600)
    if r.returncode != 0 and not any(say in r.stderr for say in may_say):
        sys.exit(f"FAIL: {' '.join(words)}: {r.stderr.strip()}")
    return r.stdout if r.returncode == 0 else None


def disturbed(words, i, between, kind):
    """With failures; rarer ones where a start takes longer than they let it."""
    for attempt in range(6):
        told = call(*words, "--checkpoint", f"ck{i}-{attempt}", "--inject-failures",
                    f"{i + 1000 * attempt},{between * 2 ** attempt:.3f}s{kind}",
                    may_say=("would not end",))
        if told is not None:
            return told
    sys.exit(f"FAIL: training {i} never ends")


def main():
    draw = random.Random(1)
    errors, failures = [[], [], []], 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        undisturbed = {}
        for i in range(n):
            stages, replicas = draw.choice(SHAPES[:3] if n < 10 else SHAPES)
            every, between = draw.choice([10, 20, 40]), draw.uniform(0.5, 2)
            call("plan", "--algorithm", "balanced", "--platform", "two-racks", "--model", MODEL, "--microbatches", "12",
                 "--stages", str(stages), "--replicas", str(replicas), "-o", "p.json")
            steps = 300 if n < 10 else 600
            whole = ["run", "p.json", "--warmup", "0", "--steps", str(steps)]
            if (stages, replicas) not in undisturbed:
                call(*whole, "-o", "m.json")
                with open("m.json", encoding="utf-8") as f:
                    undisturbed[stages, replicas] = json.load(f)["parameters_sha256"]
            told = disturbed([*whole, "--checkpoint-every", str(every), "--timeout", "2s", "-o", "m.json"], i,
                             between, KINDS[i % 3])
            with open("m.json", encoding="utf-8") as f:
                if json.load(f)["parameters_sha256"] != undisturbed[stages, replicas]:
                    sys.exit(f"FAIL: training {i} has other parameters than without failures")
            failed = int(re.search(r"^failures +(\d+)", told, re.M)[1])
            error = float(re.search(r"predicted .*\(([-+.\d]+) %\)", told)[1])
            print(f"{stages} x {replicas} ranks, a checkpoint every {every} steps{KINDS[i % 3].replace(':', ', ')}: "
                  f"{failed} failures, {error:+.1f} %", flush=True)
            errors[i % 3].append(abs(error))
            failures += failed
    errors = {"all": sum(errors, []), "killed": errors[0], "also slow": errors[1], "some hang": errors[2]}
    for kind, some in errors.items():
        print(f"{kind}: {len(some)} trainings, median error {statistics.median(some):.1f} %, worst {max(some):.1f} %")
    if failures == 0:
        sys.exit("FAIL: nothing failed")
    if bound is not None and statistics.median(errors["all"]) > bound:
        sys.exit(f"FAIL: more than {bound} % at the median")


main()
