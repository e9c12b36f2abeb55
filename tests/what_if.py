#!/usr/bin/env python3
"""`simulate PLAN --platform P --model M --batch N` says what a plan file says that names them itself.

usage: what_if.py FORELINE

Seeded plans; the files are edited as text, which is the slower truth. Then what cannot be: devices and ops that are not
there, a batch that the strategy does not divide.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

PLATFORMS = ["rail:nodes=2,gpus=4,type=H100", "rail:nodes=2,gpus=4,type=A100", "rail:nodes=4,gpus=4,type=V100",
             "leaf-spine:nodes=2,gpus=4,nic=25Gbps,type=A100", "leaf-spine:nodes=2,gpus=4,nic=200Gbps,type=H100"]
MODELS = ["gpt2-small:layers=4", "gpt2-small:layers=4,tokens=512", "gpt2-small:layers=4,hidden=1024,heads=16"]
FREE = {"provenance", "plan", "plan_sha256", "cpu_s"}


def call(foreline, *words):
    run = subprocess.run([foreline, *words], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr


def simulated(foreline, *words):
    status, out, error = call(foreline, "simulate", *words, "--json")
    if status:
        sys.exit(f"simulate {words}: {status}: {error}")
    document = json.loads(out)
    return document["plan_sha256"], {k: v for k, v in document.items() if k not in FREE}


def main(foreline):
    wrong, hashes = 0, set()
    for seed in range(8):
        r = random.Random(seed)
        plan, other = r.sample(PLATFORMS, 2), r.sample(MODELS, 2)
        replicas, stages, engine = r.choice([1, 2]), r.choice([1, 2, 4]), r.choice(["analytic", "simgrid"])
        status, _, error = call(foreline, "plan", "--model", other[0], "--platform", plan[0], "--algorithm", "balanced",
                                "--stages", str(stages), "--replicas", str(replicas), "--microbatch-size", "2",
                                "--microbatches", str(8 * replicas), "-o", "p.json")
        if status:
            sys.exit(error)
        given = {"--platform": plan[1], "--model": other[1], "--batch": str(2 * replicas * r.randint(2, 9))}
        given = {k: given[k] for k in r.sample(sorted(given), r.randint(1, 3))}
        found_hash, found = simulated(foreline, "p.json", "--engine", engine, *(w for pair in given.items() for w in pair))
        hashes.add(found_hash)
        with open("p.json", encoding="utf-8") as f:
            document = json.load(f)
        document["platform"] = given.get("--platform", plan[0])
        document["model"] = given.get("--model", other[0])
        document["microbatches"] = int(given["--batch"]) // 2 if "--batch" in given else document["microbatches"]
        with open("q.json", "w", encoding="utf-8") as f:
            json.dump(document, f)
        wanted = simulated(foreline, "q.json", "--engine", engine)[1]
        if found != wanted:
            print(f"FAIL seed {seed} {given}: {found['iteration_s']}, the file says {wanted['iteration_s']}")
            wrong += 1
    if len(hashes) != 8:
        print("FAIL: measurements of different what-ifs share a plan_sha256")
        wrong += 1
    for words, said in ((["--batch", "7"], "not a multiple of the plan's microbatch size"),
                        (["--platform", "two-racks"], "n0g0"), (["--model", "mlp"], "does not fit mlp"),
                        (["--platform", "nowhere"], "nowhere")):
        status, out, error = call(foreline, "simulate", "p.json", *words)
        if status == 0 or out or said not in error or error.count("\n") != 1:
            print(f"FAIL simulate {words}: {status}: {out}{error}")
            wrong += 1
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tool = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.exit(1 if main(tool) else 0)
