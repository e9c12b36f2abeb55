#!/usr/bin/env python3
"""Inputs that are no regular files end in one line, within 500 MB more than the version takes and 10 s of CPU time (2 s on a machine with nothing else to do); a pipe
that nobody writes to is waited for, as by cat, and an interrupt ends it.  Usage: safe_inputs.py FORELINE"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

FORELINE = os.path.abspath(sys.argv[1])
COMMANDS = ["topology show {}", "topology import {} -o out.xml", "topology import {} --platform dgx-h100-x4 -o out.xml", "model show {}",
            "measurement import {} -o out.json", "plan import {}", "run --config {}", "simulate {}", "compare {} {}", "sweep {}"]


def start(command, path, stdin=subprocess.DEVNULL):
    return subprocess.Popen([FORELINE] + [path if word == "{}" else word for word in command.split()], stdin=stdin, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, preexec_fn=lambda: signal.alarm(100))


def idle():
    p = subprocess.Popen([FORELINE, "--version"], stdout=subprocess.DEVNULL)
    used = os.wait4(p.pid, 0)[2].ru_maxrss
    p.returncode = 0
    return used


IDLE = idle()


def refused(command, path, stdin=subprocess.DEVNULL):
    p = start(command, path, stdin)
    said = p.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    seen = "%s %s: %d, %.1f s, %d MB: %s" % (command, path, p.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss // 1000, said)
    assert p.returncode == 1 and said.count("\n") == 1 and path in said, seen
    assert used.ru_maxrss - IDLE < 500000 and used.ru_utime + used.ru_stime < 10, seen


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.mkdir("folder")
    os.symlink("loop", "loop")
    os.symlink("folder", "link")
    os.mkfifo("pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    for command in COMMANDS:
        for path in ("/dev/zero", "/dev/null", "./folder", "./link", "./socket"):
            refused(command, path)
        if command != "model show {}":  # takes names of models, too, and says what there is
            refused(command, "./loop")
        with open("/dev/zero", "rb") as zeros:
            refused(command, "/dev/stdin", zeros)
        waits = start(command, "./pipe")
        time.sleep(0.2)
        assert waits.poll() is None, command + ": does not wait for a pipe: " + waits.stderr.read().decode()
        waits.send_signal(signal.SIGINT)
        assert waits.wait(60) != 0, command + ": done without an input"
        waits.stderr.close()
    listener.close()
    assert sorted(os.listdir(".")) == ["folder", "link", "loop", "pipe", "socket"], os.listdir(".")
