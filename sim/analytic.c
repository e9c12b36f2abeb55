/* analytic - longest path over the program: no contention but for one transfer at a time per
 * directed pair of ranks and one collective at a time per group. O(ops); no events, no clock: every
 * op is computed once, when what it depends on is known. A collective takes its algorithm's closed
 * form (core/collective.h) from the moment its last member is ready. */
#include "core/array.h"
#include "core/ready.h"
#include "sim/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "sim/pairs.h"

/* The state of a replay. Ranks wait in a ring buffer until something that they wait for is
 * known. */
struct state {
    const struct program *p;
    const struct topology *t;
    double *start, *end;    /* [ops] end NAN: not known yet */
    double *free_s;         /* [channels] when the pair has sent what it sends */
    double *latency, *pace; /* [channels] seconds, seconds per byte */
    double *compute_s;      /* [ranks] end of the last compute op */
    size_t *at;             /* [ranks] next op */
    size_t *arrived;        /* [groups] */
    double *group_free_s;   /* [groups] */
    struct shapes shapes;
    struct ready ready;
    size_t messages;
};

/* The moment at which everything that op i depends on has ended. */
static double ready(const struct state *s, size_t i)
{
    const struct program *p = s->p;
    double when = 0;
    for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++) {
        double end = s->end[p->dep[d]];
        when = end > when ? end : when;
    }
    return when;
}

/* True when op i is known now: the rank may go on. Collectives of a group take turns. */
static bool collective(struct state *s, size_t i)
{
    const struct program *p = s->p;
    const struct program_op *o = &p->op[i];
    size_t n = p->group_start[o->peer + 1] - p->group_start[o->peer];
    if (!isnan(s->end[i]))
        return true;
    if (s->start[i] < 0) {
        s->start[i] = ready(s, i);
        s->arrived[o->peer]++;
    }
    if (s->arrived[o->peer] < n)
        return false;
    s->arrived[o->peer] = 0;
    const struct collective_shape *shape = shapes_of(&s->shapes, o);
    double start = s->group_free_s[o->peer];
    size_t j = i;
    do
        start = fmax(start, s->start[j]);
    while ((j = p->op[j].match) != i);
    double end = start + o->count * shape->seconds;
    s->messages += o->count * shape->flows;
    s->group_free_s[o->peer] = end;
    do {
        s->start[j] = start;
        s->end[j] = end;
        ready_put(&s->ready, program_rank_of(p, j));
    } while ((j = p->op[j].match) != i);
    return true;
}

/* A message occupies its channel from its start until its last byte has left; the receiver has
 * it one latency later. Sends of a channel take turns in list order. */
static void send(struct state *s, size_t i, const struct program_op *o)
{
    double start = fmax(ready(s, i), s->free_s[o->channel]);
    double sent = start + (double)o->bytes * s->pace[o->channel];
    s->free_s[o->channel] = sent;
    s->start[i] = start;
    s->end[i] = sent;
    s->start[o->match] = start;
    s->end[o->match] = sent + s->latency[o->channel];
    s->messages++;
    if (s->at[o->peer] == o->match)
        ready_put(&s->ready, o->peer);
}

/* Compute the ops of a rank in list order, up to the first whose inputs are not known yet: a
 * receive whose send has not been replayed, or a collective with members still to come. Compute
 * ops take turns on the device; communication runs beside them. */
static void advance(struct state *s, uint32_t rank)
{
    const struct program *p = s->p;
    size_t last = p->op_start[rank + 1];
    for (size_t i = s->at[rank]; i < last; s->at[rank] = ++i) {
        const struct program_op *o = &p->op[i];
        if (op_computes(o)) {
            s->start[i] = fmax(ready(s, i), s->compute_s[rank]);
            s->compute_s[rank] = s->end[i] = s->start[i] + o->seconds;
        } else if (o->kind == OP_SEND) {
            send(s, i, o);
        } else if (o->kind == OP_RECV ? isnan(s->end[i]) : !collective(s, i)) {
            return;
        }
    }
}

