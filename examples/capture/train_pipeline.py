"""A perceptron in stages, one for each rank: GPipe, with send and recv or batch_isend_irecv."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn

p = argparse.ArgumentParser()
for name, value in (('width', 512), ('layers', 8), ('microbatches', 4), ('batch', 64), ('steps', 12)):
    p.add_argument('--' + name, type=int, default=value)
p.add_argument('--batched', action='store_true', help='messages by batch_isend_irecv')
a = p.parse_args()
dist.init_process_group('gloo')
rank, world = dist.get_rank(), dist.get_world_size()
first, last = rank == 0, rank == world - 1
torch.manual_seed(rank)
layers = [m for _ in range(a.layers // world) for m in (nn.Linear(a.width, a.width), nn.GELU())]
stage = nn.Sequential(*layers, *([nn.Linear(a.width, 10)] if last else []))
optimizer = torch.optim.SGD(stage.parameters(), lr=1e-2, momentum=0.9)


def message(function, tensor, peer):
    if not a.batched:
        (dist.send if function is dist.isend else dist.recv)(tensor, peer)
        return
    for work in dist.batch_isend_irecv([dist.P2POp(function, tensor, peer)]):
        work.wait()


for step in range(a.steps):
    begin = time.perf_counter()
    kept = []
    for _ in range(a.microbatches):
        x = torch.randn(a.batch, a.width) if first else torch.empty(a.batch, a.width)
        if not first:
            message(dist.irecv, x, rank - 1)
            x.requires_grad_(True)
        y = stage(x)
        if last:
            y = nn.functional.cross_entropy(y, torch.randint(10, (a.batch,))) / a.microbatches
        else:
            message(dist.isend, y.detach(), rank + 1)
        kept.append((x, y))
    for x, y in kept:
        if last:
            y.backward()
        else:
            gradient = torch.empty_like(y)
            message(dist.irecv, gradient, rank + 1)
            y.backward(gradient)
        if not first:
            message(dist.isend, x.grad, rank - 1)
    optimizer.step()
    optimizer.zero_grad()
    print(f'step {step} ms {1e3 * (time.perf_counter() - begin):.3f}', flush=True)
