"""Networks from seeds, and what torch counts of them, for the tests beside."""
import math
import sys

try:
    import torch
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


class Products(TorchDispatchMode):
    """FLOP of matrix products and convolutions, a multiply-add as two."""

    def __init__(self):
        super().__init__()
        self.flop = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        name = function._schema.name
        if name in ("aten::mm", "aten::bmm"):
            self.flop += 2 * out.numel() * args[0].shape[-1]
        elif name in ("aten::addmm", "aten::baddbmm"):
            self.flop += 2 * out.numel() * args[1].shape[-1]
        elif name == "aten::convolution":
            x, w, transposed = args[0], args[1], args[6]
            pairs = w.numel() // w.shape[0]  # products for a number of the output
            self.flop += 2 * (x.numel() if transposed else out.numel()) * pairs
        return out


class Attention(nn.Module):
    def __init__(self, width, heads, causal, tokens, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv = nn.Linear(width, 3 * width) if fused else None
        self.q, self.k, self.v = (None,) * 3 if fused else (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        mask = torch.tril(torch.ones(tokens, tokens)) if causal else None
        self.register_buffer("mask", mask.bool() if causal else None)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, -1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (y.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, inner, causal, tokens, fused, gelu):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, causal, tokens, fused)
        self.fc, self.gelu, self.proj = nn.Linear(width, inner), gelu, nn.Linear(inner, width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.proj(self.gelu(self.fc(self.ln2(x))))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads, inner, tokens, words, causal, fused, gelu, tied=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.h = nn.ModuleList(
            Block(width, heads, inner, causal, tokens, fused, gelu) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.norm(x))


class Multihead(nn.Module):
    """torch's own attention."""

    def __init__(self, width, heads, words):
        super().__init__()
        self.e, self.a = nn.Embedding(words, width), nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, ids):
        x = self.e(ids)
        return self.a(x, x, x, need_weights=False)[0]


class Residual(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        return torch.relu(x + self.inside(x))


def images(draw):
    channels, side = draw.choice((1, 3)), draw.choice((24, 27, 32))
    layers, width, size = [], channels, side
    for _ in range(draw.randint(1, 5)):
        out = draw.choice((8, 12, 16))
        groups = draw.choice([g for g in (1, 2, 4) if width % g == 0 and out % g == 0])
        kernel = draw.choice((1, 3, 5))
        layers.append(nn.Conv2d(width, out, kernel, stride=draw.choice((1, 1, 2)),
                                padding=draw.choice((0, kernel // 2)) if size > 8 else kernel // 2,
                                groups=groups, bias=draw.random() < .5))
        size = layers[-1](torch.zeros(1, width, size, size)).shape[-1]
        layers += [nn.BatchNorm2d(out)] if draw.random() < .6 else []
        layers.append(draw.choice((nn.ReLU, nn.Sigmoid, nn.SiLU, nn.Hardswish, nn.GELU))())
        if size >= 6 and draw.random() < .4:
            layers.append(draw.choice((nn.MaxPool2d, nn.AvgPool2d))(3, 2, ceil_mode=draw.random() < .3))
            size = layers[-1](torch.zeros(1, out, size, size)).shape[-1]
        if draw.random() < .4:
            layers.append(Residual(nn.Sequential(nn.Conv2d(out, out, 3, padding=1, bias=False),
                                                 nn.BatchNorm2d(out))))
        width = out
    if draw.random() < .3:
        layers.append(nn.ConvTranspose2d(width, 6, 3, stride=2))
        width, size = 6, 2 * size + 1
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    model = nn.Sequential(*layers)
    return model, torch.zeros(draw.choice((1, 2, 3)), channels, side, side)


def perceptron(draw):
    sizes = [draw.randint(1, 64) for _ in range(draw.randint(2, 6))]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b, bias=draw.random() < .7), draw.choice((nn.ReLU, nn.Tanh, nn.Identity))()]
    return nn.Sequential(*layers), torch.zeros(draw.randint(1, 5), sizes[0])


class Tanh(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def transformer(draw):
    heads, tokens, words = draw.choice((1, 2, 4)), draw.choice((5, 8, 16)), draw.randint(20, 60)
    width = heads * draw.choice((4, 8))
    ids = torch.zeros(draw.choice((1, 2)), tokens, dtype=torch.long)
    if draw.random() < .2:
        return Multihead(width, heads, words), ids
    return Transformer(draw.randint(1, 3), width, heads, width * draw.choice((2, 4)), tokens, words,
                       draw.random() < .5, draw.random() < .5, draw.choice((nn.GELU(), Tanh())),
                       draw.random() < .3), ids
