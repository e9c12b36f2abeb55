"""What operators of PyTorch take: their kernel by shape and the bytes that they move; and their times, measured on this machine.

Part of `foreline capture`; docs/how-to/capture.md is about it."""
import json
import os
import time

VERSION = 1


def write_json(path, value):
    """Whole or not at all."""
    with open(path + '.tmp', 'w') as f:
        json.dump(value, f, separators=(',', ':'))
        f.write('\n')
    os.replace(path + '.tmp', path)


# ---- tensors

def storage(t):
    return t.untyped_storage() if hasattr(t, 'untyped_storage') else t.storage()


def storage_id(t):
    try:
        return storage(t)._cdata
    except Exception:       # a subclass that wraps others has none of its own
        return id(t)


def flatten(x, out):
    """All tensors in nested lists, tuples and dicts."""
    import torch
    if isinstance(x, torch.Tensor):
        out.append(getattr(x, '_local_tensor', x))
    elif isinstance(x, (list, tuple)):
        for y in x:
            flatten(y, out)
    elif isinstance(x, dict):
        for y in x.values():
            flatten(y, out)
    return out


# ---- what operators take: kernels for the cost model, by shape

def product(b, m, n, k, times=1):
    return {'kernel': 'product', 'dims': [b, m, n, k], 'times': times, 'flop': 2.0 * times * b * m * n * k}


