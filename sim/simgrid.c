/* simgrid - the program as actors on SimGrid's flow-level network: links are shared, fairly.
 *
 * One actor per rank computes, one per directed pair carries the pair's messages in order, one per
 * group runs its collectives, whose flows (core/collective.h) one actor per pair of members
 * carries: one flow for all steps of a pipelined phase, their latencies after it
 * (docs/decisions/0002). Nothing is posted or matched: an op is an event that completes, and actors
 * wait for the events their op depends on.
 *
 * CM02 shares a link in inverse proportion to the flows' latencies, so all link latencies are set
 * to zero after the routes' have been read, and charged on arrival instead: shares are exactly
 * equal then, and one message takes latency + bytes / bandwidth. docs/decisions/0001. */
#include "core/array.h"
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/clock.h"
#include "sim/child.h"
#include "sim/pairs.h"
#include "sim/simgrid_faults.h"
#include "sim/simgrid_report.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>
#include <xbt/config.h>

static const double resolution_s = 1e-9; /* SimGrid's: shorter sleeps are refused */

/* An actor that waits: a member of an event's list, woken through its semaphore. */
struct actor {
    struct actor *next; /* waiting for the same event */
    sg_sem_t signal;
};

/* The end of one op. Waiters are released when the op is done, and sleep on until when_s if that
 * is later. */
struct event {
    bool done;
    double when_s; /* not before; latency is charged here */
    struct actor *waiting;
};

/* An actor for each pair of members that some collective of the group sends between. */
struct carrier {
    struct group *group;
    uint32_t member_from, member_to;
    sg_host_t from, to;
    sg_sem_t go;
    double bytes; /* of the flow to bring; 0: no more to come */
};

/* The collectives of one group run one after the other, a phase at a time, on carriers that live
 * as long as the group. */
struct group {
    size_t carriers;
    struct carrier *carrier; /* [carriers] sorted by members */
    size_t flying;           /* flows of the phase under way */
    sg_sem_t landed;
};

/* All that the actors share. They run one at a time on SimGrid's scheduler, so nothing is
 * locked. */
struct world {
    const struct program *p;
    const char *platform;
    const struct topology *t;
    const struct simulation_options *options;
    sg_host_t *host;     /* [devices] NULL where no rank is */
    double *start, *end; /* [ops] */
    struct event *event; /* [ops] */
    struct shapes shapes;
    struct group *group; /* [groups] */
    struct pair *pair;   /* [pairs] sorted */
    size_t pairs;
    double *latency; /* [pairs] seconds */
    size_t completed, messages;
    size_t *shown; /* completed, for the parent to see; NULL when it does not look */
};

/* What an actor is told when it starts. */
struct role {
    struct world *w;
    uint32_t id; /* rank, channel or group */
};

/* ---- events */

/* Sleep to a simulated moment; nothing when it has passed or is too near for SimGrid to tell. */
static void sleep_until(double when_s)
{
    double remaining = when_s - simgrid_get_clock();
    if (remaining > resolution_s)
        sg_actor_sleep_for(remaining);
}

/* Wait for the end of an op, and for the latency that is charged after it. */
static void wait_event(struct actor *self, struct event *e)
{
    if (!e->done) {
        self->next = e->waiting;
        e->waiting = self;
        sg_sem_acquire(self->signal);
    }
    sleep_until(e->when_s);
}

/* Mark an op as ended and release who waits for it. The list is taken first: a released actor
 * may append itself to another event at once. */
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

/* Note both times of an op for the result, count it for the progress line, and tell its waiters. */
static void complete_op(struct world *w, size_t i, double start_s, double end_s)
{
    w->start[i] = start_s;
    w->end[i] = end_s;
    w->completed++;
    if (w->shown)
        *(volatile size_t *)w->shown = w->completed;
    complete_event(&w->event[i], end_s);
}

/* Wait for everything that op i depends on, in any order: the last one decides. */
static void wait_deps(struct world *w, struct actor *self, size_t i)
{
    for (uint32_t d = w->p->op[i].dep_start; d < w->p->op[i + 1].dep_start; d++)
        wait_event(self, &w->event[w->p->dep[d]]);
}

