/* expected.h - how far predictions of published runs like a plan were off
 * (docs/results/fidelity.md). */
#ifndef STUDY_EXPECTED_H
#define STUDY_EXPECTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/json.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "study/evaluate.h"

/* What runs are alike in, from what tells most of how far a prediction is off to what tells least:
 * names of the framework, the width of numbers, what a plan has of parallelism, the GPU. */
enum { EXPECTED_FRAMEWORK, EXPECTED_WIDTH, EXPECTED_PARALLELISM, EXPECTED_DEVICE, EXPECTED_LIKE };

/* A line of expected.def: what is expected of a plan, |predicted / measured - 1| of its iteration,
 * by runs of sets that were not fitted to (lab/scoreboard/published_expected.h). */
struct expected {
    const char *like[EXPECTED_LIKE]; /* NULL: whatever it is */
    size_t runs;                     /* that are so */
    double median, nine_in_ten;      /* half of such errors are at most this, nine in ten that */
};

/* "zero3+tp+pp", of what a plan has; "dp", or "one" on one device. Returns `text`. */
enum { EXPECTED_KIND = 64 };
const char *expected_kind(const struct plan *p, char text[EXPECTED_KIND]);

extern const char expected_roofline[]; /* "framework" of runs as the roofline predicts them */

/* "16 bits", "fp8": both kinds of 16 bits are as fast. */
const char *expected_width(enum data_type dtype);

/* What a table [n] of lines, the narrowest first, says of `like`: the first line that agrees, and
 * at least 10 and 25 % where no line has its framework or its GPU. false: no line agrees. */
bool expected_among(const struct expected *table, size_t n, const char *const like[EXPECTED_LIKE],
                    struct expected *out);

/* The same of a plan, by expected.def. A plan that names no framework, and is foreline's own
 * executor's, is compared with predictions by the roofline of runs of all frameworks. false: on
 * devices that are no GPU of the catalogue, or where kernels are not known, nothing is. */
bool expected_find(const struct plan *p, const struct model *m, const struct topology *t,
                   struct expected *out);
/* "megatron in fp8 on H100-SXM5-80GB, tp+pp": the runs of a line. Returns `text`. */
enum { EXPECTED_TEXT = 160 };
const char *expected_text(const struct expected *e, char text[EXPECTED_TEXT]);

/* "accuracy    half of similar runs within 9 %, nine in ten within 25 % ..."; of the roofline also
 * what the analytic engine says of the same plan with the usual framework, where kernels are known;
 * nothing on other devices than GPUs. STATUS_NOMEM. */
enum status expected_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out) MUST_CHECK;
/* The same as member "expected_error" of a JSON object: {median, nine_in_ten, runs, of}; null:
 * nobody knows. */
void expected_put(const struct plan *p, const struct model *m, const struct topology *t,
                  struct json_writer *w);

#endif
