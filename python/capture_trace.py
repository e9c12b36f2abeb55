"""What readers of traces share: the list of a rank, what links ranks, and the capture folder that comes of it.

A reader makes a Rank of each file: entries in the order of the rank's clock, where a collective or message is issued behind all
that is listed before it, starts behind those in `after`, too, and `wait` is where the rank goes on only when it is over."""
import collections
import gzip
import hashlib
import json
import os
import re
import zlib

from capture_alone import Unsuited
from capture_operators import write_json

LARGEST, ENTRIES, RANKS = 1 << 29, 1 << 22, 1 << 16    # bytes of a file unpacked, entries of a rank, ranks
COLLECTIVES = ('allreduce', 'reduce', 'allgather', 'gather', 'scatter', 'broadcast', 'alltoall', 'reducescatter')


class Rank:
    """One rank of a trace. groups: those that its trace lists, as tuples of ranks; measured: seconds of the step in
    it; device: its name; ideal: collectives took what the links allow, since a simulator wrote the trace."""

    def __init__(self, path, rank=None, world=0):
        self.path, self.rank, self.world = path, rank, world
        self.entries, self.groups, self.measured, self.span = [], [], 0.0, None
        self.notes, self.device, self.ideal = collections.Counter(), None, False

    def compute(self, name, seconds, phase='forward', **work):
        self.put({'op': 'compute', 'name': name, 'seconds': seconds, 'phase': phase, 'work': work})

    def collective(self, kind, group, size, after=()):
        return self.put({'op': kind, 'group': group, 'bytes': int(size), 'after': list(after)})

    def message(self, kind, peer, tag, size, after=()):
        return self.put({'op': kind, 'peer': peer, 'tag': tag, 'bytes': int(size), 'after': list(after)})

    def wait(self, of):
        self.put({'op': 'wait', 'of': of})

    def put(self, entry):
        if len(self.entries) == ENTRIES:
            raise Unsuited(f'{self.path}: more than {ENTRIES:,} entries')
        self.entries.append(entry)
        return entry


def load(path):
    """The bytes of a file, unpacked if it is gzipped."""
    try:
        with open(path, 'rb') as f:
            data = f.read(LARGEST + 1)
        if data[:2] == b'\x1f\x8b':
            with gzip.open(path, 'rb') as f:
                data = f.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as e:
        raise Unsuited(f'{path}: {getattr(e, "strerror", None) or e}')
    if len(data) > LARGEST:
        raise Unsuited(f'{path}: more than {LARGEST >> 20} MiB')
    return data


def parse(data, path):
    """JSON of a stranger: the innermost lists are not deeper than Python's own."""
    try:
        return json.loads(data)
    except UnicodeDecodeError as e:
        raise Unsuited(f'{path}: offset {e.start}: not UTF-8')
    except json.JSONDecodeError as e:
        raise Unsuited(f'{path}:{e.lineno}: {e.msg}')
    except RecursionError:
        raise Unsuited(f'{path}: JSON is nested too deeply')


def number_in(path):
    """The last number of a file's name, before its endings: foreline.3.et is rank 3."""
    found = re.findall(r'\d+', re.sub(r'\.(json|gz|et|pt|trace|tgz)', '', os.path.basename(path)))
    return int(found[-1]) if found and len(found[-1]) < 6 else None


# ---- all ranks

def place_ranks(ranks):
    """By number; the world is as large as the traces say, at least what they use."""
    for r in ranks:
        if r.rank is None:
            r.rank = 0 if len(ranks) == 1 else number_in(r.path)
        if r.rank is None:
            raise Unsuited(f'{r.path}: the trace does not tell its rank; put the number into the file name, as in trace.3.json')
    by_rank = {}
    for r in ranks:
        if r.rank in by_rank:
            raise Unsuited(f'{r.path}: rank {r.rank} is in {by_rank[r.rank].path}, too')
        by_rank[r.rank] = r
    uses = [m for r in ranks for e in r.entries for m in (*(e.get('group') or ()), e.get('peer', 0))]
    world = max([r.world for r in ranks] + [max(by_rank) + 1] + [m + 1 for m in uses])
    if world > RANKS:
        raise Unsuited(f'the traces have ranks up to {world - 1}, expected at most {RANKS} ranks')
    everyone = tuple(range(world))
    for r in ranks:
        for e in r.entries:
            if 'group' in e:
                e['group'] = everyone if e['group'] is None else tuple(sorted(set(e['group'])))
                e['bytes'] *= len(e['group']) if e.pop('each', False) else 1
                if r.rank not in e['group']:
                    raise Unsuited(f'{r.path}: rank {r.rank} communicates in the group {list(e["group"])[:8]}, which it is not in')
    return by_rank, world


