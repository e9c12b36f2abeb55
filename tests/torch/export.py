"""python/foreline/export.py: what it writes foreline reads, counts are right, and a plan cuts the module again.

Usage: export.py FORELINE. Exit status 77, with the reason, where torch is not installed.
"""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import networks  # first: it says what is missing
import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import foreline.export as fe  # noqa: E402

warnings.simplefilter("ignore")
TOLERANCE = 1e-5  # of losses: sums of single precision in another order


class CustomGraphLinearModel2(nn.Module):
    """Four layers, as in the course that asked for graphs of modules."""

    def __init__(self, into, hidden, out):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(into, hidden), nn.Linear(hidden, hidden)
        self.fc3, self.fc4 = nn.Linear(hidden, hidden), nn.Linear(hidden, out)

    def forward(self, x):
        return self.fc4(torch.relu(self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))))


def foreline(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True)
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout


def marked_modules_are_a_chain(program, folder):
    """The weights that the course's graph has (its nodes are those marked, its weights parameters)."""
    model = CustomGraphLinearModel2(767, 4096, 10)
    for part in (model.fc1, model.fc2, model.fc3, model.fc4):
        fe.stage(part)
    path = os.path.join(folder, "course.json")
    fe.export(model, torch.zeros(2, 767)).write(path)
    ops = json.loads(foreline(program, "model", "show", "--json", path))["ops"]
    assert [o["parameter_bytes"] // 4 for o in ops] == [3145728, 16781312, 16781312, 40970]
    assert [o.get("inputs", []) for o in ops] == [[], ["fc1"], ["fc2"], ["fc3"]]
    print("course: 4 ops,", sum(o["parameter_bytes"] // 4 for o in ops), "parameters")


class Positions(nn.Module):
    """Parameters that no module has for itself, and a tensor in three parts."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 8, 16))
        self.weight, self.bias = nn.Parameter(torch.randn(16, 16)), nn.Parameter(torch.zeros(16))
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        x = (x + self.position) @ self.weight + self.bias
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v) + self.position


def parameters_of_the_root_are_those_of_the_ops_that_read_them(program, folder):
    model, example = Positions(), torch.randn(4, 8, 16)
    exported = fe.export(model, (example,))
    path = os.path.join(folder, "positions.json")
    exported.write(path)
    ops = json.loads(foreline(program, "model", "show", "--json", path))["ops"]
    assert sum(o["parameter_bytes"] for o in ops) == 4 * sum(p.numel() for p in model.parameters())
    assert [o["name"] for o in ops if o.get("shares")] == ["add_2"], ops
    names = [o["name"] for o in ops]
    for first in range(1, len(names)):
        parts = exported.split({"stages": [{"ops": names[:first]}, {"ops": names[first:]}]})
        assert torch.allclose(model(example), parts(example), atol=1e-6), first
    print("parameters of the root:", len(names), "ops, cut everywhere")


def ghosts_do_not_count(program, folder):
    model = CustomGraphLinearModel2(8, 8, 8)
    fe.stage(model.fc1), fe.ghost(model.fc2), fe.stage(model.fc4)
    got = fe.export(model, torch.zeros(2, 8)).model
    assert [(o["name"], o["parameter_bytes"] // 4) for o in got["ops"]] == [("fc1", 72 + 72), ("fc4", 72)]


class Stubborn(nn.Module):
    """No tracer gets through this."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x) if float(x.detach().sum()) < 1e9 else x


def what_cannot_be_traced_is_one_op(program, folder):
    exported = fe.export(nn.Sequential(nn.Linear(8, 8), Stubborn()), torch.zeros(2, 8))
    assert [name for name, _ in exported.whole] == ["1"], exported.whole
    assert [o["name"] for o in exported.model["ops"]] == ["0", "1"]


def random_networks_are_counted(program, folder):
    """Each linear layer and convolution by the formula, parameters by the module, all of it read back."""
    kinds = (("images", networks.images, 8), ("perceptron", networks.perceptron, 4),
             ("transformer", networks.transformer, 8))
    layers = 0
    for name, make, n in kinds:
        for seed in range(n):
            torch.manual_seed(seed)
            model, example = make(random.Random(f"export {name} {seed}"))
            before = copy.deepcopy(model.state_dict())
            exported = fe.export(model, example, profile=seed == 0, repeats=1)
            assert all(torch.equal(a, before[k]) for k, a in model.state_dict().items())
            path = os.path.join(folder, "m.json")
            exported.write(path)
            got = json.loads(foreline(program, "model", "show", "--json", path))
            assert got["parameters"] == sum(p.numel() for p in model.parameters()), (name, seed)
            out = {}
            hooks = [m.register_forward_hook(lambda m, i, o: out.__setitem__(m, (i[0], o)))
                     for m in model.modules()]
            with torch.no_grad():
                model(example)
            for hook in hooks:
                hook.remove()
            for op in got["ops"]:
                layer = dict(model.named_modules()).get(op["name"])
                if not isinstance(layer, (nn.Linear, nn.Conv2d)):
                    continue
                given, made = out[layer]
                flop = 2 * made.numel() * layer.weight[0].numel() / len(example)
                sums = made.numel() / len(example)  # of a bias, where it is added apart
                first = not op.get("inputs")
                assert flop <= op["forward_flop"] <= flop + sums, (name, seed, op)
                backward = flop * (1 if first else 2)
                # views behind it are the op's: their gradients are put together number by number
                most = backward + 8 * sums + layer.weight.numel()
                assert backward <= op["backward_flop"] <= most, (name, seed, op)
                layers += 1
    assert layers > 50
    print("random networks:", layers, "layers by their formulas")


class Skips(nn.Module):
    """A value that passes over a cut, and a tie."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 24)
        self.inner = nn.ModuleList(nn.Sequential(nn.Linear(24, 24), nn.GELU()) for _ in range(5))
        self.last = nn.Linear(24, 6)

    def forward(self, x):
        x = start = self.first(x)
        for layer in self.inner:
            x = x + layer(x)
        return self.last(torch.relu(x) + start)


def train_alone(model, batches, rate):
    losses = []
    for batch in batches:
        model.zero_grad()
        losses.append(0.0)
        for x, y in batch:
            loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten()) / len(batch)
            loss.backward()
            losses[-1] += float(loss)
        with torch.no_grad():
            for p in model.parameters():
                p -= rate * p.grad
    return losses


def wires(split):
    """Of each stage: the values that it is given, and those that it makes, by their names in the graph."""
    stages, names = [], {}
    for node in split.graph.nodes:
        if node.op == "call_module":
            stages.append({"module": node.target, "in": [names.get(a, a.name) for a in node.args], "out": [node.name],
                           "constants": {a.name: getattr(split, a.target) for a in node.args if a.op == "get_attr"}})
            users = [u for u in node.users if u.op == "call_function"]  # of a tuple
            if users:
                stages[-1]["out"] = [None] * (1 + max(u.args[1] for u in users))
                for u in users:
                    stages[-1]["out"][u.args[1]] = names[u] = u.name
    return stages


def worker(rank, split, batches, rate, folder, out):
    """GPipe: all forwards, all backwards, and the gradients of what was received go back."""
    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meeting"), rank=rank, world_size=2)
    stages = wires(split)
    me = split.get_submodule(stages[rank]["module"])
    passed = [n for n in stages[1]["in"] if n in stages[0]["out"]]
    losses = []
    for batch in batches:
        me.zero_grad()
        kept, total = [], 0.0
        for x, y in batch:
            given = dict.fromkeys(stages[rank]["in"], x)  # whatever is not received is the input, or a constant
            given.update(stages[rank]["constants"])
            if rank == 1:
                for name in passed:
                    shape = torch.zeros(8, dtype=torch.long)
                    dist.recv(shape, 0)
                    given[name] = torch.zeros(*shape[1:1 + shape[0]]).requires_grad_()
                    dist.recv(given[name].data, 0)
            made = me(*[given[n] for n in stages[rank]["in"]])
            made = dict(zip(stages[rank]["out"], made if isinstance(made, tuple) else (made,)))
            if rank == 0:
                for name in passed:
                    shape = torch.zeros(8, dtype=torch.long)
                    shape[:made[name].dim() + 1] = torch.tensor([made[name].dim(), *made[name].shape])
                    dist.send(shape, 1)
                    dist.send(made[name].detach().contiguous(), 1)
                kept.append([made[n] for n in passed])
            else:
                loss = nn.functional.cross_entropy(made[stages[1]["out"][0]].flatten(0, -2), y.flatten()) / len(batch)
                total += float(loss)
                kept.append((loss, [given[n] for n in passed]))
        for value in kept:
            if rank == 0:
                gradients = [torch.zeros_like(v) for v in value]
                for g in gradients:
                    dist.recv(g, 1)
                torch.autograd.backward(value, gradients)
            else:
                value[0].backward()
                for v in value[1]:
                    dist.send(v.grad.contiguous(), 0)
        with torch.no_grad():
            for p in me.parameters():
                p -= rate * p.grad
        losses.append(total)
    if rank == 1:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(losses, file)


def round_trip(program, folder, name, model, draw_batch, size):
    """PyTorch -> foreline -> plan -> names of ops -> stages, run by two processes: losses as of one."""
    torch.manual_seed(7)
    batches = [[draw_batch() for _ in range(4)]] * 5  # the same ones, which are learned
    exported = fe.export(model, (batches[0][0][0],))
    path, plan = os.path.join(folder, name + ".json"), os.path.join(folder, name + "-plan.json")
    exported.write(path)
    foreline(program, "plan", "--model", path, "--platform", "laptop", "--algorithm", "uniform", "--stages", "2",
             "--microbatches", "4", "--microbatch-size", str(size), "-o", plan)
    alone = train_alone(copy.deepcopy(model), batches, 0.1)
    split = exported.split(plan)
    out = os.path.join(folder, "losses.json")
    torch.multiprocessing.set_sharing_strategy("file_system")
    context = torch.multiprocessing.get_context("fork")
    workers = [context.Process(target=worker, args=(r, split, batches, 0.1, folder, out)) for r in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
        assert w.exitcode == 0, w
    with open(out, encoding="utf-8") as file:
        piped = json.load(file)
    os.unlink(os.path.join(folder, "meeting"))
    stages = exported.stages(plan)
    assert len(stages) == 2 and all(stages)
    assert alone[0] - alone[-1] > 10 * TOLERANCE, alone
    assert all(abs(a - b) <= TOLERANCE * abs(a) for a, b in zip(alone, piped)), (alone, piped)
    print(f"{name}: stages of {len(stages[0])} and {len(stages[1])} ops,", "losses",
          " ".join(f"{v:.6f}" for v in piped), "largest difference", max(abs(a - b) for a, b in zip(alone, piped)))


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else 2 * x


def a_root_that_cannot_be_traced_says_what_to_do(_program, _folder):
    try:
        fe.export(Branches(), torch.ones(2, 4))
    except ValueError as reason:
        assert "Branches itself cannot be traced" in str(reason) and "stage(module)" in str(reason), reason
    else:
        raise AssertionError("a root that branches was traced")
    whole = fe.export(fe.stage(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), torch.ones(2, 4))
    assert [o["name"] for o in whole.model["ops"]] == ["0"], whole.model["ops"]
    assert [o["name"] for o in fe.export(fe.stage(Branches()), torch.ones(2, 4)).model["ops"]] == ["0"]


def kineto(events, path):
    """What this PyTorch's profiler recorded, in the form of PyTorch's newer ones, which Debian's has not."""
    rows = [{"ph": "X", "cat": "user_annotation" if e.scope == 7 else "cpu_op", "name": e.name, "tid": e.thread,
             "ts": e.time_range.start, "dur": e.time_range.end - e.time_range.start,
             "args": {"Sequence number": e.sequence_nr} if e.sequence_nr >= 0 else {}} for e in events]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": rows}, file)
    return rows


def ranges_of_a_trace_are_the_profile_of_its_ops(program, folder):
    """Module -> model, training -> trace -> times of the model's ops, which a plan is made of."""
    net = CustomGraphLinearModel2(64, 256, 8)
    for part in net.children():
        fe.stage(part)
    model, trace = os.path.join(folder, "net.json"), os.path.join(folder, "trace.json")
    profiled, plan = os.path.join(folder, "profiled.json"), os.path.join(folder, "profiled-plan.json")
    fe.export(net, torch.zeros(32, 64)).write(model)
    end = fe.ranges(net)
    with torch.autograd.profiler.profile(use_kineto=False) as profiler:
        for _ in range(3):
            net(torch.randn(32, 64)).sum().backward()
    end()
    rows = kineto(profiler.function_events, trace)
    foreline(program, "measurement", "import", trace, "--profile", "ranges", "--model", model, "--microbatches", "3",
             "--microbatch-size", "32", "--device", "cpu", "-o", profiled)
    with open(profiled, encoding="utf-8") as file:
        (profile,) = json.load(file)["profiles"]
    assert len(profile["forward_s"]) == 4 and min(profile["forward_s"] + profile["backward_s"]) > 0, profile
    # forward: ops of a range, without those within them
    for k, name in enumerate(("fc1", "fc2", "fc3", "fc4")):
        spans = [(r["ts"], r["ts"] + r["dur"]) for r in rows if r["name"] == name]
        assert len(spans) == 3
        ops = [r for r in rows if r["cat"] == "cpu_op" and any(a <= r["ts"] < b for a, b in spans)]
        outer = [r for r in ops if not any(o is not r and o["ts"] <= r["ts"] and r["ts"] + r["dur"] <= o["ts"] + o["dur"]
                                           and (o["dur"] > r["dur"] or rows.index(o) < rows.index(r)) for o in ops)]
        want = sum(r["dur"] for r in outer) / 3 * 1e-6
        assert abs(profile["forward_s"][k] - want) < 1e-9, (name, profile["forward_s"][k], want)
    foreline(program, "plan", "--model", profiled, "--platform", "laptop", "--algorithm", "balanced", "--stages", "2",
             "--microbatches", "4", "--microbatch-size", "32", "-o", plan)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    print("profile of a trace: forward %.0f us, backward %.0f us" % tuple(
        1e6 * sum(profile[w]) for w in ("forward_s", "backward_s")))


class Masked(nn.Module):
    """Of two arguments one is for all samples."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x, mask):
        return self.b(torch.tanh(self.a(x) * mask))


def refused(call, word):
    try:
        call()
    except ValueError as reason:
        assert word in str(reason), reason
        return
    raise AssertionError("not refused: " + word)


def microbatches_are_the_batch(program, folder):
    torch.manual_seed(3)
    net, x, mask, target = Masked(), torch.randn(12, 5, 6), torch.randn(5, 6), torch.randn(12, 5, 3)
    exported = fe.export(net, (x, mask))
    model, plan = os.path.join(folder, "masked.json"), os.path.join(folder, "masked.plan.json")
    exported.write(model)
    foreline(program, "plan", "--model", model, "--platform", "laptop", "--algorithm", "uniform", "--stages", "2",
             "--microbatches", "4", "-o", plan)
    parts, loss = exported.split(plan), nn.MSELoss()
    whole = net(x, mask)
    for n in (1, 2, 3, 4, 6, 12):
        pieces = fe.chunks({"x": x, "mask": mask, "target": target, "name": "m"}, n,
                           {"x": 0, "mask": None, "target": 0, "name": None})
        made = [parts(p["x"], p["mask"]) for p in pieces]
        assert all(p["mask"] is mask and p["name"] == "m" and len(p["x"]) == 12 // n for p in pieces)
        out, of = fe.merge([(m, loss(m, p["target"])) for m, p in zip(made, pieces)], (0, "mean"))
        assert torch.allclose(out, whole, rtol=1e-6, atol=1e-6), n
        assert abs(of - loss(whole, target)) < 1e-6
    assert torch.equal(fe.merge(fe.chunks([x, (x, mask)], 5, [1, (1, 0)])[:], [1, (1, 0)])[1][0], x)
    refused(lambda: fe.chunks((x, mask), 5), "batch[0]: dimension 0 of (12, 5, 6)")
    refused(lambda: fe.chunks((x, mask), 2, (3, None)), "batch[0]: dimension 3")
    refused(lambda: fe.chunks((x, mask), 2, (0,)), "2 values")
    refused(lambda: fe.chunks({"x": x}, 2, {"y": 0}), "1 values")
    refused(lambda: fe.merge([x, mask], None), "different values")


def another_plan_is_refused(program, folder):
    exported = fe.export(nn.Sequential(nn.Linear(4, 4)), torch.zeros(1, 4))
    try:
        exported.stages({"stages": [{"ops": ["0", "1"]}]})
    except ValueError as reason:
        assert "another model" in str(reason)
        return
    raise AssertionError("a plan of other ops was taken")


def main():
    program = sys.argv[1]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for case in (marked_modules_are_a_chain, parameters_of_the_root_are_those_of_the_ops_that_read_them, ghosts_do_not_count, what_cannot_be_traced_is_one_op,
                     random_networks_are_counted, microbatches_are_the_batch, another_plan_is_refused,
                     a_root_that_cannot_be_traced_says_what_to_do,
                     ranges_of_a_trace_are_the_profile_of_its_ops):
            case(program, folder)
        torch.manual_seed(1)
        round_trip(program, folder, "skips", Skips(),
                   lambda: (torch.randn(8, 1, 12), torch.randint(6, (8, 1))), 8)
        gpt = networks.Transformer(3, 32, 4, 64, 8, 20, True, True, networks.Tanh())
        round_trip(program, folder, "transformer", gpt,
                   lambda: (torch.randint(20, (4, 8)), torch.randint(20, (4, 8))), 4)


if __name__ == "__main__":
    main()
