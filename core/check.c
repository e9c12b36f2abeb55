#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranks whose next op may have become possible, each at most once. */
struct replay {
    const struct program *p;
    size_t *at;      /* [ranks] index of the next op */
    size_t *arrived; /* [groups] members waiting at their next collective */
    uint32_t *queue; /* [ranks] ring buffer */
    bool *queued;    /* [ranks] */
    bool *counted;   /* [ranks] is counted in arrived[] */
    size_t head, length;
};

static void wake(struct replay *s, uint32_t rank)
{
    if (s->queued[rank])
        return;
    s->queued[rank] = true;
    s->queue[(s->head + s->length++) % s->p->ranks] = rank;
}

static bool finished(const struct replay *s, uint32_t rank)
{
    return s->at[rank] == s->p->op_start[rank + 1];
}

/* All members of the group stand at their collective: let them pass. */
static bool pass_collective(struct replay *s, uint32_t rank, const struct program_op *o)
{
    const struct program *p = s->p;
    size_t first = p->group_start[o->peer], last = p->group_start[o->peer + 1];
    if (!s->counted[rank]) {
        s->counted[rank] = true;
        s->arrived[o->peer]++;
    }
    if (s->arrived[o->peer] < last - first)
        return false;
    s->arrived[o->peer] = 0;
    for (size_t k = first; k < last; k++) {
        s->counted[p->member[k]] = false;
        s->at[p->member[k]]++;
        wake(s, p->member[k]);
    }
    return true;
}

static void advance(struct replay *s, uint32_t rank)
{
    const struct program *p = s->p;
    while (!finished(s, rank)) {
        const struct program_op *o = &p->op[s->at[rank]];
        if (op_computes(o)) {
            s->at[rank]++;
        } else if (o->kind == OP_SEND || o->kind == OP_RECV) {
            if (s->at[o->peer] != o->match)
                return;
            s->at[rank]++;
            s->at[o->peer]++;
            wake(s, o->peer);
        } else if (!pass_collective(s, rank, o)) {
            return;
        }
    }
}

/* The rank that `rank` waits for. */
static uint32_t waits_for(const struct replay *s, uint32_t rank)
{
    const struct program *p = s->p;
    const struct program_op *o = &p->op[s->at[rank]];
    if (o->kind < OP_ALLREDUCE)
        return o->peer;
    for (size_t k = p->group_start[o->peer]; k < p->group_start[o->peer + 1]; k++)
        if (!s->counted[p->member[k]] || p->op[s->at[p->member[k]]].peer != o->peer)
            return p->member[k];
    return rank;
}

static enum status deadlock(const struct replay *s, uint32_t start)
{
    char text[800] = "", label[OP_LABEL];
    const struct program *p = s->p;
    uint32_t rank = start;
    for (size_t step = 0; step < p->ranks && !finished(s, rank); step++)
        rank = waits_for(s, rank); /* certainly on the cycle, or at a rank that has ended */
    uint32_t first = rank;
    do {
        size_t n = strlen(text);
        if (finished(s, rank)) {
            snprintf(text + n, sizeof text - n, "rank %u (%s) has ended", rank, p->rank[rank].name);
            break;
        }
        const struct program_op *o = &p->op[s->at[rank]];
        uint32_t next = waits_for(s, rank);
        snprintf(text + n, sizeof text - n, "rank %u (%s) at %s waits for rank %u", rank,
                 p->rank[rank].name, op_label(o, label), next);
        n = strlen(text);
        if (o->kind < OP_ALLREDUCE)
            snprintf(text + n, sizeof text - n, " tag %u", o->tag);
        n = strlen(text);
        rank = next;
        if (rank != first)
            snprintf(text + n, sizeof text - n, "; ");
    } while (rank != first);
    return error_set(STATUS_INVALID, "deadlock: %s", text);
}

static enum status replay(const struct program *p)
{
    enum status st = STATUS_OK;
    struct replay s = {.p = p};

    s.at = calloc(p->ranks + 1, sizeof *s.at);
    s.arrived = calloc(p->groups + 1, sizeof *s.arrived);
    s.queue = calloc(p->ranks + 1, sizeof *s.queue);
    s.queued = calloc(p->ranks + 1, sizeof *s.queued);
    s.counted = calloc(p->ranks + 1, sizeof *s.counted);
    if (!s.at || !s.arrived || !s.queue || !s.queued || !s.counted) {
        st = error_set(STATUS_NOMEM, "checking a program of %zu ranks", p->ranks);
        goto out;
    }
    memcpy(s.at, p->op_start, p->ranks * sizeof *s.at);
    for (uint32_t r = 0; r < p->ranks; r++)
        wake(&s, r);
    while (s.length > 0) {
        uint32_t rank = s.queue[s.head];
        s.head = (s.head + 1) % p->ranks;
        s.length--;
        s.queued[rank] = false;
        advance(&s, rank);
    }
    for (uint32_t r = 0; r < p->ranks; r++)
        if (!finished(&s, r)) {
            st = deadlock(&s, r);
            goto out;
        }
out:
    free(s.counted);
    free(s.queued);
    free(s.queue);
    free(s.arrived);
    free(s.at);
    return st;
}

static enum status check_op(const struct program *p, uint32_t rank, size_t i)
{
    const struct program_op *o = &p->op[i];
    char label[OP_LABEL];
    bool follows = false;
    for (uint32_t d = o->dep_start; d < o[1].dep_start; d++) {
        const struct program_op *before = &p->op[p->dep[d]];
        if (p->dep[d] < p->op_start[rank] || p->dep[d] >= i)
            return error_set(STATUS_INVALID, "rank %u: %s depends on an op that is not before it",
                             rank, op_label(o, label));
        follows = follows || (before->kind == OP_FORWARD && before->stage == o->stage &&
                              before->microbatch == o->microbatch && before->bytes == o->bytes);
    }
    if (o->kind == OP_BACKWARD && !follows)
        return error_set(STATUS_INVALID, "rank %u: %s does not depend on its forward", rank,
                         op_label(o, label));
    if (!op_computes(o) && o->match == PROGRAM_NONE)
        return error_set(STATUS_INVALID, "rank %u: %s is on a group that the rank is not in", rank,
                         op_label(o, label));
    if (o->match != PROGRAM_NONE && p->op[o->match].bytes != o->bytes)
        return error_set(STATUS_INVALID, "rank %u: %s has %lld bytes, its other side %lld", rank,
                         op_label(o, label), (long long)o->bytes, (long long)p->op[o->match].bytes);
    return STATUS_OK;
}

enum status program_check(const struct program *p, int64_t *peak_bytes)
{
    enum status st = STATUS_OK;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            TRY(check_op(p, r, i));
    TRY(replay(p));
    for (uint32_t r = 0; peak_bytes && r < p->ranks; r++) {
        int64_t held = 0, most = 0;
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            if (p->op[i].kind == OP_FORWARD && (held += p->op[i].bytes) > most)
                most = held;
            if (p->op[i].kind == OP_BACKWARD)
                held -= p->op[i].bytes;
        }
        peak_bytes[r] = p->rank[r].static_bytes + most;
    }
out:
    return st;
}
