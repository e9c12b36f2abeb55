"""The first process of its namespaces: events one after the other, a line of JSON for each. See torture.py."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import events
import scenarios

LINGER_S = 10     # what mpirun cleans up behind its ranks must be gone by then
RESUME_S = 2      # a stopped command goes on after that
# lines that are not about the end of the run
NOTES = r"step |warning: |driver |rank \d+ \(\w+\): GPU |foreline: |foreline-worker: |\[\d+\] "
ENDS = {"netns_command": r"foreline [a-z]+: |foreline: rank \d+ exited with status|foreline: interrupted by signal"}
RESULTS = os.fdopen(os.dup(1), "w")


def shell(*words):
    subprocess.run(words, check=True)


# ---- processes of these namespaces

def processes():
    """{pid: state} of all but this one, the dead that nobody has waited for left out."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat") as f:
                    state = f.read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state not in "ZX":
                found[int(name)] = state
    return found


def who_is(pid):
    """What the process is and which rank: what the kernel says of it."""
    try:
        with open(f"/proc/{pid}/comm") as f:
            name = f.read().strip()
        with open(f"/proc/{pid}/environ", "rb") as f:
            variables = dict(v.split("=", 1) for v in f.read().decode("utf8", "replace").split("\0") if "=" in v)
    except OSError:
        return "gone", None
    if name.startswith("foreline-worker"):
        rank = variables.get("RANK", variables.get("OMPI_COMM_WORLD_RANK"))
        return "worker", int(rank) if rank else None
    return name, None


def is_ours(pid):
    """Of the emulator, and not a user's program, also where that is about to begin."""
    try:
        with open(f"/proc/{pid}/status") as f:
            parent = int(re.search(r"PPid:\t(\d+)", f.read()).group(1))
    except OSError:
        return True
    name = who_is(pid)[0]
    return name.startswith("foreline") and not (name == "foreline-netns" and who_is(parent)[0] == name)


