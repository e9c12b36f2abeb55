"""The commands that are tortured, and what they leave when all is well."""
import hashlib
import json
import os
import shutil
import sqlite3
import struct
import sys
import tempfile

PLATFORM = """<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Dijkstra"><host id="left" speed="1Gf"/><host id="right" speed="1Gf"/>
<router id="s"/><link id="a" bandwidth="100Mbps" latency="100us" sharing_policy="SPLITDUPLEX"/>
<link id="b" bandwidth="100Mbps" latency="100us" sharing_policy="SPLITDUPLEX"/>
<route src="left" dst="s"><link_ctn id="a" direction="UP"/></route>
<route src="right" dst="s"><link_ctn id="b" direction="UP"/></route></zone></platform>
"""
MODEL = "gpt-tiny:layers=2,hidden=32,heads=2,tokens=32"
SWEEP = "model: mlp\nplatform: laptop\nplan: {algorithm: balanced, stages: 2, microbatches: [2, 4, 8, 16]}\n"
STEPS = ["--steps", "40"]
RUN = ["--warmup", "1", "--timeout", "3s", "-o", "out/m.json", "--trace", "out/t.json"]
KEEP = ["--checkpoint", "out/c", "--checkpoint-every", "10"]

ALL = {
    "tcp": ["run", "p.json"] + STEPS + RUN + KEEP,
    "mpi": ["run", "p.json", "--transport", "mpi"] + STEPS + RUN + KEEP,
    "local": ["run", "p.json", "--transport", "local"] + STEPS + RUN + KEEP,
    "nccl": ["run", "p.json", "--device", "cuda", "--transport", "nccl", "--steps", "11"] + RUN + KEEP,
    "netns": ["emulate", "--engine", "netns", "q.json", "--dilate", "auto", "--steps", "3", "--warmup", "0",
              "-o", "out/m.json", "--trace", "out/t.json"],
    "netns_mpi": ["emulate", "--engine", "netns", "q.json", "--dilate", "auto", "--transport", "mpi", "--steps", "3",
                  "--warmup", "0", "-o", "out/m.json"],
    "netns_command": ["emulate", "--platform", "pair.xml", "--dilate", "4", "--", "sh", "-c",
                      "sleep 0.5; echo $RANK $WORLD_SIZE"],
    "smpi": ["emulate", "--engine", "smpi", "p.json", "-o", "out/m.json"],
    "simulate": ["simulate", "p.json", "-o", "out/m.json", "--trace", "out/t.json"],
    "sweep": ["sweep", "sweep.yml", "-o", "out/s.db"],
}
IN_ONE = {"local"}  # all ranks are one


def environment(name, binaries):
    """What this command needs in its environment."""
    e = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C", "OMPI_ALLOW_RUN_AS_ROOT": "1",
         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    if name == "nccl":
        e["FORELINE_WORKER"] = os.path.join(binaries, "foreline-worker-double")
    return e


def is_rank_file(data, manifest):
    """Head, table of arrays, SHA-256 of both (which the manifest has), arrays: exec/checkpoint.h."""
    head, row, digest = 120, 48, 32
    rows = int.from_bytes(data[20:24], sys.byteorder)
    at = head + row * rows
    said = data[at:at + digest]
    if hashlib.sha256(data[:at]).digest() != said or said.hex() not in manifest:
        return False
    at += digest
    for k in range(rows):
        size, = struct.unpack_from("Q", data, head + row * k + 8)
        if hashlib.sha256(data[at:at + size]).digest() != data[head + row * k + 16:head + row * (k + 1)]:
            return False
        at += size
    return at == len(data)


def checkpoint_faults(folder):
    """Every checkpoint under its name has all the files that its manifest names, byte for byte."""
    faults = []
    for step in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, step)
        if not step.startswith("step-"):
            faults.append(f"left in the folder of checkpoints: {step}")
            continue
        manifest = os.path.join(path, "manifest.json")
        if not os.path.exists(manifest):
            faults.append(f"an incomplete checkpoint: {step} with {sorted(os.listdir(path))}")
            continue
        with open(manifest) as f:
            text = f.read()
        for name in sorted(os.listdir(path)):
            if name == "manifest.json":
                continue
            with open(os.path.join(path, name), "rb") as f:
                if not is_rank_file(f.read(), text):
                    faults.append(f"{step}/{name} is not what the manifest says")
        json.loads(text)
    return faults


def database_faults(path):
    """A copy is looked at, for SQLite writes even when it reads."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(path + suffix):
                shutil.copy(path + suffix, os.path.join(folder, "s.db" + suffix))
        try:
            said = sqlite3.connect(os.path.join(folder, "s.db")).execute("pragma quick_check").fetchone()[0]
        except sqlite3.Error as problem:
            said = str(problem)
    return [] if said == "ok" else [f"s.db: {said}"]


def output_faults(folder, succeeded, wanted, killed):
    """Outputs are whole or absent; all there after success; nothing beside them unless the command was killed."""
    faults = checkpoint_faults(os.path.join(folder, "c"))
    if killed:
        faults = [f for f in faults if "incomplete" not in f and "left in" not in f]
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name in ("m.json", "t.json"):
            try:
                with open(path) as f:
                    json.load(f)
            except ValueError as problem:
                faults.append(f"{name} is not whole: {problem}")
        elif name == "s.db":
            faults += database_faults(path)
        elif name in ("s.db-wal", "s.db-shm") and os.path.exists(os.path.join(folder, "s.db")):
            pass  # SQLite's own: what is in there belongs to the database
        elif name != "c" and not (killed and name.split(".")[0] in ("m", "t", "s")):
            faults.append(f"left beside the outputs: {name}")
    if succeeded:
        faults += [f"{name} is missing after success" for name in wanted if not os.path.exists(os.path.join(folder, name))]
    return faults
