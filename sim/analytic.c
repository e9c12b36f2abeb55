/* analytic - a replay of the program (replay.h) with fair shares of the links that can be contended.
 *
 * What can meet nobody on a full link (flows.h) takes its closed form: its end is known as soon as
 * what it depends on is, without a clock, so that a program without contention is its longest path.
 * The others start and end on a clock: whatever can be known without it is worked out first, then
 * the earliest start or end happens. Links are shared as SimGrid shares them (docs/decisions/0001).
 * O(ops) where nothing is contended; else what sharing.h takes for each start and end. */
#include "sim/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "sim/flows.h"
#include "sim/pairs.h"
#include "sim/replay.h"

struct state {
    const struct program *p;
    const struct topology *t;
    struct shapes shapes;
    struct flows flows;
    struct sharing *sharing;
    uint32_t *carried; /* [slots] stream whose flow it carries */
    struct replay replay;
};

static bool fly(void *context, const struct replay_flow *f)
{
    struct state *s = context;
    uint32_t slot = f->is_message ? f->channel : flows_slot(&s->flows, f->shape, f->flow);
    if (slot == PROGRAM_NONE)
        return false;
    s->carried[slot] = f->stream;
    sharing_start(s->sharing, slot, f->bytes, f->now_s);
    return true;
}

/* All that is known without the clock first; then whatever happens next, with everything that
 * happens at that moment. */
static void replay(struct state *s)
{
    uint32_t slot;
    double end;
    for (;;) {
        replay_known(&s->replay);
        double start = replay_next(&s->replay), when = fmin(start, sharing_next(s->sharing));
        if (!isfinite(when))
            break;
        for (; start <= when; start = replay_next(&s->replay))
            replay_begin(&s->replay, start);
        while (sharing_take(s->sharing, when, &slot, &end))
            replay_land(&s->replay, s->carried[slot], end);
    }
}

static enum status prepare(struct state *s, const struct simulation_options *options)
{
    const struct program *p = s->p;
    struct program alone = *p; /* what is left out of a folded program shares nothing with it */
    if (options && options->unproved && s->t->links == 0)
        alone.folded = false;
    PASS(shapes_make(p, s->t, options ? &options->collective : NULL, &s->shapes));
    PASS(flows_make(&alone, s->t, &s->shapes, &s->flows));
    PASS(sharing_open(&s->flows.network, &s->sharing));
    if (s->t->links > 0)
        flows_time_shapes(&s->flows, p, s->sharing, &s->shapes);
    PASS(ARRAY_NEW(s->carried, s->flows.slots + 1));
    s->replay.shapes = &s->shapes;
    s->replay.alone = s->flows.alone;
    s->replay.bound_Bps = s->flows.bound_Bps;
    s->replay.fly = fly;
    s->replay.context = s;
    return replay_open(p, s->t, &s->replay);
}

/* Directed pairs of devices stand for links where the topology knows none. */
static enum status report_pairs(const struct state *s, double iteration_s, struct simulation *out)
{
    enum status st;
    const struct topology *t = s->t;
    struct pair *pair = NULL;
    size_t pairs;
    TRY(pairs_of(s->p, &s->shapes, &pair, &pairs));
    TRY(ARRAY_NEW(out->link, pairs + 1));
    for (size_t k = 0; k < pairs; k++) {
        const char *a = t->device[pair[k].from], *b = t->device[pair[k].to];
        double Bps = topology_between(t, pair[k].from, pair[k].to)->bandwidth_Bps;
        size_t length = strlen(a) + strlen(b) + 3;
        char *name;
        TRY(ARRAY_NEW(name, length));
        snprintf(name, length, "%s->%s", a, b);
        out->link[out->links++] = (struct measured_link){
            name, pair[k].bytes, iteration_s > 0 ? pair[k].bytes / Bps / iteration_s : 0};
    }
out:
    free(pair);
    return st;
}

static enum status report(const struct state *s, struct simulation *out)
{
    double iteration_s = 0;
    for (size_t i = 0; i < s->p->ops; i++)
        iteration_s = fmax(iteration_s, out->timeline.end_s[i]);
    return s->t->links > 0 ? simulation_add_links(s->t, s->flows.link_bytes, iteration_s, out)
                           : report_pairs(s, iteration_s, out);
}

static void release(struct state *s)
{
    replay_close(&s->replay);
    shapes_free(&s->shapes);
    flows_free(&s->flows);
    sharing_close(s->sharing);
    free(s->carried);
}

/* A checked program always comes to its end. */
static enum status run(const struct program *p, const struct topology *t, const char *platform,
                       const struct simulation_options *options, struct simulation *out)
{
    enum status st;
    struct simulation result = {0};
    struct state s = {.p = p, .t = t};
    double begin_s = clock_cpu();

    (void)platform;
    if (options && faults_of_links(options->faults))
        FAIL(STATUS_UNSUPPORTED,
             "the analytic engine knows no links that could fail or become slow");
    TRY(timeline_init(&result.timeline, p->ops));
    s.replay.start = result.timeline.start_s;
    s.replay.end = result.timeline.end_s;
    TRY(prepare(&s, options));
    replay(&s);
    result.cpu_s = clock_cpu() - begin_s;
    result.messages = s.replay.messages;
    TRY(report(&s, &result));
    *out = result;
    result = (struct simulation){0};
out:
    simulation_free(&result);
    release(&s);
    return st;
}

const struct engine engine_analytic = {
    .name = "analytic",
    .summary = "longest path, with fair shares of links that are contended; microseconds",
    .folds = true,
    .run = run,
};
