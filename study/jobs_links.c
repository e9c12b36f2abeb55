/* Which links jobs use at the same time, and how full these are meanwhile. A message uses the links
 * of its route from its start to its end, a collective those of all its flows, at a steady rate. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/routes.h"
#include "core/engine/pairs.h"
#include "study/jobs.h"

/* A part begins or ends to use a link at a rate. */
struct jobs_change {
    uint32_t link, part;
    int by; /* 1, -1 */
    double when_s, Bps;
};

struct jobs_search {
    struct jobs *js;
    struct shapes shapes;
    struct pair_bytes *pair; /* [pairs] */
    size_t pairs, parts;
    struct routes routes; /* of them */
    double *bytes;        /* [links * parts] of the first iteration */
    struct jobs_change *change;
    size_t changes;
};

/* What uses links: called for every link of every flow of a joined op. */
typedef enum status (*jobs_use)(struct jobs_search *s, uint32_t link, size_t part, size_t op,
                                double bytes);

static enum status jobs_use_route(struct jobs_search *s, uint32_t from, uint32_t to, size_t part,
                                  size_t op, double bytes, jobs_use use)
{
    size_t pair = pairs_find(s->pair, s->pairs, from, to);
    for (size_t k = s->routes.start[pair]; k < s->routes.start[pair + 1]; k++)
        if (!s->js->topology->link[s->routes.link[k]].fat)
            PASS(use(s, s->routes.link[k], part, op, bytes));
    return STATUS_OK;
}

/* All links of an op that sends, of a collective by its group's first member. */
static enum status jobs_use_op(struct jobs_search *s, size_t part, size_t rank, size_t op,
                               jobs_use use)
{
    const struct program *p = &s->js->joined.program;
    const struct program_op *o = &p->op[op];
    if (o->kind == OP_SEND)
        return jobs_use_route(s, p->rank[rank].device, p->rank[o->peer].device, part, op,
                              (double)o->bytes, use);
    if (!op_is_collective(o) || p->member[p->group_start[o->peer]] != rank)
        return STATUS_OK;
    const struct collective_shape *shape = shapes_of(&s->shapes, o);
    const uint32_t *device = p->device + p->device_start[o->peer];
    for (size_t f = 0; f < shape->flows; f++)
        PASS(jobs_use_route(s, device[shape->flow[f].from], device[shape->flow[f].to], part, op,
                            o->count * shape->flow[f].bytes, use));
    return STATUS_OK;
}

/* Every op of the first iterations, `all`: of all, of each part. */
static enum status jobs_use_parts(struct jobs_search *s, bool all, jobs_use use)
{
    const struct program_joined *j = &s->js->joined;
    for (size_t part = 0; part < j->parts; part++)
        for (size_t k = 0; k < (all ? j->part[part].iterations : 1); k++) {
            const struct program *p = j->part[part].program;
            for (size_t r = 0; r < p->ranks; r++)
                for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
                    PASS(jobs_use_op(s, part, j->first_rank[part] + r,
                                     program_joined_op(j, part, k, i), use));
        }
    return STATUS_OK;
}

static enum status jobs_add_bytes(struct jobs_search *s, uint32_t link, size_t part, size_t op,
                                  double bytes)
{
    (void)op;
    s->bytes[link * s->parts + part] += bytes;
    return STATUS_OK;
}

static bool jobs_link_is_shared(const struct jobs_search *s, size_t link)
{
    size_t users = 0;
    for (size_t part = 0; part < s->parts; part++)
        users += s->bytes[link * s->parts + part] > 0;
    return users > 1;
}

static enum status jobs_add_changes(struct jobs_search *s, uint32_t link, size_t part, size_t op,
                                    double bytes)
{
    const struct timeline *t = &s->js->timeline;
    double from = fmax(t->start_s[op], s->js->from_s), to = fmin(t->end_s[op], s->js->to_s);
    if (!(to > from) || !jobs_link_is_shared(s, link))
        return STATUS_OK;
    struct jobs_change c = {link, (uint32_t)part, 1, from, bytes / (t->end_s[op] - t->start_s[op])};
    PASS(ARRAY_ROOM(s->change, s->changes));
    s->change[s->changes++] = c;
    c.by = -1;
    c.when_s = to;
    PASS(ARRAY_ROOM(s->change, s->changes));
    s->change[s->changes++] = c;
    return STATUS_OK;
}

