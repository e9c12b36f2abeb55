#!/usr/bin/env python3
"""tools/kernel_tables.py on tables made here, and on NVIDIA's where FORELINE_KERNEL_TABLES is their folder `systems`.
Usage: kernel_tables.py SOURCE FORELINE small|page; exit 77: skipped"""
import csv
import os
import re
import subprocess
import sys
import tempfile

SOURCE, FORELINE, PART = sys.argv[1:4]
TOOL = os.path.join(SOURCE, "tools", "kernel_tables.py")


def tool(*arguments, **environment):
    return subprocess.run([sys.executable, TOOL, *arguments], env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def table(root, path, rows):
    import pyarrow
    import pyarrow.parquet
    path = os.path.join(root, "data", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def cells(*path):
    with open(os.path.join(*path)) as f:
        return list(csv.reader(f))


def small(root):
    out, product = os.path.join(root, "out"), {"gemm_dtype": "bfloat16", "n": 64, "k": 128}
    for version in ("1.10.0", "1.9.0"):  # the newer one counts
        table(root, "h200_sxm/gemm/trtllm/%s/gemm_perf.parquet" % version,
              [dict(product, m=m, latency=m * (1.0 if version == "1.10.0" else 9.0)) for m in (1, 512, 700, 700, 900)] +
              [dict(product, m=600, latency=3.0, gemm_dtype="fp8")])
    seen = {"attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "step": 0, "batch_size": 2, "num_heads": 8,
            "num_key_value_heads": 2, "head_dim": 128, "window_size": 0, "latency": 0.5}
    table(root, "h200_sxm/attention/vllm/0.1/context_attention_perf.parquet",
          [dict(seen, isl=1024), dict(seen, isl=16), dict(seen, isl=2048, step=7), dict(seen, isl=2048, kv_cache_dtype="fp8")])
    table(root, "h200_sxm/comm/nccl/2.2/nccl_perf.parquet",
          [{"op_name": "alltoall", "nccl_dtype": d, "num_gpus": 4, "message_size": 1 << s, "latency": t}
           for d, s, t in (("half", 20, 0.2), ("half", 10, 0.3), ("half", 10, 0.1), ("half", 10, 0.2), ("int8", 10, 9.0))])
    said = tool(root, "H200", "-o", out, "--least", "512")
    assert said.returncode == 0, said.stderr
    rows = cells(out, "products.csv")
    assert rows[0] == ["gpu", "dtype", "M", "N", "K", "time_ms"], rows[0]
    assert sorted(rows[1:]) == [["H200", "bf16", m, "64", "128", m + ".0"] for m in ("512", "700", "900")], rows
    assert cells(out, "attention.csv")[1:] == [["H200", "bf16", "2", "1024", "8", "2", "128", "0", "0.5"]]
    assert cells(out, "collectives.csv")[1:] == [["H200 NVLS", "all-to-all", "4", "1", "2048", "0.2"],
                                                 ["H200 NVLS", "all-to-all", "4", "1", str(1 << 21), "0.2"]]
    assert cells(out, "all-to-all-4.csv") == [["size(B)", "time(us)"], ["2048", "200.0"], [str(1 << 21), "200.0"]]
    command = said.stdout.splitlines()[-1].split()
    assert command == ["foreline", "topology", "import", "all-to-all:1x4=" + os.path.join(out, "all-to-all-4.csv")], command
    subprocess.run([FORELINE, *command[1:], "--platform", "node:gpus=8,type=H200", "-o", os.path.join(root, "p.xml")], check=True,
                   stdout=subprocess.DEVNULL)
    again = os.path.join(root, "again")
    assert tool(root, "h200_sxm", "-o", again, "--least", "512", "--rows", "2").returncode == 0
    assert set(map(tuple, cells(again, "products.csv"))) < set(map(tuple, rows)) and len(cells(again, "products.csv")) == 3
    assert "no such GPU: 'H200,x'" in tool(root, "H200,x", "-o", out).stderr
    assert "no tables" in tool(root, "A100", "-o", out).stderr
    with open(os.path.join(root, "data/h200_sxm/gemm/trtllm/1.10.0/gemm_perf.parquet"), "w") as f:
        f.write("version https://git-lfs")
    broken = tool(root, "H200", "-o", out)
    assert broken.returncode == 1 and "gemm_perf.parquet: " in broken.stderr and "Traceback" not in broken.stderr, broken.stderr


def without_pyarrow(root):
    os.makedirs(os.path.join(root, "none/pyarrow"))
    with open(os.path.join(root, "none/pyarrow/__init__.py"), "w") as f:
        f.write("raise ImportError\n")
    path = os.path.join(root, "data/a100_sxm/gemm/trtllm/1")
    os.makedirs(path)
    open(os.path.join(path, "gemm_perf.parquet"), "w").close()
    said = tool(root, "A100", "-o", root, PYTHONPATH=os.path.join(root, "none"))
    assert said.returncode == 1 and "pyarrow" in said.stderr, said.stderr


def figures(text):
    return {m.group(1): [float(x) for x in re.findall(r"[0-9.]+", m.group(2))]
            for m in re.finditer(r"^\| (\S+) \|((?: [0-9.]+ \|)+)$", text, re.M)}


def page():
    systems = os.environ.get("FORELINE_KERNEL_TABLES") or skip("FORELINE_KERNEL_TABLES names no folder of tables")
    said = subprocess.run([os.path.join(SOURCE, "bench/kernel-tables.sh"), FORELINE, systems], check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHON": sys.executable}).stdout
    with open(os.path.join(SOURCE, "docs/results/2026-11-30-kernel-tables.md")) as f:
        stands, now = figures(f.read()), figures(said)
    assert len(now) == 14 and all(abs(a - b) < 0.25 for name in now for a, b in zip(now[name], stands[name])), said


with tempfile.TemporaryDirectory() as folder:
    if PART == "page":
        page()
    else:
        without_pyarrow(os.path.join(folder, "a"))
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            skip("pyarrow is missing; that the tool says so was tested")
        small(os.path.join(folder, "b"))
