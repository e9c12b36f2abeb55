"""A small GPT, trained in data parallel, with ZeRO 1, fully sharded (FSDP2), or tensor-parallel (DTensor). As torchrun
starts it; nothing here knows of foreline."""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, s, _ = x.shape
        y = self.norm1(x)
        q, k, v = (f(y).view(b, s, -1, self.head).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = (q @ k.transpose(-1, -2) * self.head ** -0.5 + mask).softmax(-1)
        x = x + self.proj((w @ v).transpose(1, 2).reshape(b, s, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tok, self.pos = nn.Embedding(a.vocab, a.width), nn.Embedding(a.tokens, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads) for _ in range(a.layers))
        self.norm, self.out = nn.LayerNorm(a.width), nn.Linear(a.width, a.vocab, bias=False)
        self.register_buffer('mask', torch.full((a.tokens, a.tokens), float('-inf')).triu(1))

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.out(self.norm(x))


def parallelise(model, a):
    """The model as it is distributed, and its optimizer."""
    adam = dict(lr=1e-4)
    if a.parallel == 'fsdp2':
        from torch.distributed.fsdp import fully_shard
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    elif a.parallel == 'tensor':
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        mesh = init_device_mesh('cpu', (dist.get_world_size(),))
        column, row = ColwiseParallel(), RowwiseParallel()
        for block in model.blocks:
            parallelize_module(block, mesh, {'q': column, 'k': column, 'v': column, 'proj': row, 'up': column, 'down': row})
    elif dist.get_world_size() > 1:
        model = DDP(model, bucket_cap_mb=a.bucket)
    if a.parallel == 'zero1':
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **adam)
    return model, torch.optim.AdamW(model.parameters(), **adam)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--parallel', choices=('ddp', 'zero1', 'fsdp2', 'tensor'), default='ddp')
    for name, value in (('width', 256), ('heads', 4), ('layers', 4), ('vocab', 2048), ('tokens', 64), ('batch', 4), ('steps', 12),
                        ('bucket', 25)):
        p.add_argument('--' + name, type=int, default=value)
    a = p.parse_args()
    dist.init_process_group('gloo')
    torch.manual_seed(1)
    model, optimizer = parallelise(GPT(a), a)
    for step in range(a.steps):
        begin = time.perf_counter()
        ids = torch.randint(a.vocab, (a.batch, a.tokens + 1))
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, a.vocab), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f'step {step} loss {loss.item():.4f} ms {1e3 * (time.perf_counter() - begin):.3f}', flush=True)


main()
