"""Capture what each rank of a PyTorch training script does, without the other ranks and without a GPU.

Called by `foreline capture`; docs/capture.md is about it. The script runs unmodified, one rank at a time, as torchrun
would start it, with a process group that communicates nothing and, unless --real, tensors that hold nothing
(FakeTensorMode). Recorded are operators with their shapes, communication, waits and memory, between step marks; a period
that recurs is kept. Ranks whose periods are equal are one class, written once.

    capture.py -o DIR --world-size N [--ranks 0,1] [--steps K] [--real] [--dry] -- script.py args ...

Parts of this file: what operators take (work_of), the record, the process group, the patches that make a script run
alone, one rank, all ranks. Standard library and torch only; Python >= 3.9, torch >= 1.13."""
import argparse
import hashlib
import json
import os
import runpy
import subprocess
import sys
import time

FORMAT, CLASS_FORMAT, VERSION = 'foreline-capture', 'foreline-capture-class', 1
TYPES = {'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16', 'float8_e4m3fn': 'fp8', 'float8_e5m2': 'fp8'}
FORWARD, BACKWARD, UPDATE = 'forward', 'backward', 'update'
MOST_STEPS = 24         # after which a script whose steps differ is given up
SMALL = 1 << 16         # numbers of an integer tensor that keeps its values in a fake run


class Stop(BaseException):
    """Enough steps are captured: unwinds the script."""


class Unsuited(Exception):
    """The script cannot be captured; the message is one line with the remedy."""


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


# ---- the record

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


class Record:
    """What one rank does, in order. Entries are lists that begin with what they are:
    C operator phase module held   X kind group bytes id type reduction   S, R group distance bytes tag id   W id   B"""

    def __init__(self, dry, most):
        self.dry, self.most = dry, most
        self.log, self.marks, self.times, self.first = [], [], [], None
        self.operators, self.operator_of = [], {}
        self.modules, self.module_of = [''], {'': 0}
        self.groups, self.own = [], []          # members of all groups; those that this rank is in
        self.module, self.stack, self.names = 0, [], {}
        self.ids = self.backward = self.updating = self.quiet = 0
        self.pending = {}                       # storage that a collective of C++ writes: its id
        self.live, self.now, self.peak, self.peaks = {}, 0, 0, []   # bytes, of each step
        self.explicit = False                   # the script marks its steps itself
        self.optimizers, self.notes = [], set()
        self.stub_s, self.begin_s = 0.0, 0.0

    def phase(self):
        return UPDATE if self.updating else BACKWARD if self.backward else FORWARD

    def put(self, entry):
        self.log.append(entry)
        if self.dry:
            self.times.append(time.thread_time() - self.stub_s)

    # communication

    def collective(self, kind, group, size, dtype, reduction, tensors, python):
        """It is issued; returns what Python callers wait for. C++ waits where nobody sees it: in a backward before somebody
        touches the tensors, elsewhere at once."""
        self.ids += 1
        self.put(['X', kind, group, int(size), self.ids, dtype, reduction])
        if python:
            return self.ids
        if self.backward:
            for t in tensors:
                self.pending[storage_id(t)] = self.ids
        else:
            self.put(['W', self.ids])
        return self.ids

    def message(self, what, group, distance, size, tag):
        self.ids += 1
        self.put([what, group, distance, int(size), int(tag), self.ids])
        return self.ids

    def touch(self, tensors):
        """The first operator that reads or writes what a collective fills has waited for it."""
        for t in tensors:
            waited = self.pending.get(storage_id(t))
            if waited is not None:
                for k in [k for k, v in self.pending.items() if v == waited]:
                    del self.pending[k]
                self.put(['W', waited])

    def end_backward(self):
        for waited in sorted(set(self.pending.values())):
            self.put(['W', waited])
        self.pending.clear()
        self.put(['B'])

    # memory: storages that operators made, looked at again whenever there may be a new peak

    def allocate(self, outs):
        from torch.multiprocessing.reductions import StorageWeakRef
        for t in outs:
            try:
                s = storage(t)
                key, size = s._cdata, s.nbytes()
            except Exception:
                continue
            old = self.live.get(key)
            if old and not old[0].expired():
                if old[1] != size:              # FSDP resizes storages
                    self.now += size - old[1]
                    self.live[key] = (old[0], size)
                continue
            if old:
                self.now -= old[1]
            self.live[key] = (StorageWeakRef(s), size)
            self.now += size
        if self.now > self.peak:
            self.sweep()
            self.peak = max(self.peak, self.now)
        return self.now

    def sweep(self):
        for k in [k for k, (ref, _) in self.live.items() if ref.expired()]:
            self.now -= self.live.pop(k)[1]

    # steps

    def mark(self):
        """A step has ended."""
        self.sweep()
        self.marks.append(len(self.log))
        self.peaks.append(self.peak)
        self.peak = self.now
        self.put(['M'])
        if len(self.marks) >= self.most and (self.period() or len(self.marks) >= MOST_STEPS):
            raise Stop()

    def steps(self):
        ends = self.marks
        return [(a + 1, b) for a, b in zip(ends, ends[1:])]

    def shape(self, begin, end):
        """A step without what may differ from one to the next: ids count from its beginning."""
        first, out = None, []
        for e in self.log[begin:end]:
            if e[0] == 'C':
                out.append((e[1], e[2], e[3]))
            elif e[0] in 'XSR':
                at = 4 if e[0] == 'X' else 5
                first = e[at] if first is None else first
                out.append(tuple(e[:at] + [e[at] - first] + e[at + 1:]))
            elif e[0] == 'W':
                out.append(('W', e[1] - (first or e[1])))
        return out

    def period(self):
        """How many steps at the end recur as those before them did; 0: none do."""
        steps = [self.shape(*s) for s in self.steps()]
        for n in range(1, 5):
            if len(steps) >= 2 * n and steps[-n:] == steps[-2 * n:-n]:
                return n
        return 0


