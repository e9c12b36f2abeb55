#!/usr/bin/env python3
"""Ranks that are started by hand with different settings are refused, and the setting is named.

Usage: ranks_agree.py DIRECTORY_OF_BINARIES [--pairs N] [--seed S]

Draws N pairs of settings that differ, runs 2 or 4 ranks with --launcher env of which one has the other
setting, and reads what rank 0 says. Then pairs that are the same in another spelling, which must train
the same parameters."""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = "gpt-tiny:layers={layers},hidden=16,heads=2,tokens=16{dtype}"
# Of a plan: its arguments, and the row that names another one.
PLAN = {
    "optimizer": (["--optimizer", "sgd:momentum=0.9"], ["--optimizer", "sgd:momentum=0.8"]),
    "seed": (["--seed", "1"], ["--seed", "2"]),
    "microbatches": (["--microbatches", "4"], ["--microbatches", "8"]),
    "microbatch size": (["--microbatch-size", "1"], ["--microbatch-size", "2"]),
    "stages": (["--stages", "1", "--replicas", "2"], ["--stages", "2", "--replicas", "1"]),
    "model": ([], []),
    "data type": ([], []),
    "schedule": (["--schedule", "1f1b"], ["--schedule", "gpipe"]),
    "plan": (["--recompute", "none"], ["--recompute", "full"]),
}
NAMED = ["--learning-rate", "--learning-rate-policy", "--text", "--steps", "--warmup", "--compute", "--checkpoint",
         "--checkpoint-every", "--resume", "--transport", "--collective", "--forward-only"]


def fail(text):
    sys.exit("FAIL: " + text)


