#!/usr/bin/env python3
"""Writes files of MSCCL (XML) with algorithms of collectives, correct ones and broken ones.

    msccl_files.py DIR          writes DIR/NAME.xml for all below, and DIR/list: name, ranks, what is expected

An algorithm is written as a list of transfers, each of which takes one block at either end, and is made steps by the
rules of the interpreter: a block sends to one rank and receives from one, and waits for the block that wrote what it
reads. `broken` files are the same with one thing changed; the list says which rank and chunk their refusal names.
"""
import os
import sys


class Program:
    """Chunks move between ranks; every transfer is a pair of blocks on a channel of its own."""

    def __init__(self, name, coll, ranks, chunks, inplace=True, scratch=0):
        self.name, self.coll, self.ranks, self.chunks = name, coll, ranks, chunks
        self.inplace, self.scratch = inplace, scratch
        self.blocks = [[] for _ in range(ranks)]   # of a rank: [send, recv, channel, steps]
        self.writer = {}                           # (rank, buffer, chunk): (block, step)
        self.readers = {}                          # the same: [(block, step)]

    def block(self, rank, send, recv):
        for number, b in enumerate(self.blocks[rank]):
            if b[0] == send and b[1] == recv:
                return number
        self.blocks[rank].append([send, recv, 0, []])
        return len(self.blocks[rank]) - 1

    def add(self, rank, block, kind, source, target, count, reads, writes):
        """A step, and nops before it, for all that it must wait for."""
        steps = self.blocks[rank][block][3]
        waits = {}
        for places, also_readers in ((reads, False), (writes, True)):
            for buffer, chunk in places:
                for c in range(chunk, chunk + count):
                    key = (rank, buffer, c)
                    before = [self.writer[key]] if key in self.writer else []
                    before += self.readers.get(key, []) if also_readers else []
                    for other, step in before:
                        if other != block:
                            waits[other] = max(step, waits.get(other, -1))
        waits = sorted(waits.items())
        for other, step in waits[:-1]:
            steps.append(["nop", ("i", 0), ("i", 0), 0, other, step, 0])
        other, step = waits[-1] if waits else (-1, -1)
        steps.append([kind, source, target, count, other, step, 0])
        for o, s in waits:
            self.blocks[rank][o][3][s][6] = 1
        at = (block, len(steps) - 1)
        for buffer, chunk in reads:
            for c in range(chunk, chunk + count):
                self.readers.setdefault((rank, buffer, c), []).append(at)
        for buffer, chunk in writes:
            for c in range(chunk, chunk + count):
                self.writer[(rank, buffer, c)] = at
                self.readers[(rank, buffer, c)] = []

    def move(self, a, b, source, target, count=1, reduce=False):
        """From a's place to b's place."""
        self.add(a, self.block(a, b, -1), "s", source, target, count, [source], [])
        self.add(b, self.block(b, -1, a), "rrc" if reduce else "r", target, target, count,
                 [target] if reduce else [], [target])

    def local(self, rank, kind, source, target, count=1):
        """On a block of its own: cpy or re."""
        reads = [source] + ([target] if kind == "re" else [])
        self.add(rank, self.block(rank, -1, -1), kind, source, target, count, reads, [target])

    def text(self):
        out = ['<algo name="%s" proto="Simple" nchannels="1" nchunksperloop="%d" ngpus="%d" coll="%s" inplace="%d">'
               % (self.name, self.chunks, self.ranks, self.coll, self.inplace)]
        for rank, blocks in enumerate(self.blocks):
            out.append('  <gpu id="%d" i_chunks="%d" o_chunks="%d" s_chunks="%d">'
                       % (rank, self.chunks, self.chunks, self.scratch))
            for number, (send, recv, channel, steps) in enumerate(blocks):
                out.append('    <tb id="%d" send="%d" recv="%d" chan="%d">' % (number, send, recv, channel))
                for s, (kind, source, target, count, block, step, told) in enumerate(steps):
                    out.append('      <step s="%d" type="%s" srcbuf="%s" srcoff="%d" dstbuf="%s" dstoff="%d" cnt="%d" '
                               'depid="%d" deps="%d" hasdep="%d"/>' % (s, kind, *source, *target, count, block, step, told))
                out.append("    </tb>")
            out.append("  </gpu>")
        return "\n".join(out + ["</algo>"]) + "\n"


