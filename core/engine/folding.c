/* Which copies have equal rates, and what is simulated for them. */
#include "core/engine/folding.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"

uint64_t folding_colour(uint64_t a, uint64_t b, double c)
{
    uint64_t part[3] = {a, b, 0}, z = 0;
    memcpy(&part[2], &c, sizeof c);
    for (size_t k = 0; k < 3; k++)
        z = random_at(z ^ part[k], 0);
    return z;
}

/* ---- are copies alike? */

/* What is found out about the replicas. */
struct fold_test {
    const struct program *p;
    const struct topology *t;
    const struct shapes *shapes;
    const struct slots *all;
    const uint32_t *cell;
    uint64_t *colour; /* [replicas] of all that its copies differ in from others */
    bool differ;      /* some do, as the error message says */
    bool hopeless;    /* and more classes of replicas would not help */
};

/* Copy number k of channel c has this colour, and another one than the first copy. */
static void differ(struct fold_test *x, uint32_t replica, uint64_t colour)
{
    x->differ = true;
    if (replica == PROGRAM_NONE)
        x->hopeless = true;
    else
        x->colour[replica] += colour;
}

/* Copies of one channel follow one another: their cells and latencies. */
static void look_at_channel(struct fold_test *x, uint32_t c)
{
    const struct program_copies *copies = &x->p->copies;
    size_t first = copies->channel_start[c];
    const struct device_pair *a = &x->all->between[first];
    uint64_t common = 0;
    for (size_t s = first; s < copies->channel_start[c + 1]; s++) {
        const struct device_pair *b = &x->all->between[s];
        uint64_t colour =
            folding_colour(c, x->cell[s], topology_between(x->t, b->from, b->to)->latency_s);
        common = s == first ? colour : common;
        if (colour == common)
            continue;
        if (!x->differ)
            (void)error_set(STATUS_UNSUPPORTED,
                            "ranks are not symmetric, so all must be simulated: messages %s -> %s "
                            "and %s -> %s of two replicas take different times",
                            x->t->device[a->from], x->t->device[a->to], x->t->device[b->from],
                            x->t->device[b->to]);
        differ(x, copies->channel_replica[s], colour - common);
    }
}

/* A colour for the cells of n slots, whatever their order; `sorted` has room for them. */
static uint64_t colour_of_cells(const uint32_t *cell, size_t n, uint32_t *sorted)
{
    uint64_t colour = 0;
    memcpy(sorted, cell, n * sizeof *cell);
    qsort(sorted, n, sizeof *sorted, array_by_number);
    for (size_t k = 0; k < n; k++)
        if (k == 0 || sorted[k] != sorted[k - 1])
            colour = folding_colour(colour, sorted[k], 0);
    return colour;
}

/* Copies of one group follow one another: their cells and shapes. `copy`: number among all copies
 * of all groups of this one's first. */
static enum status look_at_group(struct fold_test *x, uint32_t g, size_t copy, uint32_t *sorted)
{
    const struct program *p = x->p;
    size_t first = x->all->group_start[g], n = x->all->carriers[g];
    uint64_t common = 0;
    for (size_t k = 0; n > 0 && k < program_group_copies(p, g); k++) {
        const uint32_t *device = program_group_devices(p, g, k);
        uint64_t colour = colour_of_cells(x->cell + first + k * n, n, sorted);
        bool fit = true;
        common = k == 0 ? colour : common;
        if (k > 0 && colour == common)
            PASS(shapes_fit(x->shapes, g, x->t, device, &fit));
        if (colour == common && fit)
            continue;
        if (!x->differ)
            (void)error_set(STATUS_UNSUPPORTED,
                            "ranks are not symmetric, so all must be simulated: collectives of %s, "
                            "... and of %s, ... take different times",
                            x->t->device[p->device[p->device_start[g]]], x->t->device[device[0]]);
        differ(x, p->copies.group_replica[copy + k], folding_colour(g, colour - common, fit));
    }
    return STATUS_OK;
}

