"""A rank's clock out of intervals: when it computes, when it communicates, and where it does nothing but wait for communication.

Time in which communication is under way, nothing computes and the host is blocked or has work queued is a wait if it ends with a
communication; it leaves the clock, since the simulation says anew how long it takes. All else of the step, the device's idle time
behind a slow host, too, is compute."""

NEAR_S = 5e-6                                              # between the end of a communication and what waited for it


class Clock:
    def __init__(self, rank):
        self.rank = rank
        self.busy, self.talks, self.blocked, self.wanted = [], [], [], []

    def compute(self, name, start, end, phase='forward', **work):
        if end > start:
            self.busy.append((start, end, name, phase, work))

    def communicate(self, entry, issued, start, end, stream=None):
        self.talks.append([min(issued, start), start, end, entry, stream])

    def wants(self, when, entry):
        """What is computed from `when` on needs it."""
        self.wanted.append((when, entry))

    def idle(self, first, last):
        """Where nothing computes but something is blocked."""
        free, at = [], first
        for start, end in sorted((b[0], b[1]) for b in self.busy):
            if start > at:
                free.append((at, min(start, last)))
            at = max(at, end)
        if at < last:
            free.append((at, last))
        return overlap(free, union(self.blocked))

    def stalls(self, first, last):
        out, k = [], 0
        talks = sorted(self.talks, key=lambda t: t[2])
        for x, y in self.idle(first, last):
            while k < len(talks) and talks[k][2] <= x:
                k += 1
            ended = []
            for t in talks[k:]:
                if t[2] > y + NEAR_S:
                    break
                ended.append(t)
            if ended:
                start = max(x, min(t[1] for t in ended))
                if start < ended[-1][2]:
                    out.append((start, min(y, ended[-1][2]), ended[-1][3]))
        return out

    def close(self, first, last):
        """Entries of the rank, from the first to the last moment."""
        stalls = self.stalls(first, last)
        waited = {id(s[2]) for s in stalls}
        events = [(t[0], 0, t[3]) for t in self.talks] + [(s[1], 1, s[2]) for s in stalls]
        events += [(max(when, next(t[0] for t in self.talks if t[3] is e)), 1, e) for when, e in self.wanted if id(e) not in waited]
        previous = {}
        for t in sorted(self.talks, key=lambda t: t[1]):   # of other groups on the same stream
            before = previous.get(t[4])
            t[3]['after'] = [before] if t[4] is not None and before is not None and before.get('group') != t[3].get('group') else []
            previous[t[4]] = t[3]
        events.sort(key=lambda e: (e[0], e[1]))
        self.fill(first, last, stalls, events)

    def fill(self, first, last, stalls, events):
        pieces = subtract(labelled(self.busy, first, last), stalls)
        k, issued = 0, set()
        for start, end, label in pieces:
            while k < len(events) and events[k][0] < end:
                cut = max(start, events[k][0])
                self.piece(start, cut, label)
                start, k = cut, self.event(events[k], issued, k)
            self.piece(start, end, label)
        while k < len(events):
            k = self.event(events[k], issued, k)

    def event(self, event, issued, k):
        _, waits, entry = event
        if waits:
            if id(entry) in issued:
                self.rank.wait(entry)
        else:
            entry['after'] = [a for a in entry['after'] if id(a) in issued]
            issued.add(id(entry))
            self.rank.put(entry)
        return k + 1

    def piece(self, start, end, label):
        if end > start:
            name, phase, work = label
            self.rank.compute(name, end - start, phase, **work)


def union(intervals):
    out = []
    for a, b in sorted(intervals):
        if out and a <= out[-1][1]:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        elif b > a:
            out.append((a, b))
    return out


def overlap(a, b):
    """Of two lists of intervals, each ascending and apart."""
    out, i, k = [], 0, 0
    while i < len(a) and k < len(b):
        start, end = max(a[i][0], b[k][0]), min(a[i][1], b[k][1])
        if start < end:
            out.append((start, end))
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return out


def labelled(busy, first, last):
    """Pieces of the whole time: of what began first, of the host where nothing computes."""
    at, out, idle = first, [], ('host', 'forward', {})
    for start, end, name, phase, work in sorted(busy, key=lambda b: (b[0], b[1])):
        start, end = max(start, at), min(end, last)
        if end <= start:
            continue
        if start > at:
            out.append((at, start, idle))
        out.append((start, end, (name, phase, work)))
        at = end
    if at < last:
        out.append((at, last, idle))
    return out


def subtract(pieces, stalls):
    out, k = [], 0
    for start, end, label in pieces:
        while k < len(stalls) and stalls[k][1] <= start:
            k += 1
        i = k
        while i < len(stalls) and stalls[i][0] < end:
            if stalls[i][0] > start:
                out.append((start, stalls[i][0], label))
            start = max(start, stalls[i][1])
            i += 1
        if start < end:
            out.append((start, end, label))
    return out
