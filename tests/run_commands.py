#!/usr/bin/env python3
"""Runs every call of foreline that the manual shows and that page.sh does not run: each must exit with 0.

The calls of a page run in its order, in a folder of the page that holds the files of SETUP and PAGES. A name of a command in
prose ("`foreline plan`") stands for its help. INSTEAD says what is run for a call that has words to replace or that prose
shortens. ELSEWHERE lists what cannot run on every machine, why, and a command that says whether it can here.
A line of these tables that no page shows any more is a fault.

--short leaves out what takes seconds. --list runs nothing, and counts the calls of each page: run by page.sh, run here as
they are or with other words, run here as help, listed in ELSEWHERE.

usage: run_commands.py FORELINE SOURCE_DIR [--short | --list] [PAGE...]
"""
import collections
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

from shown_commands import CALL, pages, split, texts

# Files that several pages name: small ones that the program made, and inputs of other tests.
SETUP = r"""
tiny="--model gpt-tiny:layers=2,hidden=32,tokens=32 --algorithm balanced --granularity layer --microbatches 4"
foreline plan $tiny --platform laptop --stages 2 --replicas 2 -o plan.json
cp plan.json p.json && cp plan.json mine.json
foreline plan export plan.json --to megatron -o train.sh
foreline simulate plan.json -o predicted.json
foreline run plan.json --steps 3 -o measured.json && foreline run mine.json --steps 3 -o run.json
printf ' iteration %d/ 100 | elapsed time per iteration (ms): 1.5 | global batch size: 4 | lm loss: 1.2E+01 |\n' 1 2 3 >train.log
printf 'model: gpt-tiny\nplatform: laptop\nplan: {algorithm: balanced, microbatches: 4}\nplan.stages: [1, 2]\n' >exp.yml
foreline sweep exp.yml && cp exp.db nic.db
printf 'size(B),time(us)\n1048576,40\n16777216,120\n' >log.txt
foreline topology generate rail:nodes=2,gpus=8,type=H100 -o two.xml
foreline topology generate leaf-spine:nodes=4,gpus=1,nic=100Mbps -o pair.xml
for job in A B; do foreline plan $tiny --platform pair.xml --stages 1 --replicas 2 -o $job.json; done
printf 'from,to,rate\nn0g0,n1g0,10Mbps\n' >traffic.csv
cp $SOURCE/tests/fuzz/corpus/runs/layers.json .
foreline measurement import layers.json --profile ranges --microbatch-size 32 -o net.json
cp $SOURCE/tests/fuzz/corpus/onnx/attention.onnx net.onnx
cp -r $SOURCE/examples .
sed -n '/^    > model,platform/,/^    > END/{/END/d;s/^    > //p}' $SOURCE/docs/reference/calibrate.md >runs.csv
"""

# What else a page needs, or other files of the same names.
PAGES = {
    "llms.txt": "sed -n '/^    model:/,/^$/s/^    //p' $SOURCE/llms.txt >nvlink.yml",
    "docs/how-to/compare-networks.md": "foreline plan --model gpt-tiny --platform leaf-spine:nodes=4,gpus=1,rack=2,spines=4 "
                                       "--algorithm balanced --stages 1 --replicas 4 -o plan.json",
    "docs/how-to/validate.md":
        "foreline topology generate rail:nodes=1,gpus=4,type=H100 -o cluster.xml; "
        "for r in 0 1; do sed 's/\"rank\":0/\"rank\":'$r/ $SOURCE/tests/cli/measurement-import/input/rank0.json >rank$r.json; done",
    "docs/plots/README.md": "$SOURCE/docs/plots/make.sh $(dirname $(command -v foreline)) --inputs",
    "docs/reference/calibrate.md": "sed s/A100/H100/ $SOURCE/tests/cli/lab-kernels/input/products.csv >products.csv",
    "docs/reference/campaign.md": "foreline campaign plan.json --tokens 1T --over size >size.tsv",
    "docs/reference/cuda.md": "mkdir -p build/cuda12/bin && ln -s $DOUBLE build/cuda12/bin/foreline-worker-cuda",
    "docs/reference/kernels.md":
        "mkdir h200; sed s/A100/H200/ $SOURCE/tests/cli/lab-kernels/input/products.csv >h200/products.csv; "
        "cp log.txt h200/all-gather-2.csv; awk 'BEGIN { print \"gpu,tokens,heads,head_dim,time_us\"; for (t = 512; t < 2e4; t *= 2) "
        "for (h = 4; h < 99; h *= 2) print \"H200,\" t \",\" h \",128,\" 5 + t * t * h * 64e-8 }' >h200/attention.csv",
    "docs/reference/partitioners.md":
        "foreline plan --model unet --platform two-racks --batch 16 --finalists 1 --candidates FILE -o unet.json",
    "docs/reference/plots.md":
        "foreline plan --model gpt2-small --platform two-racks --algorithm balanced --stages 16 --microbatches 16 -o wide.json; "
        "foreline simulate wide.json --trace predicted.json; foreline simulate wide.json --jitter 3% --trace measured.json",
}