/* ---- actors */

/* Order of carriers, by sending member, then by receiving member. */
static int by_members(const void *a, const void *b)
{
    const struct carrier *x = a, *y = b;
    if (x->member_from != y->member_from)
        return x->member_from < y->member_from ? -1 : 1;
    return x->member_to < y->member_to ? -1 : x->member_to > y->member_to;
}

/* The carrier between two members; every flow of a shape has one (find_carriers()). */
static struct carrier *group_carrier(struct group *g, uint32_t from, uint32_t to)
{
    struct carrier wanted = {.member_from = from, .member_to = to};
    return bsearch(&wanted, g->carrier, g->carriers, sizeof wanted, by_members);
}

/* A rank: its compute ops in list order, one at a time. */
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

/* A directed pair of ranks: its messages in list order, one at a time. A send ends when its last
 * byte has left, the receive one latency later. */
static void channel_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct role *role = sg_actor_self_get_data();
    struct world *w = role->w;
    uint32_t from = w->p->channel[role->id].from, to = w->p->channel[role->id].to;
    uint32_t here = w->p->rank[from].device, there = w->p->rank[to].device;
    double latency = w->latency[pairs_find(w->pair, w->pairs, here, there)];
    struct actor self = {.signal = sg_sem_init(0)};
    for (size_t i = w->p->op_start[from]; i < w->p->op_start[from + 1]; i++) {
        const struct program_op *o = &w->p->op[i];
        if (o->kind != OP_SEND || o->channel != role->id)
            continue;
        wait_deps(w, &self, i);
        double start = simgrid_get_clock();
        if (o->bytes > 0)
            sg_host_sendto(w->host[here], w->host[there], (double)o->bytes);
        double sent = simgrid_get_clock();
        w->messages++;
        complete_op(w, i, start, sent);
        complete_op(w, o->match, start, sent + latency);
    }
    sg_sem_destroy(self.signal);
}

/* Brings one flow of a group's collectives after the other from one member to another. */
static void carrier_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct carrier *c = sg_actor_self_get_data();
    for (;;) {
        sg_sem_acquire(c->go);
        if (c->bytes == 0)
            break;
        sg_host_sendto(c->from, c->to, c->bytes);
        if (--c->group->flying == 0)
            sg_sem_release(c->group->landed);
    }
    sg_sem_destroy(c->go);
}

/* The flows of a phase, all at once, and then its latency. */
static void run_phase(struct group *g, const struct collective_shape *shape, size_t k, double calls)
{
    const struct collective_phase *phase = &shape->phase[k];
    g->flying = phase->flow_end - phase->flow_start;
    for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
        struct carrier *c = group_carrier(g, shape->flow[f].from, shape->flow[f].to);
        c->bytes = calls * shape->flow[f].bytes;
        sg_sem_release(c->go);
    }
    if (g->flying > 0)
        sg_sem_acquire(g->landed);
    sleep_until(simgrid_get_clock() + calls * phase->latency_s);
}

/* Runs the collectives of one group in their order, each when all members are ready. */
static void group_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct role *role = sg_actor_self_get_data();
    struct world *w = role->w;
    struct group *g = &w->group[role->id];
    uint32_t first = w->p->member[w->p->group_start[role->id]];
    struct actor self = {.signal = sg_sem_init(0)};
    for (size_t i = w->p->op_start[first]; i < w->p->op_start[first + 1]; i++) {
        const struct program_op *o = &w->p->op[i];
        if (!op_is_collective(o) || o->peer != role->id)
            continue;
        size_t j = i;
        do
            wait_deps(w, &self, j);
        while ((j = w->p->op[j].match) != i);
        double start = simgrid_get_clock();
        const struct collective_shape *shape = shapes_of(&w->shapes, o);
        for (size_t k = 0; k < shape->phases; k++)
            run_phase(g, shape, k, o->count);
        w->messages += o->count * shape->flows;
        do
            complete_op(w, j, start, simgrid_get_clock());
        while ((j = w->p->op[j].match) != i);
    }
    for (size_t c = 0; c < g->carriers; c++) {
        g->carrier[c].bytes = 0;
        sg_sem_release(g->carrier[c].go);
    }
    sg_sem_destroy(self.signal);
}

