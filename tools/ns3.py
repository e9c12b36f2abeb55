"""Networks of ns-3 as ASTRA-sim and SimAI have them: a line "nodes switches links", of SimAI "nodes GPUs-a-server
NVSwitches switches links GPU", a line of the switches' numbers, then "A B 400Gbps 0.0005ms LOSS" a cable."""
import functools
import re

import machine
from machine import GPU, NVSWITCH, SWITCH, Bad, count

NODES, CABLES, WORDS = 1 << 19, 1 << 19, 8


def words_of(line):
    return re.findall("[^ \t\r]+", line)


class Network:
    """kind: of each number 0 a GPU, 1 an NVSwitch, 2 a switch; part: its part."""

    def __init__(self, line):
        self.m, word, most = machine.Machine(), words_of(line)[:WORDS], 2**32 - 1
        self.per_server, self.nvswitches, self.gpu = 0, 0, None
        limits = {3: (NODES, NODES, most), 6: (NODES, NODES, NODES, NODES, most)}.get(len(word), ())
        numbers = [count(w, limit) for w, limit in zip(word, limits)]
        good = numbers and None not in numbers
        if good and len(word) == 6:
            self.nodes, self.per_server, self.nvswitches, self.switches, self.links = numbers
            self.gpu = word[5]
            good = self.per_server > 0
        elif good:
            self.nodes, self.switches, self.links = numbers
        if not good or self.nvswitches + self.switches >= self.nodes or self.links > CABLES:
            raise Bad("expected 'nodes switches links' or 'nodes GPUs-a-server NVSwitches switches links GPU', up to %d "
                      "nodes" % NODES, 1)
        self.kind, self.part = bytearray(self.nodes), [0] * self.nodes

    def read_switches(self, line):
        n = 0
        for word in words_of(line):
            number = count(word, self.nodes - 1)
            if number is None or self.kind[number]:
                raise Bad("got '%s', expected the number of a switch" % machine.cut(word, 20), 2)
            self.kind[number] = 1 if n < self.nvswitches else 2
            n += 1
        if n != self.nvswitches + self.switches:
            raise Bad("got %d switch numbers, expected %d" % (n, self.nvswitches + self.switches), 2)

    def add_parts(self):
        m, gpu, nvswitch = self.m, 0, 0
        for i, kind in enumerate(self.kind):
            if kind == 2:
                self.part[i] = m.part(SWITCH, "switch%d" % i)
            elif kind == 1:
                self.part[i] = m.part(NVSWITCH, "switch%d" % i, nvswitch)
                nvswitch += 1
            else:
                node = gpu // self.per_server if self.per_server else gpu
                self.part[i] = m.part(GPU, "GPU%d" % i, node, self.gpu)
                m.nodes = node + 1
                gpu += 1
        if nvswitch > m.nodes:
            raise Bad("got %d NVSwitches, expected at most one for each of the %d servers" % (nvswitch, m.nodes))

    def read_cable(self, line, number, rate, latency):
        word = words_of(line)[:WORDS]
        if not word:
            return
        ends = [count(w, self.nodes - 1) for w in word[:2]]
        Bps, latency_s = (rate(word[2]), latency(word[3])) if len(word) >= 4 else (None, None)
        if None in ends or latency_s is None or not Bps or ends[0] == ends[1]:
            raise Bad("expected 'A B RATE LATENCY LOSS', 0 1 400Gbps 0.0005ms 0", number)
        if len(self.m.links) == CABLES:
            raise Bad("more than %d cables" % CABLES, number)
        upper, lower = ends if self.kind[ends[0]] > self.kind[ends[1]] else reversed(ends)
        a, b = self.part[upper], self.part[lower]  # links run from switches to what is below
        if 1 not in (self.kind[upper], self.kind[lower]):
            self.m.link("net", a, b, 1, Bps, latency_s)
            return
        if self.kind[lower] != 0:
            raise Bad("NVSwitch is not connected to a GPU", number)
        self.m.parts[a][self.m.PART_NODE] = self.m.parts[b][self.m.PART_NODE]
        self.m.link("nvlink", b, a, 1, Bps, latency_s)


def read(data, gpus):
    lines = data.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    lines += [""] * (2 - len(lines))
    network = Network(lines[0])
    network.read_switches(lines[1])
    network.add_parts()
    rate = functools.lru_cache(64)(lambda word: machine.quantity(word, machine.RATES))
    latency = functools.lru_cache(64)(lambda word: machine.quantity(word, machine.TIMES))
    for number, line in enumerate(lines[2:], 3):
        network.read_cable(line, number, rate, latency)
    m = network.m
    if len(m.links) != network.links:
        m.warn("got %d cables, but the first line has %d" % (len(m.links), network.links))
    return m


if __name__ == "__main__":
    machine.main(read)
