/* expected.h - how far predictions of published runs like a plan were off (docs/fidelity.md). */
#ifndef STUDY_EXPECTED_H
#define STUDY_EXPECTED_H

#include <stddef.h>
#include <stdio.h>

#include "core/model.h"
#include "core/plan.h"
#include "core/topology.h"

/* A line of expected.def: runs that share all of this, NULL: whatever it is. */
struct expected {
    const char *device, *dtype, *framework, *parallelism;
    size_t runs;
    double mean; /* of |predicted / measured - 1| of their iterations */
};

/* "zero3+tp+pp", of what a plan has; "dp", or "one" on one device. Returns `text`. */
enum { EXPECTED_KIND = 64 };
const char *expected_kind(const struct plan *p, char text[EXPECTED_KIND]);

/* The runs that are most like it: of the same device, numbers, framework and parallelism, else of
 * fewer of these (expected.def has the narrowest first); NULL of plans of foreline's own executor. */
const struct expected *expected_find(const struct plan *p, const struct model *m,
                                     const struct topology *t);

/* "published   155 runs like this (H100-SXM5-80GB, bf16, fsdp, zero3): predictions 4.7 % off on average";
 * nothing without such runs. */
void expected_print(const struct plan *p, const struct model *m, const struct topology *t,
                    FILE *out);

#endif
