/* The task of the engine "simgrid": actors on SimGrid's flow-level network.
 *
 * The replay (replay.h) knows what starts when; SimGrid is its clock and its network. One actor
 * sleeps until the next message or phase of a collective starts; a flow is carried by any actor
 * that has nothing else to carry, since SimGrid's C interface has no transfers but those that
 * block, and who carried it goes on with what its end makes possible. Collectives are flows too:
 * one flow for all steps of a pipelined phase, their latencies after it (docs/decisions/0002).
 *
 * CM02 shares a link in inverse proportion to the flows' latencies, so all link latencies are set
 * to zero after the routes' have been read, and charged on arrival instead: shares are exactly
 * equal then, and one message takes latency + bytes / bandwidth. docs/decisions/0001. */
#include "sim/simgrid/tasks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/engine/pairs.h"
#include "core/engine/replay.h"
#include "sim/platform/coordinates.h"
#include "sim/quotient.h"
#include "sim/simgrid/faults.h"
#include "sim/simgrid/load.h"
#include "sim/simgrid/report.h"
#include "sim/simgrid_module.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/semaphore.h>

static const double resolution_s = 1e-9; /* SimGrid's: shorter sleeps are refused */

/* A flow to bring from one host to another. */
struct carrier_job {
    sg_host_t from, to;
    double bytes;
    uint32_t stream;
    uint32_t flow; /* number + 1; 0: on the platform's file */
};

/* An actor that brings one flow after the other. */
struct carrier {
    struct world *w;
    struct carrier *next; /* idle */
    sg_sem_t go;
    struct carrier_job job; /* bytes 0: none */
};

/* All that the actors share. They run one at a time on SimGrid's scheduler, and give way only in
 * SimGrid's own calls, of which the replay makes none: nothing is locked. */
struct world {
    const struct simgrid_run *run;
    const struct program *p;
    sg_host_t *host;     /* [devices] NULL where no rank is; apart: the network's */
    double *start, *end; /* [ops] */
    struct replay replay;
    struct carrier_job *job; /* [jobs] that the replay has started and nobody carries yet */
    size_t jobs;
    enum status out_of_memory;
    struct carrier *idle;
    bool over;
    sg_sem_t wake;           /* the clock */
    double wake_s;           /* when it wakes by itself */
    struct pair_bytes *pair; /* [pairs] sorted; not of programs that run apart */
    size_t pairs;
};

/* ---- actors */

static void put_job(struct world *w, const struct carrier_job *job)
{
    if (w->out_of_memory == STATUS_OK)
        w->out_of_memory = ARRAY_ROOM(w->job, w->jobs);
    if (w->out_of_memory == STATUS_OK)
        w->job[w->jobs++] = *job;
    if (w->out_of_memory == STATUS_OK && w->run->wires) /* ns-3 has whole bytes */
        w->job[w->jobs - 1].bytes = ceil(job->bytes);
}

/* The flows of a slot, each between two hosts of its own. */
static size_t start_slot(struct world *w, const struct replay_flow *f)
{
    const struct flows *flows = &w->run->flows;
    uint32_t slot = f->is_message ? f->channel : flows_slot(flows, f->shape, f->flow);
    if (slot == PROGRAM_NONE)
        return 0;
    size_t first = flows_first(flows, slot), end = flows_first(flows, slot + 1);
    for (size_t k = first; k < end; k++) {
        size_t way = w->run->ways.first[k] + flows_choose(flows, (uint32_t)k);
        struct quotient_ends ends = quotient_ends(w->run->ways.network.flows, (uint32_t)way);
        put_job(w, &(struct carrier_job){w->host[ends.from], w->host[ends.to],
                                         f->bytes / (double)(end - first), f->stream,
                                         (uint32_t)k + 1});
    }
    return end - first;
}

/* The replay starts a flow: it waits in the list until simgrid_dispatch_flows() is called. */
static size_t simgrid_start_flow(void *context, const struct replay_flow *f)
{
    struct world *w = context;
    struct carrier_job job = {.bytes = f->bytes, .stream = f->stream};
    if (w->run->apart)
        return start_slot(w, f);
    if (f->is_message) {
        const struct program_channel *c = &w->p->channel[f->channel];
        job.from = w->host[w->p->rank[c->from].device];
        job.to = w->host[w->p->rank[c->to].device];
    } else {
        const struct shaped *s = &w->run->shapes.shaped[f->shape];
        const uint32_t *device = w->p->device + w->p->device_start[s->group];
        job.from = w->host[device[s->shape.flow[f->flow].from]];
        job.to = w->host[device[s->shape.flow[f->flow].to]];
    }
    put_job(w, &job);
    return 1;
}