# Words that stand for something, in any call.
WORDS = {"DIR": "dir", "LOG": "train.log", "MODEL": "gpt-tiny", "NAME.db": "exp.db", "PLAN": "plan.json", "PLATFORM": "two-racks",
         "SPEC": "rail:nodes=2,type=H100", "TRACE...": "layers.json"}

BALANCED = "foreline plan --model gpt-tiny --platform laptop --stages 2"
INSTEAD = {
    'eval "$(foreline completion bash)"            # or zsh, after compinit': 'all=$(foreline completion bash) && eval "$all"',
    "foreline calibrate --from": "foreline calibrate --from runs.csv -o fitted.xml",
    "foreline compare A B": "foreline compare plan.json mine.json --engine analytic",
    "foreline completion fish | source": "fish -c 'foreline completion fish | source'",
    "foreline emulate --engine netns": "foreline emulate --engine netns plan.json --dilate auto",
    "foreline emulate --engine netns A.json B.json --place spread":
        "foreline emulate --engine netns A.json B.json --place spread --repeats 1",
    "foreline emulate --platform two-racks -- true": "! foreline emulate --platform two-racks -- true",  # the page says so
    "foreline explore --port 8080 plan.json cluster.xml":
        "timeout --preserve-status -s INT 2 foreline explore --no-browser plan.json two.xml",
    "foreline model import FILE -o model.json": "foreline model import net.onnx:batch=8,seq=128 -o model.json",
    "foreline plan --algorithm NAME": f"{BALANCED} --algorithm balanced",
    "foreline plan --framework megatron": f"{BALANCED} --framework megatron",
    "foreline plan --objective NAME": "foreline plan --objective pippy --model gpt2-small --algorithm sizesplit --stages 2",
    "foreline run --compute real": "foreline run plan.json --compute real",
    "foreline run --device cuda": "FORELINE_WORKER=$DOUBLE foreline run plan.json --device cuda",
    "foreline run p.json --device cuda": "FORELINE_WORKER=$DOUBLE foreline run p.json --device cuda",
    "foreline run plan.json --launcher none": """foreline run plan.json --launcher none >said 2>&1 &
        timeout 60 sh -c "until grep -q ' FORELINE_LAUNCHER=' said; do sleep 0.1; done"; line=$(sed -n 's/^  FORELINE_L/FORELINE_L/p' said)
        for r in 0 1 2 3; do env RANK=$r WORLD_SIZE=4 $line & done; wait %1""",
    "foreline run plan.json --transport mpi --hosts FILE --address head":
        "echo localhost slots=4 >hosts && foreline run plan.json --transport mpi --hosts hosts --address 127.0.0.1",
    "foreline simulate A.json B.json [--start B=3s] [--place packed|spread|search] [--background FILE]":
        "foreline simulate A.json B.json --start B=3ms --place search --background traffic.csv",
    "foreline sweep --export tsv": "foreline sweep exp.yml --export tsv",
    "foreline validate FILE.yml -o DIR": "sed '1i engine: [analytic, tcp]' exp.yml >v.yml && foreline validate v.yml -o dir",
}

