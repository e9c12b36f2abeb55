#!/usr/bin/env python3
"""DeepSeek-V3 as its paper trained it (arXiv:2412.19437): memory, days for 10^12 tokens, and the bubble by DualPipe's
formula, (PP/2 - 1)(F&B + B - 3W) of table 2, with the seconds of passes that a timeline shows. With the paper's 64
experts parallel over 8 whole nodes only half of the bytes, which stand for its routing limited to nodes, come near.
Usage: deepseek_v3.py FORELINE"""
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PLAN = """--tokens 4096 --platform rail:nodes=256,gpus=8,type=H800 --algorithm manual --stages 16 --replicas 256
  --schedule dualpipe --expert-parallel 64 --zero 1 --microbatches 15360 --microbatch-size 1 --recompute selective
  --recompute-modules layernorm,mla_up_proj,moe_act --optimizer adam:decay=0.1,moment-bits=16
  --model v3.json:dtype=fp8 -o plan.json""".split()
DAYS = 2.664e6 / 14.8 / 2048 / 24  # table 1: hours of a GPU for 14.8 10^12 tokens
RANKS, MIDDLE = 16, 1536  # of the pipeline; the first of all that have stages 6 and 9


def passes(path):
    """Seconds of a pair, of B and of W, of a rank in the middle; compute beside collectives is slower."""
    seconds, exchange = {}, 0
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if f'"pid": {MIDDLE},' not in line or '"ph": "X"' not in line:
                continue
            event = json.loads(line.strip().rstrip(","))
            if "ALLTOALL" in event["name"]:
                exchange = max(exchange, event["dur"] / 1e6)
            kind = "I" if event["cat"] == "backward" and "I" in event["name"] else event["cat"]
            seconds.setdefault(kind, set()).add(event["dur"] / 1e6)
    forward, whole, weight = (seconds[k] for k in ("forward", "backward", "weight"))
    pair = max(max(forward) + max(whole), 2 * exchange)
    return pair, min(whole) + exchange, max(weight)


def main():
    foreline = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        def run(*words):
            done = subprocess.run([foreline, *words], cwd=folder, capture_output=True, text=True, timeout=900)
            if done.returncode != 0:
                sys.exit(f"foreline {' '.join(words)}: {done.stderr}")
            return done.stdout

        Path(folder, "v3.json").write_text('{"model_type": "deepseek_v3", "num_nextn_predict_layers": 1}\n')
        def days_of(framework, *more):
            run("plan", *PLAN, "--framework", framework, *more)
            got = json.loads(run("simulate", "plan.json", "--engine", "analytic", "--json"))
            return 1e12 / got["tokens_per_s"] / 86400

        nodes = days_of("megatron", "--placement", "framework")
        half = days_of("megatron:exchange_hidden=0.5", "--placement", "framework")
        run("plan", *PLAN, "--framework", "megatron")
        got = json.loads(run("simulate", "plan.json", "--engine", "analytic", "--trace", "t.gz", "--json"))
        pair, whole, weight = passes(Path(folder, "t.gz"))
    days = 1e12 / got["tokens_per_s"] / 86400
    peak = max(r["peak_bytes"] for r in got["ranks"]) / 2**30
    idle = [r["idle_s"] for r in got["ranks"] if r["stage"] > 0]
    bubble, formula = sum(idle) / len(idle), (RANKS / 2 - 1) * (pair + whole - 3 * weight)
    print(f"{peak:.2f} GiB, {days:.3f} days (published {DAYS:.3f}), bubble of stages 1 to 14 {bubble:.3f} s, "
          f"by the formula {formula:.3f} s; over whole nodes {nodes:.3f} days, with half of the bytes {half:.3f}")
    failed = [what for what, good in [("memory", peak <= 80), ("days", abs(days / DAYS - 1) <= 0.15),
                                      ("bubble", abs(bubble / formula - 1) <= 0.1),
                                      ("half of the bytes", abs(half / DAYS - 1) <= 0.15),
                                      ("whole nodes are near: limits.md says not", nodes / DAYS > 1.15)] if not good]
    sys.exit(f"FAIL: {', '.join(failed)}" if failed else 0)


main()
