/* Colour refinement on the incidence of flows and links, its exact check, and the quotient. */
#include "sim/symmetry.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/random.h"

enum { NONE = UINT32_MAX };

/* ---- numbers for keys */

/* Keys that were met, open addressing: number + 1, 0 where nothing is. */
struct numbering {
    uint64_t *key;
    uint32_t *number;
    size_t slots, n; /* slots: a power of two */
};

/* Nearby keys become unrelated ones. */
static uint64_t mix(uint64_t z)
{
    return random_at(z, 0);
}

/* At most half of the slots are ever taken. */
static enum status numbering_new(struct numbering *t, size_t most)
{
    t->slots = 64;
    while (t->slots < 2 * most)
        t->slots *= 2;
    PASS(ARRAY_NEW(t->key, t->slots));
    return ARRAY_NEW(t->number, t->slots);
}

/* Forget all keys; the next number is 0 again. */
static void numbering_clear(struct numbering *t)
{
    memset(t->number, 0, t->slots * sizeof *t->number);
    t->n = 0;
}

/* The number of a key: equal keys have equal numbers, new ones the next. */
static uint32_t numbering_of(struct numbering *t, uint64_t key)
{
    size_t at = key & (t->slots - 1);
    while (t->number[at] != 0 && t->key[at] != key)
        at = (at + 1) & (t->slots - 1);
    if (t->number[at] == 0) {
        t->key[at] = key;
        t->number[at] = (uint32_t)++t->n;
    }
    return t->number[at] - 1;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- refinement */

struct refining {
    const struct sharing_network *whole;
    struct numbering table;
    uint64_t *sum; /* [links] of the mixed cells of a link's flows */
    uint32_t *cell, *class;
    size_t cells, classes;
};

/* First colours: what the caller says and bounds; capacities. */
static void colour(struct refining *r, const uint64_t *given)
{
    const struct sharing_network *w = r->whole;
    numbering_clear(&r->table);
    for (size_t f = 0; f < w->flows; f++)
        r->cell[f] = numbering_of(&r->table, mix(mix(given[f]) ^ bits_of(w->bound_Bps[f])));
    r->cells = r->table.n;
    for (size_t l = 0; l < w->links; l++)
        r->class[l] = NONE;
    numbering_clear(&r->table);
    for (size_t e = 0; e < w->start[w->flows]; e++) {
        uint32_t l = w->link[e];
        if (r->class[l] == NONE)
            r->class[l] = numbering_of(&r->table, mix(bits_of(w->capacity_Bps[l])));
    }
    r->classes = r->table.n;
}

/* A colour and the sum of mixed neighbours' colours; an own colour is mixed as no neighbour's is. */
static uint64_t key_of(uint32_t own, uint64_t sum)
{
    return mix(mix((uint64_t)own << 32 | NONE) + sum);
}

/* Links are told apart by the cells of their flows, then flows by the classes of their links: sums
 * of mixed numbers do not depend on the order. True if some cell or class was divided. */
static bool refine(struct refining *r)
{
    const struct sharing_network *w = r->whole;
    size_t cells = r->cells, classes = r->classes;
    memset(r->sum, 0, w->links * sizeof *r->sum);
    for (size_t f = 0; f < w->flows; f++)
        for (size_t e = w->start[f]; e < w->start[f + 1]; e++)
            r->sum[w->link[e]] += mix(r->cell[f]);
    numbering_clear(&r->table);
    for (size_t l = 0; l < w->links; l++)
        if (r->class[l] != NONE)
            r->class[l] = numbering_of(&r->table, key_of(r->class[l], r -> sum[l]));
    r->classes = r->table.n;
    numbering_clear(&r->table);
    for (size_t f = 0; f < w->flows; f++) {
        uint64_t sum = 0;
        for (size_t e = w->start[f]; e < w->start[f + 1]; e++)
            sum += mix(r->class[w->link[e]]);
        r->cell[f] = numbering_of(&r->table, key_of(r->cell[f], sum));
    }
    r->cells = r->table.n;
    return r->cells > cells || r->classes > classes;
}

/* ---- what was found, without hashes */

/* Lists of all links: the cells of their flows, ascending. And a flow and a link for each cell and
 * class, the first ones. */
struct checking {
    const struct refining *r;
    size_t *list_start;   /* [links + 2] */
    uint32_t *list;       /* [incidences] */
    uint32_t *flow_of;    /* [cells] */
    uint32_t *link_of;    /* [classes] */
    uint32_t *mine, *its; /* [longest route] classes of two flows */
};

/* Flows in the order of their cells, then each into the lists of its links: so these are sorted. */
static enum status list_cells(struct checking *c)
{
    enum status st;
    const struct refining *r = c->r;
    const struct sharing_network *w = r->whole;
    size_t all = w->start[w->flows], *by_cell = NULL;
    uint32_t *order = NULL;
    TRY(ARRAY_NEW(by_cell, r->cells + 1));
    TRY(ARRAY_NEW(order, w->flows));
    TRY(ARRAY_NEW(c->list_start, w->links + 2));
    TRY(ARRAY_NEW(c->list, all));
    for (size_t f = 0; f < w->flows; f++)
        by_cell[r->cell[f] + 1]++;
    for (size_t k = 0; k < r->cells; k++)
        by_cell[k + 1] += by_cell[k];
    for (size_t f = 0; f < w->flows; f++)
        order[by_cell[r->cell[f]]++] = (uint32_t)f;
    for (size_t e = 0; e < all; e++)
        c->list_start[w->link[e] + 2]++;
    for (size_t l = 0; l < w->links; l++)
        c->list_start[l + 2] += c->list_start[l + 1];
    for (size_t k = 0; k < w->flows; k++)
        for (size_t e = w->start[order[k]]; e < w->start[order[k] + 1]; e++)
            c->list[c->list_start[w->link[e] + 1]++] = r->cell[order[k]];
out:
    free(by_cell);
    free(order);
    return st;
}

/* The classes of a flow's links, ascending. Routes are short. */
static size_t classes_of(const struct refining *r, uint32_t flow, uint32_t *out)
{
    const struct sharing_network *w = r->whole;
    size_t n = 0;
    for (size_t e = w->start[flow]; e < w->start[flow + 1]; e++) {
        uint32_t class = r->class[w->link[e]];
        size_t at = n++;
        for (; at > 0 && out[at - 1] > class; at--)
            out[at] = out[at - 1];
        out[at] = class;
    }
    return n;
}

/* Is the partition equitable? O(incidences). */
static bool is_equitable(struct checking *c)
{
    const struct refining *r = c->r;
    const struct sharing_network *w = r->whole;
    for (uint32_t l = 0; l < w->links; l++) {
        if (r->class[l] == NONE)
            continue;
        uint32_t *first = &c->link_of[r->class[l]];
        *first = *first == NONE ? l : *first;
        size_t a = c->list_start[*first], b = c->list_start[l];
        size_t n = c->list_start[l + 1] - b;
        if (c->list_start[*first + 1] - a != n ||
            memcmp(c->list + a, c->list + b, n * sizeof *c->list) != 0 ||
            bits_of(w->capacity_Bps[*first]) != bits_of(w->capacity_Bps[l]))
            return false;
    }
    for (uint32_t f = 0; f < w->flows; f++) {
        uint32_t *first = &c->flow_of[r->cell[f]];
        *first = *first == NONE ? f : *first;
        size_t n = classes_of(r, f, c->mine);
        if (classes_of(r, *first, c->its) != n ||
            memcmp(c->mine, c->its, n * sizeof *c->mine) != 0 ||
            bits_of(w->bound_Bps[*first]) != bits_of(w->bound_Bps[f]))
            return false;
    }
    return true;
}

/* How many flows of a cell cross a link of a class. */
static size_t crossing(const struct checking *c, uint32_t class, uint32_t cell)
{
    uint32_t link = c->link_of[class];
    size_t low = c->list_start[link], high = c->list_start[link + 1], end = high, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->list[middle] < cell)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < end && c->list[low] == cell; low++)
        n++;
    return n;
}

