/* What a split divides: the share of each part, and what crosses between parts. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/base/units.h"
#include "papers/command/objective_cut.h"

struct cut_pair {
    size_t edges;
    double bytes;
};

struct objective_cut {
    const struct model *m;
    size_t parts;
    uint32_t *part_of;        /* [m->n] parts: in none */
    size_t *ops;              /* [parts] */
    double *parameters;       /* [parts] bytes */
    struct cut_pair *between; /* [parts * parts] within a part, too */
    struct arena memory;
};

/* Parts name their ops. */
static enum status objective_cut_parts(const struct objective_result *r, struct objective_cut *c)
{
    enum status st = STATUS_OK;
    struct interner names = {0};
    uint32_t op;
    for (size_t i = 0; i < c->m->n; i++) {
        c->part_of[i] = (uint32_t)c->parts;
        TRY(intern(&names, c->m->op[i].name, strlen(c->m->op[i].name), &op, NULL));
    }
    for (size_t k = 0; k < r->parts; k++)
        for (size_t i = 0; i < r->part[k].ops; i++)
            if (interned(&names, r->part[k].op[i], strlen(r->part[k].op[i]), &op))
                c->part_of[op] = (uint32_t)k;
out:
    interner_free(&names);
    return st;
}

static enum status objective_cut_open(const struct model *m, const struct objective_result *r,
                                      struct objective_cut *c)
{
    *c = (struct objective_cut){.m = m, .parts = r->parts};
    PASS(ARENA_NEW(&c->memory, c->part_of, m->n));
    PASS(ARENA_NEW(&c->memory, c->parameters, c->parts));
    PASS(ARENA_NEW(&c->memory, c->ops, c->parts));
    PASS(ARENA_NEW(&c->memory, c->between, c->parts * c->parts));
    PASS(objective_cut_parts(r, c));
    for (size_t i = 0; i < m->n; i++) {
        uint32_t to = c->part_of[i];
        if (to == c->parts)
            continue;
        c->ops[to]++;
        c->parameters[to] += (double)m->op[i].parameter_bytes;
        for (size_t e = m->in_start[i]; e < m->in_start[i + 1]; e++) {
            uint32_t from = c->part_of[m->in[e]];
            if (from == c->parts)
                continue;
            c->between[from * c->parts + to].edges++;
            c->between[from * c->parts + to].bytes += (double)m->op[m->in[e]].output_bytes;
        }
    }
    return STATUS_OK;
}

static double objective_cut_share(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

/* Bytes of the edges that have an end in the part. */
static double touching(const struct objective_cut *c, size_t part)
{
    double bytes = -c->between[part * c->parts + part].bytes;
    for (size_t k = 0; k < c->parts; k++)
        bytes += c->between[part * c->parts + k].bytes + c->between[k * c->parts + part].bytes;
    return bytes;
}

static void print_part(const struct objective_cut *c, size_t k, double parameters,
                       const struct cut_pair *all, FILE *out)
{
    const struct cut_pair *inside = &c->between[k * c->parts + k];
    double even = all->bytes / (double)c->parts;
    fprintf(out, "%-5zu %5zu %10.2f %% %5.1f %% %7.1f %% %7.1f %%", k, c->ops[k],
            objective_cut_share(c->parameters[k], parameters),
            objective_cut_share((double)inside->edges, (double)c->m->edges),
            objective_cut_share(inside->bytes, even), objective_cut_share(touching(c, k), even));
    for (size_t to = 0; to < c->parts; to++) {
        const struct cut_pair *p = &c->between[k * c->parts + to];
        if (to != k && p->edges > 0)
            fprintf(out, "  [%zu -> %zu] %zu: %s", k, to, p->edges,
                    units_of(UNIT_BYTES, p->bytes).text);
    }
    fputc('\n', out);
}

enum status objective_print_cut(const struct model *m, const struct objective_result *r, FILE *out)
{
    enum status st;
    struct objective_cut c;
    struct cut_pair all = {0}, cut;
    double parameters = 0;
    TRY(objective_cut_open(m, r, &c));
    for (size_t k = 0; k < c.parts; k++)
        parameters += c.parameters[k];
    for (size_t k = 0; k < c.parts * c.parts; k++) {
        all.edges += c.between[k].edges;
        all.bytes += c.between[k].bytes;
    }
    cut = all;
    for (size_t k = 0; k < c.parts; k++) {
        cut.edges -= c.between[k * c.parts + k].edges;
        cut.bytes -= c.between[k * c.parts + k].bytes;
    }
    fprintf(out, "\n%-5s %5s %12s %7s %9s %9s  cut edges to\n", "part", "ops", "parameters",
            "edges", "inside", "touching");
    for (size_t k = 0; k < c.parts; k++)
        print_part(&c, k, parameters, &all, out);
    fprintf(out, "cut   %zu of %zu edges, %s per sample\n", cut.edges, m->edges,
            units_of(UNIT_BYTES, cut.bytes).text);
out:
    arena_free(&c.memory);
    return st;
}
