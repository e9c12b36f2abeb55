#!/usr/bin/python3
"""Run a command, and meanwhile knock at every port of this network namespace that begins to listen: N say nothing, N rubbish.

Usage: strangers.py N COMMAND...; its status. To descriptor 3: connections, ports, and the wall-clock and CPU seconds of the command and
all that it has waited for.
"""
import os
import socket
import sys
import time

n, command = int(sys.argv[1]), sys.argv[2:]
seen, kept, made = set(), [], 0
began, child, ended = time.monotonic(), os.spawnvp(os.P_NOWAIT, command[0], command), 0
while not ended:
    ports = set()
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        word = line.split()
        if word[3] == "0A":
            ports.add(int(word[1].split(":")[1], 16))
    for port in ports - seen:
        seen.add(port)
        for k in range(2 * n):
            s = socket.socket()
            try:
                s.connect(("127.0.0.1", port))
                if k % 2:
                    s.send(b"\xff" * (1 + 37 * k % 300))
            except OSError:
                pass
            else:
                made += 1
            kept.append(s)
    time.sleep(0.0005)
    ended, status, used = os.wait4(child, os.WNOHANG)
os.write(3, b"%d %d %.3f %.4f\n" % (made, len(seen), time.monotonic() - began, used.ru_utime + used.ru_stime))
sys.exit(os.waitstatus_to_exitcode(status))
