"""What a training script finds instead of other ranks and of GPUs: a process group that communicates nothing, and patches of what
would start processes, compile, write files, or ask devices.

Part of `foreline capture`; docs/how-to/capture.md is about it. Functions take the record of capture_rank.py, and tell it."""
import contextlib
import os
import sys
import time

from capture_operators import bytes_of, flatten, storage_id

LETTER_S = 120      # that a rank waits for an object of another one


class Unsuited(Exception):
    """The script cannot be captured; the message is one line with the remedy."""


class Missing(Unsuited):
    """Nor with real tensors."""


class Together(Unsuited):
    """It waits for an object of another rank: ranks have to be captured at the same time."""


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
    from torch._subclasses import FakeTensor
    from torch.utils._mode_utils import no_dispatch

    def apart(t, make):     # small integers are real among fake tensors
        with contextlib.nullcontext() if isinstance(t, FakeTensor) else no_dispatch():
            return make(t)
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
        outs = parts if op.endswith('_') else [apart(t, torch.Tensor.clone) for t in parts]
        kind, size = ('allreduce' if base.startswith('all_r') else 'broadcast'), total(parts)
    elif base.startswith('all_gather_into_tensor'):
        outs = [apart(t, lambda t: t.new_empty((t.shape[0] * n,) + tuple(t.shape[1:]))) for t in parts]
        kind, size = 'allgather', total(outs)
    elif base.startswith('reduce_scatter_tensor'):
        outs = [apart(t, lambda t: t.new_empty((t.shape[0] // n,) + tuple(t.shape[1:]))) for t in parts]
        kind, size = 'reducescatter', total(parts)
    elif base == 'all_to_all_single':
        rows = sum(int(s) for s in args[1])
        outs = [apart(x, lambda t: t.new_empty((rows,) + tuple(t.shape[1:])))]
        kind, size = 'alltoall', total(parts)
    else:
        raise Unsuited(f'{op}: unsupported collective; please report it')
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

        def _get_backend(self, device):
            return self

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
            raise Unsuited('recv() without a source is unsupported: the sender is known only in a real run. Name the source')

        def _start_coalescing(self, device=None):
            pass

        def _end_coalescing(self, device=None):
            return Work(record, record.ids, [])

    return Group


# ---- patches: what a script asks of others, and the devices that are not there

def replace(module, name, value):
    if hasattr(module, name):
        setattr(module, name, value)


def patch_groups(record, rank, world, letters):
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
            raise Missing(f'the script needs {world_given} ranks. Try --world-size {world_given}')
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
    patch_objects(record, rank, letters)


def patch_letters(rank, letters):
    """Objects that are sent to another rank are files of a folder, from which that one takes them: shapes, in pipelines."""
    import pickle
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d
    sent = {}

    def place(a, b):
        sent[a, b] = sent.get((a, b), 0) + 1
        return os.path.join(letters, f'{a}-{b}-{sent[a, b]}')

    def peer(given, group, group_peer):
        return given if given is not None else dist.get_global_rank(group, group_peer)

    def send(objects, dst=None, group=None, device=None, group_dst=None, **kwargs):
        if letters:
            path = place(rank, peer(dst, group, group_dst))
            with open(path + '.tmp', 'wb') as f:
                pickle.dump(objects, f)
            os.replace(path + '.tmp', path)

    def receive(objects, src=None, group=None, device=None, group_src=None, **kwargs):
        source = peer(src, group, group_src)
        if not letters:
            raise Together(f'receives an object of rank {source} (recv_object_list)')
        path, until = place(source, rank), time.monotonic() + LETTER_S
        while not os.path.exists(path):
            if time.monotonic() > until:
                raise Missing(f'rank {source} sends no object within {LETTER_S} s')
            time.sleep(0.01)
        with open(path, 'rb') as f:
            objects[:] = pickle.load(f)
        return source
    for module in (dist, c10d):
        replace(module, 'send_object_list', send)
        replace(module, 'recv_object_list', receive)


def patch_objects(record, rank, letters):
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
    patch_letters(rank, letters)


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
    for kind in (torch.optim.Optimizer, torch.nn.Module):
        kind.zero_grad = around(record, kind.zero_grad, 'updating', lambda: None)
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
    """Which module is at work; backwards are told by hooks on what modules take and return."""
    import torch
    from torch.nn.modules import module as M

    def follow(tensors, number):
        """Once the gradient of one of them is known, the backward is that of what made it."""
        def back(grad):
            if record.backward:
                record.module = number
        for t in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
            if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn is not None and not hasattr(t, 'foreline'):
                t.foreline = True
                t.register_hook(back)

    def size_batch(inputs):
        """The first tensor that a model, or a module inside where it is called by keywords, is given: samples, and tokens."""
        first = next((t for t in flatten(inputs, []) if t.dim()), None)
        if first is not None:
            tokens = first.shape[1] if first.dim() == 2 and not first.is_floating_point() else 0
            record.batches.append((len(record.log), first.shape[0], tokens))
            record.unsized = False

    def enter(module, inputs):
        follow(inputs, record.module)
        if not record.stack:
            record.first = len(record.log) if record.first is None else record.first
            for name, inner in module.named_modules():
                if not record.names.get(id(inner), ('',))[0]:   # called alone before it was part of this
                    record.names[id(inner)] = (name, inner)
            record.unsized = record.tensors is not None and any(True for _ in module.parameters())
        if record.unsized:
            size_batch(inputs)
        name = record.names.get(id(module), (type(module).__name__,))[0]
        if name not in record.module_of:
            record.module_of[name] = len(record.modules)
            record.modules.append(name)
        record.stack.append(record.module)
        record.module = record.module_of[name]

    def leave(module, inputs, out):
        follow(out, record.module)
        record.module = record.stack.pop() if record.stack else 0
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
    import torch
    if hasattr(torch.nn.init, '_no_grad_trunc_normal_'):       # draws until all values are inside: of fake ones none ever is
        torch.nn.init._no_grad_trunc_normal_ = lambda tensor, *args, **kwargs: tensor
    import torch.distributed as dist
    import torch.nn.parallel.distributed as ddp
    from torch._subclasses import FakeTensor
    from torch.nn import parameter

    def deep_copy(self, memo):      # of a parameter, which torch 1.13 makes anew from a storage that is not there
        if id(self) not in memo:
            copy = self.detach().clone()
            memo[id(self)] = parameter.Parameter(copy, self.requires_grad) if isinstance(self, parameter.Parameter) else \
                copy.requires_grad_(self.requires_grad)
        return memo[id(self)]
    FakeTensor.__deepcopy__ = deep_copy
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


def patch_attention(record):
    """Attention that GPUs have kernels for and CPUs do not: of DTensors by their parts, and FlexAttention."""
    import torch
    import torch.nn.functional as F
    if not hasattr(F, 'scaled_dot_product_attention'):
        return
    attention = F.scaled_dot_product_attention

    def by_parts(query, key, value, *args, **kwargs):
        at = getattr(query, 'placements', None)
        if at is None or at != getattr(key, 'placements', None) or at != getattr(value, 'placements', None):
            return attention(query, key, value, *args, **kwargs)
        out = attention(query.to_local(), key.to_local(), value.to_local(), *args, **kwargs)
        return type(query).from_local(out, query.device_mesh, at, run_check=False)
    replace(F, 'scaled_dot_product_attention', by_parts)
    try:
        from torch.nn.attention import flex_attention as flex
    except ImportError:
        return

    def flexible(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                 kernel_options=None, *, return_aux=None):
        record.notes.add('flex_attention: taken for causal attention where it has a mask, for full attention where it has none')
        groups = query.shape[-3] // key.shape[-3]
        if groups > 1:
            key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
        out = by_parts(query, key, value, is_causal=block_mask is not None, scale=scale)
        sums = out[..., 0].detach().float()
        if return_aux is not None:
            return out, flex.AuxOutput(lse=sums, max_scores=sums)
        return (out, sums) if return_lse else out
    replace(flex, 'flex_attention', flexible)


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
    import collections
    import types
    cuda = torch.cuda
    properties = types.SimpleNamespace(name='foreline', major=9, minor=0, total_memory=80 << 30, multi_processor_count=132, warp_size=32)

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
                        ('get_device_properties', properties), ('memory_stats', collections.defaultdict(int)),
                        ('reset_accumulated_memory_stats', None), ('get_device_name', 'foreline'), ('get_device_capability', (9, 0)), ('mem_get_info', (80 << 30, 80 << 30)),
                        ('set_device', None), ('synchronize', None), ('empty_cache', None), ('manual_seed', None), ('init', None),
                        ('manual_seed_all', None), ('reset_peak_memory_stats', None), ('_lazy_init', None), ('set_stream', None),
                        ('max_memory_allocated', 0), ('memory_allocated', 0), ('memory_reserved', 0), ('max_memory_reserved', 0)):
        setattr(cuda, name, lambda *a, value=value, **k: value)
    class Graph:
        def __init__(self, *args, **kwargs):
            raise Unsuited('the script records a CUDA graph, whose operators cannot be seen: turn CUDA graphs off for the capture')
    cuda.CUDAGraph = Graph
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