static void carrier_actor(int argc, char **argv);

/* Give the flows that have started to `me` (NULL: not an actor that carries), to idle actors, and
 * to new ones. Others may run in between: every flow is out of the list before it is given. */
static void simgrid_dispatch_flows(struct world *w, struct carrier *me)
{
    while (w->jobs > 0 && w->out_of_memory == STATUS_OK) {
        struct carrier_job job = w->job[--w->jobs];
        struct carrier *c = w->idle;
        if (me && me->job.bytes <= 0) {
            me->job = job;
        } else if (c) {
            w->idle = c->next;
            c->job = job;
            sg_sem_release(c->go);
        } else if ((w->out_of_memory = ARRAY_NEW(c, 1)) == STATUS_OK) {
            *c = (struct carrier){.w = w, .job = job, .go = sg_sem_init(0)};
            sg_actor_t actor = sg_actor_init("carrier", job.from);
            sg_actor_set_data(actor, c);
            sg_actor_start_(actor, carrier_actor, 0, NULL);
        }
    }
}

/* What can happen now, and what follows from it. */
static void go_on(struct world *w, struct carrier *me)
{
    double now = simgrid_get_clock();
    replay_known(&w->replay);
    while (replay_next(&w->replay) <= now + resolution_s) {
        replay_begin(&w->replay, now);
        replay_known(&w->replay);
    }
    if (w->run->shown)
        *(volatile size_t *)w->run->shown = w->replay.completed;
    simgrid_dispatch_flows(w, me);
}

static bool is_over(const struct world *w)
{
    return w->replay.completed == w->p->ops || w->out_of_memory != STATUS_OK;
}

static void carrier_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct carrier *me = sg_actor_self_get_data();
    struct world *w = me->w;
    while (me->job.bytes > 0) {
        while (me->job.bytes > 0) {
            sg_host_sendto(me->job.from, me->job.to, me->job.bytes);
            me->job.bytes = 0;
            if (me->job.flow > 0)
                flows_end(&w->run->flows, me->job.flow - 1);
            replay_land(&w->replay, me->job.stream, simgrid_get_clock());
            go_on(w, me);
            if (is_over(w) || replay_next(&w->replay) < w->wake_s) {
                w->wake_s = 0;
                sg_sem_release(w->wake);
            }
        }
        if (w->over)
            break;
        me->next = w->idle;
        w->idle = me;
        sg_sem_acquire(me->go);
    }
    sg_sem_destroy(me->go);
    free(me);
}

/* The clock: sleeps until something starts, or somebody brings an earlier start. */
static void clock_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct world *w = sg_actor_self_get_data();
    for (;;) {
        go_on(w, NULL);
        if (is_over(w))
            break;
        w->wake_s = replay_next(&w->replay);
        double sleep_s = w->wake_s - simgrid_get_clock();
        if (!isfinite(w->wake_s))
            sg_sem_acquire(w->wake);
        else if (sleep_s > resolution_s)
            (void)sg_sem_acquire_timeout(w->wake, sleep_s);
    }
    w->over = true; /* nobody becomes idle from now on */
    for (struct carrier *c = w->idle, *next; c; c = next) {
        next = c->next;
        sg_sem_release(c->go);
    }
}

/* ---- in the child */

/* Loaded, and ready to be asked for routes. */
static void load_file(const struct simgrid_run *run, const char *path)
{
    simgrid_load(path, run->model, run->options ? run->options->paths.seed : 0);
    simgrid_run_until(0); /* seals the zones */
}

/* The file that a stream has written and nobody knows the name of. */
static enum status load_stream(const struct simgrid_run *run, FILE *f)
{
    char path[64];
    if (fflush(f) != 0 || ferror(f))
        return error_set(STATUS_IO, "cannot write a temporary file for the platform");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(f));
    load_file(run, path);
    return STATUS_OK;
}

/* The network of a program that runs apart. */
static enum status load_quotient(struct world *w)
{
    enum status st;
    char name[16];
    uint32_t hosts = quotient_hosts(w->run->ways.network.flows);
    FILE *f = tmpfile();
    if (!f)
        return error_set(STATUS_IO, "cannot create a temporary file for the platform");
    TRY(quotient_write(&w->run->ways.network, f));
    TRY(load_stream(w->run, f));
    TRY(ARRAY_NEW(w->host, hosts));
    for (uint32_t k = 0; k < hosts; k++) {
        snprintf(name, sizeof name, "%" PRIu32, k);
        w->host[k] = sg_host_by_name(name);
    }
out:
    fclose(f);
    return st;
}

/* Latencies from coordinates are charged on arrival like all others, so SimGrid must not see them;
 * *whole: it sees all. */
