/* A layered drawing: columns by longest paths, the order in a column by barycentres, heights by
 * least squares that keep this order. */
#include "plots/layered.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"

enum { ORDER_SWEEPS = 12, HEIGHT_SWEEPS = 24, STRAIGHT = 4 /* weight of what passes */ };

/* Items one column to the left, or to the right, of each item: CSR. */
struct layered_side {
    size_t *start, *item;
};

/* An item of a column and where it would stand. */
struct layered_wish {
    double at;
    size_t place, item;
};

struct layering {
    struct layered *l;
    double gap;
    struct layered_side left, right;
    size_t *first; /* [columns + 2] the items of column c are order[first[c]] to first[c + 1] */
    size_t *order; /* [items] column by column, from above */
    size_t *place; /* [items] index in order[] */
    struct layered_wish *wish; /* [items] of the column in work */
    double *sum, *weight;      /* [items] blocks of the regression */
    size_t *end;               /* [items] */
};

/* The longest path from the inputs; inputs themselves stand just before their first reader. */
static void layered_columns(size_t n, const struct layered_edge *edge, size_t edges,
                            struct layered_item *item, size_t *columns)
{
    for (size_t i = 0; i < n; i++)
        item[i] = (struct layered_item){.node = i};
    for (size_t k = 0; k < edges; k++) /* readers in order: all that lead to `from` are done */
        if (item[edge[k].to].column <= item[edge[k].from].column)
            item[edge[k].to].column = item[edge[k].from].column + 1;
    *columns = 1;
    for (size_t i = 0; i < n; i++) {
        size_t reader = SIZE_MAX;
        for (size_t k = 0; k < edges && item[i].column == 0; k++)
            if (edge[k].from == i && item[edge[k].to].column < reader)
                reader = item[edge[k].to].column;
        if (reader != SIZE_MAX && item[i].column == 0)
            item[i].column = reader - 1;
        *columns = item[i].column + 1 > *columns ? item[i].column + 1 : *columns;
    }
}

