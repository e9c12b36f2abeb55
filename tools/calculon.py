"""Calculon's systems (Isaev et al., SC 2023): what a processor computes, its memory, and networks within each other, of
which the first is a node's NVLink and the second what nodes are joined by.

    {"matrix": {"float16": {"tflops": 312, ...}}, "mem1": {"GiB": 80, ...},
     "networks": [{"bandwidth": 300, "efficiency": 0.65, "size": 8, "latency": 0.00001}, {...}]}

Bandwidths are GB/s of a processor, of which it attains `efficiency`. Older and newer files differ in where tflops
stand. The processor becomes the GPU of the catalogue that is nearest to it.

Source: calculon-ai/calculon, systems/ and calculon/network.py at 71f6435.
"""
import json

import machine
from machine import GPU, NIC, NVSWITCH, At

NETWORKS, GPUS, MOST, NEAR = 8, 1024, 1e9, 0.05


def apart(a, b):
    return abs(a / b - 1) if b > 0 else float("inf")


def find_gpu(root, m, gpus):
    """By the peak of products of 16 bits, of several by the memory."""
    matrix = root.field("matrix")
    tflops = (matrix.optional("float16") or matrix).field("tflops").real(0, MOST)
    memory = root.optional("mem1")
    gib = memory.field("GiB").real(0, 1e12) if memory else 0
    best, nearest = None, NEAR
    for name, flops, size in gpus:
        peak = apart(flops, tflops * 1e12)
        far = peak + 1e-3 * min(apart(size, gib * 1073741824), 1)
        if peak <= NEAR and far < nearest:
            best, nearest = name, far
    if best is None:
        m.warn("no GPU of the catalogue has %g TFLOP/s; choose one with --gpu" % tflops)
    else:
        m.assume("a processor of %g TFLOP/s and %g GiB is taken for %s" % (tflops, gib, best))
    return best


def read_network(at):
    """What a processor attains of one network, bytes per second, and how many there are."""
    bandwidth = at.field("bandwidth").real(0, MOST)
    efficiency = at.optional("efficiency")
    attained = bandwidth * (efficiency.real(0, 1) if efficiency else 1)
    size = at.field("size").integer(1, 1 << 30)
    if not attained > 0:
        raise at.bad("network has no bandwidth")
    return attained * 1e9, size


def read(data, gpus):
    root, m = At(json.loads(data)), machine.Machine()
    networks = root.field("networks")
    listed = networks.array(NETWORKS)
    if not listed:
        raise networks.bad("no network")
    (inside, size), *others = [read_network(at) for at in listed[:2]]
    if len(listed) > 2:
        m.warn("ignored: networks beyond two")
    if size > GPUS:
        raise networks.bad("node has %d processors, expected up to %d" % (size, GPUS))
    model = find_gpu(root, m, gpus)
    if others:
        m.assume("one node of up to %d processors; --nodes N for more" % others[0][1])
    m.warn("ignored: latencies, efficiencies by size, and the second memory")
    m.nodes = 1
    hub = m.part(NVSWITCH, "nvswitch", 0) if size > 1 else None
    for i in range(size):
        gpu = m.part(GPU, "GPU%d" % i, 0, model)
        if hub is not None:
            m.link("nvlink", gpu, hub, 1, inside)
        if others:
            m.part(NIC, "NIC%d" % i, 0, Bps=others[0][0])
    return m


if __name__ == "__main__":
    machine.main(read)
