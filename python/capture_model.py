"""The model that a script trains alone (--world-size 1), for `foreline plan`: the operators of each call of a module are ops, products
apart from what is between them, with what they read.

Part of `foreline capture`; docs/how-to/capture.md is about it. Work is what the operators took, the stash what the backward read of a
forward; both are divided by the samples of a step. Standard library and torch only."""
from capture_operators import READS_ROWS, bytes_of, storage_id

FORWARD, BACKWARD = 'forward', 'backward'
ELEMENT = {'fp32': 4, 'fp16': 2, 'bf16': 2, 'fp8': 1}


class Tensors:
    """Which storage is which tensor, of those that operators make and read. One that is written again is a new tensor, except in
    an update: parameters stay what they are."""

    def __init__(self):
        self.number, self.sizes = {}, []

    def read(self, tensors):
        return sorted({self.find(t) for t in tensors})

    def find(self, t):
        key = storage_id(t)
        return self.number[key] if key in self.number else self.make([t])[0]

    def make(self, tensors):
        out = []
        for t in tensors:
            self.number[storage_id(t)] = len(self.sizes)
            out.append(len(self.sizes))
            self.sizes.append(bytes_of(t))
        return out


class Op:
    """Operators of one module in a row, products or the passes between them, over all forwards of the period."""

    def __init__(self, name, passes):
        self.name, self.passes, self.inputs, self.made = name, passes, {}, set()
        self.flop, self.bytes = {FORWARD: 0.0, BACKWARD: 0.0}, {FORWARD: 0.0, BACKWARD: 0.0}
        self.own, self.borrowed, self.lender, self.sparse = 0, 0, None, False
        self.stash = self.output = 0
        self.most, self.kind, self.product = -1.0, 'compute', None

    def run(self, row, phase, flop=1.0, moved=1.0):
        self.flop[phase] += row['flop'] * flop
        self.bytes[phase] += row['bytes'] * moved
        word = row['op'].split('.')[1]
        self.sparse = self.sparse or word == 'embedding'
        if phase == FORWARD and row['flop'] + row['bytes'] > self.most:
            self.most, self.kind = row['flop'] + row['bytes'], word
            self.product = row['dims'] if row['kernel'] == 'product' else None


