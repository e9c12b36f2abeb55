"""One rank of a training script: the record of what it does, the dispatch mode that fills it, and what is written of it.

Part of `foreline capture`; docs/how-to/capture.md is about it. Standard library and torch only; Python >= 3.9, torch >= 1.13."""
import hashlib
import json
import os
import runpy
import sys
import time

from capture_alone import (Missing, Unsuited, cuda_mode, functional, patch_attention, patch_cuda, patch_fake, patch_groups,
                           patch_modules, patch_script, patch_steps)
from capture_model import Tensors, model_of
from capture_operators import bytes_of, flatten, moved_of, storage, storage_id, work_of

CLASS_FORMAT, VERSION = 'foreline-capture-class', 1
TYPES = {'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16', 'float8_e4m3fn': 'fp8', 'float8_e5m2': 'fp8'}
FORWARD, BACKWARD, UPDATE = 'forward', 'backward', 'update'
MOST_STEPS = 24         # after which a script whose steps differ is given up
SMALL = 1 << 16         # numbers of an integer tensor that keeps its values in a fake run


class Stop(BaseException):
    """Enough steps are captured: unwinds the script."""


# ---- the record

class Record:
    """What one rank does, in order. Entries are lists that begin with what they are:
    C operator phase module held (made read)   X kind group bytes id type reduction   S, R group distance bytes tag id   W id   B"""

    def __init__(self, dry, most, alone=False):
        self.dry, self.most = dry, most
        self.tensors = Tensors() if alone else None     # of a rank that is alone: for the model that it trains
        self.batches, self.unsized = [], False          # place in the log, samples and tokens of each
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
        self.module = 0
        self.put(['B'])

    def follow(self, ins, outs):
        """Tensors that an operator makes, and those that it reads."""
        if self.tensors is None:
            return ()
        read = self.tensors.read(ins)
        return ([] if self.updating else self.tensors.make(outs)), read

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
    if t.dtype not in (torch.int64, torch.int32) or t.numel() == 0 or t.numel() > SMALL or t.is_meta or is_fake(t, fake):
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
            record.put(['C', number, record.phase(), record.module, record.allocate(outs), *record.follow(ins, outs)])

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
        raise Unsuited('no step was seen: an optimizer must step, or the script must call foreline_step()')
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


def result_of(record, torch):
    periods, begin, end = period_of(record)
    used = sorted({e[1] for e in record.log[begin:end] if e[0] == 'C'})
    place = {number: i for i, number in enumerate(used)}
    ops = write_ops(record, begin, end)
    for op in ops:
        if 'operator' in op:
            op['operator'] = place[op['operator']]
    model = model_of(record, begin, end, periods, torch) if record.tensors else None
    return {'format': CLASS_FORMAT, 'version': VERSION, 'steps': periods, **kept_of(record), 'peak_bytes': max(record.peaks[-periods:]),
            'modules': record.modules, 'operators': [record.operators[i] for i in used], 'ops': ops,
            'own': record.own, 'groups': record.groups, 'notes': sorted(record.notes),
            'model': model}


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
            raise Unsuited(f'the script exited with status {e.code} before its first step')


def capture_rank(o):
    """In a process of its own: one rank; prints its result as JSON into the file o.child."""
    import contextlib
    try:
        import torch
        import torch.distributed as dist
    except ImportError as e:
        raise Missing(f'{sys.executable} has no PyTorch ({e}). Install torch, or give the python that has it after --')
    if not dist.is_available():
        raise Missing(f'torch {torch.__version__} was built without torch.distributed: install another build')
    torch.set_num_threads(1)
    record = Record(o.dry, max(o.steps, 12) if o.dry else o.steps, o.world_size == 1)
    patch_groups(record, o.rank, o.world_size, o.letters)
    patch_steps(record)
    patch_script(record, o.rank)
    if not o.dry:
        patch_modules(record)
    if o.device == 'cuda':
        patch_cuda(o.rank, o.node)
        patch_attention(record)
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
    out = {'dry': dry_times(record)} if o.dry else result_of(record, torch.__version__)
    out['torch'] = torch.__version__
    with open(o.child, 'w') as f:
        json.dump(out, f)
