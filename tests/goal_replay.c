#include "tests/goal_replay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"

enum { CPUS = 4, MAX_OPS = 200000, MAX_EDGES = 600000 };
static const uint32_t NONE = UINT32_MAX;

enum type { CALC, SEND, RECV };

struct op {
    enum type type;
    uint32_t rank, peer, tag;
    int cpu;
    long long size;                     /* nanoseconds or bytes */
    uint32_t missing, first_edge, next; /* next: in a list of receives or messages */
    double ready, done;                 /* done < 0: not yet */
};

struct edge {
    uint32_t to, next;
};

struct event {
    double time;
    uint64_t number; /* earlier ones first at the same time */
    uint32_t op;
    bool message; /* that a SEND sent */
};

struct rank {
    uint32_t first, posted, unexpected; /* op, heads of lists */
    double cpu_free[CPUS], nic_free;    /* the NIC's sending side */
};

struct replay {
    size_t ranks, ops, edges, events;
    struct rank *rank;
    struct op *op;
    struct edge *edge;
    struct event *event; /* a heap would be faster */
    uint64_t number;
    struct goal_rules rules;
    double last;
};

/* ---- reading */

static void read_requires(struct replay *r, uint32_t rank, uint32_t label, uint32_t earlier)
{
    uint32_t first = r->rank[rank].first, to = first + label - 1, from = first + earlier - 1;
    if (label == 0 || earlier == 0 || to >= r->ops || from >= r->ops || r->edges == MAX_EDGES)
        fail_msg("rank %u: l%u requires l%u", rank, label, earlier);
    r->edge[r->edges] = (struct edge){to, r->op[from].first_edge};
    r->op[from].first_edge = (uint32_t)r->edges++;
    r->op[to].missing++;
}

static void read_op(struct replay *r, const char *line, uint32_t rank, struct goal_result *count)
{
    struct op o = {.rank = rank, .first_edge = NONE, .next = NONE, .done = -1};
    uint32_t label;
    int end = 0, more = 0;
    if (sscanf(line, "l%u: calc %lld%n", &label, &o.size, &end) == 2) {
        count->calcs++;
    } else if (sscanf(line, "l%u: send %lldb to %u tag %u%n", &label, &o.size, &o.peer, &o.tag,
                      &end) == 4) {
        o.type = SEND;
        count->sends++;
    } else if (sscanf(line, "l%u: recv %lldb from %u tag %u%n", &label, &o.size, &o.peer, &o.tag,
                      &end) == 4) {
        o.type = RECV;
        count->recvs++;
    }
    if (end > 0 && line[end] && sscanf(line + end, " cpu %d%n", &o.cpu, &more) == 1)
        end += more;
    if (end == 0 || line[end] || o.size < (o.type == CALC ? 0 : 1) || o.cpu < 0 || o.cpu >= CPUS ||
        o.peer >= r->ranks || label != r->ops - r->rank[rank].first + 1 || r->ops == MAX_OPS)
        fail_msg("'%s'", line);
    r->op[r->ops++] = o;
}

static void read_line(struct replay *r, const char *line, uint32_t *rank, struct goal_result *count)
{
    uint32_t a, b;
    int end = 0;
    if (!*line || !strncmp(line, "//", 2))
        return;
    if (r->ranks == 0) {
        if (sscanf(line, "num_ranks %zu%n", &r->ranks, &end) != 1 || line[end])
            fail_msg("'%s' instead of num_ranks", line);
        r->rank = calloc(r->ranks, sizeof *r->rank);
        assert_non_null(r->rank);
    } else if (sscanf(line, "rank %u {%n", &a, &end) == 1 && end > 0) {
        if (*rank != NONE || a != count->ranks || a >= r->ranks)
            fail_msg("'%s'", line);
        *rank = a;
        count->ranks++;
        r->rank[a] = (struct rank){(uint32_t)r->ops, NONE, NONE, {0}, 0};
    } else if (*rank == NONE) {
        fail_msg("'%s' outside of ranks", line);
    } else if (!strcmp(line, "}")) {
        *rank = NONE;
    } else if (sscanf(line, "l%u requires l%u%n", &a, &b, &end) == 2 && !line[end]) {
        read_requires(r, *rank, a, b);
    } else {
        read_op(r, line, *rank, count);
    }
}

/* ---- events */

static void push(struct replay *r, double time, uint32_t op, bool message)
{
    r->event[r->events++] = (struct event){time, r->number++, op, message};
}

/* The same event once more: it keeps its place among those of a time. */
static void postpone(struct replay *r, const struct event *e, double time)
{
    r->event[r->events] = *e;
    r->event[r->events++].time = time;
}

static struct event pop(struct replay *r)
{
    size_t best = 0;
    for (size_t k = 1; k < r->events; k++) {
        const struct event *a = &r->event[k], *b = &r->event[best];
        if (a->time < b->time || (a->time == b->time && a->number < b->number))
            best = k;
    }
    struct event e = r->event[best];
    r->event[best] = r->event[--r->events];
    return e;
}