def reap(command):
    """Wait for whoever has ended; the status of `command` if it is among them."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == command:
            status = os.waitstatus_to_exitcode(ended)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


# ---- one event

class Event:
    def __init__(self, asked, e):
        self.asked, self.e = asked, e
        self.base = asked["folder"]
        self.victims = []      # (who, rank, pid)
        self.at_s = None       # when it came
        self.resume = {}       # pid: when it goes on
        self.notes = {}

    def prepare(self):
        os.makedirs(self.base, exist_ok=True)
        shell("mount", "-t", "tmpfs", "-o", "size=65536k", "torture", self.base)
        for name in ("tmp", "out"):
            os.mkdir(os.path.join(self.base, name))
        for name in os.listdir(self.asked["inputs"]):
            if name not in ("said", "log"):
                shutil.copy(os.path.join(self.asked["inputs"], name), self.base)
        if "disk_kib" in self.e:
            is_ = os.statvfs(self.base)
            used = (is_.f_blocks - is_.f_bfree) * is_.f_bsize // 1024
            shell("mount", "-o", f"remount,size={used + self.e['disk_kib']}k", self.base)

    def start(self):
        e, base = self.e, self.base
        environment = scenarios.environment(e["scenario"], self.asked["bin"])
        environment.update(TMPDIR=os.path.join(base, "tmp"), TORTURE_LOG=os.path.join(self.asked["inputs"], "log"))
        # a signal that is sent is no fault that a sanitizer finds, and one that stops LeakSanitizer's tracer stops all
        environment["ASAN_OPTIONS"] = "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0"
        if e["kind"] in ("stop", "stop_call"):
            environment["ASAN_OPTIONS"] += ":detect_leaks=0"
        if "shim" in e:
            environment.update(TORTURE_AT=e["shim"], LD_PRELOAD=self.asked["shim"])
            environment["ASAN_OPTIONS"] += ":verify_asan_link_order=0"

        def limit():
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if "file_bytes" in e:
                resource.setrlimit(resource.RLIMIT_FSIZE, (e["file_bytes"],) * 2)
            if "descriptors" in e:
                resource.setrlimit(resource.RLIMIT_NOFILE, (e["descriptors"],) * 2)
        self.begun_s = time.monotonic()
        words = [os.path.join(self.asked["bin"], "foreline")] + scenarios.ALL[e["scenario"]]
        with open(os.path.join(self.asked["inputs"], "said"), "w") as said:
            self.command = subprocess.Popen(words, cwd=base, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=said, preexec_fn=limit)

    def hit(self, pids, number):
        for pid in pids:
            self.victims.append(who_is(pid) + (pid,))
            send(pid, number)
        self.at_s = time.monotonic()

    def strike(self, now_s):
        """The events that come from outside, when their time has come; who is stopped may have to go on."""
        e = self.e
        if "at" in e and self.at_s is None and now_s - self.begun_s >= e["at"] * self.asked["usual_s"][e["scenario"]]:
            there = sorted(processes())
            if e["kind"] == "lost_process":
                there = [p for p in there if who_is(p)[0] == "worker"]
            elif there:
                there = [there[int(e["pick"] * len(there))]]
            if there:
                self.hit(there, e["signal"])
        if e["kind"] in ("stop", "pause", "stop_call", "pause_call"):
            for pid, state in processes().items():
                if state == "T" and pid not in self.resume:
                    own = e["scenario"] != "netns_command" or is_ours(pid)
                    wait_s = e.get("pause_s", float("inf") if own and pid != self.command.pid else RESUME_S)
                    self.resume[pid] = now_s + wait_s
        for pid, when_s in self.resume.items():
            if now_s >= when_s:
                send(pid, signal.SIGCONT)
                self.resume[pid] = float("inf")

    def run(self):
        """The exit status; None: it does not end by itself."""
        self.start()
        while True:
            status = reap(self.command.pid)
            now_s = time.monotonic()
            if status is not None:
                self.command.returncode = status
                self.ended_s = now_s
                return status
            if now_s - self.begun_s > self.asked["hang_s"]:
                self.notes["hangs"] = self.stacks()
                self.ended_s = now_s
                return None
            self.strike(now_s)
            time.sleep(0.01)

    def stacks(self):
        """Where they all are, for whoever looks for the fault."""
        out = []
        for pid, state in sorted(processes().items()):
            wait = ""
            try:
                with open(f"/proc/{pid}/wchan") as f:
                    wait = f.read()
            except OSError:
                pass
            out.append(f"{pid} {who_is(pid)} {state} {wait}")
        return out

    def rest(self):
        """What is still there, once it has had time to go."""
        while True:
            reap(0)
            left = processes()
            files = [os.path.join(d, n) for d, _, names in os.walk(os.path.join(self.base, "tmp")) for n in names]
            files += [os.path.join("tmp", n) for n in os.listdir(os.path.join(self.base, "tmp"))]
            if not left and (not files or self.killed()) or time.monotonic() - self.ended_s > LINGER_S:
                break
            time.sleep(0.02)
        self.linger_s = time.monotonic() - self.ended_s
        described = self.stacks()
        for pid in left:
            send(pid, signal.SIGKILL)
        while processes():
            reap(0)
            time.sleep(0.01)
        return described, files

    def killed(self):
        """Was it the command itself that was killed so that it could not clean up?"""
        return any(pid == self.command.pid for _, _, pid in self.victims) and self.number() not in (
            signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def number(self):
        e = self.e
        if "signal" in e:
            return e["signal"]
        return int(e["shim"].split(":")[4]) if ":kill:" in e.get("shim", "") else 0

    def read_log(self):
        path = os.path.join(self.asked["inputs"], "log")
        if not os.path.exists(path):
            return
        with open(path) as f:
            for line in f:
                at, pid, who, rank, call = line.split()
                if self.number() and pid == "1":
                    continue  # the first process of an emulation's namespace: the kernel spares it its own signals
                if self.at_s is None:
                    self.at_s = float(at)
                self.victims.append((who, int(rank) if rank.isdigit() else None,
                                     self.command.pid if who == "command" else int(pid)))
                self.notes["call"] = call
        os.unlink(path)

    # ---- what is wrong with it

    def faults(self, status, said):
        e, faults = self.e, []
        end = ENDS.get(e["scenario"], r"foreline [a-z]+: |foreline: standard output: ")
        lines = [s for s in said.splitlines() if s and not re.match(NOTES, s)]
        killed = self.killed()
        if status is None:
            return ["does not end by itself"]
        if "Sanitizer" in said or "runtime error" in said:
            faults.append("a sanitizer complains")
        asked_to_end = self.number() in (2, 1, 15) and any(p == self.command.pid for _, _, p in self.victims)
        if status < 0 and not killed and not asked_to_end:
            faults.append(f"ended by signal {-status}")
        if status == 0 and e["kind"] in events.HARMLESS:
            pass
        elif status != 0 and e["kind"] in events.HARMLESS:
            faults.append("what is harmless makes it fail")
        if status > 0 and (lines[1:] or sum(bool(re.match(end, s)) for s in said.splitlines()) != 1):
            faults.append("not one line says why")
        return faults + scenarios.output_faults(os.path.join(self.base, "out"), status == 0, self.asked["wanted"][e["scenario"]],
                                                killed or status < 0)

    def named(self, status, said):
        """Is the rank that was hit the one that is named? None: no rank was hit, or the run had been done."""
        workers = [v for v in self.victims if v[0] == "worker"]
        if status in (0, None) or not workers or len(workers) > 1 and self.e["scenario"] not in scenarios.IN_ONE:
            return None
        if self.e["kind"] not in ("kill", "crash", "stop", "kill_call", "stop_call", "end"):
            return None
        if self.e["scenario"] in scenarios.IN_ONE:
            return "process of all" in said or "no heartbeat" in said
        first = re.search(r"\brank (\d+)\b", said.rstrip().rpartition("\n")[2])
        return bool(first) and int(first.group(1)) == workers[0][1]

    def result(self):
        self.prepare()
        status = self.run()
        self.read_log()
        left, files = self.rest()
        with open(os.path.join(self.asked["inputs"], "said"), errors="replace") as f:
            said = f.read()
        faults = self.faults(status, said)
        if left and status is not None:
            faults.append(f"processes stay: {left}")
        if files and not self.killed():
            faults.append(f"files stay: {files[:5]}")
        shared = os.listdir("/dev/shm")
        if shared and not self.killed():
            faults.append(f"shared memory stays: {shared[:5]}")
        for name in shared:
            shell("rm", "-rf", os.path.join("/dev/shm", name))
        with open("/proc/sysvipc/shm") as f:
            if len(f.readlines()) > 1:
                faults.append("System V shared memory stays")
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout.splitlines()
        if links != self.asked["links"]:
            faults.append(f"interfaces: {links}")
        shell("umount", "-l", self.base)
        took_s = None if self.at_s is None or status in (0, None) else round(self.ended_s - self.at_s, 3)
        return {**self.e, "came": self.at_s is not None or any(k in self.e for k in ("disk_kib", "file_bytes", "descriptors")),
                "victims": [v[:2] for v in self.victims[:4]], "status": status, "took_s": took_s,
                "run_s": round(self.ended_s - self.begun_s, 3), "linger_s": round(self.linger_s, 3),
                "named": self.named(status, said), "said": said[-400:], "faults": faults, **self.notes}


def make_inputs(asked):
    """Plans and platforms for all events, and how long each command takes when nothing happens."""
    inputs = asked["inputs"] = asked["folder"] + ".in"
    os.makedirs(inputs)
    tool = os.path.join(asked["bin"], "foreline")
    for name, text in (("pair.xml", scenarios.PLATFORM), ("sweep.yml", scenarios.SWEEP)):
        with open(os.path.join(inputs, name), "w") as f:
            f.write(text)
    for out, words in (("p.json", ["--platform", "laptop", "--model", scenarios.MODEL, "--stages", "2", "--replicas", "2"]),
                       ("q.json", ["--platform", "pair.xml", "--model", "mlp", "--stages", "2"])):
        done = subprocess.run([tool, "plan", "--algorithm", "balanced", "--microbatches", "4", "-o", out] + words,
                              cwd=inputs, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
    asked["usual_s"], asked["wanted"] = {}, {}
    for name in sorted({e["scenario"] for e in asked["events"]}):
        asked["wanted"][name] = []
        calm = Event(asked, {"number": -1, "scenario": name, "kind": "kill"})
        calm.prepare()
        status = calm.run()
        asked["usual_s"][name] = calm.ended_s - calm.begun_s
        asked["wanted"][name] = os.listdir(os.path.join(calm.base, "out"))
        with open(os.path.join(inputs, "said")) as f:
            said = f.read()
        left, files = calm.rest()
        if status != 0 or left or files:
            sys.exit(f"{name} fails by itself: {status} {said} {left} {files}")
        shell("umount", "-l", calm.base)


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    asked = json.load(sys.stdin)
    shell("ip", "link", "set", "lo", "up")
    shell("mount", "--make-rprivate", "/")
    shell("mount", "-t", "tmpfs", "torture", "/dev/shm")
    os.dup2(2, 1)
    asked["links"] = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout.splitlines()
    make_inputs(asked)
    for e in asked["events"]:
        RESULTS.write(json.dumps(Event(asked, e).result()) + "\n")
        RESULTS.flush()


main()
