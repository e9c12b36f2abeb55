/* What a split divides: the share of each part, and what crosses between parts. */
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/intern.h"
#include "core/units.h"
#include "study/objective_cut.h"

struct pair {
    size_t edges;
    double bytes;
};

struct cut {
    const struct model *m;
    size_t parts;
    uint32_t *part_of;           /* [m->n] parts: in none */
    double *parameters, *inside; /* [parts] bytes of parameters; edges within */
    struct pair *between;        /* [parts * parts] */
    struct arena memory;
};

/* Parts name their ops. */
static enum status find_parts(const struct objective_result *r, struct cut *c)
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

static enum status open(const struct model *m, const struct objective_result *r, struct cut *c)
{
    *c = (struct cut){.m = m, .parts = r->parts};
    PASS(ARENA_NEW(&c->memory, c->part_of, m->n));
    PASS(ARENA_NEW(&c->memory, c->parameters, c->parts));
    PASS(ARENA_NEW(&c->memory, c->inside, c->parts));
    PASS(ARENA_NEW(&c->memory, c->between, c->parts * c->parts));
    PASS(find_parts(r, c));
    for (size_t i = 0; i < m->n; i++) {
        uint32_t to = c->part_of[i];
        if (to == c->parts)
            continue;
        c->parameters[to] += (double)m->op[i].parameter_bytes;
        for (size_t e = m->in_start[i]; e < m->in_start[i + 1]; e++) {
            uint32_t from = c->part_of[m->in[e]];
            if (from == to) {
                c->inside[to]++;
            } else if (from < c->parts) {
                c->between[from * c->parts + to].edges++;
                c->between[from * c->parts + to].bytes += (double)m->op[m->in[e]].output_bytes;
            }
        }
    }
    return STATUS_OK;
}

static double share(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

enum status objective_print_cut(const struct model *m, const struct objective_result *r, FILE *out)
{
    enum status st;
    struct cut c;
    struct pair all = {0};
    double parameters = 0;
    TRY(open(m, r, &c));
    for (size_t k = 0; k < c.parts; k++)
        parameters += c.parameters[k];
    for (size_t k = 0; k < c.parts * c.parts; k++) {
        all.edges += c.between[k].edges;
        all.bytes += c.between[k].bytes;
    }
    fprintf(out, "\n%-5s %12s %7s  cut edges to\n", "part", "parameters", "edges");
    for (size_t k = 0; k < c.parts; k++) {
        fprintf(out, "%-5zu %10.2f %% %5.1f %%", k, share(c.parameters[k], parameters),
                share(c.inside[k], (double)m->edges));
        for (size_t to = 0; to < c.parts; to++) {
            const struct pair *p = &c.between[k * c.parts + to];
            if (p->edges > 0)
                fprintf(out, "  [%zu -> %zu] %zu: %s", k, to, p->edges,
                        units_of(UNIT_BYTES, p->bytes).text);
        }
        fputc('\n', out);
    }
    fprintf(out, "cut   %zu of %zu edges, %s per sample\n", all.edges, m->edges,
            units_of(UNIT_BYTES, all.bytes).text);
out:
    arena_free(&c.memory);
    return st;
}