class Builder:
    """Of the entries of a period, as capture_rank.Record has them: ['C', operator, phase, module, held, made, read]."""

    def __init__(self, record):
        self.record = record
        self.ops, self.of_module, self.maker = {}, {}, {}
        self.samples = self.tokens = 0
        self.calls = []             # op and entry of each operator of a forward
        self.parameter = {}         # tensor: numbers
        for _, module in record.names.values():
            for p in module._parameters.values():
                if p is not None and storage_id(p) in record.tensors.number:
                    self.parameter[record.tensors.number[storage_id(p)]] = p.numel()

    def add(self, entries, begin):
        self.forward(entries, begin)
        for e in entries:
            if e[0] == 'C' and e[2] == BACKWARD:
                self.backward(e)
        self.owners()
        return self

    def forward(self, entries, begin):
        """From where a model is called to the backward, so that neither data nor norms of gradients are in it. Calls of a module
        are numbered from the beginning of each forward."""
        called = {at: batch for at, *batch in self.record.batches}
        calls, last, op, inside = {}, None, None, False
        for at, e in enumerate(entries, begin):
            if at in called and not inside:
                calls, last, inside = {}, None, True
                self.samples, self.tokens = self.samples + called[at][0], called[at][1]
            inside = inside and not (e[0] == 'C' and e[2] == BACKWARD)
            if not inside or e[0] != 'C' or e[2] != FORWARD:
                continue
            passes = self.record.operators[e[1]]['kernel'] == 'pass'
            if (e[3], passes) != last:
                name = self.record.modules[e[3]] or 'script'
                calls[name] = calls.get(name, 0) + 1
                name += f'#{calls[name]}' if calls[name] > 1 else ''
                op, last = self.ops.setdefault(name, Op(name, passes)), (e[3], passes)
                self.of_module.setdefault(e[3], {})[name] = op
            op.run(self.record.operators[e[1]], FORWARD)
            self.calls.append((op, e))
            self.link(op, e)

    def link(self, op, e):
        """What it reads of other ops they pass on, once."""
        for t in e[6]:
            maker = self.maker.get(t)
            if maker and maker is not op:
                op.inputs[maker.name] = None
                if t in maker.made:
                    maker.made.remove(t)
                    maker.output += self.record.tensors.sizes[t]
        for t in e[5]:
            self.maker[t] = op
            op.made.add(t)

    def owners(self):
        """Parameters are those of the first op that reads them; their traffic is counted by whoever plans."""
        owner, seen = {}, set()
        for op, e in self.calls:
            rows = self.record.operators[e[1]]['op'].split('.')[1] in READS_ROWS
            for t in e[6]:
                if t not in self.parameter:
                    continue
                size = self.record.tensors.sizes[t]
                if not rows:
                    op.bytes[FORWARD] -= size
                    op.bytes[BACKWARD] -= 2 * size
                if (t, op.name) in seen:
                    continue
                seen.add((t, op.name))
                if owner.setdefault(t, op) is op:
                    op.own += self.parameter[t]
                elif op.lender in (None, owner[t].name):
                    op.lender, op.borrowed = owner[t].name, op.borrowed + self.parameter[t]

    def backward(self, e):
        """Work goes to the ops of its module that are as it is, by their share of the forward; what it reads of a forward was kept."""
        row = self.record.operators[e[1]]
        at = list(self.of_module.get(e[3], {}).values()) or list(self.ops.values())[-1:]
        at = [o for o in at if o.passes == (row['kernel'] == 'pass')] or at
        flop, moved = sum(o.flop[FORWARD] for o in at), sum(o.bytes[FORWARD] for o in at)
        for o in at:
            share = o.bytes[FORWARD] / moved if moved else 1.0 / len(at)
            o.run(row, BACKWARD, o.flop[FORWARD] / flop if flop else share, share)
        for t in e[6]:
            if t in self.maker:
                self.maker.pop(t).stash += self.record.tensors.sizes[t]

    def layer(self, op, samples):
        """A product with parameters has the shape of a linear layer, whose kernel speeds are known."""
        if not op.product or op.product[0] != 1 or not op.own:
            return {'kind': op.kind}
        _, rows, out, into = op.product
        tokens = round(op.flop[FORWARD] / (2.0 * out * into * samples))
        if tokens * samples % rows:
            return {'kind': op.kind}
        return {'kind': 'linear', 'attributes': {'tokens': tokens, 'in': into, 'out': out, 'bias': int(op.own > out * into)}}

    def numbers(self):
        """The type of most FLOP of the forward, and the bytes of one of its numbers."""
        flop = {}
        for _, e in self.calls:
            row = self.record.operators[e[1]]
            flop[row['type']] = flop.get(row['type'], 0.0) + row['flop']
        name = max((t for t in flop if t in ELEMENT), key=flop.get, default='fp32')
        return name, ELEMENT[name]

    def document(self, steps, torch):
        samples = max(1, self.samples)
        name, element = self.numbers()
        rows = []
        for o in self.ops.values():
            row = {'name': o.name, **self.layer(o, samples), 'inputs': list(o.inputs)}
            for phase in (FORWARD, BACKWARD):
                row[f'{phase}_flop'] = o.flop[phase] / samples
                row[f'{phase}_bytes'] = max(0.0, o.bytes[phase]) / samples
            row['parameter_bytes'] = o.own * element
            if o.sparse:
                row['sparse'] = True
            if o.lender:
                row['shares'], row['shared_bytes'] = o.lender, o.borrowed * element
            row['stash_bytes'], row['output_bytes'] = -(-o.stash // samples), -(-o.output // samples)
            rows.append(row)
        return {'format': 'foreline-model', 'version': 1, 'name': 'captured', 'tokens_per_sample': self.tokens, 'dtype': name,
                'element_bytes': element, 'ops': rows,
                'note': f'captured by PyTorch {torch}: {samples / steps:g} samples a step'}


def model_of(record, begin, end, steps, torch):
    """None: no module with parameters was called with a tensor. `steps` are what the log holds from begin to end."""
    builder = Builder(record).add(record.log[begin:end], begin)
    return builder.document(steps, torch) if builder.ops else None
