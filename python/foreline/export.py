"""Write a PyTorch module as a model that foreline plans and simulates, and cut it as a plan says.

    import foreline.export as fe

    fe.stage(net.encoder)                       # optional: this module is one op, however it is made
    exported = fe.export(net, (example,))       # ops, edges, work and memory of each
    exported.write("net.json")                  # foreline plan --model net.json ... -o plan.json
    parts = exported.split("plan.json")         # a module per stage, and what they pass on
    for x, mask in fe.chunks((xs, mask), 4, (0, None)):  # 4 microbatches: xs in parts, the mask whole

The module is traced with torch.fx. Without marks every module of torch.nn and every function that computes
is an op. Where fx cannot trace, sizes are taken from the example and are fixed then; a module that cannot
be traced even so is an op as a whole, and listed in `exported.whole`. With marks the ops
are the marked modules, and whatever is between them belongs to the op that it reads last.

Work is not estimated: each op runs forward and backward on the example, and what torch dispatches is
counted. FLOP of products and convolutions count a multiply-add as two, other operators one per number;
traffic counts what each operator reads and writes, parameters apart; the stash is what autograd keeps. All
of it is divided by the first dimension of the first input, the batch. `export(..., profile=True)`
measures the times besides, as a profile of that batch on this device.

PyTorch 1.13 or newer, and the standard library: this file also works alone.
"""
import json
import sys
import time

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["stage", "ghost", "export", "Exported", "chunks", "merge", "ranges"]

_MARK = "_foreline_mark"
_SPECIAL = {"Conv1d": "convolution", "Conv2d": "convolution", "Conv3d": "convolution",
            "BatchNorm1d": "batchnorm", "BatchNorm2d": "batchnorm", "BatchNorm3d": "batchnorm"}
# Operators that only show a tensor otherwise, or make none.
_VIEWS = {"view", "_unsafe_view", "_reshape_alias", "reshape", "permute", "transpose", "t", "expand", "slice", "select",
          "squeeze", "unsqueeze", "split", "split_with_sizes", "chunk", "unbind", "alias", "detach", "as_strided",
          "size", "stride", "is_same_size", "empty", "empty_like"}
_DTYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def stage(module):
    """Mark a module as one op."""
    setattr(module, _MARK, "stage")
    return module


def ghost(module):
    """Mark a module as nobody's: it is not looked into, and its parameters do not count."""
    setattr(module, _MARK, "ghost")
    return module


def ranges(module):
    """From now on calls of the modules that export() makes ops of are ranges of PyTorch's profiler, called as
    those ops are, for `foreline measurement import TRACE --profile ranges --model MODEL`. Returns a function
    that ends it. Functions between modules are in no range."""
    handles = []
    for name, part in module.named_modules():
        if name and (_mark(part) == "stage" or not list(part.children())):
            handles += _range(name, part)
    return lambda: [h.remove() for h in handles]


def _range(name, part):
    begun = []

    def before(_module, _inputs):
        begun.append(torch.autograd.profiler.record_function(name))
        begun[-1].__enter__()

    def behind(_module, _inputs, _output):
        begun.pop().__exit__(None, None, None)

    return part.register_forward_pre_hook(before), part.register_forward_hook(behind)


def _mark(module):
    return getattr(module, _MARK, None)


def _tensors(value):
    """All tensors in lists, tuples, dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _place(tensor):
    """Where the numbers of a tensor begin that views of it share."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr()