static enum status simgrid_load_links(const struct simgrid_run *run, bool *whole)
{
    enum status st;
    struct platform_text p = {.path = run->platform};
    char *text = NULL;
    size_t length;
    FILE *f = NULL;
    TRY(file_read(run->platform, &text, &length));
    p.text = text;
    *whole = !platform_has_coordinates(&p);
    if (*whole) {
        load_file(run, run->platform);
        goto out;
    }
    f = tmpfile();
    if (!f)
        FAIL(STATUS_IO, "cannot create a temporary file for the platform");
    platform_drop_coordinates(&p, f);
    TRY(load_stream(run, f));
out:
    if (f)
        fclose(f);
    free(text);
    return st;
}

/* The platform, whose routes' latencies are read and then taken out of the links. */
static enum status simgrid_load_world(struct world *w)
{
    const struct program *p = w->p;
    bool whole;
    PASS(simgrid_load_links(w->run, &whole));
    PASS(ARRAY_NEW(w->host, w->run->t->n + 1));
    for (size_t r = 0; r < p->ranks; r++) {
        sg_host_t *host = &w->host[p->rank[r].device];
        *host = sg_host_by_name(p->rank[r].name);
        if (!*host)
            return error_set(STATUS_INVALID, "platform %s has no host '%s'", w->run->platform,
                             p->rank[r].name);
    }
    PASS(pairs_of(p, &w->run->shapes, &w->pair, &w->pairs));
    if (w->run->inside)
        return STATUS_OK;
    for (size_t k = 0; k < p->channels && whole; k++) /* else the topology's */
        w->replay.latency_s[k] = sg_host_get_route_latency(
            w->host[p->rank[p->channel[k].from].device], w->host[p->rank[p->channel[k].to].device]);
    sg_link_t *link = sg_link_list();
    for (size_t k = 0; k < sg_link_count(); k++)
        sg_link_set_latency(link[k], 0);
    free(link);
    return STATUS_OK;
}

/* The wires as ns-3 has them: links of one hop, whose names say whose host it is. */
static enum status load_wires(struct world *w)
{
    char name[32];
    PASS(load_stream(w->run, w->run->wires));
    PASS(ARRAY_NEW(w->host, w->run->t->n + 1));
    for (size_t r = 0; r < w->p->ranks; r++) {
        uint32_t device = w->p->rank[r].device;
        snprintf(name, sizeof name, "d%" PRIu32, device);
        w->host[device] = sg_host_by_name(name);
    }
    return STATUS_OK;
}

static enum status load_network(struct world *w)
{
    const struct simgrid_run *run = w->run;
    for (size_t c = 0; c < w->p->channels && run->inside; c++)
        w->replay.latency_s[c] = 0;
    return run->wires ? load_wires(w) : run->apart ? load_quotient(w) : simgrid_load_world(w);
}

/* Load, start the clock, run to the end, and send the result up the pipe. A
 * program that has been checked cannot deadlock, so an op that is not complete is SimGrid's
 * fault. */
enum status simgrid_simulate(void *argument, int fd)
{
    enum status st;
    const struct simgrid_run *run = argument;
    struct world world = {.run = run, .p = run->p}, *w = &world;
    struct replay *r = &w->replay;
    TRY(ARRAY_NEW(w->start, w->p->ops + 1));
    TRY(ARRAY_NEW(w->end, w->p->ops + 1));
    r->shapes = &w->run->shapes;
    r->start = w->start;
    r->end = w->end;
    r->fly = simgrid_start_flow;
    r->context = w;
    TRY(replay_open(w->p, w->run->t, r));
    TRY(load_network(w));
    double begin = clock_cpu();
    w->wake = sg_sem_init(0);
    sg_host_t first = w->host[w->run->apart ? 0 : w->p->rank[0].device];
    sg_actor_t clock = sg_actor_init("clock", first);
    sg_actor_set_data(clock, w);
    sg_actor_start_(clock, clock_actor, 0, NULL);
    if (w->run->options && !w->run->apart &&
        !w->run->wires) /* else they are of lanes, which no flow takes */
        TRY(simgrid_faults_start(w->run->options->faults, first));
    simgrid_run();
    double cpu_s = clock_cpu() - begin;
    TRY(w->out_of_memory);
    if (r->completed != w->p->ops)
        return error_set(STATUS_EXTERNAL, "SimGrid stopped early, after %zu of %zu ops",
                         r->completed, w->p->ops);
    const struct simgrid_result result = {w->start, w->end,      w->host, w->pair,
                                          w->pairs, r->messages, cpu_s};
    TRY(simgrid_report(w->p, &result, fd));
out:
    return st; /* the child ends here: its memory goes with it */
}
