"""Seconds of gloo's collectives and messages on this machine, of the sizes that captures have, each after some milliseconds of
computing as in a training step: from the last rank's entry to the last one's exit, the mean.

Part of `foreline validate --ranks`: capture_gloo.py WANTED OUT as every rank. WANTED is JSON, rows of [kind, members, bytes]."""
import json
import os
import sys
import time

os.sched_setaffinity(0, {int(os.environ["FORELINE_CORE"])})     # before torch starts threads

import torch                                                    # noqa: E402
import torch.distributed as dist                                # noqa: E402

REPEATS = 14


def call_of(kind, size, group, members, rank, first):
    """What the rank calls; sizes are those of nccl-tests."""
    count = max(1, size // 4)
    part = max(1, count // members)
    x, y = torch.zeros(count), torch.zeros(count)
    whole = torch.zeros(part * members)
    parts = list(whole.split(part))
    if kind == 'all-reduce':
        return lambda: dist.all_reduce(x, group=group)
    if kind == 'broadcast':
        return lambda: dist.broadcast(x, first, group=group)
    if kind == 'all-gather':
        return lambda: dist.all_gather(parts, parts[0].clone(), group=group)
    if kind == 'all-to-all':
        return lambda: dist.all_to_all_single(torch.zeros_like(whole), whole, group=group)
    if kind == 'reduce-scatter':                                # gloo does it as an all-reduce
        if torch.__version__ < '2':
            return lambda: dist.all_reduce(whole, group=group)
        return lambda: dist.reduce_scatter_tensor(y[:part], whole, group=group)
    if rank == first:
        return lambda: dist.send(x, first + 1)
    return (lambda: dist.recv(x, first)) if rank == first + 1 else lambda: None


def measure(call):
    a, b, big = torch.randn(256, 256), torch.randn(256, 1024), torch.zeros(1 << 20)
    begin, end = [], []
    for _ in range(2 + REPEATS):
        torch.mm(a, b)
        big.add_(1.0)
        begin.append(time.perf_counter())
        call()
        end.append(time.perf_counter())
    return begin, end


def main():
    torch.set_num_threads(1)
    dist.init_process_group('gloo')
    rank, n = dist.get_rank(), dist.get_world_size()
    with open(sys.argv[1]) as f:
        wanted = json.load(f)
    groups, rows = {}, []
    for members in sorted({row[1] for row in wanted}):          # all of them communicate at the same time
        groups[members] = [dist.new_group(list(range(at, at + members))) for at in range(0, n - members + 1, members)]
    for kind, members, size in wanted:
        mine = rank // members
        inside = mine < len(groups[members])
        call = call_of(kind, size, groups[members][mine], members, rank, mine * members) if inside else lambda: None
        times = torch.tensor(measure(call), dtype=torch.float64)
        every = [torch.zeros_like(times) for _ in range(n)]
        dist.all_gather(every, times)
        seconds = []
        for at in range(0, n - members + 1, members):
            group = torch.stack(every[at:at + members])
            seconds.append(float((group[:, 1].max(0).values - group[:, 0].max(0).values)[2:].mean()))
        rows.append([kind, members, size, max(1e-7, sum(seconds) / len(seconds))])
    if rank == 0:
        with open(sys.argv[2], 'w') as f:
            json.dump(rows, f)
    dist.barrier()
    os._exit(0)         # gloo's threads may end badly at the end of the interpreter


main()
