#!/usr/bin/env python3
"""What llms.txt tells programs holds: the fields that it names are in the JSON of plan, simulate and compare, a plan that fits
nowhere exits with 1 and prints nothing, and with --allow-oom it says so in JSON. usage: llms.py FORELINE LLMS_TXT
"""
import json
import re
import subprocess
import sys
import tempfile

SMALL = ["--model", "vmoe", "--platform", "node:gpus=2,type=H100", "--batch", "16", "--json", "--replicas", "2", "--context-parallel",
         "2", "--expert-parallel", "2", "--zero", "3", "--zero-keep"]
LARGE = ["--model", "llama3-70b", "--platform", "node:gpus=1,type=T4", "--batch", "1", "--offload", "none", "--json"]


def keys(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def main():
    foreline, page = sys.argv[1], open(sys.argv[2], encoding="utf-8").read()

    def call(*words):
        done = subprocess.run([foreline, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout

    faults = []
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/plan.json"
        answers = [call("plan", *SMALL, "-o", plan), call("simulate", plan, "--json"), call("plan", *LARGE, "--allow-oom"),
                   call("compare", plan, plan, "--engine", "analytic", "--json")]
    if any(status for status, _ in answers):
        sys.exit(f"exit statuses {[status for status, _ in answers]}")
    small, simulated, large, beside = (json.loads(text) for _, text in answers)
    known = keys(small) | keys(simulated) | keys(beside)
    text = page[page.index("## Answer a question"):page.index("## Pages")]
    named = [field for token in re.findall(r"`([a-z_]+(?:\[\d?\])?(?:\.[a-z_]+)?)`", text) if not token.endswith(".json")
             for field in re.sub(r"\[\d?\]", "", token).split(".") if field != "plan"]
    faults += [f"no field {field}" for field in named if field not in known]
    best, nearest = small["candidates"][0], large["candidates"][0]
    if best["iteration_s"] != small["iteration_s"] or not best["fits"] or best["headroom_bytes"] <= 0:
        faults.append(f"candidates[0] is not the best plan: {best}")
    if nearest["fits"] or nearest["headroom_bytes"] >= 0:
        faults.append(f"a plan that does not fit: {nearest['fits']}, {nearest['headroom_bytes']}")
    if call("plan", *LARGE) != (1, b""):
        faults.append("a plan that fits nowhere does not exit with 1, or prints something")
    print("\n".join(faults) if faults else f"{len(named)} fields")
    sys.exit(bool(faults) or len(named) < 20)


if __name__ == "__main__":
    main()
