/* analytic - the program on fair shares of the links that can be contended (fluid.h).
 *
 * Messages and collectives that share no link that could be full (flows.h) take their closed form:
 * their end is known as soon as that of what they depend on, without a clock, so that the time of a
 * program without contention is that of its longest path. The others start and end on a clock:
 * whatever can be known without it is worked out first, then the earliest start or end happens.
 * Links are shared as SimGrid shares them (docs/decisions/0001). O(ops) where nothing is contended;
 * else what sharing.h takes for each start and end. */
#include "core/engine/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/engine/fluid.h"
#include "core/engine/pairs.h"

struct analytic_state {
    const struct program *p;
    const struct topology *t;
    struct shapes shapes;
    struct flows flows;
};

/* What is sent over which links; shares nothing where that is not to be proved. */
static enum status analytic_prepare(struct analytic_state *s,
                                    const struct simulation_options *options)
{
    struct program alone = *s->p; /* what is left out of a folded program shares nothing with it */
    if (options && options->unproved && s->t->links == 0)
        alone.folded = false;
    struct paths_options paths = {0};
    if (options)
        paths = options->paths;
    paths.faults = options ? options->faults : NULL;
    PASS(shapes_make(s->p, s->t, options ? &options->collective : NULL, &s->shapes));
    return flows_make(&alone, s->t, &s->shapes, &paths, options ? options->finer : NULL, &s->flows);
}

/* Directed pairs of devices stand for links where the topology knows none. */
static enum status report_pairs(const struct analytic_state *s, double iteration_s,
                                struct simulation *out)
{
    enum status st;
    const struct topology *t = s->t;
    struct pair_bytes *pair = NULL;
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

static enum status analytic_report(const struct analytic_state *s, struct simulation *out)
{
    double iteration_s = 0;
    for (size_t i = 0; i < s->p->ops; i++)
        iteration_s = fmax(iteration_s, out->timeline.end_s[i]);
    const struct topology *links = flows_links(&s->flows, s->t);
    return s->t->links > 0 ? simulation_add_links(links, s->flows.link_bytes, iteration_s, out)
                           : report_pairs(s, iteration_s, out);
}

static void analytic_release(struct analytic_state *s)
{
    shapes_free(&s->shapes);
    flows_free(&s->flows);
}

static enum status analytic_run(const struct program *p, const struct topology *t,
                                const char *platform, const struct simulation_options *options,
                                struct simulation *out)
{
    enum status st;
    struct simulation result = {0};
    struct analytic_state s = {.p = p, .t = t};
    double begin_s = clock_cpu();

    (void)platform;
    TRY(flows_check_faults(t, options ? options->faults : NULL));
    TRY(timeline_init(&result.timeline, p->ops));
    TRY(analytic_prepare(&s, options));
    TRY(fluid_run(p, t, &s.shapes, &s.flows, options ? options->finer : NULL, &result.timeline,
                  &result.messages));
    result.cpu_s = clock_cpu() - begin_s;
    if (!options || !options->no_links)
        TRY(analytic_report(&s, &result));
    *out = result;
    result = (struct simulation){0};
out:
    simulation_free(&result);
    analytic_release(&s);
    return st;
}

const struct engine engine_analytic = {
    .name = "analytic",
    .summary = "longest path, with fair shares of links that are contended; microseconds",
    .quick = true,
    .folds = true,
    .run = analytic_run,
};