/* ---- in the child */

/* Start SimGrid with the network model of docs/decisions/0001 and load the platform. */
static void load_platform(const char *path)
{
    char *argv[] = {
        (char[]){"foreline"},
        (char[]){"--log=root.fmt:@@%m%n"}, /* child.h: the first such line is the reason */
        (char[]){"--log=root.thres:error"},
        (char[]){"--cfg=contexts/guard-size:0"},  /* many actors: pages are scarce */
        (char[]){"--cfg=contexts/stack-size:32"}, /* KiB; SimGrid clears them all */
        NULL};
    int argc = (int)(sizeof argv / sizeof *argv) - 1;
    simgrid_init(&argc, argv);
    sg_cfg_set_string("network/model", "CM02");
    sg_cfg_set_boolean("network/crosstraffic", "no");
    sg_cfg_set_double("network/TCP-gamma", 0);
    simgrid_load_platform(path);
    simgrid_run_until(0); /* seals the zones: routes can be asked for */
}

/* Arrays of the simulation; sizes are those of the program, + 1 so that none is empty. */
static enum status allocate(struct world *w)
{
    const struct program *p = w->p;
    PASS(ARRAY_NEW(w->host, w->t->n + 1));
    PASS(ARRAY_NEW(w->start, p->ops + 1));
    PASS(ARRAY_NEW(w->end, p->ops + 1));
    PASS(ARRAY_NEW(w->event, p->ops + 1));
    PASS(ARRAY_NEW(w->group, p->groups + 1));
    return STATUS_OK;
}

/* Every pair of members that some shape of group g has a flow between, once. */
static enum status find_carriers(struct world *w, uint32_t g)
{
    struct group *group = &w->group[g];
    const uint32_t *device = w->p->device + w->p->device_start[g];
    size_t room = 0, n = 0, kept = 0;
    for (uint32_t k = w->shapes.first[g]; k != PROGRAM_NONE; k = w->shapes.shaped[k].next)
        room += w->shapes.shaped[k].shape.flows;
    if (!(group->carrier = calloc(room + 1, sizeof *group->carrier)))
        return error_set(STATUS_NOMEM, "%zu flows", room);
    for (uint32_t k = w->shapes.first[g]; k != PROGRAM_NONE; k = w->shapes.shaped[k].next) {
        const struct collective_shape *shape = &w->shapes.shaped[k].shape;
        for (size_t f = 0; f < shape->flows; f++) {
            uint32_t from = shape->flow[f].from, to = shape->flow[f].to;
            group->carrier[n++] = (struct carrier){.group = group,
                                                   .member_from = from,
                                                   .member_to = to,
                                                   .from = w->host[device[from]],
                                                   .to = w->host[device[to]]};
        }
    }
    if (n > 0)
        qsort(group->carrier, n, sizeof *group->carrier, by_members);
    for (size_t k = 0; k < n; k++)
        if (kept == 0 || by_members(&group->carrier[kept - 1], &group->carrier[k]) != 0)
            group->carrier[kept++] = group->carrier[k];
    group->carriers = kept;
    return STATUS_OK;
}

/* Read the routes' latencies, then take them out of the links. */
static enum status prepare_network(struct world *w)
{
    const struct program *p = w->p;
    for (size_t r = 0; r < p->ranks; r++) {
        sg_host_t *host = &w->host[p->rank[r].device];
        *host = sg_host_by_name(p->rank[r].name);
        if (!*host)
            return error_set(STATUS_INVALID, "%s has no host '%s'", w->platform, p->rank[r].name);
    }
    PASS(shapes_make(p, w->t, w->options ? &w->options->collective : NULL, &w->shapes));
    PASS(pairs_of(p, &w->shapes, &w->pair, &w->pairs));
    for (uint32_t g = 0; g < p->groups; g++)
        PASS(find_carriers(w, g));
    PASS(ARRAY_NEW(w->latency, w->pairs + 1));
    for (size_t k = 0; k < p->channels; k++) {
        uint32_t from = p->rank[p->channel[k].from].device, to = p->rank[p->channel[k].to].device;
        w->latency[pairs_find(w->pair, w->pairs, from, to)] =
            sg_host_get_route_latency(w->host[from], w->host[to]);
    }
    sg_link_t *link = sg_link_list();
    for (size_t k = 0; k < sg_link_count(); k++)
        sg_link_set_latency(link[k], 0);
    free(link);
    return STATUS_OK;
}

