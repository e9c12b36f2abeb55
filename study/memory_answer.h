/* memory_answer.h - whether a plan fits into memory, how sure that is, and which single change
 * would need less. */
#ifndef STUDY_MEMORY_ANSWER_H
#define STUDY_MEMORY_ANSWER_H

#include <stdio.h>

#include "core/base/json.h"
#include "study/evaluate.h"

/* How far off predicted peaks of published runs like a plan were (study/expected_memory.def). */
struct memory_error {
    double median; /* half of |predicted / measured - 1| are at most this */
    size_t runs;   /* 0: nobody knows */
};
/* {0} for plans of foreline's own executor, of which no run was published. */
struct memory_error memory_error_of(const struct plan *p);
/* Member "expected_memory_error": {median, runs} of an open object; null: nobody knows. */
void memory_error_put(const struct plan *p, struct json_writer *w);

/* "fits", "probably fits" where less is spare than predicted memory is off by in the median, or
 * "does not fit". */
const char *memory_verdict(int64_t peak_bytes, int64_t memory_bytes, const struct memory_error *e);

/* One option changed, and what the plan would need then. */
struct memory_saving {
    char option[64];    /* "--recompute full"; empty: no change needs less */
    double spare;       /* of the fullest device's memory; negative: it lacks so much */
    int64_t peak_bytes; /* of that device */
};
/* Tries one change after the other, those first that cost least time. Out: the first that leaves
 * as much as `enough` of every device's memory free, else the one that leaves most, if that is more
 * than the plan leaves now. What context->launches refuses is left out. No simulation: O(ops) for
 * each of some ten changes. STATUS_NOMEM. */
enum status memory_saving_find(const struct plan *p, const struct evaluation_context *context,
                               double enough, struct memory_saving *out) MUST_CHECK;

/* What the fullest device of a plan needs. */
struct memory_need {
    const char *device;
    int64_t peak_bytes, memory_bytes, reserve_bytes;
    const char *lack; /* who lacks memory, in words; NULL: nobody, or only the fullest device */
};
/* "memory      fits: n0g0, the fullest device, needs 71.25 GiB of 80 GiB (10.9 % spare; ...)", in
 * lines of at most 100 columns, by memory_verdict(). Unless it fits, with a change that would help.
 *
 *   context  of the plan; NULL: the need was measured, or nothing is known of how far it is off
 *
 * STATUS_NOMEM. */
enum status memory_answer_print(const struct plan *p, const struct evaluation_context *context,
                                const struct memory_need *need, FILE *out) MUST_CHECK;
/* "warning: the plan does not fit into memory: ..."; nothing where it does. STATUS_NOMEM. */
enum status memory_warn(const struct plan *p, const struct evaluation_context *context,
                        FILE *to) MUST_CHECK;

#endif
