/* Cells by colour, classes of links by the cells that cross them, kinds of flows by the classes
 * that they cross; their exact check, and the quotient. */
#include "core/engine/symmetry.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"

enum { NONE = UINT32_MAX };

/* ---- numbers for keys */

/* Keys that were met, open addressing: number + 1, 0 where nothing is. */
struct numbering {
    uint64_t *key;
    uint32_t *number;
    size_t slots, n; /* slots: a power of two */
};

/* Nearby keys become unrelated ones. */
static uint64_t symmetry_mix(uint64_t z)
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

/* ---- cells, classes, kinds */

struct division {
    const struct sharing_network *whole;
    struct numbering table;
    uint64_t *sum;   /* [links] of the mixed cells of a link's flows */
    uint32_t *cell;  /* [flows] */
    uint32_t *class; /* [links] NONE where no flow passes */
    uint32_t *kind;  /* [flows] */
    size_t cells, classes, kinds;
    size_t *list_start;   /* [links + 2] of every link: */
    uint32_t *list;       /* [incidences] the cells of its flows, ascending */
    uint32_t *flow_of;    /* [kinds] a flow of each kind, */
    uint32_t *first_of;   /* [cells] of each cell, */
    uint32_t *link_of;    /* [classes] and a link of each class: the first ones */
    uint32_t *mine, *its; /* [longest route] classes of two flows */
};

/* Cells: what the caller says, and bounds. */
static void find_cells(struct division *d, const uint64_t *colour)
{
    const struct sharing_network *w = d->whole;
    numbering_clear(&d->table);
    for (size_t f = 0; f < w->flows; f++)
        d->cell[f] = numbering_of(&d->table,
                                  symmetry_mix(symmetry_mix(colour[f]) ^ bits_of(w->bound_Bps[f])));
    d->cells = d->table.n;
}

/* Links are told apart by their capacity and the cells of their flows: sums of mixed numbers do not
 * depend on the order. */
static void find_classes(struct division *d)
{
    const struct sharing_network *w = d->whole;
    for (size_t f = 0; f < w->flows; f++)
        for (size_t e = w->start[f]; e < w->start[f + 1]; e++)
            d->sum[w->link[e]] += symmetry_mix(d->cell[f]);
    numbering_clear(&d->table);
    for (size_t l = 0; l < w->links; l++) {
        bool used = d->list_start[l + 1] > d->list_start[l];
        uint64_t key = symmetry_mix(symmetry_mix(bits_of(w->capacity_Bps[l])) + d->sum[l]);
        d->class[l] = used ? numbering_of(&d->table, key) : NONE;
    }
    d->classes = d->table.n;
}

/* Flows are told apart by their cell and the classes of their links. */
static void find_kinds(struct division *d)
{
    const struct sharing_network *w = d->whole;
    numbering_clear(&d->table);
    for (size_t f = 0; f < w->flows; f++) {
        uint64_t sum = 0;
        for (size_t e = w->start[f]; e < w->start[f + 1]; e++)
            sum += symmetry_mix(d->class[w->link[e]]);
        d->kind[f] = numbering_of(
            &d->table, symmetry_mix(symmetry_mix((uint64_t)d->cell[f] << 32 | NONE) + sum));
    }
    d->kinds = d->table.n;
}

/* Flows in the order of their cells, then each into the lists of its links: so these are sorted. */
static enum status list_cells(struct division *d)
{
    enum status st;
    const struct sharing_network *w = d->whole;
    size_t all = w->start[w->flows], *by_cell = NULL;
    uint32_t *order = NULL;
    TRY(ARRAY_NEW(by_cell, d->cells + 1));
    TRY(ARRAY_NEW(order, w->flows));
    TRY(ARRAY_NEW(d->list_start, w->links + 2));
    TRY(ARRAY_NEW(d->list, all));
    for (size_t f = 0; f < w->flows; f++)
        by_cell[d->cell[f] + 1]++;
    for (size_t k = 0; k < d->cells; k++)
        by_cell[k + 1] += by_cell[k];
    for (size_t f = 0; f < w->flows; f++)
        order[by_cell[d->cell[f]]++] = (uint32_t)f;
    for (size_t e = 0; e < all; e++)
        d->list_start[w->link[e] + 2]++;
    for (size_t l = 0; l < w->links; l++)
        d->list_start[l + 2] += d->list_start[l + 1];
    for (size_t k = 0; k < w->flows; k++)
        for (size_t e = w->start[order[k]]; e < w->start[order[k] + 1]; e++)
            d->list[d->list_start[w->link[e] + 1]++] = d->cell[order[k]];
out:
    free(by_cell);
    free(order);
    return st;
}

