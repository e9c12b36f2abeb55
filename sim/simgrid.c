/* simgrid - the program as actors on SimGrid's flow-level network: links are shared, fairly.
 *
 * One actor per rank computes, one per directed pair carries the pair's messages in order, one per
 * rank with collectives takes part in rings. Nothing is posted or matched: an op is an event that
 * completes, and actors wait for the events their op depends on.
 *
 * CM02 shares a link in inverse proportion to the flows' latencies, so all link latencies are set
 * to zero after the routes' have been read, and charged on arrival instead: shares are exactly
 * equal then, and one message takes latency + bytes / bandwidth. docs/decisions/0001. */
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/child.h"
#include "sim/pairs.h"
#include "sim/simgrid_report.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>
#include <xbt/config.h>

enum { STEPWISE_RANKS = 64 }; /* rings above are one flow per edge: docs/DESIGN decision 4 */
static const double resolution_s = 1e-9; /* SimGrid's: shorter sleeps are refused */

struct actor {
    struct actor *next; /* waiting for the same event */
    sg_sem_t signal;
};

struct event {
    bool done;
    double when_s; /* not before; latency is charged here */
    struct actor *waiting;
};

/* One member of one collective. */
struct ring {
    struct event begin; /* every member is ready */
    struct event chunk; /* `received` has grown */
    size_t received;
    double *arrival_s; /* [2 (n - 1)] of each chunk */
};

struct world {
    const struct program *p;
    const char *platform;
    sg_host_t *host;     /* [ranks] */
    double *start, *end; /* [ops] */
    struct event *event; /* [ops] */
    size_t *ready;       /* [groups] members ready for their next collective */
    struct ring **ring;  /* [ops] NULL but for collectives */
    struct pair *pair;   /* [pairs] sorted */
    size_t pairs;
    double *latency; /* [pairs] seconds */
    size_t completed, messages;
};

/* What an actor is told when it starts. */
struct role {
    struct world *w;
    uint32_t id; /* rank or channel */
};

/* ---- events */

static void sleep_until(double when_s)
{
    double remaining = when_s - simgrid_get_clock();
    if (remaining > resolution_s)
        sg_actor_sleep_for(remaining);
}

static void wait_event(struct actor *self, struct event *e)
{
    if (!e->done) {
        self->next = e->waiting;
        e->waiting = self;
        sg_sem_acquire(self->signal);
    }
    sleep_until(e->when_s);
}

static void complete_event(struct event *e, double when_s)
{
    e->done = true;
    e->when_s = when_s;
    struct actor *a = e->waiting;
    e->waiting = NULL;
    while (a) {
        struct actor *next = a->next; /* a may wait for something else once it is released */
        sg_sem_release(a->signal);
        a = next;
    }
}

static void complete_op(struct world *w, size_t i, double start_s, double end_s)
{
    w->start[i] = start_s;
    w->end[i] = end_s;
    w->completed++;
    complete_event(&w->event[i], end_s);
}

static void wait_deps(struct world *w, struct actor *self, size_t i)
{
    for (uint32_t d = w->p->op[i].dep_start; d < w->p->op[i + 1].dep_start; d++)
        wait_event(self, &w->event[w->p->dep[d]]);
}

static double latency_of(const struct world *w, uint32_t from, uint32_t to)
{
    size_t low = 0, high = w->pairs;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        const struct pair *q = &w->pair[middle];
        if (q->from < from || (q->from == from && q->to <= to))
            low = middle;
        else
            high = middle;
    }
    return w->latency[low];
}

/* ---- actors */

static void compute_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct role *role = sg_actor_self_get_data();
    struct world *w = role->w;
    struct actor self = {.signal = sg_sem_init(0)};
    for (size_t i = w->p->op_start[role->id]; i < w->p->op_start[role->id + 1]; i++) {
        const struct program_op *o = &w->p->op[i];
        if (!op_computes(o))
            continue;
        wait_deps(w, &self, i);
        double start = simgrid_get_clock();
        if (o->seconds > resolution_s)
            sg_actor_sleep_for(o->seconds);
        complete_op(w, i, start, simgrid_get_clock());
    }
    sg_sem_destroy(self.signal);
}

