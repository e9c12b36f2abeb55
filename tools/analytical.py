"""ASTRA-sim's analytical networks: dimensions of rings, of all joined to all, and of switches, with a bandwidth and a
latency each. The first dimension is what a node has inside."""
import json

import machine
from machine import GPU, SWITCH, Bad, get, items, text_of

DIMENSIONS, DEVICES = 8, 1 << 16


def read_list(root, key, n):
    """The values of a key, n of them; 0: 1 to 8."""
    value = get(root, key)
    listed = items(value)
    if not 1 <= len(listed) <= DIMENSIONS or (n and len(listed) != n):
        raise Bad("expected '%s: [...]' of %s dimensions" % (key, "as many" if n else "1 to 8"), value[0] if value else 1)
    return [read_item(key, text_of(item) or "", item[0]) for item in listed]


def read_item(key, text, line):
    if key == "topology":
        if text not in ("Ring", "FullyConnected", "Switch"):
            raise Bad("got '%s', expected Ring, FullyConnected or Switch" % machine.cut(text, 40), line)
        return text
    value = machine.real(text)
    if (value is None or not 0 <= value <= 1e9 or (key == "bandwidth" and value <= 0) or
            (key == "npus_count" and (not 1 <= value <= DEVICES or value != int(value)))):
        raise Bad("invalid '%s' of %s" % (machine.cut(text, 40), key), line)
    return int(value) if key == "npus_count" else value


def join_row(m, kind, devices, Bps, latency_s):
    """One row of devices along a dimension."""
    n = len(devices)
    if n == 1:
        return
    if kind == "Switch":
        hub = m.part(SWITCH, "switch")
        for device in devices:
            m.link("net", hub, device, 1, Bps, latency_s)
        return
    for i in range(n):
        last = n - 1
        if kind == "Ring":
            last = i + 1 if i + 1 < n else n if n > 2 else i
        for j in range(i + 1, last + 1):
            m.link("net", devices[i], devices[j % n], 1, Bps, latency_s)


def read(data, gpus):
    root, m = json.loads(data), machine.Machine()
    kinds = read_list(root, "topology", 0)
    counts, rates, latencies = (read_list(root, key, len(kinds)) for key in ("npus_count", "bandwidth", "latency"))
    total = 1
    for n in counts:
        total *= n
        if total > DEVICES:
            raise Bad("more than %d devices" % DEVICES)
    m.nodes = total // counts[0]
    for i in range(total):
        m.part(GPU, "NPU%d" % i, i // counts[0])
    step = 1
    for kind, n, rate, latency in zip(kinds, counts, rates, latencies):
        for i in range(total):
            if i // step % n == 0:
                join_row(m, kind, range(i, i + n * step, step), rate * 1e9, latency * 1e-9)
        step *= n
    return m


if __name__ == "__main__":
    machine.main(read)