def derive(by_rank, world, notes):
    """Ranks without a trace do what one with a trace does, in groups and with peers as far away."""
    given = sorted(by_rank)
    missing = [r for r in range(world) if r not in by_rank]
    for r in missing:
        source = by_rank[given[r % len(given)]]
        by_rank[r] = copy = Rank(source.path, r, world)
        moved = {}
        for e in source.entries:
            new = dict(e)
            if 'group' in e and len(e['group']) < world:
                new['group'] = tuple((m + r - source.rank) % world for m in e['group'])
            if 'peer' in e:
                new['peer'] = (e['peer'] + r - source.rank) % world
            if 'after' in e:
                new['after'] = [moved[id(a)] for a in e['after']]
            if 'of' in e:
                new['of'] = moved[id(e['of'])]
            moved[id(e)] = new
            copy.entries.append(new)
        for e in copy.entries:
            if 'group' in e:
                e['group'] = tuple(sorted(e['group']))
    if missing:
        notes.append(f'{len(missing)} of {world} ranks have no trace; they do what ranks {given[0]} to {given[-1]} do')


def agree(rows, name, dropped):
    """Calls of one group, rank by rank: the k-th ones are one. What not all have at the end is left out."""
    least = min(len(row) for row in rows.values())
    for rank, row in rows.items():
        dropped.update(id(e) for e in row[least:])
    for k in range(least):
        calls = {rank: row[k] for rank, row in rows.items()}
        kinds = {e['op'] for e in calls.values()}
        if len(kinds) > 1:
            a, b = sorted(calls)[0], next(r for r in sorted(calls) if calls[r]['op'] != calls[sorted(calls)[0]]['op'])
            raise Unsuited(f'{name}: collective {k} is {calls[a]["op"]} on rank {a}, but {calls[b]["op"]} on rank {b}; '
                           'give traces of the same step')
        size = max(e['bytes'] for e in calls.values())
        for e in calls.values():
            e['bytes'] = size


def match(by_rank, notes):
    """Collectives meet by group and order, messages by ends, tag and order; what has no partner is left out and counted."""
    groups, ends, dropped = {}, {}, set()
    for rank in sorted(by_rank):
        for e in by_rank[rank].entries:
            if 'group' in e:
                groups.setdefault(e['group'], {m: [] for m in e['group']})[rank].append(e)
            elif 'peer' in e:
                pair = (rank, e['peer']) if e['op'] == 'send' else (e['peer'], rank)
                ends.setdefault((*pair, e['tag']), ([], []))[e['op'] == 'send'].append(e)
    for members, rows in groups.items():
        agree(rows, f'group {list(members)[:4]}{"..." if len(members) > 4 else ""}', dropped)
    for recvs, sends in ends.values():
        least = min(len(recvs), len(sends))
        dropped.update(id(e) for e in recvs[least:] + sends[least:])
        for a, b in zip(recvs, sends):
            a['bytes'] = b['bytes'] = max(a['bytes'], b['bytes'])
    for r in by_rank.values():
        r.entries = [e for e in r.entries if id(e) not in dropped and id(e.get('of')) not in dropped]
        for e in r.entries:
            if 'after' in e:
                e['after'] = [a for a in e['after'] if id(a) not in dropped]
    if dropped:
        notes.append(f'{len(dropped)} collectives or messages have no partner on other ranks and are left out')


# ---- the folder