/* Of the ops that become possible, sends are tried first. */
static void finish(struct replay *r, uint32_t i, double time)
{
    r->op[i].done = time;
    r->last = time > r->last ? time : r->last;
    for (uint32_t e = r->op[i].first_edge; e != NONE; e = r->edge[e].next) {
        struct op *o = &r->op[r->edge[e].to];
        o->ready = time > o->ready ? time : o->ready;
        o->missing--;
    }
    for (int sends = 1; sends >= 0; sends--)
        for (uint32_t e = r->op[i].first_edge; e != NONE; e = r->edge[e].next) {
            struct op *o = &r->op[r->edge[e].to];
            if (o->missing == 0 && (o->type == SEND) == sends)
                push(r, o->ready, r->edge[e].to, false);
        }
}

/* Take the first op with this peer and tag out of a list. */
static uint32_t take(struct replay *r, uint32_t *head, uint32_t peer, uint32_t tag, bool messages)
{
    for (uint32_t *at = head; *at != NONE; at = &r->op[*at].next) {
        const struct op *o = &r->op[*at];
        if ((messages ? o->rank : o->peer) != peer || o->tag != tag)
            continue;
        uint32_t found = *at;
        *at = o->next;
        return found;
    }
    return NONE;
}

static void append(struct replay *r, uint32_t *head, uint32_t op)
{
    while (*head != NONE)
        head = &r->op[*head].next;
    *head = op;
    r->op[op].next = NONE;
}

static void message_arrives(struct replay *r, const struct event *e)
{
    const struct op *sent = &r->op[e->op];
    double busy = r->rules.receiver_busy ? (double)(sent->size - 1) * r->rules.byte_ns : 0;
    struct rank *to = &r->rank[sent->peer];
    uint32_t recv = take(r, &to->posted, sent->rank, sent->tag, false);
    if (recv == NONE) {
        append(r, &to->unexpected, e->op);
    } else if (to->cpu_free[r->op[recv].cpu] > e->time) {
        r->op[recv].next = to->posted; /* stays the first one */
        to->posted = recv;
        postpone(r, e, to->cpu_free[r->op[recv].cpu]);
    } else {
        assert_int_equal(r->op[recv].size, sent->size);
        to->cpu_free[r->op[recv].cpu] = e->time + busy;
        finish(r, recv, e->time + busy);
    }
}

static void start(struct replay *r, const struct event *e)
{
    struct op *o = &r->op[e->op];
    struct rank *here = &r->rank[o->rank];
    if (o->type == RECV) {
        uint32_t sent = take(r, &here->unexpected, o->peer, o->tag, true);
        if (sent != NONE)
            finish(r, e->op, e->time);
        else
            append(r, &here->posted, e->op);
        return;
    }
    double free_at = here->cpu_free[o->cpu];
    if (o->type == SEND && here->nic_free > free_at)
        free_at = here->nic_free;
    if (free_at > e->time) {
        postpone(r, e, free_at);
    } else if (o->type == CALC) {
        here->cpu_free[o->cpu] = e->time + (double)o->size;
        finish(r, e->op, e->time + (double)o->size);
    } else {
        here->nic_free = e->time + (double)(o->size - 1) * r->rules.byte_ns;
        push(r, (r->rules.receiver_busy ? e->time : here->nic_free) + r->rules.latency_ns, e->op,
             true);
        finish(r, e->op, e->time);
    }
}

struct goal_result goal_replay(const char *text, const struct goal_rules *rules)
{
    struct goal_result result = {0};
    struct replay r = {.rules = *rules};
    uint32_t rank = NONE;
    char *copy = malloc(strlen(text) + 1), *rest = NULL;
    r.op = calloc(MAX_OPS, sizeof *r.op);
    r.edge = calloc(MAX_EDGES, sizeof *r.edge);
    r.event = calloc(2 * (size_t)MAX_OPS, sizeof *r.event);
    assert_true(copy && r.op && r.edge && r.event);
    strcpy(copy, text);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_line(&r, line, &rank, &result);
    assert_int_equal(rank, NONE);
    assert_int_equal(result.ranks, r.ranks);
    for (uint32_t i = 0; i < r.ops; i++)
        if (r.op[i].missing == 0)
            push(&r, 0, i, false);
    while (r.events > 0) {
        struct event e = pop(&r);
        if (e.message)
            message_arrives(&r, &e);
        else
            start(&r, &e);
    }
    for (uint32_t i = 0; i < r.ops; i++)
        if (r.op[i].done < 0)
            fail_msg("rank %u: l%u never ran", r.op[i].rank, i - r.rank[r.op[i].rank].first + 1);
    result.seconds = r.last * 1e-9;
    free(copy);
    free(r.rank);
    free(r.op);
    free(r.edge);
    free(r.event);
    return result;
}