/* One flow for each cell, one link for each class. */
static enum status make_quotient(struct checking *c, struct symmetry *out)
{
    const struct refining *r = c->r;
    const struct sharing_network *w = r->whole;
    size_t all = 0, n = 0;
    for (size_t k = 0; k < r->cells; k++)
        all += w->start[c->flow_of[k] + 1] - w->start[c->flow_of[k]];
    PASS(ARRAY_NEW(out->start, r->cells + 1));
    PASS(ARRAY_NEW(out->link, all + 1));
    PASS(ARRAY_NEW(out->weight, all + 1));
    PASS(ARRAY_NEW(out->bound_Bps, r->cells + 1));
    PASS(ARRAY_NEW(out->capacity_Bps, r->classes + 1));
    for (uint32_t k = 0; k < r->cells; k++) {
        size_t classes = classes_of(r, c->flow_of[k], c->mine);
        for (size_t i = 0; i < classes; i++)
            if (i == 0 || c->mine[i] != c->mine[i - 1]) {
                out->weight[n] = (double)crossing(c, c->mine[i], k);
                out->link[n++] = c->mine[i];
            }
        out->start[k + 1] = n;
        out->bound_Bps[k] = w->bound_Bps[c->flow_of[k]];
    }
    for (size_t k = 0; k < r->classes; k++)
        out->capacity_Bps[k] = w->capacity_Bps[c->link_of[k]];
    out->cells = r->cells;
    out->classes = r->classes;
    out->quotient =
        (struct sharing_network){r->cells,    r->classes,     out->start,       out->link,
                                 out->weight, out->bound_Bps, out->capacity_Bps};
    return STATUS_OK;
}