class Ranks:
    def __init__(self, binaries, seed):
        self.tool = os.path.join(os.path.abspath(binaries), "foreline")
        self.mpi = os.path.exists(os.path.join(os.path.abspath(binaries), "foreline-worker-mpi"))
        self.draw = random.Random(seed)
        self.port = 10000 + os.getpid() % 20000
        self.plans = {}

    def plan(self, ranks, *options, layers=2, dtype=""):
        key = (ranks, options, layers, dtype)
        if key not in self.plans:
            path = f"plan-{len(self.plans)}.json"
            given = list(options)
            for name, value in (("--microbatches", "4"), ("--stages", "2"), ("--replicas", str(ranks // 2))):
                if name not in given:
                    given += [name, value]
            if ranks == 4 and "--stages" in options:
                given[given.index("--replicas") + 1] = "4" if "1" == given[given.index("--stages") + 1] else "2"
            subprocess.run([self.tool, "plan", "--algorithm", "balanced", "--model", MODEL.format(layers=layers, dtype=dtype),
                            "--platform", "laptop", *given, "-o", path], check=True, capture_output=True)
            self.plans[key] = path
        return self.plans[key]

    def start(self, ranks, commands):
        """commands[r]: plan and options of rank r. Returns exit statuses, errors, outputs and seconds."""
        self.port = 10000 + (self.port - 9999) % 20000
        running, begin = [], time.monotonic()
        for r in self.draw.sample(range(ranks), ranks):
            environment = dict(os.environ, RANK=str(r), WORLD_SIZE=str(ranks), LOCAL_RANK=str(r), MASTER_ADDR="localhost",
                               MASTER_PORT=str(self.port), TMPDIR=os.path.join(os.getcwd(), "tmp"))
            out, err = open(f"{r}.out", "w"), open(f"{r}.err", "w")
            running.append((r, subprocess.Popen([self.tool, "run", *commands[r], "--launcher", "env", "--timeout", "8s"],
                                                env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL)))
        statuses = {r: p.wait(120) for r, p in running}
        seconds = time.monotonic() - begin
        return ([statuses[r] for r in range(ranks)], [open(f"{r}.err").read() for r in range(ranks)],
                [open(f"{r}.out").read() for r in range(ranks)], seconds)

    def checkpoint(self, ranks):
        """Two folders of the same training, at different steps."""
        folders = []
        for steps in (2, 3):
            folder = f"kept-{ranks}-{steps}"
            if not os.path.exists(folder):
                subprocess.run([self.tool, "run", self.plan(ranks), "--steps", str(steps), "--warmup", "0", "--checkpoint", folder],
                               check=True, capture_output=True, env=dict(os.environ, TMPDIR=os.path.join(os.getcwd(), "tmp")))
            folders.append(folder)
        return folders

    def pair(self, name, ranks):
        """Two lists of arguments of `run` that differ in the setting `name`."""
        d, plan = self.draw, self.plan(ranks)
        number = lambda: f"{d.uniform(1e-4, 1e-1):.3g}"
        if name in PLAN:
            a, b = PLAN[name]
            if name == "model":
                return [self.plan(ranks)], [self.plan(ranks, layers=3)]
            if name == "data type":
                return [self.plan(ranks)], [self.plan(ranks, dtype=",dtype=bf16")]
            return [self.plan(ranks, *a)], [self.plan(ranks, *b)]
        values = {
            "--learning-rate": lambda: [["--learning-rate", number()] for _ in range(2)],
            "--learning-rate-policy": lambda: d.sample(
                [[], ["--learning-rate-policy", "step"], ["--learning-rate-policy", f"step:factor={number()}"],
                 ["--learning-rate-policy", "exponential"], ["--learning-rate-policy", "polynomial:epochs=4"]], 2),
            "--text": lambda: d.sample([[], ["--text", "one.txt"], ["--text", "two.txt"]], 2),
            "--steps": lambda: [["--steps", str(n)] for n in d.sample(range(1, 20), 2)],
            "--warmup": lambda: [["--warmup", str(n)] for n in d.sample(range(0, 5), 2)],
            "--compute": lambda: [["--compute", "real"], ["--compute", "paced"]],
            "--checkpoint": lambda: d.sample([[], ["--checkpoint", "here"], ["--checkpoint", "there"]], 2),
            "--checkpoint-every": lambda: [["--checkpoint", "here", "--checkpoint-every", str(n)] for n in d.sample(range(0, 9), 2)],
            "--resume": lambda: d.sample([[]] + [["--resume", f] for f in self.checkpoint(ranks)], 2),
            "--transport": lambda: [[], ["--transport", "mpi"]],
            "--collective": lambda: d.sample([["--collective", "ring"], ["--collective", "tree"]], 2),
            "--forward-only": lambda: [[], ["--forward-only"]],
        }
        a, b = values[name]()
        return [plan, *a], [plan, *b]

    def differs(self, name, ranks):
        a, b = self.pair(name, ranks)
        odd = self.draw.randrange(ranks)
        if name == "--transport":  # without mpirun no rank 0 gets as far over MPI
            odd = max(odd, 1)
        elif self.draw.random() < 0.5:
            a, b = b, a
        status, error, out, seconds = self.start(ranks, [b if r == odd else a for r in range(ranks)])
        said = f"{name} on rank {odd} of {ranks}: {' '.join(a)} | {' '.join(b)}: exits {status}, {seconds:.1f} s, {error}"
        if any(s != 1 for s in status) or "".join(out):
            fail(said)
        if seconds > 18:  # who waits for a rank that does not come gives up after 20 s and --timeout
            fail("late: " + said)
        found = re.fullmatch(r"foreline run: rank (\d+) \(\S+ on \S+\) has (.*), but rank 0 has (.*)\n", error[0])
        if not found or int(found[1]) != (odd or 1) or not found[2].startswith(name + " ") or found[2] == f"{name} {found[3]}":
            fail(said)
        for folder in ("here", "there"):
            shutil.rmtree(folder, ignore_errors=True)
        return found[0].strip()

    def same(self, ranks):
        plan = self.plan(ranks)
        shutil.copy(plan, "copy.json")
        os.makedirs("below", exist_ok=True)
        shutil.copy("one.txt", "below/copy.txt")
        if not os.path.islink("link"):
            os.symlink("here", "link")
        shutil.rmtree("here", ignore_errors=True)
        os.mkdir("here")
        a = [plan, "--learning-rate", "0.01", "--learning-rate-policy", "step:epoch=2", "--text", "one.txt", "--checkpoint", "here",
             "--steps", "3"]
        b = ["copy.json", "--learning-rate", "1e-2", "--learning-rate-policy", "step:every=30.0,epoch=2,factor=0.10", "--text",
             os.path.abspath("below/copy.txt"), "--checkpoint", os.path.abspath("link"), "--steps", "3", "--collective", "ring",
             "--warmup", "2", "--compute", "real", "--log", "log"]
        status, error, out, _ = self.start(ranks, [(a, b)[r % 2] for r in range(ranks)])
        if any(status) or "loss" not in out[0]:
            fail(f"the same in another spelling, {ranks} ranks: exits {status}, {error}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("binaries")
    p.add_argument("--pairs", type=int, default=6)
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    ranks = Ranks(o.binaries, o.seed)
    for variable in ("RANK", "WORLD_SIZE", "FORELINE_WORKER", "FORELINE_TOKEN"):
        os.environ.pop(variable, None)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        os.mkdir("tmp")
        for name, text in (("one.txt", "the quick brown fox " * 20), ("two.txt", "the quick brown fax " * 20)):
            with open(name, "w") as f:
                f.write(text)
        names = [n for n in NAMED + list(PLAN) if ranks.mpi or n != "--transport"]
        order = []
        while len(order) < o.pairs:
            order += ranks.draw.sample(names, len(names))
        for k, name in enumerate(order[:o.pairs]):
            print(ranks.differs(name, (2, 4)[k % 2]), flush=True)
        for n in (2, 4)[:1 + (o.pairs > 6)]:
            ranks.same(n)
        left = [f for f in os.listdir("tmp") if not f.startswith("ompi.")]  # Open MPI's own, of a rank without mpirun
        if left:
            fail(f"left behind: {left}")
        os.chdir("/")
    print(f"{o.pairs} pairs refused, the same in another spelling accepted")


main()