# (reason, whether it can run here)
DOUBLE = "no GPU, and no substitute for one in this build", "test -x $DOUBLE"
NETNS = "no network namespaces here", "foreline emulate --check"
SLURM = "a Slurm cluster; exec.launch_slurm runs such commands where Slurm is installed", "false"
ELSEWHERE = {
    "FORELINE_WORKER=build/cuda12/bin/foreline-worker-cuda foreline run p.json --device cuda": DOUBLE,
    "foreline calibrate --device cuda --ranks 8 --model gpt2-small:dtype=bf16,flash=1 --batch 8 -o gpus.xml --table":
        ("8 GPUs; double.calibrate measures the substitute", "false"),
    "foreline capture -o gpt64 --world-size 64 -- python3 examples/capture/train_gpt.py --width 2048 --heads 16  "
    "--layers 24 --vocab 50304 --tokens 2048 --batch 8": ("no PyTorch", "python3 -c 'import torch'"),
    "foreline capture -o alone --world-size 1 -- python3 examples/capture/train_gpt.py": ("no PyTorch", "python3 -c 'import torch'"),
    "foreline completion fish | source": ("no fish", "command -v fish"),
    "foreline emulate --engine netns": NETNS,
    "foreline emulate --engine netns A.json B.json --place spread": NETNS,
    "foreline emulate --check": NETNS,
    "foreline emulate --platform pair.xml -- sh -c 'hostname; echo $RANK of $WORLD_SIZE'": NETNS,
    "foreline emulate --platform two-racks -- true": NETNS,
    "foreline emulate plan.json --engine netns --dilate auto": NETNS,
    "foreline plan --model alone/model.json --platform rail:nodes=2,type=H100 --batch 256": ("no PyTorch", "test -f alone/model.json"),
    "foreline run --device cuda": DOUBLE,
    "foreline run p.json --device cuda": DOUBLE,
    "foreline run plan.json --hosts n1:2,n2:2 --address head": ("two hosts with sshd; exec.launch_ssh makes them", "false"),
    "foreline run plan.json --launcher \"srun -N2 -n4\" --address head": SLURM,
    "foreline run plan.json --transport mpi --hosts FILE --address head": ("no MPI", "command -v mpirun"),
    "foreline run plan.json --transport mpi --launcher \"srun --mpi=pmix -n 4\"": SLURM,
    "foreline simulate gpt64 --platform rail:nodes=8,type=H100,nic=400Gbps --engine analytic": ("no PyTorch", "test -d gpt64"),
    "mpirun -np 4 foreline run plan.json --launcher env": ("no MPI", "command -v mpirun"),
    "nsys profile -t cuda,nvtx -o x foreline run p.json --device cuda --trace t.json":
        ("Nsight Systems and GPUs; double.ranges reads the ranges that it would", "false"),
    "sbatch --array=1-64 --wrap 'foreline sweep exp.yml --shard $SLURM_ARRAY_TASK_ID/64'": SLURM,
    "srun -K foreline run plan.json --device cuda --launcher env": SLURM,
    "srun -n 64 foreline sweep exp.yml && foreline sweep exp.yml": SLURM,
    "srun foreline run plan.json --launcher env": SLURM,
    "srun foreline run plan.json --launcher env -o measured.json": SLURM,
    "torchrun --no_python --nproc_per_node 4 foreline run plan.json --launcher env":
        ("no torchrun that starts programs", "torchrun --no_python --nproc_per_node 1 true"),
}


SLOW = "70b|calibrate|capture|--device|emulate|inject|netns|nvlink|torchrun|validate"