def _bytes(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


class _Tracer(fx.Tracer):
    """Marked modules without marks inside are leaves. Nodes know the module that they are in."""

    whole = ()

    def __init__(self):
        super().__init__()
        self.path = [""]

    def create_node(self, *args, **kwargs):
        node = super().create_node(*args, **kwargs)
        node.meta[_MARK] = self.path[-1]
        return node

    def enter(self, module, call):
        self.path.append(self.path_of_module(module))
        try:
            return call()
        finally:
            self.path.pop()

    def call_module(self, module, forward, args, kwargs):
        return self.enter(module, lambda: super(_Tracer, self).call_module(module, forward, args, kwargs))

    def is_leaf_module(self, module, name):
        inside = any(_mark(m) for m in module.modules() if m is not module)
        return (bool(_mark(module)) and not inside) or super().is_leaf_module(module, name)


class _Known(fx.Proxy):
    """A proxy whose shape is known, so that code may compute with it."""

    shape = property(lambda self: self.tracer.value[self.node].shape)
    dtype = property(lambda self: self.tracer.value[self.node].dtype)
    device = property(lambda self: self.tracer.value[self.node].device)
    ndim = property(lambda self: self.tracer.value[self.node].dim())

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def numel(self):
        return self.tracer.value[self.node].numel()

    def __len__(self):
        return len(self.tracer.value[self.node])

    def __iter__(self):
        return (self[k] for k in range(len(self)))


class _ValueTracer(_Tracer):
    """Computes as it traces, so that sizes are numbers, those of the example. What still cannot be traced is
    a leaf too."""

    def __init__(self, example):
        super().__init__()
        self.whole, self.value, self.computing = [], {}, False
        self.example = list(example)

    def proxy(self, node):
        return _Known(node, self)

    def create_proxy(self, kind, target, args, kwargs, *rest, **named):
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **named)
        args, kwargs = fx.node.map_aggregate(
            (args, kwargs), lambda a: self.value[a.node] if isinstance(a, fx.Proxy) else a)
        self.computing, before = True, self.computing
        try:
            with torch.no_grad():
                self.value[proxy.node] = self._compute(kind, target, args, kwargs)
        finally:
            self.computing = before
        return proxy

    def _compute(self, kind, target, args, kwargs):
        if kind == "placeholder":
            return self.example.pop(0) if self.example else args[0]
        if kind == "get_attr":
            return _attribute(self.root, target)
        if kind == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs) if kind == "call_function" else None

    def _module_getattr(self, attr, value, cache):  # torch 1.13
        return value if self.computing else super()._module_getattr(attr, value, cache)

    def getattr(self, attr, value, cache):  # torch 2
        return value if self.computing else super().getattr(attr, value, cache)

    def call_module(self, module, forward, args, kwargs):
        if self.computing:
            return forward(*args, **kwargs)
        name = self.path_of_module(module)
        if self.is_leaf_module(module, name):
            return super().call_module(module, forward, args, kwargs)
        before = set(self.graph.nodes)
        try:
            return self.enter(module, lambda: forward(*args, **kwargs))
        except Exception as reason:  # whatever the module does with a proxy that is no tensor
            for node in reversed([n for n in self.graph.nodes if n not in before]):
                self.graph.erase_node(node)
            self.whole.append((name, _line(reason)))
            return self.create_proxy("call_module", name, args, kwargs)


def _line(reason):
    return (str(reason).splitlines() or [type(reason).__name__])[0]


def _trace(module, example):
    """The graph with sizes that are open if fx can do that, else with those of the example."""
    tracer = _Tracer()
    try:
        return tracer, tracer.trace(module)
    except Exception as first:
        tracer = _ValueTracer(example)
        try:
            return tracer, tracer.trace(module)
        except Exception as reason:
            raise ValueError("%s itself cannot be traced (%s; with known sizes: %s): its forward must only call modules "
                             "and functions. Try export(stage(module), ...), which makes one op of all"
                             % (type(module).__name__, _line(first), _line(reason))) from reason


class _Count(TorchDispatchMode):
    """FLOP and bytes of what is dispatched while it is entered."""

    def __init__(self, free):
        super().__init__()
        self.flop = self.bytes = 0
        self.free = free  # storages of parameters, whose traffic is counted elsewhere

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        name = function._schema.name.split("::")[1].rstrip("_")
        if name == "detach" and not isinstance(out, torch.Tensor):
            return torch.tensor(out)  # a number of Python's that autograd had saved
        if name in _VIEWS:
            return out
        made = list(_tensors(out))
        if name in ("mm", "bmm"):
            self.flop += 2 * out.numel() * args[0].shape[-1]
        elif name in ("addmm", "baddbmm"):
            self.flop += 2 * out.numel() * args[1].shape[-1]
        elif name == "convolution":
            x, w, transposed = args[0], args[1], args[6]
            self.flop += 2 * (x if transposed else out).numel() * (w.numel() // w.shape[0])
        elif name == "convolution_backward":
            gradient, x, w, transposed, wanted = args[0], args[1], args[2], args[7], args[-1]
            pairs = w.numel() // w.shape[0]
            self.flop += 2 * (x if transposed else gradient).numel() * pairs * sum(wanted[:2])
        else:
            self.flop += sum(t.numel() for t in made)
        read = [t for t in _tensors((args, kwargs or {})) if _place(t) not in self.free]
        self.bytes += _bytes(read) + _bytes(t for t in made if _place(t) not in self.free)
        return out


class _Saved:
    """Bytes that autograd keeps of what was neither given nor is a parameter."""

    def __init__(self, known):
        self.known = set(known)
        self.bytes = 0
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda t: t)

    def _keep(self, tensor):
        at = _place(tensor)
        if at not in self.known:
            self.known.add(at)
            self.bytes += tensor.numel() * tensor.element_size()
        return tensor


