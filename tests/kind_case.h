/* kind_case.h - a layer kind of a seeded random shape, as the model's graph makes it: forward
 * against the formula written down naively, backward against central differences. `real` is
 * double. */
#ifndef TESTS_KIND_CASE_H
#define TESTS_KIND_CASE_H

#include "model/layers.h"
#include "tests/layer_call.h"

/* Draws of a case. */
struct draw {
    uint64_t key, n;
};
int64_t from_to(struct draw *d, int64_t low, int64_t high);

/* Number i of an output row. */
typedef double (*naive)(const struct call *c, size_t row, size_t i);

/* Ends the graph, whose last op is the case, and compares. A central difference of a choice that
 * flips is none: routers whose scores are near each other are let go. */
void check(struct graph *g, uint64_t k, naive y);
struct graph begin(void);
/* Something of rows of `channels` to read. */
uint32_t source(struct graph *g, int64_t tokens, int64_t channels);
/* silu, or gelu in its tanh form. */
double act(bool tanh_form, double x);

#endif
