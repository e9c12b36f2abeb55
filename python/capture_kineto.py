"""Kineto traces (torch.profiler, "traceEvents"), a file a rank: kernels with their times, NCCL's or gloo's collectives with group
and bytes, and who waits for them.

The step is the last one of ProfilerStep that is whole, without such marks all of the trace. A communication is issued when the
host has launched it and what was launched before it on the device is over."""
import bisect
import collections
import re

from capture_alone import Unsuited
from capture_clock import Clock
from capture_trace import Rank

BYTES = {'float': 4, 'float32': 4, 'double': 8, 'half': 2, 'float16': 2, 'bfloat16': 2, 'c10::half': 2, 'c10::bfloat16': 2, 'long': 8,
         'long int': 8, 'int64': 8, 'int': 4, 'int32': 4, 'short': 2, 'char': 1, 'signed char': 1, 'unsigned char': 1, 'byte': 1,
         'bool': 1, 'float8_e4m3fn': 1, 'float8_e5m2': 1}
KINDS = (('reducescatter', 'reducescatter'), ('allreduce', 'allreduce'), ('allgather', 'allgather'), ('alltoall', 'alltoall'),
         ('broadcast', 'broadcast'), ('barrier', 'allreduce'), ('gather', 'gather'), ('scatter', 'scatter'), ('reduce', 'reduce'))
MESSAGES = (('isend', 'send'), ('irecv', 'recv'), ('send', 'send'), ('recv', 'recv'))
DEVICE = ('kernel', 'gpu_memcpy', 'gpu_memset')
SYNCHRONISES = re.compile(r'(cuda|hip)(Stream|Device|Event)Synchronize|(cuda|hip)Memcpy$')
STEP = re.compile(r'ProfilerStep#?\s*(\d+)')
RECENT = 64


def kind_of(name):
    """Of "nccl:_all_gather_base", "allreduce", "ncclDevKernel_AllGather_RING_LL": of a kernel SendRecv stands for several."""
    plain = re.sub(r'[^a-z]', '', name.lower().split('(')[0].replace('nccl:', '').replace('gloo:', ''))
    for word, kind in KINDS:
        if word in plain:
            return kind
    for word, kind in MESSAGES:
        if plain.startswith(word) and 'sendrecv' not in plain:
            return kind
    return None


def is_talk(name):
    return name.lower().startswith(('nccl', 'rccl')) or 'ncclkernel' in name.lower() or 'nccldevkernel' in name.lower()


def size_of(dims, types):
    """Bytes of the first tensor, or of all tensors of the first argument."""
    def numbers(d):
        if not isinstance(d, list) or not d:
            return 0
        if isinstance(d[0], list):
            return sum(numbers(x) for x in d)
        out = 1
        for n in d:
            out *= n if isinstance(n, int) and 0 <= n < 1 << 40 else 0
        return out
    dims, types = (x if isinstance(x, list) and x else [''] for x in (dims, types))
    kind = str(types[0]).lower().replace('tensor(', '').rstrip(')')
    return numbers(dims[0]) * BYTES.get(kind.split(',')[0], 4)


class Event:
    __slots__ = ('name', 'start', 'end', 'tid', 'stream', 'link', 'args', 'cat')