static int jobs_by_link_and_time(const void *a, const void *b)
{
    const struct jobs_change *x = a, *y = b;
    if (x->link != y->link)
        return x->link < y->link ? -1 : 1;
    if (x->when_s != y->when_s)
        return x->when_s < y->when_s ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

/* For so long all parts that are active use the link at once; *bytes: of all at their mean rates,
 * which can exaggerate, but not beyond what the link carries. */
static void jobs_link_step(const struct jobs_search *s, struct jobs_link *l, const long *active,
                           double seconds, double Bps, double *bytes)
{
    size_t users = 0;
    for (size_t a = 0; a < s->parts; a++) {
        users += active[a] > 0;
        for (size_t b = 0; b < a; b++)
            if (active[a] > 0 && active[b] > 0)
                l->pair_s[b * s->parts + a] += seconds;
    }
    if (users < 2)
        return;
    l->shared_s += seconds;
    *bytes += fmin(Bps, s->js->topology->link[l->link].bandwidth_Bps) * seconds;
}

/* The link of n changes. */
static enum status jobs_add_link(struct jobs_search *s, const struct jobs_change *c, size_t n)
{
    enum status st;
    struct jobs *js = s->js;
    struct jobs_link l = {.link = c->link};
    double bytes = 0, Bps = 0;
    long *active = NULL;
    TRY(ARRAY_NEW(active, s->parts));
    TRY(ARRAY_NEW(l.pair_s, s->parts * s->parts));
    TRY(ARRAY_COPY(l.bytes, s->bytes + c->link * s->parts, s->parts));
    if (js->flows > 0)
        l.bytes[js->n] /= js->joined.part[js->n].period_s;
    for (size_t k = 0; k < n; k++) {
        if (k > 0)
            jobs_link_step(s, &l, active, c[k].when_s - c[k - 1].when_s, Bps, &bytes);
        active[c[k].part] += c[k].by;
        Bps += c[k].by * c[k].Bps;
    }
    if (l.shared_s <= 0)
        goto out;
    l.load = bytes / l.shared_s / js->topology->link[l.link].bandwidth_Bps;
    TRY(ARRAY_ROOM(js->link, js->links));
    MOVE(&js->link[js->links++], l);
out:
    free(active);
    free(l.pair_s);
    free(l.bytes);
    return st;
}

static int jobs_most_contended(const void *a, const void *b)
{
    const struct jobs_link *x = a, *y = b;
    double p = x->shared_s * x->load, q = y->shared_s * y->load;
    if (p != q)
        return p > q ? -1 : 1;
    return (x->link > y->link) - (x->link < y->link);
}

static enum status jobs_find_routes(struct jobs_search *s)
{
    struct device_pair *pair = NULL;
    PASS(ARRAY_NEW(pair, s->pairs));
    for (size_t k = 0; k < s->pairs; k++)
        pair[k] = (struct device_pair){s->pair[k].from, s->pair[k].to};
    enum status st = topology_routes(s->js->topology, s->pairs, pair, &s->routes);
    free(pair);
    return st;
}

enum status jobs_find_links(struct jobs *js)
{
    enum status st;
    struct jobs_search s = {.js = js, .parts = js->joined.parts};
    TRY(shapes_make(&js->joined.program, js->topology, &js->options.collective, &s.shapes));
    TRY(pairs_of(&js->joined.program, &s.shapes, &s.pair, &s.pairs));
    TRY(jobs_find_routes(&s));
    TRY(ARRAY_NEW(s.bytes, js->topology->links * s.parts));
    TRY(jobs_use_parts(&s, false, jobs_add_bytes));
    TRY(jobs_use_parts(&s, true, jobs_add_changes));
    if (s.changes > 0)
        qsort(s.change, s.changes, sizeof *s.change, jobs_by_link_and_time);
    for (size_t k = 0, n; k < s.changes; k += n) {
        for (n = 1; k + n < s.changes && s.change[k + n].link == s.change[k].link; n++)
            continue;
        TRY(jobs_add_link(&s, s.change + k, n));
    }
    if (js->links > 0)
        qsort(js->link, js->links, sizeof *js->link, jobs_most_contended);
out:
    shapes_free(&s.shapes);
    routes_free(&s.routes);
    free(s.pair);
    free(s.bytes);
    free(s.change);
    return st;
}
