"""Chakra execution traces, a file a rank: protocol-buffer messages after their lengths, GlobalMetadata first, then Nodes.

Field numbers: mlcommons/chakra, schema/protobuf/et_def.proto, schema 0.0.4. A folder's comm_group.json names the groups."""
import heapq
import os
import struct

from capture_alone import Unsuited
from capture_clock import Clock
from capture_trace import Rank, load, number_in, parse

COMP, SEND, RECV, COLL = 4, 5, 6, 7
KINDS = ('allreduce', 'reduce', 'allgather', 'gather', 'scatter', 'broadcast', 'alltoall', 'reducescatter', 'reducescatter',
         'allreduce')                                      # CollectiveCommType; the last: a barrier
NODES, DEPS = 1 << 22, 1 << 24


class Wire:
    """Fields of one message, data[at:end]."""

    def __init__(self, data, at, end, path):
        self.data, self.at, self.end, self.path = data, at, end, path

    def bad(self, text):
        return Unsuited(f'{self.path}: offset {self.at}: {text}')

    def varint(self):
        value = shift = 0
        while True:
            if self.at >= self.end or shift > 63:
                raise self.bad('a number does not end')
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, n):
        if n > self.end - self.at:
            raise self.bad(f'a field has {n} bytes, but {self.end - self.at} are left')
        self.at += n
        return self.at - n

    def piece(self):
        n = self.varint()
        at = self.take(n)
        return Wire(self.data, at, at + n, self.path)

    def fields(self):
        while self.at < self.end:
            key = self.varint()
            wire = key & 7
            if wire == 0:
                yield key >> 3, self.varint()
            elif wire == 1:
                at = self.take(8)
                yield key >> 3, self.data[at:at + 8]
            elif wire == 2:
                yield key >> 3, self.piece()
            elif wire == 5:
                at = self.take(4)
                yield key >> 3, self.data[at:at + 4]
            else:
                raise self.bad(f'wire type {wire}, expected 0, 1, 2 or 5')

    def text(self):
        return self.data[self.at:self.end].decode('utf-8', 'replace')


class Node:
    __slots__ = ('id', 'name', 'type', 'start', 'duration', 'deps', 'attr', 'place')


def attribute(w):
    name, value = '', None
    for field, v in w.fields():
        if field == 1 and isinstance(v, Wire):
            name = v.text()
        elif field == 3 and isinstance(v, bytes) and len(v) == 8:
            value = struct.unpack('<d', v)[0]
        elif field in (7, 9) and isinstance(v, int):
            value = v - (1 << 64) if v >> 63 else v
        elif field in (11, 13, 27) and isinstance(v, int):
            value = v
        elif field == 29 and isinstance(v, Wire):
            value = v.text()
    return name, value


def node_of(w):
    n = Node()
    n.id, n.name, n.type, n.start, n.duration, n.deps, n.attr = 0, '', 0, 0, 0, [], {}
    for field, v in w.fields():
        if field in (4, 5):
            if isinstance(v, Wire):
                while v.at < v.end:
                    n.deps.append(v.varint())
            elif isinstance(v, int):
                n.deps.append(v)
        elif field == 2 and isinstance(v, Wire):
            n.name = v.text()
        elif field == 10 and isinstance(v, Wire):
            name, value = attribute(v)
            n.attr[name] = value
        elif isinstance(v, int) and field in (1, 3, 6, 7):
            setattr(n, {1: 'id', 3: 'type', 6: 'start', 7: 'duration'}[field], v)
    return n


def nodes_of(data, path):
    """Attributes of the GlobalMetadata, and the nodes."""
    w = Wire(data, 0, len(data), path)
    nodes, deps, head = [], 0, {}
    for field, v in w.piece().fields() if w.at < w.end else ():
        if field == 2 and isinstance(v, Wire):
            name, value = attribute(v)
            head[name] = value
    while w.at < w.end:
        nodes.append(node_of(w.piece()))
        deps += len(nodes[-1].deps)
        if len(nodes) > NODES or deps > DEPS:
            raise Unsuited(f'{path}: more than {NODES:,} nodes or {DEPS:,} dependencies')
    return head, nodes


def ordered(nodes, rank):
    """In an order in which dependencies come first, else that of the file; what is missing or goes round is dropped."""
    index = {n.id: i for i, n in enumerate(nodes)}
    if len(index) < len(nodes):
        raise Unsuited(f'{rank.path}: several nodes have one id')
    left, users = [0] * len(nodes), [[] for _ in nodes]
    for i, n in enumerate(nodes):
        known = {index[d] for d in n.deps if d in index and index[d] != i}
        rank.notes['# dependencies on nodes that are not in the traces are dropped'] += len(set(n.deps)) - len(known)
        n.deps = known
        left[i] = len(known)
        for d in known:
            users[d].append(i)
    ready, done, out, first = [i for i in range(len(nodes)) if not left[i]], [False] * len(nodes), [], 0
    while len(out) < len(nodes):
        if not ready:                                      # a circle: its first node goes without what it waits for
            while done[first]:
                first += 1
            rank.notes['# nodes wait for each other in a circle, which is broken'] += 1
            nodes[first].deps = {d for d in nodes[first].deps if done[d]}
            left[first] = 0
            ready.append(first)
        i = heapq.heappop(ready)
        if done[i]:
            continue
        done[i] = True
        nodes[i].place = len(out)
        out.append(nodes[i])
        for u in users[i]:
            left[u] -= 1
            if left[u] == 0 and not done[u]:
                heapq.heappush(ready, u)
    for n in out:
        n.deps = sorted(nodes[d].place for d in n.deps)
    rank.notes += type(rank.notes)()                       # without zeros
    return out


