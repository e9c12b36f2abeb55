"""The model that `foreline capture --world-size 1` writes, against what torch counts of the same drawn networks.

capture_model.py FORELINE [FOLDER] [DRAWS]"""
import json
import os
import random
import subprocess
import sys
import tempfile

import networks  # first: it says what is missing
import torch
from torch import nn

FORELINE, DRAWS = os.path.abspath(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 3
KINDS = ('images', 'perceptron', 'transformer')
SCRIPT = '''
import random, sys
sys.path.insert(0, {here!r})
import networks, torch
net, x = networks.{kind}(random.Random({seed}))
x = torch.cat([x] * {copies})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    for part in torch.chunk(x, {passes}):
        {call}.float().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
'''


def foreline(*words):
    done = subprocess.run([FORELINE, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def captured(folder, kind, seed, copies=2, passes=1, call='net(part)'):
    script, out = os.path.join(folder, f'{kind}.py'), os.path.join(folder, 'run')
    with open(script, 'w') as f:
        f.write(SCRIPT.format(here=os.path.dirname(os.path.abspath(__file__)), kind=kind, seed=seed, copies=copies, passes=passes, call=call))
    foreline('capture', '-o', out, '--world-size', '1', '--', sys.executable, script)
    with open(os.path.join(out, 'model.json')) as f:
        return json.load(f)


def kept_bytes(net, x):
    """What autograd keeps of a forward, that the forward made."""
    given = {p.data_ptr() for p in [*net.parameters(), *net.buffers(), x]}
    kept = {}

    def keep(t):
        memory = t.untyped_storage() if hasattr(t, 'untyped_storage') else t.storage()
        if memory.data_ptr() not in given:
            kept[memory.data_ptr()] = (memory.nbytes(), t)
        return t
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        net(x).float().sum()
    return sum(size for size, _ in kept.values())


def total(model, key):
    return sum(op.get(key, 0) for op in model['ops'])


def near(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 1)


def drawn_networks():
    draw = random.Random(46)
    for i in range(DRAWS):
        kind, seed = KINDS[i % len(KINDS)], draw.randrange(10 ** 6)
        net, x = getattr(networks, kind)(random.Random(seed))
        with tempfile.TemporaryDirectory() as folder:
            model = captured(folder, kind, seed)
            shown = json.loads(foreline('model', 'show', '--json', os.path.join(folder, 'run', 'model.json')))
            # the same samples in two passes; called by keywords
            halves = captured(folder, kind, seed, passes=2)
            named = captured(folder, kind, seed, call='net(*[], **{"input" if type(net) is torch.nn.Sequential else "ids": part})')
        assert model == named, (kind, seed)
        x = torch.cat([x] * 2)
        samples = x.shape[0]
        assert f': {samples} samples a step' in model['note'], model['note']
        where = (kind, seed, len(model['ops']))
        parameters = {id(p): p.numel() for p in net.parameters()}
        assert total(model, 'parameter_bytes') == 4 * sum(parameters.values()), where
        assert sum(op['parameter_bytes'] for op in shown['ops']) == 4 * sum(parameters.values()), where
        with networks.Products() as count, torch.no_grad():
            net(x)
        fused = isinstance(net, networks.Multihead)     # an operator of its own, which Products does not count
        work = total(model, 'forward_flop') * samples
        assert near(work, count.flop) or (fused and work > count.flop), (where, work, count.flop)
        for key in ('forward_flop', 'backward_flop', 'parameter_bytes', 'shared_bytes'):
            assert near(total(model, key), total(halves, key)), (where, key, total(model, key), total(halves, key))
        kept, stash = kept_bytes(net, x) / samples, total(model, 'stash_bytes')
        rounded = len(model['ops'])
        assert 0.95 * kept - rounded <= stash <= kept + rounded, (where, kept, stash)  # some that is kept nobody reads
    print(f'{DRAWS} networks: parameters, products and what autograd keeps are as torch counts them')


def one_block():
    """Which op reads which, and what they pass on, of a network where it is known."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, 'net.py'), os.path.join(folder, 'run')
        with open(script, 'w') as f:
            f.write('''
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.table.weight
    def forward(self, ids):
        x = self.table(ids)
        return self.head(x + self.down(torch.relu(self.up(x))))
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(6):
    ids = torch.randint(50, (4, 8))
    nn.CrossEntropyLoss()(net(ids).reshape(-1, 50), ids.reshape(-1)).backward()
    optimizer.step()
''')
        foreline('capture', '-o', out, '--world-size', '1', '--', sys.executable, script)
        with open(os.path.join(out, 'model.json')) as f:
            model = json.load(f)
    ops = {op['name']: op for op in model['ops']}
    assert model['tokens_per_sample'] == 8 and model['dtype'] == 'fp32'
    x = 8 * 16 * 4
    assert ops['table']['sparse'] and ops['table']['parameter_bytes'] == 50 * 16 * 4 and ops['table']['output_bytes'] == x
    assert ops['up']['inputs'] == ['table'] and ops['up']['kind'] == 'linear', ops['up']
    assert ops['up']['attributes'] == {'tokens': 8, 'in': 16, 'out': 64, 'bias': 1}, ops['up']
    assert ops['up']['forward_flop'] == 2 * 8 * 16 * 64 and ops['up']['backward_flop'] == 2 * ops['up']['forward_flop']
    add = next(op for op in model['ops'] if sorted(op['inputs']) == ['down', 'table'])
    assert add['output_bytes'] == x
    assert ops['head']['inputs'] == [add['name']] and ops['head']['shares'] == 'table', ops['head']
    assert ops['head']['parameter_bytes'] == 0 and ops['head']['shared_bytes'] == 50 * 16 * 4
    assert ops['head']['output_bytes'] == 8 * 50 * 4
    print('a block with tied weights: inputs, outputs and shapes')


drawn_networks()
one_block()
