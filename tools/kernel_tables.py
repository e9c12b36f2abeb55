"""Measured tables of NVIDIA's AIConfigurator (PyPI: aiconfigurator-core, Apache-2.0) as the CSV files of
`foreline lab kernels` and `foreline topology import`: docs/reference/kernels.md, "Tables of measured kernels".

    python3 tools/kernel_tables.py SYSTEMS GPU[,GPU...]|all -o FOLDER [--framework trtllm] [--dtype bf16] [--rows 4000] [--least 1]

SYSTEMS is the package's folder `systems` (pip download, unzip). Reading Parquet needs pyarrow, nothing else does."""
import argparse
import csv
import os
import re
import sys
import zlib

# folders of the package: GPUs of foreline's catalogue; all-reduces of 16 bits are summed in the switch (NVLS)
GPUS = {
    "a100_sxm": "A100", "h100_sxm": "H100 NVLS", "h200_sxm": "H200 NVLS", "b200_sxm": "B200 NVLS", "b300_sxm": "B300 NVLS",
    "gb200": "GB200 NVLS", "gb300": "GB300 NVLS", "l40s": "L40S", "rtx_pro_6000_server": "RTX-PRO-6000", "b60": "B60",
}
DTYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}
COLLECTIVES = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
               "alltoall": "all-to-all"}
PRODUCTS = ("gpu", "dtype", "M", "N", "K", "time_ms")
ATTENTION = ("gpu", "dtype", "batch", "tokens", "heads", "kv_heads", "head_dim", "window", "time_ms")
SHARED = ("gpu", "collective", "ranks", "nodes", "bytes", "time_ms")


class Bad(Exception):
    pass


def version_of(name):
    return [int(n) for n in re.findall(r"\d+", name)]


def newest(folders, table):
    """The table of the highest version below the first folder that has one."""
    for folder in filter(os.path.isdir, folders):
        found = [v for v in os.listdir(folder) if os.path.exists(os.path.join(folder, v, table))]
        if found:
            return os.path.join(folder, max(found, key=version_of), table)
    return None


def read(path, columns):
    """Tuples of the columns; one that the table lacks is None throughout."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise Bad("pyarrow, which reads Parquet files, is missing. Try python3 -m pip install pyarrow")
    try:
        table = parquet.read_table(path)
        has = [table.column(c).to_pylist() if c in table.column_names else [None] * table.num_rows for c in columns]
    except Exception as e:  # pyarrow has many
        raise Bad("%s: %s" % (path, e))
    return zip(*has)


def some(rows, most):
    """At most so many rows, the same in each run, whatever the order of the table: by a hash of the shape."""
    rows = sorted(set(rows), key=lambda r: (zlib.crc32(repr(r[:-1]).encode()), r))
    return rows[:most]


def products(path, gpu, dtype, least):
    for kind, m, n, k, ms in read(path, ("gemm_dtype", "m", "n", "k", "latency")):
        if kind == DTYPES[dtype] and m >= least and ms > 0:
            yield gpu, dtype, m, n, k, ms


def attention(path, gpu, dtype, least):
    columns = ("attn_dtype", "kv_cache_dtype", "step", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim",
               "window_size", "latency")
    for kind, kept, step, batch, tokens, heads, kv, dim, window, ms in read(path, columns):
        if kind == kept == DTYPES[dtype] and not step and tokens >= max(least, 2) and ms > 0:
            yield gpu, dtype, batch, tokens, heads, kv or heads, dim, window or 0, ms


def collectives(path, gpu):
    """Sizes are numbers of 16 bits, of the larger buffer, as in nccl-tests. Several runs of a size: the median."""
    times = {}
    for op, kind, ranks, size, ms in read(path, ("op_name", "nccl_dtype", "num_gpus", "message_size", "latency")):
        name = COLLECTIVES.get((op or "all_reduce").replace("-", "_"))
        if name and kind == "half" and ms > 0:
            times.setdefault((name, int(ranks), 2 * size), []).append(ms)
    for (name, ranks, size), ms in sorted(times.items()):
        yield gpu, name, ranks, 1, size, sorted(ms)[len(ms) // 2]


def write(path, header, rows):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def curves(folder, shared):
    """A file for each collective and number of members, as `topology import` takes them."""
    groups, names = {}, []
    for _, name, ranks, _, size, ms in shared:
        groups.setdefault((name, ranks), []).append((size, 1e3 * ms))
    for (name, ranks), points in sorted(groups.items()):
        path = os.path.join(folder, "%s-%d.csv" % (name, ranks))
        write(path, ("size(B)", "time(us)"), points)
        names.append("%s:1x%d=%s" % (name, ranks, path))
    return names


def convert(a, folders):
    data = os.path.join(a.systems, "data")
    files = {"products.csv": (PRODUCTS, []), "attention.csv": (ATTENTION, []), "collectives.csv": (SHARED, [])}
    for folder in folders:
        gpu, at, sources = GPUS[folder], os.path.join(data, folder), []
        for name, kind, table, rows_of in (("products.csv", "gemm", "gemm_perf.parquet", products),
                                           ("attention.csv", "attention", "context_attention_perf.parquet", attention)):
            path = newest([os.path.join(at, kind, f) for f in (a.framework, "vllm")], table)
            if path:
                files[name][1].extend(some(rows_of(path, gpu.split()[0], a.dtype, a.least), a.rows))
                sources.append(path)
        path = newest([os.path.join(at, "comm", "nccl")], "nccl_perf.parquet") or \
            newest([os.path.join(at, "comm", "oneccl")], "oneccl_perf.parquet")
        if path:
            files["collectives.csv"][1].extend(collectives(path, gpu))
            sources.append(path)
        if not sources:
            raise Bad("%s: no tables" % at)
        print("# %s: %s" % (gpu.split()[0], ", ".join(os.path.relpath(s, data) for s in sources)))
    os.makedirs(a.output, exist_ok=True)
    for name, (header, rows) in files.items():
        if rows:
            write(os.path.join(a.output, name), header, rows)
            print("%-16s %6d rows" % (name, len(rows)))
    if len(folders) == 1 and files["collectives.csv"][1]:
        print("foreline topology import %s" % " ".join(curves(a.output, files["collectives.csv"][1])))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("systems")
    p.add_argument("gpus")
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--framework", default="trtllm", choices=("trtllm", "vllm", "sglang"))
    p.add_argument("--dtype", default="bf16", choices=sorted(DTYPES))
    p.add_argument("--rows", type=int, default=4000, help="at most so many of a GPU's kernels of a kind")
    p.add_argument("--least", type=int, default=1, help="only products of as many rows, and sequences of as many tokens")
    a = p.parse_args()
    try:
        folders = [f for f in GPUS if a.gpus == "all" or GPUS[f].split()[0] in a.gpus.split(",") or f in a.gpus.split(",")]
        if not folders or (a.gpus != "all" and len(folders) < len(set(a.gpus.split(",")))):
            raise Bad("unknown GPU '%s', expected %s or all" % (a.gpus, ", ".join(g.split()[0] for g in GPUS.values())))
        convert(a, folders)
    except Bad as e:
        sys.exit("kernel_tables.py: %s" % e)


if __name__ == "__main__":
    main()
