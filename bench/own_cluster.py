#!/usr/bin/env python3
"""Four runs of a cluster fitted, the others predicted: how far off `foreline calibrate --from` is.

    bench/own_cluster.py FORELINE FOLDER... [--draws N] [--gpus N] [--by-model]

FOLDER: measured runs as `foreline lab scoreboard` takes them. A group is the rows of one set, GPU,
network, type of numbers and framework (--by-model: and model) on up to --gpus (1,024), of which
at least 8 have a time and a plan; every group counts, none is left out. Of each, 4 rows are drawn (seeds 1 to N), given to
calibrate with their times, and up to 40 of the others, drawn as well, without; these are what it
predicts. Prints a line for each group: rows, the median error before and after over all draws.
Exit status 77 where there is no data.
"""
import argparse
import collections
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

FITTED, LEAST, MOST = 4, 8, 40


def read_groups(folder, by_model, gpus):
    keys = ["set", "gpu", "network", "dtype", "framework"] + ["model"] * by_model
    groups = collections.defaultdict(list)
    with open(os.path.join(folder, "runs.tsv"), encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
            if int(row["gpus"]) <= gpus:
                groups[tuple(row[k] for k in keys)].append(row)
    return {k: rows for k, rows in sorted(groups.items()) if len(rows) >= LEAST}


def predict(foreline, folder, fitted, others):
    """Errors of the others, before and after a fit."""
    table = os.path.join(folder, "table.csv")
    with open(table, "w", encoding="utf-8") as f:
        f.write("plan,iteration_s\n")
        for row in fitted:
            f.write(f"{row['plan']},{row['iteration_s']}\n")
        for row in others:
            f.write(f"{row['plan']},\n")
    run = subprocess.run([foreline, "calibrate", "--from", table, "--json"],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    fit = json.loads(run.stdout)
    free = [c["name"] for c in fit["constants"] if c["state"] == "free"]
    runs = {r["name"]: r for r in fit["runs"]}
    before, after = [], []
    for row in others:
        measured, r = float(row["iteration_s"]), runs[row["plan"]]
        before.append(abs(r["before_s"] / measured - 1))
        after.append(abs(r["fitted_s"] / measured - 1))
    return before, after, free


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("foreline")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--by-model", action="store_true")
    parser.add_argument("--gpus", type=int, default=1024)
    a = parser.parse_args()
    folders = [f for f in a.folders if os.path.isdir(f)]
    if not folders:
        print("skipped: no measured runs in", ", ".join(a.folders))
        return 77
    medians, before_all, after_all = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([a.foreline, "lab", "scoreboard", *folders, "--plans", folder], check=True)
        groups = read_groups(folder, a.by_model, a.gpus)
        print("rows\tbefore_%\tfitted_%\tgroup\tfree")
        for key, rows in groups.items():
            before, after, names = [], [], collections.Counter()
            for seed in range(1, a.draws + 1):
                drawn = random.Random(seed).sample(rows, len(rows))
                b, c, free = predict(a.foreline, folder, drawn[:FITTED],
                                     drawn[FITTED:FITTED + MOST])
                before += b
                after += c
                names.update(free)
            medians.append(statistics.median(after))
            before_all += before
            after_all += after
            print(f"{len(rows)}\t{100 * statistics.median(before):.1f}\t{100 * medians[-1]:.1f}\t"
                  + " ".join(k[:24] for k in key) + "\t"
                  + " ".join(f"{n}:{c}" for n, c in names.most_common()), flush=True)
    print(f"# {len(groups)} groups, {a.draws} draws each: median of groups "
          f"{100 * statistics.median(medians):.2f} %, of all rows "
          f"{100 * statistics.median(after_all):.2f} % ({100 * statistics.median(before_all):.2f} "
          f"before); {sum(m <= 0.04 for m in medians)} groups within 4 %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