/* Start one actor on a host; `data` outlives it. */
static void start_actor(sg_host_t host, const char *name, void (*code)(int, char **), void *data)
{
    sg_actor_t actor = sg_actor_init(name, host);
    sg_actor_set_data(actor, data);
    sg_actor_start_(actor, code, 0, NULL);
}

/* The host that a rank runs on. */
static sg_host_t host_of(const struct world *w, uint32_t rank)
{
    return w->host[w->p->rank[rank].device];
}

static void start_actors(struct world *w, struct role *role)
{
    const struct program *p = w->p;
    for (uint32_t r = 0; r < p->ranks; r++) {
        *role = (struct role){w, r};
        start_actor(host_of(w, r), "compute", compute_actor, role++);
    }
    for (uint32_t c = 0; c < p->channels; c++) {
        *role = (struct role){w, c};
        start_actor(host_of(w, p->channel[c].from), "channel", channel_actor, role++);
    }
    for (uint32_t g = 0; g < p->groups; g++) {
        struct group *group = &w->group[g];
        group->landed = sg_sem_init(0);
        for (size_t c = 0; c < group->carriers; c++) {
            group->carrier[c].go = sg_sem_init(0);
            start_actor(group->carrier[c].from, "carrier", carrier_actor, &group->carrier[c]);
        }
        *role = (struct role){w, g};
        start_actor(host_of(w, p->member[p->group_start[g]]), "group", group_actor, role++);
    }
}

/* The child's part: load, start all actors, run to the end, and send the result up the pipe. A
 * program that has been checked cannot deadlock, so an op that is not complete is SimGrid's
 * fault. */
static enum status simulate(void *argument, int fd)
{
    enum status st;
    struct world *w = argument;
    TRY(allocate(w));
    load_platform(w->platform);
    TRY(prepare_network(w));
    struct role *role;
    PASS(ARRAY_NEW(role, w->p->ranks + w->p->channels + w->p->groups + 1));
    double begin = clock_cpu();
    start_actors(w, role);
    TRY(simgrid_faults_start(w->options ? w->options->faults : NULL, host_of(w, 0)));
    simgrid_run();
    double cpu_s = clock_cpu() - begin;
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

enum { PERIOD_MS = 200 };

static bool look(void *context)
{
    const struct world *w = context;
    const struct simulation_watch *watch = w->options->watch;
    return watch->tick(watch->context, *(volatile size_t *)w->shown, w->p->ops);
}

/* Run in a child; the watch of the options sees how far it is in memory shared with it. */
static enum status run_child(struct world *w, struct child_output *output)
{
    const struct child_watch watch = {look, w, PERIOD_MS};
    if (!w->options || !w->options->watch)
        return child_run(simulate, w, output);
    void *shared =
        mmap(NULL, sizeof *w->shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_NOMEM, "no memory to share with SimGrid");
    w->shown = shared;
    enum status st = child_run_watched(simulate, w, &watch, output);
    munmap(shared, sizeof *w->shown);
    return st;
}

static enum status run(const struct program *p, const struct topology *t, const char *platform,
                       const struct simulation_options *options, struct simulation *out)
{
    enum status st;
    struct world w = {.p = p, .t = t, .platform = platform, .options = options};
    struct child_output output = {0};

    if (p->folded)
        return error_set(STATUS_UNSUPPORTED, "SimGrid cannot run a folded program");
    st = run_child(&w, &output);
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
    .resolution_s = 1e-9,
    .run = run,
};
