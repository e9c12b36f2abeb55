#!/usr/bin/python3
"""Hostile files of every format that is read: as large as its limit lets them be, deep, wide, long, or claiming what is not there. None may end
the program by a signal, cost 2 s of CPU time or 500 MB, or be refused in more than a line, which names what lifts the limit where one was met.

Usage: hostile.py FORELINE [--full] [--share P] [--seed S] [--only REGEX] [--cpu SECONDS] [--keep DIR]; P is how likely a case is drawn; without --full files have a thousandth of their size."""
import argparse
import os
import random
import re
import resource
import shutil
import sqlite3
import struct
import sys
import tempfile
import zlib

CPU_S, MEMORY_KB = 2.0, 500 * 1000 * 1000 // 1024
SMALL = 1024
CASES = []
KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


def case(name, command, size, lifts=None):
    """A decorator: function(r, size) yields the bytes of a file of about `size` bytes (of 1/SMALL of them without --full), {} in `command`, {}.sh if it must end so.
    lifts: the limit that the full file is refused for, which the message must name; False: refused for what it is; None: whatever."""
    def put(make):
        CASES.append((name, command, size, lifts, make))
        return make
    return put


def text(name, command, size, head, block, tail=b"", lifts=None):
    """A case of a head, blocks (bytes, or bytes of a number) up to the size, and a tail."""
    def make(r, size):
        yield head
        n = i = 0
        if callable(block):
            while n < size:
                count = max(1, min(1000, (size - n) // (len(block(i)) + 1)))
                part = b"".join(block(k) for k in range(i, i + count))
                i, n = i + count, n + len(part)
                yield part
        else:
            part = block * max(1, MiB // len(block))
            while n < size:
                n += len(part)
                yield part[:max(1, (size - n + len(part)) // len(block)) * len(block)] if n > size else part
        yield tail
    CASES.append((name, command, size, lifts, make))


def collide(i, blocks=16):
    """Names that a multiplicative hash without a key holds for one: a flipped top bit is cancelled by the next word."""
    return b"".join(b"aaaaaaa\xe1aaa\xe1aaa\xe1" if i >> k & 1 else b"a" * 16 for k in range(blocks))


# ---- recorded runs

RUN = "measurement import {}"
EVENT = b'{"ph":"X","cat":"%s","name":"%s","pid":1,"tid":1,"ts":%d,"dur":2.5,"args":{%s}},\n'
KINETO = b'{"traceEvents":['


def kineto(name, block, size=GiB, lifts=None, command=RUN):
    text("kineto: " + name, command, size, KINETO, block, lifts=lifts)


kineto("ops", EVENT % (b"cpu_op", b"aten::mm", 1, b'"Sequence number":3'), lifts="size")
kineto("ops in time", lambda i: EVENT % (b"cpu_op", b"aten::mm", i, b'"Sequence number":3'), 400 * MiB, lifts="size")
kineto("kernels", EVENT % (b"kernel", b"k", 1, b'"device":0,"stream":7,"correlation":12'))
kineto("kernels backwards", lambda i: EVENT % (b"kernel", b"k", 10**9 - i, b'"device":0,"stream":7,"correlation":%d' % (10**9 - i)), 250 * MiB)
kineto("launches", lambda i: EVENT % (b"cuda_runtime", b"l", i, b'"correlation":%d' % (i * 7919 % 1000003)), 250 * MiB)
kineto("steps", lambda i: EVENT % (b"user_annotation", b"ProfilerStep#%d" % i, i, b""), 100 * MiB)
kineto("names", lambda i: EVENT % (b"cpu_op", b"n%d" % i, i, b""), GiB // 4)
kineto("names that collide", lambda i: EVENT % (b"kernel", collide(i), i, b""), 24 * MiB)
kineto("GPUs", lambda i: EVENT % (b"kernel", b"k", i, b'"device":%d' % i), MiB)
kineto("values in args", EVENT % (b"kernel", b"k", 1, b'"x":[' + b",".join([b"1"] * 5000) + b"]"))
kineto("nothing", b"{},")
text("kineto: another key", RUN, GiB, b'{"a":[1', b",1")
text("kineto: nested", RUN, GiB, b'{"a":', b"[")
text("kineto: a text", RUN, GiB, b'{"', b"a")
text("kineto: a number", RUN, GiB, b'{"a":', b"1")
text("blanks", RUN, GiB, b"", b" ")
text("kineto: blanks", RUN, GiB, KINETO, b" \n")
for brace in (b"{", b"[", b"\n", b"a", b"\0", b"<a>", b"- ", b"\x80"):
    for command in (RUN, "model show {}", "topology import {} -o out.xml", "topology show {}", "plan import {}", "simulate {}", "run --config {} --dry-run"):
        text("1 GB of %r: %s" % (brace, command), command, GiB, b"", brace)


@case("gz: blanks", RUN, 3 * GiB, "size")
def gz_blanks(r, size, head=b"", block=b" " * MiB, level=9):
    z = zlib.compressobj(level, wbits=31)
    yield z.compress(head)
    n = 0
    while n < size:
        yield z.compress(block)
        n += len(block)
    yield z.flush()


@case("gz: ops", RUN, GiB, "size")
def gz_ops(r, size):
    yield from gz_blanks(r, size, KINETO, EVENT % (b"cpu_op", b"aten::mm", 1, b"") * 10000, 1)


@case("gz: members", RUN, 64 * MiB)
def gz_members(r, size):
    z = zlib.compressobj(9, wbits=31)
    one = z.compress(b"") + z.flush()
    yield one * (size // len(one))


CSV = b"rank,step,step_time (ms),batch\n"
text("csv: rows", RUN, GiB, CSV, b"0,1,100,8\n")
text("csv: rows in order", RUN, 256 * MiB, CSV, lambda i: b"0,%d,100,8\n" % i)
text("csv: columns", RUN, 64 * MiB, b"rank,step,step_time (ms)", b",x", b"\n0,1,100\n")
text("csv: a line", RUN, GiB, CSV + b"0,1,", b"1")
text("csv: quotes", RUN, GiB, CSV, b'"')
MEGATRON = b" [2024-01-01 00:00:00] iteration %8d/  250000 | consumed samples:       205824 | elapsed time per iteration (ms): 139113.4 | lm loss: 2.3 |\n"
text("megatron", RUN, GiB, b"", MEGATRON % 1)
text("megatron in order", RUN, GiB // 4, b"", lambda i: MEGATRON % i)
text("megatron: a line", RUN, GiB, MEGATRON % 1, b"iteration 1 ")
DEEPSPEED = b"[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=%d, RunningAvgSamplesPerSec=7.8, CurrSamplesPerSec=8.0, MemAllocated=59GB\n"
text("deepspeed", RUN, GiB, b"", DEEPSPEED % 1)
text("torchtitan", RUN, GiB, b"", b"[titan] INFO - step:  1  loss: 12.2  memory: 1.0GiB(1%)  tps: 1,000  mfu: 1%\n")
text("nemo", RUN, GiB, b"", b"Training epoch 0, iteration 5/9 | lr: 1e-4 | global_batch_size: 8 | global_step: 5 | train_step_timing in s: 1.5\n")
NSYS_CSV = b"Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
text("nsys csv", RUN, GiB, NSYS_CSV, b"1,2,3,,,,,,,,,,,,,,NVIDIA A100 (0),1,7,gemm\n")


# ---- Nsight's database

TABLES = """CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
 demangledName INTEGER);
CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, globalTid INTEGER, correlationId INTEGER);"""
KERNEL = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1,2,0,7,3,16777216,1);"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
AS_KERNELS = "i AS start, i + 1 AS end, 0 AS deviceId, 0 AS streamId, i AS correlationId, 16777216 AS globalPid, 1 AS demangledName FROM n"


def nsys(name, sql, size=0, lifts=None, lie=None):
    """A database that statements make; {n}: a number that grows with the size."""
    def make(r, size):
        path = tempfile.mktemp(dir=".")
        db = sqlite3.connect(path, isolation_level=None)
        db.executescript("BEGIN;" + sql.replace("{n}", str(size)) + "COMMIT;")
        if lie:
            db.executescript("PRAGMA writable_schema=ON;" + lie)
        db.close()
        with open(path, "rb") as f:
            yield from iter(lambda: f.read(MiB), b"")
        os.unlink(path)
    CASES.append(("nsys: " + name, RUN, size, lifts, make))


def filled(table, values, n="{n}"):
    return "INSERT INTO %s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) SELECT %s FROM n;" % (table, n, values)


nsys("kernels", TABLES + filled("CUPTI_ACTIVITY_KIND_KERNEL", "i,i+1,0,7,i,16777216,1"), 3 * MiB)
nsys("GPUs", TABLES + filled("CUPTI_ACTIVITY_KIND_KERNEL", "i,i+1,i,7,i,16777216,1"), 10 * KiB)
nsys("processes of many kernels", TABLES + filled("CUPTI_ACTIVITY_KIND_KERNEL", "i,i+1,i%1000,7,i,16777216,1"), 3 * MiB)
nsys("names", TABLES + filled("StringIds", "i,'name '||i") + filled("CUPTI_ACTIVITY_KIND_KERNEL", "i,i+1,0,7,i,16777216,i"), 2 * MiB)
nsys("steps", TABLES + KERNEL + filled("NVTX_EVENTS", "i,i+9,16777217,'step '||i,0"), 2 * MiB)
nsys("ranges backwards", TABLES + KERNEL + filled("NVTX_EVENTS", "{n}-i,{n},16777217,'a',0"), 4 * MiB)
nsys("a blob", TABLES + "INSERT INTO StringIds VALUES(1, hex(zeroblob({n})));" + KERNEL, 200 * MiB)
nsys("blobs", TABLES + "INSERT INTO StringIds VALUES(1, hex(zeroblob(500000)));" + filled("CUPTI_ACTIVITY_KIND_KERNEL", "i,i+1,0,7,i,16777216,1"), 2 * MiB)
nsys("a view without end of kernels", "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS " + ENDLESS + AS_KERNELS + ";", lifts=False)
nsys("a view without end of names", TABLES.replace("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);",
     "CREATE VIEW StringIds AS " + ENDLESS + "i AS id, 'x' AS value FROM n;") + KERNEL, lifts=False)
nsys("a view that says it is a table", "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS " + ENDLESS + AS_KERNELS + ";", lifts=False,
     lie="UPDATE sqlite_master SET type='table', rootpage=2 WHERE name LIKE 'CUPTI%';")
nsys("views of each other", TABLES.split(";")[0] + ";CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL;",
     lifts=False)
nsys("columns that are computed", TABLES.replace("deviceId INTEGER", "deviceId AS (length(hex(zeroblob(400000))))", 1) +
     "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start, end) " + ENDLESS + "i, i + 1 FROM n LIMIT {n};", MiB, lifts=False)


@case("nsys: pages that are each other's", RUN, 0)
def nsys_pages(r, size):
    """Every child of an inner page is one page below it: a file of kilobytes with 10^20 rows."""
    path = tempfile.mktemp(dir=".")
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript("PRAGMA page_size=4096; BEGIN;" + TABLES + filled("CUPTI_ACTIVITY_KIND_KERNEL", "i,i+1,0,7,i,16777216,1", "100000") + "COMMIT;")
    root, = db.execute("SELECT rootpage FROM sqlite_master WHERE name LIKE '%KERNEL'").fetchone()
    db.close()
    data = bytearray(open(path, "rb").read())
    os.unlink(path)
    page = lambda k: (k - 1) * 4096
    inner = [k for k in range(2, len(data) // 4096 + 1) if data[page(k)] == 5]
    leaf = next(k for k in range(2, len(data) // 4096 + 1) if data[page(k)] == 13 and k > root + 3)
    for depth in range(8):  # copies of an inner page, each above the one before it
        at = page(inner[-1])
        copy = bytearray(data[at:at + 4096])
        below = leaf if depth == 0 else len(data) // 4096
        cells, = struct.unpack_from(">H", copy, 3)
        for c in range(cells):
            where, = struct.unpack_from(">H", copy, 12 + 2 * c)
            struct.pack_into(">I", copy, where, below)
        struct.pack_into(">I", copy, 8, below)
        data += copy
    data[page(root):page(root) + 4096] = data[-4096:]
    struct.pack_into(">I", data, 28, len(data) // 4096)
    yield bytes(data)


# ---- machines and measured collectives

MACHINE = "topology import {} -o out.xml"
M = 31 * MiB  # a little below the limits, so that files are read
text("topo -m: GPUs", MACHINE, M, b"", lambda i: b"\tGPU%d" % i, b"\n")
text("topo -m: rows", MACHINE, M, b"\tGPU0\tGPU1\tCPU Affinity\n", lambda i: b"GPU%d\t X \tNV18\t0-5\n" % i)
text("NCCL: elements", MACHINE, M, b"<system version='1'><cpu numaid='0'>", b"<pci/>", b"</cpu></system>")
text("NCCL: GPUs", MACHINE, M, b"<system version='1'><cpu numaid='0'>", lambda i: b"<pci busid='%x' class='0x030200'><gpu dev='%d' sm='90'/></pci>" % (i, i),
     b"</cpu></system>")
text("NCCL: links", MACHINE, M, b"<system version='1'><cpu numaid='0'><pci busid='a' class='0x030200'><gpu dev='0' sm='90'>",
     b"<nvlink target='a' count='1000000000' tclass='0x030200'/>", b"</gpu></pci></cpu></system>")
text("NCCL: counts", MACHINE, 0, b"<system version='1'><cpu numaid='1000000000' count='1000000000'><pci busid='a' class='0x030200' link_width='1000000000' "
     b"link_speed='1000000000 GT/s'><gpu dev='1000000000' sm='90'><nvlink target='a' count='1000000000' tclass='0x030200'/></gpu></pci></cpu></system>", b"\n")
text("NCCL: an attribute", MACHINE, M, b"<system version='", b"1", b"'/>")
text("NCCL: attributes", MACHINE, M, b"<system version='1' ", lambda i: b"a%d='' " % i, b"/>")
text("NCCL: deep", MACHINE, M, b"<system version='1'>", b"<pci>")
text("XML: an element without end", MACHINE, M, b"<system version='1'><", b"a")
text("XML: a comment without end", MACHINE, M, b"<system version='1'><!--", b"a")
text("XML: entities", MACHINE, M, b"<!DOCTYPE system [<!ENTITY a 'aaaaaaaaaa'>", lambda i: b"<!ENTITY a%d '&a;&a;&a;&a;&a;&a;&a;'>" % i, b"]><system version='1'>&a9;</system>")
text("XML: attributes by default", MACHINE, M, b"<!DOCTYPE system [", lambda i: b"<!ATTLIST system b%d CDATA 'x'>" % i, b"]><system version='1'/>")
HWLOC = b"<topology version='2'><object type='Package' gp_index='1'>"
text("hwloc: objects", MACHINE, M, HWLOC, lambda i: b"<object type='PCIDev' gp_index='%d' pci_type='0302 [10de:2330] [0:0]'/>" % (i + 2), b"</object></topology>")
text("hwloc: deep", MACHINE, M, HWLOC, b"<object type='Group'>")
text("hwloc: distances", MACHINE, M, HWLOC + b"</object><distances2hetero nbobjs='1000000000' name='NVLinkBandwidth'><indexes>", b"OSDev:3 ",
     b"</indexes><u64values>0</u64values></distances2hetero></topology>")
text("hwloc: values", MACHINE, M, HWLOC + b"</object><distances2hetero nbobjs='2' name='NVLinkBandwidth'><indexes>OSDev:3 OSDev:4</indexes><u64values>", b"0 ",
     b"</u64values></distances2hetero></topology>")
text("Slurm: 10^9 nodes", MACHINE, 0, b"SwitchName=s Nodes=n[0-999999999]\n", b"\n", lifts=False)
text("Slurm: 10^6 nodes", MACHINE, 0, b"SwitchName=s Nodes=n[0-999999]\n", b"\n")
text("Slurm: ranges of ranges", MACHINE, 0, b"SwitchName=s Nodes=n" + b"[0-9]" * 40 + b"\n", b"\n")
text("Slurm: ranges", MACHINE, M, b"SwitchName=s Nodes=n[0", b",0-9", b"]\n")
text("Slurm: lists", MACHINE, M, b"SwitchName=s Nodes=n", b",n")
text("Slurm: a long name of many", MACHINE, M, b"SwitchName=s Nodes=", b"n", b"[0-9999]\n")
text("Slurm: switches", MACHINE, M, b"", lambda i: b"SwitchName=s%d Nodes=n%d\n" % (i, i))
text("Slurm: a chain", MACHINE, M, b"", lambda i: b"SwitchName=s%d Switches=s%d\n" % (i, i + 1), b"SwitchName=x Nodes=n1\n")
text("Slurm: names that collide", MACHINE, M, b"", lambda i: b"SwitchName=%s Nodes=n%d\n" % (collide(i, 14), i))
text("Slurm: 10^9 nodes, YAML", MACHINE, 0, b"- topology: tree\n  tree:\n    switches:\n      - switch: s\n        nodes: n[0-999999999]\n", b"\n")
text("ibnetdiscover: ports", MACHINE, M, b'Switch\t4 "S-01"\t# "leaf" base port 0 lid 1 lmc 0\n',
     lambda i: b'[%d]\t"H-%d"[1](11)\t# "node%d mlx5_0" lid 2 4xNDR\n' % (i, i, i))
text("ibnetdiscover: switches", MACHINE, M, b"", lambda i: b'Switch\t4 "S-%d"\t# "s" base port 0 lid 1 lmc 0\n[1]\t"S-%d"[1]\n\n' % (i, i + 1))
text("ibnetdiscover: 10^9 ports", MACHINE, 0, b'Switch\t1000000000 "S-01"\t# "leaf"\n[1000000000]\t"H-1"[1](11)\t# "n m" lid 2 1000000000xNDR\n', b"\n")
YAMLS = {b"switches": "topograph", b"infrastructure": "InfraGraph", b"topology": "ASTRA-sim"}
for key, what in YAMLS.items():
    text(what + ": aliases", MACHINE, M, b"%s: &a [x, x]\nb: &b [*a, *a]\n" % key, lambda i: b"c%d: &c%d [*b, *b]\n" % (i, i))
    text(what + ": deep", MACHINE, M, b"%s: " % key, b"[")
    text(what + ": deep maps", MACHINE, M, b"%s: " % key, b"{a: ")
    text(what + ": a list", MACHINE, M, b"%s:\n" % key, b"- x\n")
    text(what + ": dashes", MACHINE, M, b"%s:\n" % key, b"- ")
    text(what + ": a text", MACHINE, M, b"%s: " % key, b"x")
    text(what + ": a key", MACHINE, M, b"%s:\n  " % key, b"x")
    text(what + ": keys", MACHINE, M, b"%s:\n" % key, lambda i: b"  k%d: 1\n" % i)
    text(what + ": long keys", MACHINE, M, b"%s:\n" % key, lambda i: b"  %s%d: 1\n" % (b"k" * 1000, i))
    text(what + ": explicit keys", MACHINE, M, b"%s:\n" % key, lambda i: b"  ? %s%d\n  : 1\n" % (b"k" * 4000, i))
    text(what + ": quotes", MACHINE, M, b'%s: "' % key, b"\\x41")
    text(what + ": anchors", MACHINE, M, b"%s: " % key, b"&a ")
    text(what + ": tags", MACHINE, M, b"%s: !" % key, b"%41")
    text(what + ": comments", MACHINE, M, b"%s:\n" % key, b"# x\n")
    text(what + ": documents", MACHINE, M, b"%s: {}\n" % key, b"---\n")
INFRA = b"infrastructure:\n  devices:\n  - name: box\n    components:\n    - {name: xpu, type: xpu, count: %d}\n    - {name: nic, type: nic, count: 1}\n" \
    b"    links:\n    - {name: nvlink}\n    connections: [xpu.0.nvlink.xpu.1]\n  instances:\n  - {name: server, device: box, count: %d}\n  links:\n  - {name: eth}\n"
text("InfraGraph: 10^9 GPUs", MACHINE, 0, INFRA % (10**9, 2), b"\n")
text("InfraGraph: 10^9 nodes", MACHINE, 0, INFRA % (2, 10**9), b"\n")
text("InfraGraph: connections", MACHINE, M, INFRA % (2, 2) + b"  connections:\n", b"  - server.0.nic.0.eth.leaf.0.port.0\n")
text("InfraGraph: ranges", MACHINE, M, INFRA % (2, 2) + b"  connections:\n", b"  - server.0:999999999.nic.0.eth.leaf.0:999999999.port.0:999999999\n")
text("InfraGraph: devices", MACHINE, M, b"infrastructure:\n  devices:\n", lambda i: b"  - {name: d%d, components: [{name: xpu, type: xpu, count: 1}]}\n" % i,
     b"  instances: [{name: server, device: d0, count: 1}]\n")
text("topograph: nodes", MACHINE, M, b"switches:\n  core:\n    switches: [leaf]\nblocks:\n- switch: leaf\n  nodes:\n", lambda i: b"  - n%d\n" % i)
text("topograph: blocks", MACHINE, M, b"switches:\n  core:\n    switches: [leaf]\nblocks:\n", lambda i: b"- {switch: leaf%d, nodes: [n%d]}\n" % (i, i))
text("NetQ: nodes", MACHINE, M, b'[{"nodes":[{"compounded_nodes":[', lambda i: b'{"id":"a%d","device_type":"switch"},' % i,
     b'{"id":"b","device_type":"x"}]}],"links":[{"compounded_links":[],"src":"a0","target":"b","size":4}]}]')
text("NetQ: links", MACHINE, M, b'[{"nodes":[{"compounded_nodes":[{"id":"a","device_type":"switch"},{"id":"b","device_type":"x"}]}],"links":[',
     b'{"compounded_links":[],"src":"a","target":"b","size":1000000000},', b'{"src":"a","target":"b","size":1}]}]')
CALCULON = b'{"matrix": {"tflops": 312}, "mem1": {"GiB": 80}, "networks": ['
text("Calculon: networks", MACHINE, M, CALCULON, b'{"bandwidth": 300, "size": 8},', b'{"bandwidth": 300, "size": 8}]}')
text("Calculon: 10^9 processors", MACHINE, 0, CALCULON + b'{"bandwidth": 300, "size": 1000000000}]}', b"\n", lifts=False)
for counts in (b"[1000000000]", b"[1000, 1000, 1000]", b"[2, 1000000000]"):
    for shape in (b"Ring", b"FullyConnected", b"Switch"):
        n = counts.count(b",") + 1
        each = lambda v: b"[" + b", ".join([v] * n) + b"]"
        text("ASTRA-sim: %s %s" % (shape.decode(), counts.decode()), MACHINE, 0,
             b"topology: %s\nnpus_count: %s\nbandwidth: %s\nlatency: %s\n" % (each(shape), counts, each(b"50.0"), each(b"500.0")), b"\n")
text("ASTRA-sim: dimensions", MACHINE, M, b"topology: [ Ring", b", Ring", b" ]\nnpus_count: [ 2 ]\nbandwidth: [ 1.0 ]\nlatency: [ 1.0 ]\n")
text("ns-3: 10^9", MACHINE, 0, b"1000000000 8 1 1 1000000000 A100\n1\n0 1 100Gbps 0.0005ms 0\n", b"\n")
text("ns-3: cables", MACHINE, M, b"524288 8 1 1 524280 H100\n4 5\n", lambda i: b"%d 5 %d00Gbps 0.0005ms 0\n" % (i + 8, i + 1))
text("ns-3: switches", MACHINE, M, b"1000000 8 1 1000000 1000000 A100\n", lambda i: b"%d " % i, b"\n")
MEASURED = "topology import {} --platform dgx-h100-x4 -o out.xml"
NCCL = b"# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n# Collective test starting: all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on n1 device  0 [0x0f] X\n" \
    b"#  Rank  1 Group  0 Pid 2 on n2 device  0 [0x0f] X\n"
ROW = b"%12d %12d float sum -1 %d.0 0.01 0.01 0\n"
text("nccl-tests: a line", MEASURED, M, NCCL + b"1048576 ", b"1")
text("nccl-tests: a line of cells", MEASURED, M, NCCL, b"1 ")
text("nccl-tests: elided rows", MEASURED, M, NCCL, b"...\n")
text("nccl-tests: rows", MEASURED, M, NCCL, lambda i: b"%d %d float sum -1 %d 0.01 0.01 0\n" % (i * 1000, i, i * 100))
text("nccl-tests: one row", MEASURED, M, NCCL, b"1000 250 float sum -1 100 0.01 0.01 0\n")
text("nccl-tests: hosts", MEASURED, M, NCCL, lambda i: b"#  Rank  0 Group  0 Pid 1 on %s%d device  0 [0x0f] X\n" % (b"n" * 50, i))
text("nccl-tests: ranks", MEASURED, M, NCCL, lambda i: b"#  Rank  0 Group  0 Pid 1 on n%d device  0 [0x0f] X\n" % (i % 4096))
text("nccl-tests: 1 GB", MEASURED, GiB, NCCL, b"...\n")
OSU = b"srun -N2 -n2 osu_allreduce\n# OSU MPI Allreduce Latency Test v5.6\n# Size  Avg Latency(us)\n"
text("OSU: rows", MEASURED, M, OSU, lambda i: b"%d 1.5\n" % (i + 1))
text("OSU: a line", MEASURED, M, OSU, b"4 ")
text("OSU: elided rows", MEASURED, M, OSU, b"...\n")
text("OSU: tables", MEASURED, M, b"", OSU + b"4 1.5\n")
text("OSU: launchers", MEASURED, M, OSU, b"srun -N2 -n2 " * 60 + b"\n")
CURVES = b"system,collective,ranks,nodes,bytes,busbw_GBps\n"
text("CSV: columns", MEASURED, M, b"system,collective,ranks,nodes,bytes,busbw_GBps", lambda i: b",c%d" % i, b"\n")
text("CSV: rows", MEASURED, M, CURVES, lambda i: b"s,all_reduce,16,2,%d,100\n" % (i + 1))
text("CSV: systems", MEASURED, M, CURVES, lambda i: b"s%d,all_reduce,16,2,%d,100\n" % (i, i + 1))
text("CSV: a cell", MEASURED, M, CURVES + b'"', b"x")
text("CSV: a line", MEASURED, M, CURVES, b"1,")


# ---- models

MODEL = "model show {}"
J, P = 47 * MiB, 254 * MiB
for block in (b"[],", b"{},", b"1,", b'"a",', b"null,", b"1.5e300,"):
    text("JSON: %s" % block.decode(), MODEL, J, b'{"a":[', block, b"1]}")
text("JSON: keys", MODEL, J, b"{", lambda i: b'"k%d":1,' % i, b'"a":1}')
text("JSON: a key again", MODEL, J, b"{", b'"a":1,', b'"a":1}')
text("JSON: a text", MODEL, J, b'{"a":"', b"\\u0041", b'"}')
text("JSON: a long number", MODEL, J, b'{"model_type":"llama","hidden_size":1', b"0", b"}")
text("JSON: a long fraction", MODEL, J, b'{"model_type":"llama","hidden_size":0.', b"1", b"e-999999999}")
text("JSON: a long name", MODEL, J, b'{"format":"foreline-model","version":1,"name":"', b"n", b'"}')
NODES = b'{\n  "id": "%d",\n  "type": "COMP_NODE",\n  "dataDeps": ["%d"]\n}'
text("chakra-jsonizer: nodes", MODEL, J, b'{"version":"0.0.4"}{"type":"COMP_NODE"}', lambda i: NODES % (i + 1, i))
text("chakra-jsonizer: objects", MODEL, J, b"", b"{}")
text("chakra-jsonizer: an object without end", MODEL, P, b"{}{", b'"{",')
text("JSON: a number", MODEL, J, b'{"a":', b"1", b"}")
OPS = b'{"foreline":"model","version":1,"name":"m","ops":['
text("chakra-json: nodes", MODEL, J, b'{"workload_graph":[', lambda i: b'{"Id":%d,"NodeType":4,"data_deps":[%d]},' % (i + 1, i), b'{"Id":0,"NodeType":4}]}')
text("chakra-json: a star", MODEL, J, b'{"workload_graph":[', lambda i: b'{"Id":%d,"NodeType":4,"data_deps":[0]},' % (i + 1), b'{"Id":0,"NodeType":4}]}')
text("chakra-json: dependencies", MODEL, J, b'{"workload_graph":[{"Id":0,"NodeType":4},{"Id":1,"NodeType":4,"data_deps":[0', b",0", b"]}]}")
text("execution: nodes", MODEL, J, b'{"schema":"1.1.0-chakra.0.0.4","pid":1,"nodes":[', lambda i: b'{"name":"aten::mm","id":%d,"parent":1,"op_schema":"",'
     b'"inputs":[[%d,1,0,24,4,"cuda:0"]],"input_shapes":[[4,6]],"input_types":["Tensor(float)"],"outputs":[[%d,1,0,24,4,"cuda:0"]],'
     b'"output_shapes":[[4,6]],"output_types":["Tensor(float)"]},' % (i + 3, i, i + 1), b'{"name":"x","id":2,"parent":1}]}')
text("execution: parents", MODEL, J, b'{"schema":"1.1.0-chakra.0.0.4","pid":1,"nodes":[',
     lambda i: b'{"name":"aten::mm","id":%d,"parent":%d,"inputs":[],"input_shapes":[],"outputs":[],"output_shapes":[]},' % (i + 3, i + 2),
     b'{"name":"x","id":2,"parent":1}]}')
text("placement: nodes", MODEL, J, b'{"maxSizePerFPGA":1e12,"maxFPGAs":2,"maxCPUs":1,"nodes":[',
     lambda i: b'{"id":%d,"name":"n","fpgaLatency":1,"cpuLatency":1,"size":1},' % i, b'{"id":1000000000,"name":"n","fpgaLatency":1,"size":1}],"edges":[]}')
text("placement: edges", MODEL, J, b'{"nodes":[{"id":0,"name":"n","fpgaLatency":1,"size":1},{"id":1,"name":"n","fpgaLatency":1,"size":1}],"edges":[',
     b'{"sourceId":0,"destId":1,"cost":1},', b'{"sourceId":0,"destId":1,"cost":1}]}')
CONFIG = b'{"model_type":"llama","hidden_size":%d,"num_hidden_layers":%d,"num_attention_heads":8,"intermediate_size":64,"vocab_size":64}'
text("config: 10^9 layers", MODEL, 0, CONFIG % (64, 10**9), b"\n", lifts=False)
text("config: 10^18 wide", MODEL, 0, CONFIG % (8 * 10**17, 2), b"\n", lifts=False)
text("config: layers by name", MODEL, J, b'{"model_type":"gemma3","text_config":{"hidden_size":64,"num_hidden_layers":6,"vocab_size":64,"layer_types":["full_attention"',
     b',"full_attention"', b"]}}")
NODE = b"n%d -- Linear(2, 5) -- forward_compute_time=1.500, backward_compute_time=3.000, activation_size=800.0, parameter_size=40.000\n"
text("pipedream: nodes", MODEL, P, b"", lambda i: NODE % i)
text("pipedream: a chain", MODEL, P, b"", lambda i: NODE % i + (b"\tn%d -- n%d\n" % (i - 1, i) if i else b""))
text("pipedream: a star", MODEL, P, NODE % 0, lambda i: NODE % (i + 1) + b"\tn0 -- n%d\n" % (i + 1))
text("pipedream: an edge", MODEL, P, NODE % 0 + NODE % 1, b"\tn0 -- n1\n")
text("pipedream: a line", MODEL, P, b"n1 -- ", b"x")
text("pipedream: names that collide", MODEL, 32 * MiB, b"", lambda i: collide(i, 15) + (NODE % 0)[2:])
text("pipedream: values", MODEL, P, (NODE % 0)[:-1], b", 1.0")


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body if isinstance(body, bytes) else varint(number << 3) + varint(body)


def onnx(*graph):
    return b"\x08\x07\x12\x01f" + field(7, b"".join(graph))


def onnx_case(name, make, size=0, lifts=None, command=MODEL):
    CASES.append(("ONNX: " + name, command, size, lifts, lambda r, n: iter([make(n)])))


def node(kind, inputs, outputs, *more):
    return field(1, b"".join([field(1, x) for x in inputs] + [field(2, x) for x in outputs] + [field(4, kind)] + list(more)))


def nested(n):
    graph = node(b"Relu", [b"x"], [b"y"])
    for _ in range(n):
        graph = node(b"If", [b"c"], [b"y"], field(5, field(1, b"then_branch") + field(6, graph) + field(20, 5)))
    return graph


def tensor(dims, *more):
    return field(5, b"".join([field(1, d) for d in dims] + [field(2, 1), field(8, b"w")] + list(more)))


def value(number, name, dims):
    return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, b"".join(field(1, field(1, d)) for d in dims)))))


onnx_case("subgraphs in each other", lambda n: onnx(nested(3000)))
onnx_case("a length of 2^63", lambda n: b"\x08\x07\x12\x01f\x3a" + varint(1 << 63), lifts=False)
onnx_case("a length of 2^63 within", lambda n: b"\x08\x07\x12\x01f" + field(7, b"\x0a" + varint(1 << 63)), lifts=False)
onnx_case("messages in each other", lambda n: b"\x08\x07\x12\x01f" + b"\x3a\x80\x80\x80\x08" * 100000)
onnx_case("10^9 dimensions", lambda n: onnx(tensor([]) + field(5, varint(1 << 3 | 2) + varint(10**9))), lifts=False)
onnx_case("dimensions", lambda n: onnx(tensor([2] * (n // 2)), value(11, b"x", [1, 3]), node(b"MatMul", [b"x", b"w"], [b"y"])), 100 * MiB)
onnx_case("a dimension of 2^63", lambda n: onnx(tensor([1 << 62, 1 << 62]), value(11, b"x", [1 << 62]), node(b"MatMul", [b"x", b"w"], [b"y"]), value(12, b"y", [1])))
onnx_case("nodes", lambda n: onnx(value(11, b"x", [1]), b"".join(node(b"Relu", [b"v%d" % i], [b"v%d" % (i + 1)]) for i in range(n // 25))), 100 * MiB)
onnx_case("values", lambda n: onnx(b"".join(value(13, b"v%d" % i, [1]) for i in range(n // 25)), node(b"Relu", [b"x"], [b"y"])), 100 * MiB)
onnx_case("inputs of a node", lambda n: onnx(value(11, b"x", [1]), node(b"Sum", [b"x"] * (n // 3), [b"y"])), 100 * MiB)
onnx_case("a fan", lambda n: onnx(value(11, b"x", [1]), b"".join(node(b"Add", [b"x", b"x"], [b"v%d" % i]) for i in range(n // 25))), 10 * MiB)
onnx_case("names that collide", lambda n: onnx(value(11, b"x", [1]), b"".join(node(b"Relu", [b"x"], [collide(i, 15)]) for i in range(n // 260))), 16 * MiB)
onnx_case("a reshape to 10^18", lambda n: onnx(value(11, b"x", [1, 2]), field(5, field(1, 2) + field(2, 7) + field(8, b"s") + field(9, struct.pack("<2q", 10**9, 10**9))),
                                                    node(b"Reshape", [b"x", b"s"], [b"y"]), value(12, b"y", [1])))
onnx_case("a range of 10^18", lambda n: onnx(*[field(5, field(2, 7) + field(8, k) + field(9, struct.pack("<q", v))) for k, v in ((b"a", 0), (b"b", 10**18), (b"c", 1))],
                                             node(b"Range", [b"a", b"b", b"c"], [b"y"]), value(12, b"y", [1])))
onnx_case("weights elsewhere of 2^63", lambda n: onnx(tensor([1 << 40], field(14, 1), field(13, field(1, b"location") + field(2, b"/dev/zero"))),
                                                      value(11, b"x", [1]), node(b"MatMul", [b"x", b"w"], [b"y"])))


def et(*messages):
    return b"".join(varint(len(m)) + m for m in messages)


META = field(1, b"0.0.4")
onnx_case("(.et) nodes", lambda n: et(META, *[field(1, i) + field(2, b"n") + field(3, 4) for i in range(n // 10)]), 100 * MiB)
onnx_case("(.et) a chain", lambda n: et(META, *[field(1, i) + field(3, 4) + (field(5, i - 1) if i else b"") for i in range(n // 10)]), 40 * MiB)
onnx_case("(.et) dependencies", lambda n: et(META, field(1, 0) + field(2, b"n") + field(3, 4), field(1, 1) + field(3, 4) + field(5, b"\0" * n)), 200 * MiB)
onnx_case("(.et) a node again", lambda n: et(META, *[field(1, 7) + field(2, b"n") + field(3, 4)] * (n // 10)), 100 * MiB)
onnx_case("(.et) a length of 2^63", lambda n: et(META, field(1, 1)) + varint(1 << 63), lifts=False)
onnx_case("(.et) empty messages", lambda n: et(META, field(1, 1) + field(3, 4)) + b"\0" * n, 200 * MiB)


# ---- platforms

PLATFORM = "topology show {}"
XML = b"<?xml version='1.0'?><!DOCTYPE platform SYSTEM 'https://simgrid.org/simgrid.dtd'><platform version='4.1'>"
F = 382 * MiB
ZONE = XML + b"<zone id='z' routing='%s'>"
HOST = b"<host id='h%d' speed='1Gf'/>"
text("platform: hosts", PLATFORM, F, ZONE % b"Floyd", lambda i: HOST % i, b"</zone></platform>")
text("platform: hosts, full", PLATFORM, 3 * MiB, ZONE % b"Full", lambda i: HOST % i, b"</zone></platform>")
text("platform: links", PLATFORM, F, ZONE % b"Full", lambda i: b"<link id='l%d' bandwidth='1GBps' latency='1us'/>" % i, b"</zone></platform>")
text("platform: zones", PLATFORM, F, XML + b"<zone id='z' routing='Full'>", lambda i: b"<zone id='z%d' routing='Full'/>" % i, b"</zone></platform>")
text("platform: deep", PLATFORM, F, XML, lambda i: b"<zone id='z%d' routing='Full'>" % i)
text("platform: entities", PLATFORM, F, b"<!DOCTYPE platform [<!ENTITY a 'aaaaaaaaaa'>", lambda i: b"<!ENTITY a%d '&a;&a;&a;'>" % i, b"]><platform version='4.1'>&a9;</platform>")
CLUSTER = b"<cluster id='c' prefix='h' suffix='' radical='%s' speed='1Gf' bw='1GBps' lat='1us' %s/></platform>"
text("platform: 10^9 hosts of a cluster", PLATFORM, 0, XML + CLUSTER % (b"0-999999999", b""), b"\n")
text("platform: a torus of 10^18", PLATFORM, 0, XML + CLUSTER % (b"0-999999", b"topology='TORUS' topo_parameters='1000000000,1000000000'"), b"\n")
text("platform: a fat tree of 10^9", PLATFORM, 0, XML + CLUSTER % (b"0-3", b"topology='FAT_TREE' topo_parameters='2;2,2;1,1000000000;1,1000000000'"), b"\n")
text("platform: a fat tree of 10^7 cables", PLATFORM, 0, XML + CLUSTER % (b"0-3", b"topology='FAT_TREE' topo_parameters='2;2,2;1,20000;1,1000'"), b"\n", lifts="platform")
text("platform: a dragonfly of 10^9", PLATFORM, 0, XML + CLUSTER % (b"0-3", b"topology='DRAGONFLY' topo_parameters='1000000000,3;1000000000,2;2,1;2'"), b"\n")
text("platform: a torus of dimensions", PLATFORM, MiB, XML + b"<cluster id='c' prefix='h' suffix='' radical='0-3' speed='1Gf' bw='1GBps' lat='1us' topology='TORUS' topo_parameters='4", b",1", b"'/></platform>")
text("platform: a prefix", PLATFORM, 3 * MiB, XML + b"<cluster id='c' suffix='' radical='0-65535' speed='1Gf' bw='1GBps' lat='1us' prefix='", b"h", b"'/></platform>")
text("platform: a radical", PLATFORM, F, XML + b"<cluster id='c' prefix='h' suffix='' speed='1Gf' bw='1GBps' lat='1us' radical='0", b",0-9", b"'/></platform>")
text("platform: routes", PLATFORM, F, ZONE % b"Full" + HOST % 0 + HOST % 1 + b"<link id='l' bandwidth='1GBps' latency='1us'/>",
     b"<route src='h0' dst='h1'><link_ctn id='l'/></route>", b"</zone></platform>")
text("platform: a route", PLATFORM, F, ZONE % b"Full" + HOST % 0 + HOST % 1 + b"<link id='l' bandwidth='1GBps' latency='1us'/><route src='h0' dst='h1'>",
     b"<link_ctn id='l'/>", b"</route></zone></platform>")
text("platform: properties", PLATFORM, F, ZONE % b"Full" + b"<host id='h' speed='1Gf'>", lambda i: b"<prop id='p%d' value='1'/>" % i, b"</host></zone></platform>")
text("platform: an attribute", PLATFORM, F, XML + b"<zone id='", b"a", b"'/></platform>")
text("platform: speeds", PLATFORM, F, XML + b"<zone id='z' routing='Full'><host id='h' speed='1Gf", b",1Gf", b"'/></zone></platform>")


# ---- plans, arguments, experiments, tables

text("plan: JSON", "simulate {}", J, b'{"foreline":"plan","version":1,"stages":[', b"[],", b"1]}")
text("arguments: words", "plan import {}.sh --model mlp", 15 * MiB, b"torchrun pretrain_gpt.py", b" --num-layers 4")
text("arguments: variables", "plan import {}.sh --model mlp", 15 * MiB, b"A=x\n", lambda i: b"A=$A$A\n", b"torchrun pretrain_gpt.py --num-layers $A\n")
text("arguments: nested", "plan import {}.sh --model mlp", 15 * MiB, b"torchrun pretrain_gpt.py --num-layers ", b"$(( ")
text("arguments: lists", "plan import {}.sh --model mlp", 15 * MiB, b"torchrun pretrain_gpt.py --moe-layer-freq ", b"[0]*1000000000+")
text("arguments: layout", "plan import {}.sh --model mlp", 15 * MiB, b"torchrun pretrain_gpt.py --pipeline-model-parallel-layout '", b"(", b"'\n")
text("arguments: YAML", "plan import {}.yml --model mlp", 15 * MiB, b"", lambda i: b"k%d: {a: 1}\n" % i)
text("arguments: TOML", "plan import {}.toml --model mlp", 15 * MiB, b"", lambda i: b"[a.b%d]\nx = 1\n" % i)
text("arguments: Python", "plan import {}.py --model mlp", 15 * MiB, b"", b"def f(): return ((((\n")
text("experiment: aliases", "run --config {} --dry-run", M, b"model: &a [x]\n", lambda i: b"k%d: *a\n" % i)
text("experiment: product", "run --config {} --dry-run", M, b"model: mlp\nplatform: laptop\nsweep:\n  plan.microbatches: [1", b", 1", b"]\n  plan.stages: [1, 2, 3, 4]\n")
text("experiment: cases", "run --config {} --dry-run", M, b"model: mlp\nplatform: laptop\ncases:\n", lambda i: b"- {name: a%d}\n" % i)
text("experiment: deep", "run --config {} --dry-run", M, b"model: ", b"[")
text("kernels: rows", "lab kernels {} --dtype bf16", 400 * MiB, b"gpu,M_tokens,N,K,time_ms\n" + b"A100,7,1024,2048,0.5\n" * 70000, lambda i: b"A100,%d,1024,2048,0.5\n" % (i + 1),
     lifts="size")
text("kernels: some rows", "lab kernels {} --dtype bf16", 30 * MiB, b"gpu,M_tokens,N,K,time_ms\n" + b"A100,7,1024,2048,0.5\n" * 70000, b"A100,1,1,1,1\n",
     lifts="size")
text("kernels: columns", "lab kernels {} --dtype bf16", 31 * MiB, b"gpu,M_tokens,N,K,time_ms", b",x", b"\n")
text("kernels: GPUs", "lab kernels {} --dtype bf16", 31 * MiB, b"gpu,M_tokens,N,K,time_ms\n", lambda i: b"G%d,512,1024,2048,0.5\n" % i)


# ---- the run

def is_sanitized(foreline):
    with open(foreline, "rb") as f:
        return b"__asan_init" in f.read()


def execute(words, out, err):
    """Status, CPU seconds and kilobytes of a command and of all that it waited for."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        for fd, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(words[0], words)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss


def judge(c, full, most_s, result):
    """What is wrong, a list; most_s 0: time and memory are those of sanitizers, and not looked at."""
    (name, command, size, lifts, _), (status, cpu_s, kilobytes, message) = c, result
    wrong = []
    if status not in (0, 1):
        wrong.append("status %d" % status)
    if most_s and cpu_s > most_s:
        wrong.append("%.2f s" % cpu_s)
    if most_s and kilobytes > MEMORY_KB:
        wrong.append("%d MB" % (kilobytes * 1024 // 10**6))
    if status == 1 and len(message.splitlines()) != 1:
        wrong.append("%d lines" % len(message.splitlines()))
    if full and lifts and "--limit %s=" % lifts not in message:
        wrong.append("does not name the limit " + lifts)
    if lifts is False and status != 1:
        wrong.append("was not refused")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("foreline")
    p.add_argument("--full", action="store_true")
    p.add_argument("--share", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=18)
    p.add_argument("--only", default="")
    p.add_argument("--cpu", type=float, default=CPU_S)
    p.add_argument("--keep")
    o = p.parse_args()
    foreline, sanitized, failed, total = os.path.abspath(o.foreline), is_sanitized(o.foreline), 0, 0.0
    room = shutil.disk_usage(o.keep and os.path.dirname(os.path.abspath(o.keep)) or tempfile.gettempdir()).free
    if o.full and room < 3 * GiB:
        print("skipped: %d MB are free in the temporary folder, files of up to 1.1 GB need 3.2 GB" % (room // 10**6))
        sys.exit(77)
    folder = os.path.abspath(o.keep) if o.keep else tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = os.environ["TMPDIR"] = folder
    drawn = random.Random(o.seed)
    lab = os.path.exists(os.path.join(os.path.dirname(foreline), "foreline-lab"))
    cases = [c for c in CASES if drawn.random() < o.share and re.search(o.only, c[0])
             and (lab or not c[1].startswith("lab "))]
    for k, c in enumerate(cases):
        name, command, size, lifts, make = c
        path = ("%d.any" % k if o.keep else "in.any") + re.search(r"\{\}(\S*)", command)[1]
        with open(path, "wb") as f:
            for part in make(random.Random("%d %s" % (o.seed, name)), size if o.full else size // SMALL):
                f.write(part)
        words = [foreline] + [path if w.startswith("{}") else w for w in command.split()]
        status, cpu_s, kilobytes = execute(words, "out", "err")
        message = open("err", errors="replace").read()
        wrong = judge(c, o.full, 0 if sanitized else o.cpu, (status, cpu_s, kilobytes, message))
        total += cpu_s
        failed += bool(wrong)
        print("%s%5.2f s %4d MB %s (%s, %d bytes): %s" % ("FAIL " + ", ".join(wrong) + ": " if wrong else "", cpu_s, kilobytes * 1024 // 10**6, name,
                                                         command, os.path.getsize(path), message.strip()[:300] or "read"), flush=True)
        if not o.keep:
            os.unlink(path)
    print("%d files, %d wrong, %.1f s of CPU" % (len(cases), failed, total))
    if not o.keep:
        os.chdir("/")
        shutil.rmtree(folder)
    sys.exit(failed > 0)


main()
