/* The proof that copies get equal shares, and what is simulated for them. */
#include "sim/folding.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/random.h"
#include "sim/symmetry.h"

uint64_t folding_colour(uint64_t a, uint64_t b, double c)
{
    uint64_t part[3] = {a, b, 0}, z = 0;
    memcpy(&part[2], &c, sizeof c);
    for (size_t k = 0; k < 3; k++)
        z = random_at(z ^ part[k], 0);
    return z;
}

/* Slots of one channel follow one another. */
static enum status check_channels(const struct program *p, const struct topology *t,
                                  const struct slots *all, const uint32_t *cell)
{
    for (size_t c = 0; c < p->channels; c++) {
        size_t first = p->copies.channel_start[c];
        const struct device_pair *a = &all->between[first];
        double latency_s = topology_between(t, a->from, a->to)->latency_s;
        for (size_t s = first; s < p->copies.channel_start[c + 1]; s++) {
            const struct device_pair *b = &all->between[s];
            double other_s = topology_between(t, b->from, b->to)->latency_s;
            if (cell[s] != cell[first] || other_s < latency_s || other_s > latency_s)
                return error_set(STATUS_UNSUPPORTED,
                                 "not symmetric: messages %s -> %s and %s -> %s of two copies of "
                                 "stages take different times",
                                 t->device[a->from], t->device[a->to], t->device[b->from],
                                 t->device[b->to]);
        }
    }
    return STATUS_OK;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Slots of one group follow one another, copy by copy. `sorted`: room for two copies' cells. */
static enum status check_group(const struct program *p, const struct topology *t,
                               const struct shapes *shapes, const struct slots *all, uint32_t g,
                               const uint32_t *cell, uint32_t *sorted)
{
    size_t first = all->group_start[g], n = all->carriers[g];
    if (n == 0)
        return STATUS_OK;
    memcpy(sorted, cell + first, n * sizeof *cell);
    qsort(sorted, n, sizeof *sorted, by_number);
    for (size_t copy = 1; copy < program_group_copies(p, g); copy++) {
        const uint32_t *device = program_group_devices(p, g, copy);
        bool fit = true;
        memcpy(sorted + n, cell + first + copy * n, n * sizeof *cell);
        qsort(sorted + n, n, sizeof *sorted, by_number);
        if (memcmp(sorted, sorted + n, n * sizeof *sorted) != 0)
            fit = false;
        else
            PASS(shapes_fit(shapes, g, t, device, &fit));
        if (!fit)
            return error_set(STATUS_UNSUPPORTED,
                             "not symmetric: collectives of %s, ... and of %s, ... take different "
                             "times",
                             t->device[p->device[p->device_start[g]]], t->device[device[0]]);
    }
    return STATUS_OK;
}

/* All groups, with room for the cells of two copies of the largest. */
static enum status check_groups(const struct program *p, const struct topology *t,
                                const struct shapes *shapes, const struct slots *all,
                                const uint32_t *cell)
{
    enum status st = STATUS_OK;
    size_t most = 0;
    uint32_t *sorted = NULL;
    for (size_t g = 0; g < p->groups; g++)
        most = all->carriers[g] > most ? all->carriers[g] : most;
    TRY(ARRAY_NEW(sorted, 2 * most));
    for (uint32_t g = 0; g < p->groups; g++)
        TRY(check_group(p, t, shapes, all, g, cell, sorted));
out:
    free(sorted);
    return st;
}

/* What is known of a cell while the flows of a phase are given slots. */
struct use {
    size_t phase; /* number + 1 of the last phase that used it */
    size_t flows; /* in that phase, and */
    size_t of;    /* among the carriers of a copy */
    double bytes;
};

/* The first flow of each cell in a phase stands for all of them, which colours have made equal; that
 * is looked at once more, since colours are hashes. */
static enum status share_slots(const struct shapes *shapes, const uint32_t *cell, struct use *use,
                               struct flows *f)
{
    size_t phases = 0;
    for (size_t k = 0; k < shapes->n; k++) {
        const struct collective_shape *shape = &shapes->shaped[k].shape;
        for (size_t i = 0; i < shape->phases; i++, phases++) {
            for (size_t j = shape->phase[i].flow_start; j < shape->phase[i].flow_end; j++) {
                uint32_t *slot = &f->slot[f->slot_start[k] + j];
                struct use *u = &use[cell[*slot]];
                *slot = u->phase == phases + 1 ? PROGRAM_NONE : cell[*slot];
                if (*slot != PROGRAM_NONE)
                    *u = (struct use){phases + 1, 0, u->of, shape->flow[j].bytes};
                u->flows++;
                if (shape->flow[j].bytes < u->bytes || shape->flow[j].bytes > u->bytes)
                    return error_set(STATUS_UNSUPPORTED, "not symmetric: two colours meet");
            }
            for (size_t j = shape->phase[i].flow_start; j < shape->phase[i].flow_end; j++) {
                uint32_t slot = f->slot[f->slot_start[k] + j];
                if (slot != PROGRAM_NONE && use[slot].flows != use[slot].of)
                    return error_set(STATUS_UNSUPPORTED, "not symmetric: two colours meet");
            }
        }
    }
    return STATUS_OK;
}

/* Slots become cells, whose numbers follow the slots' order: a cell for each channel, then those of
 * each group. */
static enum status number_slots(const struct program *p, const struct shapes *shapes,
                                const struct slots *all, const struct symmetry *s, struct flows *f)
{
    struct use *use;
    size_t cells = p->channels;
    PASS(ARRAY_NEW(use, s->cells + 1));
    for (size_t g = 0; g < p->groups; g++) {
        f->carrier_start[g] = cells;
        for (size_t k = 0; k < all->carriers[g]; k++) {
            uint32_t cell = s->cell[all->group_start[g] + k];
            cells = cell >= cells ? cell + 1 : cells;
            use[cell].of++;
        }
    }
    f->carrier_start[p->groups] = cells;
    enum status st = share_slots(shapes, s->cell, use, f);
    free(use);
    return st;
}

enum status flows_fold(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct slots *all, struct flows *f)
{
    enum status st;
    struct symmetry s = {0};
    TRY(symmetry_find(&f->network, all->colour, &s));
    TRY(check_channels(p, t, all, s.cell));
    TRY(check_groups(p, t, shapes, all, s.cell));
    TRY(number_slots(p, shapes, all, &s, f));
    free(f->start);
    free(f->link);
    free(f->weight);
    free(f->bound_Bps);
    free(f->capacity_Bps);
    f->network = s.quotient;
    f->slots = s.cells;
    f->start = s.start;
    f->link = s.link;
    f->weight = s.weight;
    f->bound_Bps = s.bound_Bps;
    f->capacity_Bps = s.capacity_Bps;
    s = (struct symmetry){.cell = s.cell, .class = s.class};
out:
    symmetry_free(&s);
    return st;
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
