/* Fronts of non-dominated pairs, and the way back from the best of the whole graph. */
#include "papers/pippy/fronts.h"

#include <math.h>
#include <stdlib.h>

enum status fronts_open(const struct lattice *l, size_t stages, double most, struct fronts *f)
{
    *f = (struct fronts){.lattice = l, .stages = stages};
    PASS(ARRAY_NEW(f->front, l->ideals * (stages + 1)));
    return fronts_add(fronts_of(f, 0, 0), (struct front_state){.most = most});
}

void fronts_close(struct fronts *f)
{
    size_t fronts = f->front ? f->lattice->ideals * (f->stages + 1) : 0;
    for (size_t i = 0; i < fronts; i++)
        free(f->front[i].state);
    free(f->front);
    *f = (struct fronts){0};
}

enum status fronts_add(struct front *f, struct front_state fresh)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->state[i].sum <= fresh.sum && f->state[i].most <= fresh.most)
            return STATUS_OK;
    for (size_t i = 0; i < f->n; i++)
        if (f->state[i].sum < fresh.sum || f->state[i].most < fresh.most)
            f->state[kept++] = f->state[i];
    f->n = kept;
    PASS(ARRAY_RESERVE(f->state, f->n + 1, f->room));
    f->state[f->n++] = fresh;
    return STATUS_OK;
}

/* The nodes of a stage are what it added to the ideal below. */
bool fronts_best(const struct fronts *f, double factor, uint32_t *stage_of)
{
    size_t stage = 0;
    uint32_t top = (uint32_t)f->lattice->ideals - 1, index = 0;
    double least = INFINITY;
    for (size_t j = 0; j <= f->stages; j++) {
        const struct front *all = fronts_of(f, top, j);
        for (uint32_t i = 0; i < all->n; i++) {
            double value = all->state[i].sum + factor * all->state[i].most;
            if (value < least) {
                least = value;
                index = i;
                stage = j;
            }
        }
    }
    for (; stage > 0; stage--) {
        const struct front_state *s = &fronts_of(f, top, stage)->state[index];
        for (size_t v = 0; v < f->lattice->nodes; v++)
            if (lattice_has(f->lattice, top, v) && !lattice_has(f->lattice, s->below, v))
                stage_of[v] = (uint32_t)stage - 1;
        top = s->below;
        index = s->from;
    }
    return least < INFINITY;
}