def seconds_of(n, path):
    s = n.attr.get('seconds')
    s = s if isinstance(s, float) else n.duration * 1e-6
    if not 0 <= s <= 1e6:
        raise Unsuited(f'{path}: node {n.id} takes {s} s')
    return s


def whole(n, name, path, least=0, most=1 << 46):
    value = n.attr.get(name)
    if not isinstance(value, int) or not least <= value <= most:
        raise Unsuited(f'{path}: node {n.id}: attribute {name} is {value!r:.40}, expected a number from {least} to {most}')
    return value


class Chakra:
    """One file."""

    def __init__(self, path, data, groups):
        self.rank = Rank(path, number_in(path))
        self.groups, self.tags = groups, {}
        head, nodes = nodes_of(data, path)
        self.rank.device, self.rank.ideal = head.get('device'), head.get('attained') == 0
        self.nodes = ordered(nodes, self.rank)

    def group(self, n):
        name = n.attr.get('pg_name')
        if name in (None, ''):
            return None
        if isinstance(name, str) and name in self.groups:
            return self.groups[name]
        self.rank.notes['# collectives name a group that no comm_group.json lists; all ranks are taken'] += 1
        return None

    def communication(self, n):
        """Its entry, not yet in the list."""
        size = whole(n, 'comm_size', self.rank.path)
        if n.type == COLL:
            kind, group = KINDS[whole(n, 'comm_type', self.rank.path, 0, len(KINDS) - 1)], self.group(n)
            if 'bytes' in n.attr:
                e = {'op': kind, 'group': group, 'bytes': whole(n, 'bytes', self.rank.path)}
            else:
                e = {'op': kind, 'group': group, 'bytes': size, 'each': kind == 'allgather'}
            if 'calls' in n.attr:
                e['calls'] = e['left'] = whole(n, 'calls', self.rank.path, 1, 1 << 20)
            return e
        sends = n.type == SEND
        return {'op': 'send' if sends else 'recv', 'peer': whole(n, 'comm_dst' if sends else 'comm_src', self.rank.path, 0, 65535),
                'tag': whole(n, 'comm_tag', self.rank.path) if 'comm_tag' in n.attr else 0, 'bytes': size}

    def place(self):
        """Compute is one chain; communication stands behind the last compute that it, or what comes before it on its group or
        to its peer, waits for: it starts no later than it could."""
        slot, entry, slots, last, computed, before = {}, {}, [[]], {}, 0, {}
        for n in self.nodes:
            if n.type in (SEND, RECV, COLL):
                chain = next((entry[d] for d in n.deps if d in entry and entry[d].get('left', 0) > 1), None)
                if chain and 'calls' in n.attr:            # one more of foreline's calls in a row
                    chain['left'] -= 1
                    entry[n.place], slot[n.place] = chain, slot[n.deps[-1]]
                    continue
                e = self.communication(n)
                e['after'] = list({id(entry[d]): entry[d] for d in n.deps if d in entry}.values())
                line = (e['op'], e.get('group'), e.get('peer'))
                at = max([slot[d] for d in n.deps if d in slot] + [last.get(line, 0) if e['op'] != 'recv' else 0])
                if n.type == COLL:
                    line = (e['group'],)
                    at = max(at, last.get(line, 0))
                last[line] = slot[n.place] = at
                entry[n.place] = e
                slots[at].append(e)
            else:
                before[len(slots)] = (n, list({id(entry[d]): entry[d] for d in n.deps if d in entry}.values()))
                slot[n.place] = len(slots)
                slots.append([])
        for k, here in enumerate(slots):
            if k:
                n, waits = before[k]
                for e in waits:
                    self.rank.wait(e)
                self.rank.compute(n.name[:60] and n.name.rstrip('0123456789')[:60] or 'node', seconds_of(n, self.rank.path),
                                  phase_of(n.name))
            for e in here:
                self.rank.put(e)
        return self.rank

    def lanes(self):
        """A trace with operators of the host as well: it is run on a host, a device and its communication, by its own times."""
        free, end, clock = {}, {}, Clock(self.rank)
        for n in self.nodes:
            host = bool(n.attr.get('is_cpu_op', 0))
            talks = n.type in (SEND, RECV, COLL) and not host
            lane = 'host' if host else ('talk' if talks else 'device')
            start = max([free.get(lane, 0.0)] + [end[d] for d in n.deps])
            end[n.place] = free[lane] = start + seconds_of(n, self.rank.path)
            if talks:
                clock.communicate(self.communication(n), max([0.0] + [end[d] for d in n.deps]), start, end[n.place])
            else:
                clock.compute(n.name[:60], start, end[n.place])
        clock.blocked.append((0.0, max(end.values(), default=0.0)))
        clock.close(0.0, max(end.values(), default=0.0))
        return self.rank

    def read(self):
        mixed = any(n.attr.get('is_cpu_op') and n.type != COMP or n.attr.get('is_cpu_op') and n.duration for n in self.nodes)
        return self.lanes() if mixed else self.place()


def phase_of(name):
    """foreline's own names, "F12" or "0B3"."""
    letters = name.lstrip('0123456789')[:1]
    return {'B': 'backward', 'I': 'backward', 'W': 'backward', 'U': 'update'}.get(letters, 'forward')


def read_chakra(path, data):
    groups, table = {}, os.path.join(os.path.dirname(path), 'comm_group.json')
    if os.path.exists(table):
        listed = parse(load(table), table)
        for name, members in listed.items() if isinstance(listed, dict) else ():
            if not isinstance(members, list) or not members or not all(isinstance(m, int) and 0 <= m < 65536 for m in members):
                raise Unsuited(f'{table}: group {name[:40]}: expected a list of ranks')
            groups[name] = tuple(sorted(set(members)))
    return Chakra(path, data, groups).read()
