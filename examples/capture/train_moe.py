"""Mixture of experts, one for each rank: experts choose their tokens, two all-to-all each way; gates are summed."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x.contiguous())
        return y

    backward = forward


class Experts(nn.Module):
    def __init__(self, width, world):
        super().__init__()
        self.gate = nn.Linear(width, world)
        self.expert = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, world = x.shape[0], self.gate.out_features
        score = self.gate(x).softmax(-1)
        chosen = torch.cat([score[:, e].topk(n // world).indices for e in range(world)])
        back = Exchange.apply(self.expert(Exchange.apply(x[chosen])))
        weight = score[chosen, torch.arange(world).repeat_interleave(n // world)]
        return x + torch.zeros_like(x).index_add(0, chosen, back * weight[:, None])


p = argparse.ArgumentParser()
for name, value in (('width', 256), ('layers', 4), ('tokens', 256), ('steps', 12)):
    p.add_argument('--' + name, type=int, default=value)
a = p.parse_args()
dist.init_process_group('gloo')
torch.manual_seed(dist.get_rank())
net = nn.Sequential(*[Experts(a.width, dist.get_world_size()) for _ in range(a.layers)])
shared = [q for name, q in net.named_parameters() if 'expert' not in name]
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for step in range(a.steps):
    begin = time.perf_counter()
    loss = net(torch.randn(a.tokens, a.width)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for work in [dist.all_reduce(q.grad, async_op=True) for q in shared]:
        work.wait()
    optimizer.step()
    print(f'step {step} loss {loss.item():.4f} ms {1e3 * (time.perf_counter() - begin):.3f}', flush=True)