/* ---- what was found, without hashes */

/* The classes of a flow's links, ascending. Routes are short. */
static size_t classes_of(const struct division *d, uint32_t flow, uint32_t *out)
{
    const struct sharing_network *w = d->whole;
    size_t n = 0;
    for (size_t e = w->start[flow]; e < w->start[flow + 1]; e++) {
        uint32_t class = d->class[w->link[e]];
        size_t at = n++;
        for (; at > 0 && out[at - 1] > class; at--)
            out[at] = out[at - 1];
        out[at] = class;
    }
    return n;
}

/* The first of whatever has a number; it is noted when it is met. */
static uint32_t symmetry_first_of(uint32_t *first, uint32_t number, uint32_t self)
{
    if (first[number] == NONE)
        first[number] = self;
    return first[number];
}

/* Have all links of a class one capacity and the same cells? */
static bool are_classes(struct division *d)
{
    const struct sharing_network *w = d->whole;
    for (uint32_t l = 0; l < w->links; l++) {
        if (d->class[l] == NONE)
            continue;
        uint32_t first = symmetry_first_of(d->link_of, d->class[l], l);
        size_t a = d->list_start[first], b = d->list_start[l];
        size_t n = d->list_start[l + 1] - b;
        if (d->list_start[first + 1] - a != n ||
            memcmp(d->list + a, d->list + b, n * sizeof *d->list) != 0 ||
            bits_of(w->capacity_Bps[first]) != bits_of(w->capacity_Bps[l]))
            return false;
    }
    return true;
}

/* Have all flows of a kind one cell and the same classes, and those of a cell one bound? */
static bool are_kinds(struct division *d)
{
    const struct sharing_network *w = d->whole;
    for (uint32_t f = 0; f < w->flows; f++) {
        uint32_t first = symmetry_first_of(d->flow_of, d->kind[f], f);
        size_t n = classes_of(d, f, d->mine);
        if (d->cell[first] != d->cell[f] || classes_of(d, first, d->its) != n ||
            memcmp(d->mine, d->its, n * sizeof *d->mine) != 0)
            return false;
        first = symmetry_first_of(d->first_of, d->cell[f], f);
        if (bits_of(w->bound_Bps[first]) != bits_of(w->bound_Bps[f]))
            return false;
    }
    return true;
}

/* Colours come from hashes, so nothing is believed of them. */
static enum status symmetry_check(struct division *d)
{
    const struct sharing_network *w = d->whole;
    size_t longest = 0;
    for (size_t f = 0; f < w->flows; f++)
        if (w->start[f + 1] - w->start[f] > longest)
            longest = w->start[f + 1] - w->start[f];
    PASS(ARRAY_NEW(d->flow_of, d->kinds));
    PASS(ARRAY_NEW(d->first_of, d->cells));
    PASS(ARRAY_NEW(d->link_of, d->classes));
    PASS(ARRAY_NEW(d->mine, longest + 1));
    PASS(ARRAY_NEW(d->its, longest + 1));
    memset(d->flow_of, 0xff, d->kinds * sizeof *d->flow_of);
    memset(d->first_of, 0xff, d->cells * sizeof *d->first_of);
    memset(d->link_of, 0xff, d->classes * sizeof *d->link_of);
    if (!are_classes(d) || !are_kinds(d))
        return error_set(STATUS_UNSUPPORTED,
                         "ranks count as not symmetric, so all must be simulated: hash collision "
                         "while comparing network parts");
    return STATUS_OK;
}

/* ---- the quotient */

/* Kinds get numbers in the order of their cells, and lists of their classes. */
static enum status list_kinds(struct division *d, struct symmetry *out)
{
    enum status st;
    const struct sharing_network *w = d->whole;
    size_t n = 0, all = 0, *next = NULL;
    uint32_t *number = NULL;
    TRY(ARRAY_NEW(next, d->cells + 1));
    TRY(ARRAY_NEW(number, d->kinds));
    TRY(ARRAY_NEW(out->kind_start, d->cells + 1));
    TRY(ARRAY_NEW(out->class_start, d->kinds + 1));
    for (size_t k = 0; k < d->kinds; k++) {
        uint32_t flow = d->flow_of[k];
        out->kind_start[d->cell[flow] + 1]++;
        all += w->start[flow + 1] - w->start[flow];
    }
    TRY(ARRAY_NEW(out->class_of, all + 1));
    for (size_t c = 0; c < d->cells; c++)
        next[c + 1] = out->kind_start[c + 1] += out->kind_start[c];
    for (size_t k = 0; k < d->kinds; k++)
        number[k] = (uint32_t)next[d->cell[d->flow_of[k]]]++;
    for (size_t f = 0; f < w->flows; f++)
        d->kind[f] = number[d->kind[f]];
    for (size_t k = 0; k < d->kinds; k++) /* their flows in the new order; number[] is done with */
        number[d->kind[d->flow_of[k]]] = d->flow_of[k];
    for (size_t k = 0; k < d->kinds; k++) {
        n += classes_of(d, number[k], out->class_of + n);
        out->class_start[k + 1] = n;
    }
out:
    free(next);
    free(number);
    return st;
}