/* A replica's class so far and what it differs in, for sorting. */
struct replica {
    uint64_t colour;
    uint32_t class, number;
};

static int by_colour(const void *a, const void *b)
{
    const struct replica *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->colour != y->colour)
        return x->colour < y->colour ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Classes of replicas that differ in nothing that was seen; numbered by their first replica. */
static enum status divide_replicas(const struct fold_test *x, struct plan_classes *finer)
{
    enum status st;
    const struct program_copies *copies = &x->p->copies;
    struct replica *replica = NULL;
    uint32_t *of = NULL, n = 0, *first = NULL;
    TRY(ARRAY_NEW(replica, copies->replicas));
    TRY(ARRAY_NEW(first, copies->replicas));
    TRY(ARRAY_NEW(of, copies->replicas));
    for (uint32_t r = 0; r < copies->replicas; r++)
        replica[r] = (struct replica){x->colour[r], copies->class_of[r], r};
    qsort(replica, copies->replicas, sizeof *replica, by_colour);
    for (uint32_t k = 0; k < copies->replicas; k++) {
        const struct replica *a = &replica[k];
        bool new = k == 0 || a->class != a[-1].class || a->colour != a[-1].colour;
        first[a->number] = new ? a->number : first[a[-1].number];
    }
    for (uint32_t r = 0; r < copies->replicas; r++)
        of[r] = first[r] == r ? n++ : of[first[r]];
    if (n > copies->classes) {
        *finer = (struct plan_classes){n, of};
        of = NULL;
    }
out:
    free(replica);
    free(first);
    free(of);
    return st;
}

/* STATUS_UNSUPPORTED when copies differ; *finer then may say what to simulate instead. */
static enum status look_at_copies(struct fold_test *x, struct plan_classes *finer)
{
    enum status st;
    const struct program *p = x->p;
    size_t most = 0, copy = 0;
    uint32_t *sorted = NULL;
    TRY(ARRAY_NEW(x->colour, p->copies.replicas));
    for (size_t g = 0; g < p->groups; g++)
        most = x->all->carriers[g] > most ? x->all->carriers[g] : most;
    TRY(ARRAY_NEW(sorted, most));
    for (uint32_t c = 0; c < p->channels; c++)
        look_at_channel(x, c);
    for (uint32_t g = 0; g < p->groups; g++) {
        TRY(look_at_group(x, g, copy, sorted));
        copy += program_group_copies(p, g);
    }
    if (x->differ && !x->hopeless && finer)
        TRY(divide_replicas(x, finer));
    st = x->differ ? STATUS_UNSUPPORTED : STATUS_OK;
out:
    free(x->colour);
    free(sorted);
    return st;
}

/* ---- slots */

/* What is known of a cell while the flows of a phase are given slots. */
struct phase_use {
    size_t phase; /* number + 1 of the last phase that used it */
    size_t flows; /* in that phase, and */
    size_t of;    /* among the carriers of a copy */
    double bytes;
};

/* The first flow of each cell in a phase stands for all of them, which colours have made equal;
 * that is looked at once more, since colours are hashes. */