/* Allocate the state and look up the link of every channel once: latency, and seconds per byte. */
static enum status prepare(struct state *s)
{
    const struct program *p = s->p;
    PASS(ARRAY_NEW(s->free_s, p->channels + 1));
    PASS(ARRAY_NEW(s->latency, p->channels + 1));
    PASS(ARRAY_NEW(s->pace, p->channels + 1));
    PASS(ARRAY_NEW(s->compute_s, p->ranks + 1));
    PASS(ARRAY_NEW(s->at, p->ranks + 1));
    PASS(ARRAY_NEW(s->arrived, p->groups + 1));
    PASS(ARRAY_NEW(s->group_free_s, p->groups + 1));
    PASS(ready_init(&s->ready, (uint32_t)p->ranks));
    for (size_t c = 0; c < p->channels; c++) {
        const struct topology_tier *tier = topology_between(
            s->t, p->rank[p->channel[c].from].device, p->rank[p->channel[c].to].device);
        s->latency[c] = tier->latency_s;
        s->pace[c] = 1 / tier->bandwidth_Bps;
    }
    memcpy(s->at, p->op_start, p->ranks * sizeof *s->at);
    for (size_t i = 0; i < p->ops; i++) {
        s->start[i] = -1;
        s->end[i] = NAN;
    }
    return STATUS_OK;
}

/* Directed pairs of devices, as links of this engine. */
static enum status report_links(const struct state *s, struct simulation *out)
{
    enum status st = STATUS_OK;
    struct pair *pair = NULL;
    size_t n;
    double iteration_s = 0;
    TRY(pairs_of(s->p, &s->shapes, &pair, &n));
    TRY(ARRAY_NEW(out->link, n + 1));
    for (size_t i = 0; i < s->p->ops; i++)
        iteration_s = fmax(iteration_s, s->end[i]);
    for (size_t k = 0; k < n; k++) {
        const char *a = s->t->device[pair[k].from], *b = s->t->device[pair[k].to];
        size_t length = strlen(a) + strlen(b) + 3;
        char *name = malloc(length);
        if (!name)
            FAIL(STATUS_NOMEM, "%zu links", n);
        snprintf(name, length, "%s->%s", a, b);
        double Bps = topology_between(s->t, pair[k].from, pair[k].to)->bandwidth_Bps;
        out->link[out->links++] = (struct measured_link){
            name, pair[k].bytes, iteration_s > 0 ? pair[k].bytes / Bps / iteration_s : 0};
    }
out:
    free(pair);
    return st;
}

/* Replay the program from all ranks at once, until no rank can go on. A checked program always
 * comes to its end. */
static enum status run(const struct program *p, const struct topology *t, const char *platform,
                       const struct simulation_options *options, struct simulation *out)
{
    enum status st;
    struct simulation result = {0};
    struct state s = {.p = p, .t = t};
    double begin = clock_cpu();
    uint32_t rank;

    (void)platform;
    if (options && faults_of_links(options->faults))
        FAIL(STATUS_UNSUPPORTED,
             "the analytic engine knows no links that could fail or become slow");
    TRY(shapes_make(p, t, options ? &options->collective : NULL, &s.shapes));
    TRY(timeline_init(&result.timeline, p->ops));
    s.start = result.timeline.start_s;
    s.end = result.timeline.end_s;
    TRY(prepare(&s));
    for (uint32_t r = 0; r < p->ranks; r++)
        ready_put(&s.ready, r);
    while (ready_take(&s.ready, &rank))
        advance(&s, rank);
    result.cpu_s = clock_cpu() - begin;
    result.messages = s.messages;
    TRY(report_links(&s, &result));
    *out = result;
    result = (struct simulation){0};
out:
    simulation_free(&result);
    shapes_free(&s.shapes);
    free(s.group_free_s);
    free(s.free_s);
    free(s.latency);
    free(s.pace);
    free(s.compute_s);
    free(s.at);
    free(s.arrived);
    ready_free(&s.ready);
    return st;
}

const struct engine engine_analytic = {
    .name = "analytic",
    .summary = "longest path; one transfer at a time per pair of devices; microseconds",
    .folds = true,
    .run = run,
};