/* What passes between a node and its furthest reader, an item for each column. */
static enum status layered_add_passes(size_t n, const struct layered_edge *edge, size_t edges,
                                      struct layered *l)
{
    size_t *furthest, *at, room = n;
    enum status st = ARRAY_NEW(furthest, 2 * n + 1);
    PASS(st);
    at = furthest + n;
    for (size_t k = 0; k < edges; k++)
        if (l->item[edge[k].to].column > furthest[edge[k].from])
            furthest[edge[k].from] = l->item[edge[k].to].column;
    for (size_t i = 0; i < n; i++) {
        at[i] = room; /* the item one column to the right of the node */
        room += furthest[i] > l->item[i].column + 1 ? furthest[i] - l->item[i].column - 1 : 0;
    }
    struct layered_item *grown = realloc(l->item, (room + 1) * sizeof *grown);
    if (!grown) {
        free(furthest);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    l->item = grown;
    l->items = n;
    for (size_t i = 0; i < n; i++)
        for (size_t c = l->item[i].column + 1; c < furthest[i]; c++, l->items++)
            l->item[l->items] = (struct layered_item){
                .node = i,
                .column = c,
                .passes = true,
                .before = c == l->item[i].column + 1 ? i : l->items - 1,
            };
    for (size_t k = 0; k < edges; k++) {
        size_t from = l->item[edge[k].from].column, to = l->item[edge[k].to].column;
        l->source[k] = to == from + 1 ? edge[k].from : at[edge[k].from] + to - from - 2;
    }
    free(furthest);
    return STATUS_OK;
}

static enum status layered_make_side(const struct layered *l, const struct layered_edge *edge,
                                     size_t edges, bool left, struct layered_side *out)
{
    size_t n = l->items;
    PASS(ARRAY_NEW(out->start, n + 2));
    PASS(ARRAY_NEW(out->item, n + edges + 1));
    for (int filling = 0; filling < 2; filling++) { /* afterwards start[i + 1] is the end of i */
        for (size_t k = 0; k < n + edges; k++) {
            if (k < n && !l->item[k].passes)
                continue;
            size_t a = k < n ? l->item[k].before : l->source[k - n], b = k < n ? k : edge[k - n].to;
            size_t of = left ? b : a, is = left ? a : b;
            if (filling)
                out->item[out->start[of + 1]++] = is;
            else
                out->start[of + 2]++;
        }
        for (size_t i = 2; i < n + 2 && !filling; i++)
            out->start[i] += out->start[i - 1];
    }
    return STATUS_OK;
}

static enum status layered_first_order(struct layering *y)
{
    const struct layered *l = y->l;
    PASS(ARRAY_NEW(y->first, l->columns + 2));
    PASS(ARRAY_NEW(y->order, l->items));
    PASS(ARRAY_NEW(y->place, l->items));
    PASS(ARRAY_NEW(y->wish, l->items));
    PASS(ARRAY_NEW(y->sum, l->items));
    PASS(ARRAY_NEW(y->weight, l->items));
    PASS(ARRAY_NEW(y->end, l->items));
    for (size_t i = 0; i < l->items; i++)
        y->first[l->item[i].column + 2]++;
    for (size_t c = 2; c < l->columns + 2; c++)
        y->first[c] += y->first[c - 1];
    for (size_t i = 0; i < l->items; i++) /* afterwards first[c + 1] is the end of column c */
        y->order[y->first[l->item[i].column + 1]++] = i;
    for (size_t k = 0; k < l->items; k++)
        y->place[y->order[k]] = k - y->first[l->item[y->order[k]].column];
    return STATUS_OK;
}

/* What the neighbours of an item are on average: places, or heights. */
static double layered_mean(const struct layering *y, size_t i, bool left, bool right, bool heights)
{
    double sum = 0;
    size_t n = 0;
    for (int k = 0; k < 2; k++) {
        const struct layered_side *side = k ? &y->right : &y->left;
        for (size_t j = side->start[i]; (k ? right : left) && j < side->start[i + 1]; j++, n++)
            sum += heights ? y->l->item[side->item[j]].y : (double)y->place[side->item[j]];
    }
    return n > 0 ? sum / (double)n : heights ? y->l->item[i].y : (double)y->place[i];
}

static void layered_sort_column(struct layering *y, size_t c, bool left)
{
    size_t *order = &y->order[y->first[c]], n = y->first[c + 1] - y->first[c];
    for (size_t k = 0; k < n; k++)
        y->wish[k] =
            (struct layered_wish){layered_mean(y, order[k], left, !left, false), k, order[k]};
    qsort(y->wish, n, sizeof *y->wish, order_by_value);
    for (size_t k = 0; k < n; k++) {
        order[k] = y->wish[k].item;
        y->place[order[k]] = k;
    }
}

/* Heights of a column as near to their wishes as their order and sizes allow, by least squares:
 * neighbours that would overlap become blocks which move together (pool adjacent violators). */
static void layered_settle_column(struct layering *y, size_t c, bool left, bool right)
{
    const size_t *order = &y->order[y->first[c]];
    size_t n = y->first[c + 1] - y->first[c], blocks = 0;
    double offset = 0; /* where the item would stand if those above were packed */
    for (size_t k = 0; k < n; k++) {
        struct layered_item *item = &y->l->item[order[k]];
        if (k > 0)
            offset += (y->l->item[order[k - 1]].height + item->height) / 2 + y->gap;
        double weight = item->passes ? STRAIGHT : 1;
        y->sum[blocks] = weight * (layered_mean(y, order[k], left, right, true) - offset);
        y->weight[blocks] = weight;
        y->end[blocks++] = k + 1;
        item->y = offset;
        for (; blocks > 1 && y->sum[blocks - 2] / y->weight[blocks - 2] >
                                 y->sum[blocks - 1] / y->weight[blocks - 1];
             blocks--) {
            y->sum[blocks - 2] += y->sum[blocks - 1];
            y->weight[blocks - 2] += y->weight[blocks - 1];
            y->end[blocks - 2] = k + 1;
        }
    }
    for (size_t b = 0, k = 0; b < blocks; b++)
        for (; k < y->end[b]; k++)
            y->l->item[order[k]].y += y->sum[b] / y->weight[b];
}

static void layered_arrange(struct layering *y)
{
    struct layered *l = y->l;
    for (int sweep = 0; sweep < ORDER_SWEEPS; sweep++)
        for (size_t k = 1; k < l->columns; k++)
            layered_sort_column(y, sweep % 2 ? l->columns - 1 - k : k, sweep % 2 == 0);
    for (int sweep = 0; sweep < HEIGHT_SWEEPS; sweep++)
        for (size_t k = 0; k < l->columns; k++) {
            size_t c = sweep % 2 ? l->columns - 1 - k : k;
            bool last = sweep + 4 >= HEIGHT_SWEEPS;
            layered_settle_column(y, c, last || sweep % 2 == 0, last || sweep % 2 == 1);
        }
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < l->items; i++)
        low = fmin(low, l->item[i].y - l->item[i].height / 2);
    for (size_t i = 0; i < l->items; i++) {
        l->item[i].y -= low;
        high = fmax(high, l->item[i].y + l->item[i].height / 2);
    }
    l->height = high;
}

enum status layered_place(size_t n, const struct layered_edge *edge, size_t edges,
                          const double *box, double gap, struct layered *out)
{
    enum status st;
    struct layered l = {0};
    struct layering y = {.l = &l, .gap = gap};
    TRY(ARRAY_NEW(l.item, n));
    TRY(ARRAY_NEW(l.source, edges + 1));
    layered_columns(n, edge, edges, l.item, &l.columns);
    TRY(layered_add_passes(n, edge, edges, &l));
    for (size_t i = 0; i < l.items; i++)
        l.item[i].height = l.item[i].passes ? 0 : box[i];
    TRY(layered_make_side(&l, edge, edges, true, &y.left));
    TRY(layered_make_side(&l, edge, edges, false, &y.right));
    TRY(layered_first_order(&y));
    layered_arrange(&y);
    MOVE(out, l);
out:
    layered_free(&l);
    free(y.left.start);
    free(y.left.item);
    free(y.right.start);
    free(y.right.item);
    free(y.first);
    free(y.order);
    free(y.place);
    free(y.wish);
    free(y.sum);
    free(y.weight);
    free(y.end);
    return st;
}

void layered_free(struct layered *l)
{
    free(l->item);
    free(l->source);
    *l = (struct layered){0};
}
