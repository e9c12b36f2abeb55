/* Isomorphism by igraph. What an op is and what is around it, as far as that goes, is its colour:
 * most ops of a model have one of their own, and the search has nothing left to try. */
#include "partition/alike.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "partition/igraph_error.h"

enum { ROUNDS = 64 };

/* A graph for igraph. Colours are hashes: equal ones may be of ops that differ, which only costs
 * time. */
struct coloured {
    const struct model *m;
    uint64_t *colour, *next; /* [n] */
    igraph_t graph;
    igraph_vector_int_t shown; /* [n] of vertices */
    bool has_graph, has_shown;
};

/* Of what the level says that must be equal. */
static uint64_t own_colour(const struct model *m, uint32_t op, enum model_alike level)
{
    const struct model_op *o = &m->op[op];
    uint64_t key = random_key(level, 1), flop;
    for (const char *c = o->kind; level >= ALIKE_KINDS && *c; c++)
        key = random_key(key, (uint64_t)(unsigned char)*c);
    if (level < ALIKE_SIZES)
        return key;
    memcpy(&flop, &o->forward_flop, sizeof flop);
    key = random_key(random_key(key, (uint64_t)o->parameter_bytes), (uint64_t)o->output_bytes);
    return random_key(key, flop);
}

/* Sums are the same in whatever order neighbours come. */
static void refine(struct coloured *c)
{
    const struct model *m = c->m;
    for (uint32_t i = 0; i < m->n; i++) {
        uint64_t in = 0, out = 0;
        for (size_t e = m->in_start[i]; e < m->in_start[i + 1]; e++)
            in += random_key(c->colour[m->in[e]], 2);
        for (size_t e = m->out_start[i]; e < m->out_start[i + 1]; e++)
            out += random_key(c->colour[m->out[e]], 3);
        c->next[i] = random_key(random_key(c->colour[i], in), out);
    }
    uint64_t *old = c->colour;
    c->colour = c->next;
    c->next = old;
}

static int alike_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static enum status alike_make_graph(const struct model *m, struct coloured *c)
{
    igraph_vector_int_t ends;
    *c = (struct coloured){.m = m};
    PASS(ARRAY_NEW(c->colour, m->n));
    PASS(ARRAY_NEW(c->next, m->n));
    PASS(from_igraph(igraph_vector_int_init(&c->shown, (igraph_integer_t)m->n)));
    c->has_shown = true;
    PASS(from_igraph(igraph_vector_int_init(&ends, 0)));
    igraph_error_t e = igraph_vector_int_reserve(&ends, 2 * (igraph_integer_t)m->edges);
    for (uint32_t i = 0; i < m->n && e == IGRAPH_SUCCESS; i++)
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++) {
            igraph_vector_int_push_back(&ends, i); /* there is room */
            igraph_vector_int_push_back(&ends, m->out[k]);
        }
    if (e == IGRAPH_SUCCESS)
        e = igraph_create(&c->graph, &ends, (igraph_integer_t)m->n, IGRAPH_DIRECTED);
    c->has_graph = e == IGRAPH_SUCCESS;
    igraph_vector_int_destroy(&ends);
    return from_igraph(e);
}

static void alike_release(struct coloured *c)
{
    if (c->has_graph)
        igraph_destroy(&c->graph);
    if (c->has_shown)
        igraph_vector_int_destroy(&c->shown);
    free(c->colour);
    free(c->next);
}

/* The ranks of an op's colour among all of the first graph's; false: the two have not the same
 * colours. */
static bool show_colours(struct coloured *a, struct coloured *b)
{
    size_t n = a->m->n;
    memcpy(a->next, a->colour, n * sizeof *a->next);
    memcpy(b->next, b->colour, n * sizeof *b->next);
    qsort(a->next, n, sizeof *a->next, alike_compare);
    qsort(b->next, n, sizeof *b->next, alike_compare);
    if (memcmp(a->next, b->next, n * sizeof *a->next) != 0)
        return false;
    struct coloured *const both[] = {a, b};
    for (int g = 0; g < 2; g++)
        for (size_t i = 0; i < n; i++) {
            const uint64_t *at =
                bsearch(&both[g]->colour[i], a->next, n, sizeof *a->next, alike_compare);
            VECTOR(both[g]->shown)[i] = (igraph_integer_t)(*at >> 2); /* 62 bits have no sign */
        }
    return true;
}

static enum status alike_is_same(struct coloured *a, struct coloured *b, enum model_alike level,
                                 bool *out)
{
    igraph_bool_t same = false;
    for (uint32_t i = 0; i < a->m->n; i++) {
        a->colour[i] = own_colour(a->m, i, level);
        b->colour[i] = own_colour(b->m, i, level);
    }
    for (int round = 0; round < ROUNDS; round++) {
        refine(a);
        refine(b);
    }
    if (show_colours(a, b))
        PASS(from_igraph(igraph_isomorphic_vf2(&a->graph, &b->graph, &a->shown, &b->shown, NULL,
                                               NULL, &same, NULL, NULL, NULL, NULL, NULL)));
    *out = same;
    return STATUS_OK;
}

enum status model_alike(const struct model *a, const struct model *b, enum model_alike *out)
{
    enum status st = STATUS_OK;
    struct coloured x = {0}, y = {0};
    enum model_alike found = ALIKE_NOT;
    bool alike = a->n == b->n && a->edges == b->edges;
    if (a->n > ALIKE_OPS)
        return error_set(STATUS_UNSUPPORTED, "got %zu ops, expected at most %d to compare graphs",
                         a->n, ALIKE_OPS);
    igraph_set_error_handler(igraph_error_handler_ignore);
    if (alike) {
        TRY(alike_make_graph(a, &x));
        TRY(alike_make_graph(b, &y));
    }
    for (enum model_alike level = ALIKE_GRAPHS; alike && level < ALIKE_LEVELS; level++) {
        TRY(alike_is_same(&x, &y, level, &alike));
        found = alike ? level : found;
    }
    *out = found;
out:
    alike_release(&x);
    alike_release(&y);
    return st;
}
