"""Capture what each rank of a PyTorch training script does, without the other ranks and without a GPU.

Called by `foreline capture`; docs/how-to/capture.md is about it. The script runs unmodified, one rank at a time, as torchrun would start
it, with a process group that communicates nothing and, unless --real, tensors that hold nothing (FakeTensorMode). Recorded are
operators with their shapes, communication, waits and memory, between step marks; a period that recurs is kept. Ranks whose
periods are equal are one class, written once.

    capture.py -o DIR --world-size N [--ranks 0,1] [--steps K] [--real] [--dry] [--profile] -- python3 script.py args ...

This file starts the ranks and tells them apart; capture_rank.py is one rank in a process of its own, capture_alone.py what it finds
instead of the others, capture_operators.py what operators take. Standard library and torch only; Python >= 3.9, torch >= 1.13."""
import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

from capture_alone import Missing, Together, Unsuited
from capture_operators import profile, write_json
from capture_rank import capture_rank

FORMAT, VERSION = 'foreline-capture', 1
STATUS = {1: Unsuited, 3: Missing, 4: Together}         # of a rank that fails
MOST_TOGETHER = 32      # ranks that are captured at the same time
IN_LIBRARIES = re.compile(r'/(site|dist)-packages/|/lib/python3|<frozen|/capture(_\w+)?\.py"')


def split_words(words):
    """The interpreter, and what it runs."""
    first = os.path.basename(words[0]) if words else ''
    if first.startswith('python'):
        if len(words) < 2:
            raise Unsuited('no script given. Try foreline capture --world-size N -- python3 train.py ARGUMENTS')
        return words[0], words[1:]
    if first.endswith('.py'):
        return 'python3', words
    raise Unsuited(f"got '{first}', expected a python. Try -- python3 train.py ARGUMENTS (capture starts the ranks itself)")


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
                 '--steps', str(o.steps), '--device', o.device, '--node', str(o.node), '--letters', o.letters, *extra, '--', *o.words]
        try:
            self.process = subprocess.Popen(words, env=environment(o, rank), stdin=subprocess.DEVNULL, stdout=self.log,
                                            stderr=self.log)
        except OSError as e:
            raise Missing(f'{o.python}: {e.strerror}')
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
            where = [line for line in lines if line.startswith('File ') and not IN_LIBRARIES.search(line)] or \
                [line for line in lines if line.startswith('File ')]
            raise STATUS.get(code, Unsuited)(f'rank {self.rank}: {why}' + (f' ({where[-1]})' if where and not told else ''))
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
        try:
            if not self.captured and missing:
                self.capture_first(missing[0])
            self.take(run_ranks(self.o, [r for r in missing if r not in self.captured], self.extra))
        except Together as e:
            self.capture_together(e)

    def capture_first(self, rank):
        """With fake tensors, if the script can."""
        try:
            self.take(run_ranks(self.o, [rank], self.extra))
        except (Missing, Together):
            raise
        except Unsuited as e:
            if self.o.real:
                raise
            print(f'note: this script fails with fake tensors ({e}); using real ones as with --real, which takes the '
                  'memory and time of the steps', file=sys.stderr)
            self.extra, self.o.real = ['--real'], True

    def capture_together(self, why):
        """All ranks at the same time, as they exchange objects; a dry run finds those again."""
        if self.o.world_size > MOST_TOGETHER:
            raise Missing(f'{why}; at most {MOST_TOGETHER} ranks can be captured at the same time. Try fewer ranks; stages of '
                          'torch.distributed.pipelining exchange no objects where PipelineStage is given input_args and output_args')
        self.o.letters = os.path.join(self.o.output, 'objects')
        shutil.rmtree(self.o.letters, ignore_errors=True)
        os.makedirs(self.o.letters)
        self.take(run_ranks(self.o, range(self.o.world_size), self.extra, self.o.world_size))

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
            raise Unsuited(f'rank {rank} creates other process groups than rank {min(captured)}; every rank must call new_group() for all')
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
        body = {k: v for k, v in c.items() if k not in ('own', 'groups', 'notes', 'torch', 'model')}
        write_json(os.path.join(o.output, name), dict(body, rank=member))
        classes.append({'file': name, 'captured': member, 'ranks': [r for r in range(o.world_size) if ranks.kind[r] == kind]})
    notes = sorted({note for c in ranks.captured.values() for note in c['notes']})
    first = ranks.captured[min(ranks.captured)]
    write_json(os.path.join(o.output, 'capture.json'), {
        'format': FORMAT, 'version': VERSION, 'command': ' '.join([os.path.basename(o.words[0]), *o.words[1:]]),
        'torch': first['torch'], 'device': o.device, 'fake': not o.real, 'world_size': o.world_size,
        'node': o.node, 'groups': groups, 'classes': classes, 'notes': notes})
    if first['model']:
        write_json(os.path.join(o.output, 'model.json'), dict(first['model'], name=model_name(o.words)))
    return classes, notes


