#!/usr/bin/env python3
"""Seconds of a training step of GPT-2 124M in PyTorch on one core, to stand beside `foreline run`.

    taskset -c 1 gpt2_torch_cpu.py [TOKENS [STEPS]]

The model of foreline's zoo (biases, learned positions, tanh GELU, tied head), one sample of TOKENS
(256) in fp32, eager, one thread, Adam (fused where PyTorch has that on CPUs). CPU and wall seconds,
the medians of STEPS (6) after one that is not counted. Variables that choose kernels of OpenBLAS are
taken away: `foreline run` does without, too."""
import os
import statistics
import sys
import time

for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    if name in os.environ:
        del os.environ[name]
        os.execv(sys.executable, [sys.executable, *sys.argv])

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("PyTorch is not installed")

TOKENS, STEPS = (list(map(int, sys.argv[1:])) + [256, 6][len(sys.argv) - 1:])[:2]
LAYERS, HIDDEN, HEADS, VOCABULARY = 12, 768, 12, 50257
HIDDEN_BEHIND = torch.triu(torch.full((TOKENS, TOKENS), float("-inf")), 1)


def attend(q, k, v):
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + HIDDEN_BEHIND, -1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.after = nn.LayerNorm(HIDDEN)
        self.wide = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.narrow = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in self.qkv(self.before(x)).chunk(3, -1)
        )
        x = x + self.out(attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.after(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, HIDDEN)
        self.position = nn.Embedding(TOKENS, HIDDEN)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight
        logits = functional.linear(self.norm(self.blocks(x)), self.token.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


torch.set_num_threads(1)
torch.manual_seed(1)
model = GPT()
for parameter in model.parameters():
    if parameter.dim() > 1:
        nn.init.normal_(parameter, 0, 0.02)
try:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
except (TypeError, RuntimeError):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
tokens, targets = torch.randint(0, 256, (2, 1, TOKENS))
cpu, wall = [], []
for _ in range(STEPS + 1):
    cpu_s, wall_s = time.process_time(), time.monotonic()
    optimizer.zero_grad()
    model(tokens, targets).backward()
    optimizer.step()
    cpu.append(time.process_time() - cpu_s)
    wall.append(time.monotonic() - wall_s)
print(f"PyTorch {torch.__version__}: {statistics.median(cpu[1:]):.3f} CPU s a step, {statistics.median(wall[1:]):.3f} s")