def _own(value):
    """What is given, as leaves of a graph of their own."""
    if isinstance(value, torch.Tensor):
        return value.detach().requires_grad_(value.is_floating_point() and value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_own(v) for v in value)
    if isinstance(value, dict):
        return {k: _own(v) for k, v in value.items()}
    return value


def _seconds(run, repeats, device):
    """Median of some runs, after one that is not counted."""
    times = []
    for k in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times += [time.perf_counter() - begin] if k else []
    return sorted(times)[len(times) // 2]


class _Measure(fx.Interpreter):
    """Runs node by node; `cost` has what each node does forward and backward."""

    def __init__(self, module, repeats):
        super().__init__(module, garbage_collect_values=False)
        self.cost, self.repeats = {}, repeats
        self.free = {_place(p) for p in list(module.parameters()) + list(module.buffers())}

    def run_node(self, node):
        if node.op in ("placeholder", "get_attr", "output"):
            return super().run_node(node)
        args, kwargs = map(_own, self.fetch_args_kwargs_from_env(node))
        call = getattr(self, node.op)
        given = [t for t in _tensors((args, kwargs)) if t.requires_grad]
        saved = _Saved({_place(t) for t in _tensors((args, kwargs))} | self.free)
        forward, backward = _Count(self.free), _Count(self.free)
        with saved.hooks, forward:
            out = call(node.target, args, kwargs)
        learns = [t for t in _tensors(out) if t.requires_grad]
        made = [t for t in _tensors(out)]
        cost = {"forward_flop": forward.flop, "forward_bytes": forward.bytes, "output": made,
                "stash": saved.bytes + _bytes(t for t in made if _place(t) not in saved.known),
                "forward_s": 0.0, "backward_s": 0.0, "tensor": bool(made)}
        weights = [p for p in self._weights(node) if p.requires_grad]
        if not learns:
            cost["stash"] = 0
        wanted = given + weights
        if learns and wanted:
            with backward:
                torch.autograd.grad(learns, wanted, [torch.ones_like(t) for t in learns], allow_unused=True)
        cost["backward_flop"], cost["backward_bytes"] = backward.flop, backward.bytes
        if self.repeats and made:
            device = made[0].device
            cost["forward_s"] = _seconds(lambda: call(node.target, args, kwargs), self.repeats, device)

            def both():
                again = [t for t in _tensors(call(node.target, args, kwargs)) if t.requires_grad]
                torch.autograd.grad(again, wanted, [torch.ones_like(t) for t in again], allow_unused=True)
            if learns and wanted:
                cost["backward_s"] = max(0.0, _seconds(both, self.repeats, device) - cost["forward_s"])
        self.cost[node] = cost
        return out

    def _weights(self, node):
        return list(self.fetch_attr(node.target).parameters()) if node.op == "call_module" else []


def _is_view(node, cost):
    """No work of its own: a view, a size, a part of a tuple."""
    return not cost["tensor"] or (cost["forward_flop"] == 0 and cost["forward_bytes"] == 0)


class Exported:
    """A traced module with its ops. `model` is what foreline reads, `nodes` which fx nodes an op has."""

    def __init__(self, graph_module, model, nodes, whole):
        self.graph_module, self.model, self.nodes, self.whole = graph_module, model, nodes, whole

    def write(self, path):
        """Write the model file."""
        with open(path, "w", encoding="utf-8") as out:
            json.dump(self.model, out, indent=1)
            out.write("\n")

    def stages(self, plan):
        """Names of the ops of each stage of a plan (a file, or what json.load() made of it)."""
        if not isinstance(plan, dict):
            with open(plan, encoding="utf-8") as file:
                plan = json.load(file)
        stages = [s["ops"] for s in plan["stages"]]
        named = [name for ops in stages for name in ops]
        if sorted(named) != sorted(self.nodes):
            raise ValueError("the plan is for another model; ops that differ: %s" %
                             sorted(set(named) ^ set(self.nodes))[:5])
        return stages

    def split(self, plan):
        """The module cut at the plan's stages: a fx.GraphModule whose children submod_0, submod_1, ... are
        the stages, and whose graph says what they pass to each other."""
        from torch.fx.passes.split_module import split_module
        stage_of = {}
        for k, ops in enumerate(self.stages(plan)):
            for name in ops:
                stage_of.update((node, k) for node in self.nodes[name])
        nodes = list(self.graph_module.graph.nodes)
        for node in reversed(nodes):  # attributes go where they are used
            if node not in stage_of and node.op == "get_attr":
                stage_of[node] = min(stage_of.get(u, 0) for u in node.users) if node.users else 0
        by_name = {node.name: k for node, k in stage_of.items()}
        return split_module(self.graph_module, self.graph_module, lambda node: by_name.get(node.name, 0))


def _groups(nodes, cost, module):
    """The op of each node, by the node that it is named after; None: nobody's (inputs)."""
    marks = {n: _mark(module.get_submodule(n.target)) for n in nodes if n.op == "call_module"}
    marked = "stage" in marks.values()
    base = [n for n in nodes if n in cost and
            (marks.get(n) == "stage" if marked else not _is_view(n, cost[n]))]
    place = {n: i for i, n in enumerate(base)}
    of = dict(place)
    for n in nodes:  # what an op made last is read
        if n not in of and n in cost:
            read = [of[i] for i in n.all_input_nodes if i in of]
            if read:
                of[n] = max(read)
    for n in reversed(nodes):  # before all ops: for whoever reads it first
        if n not in of and n in cost:
            users = [of[u] for u in n.users if u in of]
            if users:
                of[n] = min(users)
    return base, of


def _kind(node, module):
    if node.op == "call_module":
        name = type(module.get_submodule(node.target)).__name__
        return _SPECIAL.get(name, name.lower())
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "op")