def operator_of(e, table, rows):
    work = e['work']
    key = hashlib.sha256(json.dumps([e['name'], work], sort_keys=True).encode()).hexdigest()[:16]
    if key not in table:
        table[key] = len(rows)
        rows.append({'op': e['name'][:200], 'key': key, 'kernel': 'pass', 'flop': 0, 'bytes': 0, **work})
    return table[key]


def class_of(r, own):
    """The entries as a class file has them. own: which of the rank's groups a tuple is; messages are in the first."""
    table, rows, ops, number = {}, [], [], {}
    for e in r.entries:
        if e['op'] == 'compute':
            ops.append({'op': 'compute', 'operator': operator_of(e, table, rows), 'phase': e['phase'], 'module': 0,
                        'held': 0, 'seconds': e['seconds']})
            continue
        if e['op'] == 'wait':
            ops.append({'op': 'wait', 'id': number[id(e['of'])]})
            continue
        out = {'op': e['op'], 'bytes': e['bytes'], 'id': len(number)}
        number[id(e)] = out['id']
        if 'peer' in e:
            out.update(group=0, distance=(e['peer'] - r.rank) % r.world, tag=e['tag'])
        else:
            out.update(group=own[e['group']])
            if e.get('calls', 1) > 1:
                out['calls'] = e['calls']
        after = sorted({number[id(a)] for a in e['after']})
        if after:
            out['after'] = after
        ops.append(out)
    return {'format': 'foreline-capture-class', 'version': 1, 'torch': '', 'steps': 1, 'weight_bytes': 0, 'gradient_bytes': 0,
            'state_bytes': 0, 'peak_bytes': 0, 'modules': [''], 'operators': rows, 'ops': ops}


def write(by_rank, world, folder, what, notes):
    groups = [tuple(range(world))]
    for r in by_rank.values():
        r.world = world
        groups += [e['group'] for e in r.entries if 'group' in e]
    groups = list(dict.fromkeys(groups))
    classes, file_of = [], {}
    os.makedirs(folder, exist_ok=True)
    for rank in range(world):
        own = {g: i for i, g in enumerate(g for g in groups if rank in g)}
        body = class_of(by_rank[rank], own)
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        if key not in file_of:
            file_of[key] = len(classes)
            classes.append({'file': f'class-{len(classes)}.json', 'captured': rank, 'ranks': []})
            write_json(os.path.join(folder, classes[-1]['file']), dict(body, rank=rank))
        classes[file_of[key]]['ranks'].append(rank)
    devices = [by_rank[r].device for r in range(world)]
    write_json(os.path.join(folder, 'capture.json'), {
        **({'devices': devices} if all(isinstance(d, str) for d in devices) else {}), 'ideal': all(r.ideal for r in by_rank.values()),
        'format': 'foreline-capture', 'version': 1, 'command': what, 'torch': '', 'device': 'trace', 'fake': False,
        'world_size': world, 'node': min(8, world), 'groups': [list(g) for g in groups], 'classes': classes, 'notes': notes})
    return classes


def build(ranks, folder, what):
    """Traces to a capture; returns the lines to tell."""
    notes = []
    given = len(ranks)
    for text, count in sum((r.notes for r in ranks), collections.Counter()).items():
        notes.append(text.replace('#', f'{count:,}'))
    by_rank, world = place_ranks(ranks)
    derive(by_rank, world, notes)
    match(by_rank, notes)
    classes = write(by_rank, world, folder, what, notes)
    count = collections.Counter('compute' if e['op'] == 'compute' else 'wait' if e['op'] == 'wait' else
                                'message' if 'peer' in e else 'collective' for r in by_rank.values() for e in r.entries)
    lines = [f'imported    {given} of {world} ranks, {what}, {len(classes)} class{"es" if len(classes) != 1 else ""} of ranks alike',
             f'all ranks   {count["compute"]:,} compute entries, {count["collective"]:,} collectives, {count["message"]:,} '
             f'messages, {count["wait"]:,} waits']
    measured = [r.measured for r in ranks if r.measured > 0]
    if measured:
        lines.append(f'step        {max(measured) * 1e3:.3f} ms measured in the traces')
    return lines, notes