def spec_of(x, torch):
    """What an operator was called with, for its name in tables: no values, no floats."""
    if isinstance(x, torch.Tensor):
        x = getattr(x, '_local_tensor', x)
        return ('T', str(x.dtype)[6:], tuple(x.shape), tuple(x.stride()))
    if isinstance(x, (list, tuple)):
        return ('L',) + tuple(spec_of(y, torch) for y in x)
    if isinstance(x, dict):
        return ('M',) + tuple((k, spec_of(v, torch)) for k, v in sorted(x.items()))
    if isinstance(x, torch.dtype):
        return ('D', str(x)[6:])
    if isinstance(x, float):
        return ('F',)
    if isinstance(x, (bool, int, str, type(None))):
        return x
    return ('O', str(x) if isinstance(x, (torch.device, torch.layout, torch.memory_format)) else type(x).__name__)


def index_limit(t, torch, fake):
    """Of an integer tensor the largest value + 1, so that a table can be measured with indices that exist."""
    if t.dtype not in (torch.int64, torch.int32) or t.numel() == 0 or t.numel() > SMALL or is_fake(t, fake):
        return None
    from torch.utils._mode_utils import no_dispatch
    with no_dispatch():
        return int(t.max()) + 1


def is_fake(t, fake):
    return fake is not None and isinstance(t, fake)


