#!/bin/sh
# Bus bandwidth of all-reduces on five machines, size by size: measured by nccl-tests, predicted from the machine's
# description alone, and predicted once the measured table is imported into the platform.
# Usage: bench/busbw.sh FORELINE FOLDER [OUT]
# FOLDER has nccl_tests/; OUT gets busbw.md, busbw.tsv and busbw.svg (default: here). A file in place of FOLDER
# is a page with the table of busbw.md, which is drawn again.
set -eu
exec python3 - "$(realpath "$1")" "$2" "${3:-.}" <<'PYTHON'
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

foreline, folder, out = sys.argv[1:4]
# file, platform as published of the machine, members, of which on a node
MACHINES = [
    ("AWS p5, 8 H100", "aws_p5_h100_8gpu_nvls_mpitag", "rail:nodes=1,gpus=8,type=H100", 8, 8),
    ("AWS p5, 2 x 8 H100", "aws_p5_h100_2node_efa_srunlabel", "rail:nodes=2,gpus=8,type=H100", 16, 8),
    ("AWS p4de, 2 x 8 A100", "aws_p4de_a100_2node_efa_srunlabel", "rail:nodes=2,gpus=8,type=A100,nic=50Gbps", 16, 8),
    # its page says two nodes, its busbw / algbw 32 ranks
    ("DGX A100, 4 x 8", "dgxa100_2node_ib_deepops", "rail:nodes=4,gpus=8,type=A100", 32, 8),
    ("OCI, 2 x 8 H100", "oci_h100_2node_16gpu_roce_multihost", "rail:nodes=2,gpus=8,type=H100", 16, 8),
]


