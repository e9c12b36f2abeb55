#!/usr/bin/env python3
"""Nothing of the user's is changed or removed in the folders where foreline puts temporary files.

Usage: safe_ownership.py FORELINE SOURCE [--seed N] [--each N]

Fills $TMPDIR, $XDG_RUNTIME_DIR and /tmp with files and folders of innocent and hostile names, runs
the commands, and compares everything after each. Then kills runs and checks that what they leave
goes. /tmp is a new one in a mount namespace where this machine allows that; else it is left out."""
import argparse
import fcntl
import hashlib
import os
import random
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time

MARKER = ".foreline-owner"
INSIDE = "FORELINE_OWNERSHIP_INSIDE"


def fail(text):
    print("FAIL:", text)
    sys.exit(1)


def enter_namespace(arguments):
    """Start again with a /tmp of our own; the source tree, which may lie in /tmp, is at /mnt then."""
    script = 'mount --bind "$1" /mnt && mount -t tmpfs none /tmp && shift && exec "$@"'
    tool = os.path.join("/mnt", os.path.relpath(os.path.abspath(arguments.foreline), arguments.source))
    command = ["unshare", "-m", "sh", "-c", script, "sh", arguments.source, sys.executable,
               "/mnt/tests/safe_ownership.py", tool, "/mnt", "--seed", str(arguments.seed), "--each", str(arguments.each)]
    probe = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$1" /mnt && mount -t tmpfs none /tmp', "sh",
                            arguments.source], capture_output=True)
    if ".." in tool or probe.returncode:
        print("without /tmp: no mount namespaces here")
        return
    sys.exit(subprocess.run(command, env=dict(os.environ, **{INSIDE: "1"})).returncode)


# ---- what lies there


def random_name(rng, n):
    return "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(n))


def name_of(rng):
    return rng.choice([
        lambda: "foreline-" + rng.choice(["master", "main", "ck", "0", "data", "worker", "cache-0", str(os.getuid())]),
        lambda: "foreline-" + random_name(rng, 6),
        lambda: "foreline-tmp-" + random_name(rng, 6),
        lambda: "foreline-tmp-" + random_name(rng, rng.choice([1, 5, 7, 30])),
        lambda: "foreline-tmp-my_dir",
        lambda: "foreline-tmp-" + random_name(rng, 5) + "\n",
        lambda: "FORELINE-tmp-" + random_name(rng, 6),
        lambda: ".foreline-" + random_name(rng, 6),
        lambda: "foreline",
        lambda: random_name(rng, 8),
    ])() + rng.choice(["", "", "", "-" + random_name(rng, 3)])


def start_of(pid):
    return open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[19]


def marker_text(rng, folder):
    """What a marker of ours says, with one thing wrong or not ours to judge."""
    boot = hashlib.sha256(open("/proc/sys/kernel/random/boot_id", "rb").read()).digest()[:8]
    field = {"inode": os.stat(folder).st_ino, "uid": os.getuid(), "boot": "%x" % int.from_bytes(boot, sys.byteorder),
             "space": os.stat("/proc/self/ns/pid").st_ino, "pid": 2 ** 22 - 1, "start": 12345, "locked": 0}
    wrong = rng.choice(["inode", "uid", "boot", "space", "living", "text", "cut", "more"])
    if wrong == "living":
        field.update(pid=os.getpid(), start=start_of(os.getpid()))
    elif wrong in ("inode", "uid", "space"):
        field[wrong] += 1
    elif wrong == "boot":
        field["boot"] = "123456789abcdef0"
    text = "foreline temporary folder 1\n" + "".join("%s %s\n" % f for f in field.items())
    return {"text": "foreline was here\n", "cut": text[:-9], "more": text + "x\n"}.get(wrong, text)


def put_marker(rng, folder):
    path = os.path.join(folder, MARKER)
    how = rng.choice(["file", "file", "file", "link", "fifo", "folder", "hard", "empty"])
    if how == "file":
        open(path, "w").write(marker_text(rng, folder))
    elif how in ("link", "hard"):
        other = os.path.join(folder, "other")
        open(other, "w").write(marker_text(rng, folder))
        (os.symlink if how == "link" else os.link)(other, path)
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "folder":
        os.mkdir(path)
    else:
        open(path, "w").close()