def _attributes(node, module, tokens):
    """Of the kinds that foreline knows by their shape."""
    m = module.get_submodule(node.target) if node.op == "call_module" else None
    if isinstance(m, nn.Linear):
        return {"tokens": tokens // m.out_features, "in": m.in_features, "out": m.out_features,
                "bias": int(m.bias is not None)}
    return None


def _parameters(nodes, module):
    """Parameters of an op's nodes, without those of ghosts and of marked modules inside."""
    found = []
    for node in nodes:
        if node.op == "call_module":
            m = module.get_submodule(node.target)
            found += [] if _mark(m) == "ghost" else list(m.parameters())
        found += [a for a in (_attribute(module, i.target) for i in node.all_input_nodes if i.op == "get_attr")
                  if isinstance(a, nn.Parameter)]
    return list({id(p): p for p in found}.values())


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _round_up(number, batch):
    return -(-number // batch)


def export(module, example, name=None, profile=False, repeats=5, tokens=None):
    """Trace `module` and count what each op does on `example`, a tuple of its inputs, the first dimension of
    the first of which is the batch. `profile` measures times too, `repeats` each. `tokens` of a sample;
    default: the second dimension of a first input of integers."""
    example = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    first = next(_tensors(example))
    batch = first.shape[0] if first.dim() else 1
    if tokens is None:
        tokens = first.shape[1] if first.dim() == 2 and not first.is_floating_point() else 0
    if _mark(module) == "stage":  # the root of a graph is no node of it
        module = torch.nn.Sequential(module)
    kept = {k: v.clone() for k, v in module.state_dict().items()}
    tracer, graph = _trace(module, example)
    traced = fx.GraphModule(module, graph, type(module).__name__)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    traced.train(module.training)
    measure = _Measure(traced, repeats if profile else 0)
    measure.run(*example)
    module.load_state_dict(kept)  # running means and the like
    nodes = list(traced.graph.nodes)
    base, of = _groups(nodes, measure.cost, traced)
    if not base:
        raise ValueError("no op: nothing depends on the inputs, or no marked module is called")
    ops, members, owner, types = [], {}, {}, {}
    names = _names(base)
    for k, node in enumerate(base):
        mine = [n for n in nodes if of.get(n) == k]
        members[names[k]] = mine
        ops.append(_op(node, names, k, mine, of, measure.cost, traced, batch, owner, types))
    element = max(types, key=types.get) if types else torch.float32
    model = {"format": "foreline-model", "version": 1,
             "name": name or type(module).__name__,
             "note": "PyTorch %s, torch.fx: %d nodes in %d ops; counted on a batch of %d; no loss" %
                     (torch.__version__, len(nodes), len(ops), batch),
             "tokens_per_sample": tokens,
             "dtype": _DTYPES.get(element, "fp32"),
             "element_bytes": torch.empty(0, dtype=element).element_size() if element in _DTYPES else 4,
             "ops": ops}
    if profile:
        total = [[sum(measure.cost[n][w] for n in members[o["name"]] if n in measure.cost) for o in ops]
                 for w in ("forward_s", "backward_s")]
        model["profiles"] = [{"device": _device(first.device), "samples": batch, "tensor_parallel": 1,
                              "forward_s": total[0], "backward_s": total[1]}]
    return Exported(traced, model, members, list(tracer.whole))


def _names(base):
    """Paths of modules; of other nodes, and of modules that are called again, the node's name in its module."""
    names, seen = [], set()
    for node in base:
        path = node.meta.get(_MARK)
        name = node.target if node.op == "call_module" else None
        if not name or name in seen:
            name = "%s.%s" % (path, node.name) if path else node.name
        while name in seen:
            name += "_"
        seen.add(name)
        names.append(name)
    return names


def _op(node, names, k, mine, of, cost, module, batch, owner, types):
    inputs = sorted({of[i] for n in mine for i in n.all_input_nodes if i in of and of[i] != k})
    total = {w: sum(cost[n][w] for n in mine if n in cost)
             for w in ("forward_flop", "backward_flop", "forward_bytes", "backward_bytes", "stash")}
    leaving = [t for n in mine if n in cost and any(u not in mine for u in n.users) for t in cost[n]["output"]]
    made = sum(t.numel() for t in cost[node]["output"]) // batch
    own = borrowed = 0
    lender = None
    for p in _parameters(mine, module):
        size = p.numel() * p.element_size()
        types[p.dtype] = types.get(p.dtype, 0) + size
        if owner.setdefault(id(p), k) == k:
            own += size
        elif lender in (None, owner[id(p)]):
            lender, borrowed = owner[id(p)], borrowed + size
    op = {"name": names[k], "kind": _kind(node, module)}
    shape = _attributes(node, module, made)
    if shape:
        op["attributes"] = shape
    op["inputs"] = [names[i] for i in inputs]
    for w in ("forward_flop", "backward_flop", "forward_bytes", "backward_bytes"):
        op[w] = total[w] / batch
    op["parameter_bytes"] = own
    if node.op == "call_module" and isinstance(module.get_submodule(node.target), nn.Embedding):
        op["sparse"] = True
    if lender is not None:
        op["shares"], op["shared_bytes"] = names[lender], borrowed
    once = list({(t.data_ptr(), t.numel()): t for t in leaving}.values())
    op["stash_bytes"] = _round_up(total["stash"], batch)
    op["output_bytes"] = _round_up(_bytes(once), batch)
    return op


def _device(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _members(values, spec, path):
    """Key, member and its spec; a spec that is no container is meant for all."""
    keys = list(values) if isinstance(values, dict) else range(len(values))
    if isinstance(spec, (dict, list, tuple)):
        named = isinstance(values, dict) == isinstance(spec, dict)
        if not named or len(spec) != len(values) or (isinstance(spec, dict) and set(spec) != set(values)):
            raise ValueError("%s: spec %r does not match %d values" % (path, spec, len(values)))
    for key in keys:
        yield key, values[key], spec[key] if isinstance(spec, (dict, list, tuple)) else spec


def _like(values, members):
    """A container as `values` is one."""
    return dict(zip(values, members)) if isinstance(values, dict) else type(values)(members)


def chunks(values, n, spec=0, path="batch"):
    """n microbatches of a batch: tensors in tuples, lists and dicts, as the values are.

    spec: the dimension along which tensors are cut into n equal parts, or None: every microbatch has all of it; for all
    values, or a tuple, list or dict with one for each. What is no tensor is in every microbatch."""
    if isinstance(values, (dict, list, tuple)):
        parts = [chunks(v, n, s, "%s[%r]" % (path, key)) for key, v, s in _members(values, spec, path)]
        return [_like(values, [p[k] for p in parts]) for k in range(n)]
    if spec is None or not isinstance(values, torch.Tensor):
        return [values] * n
    if not -values.dim() <= spec < values.dim() or values.shape[spec] % n:
        raise ValueError("%s: dimension %d of %s cannot be split into %d equal parts" % (path, spec, tuple(values.shape), n))
    return list(torch.chunk(values, n, spec))


def merge(parts, spec=0, path="output"):
    """What microbatches gave as one value: the inverse of chunks(). Besides a dimension spec may be "mean" or "sum", of losses;
    with None all parts have to be equal."""
    first = parts[0]
    if isinstance(first, (dict, list, tuple)):
        return _like(first, [merge([p[key] for p in parts], s, "%s[%r]" % (path, key))
                             for key, _, s in _members(first, spec, path)])
    if isinstance(first, torch.Tensor) and spec in ("mean", "sum"):
        return getattr(torch.stack(parts), spec)(0)
    if isinstance(first, torch.Tensor) and spec is not None:
        return torch.cat(parts, spec)
    if any(not torch.equal(p, first) if isinstance(first, torch.Tensor) else p != first for p in parts):
        raise ValueError("%s: microbatches have different values for what is not split" % path)
    return first


if __name__ == "__main__":
    print(__doc__, file=sys.stderr)
    sys.exit(2)