def ring(p, members, chunks, reduce, gather, buffer="i"):
    """Chunk k of the list belongs to member k at the end of the reduce-scatter."""
    n = len(members)
    for phase in [True] * reduce + [False] * gather:
        for step in range(n - 1):
            for k, chunk in enumerate(chunks):
                at = k + step + (1 if phase else 0)
                p.move(members[at % n], members[(at + 1) % n], (buffer, chunk), (buffer, chunk), reduce=phase)


def ring_all_reduce(n):
    p = Program("ring", "allreduce", n, n)
    ring(p, range(n), range(n), True, True)
    return p


def ring_all_gather(n):
    p = Program("ring-gather", "allgather", n, n)
    ring(p, range(n), range(n), False, True, "o")
    return p


def ring_reduce_scatter(n):
    p = Program("ring-scatter", "reduce_scatter", n, n)
    ring(p, range(n), range(n), True, False)
    return p


def tree_all_reduce(n):
    p = Program("tree", "allreduce", n, 1)
    for child in range(n - 1, 0, -1):
        p.move(child, (child - 1) // 2, ("i", 0), ("i", 0), reduce=True)
    for child in range(1, n):
        p.move((child - 1) // 2, child, ("i", 0), ("i", 0))
    return p


def halving_all_reduce(n):
    """Vector halving, distance doubling, through scratch: what comes is added when it is there."""
    p = Program("halving", "allreduce", n, n, scratch=n)
    steps = n.bit_length() - 1
    for bit in range(steps):
        for r in range(n):
            other = r ^ 1 << bit
            for c in range(n):
                if (c ^ other) & (2 << bit) - 1 == 0:
                    p.move(r, other, ("i", c), ("s", c))
        for r in range(n):
            for c in range(n):
                if (c ^ r) & (2 << bit) - 1 == 0:
                    p.local(r, "re", ("s", c), ("i", c))
    for bit in reversed(range(steps)):
        for r in range(n):
            for c in range(n):
                if (c ^ r) & (2 << bit) - 1 == 0:
                    p.move(r, r ^ 1 << bit, ("i", c), ("i", c))
    return p


def pairs_all_reduce(n):
    """Every rank reduces its chunk out of scratch, and gives it to all."""
    p = Program("pairs", "allreduce", n, n, scratch=n)
    for r in range(n):
        for c in range(n):
            if c != r:
                p.move(r, c, ("i", c), ("s", r))
    for r in range(n):
        for c in range(n):
            if c != r:
                p.local(r, "re", ("s", c), ("i", r))
    for r in range(n):
        for c in range(n):
            if c != r:
                p.move(r, c, ("i", r), ("i", r))
    return p


def levels_all_reduce(nodes, each):
    """Inside nodes, across, inside again."""
    n = nodes * each
    p = Program("levels", "allreduce", n, n)
    groups = [[node * each + k for k in range(each)] for node in range(nodes)]
    for g in groups:
        for part in range(nodes):
            ring(p, g, [part * each + k for k in range(each)], True, False)
    for k in range(each):
        ring(p, [node * each + k for node in range(nodes)], [part * each + k for part in range(nodes)], True, True)
    for g in groups:
        for part in range(nodes):
            ring(p, g, [part * each + k for k in range(each)], False, True)
    return p


def direct_all_to_all(n):
    p = Program("direct", "alltoall", n, n, inplace=False)
    for r in range(n):
        p.local(r, "cpy", ("i", r), ("o", r))
        for c in range(n):
            if c != r:
                p.move(r, c, ("i", c), ("o", r))
    return p


def two_step_all_to_all(nodes, each):
    """To the member of the own node with the receiver's position, then to the receiver's node."""
    n = nodes * each
    p = Program("two-step", "alltoall", n, n, inplace=False, scratch=n)
    for r in range(n):
        for c in range(n):
            by = r // each * each + c % each
            slot = c // each * each + r % each     # in the scratch of `by`
            if by == r:
                p.local(r, "cpy", ("i", c), ("s", slot))
            else:
                p.move(r, by, ("i", c), ("s", slot))
    for by in range(n):
        for node in range(nodes):
            to = node * each + by % each
            for k in range(each):
                came = by // each * each + k
                if to == by:
                    p.local(by, "cpy", ("s", node * each + k), ("o", came))
                else:
                    p.move(by, to, ("s", node * each + k), ("o", came))
    return p


def chain_broadcast(n, chunks):
    p = Program("chain", "broadcast", n, chunks)
    for c in range(chunks):
        for r in range(n - 1):
            p.move(r, r + 1, ("i", c), ("i", c))
    return p


def chain_reduce(n, chunks):
    p = Program("chain-reduce", "reduce", n, chunks)
    for c in range(chunks):
        for r in reversed(range(n - 1)):
            p.move(r + 1, r, ("i", c), ("i", c), reduce=True)
    return p


def fused_ring(n):
    """As MSCCL writes rings: one block, that passes on what it has just received."""
    p = Program("fused", "allreduce", n, n)
    for r in range(n):
        steps = []
        for step in range(2 * n - 1):
            c = (r - 1 - step) % n
            kind = "s" if step == 0 else "rrs" if step < n - 1 else "rrcs" if step == n - 1 else \
                "r" if step == 2 * n - 2 else "rcs"
            steps.append([kind, ("i", c), ("i", c), 1, -1, -1, 0])
        p.blocks[r] = [[(r + 1) % n, (r - 1) % n, 0, steps]]
    return p


def step_of(p, rank, block, number):
    return p.blocks[rank][block][3][number]


def broken():
    """(name, program, words of the refusal)"""
    p = ring_all_reduce(4)
    del p.blocks[2][p.block(2, 3, -1)][3][-1]     # the last send to rank 3 is missing
    yield "lost-message", p, "deadlock: rank 3, waits for, rank 2"
    p = ring_all_reduce(4)
    p.blocks[1][p.block(1, -1, 0)][3].pop()       # the last chunk is not received
    yield "unreceived", p, "rank 1, never receives"
    p = pairs_all_reduce(4)
    steps = p.blocks[2][p.block(2, -1, -1)][3]
    steps[-1][1] = ("s", 0)                       # adds rank 0's part again
    yield "added-twice", p, "rank 2, rank 0's part of chunk 2 twice"
    p = pairs_all_reduce(4)
    p.blocks[3][p.block(3, -1, -1)][3].pop(0)     # one part is left out
    for s in p.blocks[3][p.block(3, -1, -1)][3]:
        s[6] = 1
    for b in p.blocks[3]:
        for s in b[3]:
            if s[4] == p.block(3, -1, -1):
                s[5] -= 1
    yield "left-out", p, "chunk 3 of rank 0's output lacks rank 0's part"
    p = ring_all_gather(4)
    step_of(p, 0, p.block(0, -1, 3), 0)[2] = ("o", 1)   # to the wrong place
    yield "wrong-place", p, "rank 0, chunk 3"
    p = tree_all_reduce(5)
    step_of(p, 1, p.block(1, -1, 3), 0)[0] = "r"  # overwrites instead of adding
    yield "not-added", p, "chunk 0 of rank 0's output lacks rank 1's part"
    p = direct_all_to_all(3)
    step_of(p, 1, p.block(1, 2, -1), 0)[1] = ("i", 3)   # beyond its input
    yield "beyond", p, "rank 1, chunk 3"
    p = halving_all_reduce(4)
    for b in p.blocks[1]:
        for s in b[3]:
            s[4], s[5] = (s[4], s[5]) if s[0] != "re" else (-1, -1)   # does not wait for what comes
    yield "no-wait", p, "rank 1, rank 0's part of chunk 1"


def correct():
    yield ring_all_reduce(8), 8
    yield fused_ring(4), 4
    yield ring_all_gather(6), 6
    yield ring_reduce_scatter(5), 5
    yield tree_all_reduce(7), 7
    yield halving_all_reduce(8), 8
    yield pairs_all_reduce(8), 8
    yield levels_all_reduce(2, 4), 8
    yield direct_all_to_all(6), 6
    yield two_step_all_to_all(3, 2), 6
    yield chain_broadcast(5, 4), 5
    yield chain_reduce(4, 3), 4


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "list"), "w", encoding="utf-8") as listed:
        for p, ranks in correct():
            with open(os.path.join(folder, p.name + ".xml"), "w", encoding="utf-8") as f:
                f.write(p.text())
            listed.write("%s %d\n" % (p.name, ranks))
        for name, p, words in broken():
            with open(os.path.join(folder, name + ".xml"), "w", encoding="utf-8") as f:
                f.write(p.text())
            listed.write("%s %d %s\n" % (name, p.ranks, words))


main()