def make_recorder(record, fake_mode):
    """A dispatch mode that records every operator below autograd, and above the fake tensors."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._mode_utils import no_dispatch
    from torch._subclasses import FakeTensor
    fake = FakeTensor if fake_mode else None
    plain = {torch.Tensor, torch.nn.Parameter, FakeTensor}
    made_fake = {}          # real tensors that met fake ones
    skipped = ('prim', '_c10d_functional', 'prims', 'profiler', 'c10d', 'debugprims')

    def to_fake(x):
        if isinstance(x, fake) or type(x) not in (torch.Tensor, torch.nn.Parameter):
            return x
        if id(x) not in made_fake:
            made_fake[id(x)] = (x, fake_mode.from_tensor(x))
        return made_fake[id(x)][1]

    def convert(x):
        if isinstance(x, torch.Tensor):
            return to_fake(x)
        if isinstance(x, (list, tuple)):
            return type(x)(convert(y) for y in x) if type(x) in (list, tuple) else x
        return x

    def stays_real(f, name, ins, args, kwargs):
        """Small integers keep their values, as long as they meet nothing fake: indices, masks, counts."""
        if any(is_fake(t, fake) for t in ins) or any(t.numel() > SMALL for t in ins):
            return False
        if ins and any(t.dtype.is_floating_point and t.numel() > 1 for t in ins):
            return False
        dtype = kwargs.get('dtype')
        if ins and dtype is None:
            return not any(t.dtype.is_floating_point for t in ins) or name.startswith('aten._local_scalar')
        if dtype is None or dtype.is_floating_point or dtype.is_complex:
            op = name.split('.')[1]
            return dtype is None and op in ('arange', 'randint', 'randperm') and not any(isinstance(a, float) for a in args)
        sizes = args[0] if args and isinstance(args[0], (list, tuple)) else args[-1] if args else ()
        count = 1
        for size in sizes if isinstance(sizes, (list, tuple)) else (sizes,):
            count *= size if isinstance(size, int) and size > 0 else 1
        return count <= SMALL

    def call(f, name, ins, args, kwargs):
        if not fake_mode:
            return f(*args, **kwargs)
        if stays_real(f, name, ins, args, kwargs):
            with no_dispatch():
                return f(*args, **kwargs)
        if name.startswith('aten.lift'):                # torch.tensor(): the mode makes what is real fake
            return f(*args, **kwargs)
        if name == 'aten._local_scalar_dense.default':  # a value that nobody has: 1, since Adam divides by 1 - beta^step
            record.notes.add('reads values of tensors (item()): they were taken to be 1')
            return 1.0 if args[0].is_floating_point() else args[0].dtype is torch.bool or 1
        return f(*convert(args), **{k: convert(v) for k, v in kwargs.items()})

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, f, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = str(f)
            if any(t not in plain for t in types):      # a subclass makes of it what it does: DTensor, with its parts
                return NotImplemented
            if name.startswith('_c10d_functional') and '_wrap_' not in name:
                return functional(record, name.split('.')[1], args)
            ins = flatten(args, flatten(kwargs, []))
            if any(isinstance(t, FakeTensor) and t.fake_mode is not fake_mode for t in ins):
                return f(*args, **kwargs)               # somebody asks for shapes alone
            if record.quiet or record.dry or name.split('.')[0] in skipped:
                return call(f, name, ins, args, kwargs)
            out = call(f, name, ins, args, kwargs)
            self.note(f, name, ins, args, kwargs, out)
            return out

        def note(self, f, name, ins, args, kwargs, out):
            outs = flatten(out, [])
            mutates = f._schema.is_mutable if hasattr(f._schema, 'is_mutable') else name.split('.')[1].endswith('_')
            if outs and ins and not mutates:    # a view: nothing moves
                own = {storage_id(t) for t in ins}
                if all(storage_id(t) in own for t in outs):
                    return
            if record.pending:
                record.touch(ins)
            key = (name, spec_of(args, torch), spec_of(kwargs, torch))
            number = record.operator_of.get(key)
            if number is None:
                number = record.operator_of[key] = len(record.operators)
                record.operators.append(describe(key, ins, args, outs, mutates, fake))
            record.put(['C', number, record.phase(), record.module, record.allocate(outs)])

    def describe(key, ins, args, outs, mutates, fake):
        name = key[0]
        first = outs[0] if outs else None
        row = {'op': name, 'key': hashlib.sha256(repr(key).encode()).hexdigest()[:16]}
        work = work_of(name, args, first)
        row.update(work or {'kernel': 'pass', 'flop': 0.0})
        row['bytes'] = int(moved_of(name, ins, outs if outs else [t for t in ins[:1] if mutates], mutates))
        floats = [t for t in ins + outs if t.dtype.is_floating_point]
        row['type'] = TYPES.get(str(floats[0].dtype)[6:], '') if floats else ''
        row['call'] = [key[1], key[2]]
        limits = [index_limit(t, torch, fake) for t in ins]
        if any(limits):
            row['limits'] = limits
        return row

    return Recorder()


# ---- communication that goes nowhere

class Work:
    """What Python callers wait for."""

    def __init__(self, record, number, result):
        self.record, self.number, self.tensors, self.done = record, number, result, False

    def wait(self, timeout=None):
        if not self.done:
            self.done = True
            self.record.put(['W', self.number])
        return True

    synchronize = block_current_stream = wait

    def is_completed(self):
        return True

    is_success = is_completed

    def exception(self):
        return None

    def result(self):
        return self.tensors

    def get_future(self):
        import torch
        future = torch.futures.Future()
        future.set_result(self.tensors)
        return future


def total(tensors):
    return sum(bytes_of(t) for t in flatten(tensors, []))


def type_of(tensors):
    found = flatten(tensors, [])
    return str(found[0].dtype)[6:] if found else 'uint8'


def reduction_of(options):
    op = str(getattr(options, 'reduceOp', 'SUM')).upper()
    return next((word.lower() for word in ('AVG', 'MIN', 'MAX') if word in op), 'sum')


def fill(record, outs, source=None):
    """What arrives: numbers like those that are there, no NaN and no denormals, which are slow."""
    began = time.thread_time()
    record.quiet += 1
    for i, t in enumerate(outs):
        s = source[i % len(source)] if source else None
        if s is not None and s.numel() == t.numel():
            t.copy_(s.reshape(t.shape))
        elif t.is_floating_point():
            t.normal_()
        else:
            t.zero_()
    record.quiet -= 1
    record.stub_s += time.thread_time() - began


def functional(record, op, args):
    """torch.distributed._functional_collectives: the operators that DTensor issues; waits are explicit."""
    import torch
    import torch.distributed.distributed_c10d as c10d
    if op == 'wait_tensor':
        waited = record.pending.pop(storage_id(args[0]), None)
        if waited is not None:
            record.put(['W', waited])
        return args[0]
    x = args[0]
    parts = list(x) if isinstance(x, (list, tuple)) else [x]
    name = next(a for a in reversed(args) if isinstance(a, str))
    group = c10d._resolve_process_group(name)
    n, number = group.size(), group.number
    record.quiet += 1
    base = op.rstrip('_').replace('_coalesced', '')
    if base.startswith('all_reduce') or base == 'broadcast':
        outs = parts if op.endswith('_') else [t.clone() for t in parts]
        kind, size = ('allreduce' if base.startswith('all_r') else 'broadcast'), total(parts)
    elif base.startswith('all_gather_into_tensor'):
        outs = [t.new_empty((t.shape[0] * n,) + tuple(t.shape[1:])) for t in parts]
        kind, size = 'allgather', total(outs)
    elif base.startswith('reduce_scatter_tensor'):
        outs = [t.new_empty((t.shape[0] // n,) + tuple(t.shape[1:])) for t in parts]
        kind, size = 'reducescatter', total(parts)
    elif base == 'all_to_all_single':
        rows = sum(int(s) for s in args[1])
        outs = [x.new_empty((rows,) + tuple(x.shape[1:]))]
        kind, size = 'alltoall', total(parts)
    else:
        raise Unsuited(f'{op}: this collective is not known; write to the authors')
    record.quiet -= 1
    record.allocate(outs)
    if kind != 'allreduce' and kind != 'broadcast':
        fill(record, outs)
    reduction = next((a for a in args if a in ('sum', 'avg', 'min', 'max')), 'sum')
    asked = record.collective(kind, number, size, type_of(parts), reduction, outs, True)
    for t in outs:
        record.pending[storage_id(t)] = asked
    return outs if isinstance(x, (list, tuple)) else outs[0]


def make_group_class(record):
    import torch
    import torch.distributed.distributed_c10d as c10d
    from torch._C._distributed_c10d import ProcessGroup, _create_work_from_future
    callers = {c10d.__file__}
    for module in ('torch.distributed.nn.functional',):
        callers.add(getattr(sys.modules.get(module), '__file__', None))

    class Group(ProcessGroup):
        """A process group of which one rank is there. `number` counts the groups that this rank is in."""

        def __init__(self, rank, size, members):
            super().__init__(rank, size)
            self.place, self.count, self.members, self.number = rank, size, members, len(record.own)
            record.own.append(members)

        def size(self):
            return self.count

        def rank(self):
            return self.place

        def name(self):
            return 'foreline'

        getBackendName = name

        def _set_group_name(self, name):
            self.label = name

        def _set_group_desc(self, text):
            pass

        group_name = property(lambda self: self.label)
        group_desc = property(lambda self: self.label)

        def collect(self, kind, size, outs, like, options=None):
            frame = sys._getframe(2)
            python = frame.f_code.co_filename in callers
            asked = record.collective(kind, self.number, size, type_of(like), reduction_of(options), flatten(outs, []), python)
            if python:
                return Work(record, asked, outs)
            future = torch.futures.Future()
            future.set_result(outs)
            return _create_work_from_future(future)

        def allreduce(self, tensors, options=None):
            return self.collect('allreduce', total(tensors), tensors, tensors, options)

        allreduce_coalesced = allreduce

        def broadcast(self, tensors, options=None):
            return self.collect('broadcast', total(tensors), tensors, tensors)

        def reduce(self, tensors, options=None):
            return self.collect('reduce', total(tensors), tensors, tensors, options)

        def allgather(self, outs, ins, options=None):
            for o, i in zip(outs, ins):
                fill(record, o, [i])
            return self.collect('allgather', total(outs), outs, ins)

        def allgather_coalesced(self, outs, ins, options=None):
            for o in outs:
                fill(record, o, ins)
            return self.collect('allgather', total(outs), outs, ins)

        def _allgather_base(self, out, x, options=None):
            fill(record, list(out.view(self.count, -1)), [x.reshape(-1)])
            return self.collect('allgather', total(out), [out], x)

        def allgather_into_tensor_coalesced(self, outs, ins, options=None):
            for o, i in zip(outs, ins):
                fill(record, list(o.view(self.count, -1)), [i.reshape(-1)])
            return self.collect('allgather', total(outs), outs, ins)

        def reduce_scatter(self, outs, ins, options=None):
            fill(record, outs, [i[self.place] for i in ins])
            return self.collect('reducescatter', total(ins), outs, ins, options)

        def _reduce_scatter_base(self, out, x, options=None):
            fill(record, [out], [x.reshape(self.count, -1)[self.place]])
            return self.collect('reducescatter', total(x), [out], x, options)

        def reduce_scatter_tensor_coalesced(self, outs, ins, options=None):
            fill(record, outs, [i.reshape(self.count, -1)[self.place] for i in ins])
            return self.collect('reducescatter', total(ins), outs, ins, options)

        def alltoall_base(self, out, x, out_splits, in_splits, options=None):
            fill(record, [out], [x])
            if in_splits and len(set(in_splits)) > 1:
                record.notes.add('all-to-all with uneven splits: its mean is sent')
            return self.collect('alltoall', total(x), [out], x)

        def alltoall(self, outs, ins, options=None):
            fill(record, outs, ins)
            return self.collect('alltoall', total(ins), outs, ins)

        def gather(self, outs, ins, options=None):
            for o in outs:
                fill(record, o, ins)
            return self.collect('gather', self.count * total(ins), outs, ins)

        def scatter(self, outs, ins, options=None):
            fill(record, outs, ins[0] if ins else None)
            return self.collect('scatter', self.count * total(outs), outs, outs)

        def barrier(self, opts=None):
            return self.collect('allreduce', 4, [], [])

        monitored_barrier = barrier
        all_to_all_single, all_gather_single, reduce_scatter_single = alltoall_base, _allgather_base, _reduce_scatter_base
        all_gather_single_coalesced = allgather_into_tensor_coalesced
        reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

        def send(self, tensors, to, tag):
            distance = (to - self.place) % self.count
            return Work(record, record.message('S', self.number, distance, total(tensors), tag), tensors)

        def recv(self, tensors, source, tag):
            fill(record, tensors)
            distance = (source - self.place) % self.count
            return Work(record, record.message('R', self.number, distance, total(tensors), tag), tensors)

        def recv_anysource(self, tensors, tag):
            raise Unsuited('recv() without a source: who sends is known only in a real run; name the source')

        def _start_coalescing(self, device=None):
            pass

        def _end_coalescing(self, device=None):
            return Work(record, record.ids, [])

    return Group


# ---- patches: what a script asks of others, and the devices that are not there

def replace(module, name, value):
    if hasattr(module, name):
        setattr(module, name, value)


def patch_groups(record, rank, world):
    import inspect
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d
    Group = make_group_class(record)
    helper = c10d._new_process_group_helper
    names = list(inspect.signature(helper).parameters)
    making = []

    def new_group_helper(*args, **kwargs):
        given = dict(zip(names, args), **kwargs)
        members = [int(r) for r in given.get('global_ranks_in_group') or range(world)]
        record.groups.append(members)
        making.append(members)
        given['backend'] = dist.Backend('foreline')
        if 'device_id' in given:
            given['device_id'] = None
        try:
            out = helper(**given)
        finally:
            making.pop()
        return out

    def make(store, place, size, timeout):
        return Group(place, size, making[-1])

    def rendezvous(url, rank_given=-1, world_given=-1, **kwargs):
        if world_given not in (-1, None, world):
            raise Unsuited(f'the script asks for {world_given} ranks: capture it with --world-size {world_given}')
        yield Store(), rank, world

    class Store(dist.Store):
        """Answers every question at once."""

        def __init__(self):
            super().__init__()
            self.kept = {}

        def set(self, key, value):
            self.kept[key] = value if isinstance(value, bytes) else str(value).encode()

        def get(self, key):
            return self.kept.get(key, b'0')

        def add(self, key, amount):
            return world

        def wait(self, *args):
            pass

        def set_timeout(self, timeout):
            pass

    dist.Backend.register_backend('foreline', make)
    c10d._new_process_group_helper = new_group_helper
    c10d.rendezvous = rendezvous
    replace(c10d, '_store_based_barrier', lambda *a, **k: None)
    patch_objects(record, rank)


def patch_objects(record, rank):
    """Objects that ranks exchange: each has its own."""
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d

    def keep(objects, *args, **kwargs):
        record.notes.add('exchanges objects (broadcast_object_list and others): each rank kept its own')

    def gather(objects, own, *args, **kwargs):
        keep(objects)
        for i in range(len(objects) if objects else 0):
            objects[i] = own

    def scatter(out, objects, *args, **kwargs):
        keep(objects)
        out[0] = objects[rank] if objects else None
    for module in (dist, c10d):
        replace(module, 'broadcast_object_list', keep)
        replace(module, 'all_gather_object', gather)
        replace(module, 'gather_object', lambda own, objects=None, *a, **k: gather(objects, own))
        replace(module, 'scatter_object_list', scatter)


def around(record, function, key, end):
    """The outermost call of `function` raises record.KEY meanwhile."""
    def wrapped(*args, **kwargs):
        setattr(record, key, getattr(record, key) + 1)
        try:
            return function(*args, **kwargs)
        finally:
            setattr(record, key, getattr(record, key) - 1)
            if getattr(record, key) == 0 and sys.exc_info()[0] is None:
                end()
    return wrapped


def patch_steps(record):
    """Backwards, optimizer steps and modules."""
    import builtins
    import torch
    torch.autograd.backward = around(record, torch.autograd.backward, 'backward', record.end_backward)
    torch.autograd.grad = around(record, torch.autograd.grad, 'backward', record.end_backward)
    init = torch.optim.Optimizer.__init__

    def step_ends():
        if not record.explicit:
            record.mark()

    def optimizer_init(self, *args, **kwargs):
        init(self, *args, **kwargs)
        record.optimizers.append(self)
        kind = type(self)
        if 'step' in kind.__dict__ and not hasattr(kind.step, 'foreline'):
            kind.step = around(record, kind.step, 'updating', step_ends)
            kind.step.hooked = kind.step.foreline = True    # `hooked`: torch wraps it no further
    torch.optim.Optimizer.__init__ = optimizer_init

    def explicit():
        record.explicit = True
        record.mark()
    builtins.foreline_step = explicit


def patch_modules(record):
    """Which module is at work; backwards are told by hooks on what forwards return."""
    import torch
    from torch.nn.modules import module as M

    def enter(module, inputs):
        if not record.stack:
            record.first = len(record.log) if record.first is None else record.first
            for name, inner in module.named_modules():
                record.names.setdefault(id(inner), (name, inner))
        name = record.names.get(id(module), (type(module).__name__,))[0]
        if name not in record.module_of:
            record.module_of[name] = len(record.modules)
            record.modules.append(name)
        record.stack.append(record.module)
        record.module = record.module_of[name]

    def leave(module, inputs, out):
        number = record.module
        record.module = record.stack.pop() if record.stack else 0

        def back(grad):
            if record.backward:
                record.module = number
        for t in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn is not None and not hasattr(t, 'foreline'):
                t.foreline = True
                t.register_hook(back)
    M.register_module_forward_pre_hook(enter)
    M.register_module_forward_hook(leave)


def patch_script(record, rank):
    """What would start processes, compile, or write files."""
    import torch
    import torch.multiprocessing
    import torch.utils.data as data
    init = data.DataLoader.__init__

    def loader_init(self, *args, **kwargs):
        args = args[:5] + ((0,) if len(args) > 5 else ()) + args[6:]
        for word in ('num_workers', 'prefetch_factor', 'persistent_workers', 'pin_memory', 'timeout',
                     'multiprocessing_context'):
            kwargs.pop(word, None)
        init(self, *args, **kwargs)

    def spawn(function, args=(), nprocs=1, *rest, **kwargs):
        function(rank % max(1, nprocs), *args)

    def uncompiled(model=None, *args, **kwargs):
        record.notes.add('torch.compile: captured as if it were not compiled; operators are not fused')
        return model if model is not None else lambda f: f
    data.DataLoader.__init__ = loader_init
    torch.multiprocessing.spawn = spawn
    replace(torch, 'compile', uncompiled)
    if hasattr(torch.nn.Module, 'compile'):
        torch.nn.Module.compile = lambda self, *a, **k: uncompiled(self) and None
    torch.save = lambda *a, **k: record.notes.add('torch.save: nothing is written')
    scaler = getattr(getattr(torch.cuda, 'amp', None), 'GradScaler', None)
    for kind in (scaler or object).__mro__[:-1]:
        if '_maybe_opt_step' in kind.__dict__:
            kind._maybe_opt_step = lambda self, optimizer, state, *a, **k: optimizer.step(*a, **k)


def patch_fake():
    """What scripts and DistributedDataParallel ask of tensors that hold nothing."""
    import contextlib
    import torch
    import torch.distributed as dist
    import torch.nn.parallel.distributed as ddp
    from torch._subclasses import FakeTensor
    from torch.nn import parameter
    FakeTensor.__format__ = lambda self, spec: format(self.item(), spec) if self.dim() == 0 else str(tuple(self.shape))
    if torch.__version__ < '2':     # every fake parameter passes for an uninitialised one, and marks are unknown operators
        def is_instance(kind, x):
            if kind is parameter.Parameter:
                return type.__instancecheck__(kind, x) or (isinstance(x, torch.Tensor) and getattr(x, '_is_param', False))
            return type.__instancecheck__(kind, x)

        class Unrecorded(contextlib.ContextDecorator):
            def __init__(self, *args, **kwargs):
                pass

            def __enter__(self):
                return self

            def __exit__(self, *error):
                return False
        parameter._ParameterMeta.__instancecheck__ = is_instance
        torch.autograd.profiler.record_function = Unrecorded
    for module in (dist, ddp.dist, ddp):
        for name in ('_verify_params_across_processes', '_verify_param_shape_across_processes', '_sync_module_states'):
            replace(module, name, lambda *a, **k: None)


def cuda_mode():
    """--device cuda without a GPU: what is asked of CUDA happens on the CPU, whose operators have the same shapes."""
    import torch
    from torch.overrides import TorchFunctionMode

    def is_cuda(x):     # or a CPU with a number, which fake tensors take for another one
        return isinstance(x, torch.device) and (x.type == 'cuda' or x.index is not None) or (
            isinstance(x, str) and (x == 'cuda' or x.startswith(('cuda:', 'cpu:'))))

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            name = getattr(function, '__name__', '')
            if name in ('cuda', 'pin_memory') and args and isinstance(args[0], torch.Tensor):
                return args[0]
            if name == 'to' and len(args) > 1 and type(args[1]) is int:
                args = (args[0], 'cpu', *args[2:])
            if is_cuda(kwargs.get('device')) or type(kwargs.get('device')) is int:
                kwargs['device'] = 'cpu'
            return function(*('cpu' if is_cuda(a) else a for a in args), **kwargs)
    return OnCpu()


def patch_cuda(rank, node):
    """What torch.cuda says, as if there were GPUs."""
    import torch
    import torch.distributed as dist
    cuda = torch.cuda

    class Stream:
        cuda_stream, device = 0, torch.device('cpu')

        def __init__(self, *args, **kwargs):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False

        def __getattr__(self, name):
            return lambda *a, **k: None

    def on_cpu(function, place):
        def wrapped(*args, **kwargs):
            args = args[:place] + tuple('cpu' if str(a).startswith('cuda') else a for a in args[place:place + 1]) + args[place + 1:]
            if str(kwargs.get('device_type')).startswith('cuda'):
                kwargs['device_type'] = 'cpu'
            return function(*args, **kwargs)
        return wrapped
    for name, value in (('is_available', True), ('device_count', node), ('current_device', rank % node), ('is_bf16_supported', True),
                        ('get_device_name', 'foreline'), ('get_device_capability', (9, 0)), ('mem_get_info', (80 << 30, 80 << 30)),
                        ('set_device', None), ('synchronize', None), ('empty_cache', None), ('manual_seed', None), ('init', None),
                        ('manual_seed_all', None), ('reset_peak_memory_stats', None), ('_lazy_init', None), ('set_stream', None),
                        ('max_memory_allocated', 0), ('memory_allocated', 0), ('memory_reserved', 0), ('max_memory_reserved', 0)):
        setattr(cuda, name, lambda *a, value=value, **k: value)
    cuda.Stream = cuda.Event = cuda.stream = cuda.current_stream = cuda.default_stream = Stream
    for name, value in (('is_available', True), ('device_count', node), ('current_device_index', rank % node), ('synchronize', None),
                        ('set_device_index', None), ('device_index', Stream()), ('current_stream', Stream()), ('current_accelerator', torch.device('cpu'))):
        if hasattr(torch, 'accelerator'):
            setattr(torch.accelerator, name, lambda *a, value=value, **k: value)
    torch.autocast.__init__ = on_cpu(torch.autocast.__init__, 1)
    if hasattr(dist, 'device_mesh'):
        dist.init_device_mesh = dist.device_mesh.init_device_mesh = on_cpu(dist.device_mesh.init_device_mesh, 0)
    to = torch.nn.Module.to

    def module_to(self, *args, **kwargs):
        dtype = kwargs.get('dtype') or next((a for a in args if isinstance(a, torch.dtype)), None)
        return to(self, dtype) if dtype else self
    torch.nn.Module.to, torch.nn.Module.cuda = module_to, lambda self, *a, **k: self
    parallel = torch.nn.parallel.DistributedDataParallel
    init = parallel.__init__
    parallel.__init__ = lambda self, module, device_ids=None, output_device=None, **kwargs: init(self, module, **kwargs)
    from torch.optim import optimizer
    if hasattr(optimizer, '_default_to_fused_or_foreach'):      # as on a GPU
        for module in list(sys.modules.values()):
            if getattr(module, '__name__', '').startswith('torch.optim'):
                replace(module, '_default_to_fused_or_foreach', lambda *a, **k: (False, True))


# ---- one rank

def unique_bytes(tensors):
    sizes = {}
    for t in flatten(list(tensors), []):
        try:
            sizes[storage_id(t)] = storage(t).nbytes()
        except Exception:
            sizes[id(t)] = bytes_of(t)
    return sum(sizes.values())


def kept_of(record):
    """Bytes of parameters, gradients and optimizer states between two steps."""
    parameters, gradients, states = [], [], []
    for optimizer in record.optimizers:
        for group in optimizer.param_groups:
            parameters += group['params']
        for state in optimizer.state.values():
            states += flatten(state, [])
    gradients = [p.grad for p in parameters if p.grad is not None]
    return {'weight_bytes': unique_bytes(parameters), 'gradient_bytes': unique_bytes(gradients),
            'state_bytes': unique_bytes(states)}


def period_of(record):
    """The entries that recur, with ids counted from 0, and which log they are of."""
    n = record.period()
    steps = record.steps()
    if not record.marks:
        raise Unsuited('no step was seen: an optimizer must step, or the script call foreline_step()')
    if not steps:
        record.notes.add('one step alone: from the first module that is called')
        return 1, record.first or 0, record.marks[0]
    if n == 0 and len(steps) > 1:
        record.notes.add('the last steps differ: the last one is taken')
    begin, end = steps[-max(n, 1)][0], steps[-1][1]
    return max(n, 1), begin, end


WORDS = {'X': 'collective', 'S': 'send', 'R': 'receive', 'W': 'wait', 'C': 'compute'}


def write_ops(record, begin, end):
    """One object for each entry; waits for what was issued before the period are dropped."""
    ids, ops = {}, []
    for e in record.log[begin:end]:
        if e[0] == 'C':
            op = {'op': 'compute', 'operator': e[1], 'phase': e[2]}
            if e[3]:
                op['module'] = e[3]
            op['held'] = e[4]
            ops.append(op)
        elif e[0] == 'X':
            ids[e[4]] = len(ids)
            op = {'op': e[1], 'group': e[2], 'bytes': e[3], 'id': ids[e[4]], 'type': e[5]}
            if e[6] != 'sum':
                op['reduction'] = e[6]
            ops.append(op)
        elif e[0] in 'SR':
            ids[e[5]] = len(ids)
            ops.append({'op': 'send' if e[0] == 'S' else 'recv', 'group': e[1], 'distance': e[2], 'bytes': e[3],
                        'tag': e[4], 'id': ids[e[5]]})
        elif e[0] == 'W' and e[1] in ids:
            ops.append({'op': 'wait', 'id': ids[e[1]]})
    return ops


def result_of(record, o):
    periods, begin, end = period_of(record)
    used = sorted({e[1] for e in record.log[begin:end] if e[0] == 'C'})
    place = {number: i for i, number in enumerate(used)}
    ops = write_ops(record, begin, end)
    for op in ops:
        if 'operator' in op:
            op['operator'] = place[op['operator']]
    return {'format': CLASS_FORMAT, 'version': VERSION, 'steps': periods, **kept_of(record), 'peak_bytes': max(record.peaks[-periods:]),
            'modules': record.modules, 'operators': [record.operators[i] for i in used], 'ops': ops,
            'own': record.own, 'groups': record.groups, 'notes': sorted(record.notes)}


def dry_times(record):
    """Seconds of the rank's own before each communication and behind the last one, the median of the periods that are
    alike."""
    import statistics
    steps, rows = record.steps(), []
    n = record.period() or 1
    for i in range(len(steps) - n, -1, -n):
        if record.shape(*steps[i]) != record.shape(*steps[len(steps) - n]):
            continue
        begin, end = steps[i][0], steps[i + n - 1][1]
        moments = [record.times[begin - 1]]
        moments += [record.times[k] for k in range(begin, end) if record.log[k][0] in 'XSR'] + [record.times[end]]
        rows.append([max(0.0, y - x) for x, y in zip(moments, moments[1:])])
    return [statistics.median(column) for column in zip(*rows)]


def run_script(record, words):
    sys.argv = list(words)
    try:
        if words[0] == '-m':
            sys.argv = list(words[1:])
            runpy.run_module(words[1], run_name='__main__', alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
            runpy.run_path(words[0], run_name='__main__')
    except Stop:
        pass
    except SystemExit as e:
        if e.code not in (None, 0) and not record.marks:
            raise Unsuited(f'the script ended with status {e.code} before its first step')


def capture_rank(o):
    """In a process of its own: one rank; prints its result as JSON into the file o.child."""
    import contextlib
    try:
        import torch
        import torch.distributed as dist
    except ImportError as e:
        raise Unsuited(f'{sys.executable} has no PyTorch ({e}): install torch, or name the python that has it behind --')
    if not dist.is_available():
        raise Unsuited(f'torch {torch.__version__} was built without torch.distributed: install another build')
    torch.set_num_threads(1)
    record = Record(o.dry, max(o.steps, 12) if o.dry else o.steps)
    patch_groups(record, o.rank, o.world_size)
    patch_steps(record)
    patch_script(record, o.rank)
    if not o.dry:
        patch_modules(record)
    if o.device == 'cuda':
        patch_cuda(o.rank, o.node)
    with contextlib.ExitStack() as stack:
        mode = None
        if o.device == 'cuda':
            stack.enter_context(cuda_mode())
        if not (o.real or o.dry):
            from torch._subclasses import FakeTensorMode
            patch_fake()
            mode = stack.enter_context(FakeTensorMode())
        if not o.dry:
            stack.enter_context(make_recorder(record, mode))
        run_script(record, o.words)
    out = {'dry': dry_times(record)} if o.dry else result_of(record, o)
    out['torch'] = torch.__version__
    with open(o.child, 'w') as f:
        json.dump(out, f)


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
    except ImportError:
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


# ---- all ranks

def write_json(path, value):
    """Whole or not at all."""
    with open(path + '.tmp', 'w') as f:
        json.dump(value, f, separators=(',', ':'))
        f.write('\n')
    os.replace(path + '.tmp', path)


def split_words(words):
    """The interpreter, and what it runs."""
    first = os.path.basename(words[0]) if words else ''
    if first.startswith('python'):
        if len(words) < 2:
            raise Unsuited('nothing to run: ... -- python3 train.py ARGUMENTS')
        return words[0], words[1:]
    if first.endswith('.py'):
        return 'python3', words
    raise Unsuited(f"'{first}' is no python: capture starts the ranks itself, say ... -- python3 train.py ARGUMENTS")


def environment(o, rank):
    node = o.node
    return dict(os.environ, RANK=str(rank), WORLD_SIZE=str(o.world_size), LOCAL_RANK=str(rank % node),
                LOCAL_WORLD_SIZE=str(node), GROUP_RANK=str(rank // node), ROLE_RANK=str(rank), ROLE_WORLD_SIZE=str(o.world_size),
                MASTER_ADDR='127.0.0.1', MASTER_PORT='1', TORCHELASTIC_RUN_ID='foreline', OMP_NUM_THREADS='1',
                PYTHONDONTWRITEBYTECODE='1')


class Child:
    """One rank at work."""

    def __init__(self, o, rank, extra):
        self.rank, self.path = rank, os.path.join(o.output, f'rank-{rank}.tmp')
        self.log = open(self.path + '.log', 'w+')
        words = [o.python, os.path.abspath(__file__), '--child', self.path, '--rank', str(rank), '--world-size', str(o.world_size),
                 '--steps', str(o.steps), '--device', o.device, '--node', str(o.node), *extra, '--', *o.words]
        self.process = subprocess.Popen(words, env=environment(o, rank), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        self.until = time.monotonic() + o.timeout

    def result(self):
        try:
            code = self.process.wait(max(0.0, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = 'a deadline (--timeout)'
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read().splitlines() if line.strip()]
        self.log.close()
        os.unlink(self.path + '.log')
        if code != 0:
            told = [line for line in lines if line.startswith('foreline: ')]
            if os.environ.get('FORELINE_CAPTURE_DEBUG'):
                print('\n'.join(lines), file=sys.stderr)
            why = told[-1][10:] if told else lines[-1] if lines else f'ended by {code}'
            where = [line for line in lines if line.startswith('File ')]
            raise Unsuited(f'rank {self.rank}: {why}' + (f' ({where[-1]})' if where and not told else ''))
        with open(self.path) as f:
            out = json.load(f)
        os.unlink(self.path)
        return out


def run_ranks(o, ranks, extra=(), at_once=None):
    at_once = at_once or max(1, os.cpu_count() or 1)
    out, left = {}, list(ranks)
    while left:
        now, left = left[:at_once], left[at_once:]
        children = [Child(o, r, extra) for r in now]
        failure = None
        for child in children:
            try:
                out[child.rank] = child.result()
            except Unsuited as e:
                failure = failure or e
        if failure:
            raise failure
    return out


def identity(c):
    """What ranks of a class have in common."""
    same = {k: c[k] for k in ('weight_bytes', 'gradient_bytes', 'state_bytes', 'steps')}
    same['ops'] = [{k: v for k, v in op.items() if k != 'held'} for op in c['ops']]
    same['operators'] = [row['key'] for row in c['operators']]
    same['sizes'] = [len(members) for members in c['own']]
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()


class Ranks:
    """Which ranks are alike: captured ones by what they did; between two that are alike and whose middle is too, all."""

    def __init__(self, o):
        self.o, self.captured, self.kind = o, {}, {}
        self.extra = ['--real'] if o.real else []

    def capture(self, ranks):
        missing = [r for r in dict.fromkeys(ranks) if r not in self.captured]
        if not self.captured and not self.o.real and missing:
            try:
                self.take(run_ranks(self.o, missing[:1]))
            except Unsuited as e:
                print(f'note: tensors that hold nothing do not carry this script ({e}); real ones are used', file=sys.stderr)
                self.extra, self.o.real = ['--real'], True
            missing = [r for r in missing if r not in self.captured]
        self.take(run_ranks(self.o, missing, self.extra))

    def take(self, results):
        for rank, c in results.items():
            self.captured[rank] = c
            self.kind[rank] = identity(c)

    def spread(self, low, high):
        """Between two captured ranks."""
        if high - low < 2:
            return
        middle = (low + high) // 2
        self.capture([middle])
        if self.kind[low] == self.kind[middle] == self.kind[high]:
            for r in range(low + 1, high):
                self.kind.setdefault(r, self.kind[low])
            return
        self.spread(low, middle)
        self.spread(middle, high)

    def all(self):
        n = self.o.world_size
        if self.o.ranks:
            self.capture(self.o.ranks)
            known = sorted(self.captured)
            for r in range(n):      # those that were not asked for are like the nearest below
                self.kind.setdefault(r, self.kind[max([k for k in known if k <= r] or known[:1])])
        elif n <= 8:
            self.capture(range(n))
        else:
            self.capture([0, 1, 2, n // 2 - 1, n // 2, n - 1])
            known = sorted(self.captured)
            for low, high in zip(known, known[1:]):
                self.spread(low, high)


def check_groups(o, captured):
    """Every rank makes the same groups: the others' follow from one rank's."""
    first = captured[min(captured)]
    for rank, c in captured.items():
        if c['own'] != [g for g in first['groups'] if rank in g]:
            raise Unsuited(f'rank {rank} makes other groups than rank {min(captured)}: every rank must call new_group() for all')
    return first['groups']


def spans(ranks):
    """[0, 1, 2, 7] as "0-2, 7"."""
    out, ranks = [], sorted(ranks)
    for i, r in enumerate(ranks):
        if i and ranks[i - 1] == r - 1:
            out[-1][1] = r
        else:
            out.append([r, r])
    return ', '.join(str(a) if a == b else f'{a}-{b}' for a, b in out)


def write_capture(o, ranks, groups):
    kinds = list(dict.fromkeys(ranks.kind[r] for r in range(o.world_size)))
    classes = []
    for i, kind in enumerate(kinds):
        member = min(r for r in ranks.captured if ranks.kind[r] == kind)
        c = ranks.captured[member]
        name = f'class-{i}.json'
        body = {k: v for k, v in c.items() if k not in ('own', 'groups', 'notes', 'torch')}
        write_json(os.path.join(o.output, name), dict(body, rank=member))
        classes.append({'file': name, 'captured': member, 'ranks': [r for r in range(o.world_size) if ranks.kind[r] == kind]})
    notes = sorted({note for c in ranks.captured.values() for note in c['notes']})
    first = ranks.captured[min(ranks.captured)]
    write_json(os.path.join(o.output, 'capture.json'), {
        'format': FORMAT, 'version': VERSION, 'command': ' '.join([os.path.basename(o.words[0]), *o.words[1:]]),
        'torch': first['torch'], 'device': o.device, 'fake': not o.real, 'world_size': o.world_size,
        'node': o.node, 'groups': groups, 'classes': classes, 'notes': notes})
    return classes, notes


def number(n):
    return f'{n:,}'


def tell(o, ranks, classes, notes):
    print(f'captured    {len(ranks.captured)} of {o.world_size} ranks ({spans(ranks.captured)}), '
          f'{"real" if o.real else "fake"} tensors, {len(classes)} class{"es" if len(classes) != 1 else ""} of ranks alike')
    for c in classes:
        got = ranks.captured[c['captured']]
        ops = got['ops']
        compute = sum(op['op'] == 'compute' for op in ops)
        messages = sum(op['op'] in ('send', 'recv') for op in ops)
        collectives = sum(op['op'] not in ('compute', 'wait', 'send', 'recv') for op in ops)
        flop = sum(got['operators'][op['operator']]['flop'] for op in ops if op['op'] == 'compute')
        print(f'{c["file"]:<11} ranks {spans(c["ranks"])}: {number(compute)} operators of {len(got["operators"])} kinds and '
              f'shapes, {flop / 1e9:,.1f} GFLOP; {collectives} collectives, {messages} messages; '
              f'peak {got["peak_bytes"] / 1e9:.3f} GB' + (f'; a period is {got["steps"]} steps' if got['steps'] > 1 else ''))
    for note in notes:
        print(f'note: {note}', file=sys.stderr)


def add_dry_times(o, ranks, classes):
    """The script alone, with real tensors and no recorder: what one rank of every class takes by itself."""
    for c in classes:
        got = run_ranks(o, [c['captured']], ['--dry'], 1)[c['captured']]
        path = os.path.join(o.output, c['file'])
        with open(path) as f:
            body = json.load(f)
        wanted = 1 + sum(op['op'] not in ('compute', 'wait') for op in body['ops'])
        if len(got['dry']) != wanted:
            raise Unsuited(f'a dry run of rank {c["captured"]} communicates {len(got["dry"]) - 1} times a step, the captured one '
                           f'{wanted - 1}')
        body['dry_s'] = got['dry']
        write_json(path, body)
        print(f'dry run     rank {c["captured"]}: {sum(got["dry"]):.4f} CPU s a step, between communications')


def capture_all(o):
    os.makedirs(o.output, exist_ok=True)
    ranks = Ranks(o)
    ranks.all()
    classes, notes = write_capture(o, ranks, check_groups(o, ranks.captured))
    tell(o, ranks, classes, notes)
    if o.dry:
        add_dry_times(o, ranks, classes)
    if o.profile:
        subprocess.run([o.python, os.path.abspath(__file__), '--measure', o.output, '--world-size', '1', '--',
                        *o.words], check=True)


def measure_all(folder):
    with open(os.path.join(folder, 'capture.json')) as f:
        names = [c['file'] for c in json.load(f)['classes']]
    classes = []
    for name in names:
        with open(os.path.join(folder, name)) as f:
            classes.append(json.load(f))
    profile(classes, os.path.join(folder, 'operators.json'), lambda text: print(text, file=sys.stderr))


def rank_list(text, n):
    try:
        out = sorted({int(word) for word in text.split(',')})
    except ValueError:
        raise Unsuited(f"--ranks '{text}': expected numbers, as 0,1,7")
    if not out or out[0] < 0 or out[-1] >= n:
        raise Unsuited(f'--ranks {text}: there are ranks 0 to {n - 1}')
    return out


def parse(argv):
    at = argv.index('--') if '--' in argv else len(argv)
    p = argparse.ArgumentParser(prog='capture.py')
    p.add_argument('-o', '--output', default='capture')
    p.add_argument('--world-size', type=int, required=True)
    p.add_argument('--ranks', default='')
    p.add_argument('--steps', type=int, default=4)
    p.add_argument('--node', type=int, default=0, help='ranks of a node, LOCAL_WORLD_SIZE')
    p.add_argument('--device', choices=('cpu', 'cuda'), default='cpu')
    p.add_argument('--timeout', type=float, default=600)
    for flag in ('--real', '--dry', '--profile'):
        p.add_argument(flag, action='store_true')
    for hidden in ('--child', '--measure'):
        p.add_argument(hidden, default='', help=argparse.SUPPRESS)
    p.add_argument('--rank', type=int, default=0, help=argparse.SUPPRESS)
    o = p.parse_args(argv[:at])
    o.words = argv[at + 1:]
    o.node = o.node or min(8, o.world_size)
    o.steps = max(3, o.steps)
    return o


def main(argv):
    o = parse(argv)
    try:
        if o.measure:
            measure_all(o.measure)
        elif o.child:
            capture_rank(o)
        else:
            if o.world_size < 1:
                raise Unsuited('--world-size: at least one rank')
            o.python, o.words = split_words(o.words)
            o.ranks = rank_list(o.ranks, o.world_size) if o.ranks else []
            capture_all(o)
    except Unsuited as e:
        print(f'foreline: {e}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