def convolution(x, w, out, times):
    """Of x (N, Cin, ...) with w (Cout, Cin / groups, ...), as the product of its patches."""
    groups = max(1, x.shape[1] // max(1, w.shape[1]))
    rows = out.shape[0]
    for size in out.shape[2:]:
        rows *= size
    depth = w.shape[1]
    for size in w.shape[2:]:
        depth *= size
    return product(groups, rows, w.shape[0] // groups, depth, times)


def attention(q, k, causal, backward):
    """Of queries and keys (..., heads, tokens, channels); a backward makes the scores again: five products for two."""
    b = 1
    for size in q.shape[:-2]:
        b *= size
    flop = 4.0 * b * q.shape[-2] * k.shape[-2] * q.shape[-1] * (0.5 if causal else 1) * (2.5 if backward else 1)
    return {'kernel': 'attention', 'dims': [b, q.shape[-2], k.shape[-2], q.shape[-1]], 'backward': backward, 'flop': flop}


def work_of(name, args, out):
    """The kernel of an operator beyond one pass over its bytes; None: a pass."""
    op = name.split('.')[1]
    t = [a for a in args if hasattr(a, 'shape')]
    if op == 'mm':
        return product(1, t[0].shape[0], t[1].shape[1], t[0].shape[1])
    if op in ('addmm', '_addmm_activation'):
        return product(1, t[1].shape[0], t[2].shape[1], t[1].shape[1])
    if op in ('bmm', 'baddbmm'):
        a, b = t[-2:]
        return product(a.shape[0], a.shape[1], b.shape[2], a.shape[2])
    if op in ('mv', 'addmv', 'dot', 'vdot'):
        a = t[-2]
        return product(1, a.shape[0] if a.dim() > 1 else 1, 1, a.shape[-1])
    if op in ('convolution', '_convolution', 'mkldnn_convolution'):
        return convolution(t[0], t[1], out, 1)
    if op == 'convolution_backward':
        wanted = args[-1] if isinstance(args[-1], (list, tuple)) else [True, True]
        return convolution(t[1], t[2], t[0], sum(bool(w) for w in wanted[:2]))
    if op == '_scaled_mm':
        return product(1, t[0].shape[0], t[1].shape[1], t[0].shape[1])
    if 'attention' in op and len(t) >= 3 and t[0].dim() >= 3:
        backward = 'backward' in op
        q, k = (t[1], t[2]) if backward else (t[0], t[1])
        causal = any(a is True for a in args)
        return attention(q, k, causal, backward)
    return None


READS_ROWS = ('embedding', 'index_select', 'gather', 'index', 'slice', 'select', 'narrow')   # not all of their first input
WRITES_ONLY = ('zeros', 'ones', 'full', 'zero_', 'fill_', 'zeros_like', 'ones_like', 'full_like', 'new_zeros', 'new_full',
               'rand', 'randn', 'randint', 'normal_', 'uniform_', 'arange', 'bernoulli_')
MOVES_NOTHING = ('empty', 'empty_like', 'new_empty', 'empty_strided', 'new_empty_strided', 'empty_permuted', 'lift_fresh',
                 'set_', 'resize_', '_local_scalar_dense', 'is_pinned', 'record_stream', '_has_compatible_shallow_copy_type')


def bytes_of(t):
    return t.numel() * t.element_size()


def moved_of(name, ins, outs, mutates):
    """Bytes that an operator reads and writes: every distinct input once (what is expanded only where it is) and every
    output."""
    op = name.split('.')[1]
    if op in MOVES_NOTHING:
        return 0
    written = sum(bytes_of(t) for t in outs)
    if op in WRITES_ONLY:
        return written
    if op in READS_ROWS:
        return 2 * written + sum(bytes_of(t) for t in ins[1:])
    seen, read = set(), 0
    for t in ins:
        place = (storage_id(t), t.storage_offset(), tuple(t.shape), tuple(t.stride()))
        if place in seen:
            continue
        seen.add(place)
        full = 1
        for size, stride in zip(t.shape, t.stride()):
            full *= size if stride else 1
        read += full * t.element_size()
    if mutates and op in ('copy_', '_foreach_copy_'):
        return sum(bytes_of(t) for t in ins) - written + written
    return read + written


# ---- times of operators, measured on this machine

def build(spec, limits, torch):
    """What an operator was called with, from its spec: numbers that are neither 0, NaN nor denormal."""
    if not isinstance(spec, (list, tuple)):
        return spec
    kind = spec[0]
    if kind == 'T':
        dtype, shape, stride = getattr(torch, spec[1]), spec[2], spec[3]
        limit = limits.pop(0) if limits else None
        count = 1 + sum((n - 1) * step for n, step in zip(shape, stride)) if all(shape) else 0
        if dtype.is_floating_point:
            base = torch.rand(count).add_(0.1).to(dtype)
        elif dtype is torch.bool:
            base = torch.rand(count) < 0.5
        else:
            base = torch.randint(max(1, limit or 1), (count,), dtype=dtype)
        return base.as_strided(shape, stride)
    if kind == 'L':
        return [build(x, limits, torch) for x in spec[1:]]
    if kind == 'M':
        return {k: build(v, limits, torch) for k, v in spec[1:]}
    if kind == 'D':
        return getattr(torch, spec[1])
    if kind == 'F':
        return 0.5
    names = {'cpu': torch.device('cpu'), 'torch.strided': torch.strided, 'torch.contiguous_format': torch.contiguous_format,
             'torch.preserve_format': torch.preserve_format, 'torch.channels_last': torch.channels_last}
    return names[spec[1]]


def measure(row, torch, flush, budget_s=0.1):
    """CPU seconds of one call with cold caches, the median."""
    import statistics
    space, name, overload = row['op'].split('.')
    function = getattr(getattr(getattr(torch.ops, space), name), overload)
    calls = []
    for _ in range(2):
        limits = list(row.get('limits') or [])
        calls.append((build(row['call'][0], limits, torch), build(row['call'][1], limits, torch)))
    times, until = [], time.thread_time() + budget_s
    while len(times) < 4 or (time.thread_time() < until and len(times) < 100):
        args, kwargs = calls[len(times) % 2]
        flush.add_(1.0)
        begin = time.thread_time()
        function(*args, **kwargs)
        times.append(time.thread_time() - begin)
    return statistics.median(times[1:])


def profile(classes, path, say):
    """Measure what the table at `path` lacks; what cannot be called alone is told."""
    import torch
    try:
        import torch.distributed.fsdp       # has operators of its own
    except Exception:                       # Debian's 1.13 with Python 3.11
        pass
    torch.set_num_threads(1)
    table = {'format': 'foreline-operators', 'version': VERSION, 'device': 'cpu', 'torch': torch.__version__, 'operators': []}
    if os.path.exists(path):
        with open(path) as f:
            table = json.load(f)
    known, failed = {row['key'] for row in table['operators']}, {}
    flush = torch.zeros(1 << 20)
    with torch.no_grad():
        for row in (row for c in classes for row in c['operators']):
            if row['key'] in known:
                continue
            known.add(row['key'])
            try:
                table['operators'].append({'key': row['key'], 'op': row['op'], 'seconds': measure(row, torch, flush)})
            except Exception as e:
                failed[row['op']] = str(e).split('\n')[0][:80]
    write_json(path, table)
    say(f'{len(table["operators"])} operators are measured in {path}' + ''.join(
        f'\nnot measured: {op}: {why}' for op, why in sorted(failed.items())))