class Shell:
    """Runs commands in a folder, with foreline in the PATH."""

    def __init__(self, foreline, source, scratch):
        self.scratch, programs = scratch, foreline.parent
        self.environment = dict(
            os.environ, PATH=f"{programs}:/usr/bin:{os.environ['PATH']}", XDG_CACHE_HOME=f"{scratch}/cache", SOURCE=str(source),
            DOUBLE=f"{programs}/foreline-worker-double", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1")

    def run(self, command, folder, limit_s=300):
        """None, or how it failed: the status and the last lines printed."""
        with open(self.scratch / "printed", "w+b") as printed:
            process = subprocess.Popen(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
            printed.seek(0)
            last = printed.read().decode(errors="replace").strip().split("\n")[-3:]
        return None if status == 0 else "\n    ".join((f"exit status {status}", *last))

    @staticmethod
    def seconds():
        """CPU seconds of all commands so far."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def runnable(how, text):
    """The command to run for what a page shows."""
    if text in INSTEAD:
        return INSTEAD[text]
    words = split(text[CALL.search(text).end():])
    if how == "prose" and all(re.fullmatch("[a-z]+", word) for word in words) and words[-1] != "list":
        return f"{text} --help"
    text = re.sub(r"(?<![\w$])(%s)(?!\w)" % "|".join(map(re.escape, WORDS)), lambda word: WORDS[word[0]], text)
    return re.sub(r"foreline calibrate(?! --(from|help))", "foreline calibrate --force --repeats 1", text)


def report(shown):
    """Counts of each page, and of all."""
    kinds = "page.sh", "run", "help", "listed"
    pages_of, everything = collections.defaultdict(collections.Counter), collections.Counter()
    for page, _, text, command in shown:
        kind = "page.sh" if command is None else "listed" if text in ELSEWHERE else \
            "help" if command.endswith(" --help") else "run"
        for counter in pages_of[page], everything:
            counter[kind] += len(CALL.findall(text))
    print("\t".join(("shown", *kinds, "page")))
    for page, counter in (*pages_of.items(), ("all", everything)):
        print("\t".join(map(str, (sum(counter.values()), *(counter[kind] for kind in kinds), page))))


def run_all(shell, shown, short):
    """The number of faults."""
    base, done, helped, faults = shell.scratch / "base", 0, set(), 0
    base.mkdir()
    fault = shell.run(f"set -e\n{SETUP}", base)
    if fault:
        print(f"SETUP: {fault}")
        return 1
    for page, number, text, command in shown:
        if command is None or command in helped or short and re.search(SLOW, command):
            continue
        folder = shell.scratch / page
        if not folder.exists():
            shutil.copytree(base, folder)
            fault = shell.run(f"set -e; {PAGES.get(page, '')}", folder)
            if fault:
                print(f"PAGES, {page}: {fault}")
                faults += 1
        reason, can = ELSEWHERE.get(text, ("", "true"))
        if shell.run(can, folder) is not None:
            print(f"{page}:{number}: not run: {text}: {reason}")
            continue
        before, fault, done = shell.seconds(), shell.run(command, folder), done + 1
        helped.update([command] if command.endswith(" --help") else [])
        if fault or shell.seconds() - before >= 1:
            print(f"{page}:{number}: {command}: {fault or f'{shell.seconds() - before:.0f} CPU s'}", flush=True)
        faults += fault is not None
    print(f"{done} commands run, {faults} faults, {shell.seconds():.0f} CPU s")
    return faults


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    foreline, source, chosen = pathlib.Path(words[0]).resolve(), pathlib.Path(words[1]).resolve(), words[2:]
    shown = []
    for path in pages(source):
        page = str(path.relative_to(source))
        by_page = page == "README.md" or page.startswith("docs/")  # page.sh runs these alone
        shown += [(page, number, text, None if by_page and how == "run" else runnable(how, text))
                  for number, how, text in texts(path) if CALL.search(text)]
    stale = {*PAGES, *INSTEAD, *ELSEWHERE}.difference(*((page, text) for page, _, text, _ in shown))
    print("".join(f"no page shows: {entry}\n" for entry in sorted(stale)), end="")
    shown = [row for row in shown if not chosen or row[0] in chosen]
    if "--list" in sys.argv:
        sys.exit(report(shown))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(run_all(Shell(foreline, source, pathlib.Path(scratch)), shown, "--short" in sys.argv) > 0 or bool(stale))


if __name__ == "__main__":
    main()