static void channel_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct role *role = sg_actor_self_get_data();
    struct world *w = role->w;
    uint32_t from = w->p->channel[role->id].from, to = w->p->channel[role->id].to;
    double latency = latency_of(w, from, to);
    struct actor self = {.signal = sg_sem_init(0)};
    for (size_t i = w->p->op_start[from]; i < w->p->op_start[from + 1]; i++) {
        const struct program_op *o = &w->p->op[i];
        if (o->kind != OP_SEND || o->channel != role->id)
            continue;
        wait_deps(w, &self, i);
        double start = simgrid_get_clock();
        if (o->bytes > 0)
            sg_host_sendto(w->host[from], w->host[to], (double)o->bytes);
        double sent = simgrid_get_clock();
        w->messages++;
        complete_op(w, i, start, sent);
        complete_op(w, o->match, start, sent + latency);
    }
    sg_sem_destroy(self.signal);
}

static void deliver_chunk(struct ring *r, double arrival_s)
{
    r->arrival_s[r->received++] = arrival_s;
    complete_event(&r->chunk, 0);
}

static void wait_chunk(struct actor *self, struct ring *r, size_t k)
{
    while (r->received <= k) {
        r->chunk.done = false;
        wait_event(self, &r->chunk);
    }
    sleep_until(r->arrival_s[k]);
}

/* One member's part in a ring all-reduce: 2 (n - 1) chunks to the next member, each after the chunk
 * of the step before has come from the previous one. */
static void take_part(struct world *w, struct actor *self, uint32_t rank, size_t i)
{
    const struct program_op *o = &w->p->op[i];
    size_t n = group_size(w->p, o), steps = 2 * (n - 1);
    uint32_t next = program_rank_of(w->p, o->match);
    double chunk = (double)o->bytes / (double)n, latency = latency_of(w, rank, next);
    struct ring *mine = w->ring[i], *theirs = w->ring[o->match];
    if (n > STEPWISE_RANKS) { /* one flow of all chunks, latencies of all steps on arrival */
        chunk *= (double)steps;
        latency *= (double)steps;
        steps = 1;
    }
    for (size_t k = 0; k < steps; k++) {
        if (chunk > 0)
            sg_host_sendto(w->host[rank], w->host[next], chunk);
        w->messages++;
        deliver_chunk(theirs, simgrid_get_clock() + latency);
        wait_chunk(self, mine, k);
    }
}

/* Wait until every member may start: a collective starts for all of them together. */
static void begin_together(struct world *w, struct actor *self, size_t i)
{
    const struct program_op *o = &w->p->op[i];
    if (++w->ready[o->peer] < group_size(w->p, o)) {
        wait_event(self, &w->ring[i]->begin);
        return;
    }
    w->ready[o->peer] = 0;
    size_t j = i;
    do
        complete_event(&w->ring[j]->begin, simgrid_get_clock());
    while ((j = w->p->op[j].match) != i);
}

static void collective_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct role *role = sg_actor_self_get_data();
    struct world *w = role->w;
    struct actor self = {.signal = sg_sem_init(0)};
    for (size_t i = w->p->op_start[role->id]; i < w->p->op_start[role->id + 1]; i++) {
        const struct program_op *o = &w->p->op[i];
        if (o->kind < OP_ALLREDUCE)
            continue;
        wait_deps(w, &self, i);
        begin_together(w, &self, i);
        double start = simgrid_get_clock();
        if (group_size(w->p, o) > 1)
            take_part(w, &self, role->id, i);
        complete_op(w, i, start, simgrid_get_clock());
    }
    sg_sem_destroy(self.signal);
}

/* ---- in the child */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void load_platform(const char *path)
{
    char *argv[] = {
        (char[]){"foreline"},
        (char[]){"--log=root.fmt:@@%m%n"}, /* child.h: the first such line is the reason */
        (char[]){"--log=root.thres:error"},
        (char[]){"--cfg=contexts/guard-size:0"},   /* many actors: pages are scarce */
        (char[]){"--cfg=contexts/stack-size:256"}, /* KiB */
        NULL};
    int argc = (int)(sizeof argv / sizeof *argv) - 1;
    simgrid_init(&argc, argv);
    sg_cfg_set_string("network/model", "CM02");
    sg_cfg_set_boolean("network/crosstraffic", "no");
    sg_cfg_set_double("network/TCP-gamma", 0);
    simgrid_load_platform(path);
    simgrid_run_until(0); /* seals the zones: routes can be asked for */
}