def model_name(words):
    script = [w for w in words if not w.startswith('-')]
    return os.path.splitext(os.path.basename(script[0]))[0] if script else 'captured'


def number(n):
    return f'{n:,}'


def tell(o, ranks, classes, notes):
    print(f'captured    {len(ranks.captured)} of {o.world_size} ranks ({spans(ranks.captured)}), '
          f'{"real" if o.real else "fake"} tensors, {len(classes)} class{"es" if len(classes) != 1 else ""} of ranks alike'
          + (f'; the other {o.world_size - len(ranks.captured)} were not run' if len(ranks.captured) < o.world_size else ''))
    for c in classes:
        got = ranks.captured[c['captured']]
        ops = got['ops']
        compute = sum(op['op'] == 'compute' for op in ops)
        messages = sum(op['op'] in ('send', 'recv') for op in ops)
        collectives = sum(op['op'] not in ('compute', 'wait', 'send', 'recv') for op in ops)
        flop = sum(got['operators'][op['operator']]['flop'] for op in ops if op['op'] == 'compute')
        print(f'{c["file"]:<11} ranks {spans(c["ranks"])}: {number(compute)} operators of {len(got["operators"])} kinds and '
              f'shapes, {flop / 1e9:,.1f} GFLOP; {collectives} collectives, {messages} messages; '
              f'peak {got["peak_bytes"] / 2 ** 30:.3f} GiB' + (f'; a period is {got["steps"]} steps' if got['steps'] > 1 else ''))
    model = ranks.captured[min(ranks.captured)]['model']
    if model:
        print(f'model.json  {number(len(model["ops"]))} ops of the script\'s modules, '
              f'{sum(op["parameter_bytes"] for op in model["ops"]) / model["element_bytes"] / 1e6:,.1f} million parameters, for foreline plan --model')
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
            raise Unsuited(f'a dry run of rank {c["captured"]} communicates {len(got["dry"]) - 1} times a step, expected '
                           f'{wanted - 1} as in the captured one')
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
    if o.letters:
        shutil.rmtree(o.letters)
    if o.profile:
        done = subprocess.run([o.python, os.path.abspath(__file__), '--measure', o.output, '--world-size', '1', '--', *o.words])
        if done.returncode:
            raise Unsuited('measuring operators failed; see the output above')


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
        raise Unsuited(f"--ranks: got '{text}', expected numbers such as 0,1,7")
    if not out or out[0] < 0 or out[-1] >= n:
        raise Unsuited(f'--ranks: got {text}, expected ranks 0 to {n - 1}')
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
    p.add_argument('--errors-here', action='store_true', help=argparse.SUPPRESS)
    for flag in ('--real', '--dry', '--profile'):
        p.add_argument(flag, action='store_true')
    for hidden in ('--child', '--measure', '--letters'):
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
                raise Unsuited('--world-size: expected at least 1')
            o.python, o.words = split_words(o.words)
            o.ranks = rank_list(o.ranks, o.world_size) if o.ranks else []
            capture_all(o)
    except Unsuited as e:
        print(f'foreline: {e}', file=sys.stdout if o.errors_here else sys.stderr)
        return next(code for code, kind in STATUS.items() if type(e) is kind)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
