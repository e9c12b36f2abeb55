"""What may go wrong: events drawn from a seed and a number, the same ones every time."""
import errno
import random
import signal

DAY = 86400
# how often each kind is drawn; those of the second group must not make a run fail
KINDS = {
    "kill": 16, "crash": 4, "end": 4, "stop": 9,
    "kill_call": 16, "stop_call": 6, "hangup": 9, "error": 8,
    "disk": 6, "file_size": 4, "descriptors": 6, "lost_process": 4,
    "pause": 9, "pause_call": 4, "interrupted": 6, "short": 6, "slow_sync": 4, "clock": 4,
}
HARMLESS = {"pause", "pause_call", "interrupted", "short", "slow_sync", "clock"}
# the system calls after which a call may begin, and what they fail with
ERRORS = {"read": errno.EIO, "write": errno.ENOSPC, "sync": errno.EIO, "rename": errno.EXDEV,
          "open": errno.EMFILE, "connect": errno.ECONNREFUSED, "accept": errno.EMFILE,
          "send": errno.ECONNRESET, "recv": errno.ETIMEDOUT, "poll": errno.ENOMEM}
CALLS = list(ERRORS) + ["close"]
# about so many calls of a kind has a process
MOST = {"sync": 3, "rename": 3, "connect": 4, "accept": 4, "open": 10, "read": 10, "write": 10, "close": 20}
# these are Open MPI's own calls there, as are all of mpirun's: it does not bear that they are interrupted or short
OURS = {"mpi": [], "netns_mpi": []}
# whose calls: shim.c
RANKS = [f"rank{k}" for k in range(4)]
ROLES = {"tcp": RANKS + ["command"], "nccl": RANKS + ["command"], "mpi": RANKS + ["command", "starter"],
         "local": ["worker", "worker", "command"], "netns": ["rank0", "rank1", "command", "child"],
         "netns_mpi": ["rank0", "rank1", "command", "child", "starter"], "netns_command": ["command", "child"],
         "smpi": ["command", "child"], "simulate": ["command", "child"], "sweep": ["command", "child"]}


def draw(seed, number, scenarios):
    """Event `number`: a dictionary. `at` is a part of the time that the run takes without it, `pick` of the
    processes that there are then."""
    r = random.Random(f"{seed}/{number}")
    kind = r.choices(list(KINDS), list(KINDS.values()))[0]
    e = {"number": number, "scenario": r.choice(scenarios), "kind": kind}
    roles = [w for w in ROLES[e["scenario"]] if w != "starter" or kind not in ("interrupted", "short")]
    who = r.choice(roles)

    def nth(call):
        return round(MOST.get(call, 300) ** r.random())
    if kind in ("kill", "crash", "end", "stop", "pause"):
        e.update(at=r.uniform(0, 0.95), pick=r.random(),
                 signal={"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "pause": signal.SIGSTOP,
                         "crash": r.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS]),
                         "end": r.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])}[kind].value)
    elif kind == "lost_process":  # all ranks at once
        e.update(at=r.uniform(0, 0.95), signal=signal.SIGKILL.value)
    elif kind in ("kill_call", "stop_call", "pause_call"):
        number = signal.SIGKILL if kind == "kill_call" else signal.SIGSTOP
        call = r.choice(["any", "any"] + CALLS)
        e["shim"] = f"{who}:{call}:{nth(call)}:kill:{number.value}"
    elif kind == "hangup":
        call = r.choice(["send", "recv"])
        e["shim"] = f"{who}:{call}:{nth(call)}:hangup:0"
    elif kind == "error":
        call = r.choice(list(ERRORS))
        e["shim"] = f"{who}:{call}:{nth(call)}:error:{ERRORS[call]}"
    elif kind == "interrupted":
        call = r.choice(OURS.get(e["scenario"], ["read", "write"]) + ["send", "recv", "poll", "accept"])
        e["shim"] = f"{who}:{call}:{nth(call)}:error:{errno.EINTR}"
    elif kind == "short":
        call = r.choice(OURS.get(e["scenario"], ["read", "write"]) + ["send", "recv"])
        e["shim"] = f"{who}:{call}:{r.choice([0, nth(call)])}:short:0"
    elif kind == "slow_sync":
        e["shim"] = f"{who}:sync:0:sleep:{r.randrange(50, 800)}"
    elif kind == "clock":
        e["shim"] = f"{who}:clock:1:clock:{r.choice([-9, 9, -400 * DAY, 400 * DAY, 3601])}"
    elif kind == "disk":
        e["disk_kib"] = round(10 ** r.uniform(0.7, 3.2))
    elif kind == "file_size":
        e["file_bytes"] = round(10 ** r.uniform(3.3, 5.5))
    elif kind == "descriptors":
        e["descriptors"] = r.randrange(8, 40)
    if "pause" in kind:
        e["pause_s"] = r.uniform(0.1, 1.5)
    return e
