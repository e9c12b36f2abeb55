/* expected.h - how far predictions of published runs like a plan were off
 * (docs/results/fidelity.md). */
#ifndef STUDY_EXPECTED_H
#define STUDY_EXPECTED_H

#include <stddef.h>
#include <stdio.h>

#include "core/base/json.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "study/evaluate.h"

/* A line of expected.def: runs that share all of this, NULL: whatever it is. */
struct expected {
    const char *device, *dtype, *framework, *parallelism;
    size_t runs;
    double mean; /* of |predicted / measured - 1| of their iterations */
};

/* "zero3+tp+pp", of what a plan has; "dp", or "one" on one device. Returns `text`. */
enum { EXPECTED_KIND = 64 };
const char *expected_kind(const struct plan *p, char text[EXPECTED_KIND]);

/* The runs that are most like it: of the same framework and width of numbers, and of the same
 * device and parallelism, of the device, of the parallelism on any GPU of the catalogue, or of any
 * there, at last of any width. To a plan that names no framework, and is foreline's own executor's,
 * runs of all frameworks are compared. NULL: none; of devices that are no such GPU none are. */
const struct expected *expected_find(const struct plan *p, const struct model *m,
                                     const struct topology *t);

/* "published   155 runs of fsdp in bf16 on H100-SXM5-80GB, zero3: predictions 4.7 % off on
 * average"; of the roofline, how far that was off, and what the analytic engine says of the same
 * plan with the usual framework, where kernels are known; nothing on other devices than GPUs.
 * STATUS_NOMEM. */
enum status expected_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out) MUST_CHECK;
/* The same as member "published" of a JSON object: {framework, device, dtype, parallelism, runs,
 * mean_error}, of which null is whatever they are; null: nobody knows. */
void expected_put(const struct plan *p, const struct model *m, const struct topology *t,
                  struct json_writer *w);

#endif
