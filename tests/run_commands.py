#!/usr/bin/env python3
"""Runs every call of foreline that the manual shows and that page.sh does not run: each must exit with 0.

The calls of a page run in its order, in a folder of the page that holds the files of SETUP and PAGES. A name of a command in
prose ("`foreline plan`") stands for its help. INSTEAD says what is run for a call that has words to replace or that prose
shortens. ELSEWHERE lists what cannot run on every machine, why, and a command that says whether it can here.
A line of these tables that no page shows any more is a fault.

usage: run_commands.py FORELINE SOURCE_DIR [--list] [PAGE...]
"""
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

SETUP = """
foreline plan --model gpt-tiny:layers=2,hidden=32,tokens=32 --platform laptop --algorithm balanced --granularity layer \
    --stages 2 --replicas 2 --microbatches 4 -o plan.json
cp plan.json p.json && cp plan.json mine.json
foreline plan export plan.json --to megatron -o train.sh
foreline simulate plan.json -o predicted.json
foreline run plan.json --steps 3 -o measured.json && cp measured.json run.json
printf ' iteration %d/ 100 | elapsed time per iteration (ms): 1.5 | global batch size: 4 | lm loss: 1.2E+01 |\\n' 1 2 3 >train.log
"""

PAGES = {}

INSTEAD = {}

ELSEWHERE = {}


class Shell:
    """Runs commands in a folder with foreline in the PATH, and adds up what they took."""

    def __init__(self, foreline, source, scratch):
        programs = foreline.parent
        self.source, self.scratch = source, scratch
        self.environment = dict(
            os.environ, PATH=f"{programs}:/usr/bin:{os.environ['PATH']}", XDG_CACHE_HOME=f"{scratch}/cache", SOURCE=str(source),
            DOUBLE=f"{programs}/foreline-worker-double", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1")

    def run(self, command, folder, limit_s=300):
        """(status, the last lines printed, CPU seconds)"""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(self.scratch / "printed", "w+b") as printed:
            process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
            printed.seek(0)
            last = printed.read().decode(errors="replace").strip().split("\n")[-3:]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return status, "\n    ".join(last), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def runnable(how, text):
    """The command to run for what a page shows."""
    if text in INSTEAD:
        return INSTEAD[text]
    words = split(text[CALL.search(text).end():])
    if how == "prose" and all(re.fullmatch("[a-z]+", word) for word in words) and words[-1] != "list":
        return f"{text} --help"
    return re.sub(r"foreline calibrate(?! --(from|help))", "foreline calibrate --force --repeats 1", text)


def main():
    foreline, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    chosen = [word for word in sys.argv[3:] if word != "--list"]
    listing = "--list" in sys.argv
    stale = {*PAGES, *INSTEAD, *ELSEWHERE}
    counts, faults, total, known = dict.fromkeys(("page.sh", "run", "elsewhere"), 0), 0, 0.0, {}
    with tempfile.TemporaryDirectory() as scratch:
        shell = Shell(foreline, source, pathlib.Path(scratch))
        base = shell.scratch / "base"
        base.mkdir()
        status, last, took = (0, "", 0) if listing else shell.run("set -e\n" + SETUP, base)
        total += took
        if status:
            sys.exit(f"the files that commands name: {last}")
        for path in pages(source):
            name = str(path.relative_to(source))
            if chosen and name not in chosen:
                continue
            folder = shell.scratch / name
            for number, how, text in texts(path):
                calls = len(CALL.findall(text))
                if not calls:
                    continue
                stale -= {name, text}
                if how == "run":
                    counts["page.sh"] += calls
                    continue
                reason, can = ELSEWHERE.get(text, ("", "true"))
                command = runnable(how, text)
                print(f"{name}:{number}: {command}", flush=True) if listing else None
                if listing:
                    continue
                if not folder.exists():
                    shutil.copytree(base, folder)
                    shell.run(PAGES.get(name, "true"), folder)
                if shell.run(can, folder)[0]:
                    counts["elsewhere"] += calls
                    print(f"{name}:{number}: not run: {text}: {reason}")
                    continue
                status, last, took = known.get(command) or shell.run(command, folder)
                if command.endswith(" --help"):
                    known[command] = 0, "", 0
                counts["run"] += calls
                total += took
                print(f"   {took:.1f} s {name}:{number}: {command}", flush=True)
                if status:
                    faults += 1
                    print(f"FAULT {name}:{number}: {command}: exit status {status}:\n    {last}", flush=True)
    if not chosen:
        for entry in sorted(stale):
            faults += 1
            print(f"no page shows: {entry}")
    print(f"{counts}, {faults} faults, {total:.0f} CPU s")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