class Kineto:
    def __init__(self, path, document, base=None):
        """base: microseconds that all files of a trace set count from; None: the first event's."""
        self.path, self.base = path, base
        info = document.get('distributedInfo') if isinstance(document.get('distributedInfo'), dict) else {}
        rank, world = info.get('rank'), info.get('world_size')
        known = isinstance(rank, int) and isinstance(world, int) and 0 <= rank < world <= 65536
        self.rank = Rank(path, rank if known else None, world if known else 0)
        self.groups = {}
        for g in info.get('pg_config') if isinstance(info.get('pg_config'), list) else []:
            members = g.get('ranks') if isinstance(g, dict) else None
            if isinstance(members, list) and members and all(isinstance(m, int) and 0 <= m < 65536 for m in members):
                self.groups[str(g.get('pg_name'))] = tuple(members)
        self.read_events(document.get('traceEvents'))

    def read_events(self, rows):
        self.device, self.calls, self.notes_of, self.marks, skipped = [], {}, collections.defaultdict(list), [], 0
        self.syncs = []
        for k, row in enumerate(rows if isinstance(rows, list) else []):
            if not isinstance(row, dict) or row.get('ph') != 'X':
                continue
            ts, dur, name, args = row.get('ts'), row.get('dur', 0), row.get('name'), row.get('args', {})
            if not all(isinstance(t, (int, float)) and 0 <= t < 1e19 for t in (ts, dur)) or not isinstance(name, str) \
                    or not isinstance(args, dict):
                skipped += 1
                continue
            self.base = ts if self.base is None else self.base
            e = Event()
            e.name, e.start, e.end, e.args, e.cat = name, (ts - self.base) * 1e-6, (ts - self.base + dur) * 1e-6, args, str(row.get('cat', '')).lower()
            e.tid, e.stream, e.link = str(row.get('tid')), str(args.get('stream', row.get('tid'))), args.get('correlation')
            self.sort_in(e)
        if skipped:
            self.rank.notes['# events without a time or a name are skipped'] += skipped
        for rows_of in self.notes_of.values():
            rows_of.sort(key=lambda e: (e.start, -e.end))
        self.starts = {tid: [e.start for e in rows_of] for tid, rows_of in self.notes_of.items()}
        if not self.device and not self.notes_of:
            raise Unsuited(f'{self.path}: no kernels and no communication in the trace')

    def sort_in(self, e):
        if e.cat in DEVICE:
            self.device.append(e)
        elif e.cat in ('cuda_runtime', 'cuda_driver', 'hip_runtime', 'runtime'):
            if isinstance(e.link, int):
                self.calls[e.link] = e
            if SYNCHRONISES.match(e.name):
                self.syncs.append(e)
        elif STEP.match(e.name) and e.cat != 'gpu_user_annotation':
            self.marks.append((int(STEP.match(e.name).group(1)), e.start, e.end))
        elif e.cat != 'gpu_user_annotation' and (e.name.startswith(('nccl:', 'gloo:')) or e.name == 'record_param_comms'):
            self.notes_of[e.tid].append(e)
        elif e.cat == 'user_annotation' and e.name.startswith('Optimizer.step'):
            self.notes_of['update'].append(e)

    # ---- the step

    def window(self, number):
        """Launches of a step lie between the first two moments; it lasts from the third to the fourth, on the device from what it
        launched first to what the next one launched first. The last step of a trace lasts from its mark's begin to its end, or to
        that of its last kernel."""
        if number is None:
            begins = [e.start for e in self.device] + [rows[0].start for rows in self.notes_of.values() if rows]
            ends = [e.end for e in self.device] + [e.end for rows in self.notes_of.values() for e in rows]
            return 0.0 - 1e9, 1e12, min(begins), max(ends)
        a, b = next((m[1], m[2]) for m in self.marks if m[0] == number)
        mine = [e for e in self.device if a <= self.launched(e) < b]
        later = [e.start for e in self.device if self.launched(e) >= b]
        if mine and later and any(m[0] == number + 1 for m in self.marks):
            return a, b, min(e.start for e in mine), min(later)
        return a, b, a, max([b] + [e.end for e in mine])

    def launched(self, e):
        call = self.calls.get(e.link) if isinstance(e.link, int) else None
        return call.start if call else e.start

    def around(self, tid, when):
        """Innermost mark of a communication on the thread at that moment."""
        rows, found = self.notes_of.get(tid, []), None
        at = bisect.bisect_right(self.starts.get(tid, []), when)
        for e in rows[max(0, at - RECENT):at]:
            if e.end >= when:
                found = e if found is None or e.name != 'record_param_comms' else found
        return found

    # ---- communication

    def entry_of(self, name, args):
        """What a mark, or a kernel that says it itself, communicates."""
        told = args.get('Collective name')
        kind = kind_of(told if isinstance(told, str) and told else name)
        if kind is None:
            return None
        group, size = self.groups.get(str(args.get('Process Group Name'))), 0
        listed = re.fullmatch(r'\[([\d, ]*)\]', str(args.get('Process Group Ranks', '')))
        if listed and listed.group(1):
            group = tuple(int(w) for w in listed.group(1).split(','))
        width = BYTES.get(str(args.get('dtype', '')).lower(), 4)
        counts = [args.get(k) for k in ('In msg nelems', 'Out msg nelems')]
        if all(isinstance(c, int) and 0 <= c < 1 << 40 for c in counts):
            size = width * (counts[1] if kind == 'allgather' else counts[0] if kind in ('reducescatter', 'alltoall') else max(counts))
        elif 'Input Dims' in args:
            size = size_of(args.get('Input Dims'), args.get('Input type'))
            if kind == 'allgather':
                size *= len(group) if group else max(1, self.rank.world)
        if size == 0:
            self.rank.notes['# communications have no size in the traces; 4 bytes are taken'] += 1
        if kind in ('send', 'recv'):
            peer = args.get('Dst Rank' if kind == 'send' else 'Src Rank')
            if not isinstance(peer, int) or not 0 <= peer < 65536:
                self.rank.notes['# messages do not tell their peer and are left out'] += 1
                return None
            return {'op': kind, 'peer': peer, 'tag': 0, 'bytes': size or 4, 'after': []}
        return {'op': kind, 'group': group, 'bytes': size or 4, 'after': []}

    def talks_of(self, a, b):
        """Communications of the step: [entry, launched, start, end, stream], by launch."""
        out, of_mark = [], {}
        for e in sorted((e for e in self.device if is_talk(e.name) and a <= self.launched(e) < b), key=self.launched):
            call = self.calls.get(e.link) if isinstance(e.link, int) else None
            mark = self.around(call.tid, call.start) if call else None
            if mark is not None and id(mark) in of_mark:     # several kernels of one call
                of_mark[id(mark)][3] = max(of_mark[id(mark)][3], e.end)
                continue
            args = e.args if 'Collective name' in e.args else mark.args if mark else {}
            entry = self.entry_of(mark.name if mark else e.name, args)
            if entry is None:
                self.rank.notes['# kernels of NCCL could not be understood'] += 1
                continue
            out.append([entry, self.launched(e), e.start, e.end, e.stream])
            if mark is not None:
                of_mark[id(mark)] = out[-1]
        for rows in (rows for tid, rows in self.notes_of.items() if tid != 'update'):
            for mark in rows:
                if mark.name == 'record_param_comms' or not a <= mark.start < b or id(mark) in of_mark:
                    continue
                entry = self.entry_of(mark.name, mark.args)
                if entry is not None:
                    if self.device:
                        self.rank.notes['# communications have no kernel in the traces'] += 1
                    out.append([entry, mark.start, mark.start, mark.end, None])
        return sorted(out, key=lambda t: t[1])

    def waits_of(self, a, b):
        """Moments at which the host lets the device wait, "wait" among the calls of process groups."""
        for tid, rows in self.notes_of.items():
            for e in rows:
                if e.name != 'record_param_comms' or not a <= e.start < b:
                    continue
                waits = e.args.get('Collective name') == 'wait'
                inner = self.around(tid, e.end)
                plain = 'Collective name' not in e.args and e.end - e.start < 2e-5 and (inner is None or inner is e)
                if waits or plain:
                    yield e.start

    def clock(self, window, first, last):
        a, b = window
        clock, compute = Clock(self.rank), []
        talks = self.talks_of(a, b)
        for e in self.device:
            if not is_talk(e.name) and e.end > first and e.start < last:
                compute.append(e)
                call = self.launched(e)
                update = any(u.start <= call < u.end for u in self.notes_of.get('update', []))
                clock.compute(e.name[:80], e.start, e.end, 'update' if update else 'forward')
                if e.start > call:
                    clock.blocked.append((call, e.start))
        clock.blocked += [(s.start, s.end) for s in self.syncs]
        if not self.device:                                # of a CPU: a blocking call is where its mark is
            clock.blocked += [(t[2], t[3]) for t in talks]
        order = sorted(compute, key=self.launched)
        launches, ends, latest = [self.launched(e) for e in order], [], first
        for e in order:
            latest = max(latest, e.end)
            ends.append(latest)
        for entry, launch, start, end, stream in talks:
            k = bisect.bisect_left(launches, launch)
            clock.communicate(entry, max(launch, ends[k - 1] if k else first), start, end, stream)
        waiting = collections.deque(talks)
        for when in sorted(self.waits_of(a, b)):
            if waiting and waiting[0][1] < when:
                k = bisect.bisect_left(launches, when)
                clock.wants(order[k].start if k < len(order) else last, waiting.popleft()[0])
        clock.close(first, last)


def step_of(all_ranks):
    """The last step that all have, if possible with the next one behind it."""
    marked = [{m[0] for m in k.marks} for k in all_ranks]
    common = set.intersection(*marked) if marked else set()
    if not common:
        return None
    followed = {n for n in common if all(n + 1 in m for m in marked)}
    return max(followed or common)


def finish_kineto(all_ranks):
    """Ranks. Clocks of ranks of a host agree: then the step is the same piece of time on all of them."""
    if not all_ranks:
        return []
    number = step_of(all_ranks)
    windows = [k.window(number) for k in all_ranks]
    firsts, longest = [w[2] for w in windows], max(w[3] - w[2] for w in windows)
    together = max(firsts) - min(firsts) < longest / 2
    for k, (a, b, first, last) in zip(all_ranks, windows):
        k.rank.measured = (max(w[3] for w in windows) - min(firsts)) if together else last - first
        k.clock((a, b), min(firsts) if together else first, last)
        if not together:
            k.rank.notes['clocks of # ranks do not agree; all start the step at once'] += 1
    return [k.rank for k in all_ranks]