def run(*args):
    done = subprocess.run([foreline, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"foreline {' '.join(args)}: {done.stderr}")
    return done.stdout


def measured(path):
    """Bytes and out-of-place seconds, by the file's own columns."""
    rows = {}
    for line in open(path, encoding="utf-8", errors="replace"):
        m = re.search(r"(\d+)\s+\d+\s+(?:float|half|bfloat16)\s+sum(?:\s+-1)?\s+([\d.]+)\s", line)
        if m and int(m[1]) >= 8:
            rows.setdefault(int(m[1]), float(m[2]) * 1e-6)
    return rows


def predicted(platform, members, sizes, folder, *options):
    """Seconds of one all-reduce: that of the gradients of a model of one op with so many bytes."""
    model, plan = os.path.join(folder, "model.json"), os.path.join(folder, "plan.json")
    times = {}
    for size in sizes:
        op = {"name": "a", "kind": "linear", "parameter_bytes": size, "stash_bytes": 0, "output_bytes": 0}
        op.update({f"{w}_{k}": 0 for w in ("forward", "backward") for k in ("flop", "bytes")})
        with open(model, "w", encoding="utf-8") as file:
            json.dump({"format": "foreline-model", "version": 1, "name": "all-reduce", "tokens_per_sample": 0,
                       "element_bytes": 4, "ops": [op]}, file)
        run("plan", "--model", model, "--platform", platform, "--algorithm", "uniform", "--stages", "1", "--replicas",
            str(members), "--microbatches", str(members), "-o", plan, *options)
        (call,) = json.loads(run("simulate", plan, "--engine", "analytic", "--json"))["collectives"]
        assert call["kind"] == "all-reduce" and call["bytes"] == size and call["members"] == members, call
        times[size] = call["total_s"] / call["calls"]
    return times


def main():
    table, summary, largest = [], [], 0
    for name, file, spec, members, per_node in MACHINES:
        path = os.path.join(folder, "nccl_tests", file + ".txt")
        have = measured(path)
        with tempfile.TemporaryDirectory() as tmp:
            curves = os.path.join(tmp, "curves.xml")
            run("topology", "import", "--platform", spec, f"all-reduce:{members // per_node}x{per_node}={path}", "-o", curves)
            # larger gradients do not fit a device beside parameters and the optimizer's state
            sizes = [s for s in sorted(have) if s <= 1 << 32]
            alone = predicted(spec, members, sizes, tmp)
            given = predicted(curves, members, sizes, tmp)
        factor = 2 * (members - 1) / members
        for s in sizes:
            busbw = [factor * s / t / 1e9 for t in (have[s], alone[s], given[s])]
            largest = max(largest, abs(given[s] / have[s] - 1))
            table.append((name, s, *busbw))
        for low, high, what in ((8, 1 << 20, "to 1 MiB"), (1 << 20, 1 << 25, "to 32 MiB"), (1 << 25, 1 << 60, "above")):
            errors = [abs(alone[s] / have[s] - 1) for s in sizes if low <= s < high]
            if errors:
                again = max(abs(given[s] / have[s] - 1) for s in sizes if low <= s < high)
                summary.append((name, what, len(errors), statistics.median(errors), max(errors), again))
    with open(os.path.join(out, "busbw.tsv"), "w", encoding="utf-8") as f:
        f.write("machine\tbytes\tmeasured\twithout\twith\n")
        for row in table:
            f.write("\t".join(x if isinstance(x, str) else f"{x:.12g}" for x in row) + "\n")
    with open(os.path.join(out, "busbw.md"), "w", encoding="utf-8") as f:
        f.write("| machine | sizes | n | time without the import, median error | largest | with it, largest |\n|---|---|---|---|---|---|\n")
        for name, what, n, median, worst, again in summary:
            f.write(f"| {name} | {what} | {n} | {100 * median:.1f} % | {100 * worst:.0f} % | {again:.1e} |\n")
        f.write("\nBus bandwidth, GB/s: measured, predicted without the import, with it.\n\n| bytes |")
        names = [m[0] for m in MACHINES]
        f.write("".join(f" {n} |" for n in names) + "\n|---|" + "---|" * len(names) + "\n")
        for s in sorted({row[1] for row in table if row[1] >= 1 << 16}):
            f.write(f"| {s} |")
            for n in names:
                row = next((r for r in table if r[0] == n and r[1] == s), None)
                f.write(f" {row[2]:.4g}, {row[3]:.4g}, {row[4]:.4g} |" if row else " |")
            f.write("\n")
    plot(table)
    print(f"{len(table)} sizes of {len(MACHINES)} machines; with the import the largest error is {largest:.2e}")
    sys.exit(largest > 1e-6)


def plot(table):
    """Small multiples: one panel a machine, the same axes, as wide as a column; the legend has the last place."""
    script = ["set terminal svg size 480,640 background rgb 'white' font 'sans,12'",
              f"set output '{os.path.join(out, 'busbw.svg')}'", "set multiplot layout 3,2",
              "set logscale xy", f"set xrange [{min(r[1] for r in table) / 1.3}:6e9]",
              "set format y '%g'", "set grid", "set key off", "set ylabel 'busbw (GB/s)' offset 1.5",
              "set border 3", "set tics nomirror",
              "set xtics ('1 KiB' 1024, '64 KiB' 65536, '2 MiB' 2097152, '64 MiB' 67108864, '2 GiB' 2147483648)"]
    low = 10 ** math.floor(math.log10(min(min(r[2:]) for r in table)))
    script.append(f"set yrange [{low:g}:1000]")
    style = ((4, "with the import", "lines lw 3 lc rgb '#56B4E9'"), (3, "without it", "lines lw 2 lc rgb '#D55E00'"),
             (2, "measured", "points pt 7 ps 0.4 lc rgb '#000000'"))
    for k, (name, *_) in enumerate(MACHINES):
        rows = [r for r in table if r[0] == name]
        for col in (2, 3, 4):
            script.append(f"$d{k}_{col} << EOD")
            script += [f"{r[1]} {r[col]:.9g}" for r in rows]
            script.append("EOD")
        script.append(f"set title '{name}'")
        script.append("plot " + ", ".join(f"$d{k}_{c} with {s} title '{t}'" for c, t, s in style))
    script += ["unset title", "unset tics", "unset border", "unset grid", "unset ylabel", "set key center center",
               "plot " + ", ".join(f"NaN with {s} title '{t}'" for _, t, s in style)]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\nunset multiplot\n", text=True, check=True)


def read_page(path):
    """The rows of the table that a page has: machine, bytes, measured, without, with."""
    table = []
    for line in open(path, encoding="utf-8"):
        cell = [c.strip() for c in line.split("|")[1:-1]]
        if cell and cell[0].isdigit():
            table += [(m[0], int(cell[0]), *map(float, c.split(","))) for m, c in zip(MACHINES, cell[1:]) if c]
    return table


if os.path.isfile(folder):
    plot(read_page(folder))
else:
    main()
PYTHON
