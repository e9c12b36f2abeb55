#!/usr/bin/python3
"""Knock at every port of this network namespace that begins to listen: half say nothing, half rubbish.

Usage: strangers.py N STOP_FILE PARENT; ends with that process at the latest; prints how many connections were made at how many ports.
"""
import os, socket, sys, time

n, stop, parent = int(sys.argv[1]), sys.argv[2], sys.argv[3]
seen, kept, made = set(), [], 0
while not os.path.exists(stop) and os.path.exists("/proc/" + parent):
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
print(made, len(seen))