/* Colours come from hashes, so nothing is believed of them: the partition is checked on the
 * incidence itself before anything follows from it. */
static enum status check(const struct refining *r, struct symmetry *out)
{
    enum status st;
    const struct sharing_network *w = r->whole;
    struct checking c = {.r = r};
    size_t longest = 0;
    for (size_t f = 0; f < w->flows; f++)
        if (w->start[f + 1] - w->start[f] > longest)
            longest = w->start[f + 1] - w->start[f];
    TRY(list_cells(&c));
    TRY(ARRAY_NEW(c.flow_of, r->cells));
    TRY(ARRAY_NEW(c.link_of, r->classes));
    TRY(ARRAY_NEW(c.mine, longest + 1));
    TRY(ARRAY_NEW(c.its, longest + 1));
    memset(c.flow_of, 0xff, r->cells * sizeof *c.flow_of);
    memset(c.link_of, 0xff, r->classes * sizeof *c.link_of);
    if (!is_equitable(&c))
        FAIL(STATUS_UNSUPPORTED, "not symmetric: two colours of the network have one hash");
    TRY(make_quotient(&c, out));
out:
    free(c.list_start);
    free(c.list);
    free(c.flow_of);
    free(c.link_of);
    free(c.mine);
    free(c.its);
    return st;
}

enum status symmetry_find(const struct sharing_network *whole, const uint64_t *given,
                          struct symmetry *out)
{
    enum status st;
    struct symmetry s = {0};
    struct refining r = {.whole = whole};
    TRY(numbering_new(&r.table, whole->flows > whole->links ? whole->flows : whole->links));
    TRY(ARRAY_NEW(r.sum, whole->links + 1));
    TRY(ARRAY_NEW(s.cell, whole->flows + 1));
    TRY(ARRAY_NEW(s.class, whole->links + 1));
    r.cell = s.cell;
    r.class = s.class;
    colour(&r, given);
    while (refine(&r))
        ;
    TRY(check(&r, &s));
    *out = s;
    s = (struct symmetry){0};
out:
    symmetry_free(&s);
    free(r.table.key);
    free(r.table.number);
    free(r.sum);
    return st;
}

void symmetry_free(struct symmetry *s)
{
    free(s->cell);
    free(s->class);
    free(s->start);
    free(s->link);
    free(s->weight);
    free(s->bound_Bps);
    free(s->capacity_Bps);
    *s = (struct symmetry){0};
}