/* How many flows of a cell cross a link of a class. */
static size_t crossing(const struct division *d, uint32_t class, uint32_t cell)
{
    uint32_t link = d->link_of[class];
    size_t low = d->list_start[link], high = d->list_start[link + 1], end = high, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->list[middle] < cell)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < end && d->list[low] == cell; low++)
        n++;
    return n;
}

/* The classes of all kinds of a cell, ascending, each once. */
static void list_links(const struct division *d, uint32_t cell, struct symmetry *out, size_t *n)
{
    size_t from = out->class_start[out->kind_start[cell]], first = *n;
    size_t all = out->class_start[out->kind_start[cell + 1]] - from;
    memcpy(out->link + first, out->class_of + from, all * sizeof *out->link);
    if (all > 0)
        qsort(out->link + first, all, sizeof *out->link, array_by_number);
    for (size_t i = 0; i < all; i++) {
        uint32_t class = out->link[first + i];
        if (*n > first && out->link[*n - 1] == class)
            continue;
        out->weight[*n] = (double)crossing(d, class, cell);
        out->link[(*n)++] = class;
    }
}

/* One flow for each cell, one link for each class. */
static enum status make_quotient(struct division *d, struct symmetry *out)
{
    const struct sharing_network *w = d->whole;
    size_t all = out->class_start[d->kinds], n = 0;
    PASS(ARRAY_NEW(out->start, d->cells + 1));
    PASS(ARRAY_NEW(out->link, all + 1));
    PASS(ARRAY_NEW(out->weight, all + 1));
    PASS(ARRAY_NEW(out->bound_Bps, d->cells + 1));
    PASS(ARRAY_NEW(out->capacity_Bps, d->classes + 1));
    for (uint32_t c = 0; c < d->cells; c++) {
        list_links(d, c, out, &n);
        out->start[c + 1] = n;
        out->bound_Bps[c] = w->bound_Bps[d->first_of[c]];
    }
    for (size_t k = 0; k < d->classes; k++)
        out->capacity_Bps[k] = w->capacity_Bps[d->link_of[k]];
    out->cells = d->cells;
    out->classes = d->classes;
    out->kinds = d->kinds;
    out->quotient =
        (struct sharing_network){d->cells,    d->classes,     out->start,       out->link,
                                 out->weight, out->bound_Bps, out->capacity_Bps};
    return STATUS_OK;
}

enum status symmetry_find(const struct sharing_network *whole, const uint64_t *colour,
                          struct symmetry *out)
{
    enum status st;
    struct symmetry s = {0};
    struct division d = {.whole = whole};
    TRY(numbering_new(&d.table, whole->flows > whole->links ? whole->flows : whole->links));
    TRY(ARRAY_NEW(d.sum, whole->links + 1));
    TRY(ARRAY_NEW(d.class, whole->links + 1));
    TRY(ARRAY_NEW(s.cell, whole->flows + 1));
    TRY(ARRAY_NEW(s.kind, whole->flows + 1));
    d.cell = s.cell;
    d.kind = s.kind;
    find_cells(&d, colour);
    TRY(list_cells(&d));
    find_classes(&d);
    find_kinds(&d);
    TRY(symmetry_check(&d));
    TRY(list_kinds(&d, &s));
    TRY(make_quotient(&d, &s));
    *out = s;
    s = (struct symmetry){0};
out:
    symmetry_free(&s);
    free(d.table.key);
    free(d.table.number);
    free(d.sum);
    free(d.class);
    free(d.list_start);
    free(d.list);
    free(d.flow_of);
    free(d.first_of);
    free(d.link_of);
    free(d.mine);
    free(d.its);
    return st;
}

void symmetry_free(struct symmetry *s)
{
    free(s->cell);
    free(s->kind);
    free(s->start);
    free(s->link);
    free(s->weight);
    free(s->bound_Bps);
    free(s->capacity_Bps);
    free(s->kind_start);
    free(s->class_start);
    free(s->class_of);
    *s = (struct symmetry){0};
}
