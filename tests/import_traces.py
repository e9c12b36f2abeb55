#!/usr/bin/env python3
"""Chakra traces of plans, imported as captures, take the time of the plans; a Kineto trace its own. Damaged ones are one
line of complaint.

usage: import_traces.py FORELINE DAMAGED"""
import json
import os
import random
import subprocess
import sys
import tempfile

foreline, damaged = os.path.realpath(sys.argv[1]), int(sys.argv[2])
NODES = "rail:nodes=2,gpus=4,type=H100,nic=400Gbps"
PLANS = [("gpt2-small", "--algorithm balanced --stages 1 --replicas 8 --microbatches 8 --bucket 25MiB"),
         ("gpt2-small", "--algorithm balanced --stages 4 --replicas 2 --microbatches 8 --schedule 1f1b"),
         ("gpt2-small", "--algorithm balanced --stages 2 --replicas 2 --tensor-parallel 2 --microbatches 4 --zero 1"),
         ("mixtral-8x7b:layers=4", "--algorithm balanced --stages 1 --replicas 8 --expert-parallel 4 --microbatches 8")]


def call(*words):
    return subprocess.run([foreline, *words], capture_output=True, text=True, timeout=120)


def seconds(*words):
    r = call("simulate", *words, "--engine", "analytic", "--json")
    if r.returncode:
        sys.exit(f"FAIL: simulate {' '.join(words)}: {r.stderr}")
    return json.loads(r.stdout)["iteration_s"]


def kineto():
    """Two kernels of 100 us with 50 us between them."""
    events = [{"ph": "X", "cat": "kernel", "name": f"gemm_{k}", "ts": 1000 + 150 * k, "dur": 100, "tid": 7,
               "args": {"stream": 7, "correlation": k}} for k in range(2)]
    events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 990 + 150 * k, "dur": 5, "tid": 1,
                "args": {"correlation": k}} for k in range(2)]
    with open("k.json", "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)
    r = call("capture", "--from", "k.json", "-o", "k")
    if r.returncode:
        sys.exit(f"FAIL: import of Kineto: {r.stderr}")
    if abs(seconds("k", "--platform", "node:gpus=1,type=A100") - 250e-6) > 1e-9:
        sys.exit("FAIL: the Kineto trace takes another time: " + str(seconds("k", "--platform", "node:gpus=1,type=A100")))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        kineto()
        for i, (model, options) in enumerate(PLANS):
            r = call("plan", "--model", model, "--platform", NODES, *options.split(), "-o", f"p{i}.json")
            if r.returncode:
                sys.exit(f"FAIL: plan {options}: {r.stderr}")
            of_plan = seconds(f"p{i}.json", "--export", f"chakra=t{i}")
            r = call("capture", "--from", f"t{i}", "-o", f"c{i}")
            if r.returncode:
                sys.exit(f"FAIL: import of {options}: {r.stderr}")
            of_traces = seconds(f"c{i}", "--platform", NODES)
            print(f"{model} {options}: {of_plan:.6g} s, from traces {of_traces / of_plan - 1:+.1e}", flush=True)
            if abs(of_traces / of_plan - 1) > 1e-9:
                sys.exit("FAIL: the imported traces take another time")
        draw = random.Random(7)
        names = sorted(os.listdir("t0"))
        for k in range(damaged):
            path = os.path.join("t0", draw.choice(names))
            with open(path, "rb") as f:
                whole = f.read()
            broken = bytearray(whole)
            for _ in range(draw.choice([1, 1, 8])):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            broken = broken[:draw.randrange(len(broken))] if k % 3 == 0 else broken
            with open(path, "wb") as f:
                f.write(broken)
            r = call("capture", "--from", "t0", "-o", f"d{k}")
            if r.returncode not in (0, 1) or "Traceback" in r.stderr or (r.returncode and r.stderr.count("\n") != 1):
                sys.exit(f"FAIL: damaged {k}: status {r.returncode}: {r.stderr}")
            with open(path, "wb") as f:
                f.write(whole)
        print(f"{damaged} damaged traces: imported or refused in one line")


main()