def put_one(rng, base, locks):
    path = os.path.join(base, name_of(rng))
    if os.path.lexists(path):
        return
    kind = rng.choice(["folder"] * 8 + ["file", "link", "socket", "fifo"])
    if kind == "folder":
        os.mkdir(path, 0o700)
        if rng.random() < 0.6:
            put_marker(rng, path)
        for k in range(rng.randrange(4)):
            open(os.path.join(path, rng.choice(["program.json", "notes", "a b"]) + str(k)), "w").write(random_name(rng, 20))
        if rng.random() < 0.3:
            os.makedirs(os.path.join(path, ".git/objects"))
        if rng.random() < 0.2:
            fd = os.open(path, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX)
            locks.append(fd)
        if rng.random() < 0.2:
            os.chmod(path, rng.choice([0o755, 0o777, 0o1777]))
    elif kind == "file":
        open(path, "w").write(random_name(rng, 40))
    elif kind == "link":
        os.symlink(rng.choice([base, "/nowhere", "."]), path)
    elif kind == "socket" and len(path) < 100:
        s = socket.socket(socket.AF_UNIX)
        s.bind(path)
        s.close()
    else:
        os.mkfifo(path)
    if os.getuid() == 0 and rng.random() < 0.15:
        os.chown(path, 1234, 1234, follow_symlinks=False)
    if rng.random() < 0.6:
        old = time.time() - rng.choice([61, 3600, 1e7])
        os.utime(path, (old, old), follow_symlinks=False)


def picture(base):
    """Everything below, but access times."""
    seen = {}
    for folder, folders, files in os.walk(base):
        for name in folders + files:
            path = os.path.join(folder, name)
            s = os.lstat(path)
            text = b""
            if os.path.islink(path):
                text = os.readlink(path).encode()
            elif os.path.isfile(path):
                text = hashlib.sha256(open(path, "rb").read()).digest()
            seen[path] = (s.st_ino, s.st_mode, s.st_uid, s.st_nlink, s.st_size if os.path.isfile(path) else 0, s.st_mtime_ns, text)
    return seen


def names(base):
    """The paths below, also while a run makes and removes some."""
    return {os.path.join(folder, name) for folder, folders, files in os.walk(base) for name in folders + files}


# ---- what is run

PLAN = "plan --algorithm balanced --model mlp --platform laptop --stages 2 --microbatches 2 -o p.json"
RUN = "run p.json --steps 1 --warmup 0 -o m.json"
COMMANDS = [
    "--version", "model list", "model show mlp", "topology list", "topology show rail:nodes=2,gpus=2", PLAN,
    "simulate p.json", "simulate p.json --engine analytic -o s.json --trace t.json", RUN,
    "run p.json --steps 2 --warmup 0 --checkpoint ck", "run p.json --steps 1 --warmup 0 --resume ck",
    "emulate p.json --engine smpi", "compare s.json m.json", "plot timeline t.json -o t.svg", "sweep e.yml", "plot bars s.json m.json -o b.svg",
    "report e.db -o r.html", "model profile mlp --repeats 1 -o prof.json", "measurement import t.json -o i.json",
    "run --config run.yml", "bench ring --platform laptop --ranks 4", "validate p.json --steps 2 --repeats 1 -o v", "completion bash",
]


def environment(places, where):
    e = {k: v for k, v in os.environ.items() if k not in ("TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME")}
    e.update(OPENBLAS_NUM_THREADS="1", HOME=os.path.join(places["work"], "home"))
    if where == "TMPDIR":
        e["TMPDIR"] = places["TMPDIR"]
    if where in ("TMPDIR", "XDG_RUNTIME_DIR"):
        e["XDG_RUNTIME_DIR"] = places["XDG_RUNTIME_DIR"]
    return e


