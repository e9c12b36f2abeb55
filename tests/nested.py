#!/usr/bin/env python3
"""A constraint never gives a better plan than none: the search is asked with and without each.
Usage: nested.py FORELINE few|all"""
import json
import subprocess
import sys

MEGATRON = "--framework megatron --platform rail:nodes={},gpus=8,type={} --batch {}"
CASES = (
    ("gpt-tiny:layers=16,hidden=1024,heads=16,tokens=2048,vocabulary=4096", 3, "H100", 48),
    ("mixtral-8x7b:layers=8,tokens=4096", 3, "H100", 48),
    ("llama3-8b:layers=8", 4, "H100", 16),
    ("gpt3-13b:layers=8", 4, "A100", 64),
    ("gpt3-13b", 4, "H100", 32),
    ("llama3-70b:layers=16", 8, "H100", 64),
)
CONSTRAINTS = ("--zero 1", "--context-parallel 2",
               "--recompute full",
               "--sequence-parallel", "--chunks 8", "--stages 16 --chunks 8",
               "--tensor-parallel 8 --sequence-parallel --tensor-overlap")
SLACK = 1e-3  # finalists are few, and links that are shared are known of them alone


def seconds(foreline, options):
    """None: there is no such plan, and the command says why."""
    run = subprocess.run([foreline, "plan", *options.split(), "--json"], capture_output=True,
                         text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"plan {options}: {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)["iteration_s"] if run.returncode == 0 else None


def main(foreline, which):
    cases, constraints = (CASES[:1], CONSTRAINTS[:3]) if which == "few" else (CASES, CONSTRAINTS)
    asked = failed = 0
    for model, nodes, gpu, batch in cases:
        options = f"--model {model} " + MEGATRON.format(nodes, gpu, batch)
        free = seconds(foreline, options)
        for constraint in constraints:
            found = seconds(foreline, f"{options} {constraint}")
            asked += found is not None
            if found is not None and found < free * (1 - SLACK):
                print(f"FAIL: {options} {constraint}: {found:.6g} s, without it {free:.6g} s")
                failed += 1
    print(f"{asked} constraints, none better than free by more than {SLACK:g}" if not failed
          else f"{failed} of {asked} constraints are better")
    return 1 if failed or not asked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
