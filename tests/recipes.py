#!/usr/bin/env python3
"""No published or hand-made plan beats the search: it is asked with each plan's degrees, and without.
Usage: recipes.py FORELINE [MODEL...]   (those models alone)"""
import json
import pathlib
import subprocess
import sys

SLACK = 5e-3


def seconds(foreline, options):
    """Seconds of an iteration; or what the command says why there is no such plan."""
    run = subprocess.run([foreline, "plan", *options.split(), "--json"], capture_output=True,
                         text=True, check=False)
    if run.returncode == 0:
        return json.loads(run.stdout)["iteration_s"], ""
    if run.returncode != 1:
        sys.exit(f"plan {options}: {run.returncode}: {run.stderr}")
    return None, run.stderr.strip().splitlines()[-1]


def main(foreline, models):
    lines = (pathlib.Path(__file__).parent / "recipes.tsv").read_text(encoding="utf-8").splitlines()
    free, asked, failed, impossible = {}, 0, 0, 0
    for line in lines:
        if line.startswith("#"):
            continue
        model, platform, training, plan, source = line.split("\t")
        if models and model not in models:
            continue
        options = f"--model {model} --platform {platform} {training}"
        if options not in free:
            free[options] = seconds(foreline, options)[0]
        found, why = seconds(foreline, f"{options} {plan}")
        best = free[options]
        asked += 1
        impossible += found is None
        beaten = found is not None and (best is None or found < best * (1 - SLACK))
        failed += beaten
        said = f"{found:.4g} s" if found else why
        ahead = f" ({found / best - 1:+.1%})" if found and best else ""
        print(f"{'FAIL ' if beaten else ''}{model} {platform} {training} | {plan} | {source}: {said}, "
              f"free {best:.4g} s{ahead}" if best else f"{options} {plan}: {said}, free none", flush=True)
    print(f"{asked} plans, {impossible} of them impossible here, {failed} better than the search "
          f"by more than {SLACK:.1%}")
    return 1 if failed or impossible == asked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
