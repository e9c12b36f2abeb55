#include "cli/evaluate.h"

#include <stdio.h>

#include "core/lower.h"

enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline)
{
    enum status st;
    struct simulation s = {0};
    TRY(engine->run(p, context->topology, context->platform, &s));
    TRY(measurement_from_timeline(p, &s.timeline, m));
    m->link = s.link;
    m->links = s.links;
    m->cpu_s = s.cpu_s;
    s.link = NULL;
    s.links = 0;
    measurement_sort_links(m);
    for (size_t r = 0; r < m->ranks; r++) {
        double memory = (double)topology_type(context->topology, p->rank[r].device)->memory_bytes;
        if ((double)m->rank[r].peak_bytes > memory)
            TRY(measurement_warn(m, "rank %zu (%s) needs %.3g GB, its device has %.3g GB", r,
                                 m->rank[r].name, (double)m->rank[r].peak_bytes / 1e9,
                                 memory / 1e9));
    }
    if (timeline) {
        *timeline = s.timeline;
        s.timeline = (struct timeline){0};
    }
out:
    simulation_free(&s);
    return st;
}

void evaluate_reason(const struct measurement *m, char text[AUTO_REASON])
{
    double busy = 0, exposed = 0, idle = 0, total = (double)m->ranks * m->iteration_s;
    char link[64] = "";
    for (size_t r = 0; r < m->ranks; r++) {
        busy += m->rank[r].busy_s;
        exposed += m->rank[r].exposed_comm_s;
        idle += m->rank[r].idle_s;
    }
    if (m->links > 0 && exposed > 0.02 * total)
        snprintf(link, sizeof link, " (%.40s busy %.0f %%)", m->link[0].name,
                 100 * m->link[0].busy_fraction);
    snprintf(text, AUTO_REASON, "compute %.0f %%, exposed communication %.0f %%%s, idle %.0f %%",
             100 * busy / total, 100 * exposed / total, link, 100 * idle / total);
}

static enum status evaluate(void *context, const struct plan *p, const struct engine *engine,
                            struct evaluation *out)
{
    enum status st;
    const struct evaluation_context *c = context;
    struct program program = {0};
    struct measurement m = {0};
    TRY(plan_lower(p, c->model, c->topology, &program));
    TRY(evaluate_program(&program, c, engine, &m, NULL));
    struct evaluation e = {.iteration_s = m.iteration_s,
                           .samples_per_s = m.samples_per_s,
                           .bubble_fraction = m.bubble_fraction,
                           .headroom_bytes = INT64_MAX};
    for (size_t r = 0; r < m.ranks; r++) {
        int64_t memory = topology_type(c->topology, program.rank[r].device)->memory_bytes;
        if (memory - m.rank[r].peak_bytes < e.headroom_bytes) {
            e.headroom_bytes = memory - m.rank[r].peak_bytes;
            e.peak_bytes = m.rank[r].peak_bytes;
        }
    }
    evaluate_reason(&m, e.reason);
    *out = e;
out:
    measurement_free(&m);
    program_free(&program);
    return st;
}

static enum status quick(void *context, const struct plan *p, struct evaluation *out)
{
    return evaluate(context, p, &engine_analytic, out);
}

static enum status thorough(void *context, const struct plan *p, struct evaluation *out)
{
    return evaluate(context, p, &engine_simgrid, out);
}

struct evaluator evaluator_make(struct evaluation_context *context)
{
    return (struct evaluator){.context = context, .quick = quick, .thorough = thorough};
}
