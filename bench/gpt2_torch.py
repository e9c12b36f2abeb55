#!/usr/bin/env python3
"""Tokens per second of GPT-2 in PyTorch, to stand beside `foreline run`.

    gpt2_torch.py LAYERS HIDDEN HEADS TOKENS BATCH MICROBATCHES STEPS

The model of foreline's zoo (GPT-2: biases, learned positions, tanh GELU, tied head), bf16 autocast
over fp32 parameters, fused Adam, PyTorch's own attention. A line each, with the median and the
memory at its peak: compiled with the vocabulary padded to 50,304 (a multiple of 128, without which
the head's products are slow), as people train it; then as it is written, not compiled."""
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("PyTorch is not installed")
if not torch.cuda.is_available():
    sys.exit("PyTorch finds no GPU")

LAYERS, HIDDEN, HEADS, TOKENS, BATCH, MICROBATCHES, STEPS = map(int, sys.argv[1:8])
VOCABULARY, PADDED, WARMUP = 50257, 50304, 5


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
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.after(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, HIDDEN)
        self.position = nn.Embedding(TOKENS, HIDDEN)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight
        logits = functional.linear(self.norm(self.blocks(x)), self.token.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens_per_s(vocabulary, compiled):
    torch.manual_seed(1)
    torch.cuda.reset_peak_memory_stats()
    model = GPT(vocabulary).cuda()
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    data = torch.randint(256, (MICROBATCHES, BATCH, TOKENS + 1), device="cuda")
    seconds = []
    for _ in range(WARMUP + STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for batch in data:
            with torch.autocast("cuda", torch.bfloat16):
                loss = run(batch[:, :-1], batch[:, 1:]) / MICROBATCHES
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return BATCH * MICROBATCHES * TOKENS / statistics.median(seconds[WARMUP:])


def main():
    for name, vocabulary, compiled in (
        ("compiled", PADDED, True),
        ("not compiled", VOCABULARY, False),
    ):
        speed = tokens_per_s(vocabulary, compiled)
        print(
            f"{speed:.0f} PyTorch {torch.__version__}, {name}, {vocabulary} classes, "
            f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB at its peak",
            flush=True,
        )


main()