static enum status share_slots(const struct shapes *shapes, const struct folding *x,
                               struct phase_use *use, struct flows *f)
{
    size_t phases = 0;
    for (size_t k = 0; k < shapes->n; k++) {
        const struct collective_shape *shape = &shapes->shaped[k].shape;
        for (size_t i = 0; i < shape->phases; i++, phases++) {
            for (size_t j = shape->phase[i].flow_start; j < shape->phase[i].flow_end; j++) {
                uint32_t cell = x->symmetry.cell[x->slot[f->slot_start[k] + j]];
                struct phase_use *u = &use[cell];
                bool first = u->phase != phases + 1;
                f->slot[f->slot_start[k] + j] = first ? cell : PROGRAM_NONE;
                if (first)
                    *u = (struct phase_use){phases + 1, 0, u->of, shape->flow[j].bytes};
                u->flows++;
                if (shape->flow[j].bytes < u->bytes || shape->flow[j].bytes > u->bytes)
                    return error_set(STATUS_UNSUPPORTED,
                                     "ranks are not symmetric, so all must be simulated: ranks of "
                                     "different classes communicate");
            }
            for (size_t j = shape->phase[i].flow_start; j < shape->phase[i].flow_end; j++) {
                uint32_t slot = f->slot[f->slot_start[k] + j];
                if (slot != PROGRAM_NONE && use[slot].flows != use[slot].of)
                    return error_set(STATUS_UNSUPPORTED,
                                     "ranks are not symmetric, so all must be simulated: ranks of "
                                     "different classes communicate");
            }
        }
    }
    return STATUS_OK;
}

/* Slots become cells, whose numbers follow the slots' order: a cell for each channel, then those of
 * each group, whose first copy has some of each. */
static enum status number_slots(const struct program *p, const struct shapes *shapes,
                                struct flows *f)
{
    struct phase_use *use;
    const struct folding *x = f->folding;
    size_t cells = p->channels;
    PASS(ARRAY_NEW(use, x->symmetry.cells + 1));
    for (size_t g = 0; g < p->groups; g++) {
        f->carrier_start[g] = cells;
        for (size_t k = 0; k < x->all.carriers[g]; k++) {
            uint32_t cell = x->symmetry.cell[x->all.group_start[g] + k];
            cells = cell >= cells ? cell + 1 : cells;
            use[cell].of++;
        }
    }
    f->carrier_start[p->groups] = cells;
    enum status st = share_slots(shapes, x, use, f);
    free(use);
    return st;
}

enum status folding_divide(const struct program *p, const struct topology *t,
                           const struct shapes *shapes, struct flows *f, struct plan_classes *finer)
{
    struct folding *x = f->folding;
    symmetry_free(&x->symmetry);
    free(x->faster);
    x->faster = NULL;
    PASS(symmetry_find(&x->whole, x->all.colour, &x->symmetry));
    struct fold_test look = {
        .p = p, .t = t, .shapes = shapes, .all = &x->all, .cell = x->symmetry.cell};
    PASS(look_at_copies(&look, finer));
    PASS(number_slots(p, shapes, f));
    PASS(ARRAY_NEW(x->faster, x->symmetry.kinds));
    f->network = x->symmetry.quotient;
    f->slots = x->symmetry.cells;
    f->kinds = (struct sharing_kinds){x->symmetry.kind_start, x->symmetry.class_start,
                                      x->symmetry.class_of, x->faster};
    return STATUS_OK;
}

bool flows_are_proved(const struct flows *f)
{
    return f->folding->symmetry.kinds == f->folding->symmetry.cells;
}

enum status flows_divide(const struct program *p, const struct topology *t,
                         const struct shapes *shapes, struct flows *f, struct plan_classes *finer)
{
    struct folding *x = f->folding;
    for (size_t s = 0; s < x->all.n; s++) /* all of them: what was divided never meets again */
        x->all.colour[s] = folding_colour(x->all.colour[s], x->faster[x->symmetry.kind[s]], 0);
    PASS(folding_divide(p, t, shapes, f, finer));
    return flows_meet(p, f);
}

void folding_free(struct folding *x)
{
    if (!x)
        return;
    slots_free(&x->all);
    free(x->start);
    free(x->link);
    free(x->weight);
    free(x->bound_Bps);
    free(x->capacity_Bps);
    free(x->slot);
    symmetry_free(&x->symmetry);
    free(x->faster);
    free(x);
}

void slots_free(struct slots *x)
{
    free(x->between);
    free(x->colour);
    free(x->group_start);
    free(x->carriers);
    free(x->route);
    routes_free(&x->routes);
    *x = (struct slots){0};
}