static enum status allocate(struct world *w)
{
    const struct program *p = w->p;
    w->host = calloc(p->ranks + 1, sizeof *w->host);
    w->start = calloc(p->ops + 1, sizeof *w->start);
    w->end = calloc(p->ops + 1, sizeof *w->end);
    w->event = calloc(p->ops + 1, sizeof *w->event);
    w->ready = calloc(p->groups + 1, sizeof *w->ready);
    w->ring = calloc(p->ops + 1, sizeof *w->ring);
    if (!w->host || !w->start || !w->end || !w->event || !w->ready || !w->ring)
        return error_set(STATUS_NOMEM, "simulating %zu ops", p->ops);
    for (size_t i = 0; i < p->ops; i++) {
        if (p->op[i].kind < OP_ALLREDUCE)
            continue;
        w->ring[i] = calloc(1, sizeof **w->ring);
        if (!w->ring[i] ||
            !(w->ring[i]->arrival_s = calloc(2 * group_size(p, &p->op[i]), sizeof(double))))
            return error_set(STATUS_NOMEM, "simulating %zu ops", p->ops);
    }
    return STATUS_OK;
}

/* Read the routes' latencies, then take them out of the links. */
static enum status prepare_network(struct world *w)
{
    enum status st;
    const struct program *p = w->p;
    for (size_t r = 0; r < p->ranks; r++) {
        w->host[r] = sg_host_by_name(p->rank[r].name);
        if (!w->host[r])
            return error_set(STATUS_INVALID, "%s has no host '%s'", w->platform, p->rank[r].name);
    }
    TRY(pairs_of(p, &w->pair, &w->pairs));
    w->latency = calloc(w->pairs + 1, sizeof *w->latency);
    if (!w->latency)
        return error_set(STATUS_NOMEM, "%zu pairs", w->pairs);
    for (size_t k = 0; k < w->pairs; k++)
        w->latency[k] = sg_host_get_route_latency(w->host[w->pair[k].from], w->host[w->pair[k].to]);
    sg_link_t *link = sg_link_list();
    for (size_t k = 0; k < sg_link_count(); k++)
        sg_link_set_latency(link[k], 0);
    free(link);
out:
    return st;
}

static void start_actor(struct world *w, struct role *role, uint32_t id, uint32_t rank,
                        const char *name, void (*code)(int, char **))
{
    *role = (struct role){w, id};
    sg_actor_t actor = sg_actor_init(name, w->host[rank]);
    sg_actor_set_data(actor, role);
    sg_actor_start_(actor, code, 0, NULL);
}

static void start_actors(struct world *w, struct role *role)
{
    const struct program *p = w->p;
    for (uint32_t r = 0; r < p->ranks; r++) {
        bool collectives = false;
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            collectives = collectives || p->op[i].kind >= OP_ALLREDUCE;
        start_actor(w, role++, r, r, "compute", compute_actor);
        if (collectives)
            start_actor(w, role++, r, r, "collective", collective_actor);
    }
    for (uint32_t c = 0; c < p->channels; c++)
        start_actor(w, role++, c, p->channel[c].from, "channel", channel_actor);
}

static enum status simulate(void *argument, int fd)
{
    enum status st;
    struct world *w = argument;
    TRY(allocate(w));
    load_platform(w->platform);
    TRY(prepare_network(w));
    struct role *role = calloc(2 * w->p->ranks + w->p->channels + 1, sizeof *role);
    if (!role)
        return error_set(STATUS_NOMEM, "%zu actors", w->p->ranks + w->p->channels);
    double begin = cpu_seconds();
    start_actors(w, role);
    simgrid_run();
    double cpu_s = cpu_seconds() - begin;
    if (w->completed != w->p->ops)
        return error_set(STATUS_EXTERNAL, "SimGrid stopped after %zu of %zu ops", w->completed,
                         w->p->ops);
    const struct simgrid_result result = {w->start, w->end,      w->host, w->pair,
                                          w->pairs, w->messages, cpu_s};
    TRY(simgrid_report(w->p, &result, fd));
out:
    return st; /* the child ends here: its memory goes with it */
}

/* ---- in the parent */

static enum status run(const struct program *p, const struct topology *t, const char *platform,
                       struct simulation *out)
{
    enum status st;
    struct world w = {.p = p, .platform = platform};
    struct child_output output = {0};

    (void)t;
    st = child_run(simulate, &w, &output);
    if (st != STATUS_OK) {
        st = error_context(st, "simulating on %s", platform);
        goto out;
    }
    TRY(simgrid_parse(&output, p->ops, out));
out:
    child_output_free(&output);
    return st;
}

const struct engine engine_simgrid = {
    .name = "simgrid",
    .summary = "flow-level contention on the platform file; 1e5 messages per CPU second",
    .run = run,
};