def killed_runs_leave_nothing(tool, places, before):
    """The folder of a run that was killed goes with the next one, and not before its process has ended."""
    for where in [w for w in places if w != "work"]:
        e = environment(places, where)
        run = subprocess.Popen([tool, "run", "p.json", "--steps", "100000", "--warmup", "0"], env=e, cwd=places["work"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        new = set()
        for _ in range(400):
            new = names(places[where]) - set(before[where])
            if any(p.endswith(MARKER) for p in new) and any(p.endswith("model.json") for p in new):
                break
            time.sleep(0.01)
        os.kill(run.pid, signal.SIGSTOP)
        subprocess.run([tool] + RUN.split(), env=e, cwd=places["work"], capture_output=True)
        alive = names(places[where]) - set(before[where])
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        if not any(p.endswith(MARKER) for p in new & alive):
            print("note: the files of the run in %s had gone before it was killed" % where)
        subprocess.run([tool] + RUN.split(), env=e, cwd=places["work"], capture_output=True)
        if picture(places[where]) != before[where]:
            fail("%s: a killed run leaves %s" % (where, sorted(set(picture(places[where])) - set(before[where]))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("foreline")
    parser.add_argument("source")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=70)
    arguments = parser.parse_args()
    arguments.source = os.path.abspath(arguments.source)
    if not os.environ.get(INSIDE):
        enter_namespace(arguments)
    rng = random.Random(arguments.seed)
    tool = os.path.abspath(arguments.foreline)
    top = tempfile.mkdtemp(dir="/var/tmp" if os.access("/var/tmp", os.W_OK) else None)
    places = {"work": os.path.join(top, "work"), "TMPDIR": os.path.join(top, "tmp"), "XDG_RUNTIME_DIR": os.path.join(top, "run")}
    for p in places.values():
        os.mkdir(p)
    os.mkdir(os.path.join(places["work"], "home"))
    if os.environ.get(INSIDE):
        places["/tmp"] = "/tmp"
    locks = []
    for where in [w for w in places if w != "work"]:
        while len(os.listdir(places[where])) < arguments.each:
            put_one(rng, places[where], locks)
    before = {w: picture(p) for w, p in places.items() if w != "work"}
    with open(os.path.join(places["work"], "e.yml"), "w") as f:
        f.write("name: e\nmodel: mlp\nplatform: laptop\nplan: {algorithm: balanced, stages: [1, 2], microbatches: 2}\n")
    with open(os.path.join(places["work"], "run.yml"), "w") as f:
        f.write("model: mlp\nplatform: laptop\nsteps: 1\nwarmup: 0\nplan: {algorithm: balanced, stages: 2, microbatches: 2}\n")
    done = 0
    for command in COMMANDS:
        where = rng.choice(sorted(before))
        r = subprocess.run([tool] + command.split(), env=environment(places, where), cwd=places["work"], capture_output=True,
                           timeout=300)
        done += r.returncode == 0
        if r.returncode and os.environ.get("VERBOSE"):
            print(command, r.returncode, r.stderr.decode())
        if r.returncode not in (0, 1, 2):
            fail("%s: status %d: %s" % (command, r.returncode, r.stderr.decode()))
        if r.returncode and command in (PLAN, RUN):
            fail("%s: %s" % (command, r.stderr.decode()))
        for w in before:
            now = picture(places[w])
            if now != before[w]:
                changed = [p for p in set(now) | set(before[w]) if now.get(p) != before[w].get(p)]
                fail("%s with %s changed in %s: %s" % (command, where, w, sorted(changed)))
    if done < len(COMMANDS) * 3 // 4:
        fail("only %d of %d commands did anything" % (done, len(COMMANDS)))
    killed_runs_leave_nothing(tool, places, before)
    things = sum(len(os.listdir(places[w])) for w in before)
    shutil.rmtree(top)
    print("%d things in %s as they were after %d commands (%d of them with status 0), seed %d; killed runs left nothing"
          % (things, ", ".join(sorted(before)), len(COMMANDS), done, arguments.seed))


main()
