/* remedy.h - what would shorten an iteration: each thing that may hold it up, made twice as fast,
 * and simulated. */
#ifndef STUDY_REMEDY_H
#define STUDY_REMEDY_H

#include <stdio.h>

#include "core/data/program.h"
#include "study/evaluate.h"

/* Compute, of one stage or of all, or what is communicated for a purpose: halved bytes are twice
 * the bandwidth without latency. */
enum remedy_kind {
    REMEDY_STAGE,
    REMEDY_COMPUTE,
    REMEDY_MESSAGES,
    REMEDIES = REMEDY_MESSAGES + OP_PURPOSES
};
struct remedy {
    enum remedy_kind kind;
    uint32_t stage; /* of REMEDY_STAGE */
};

/* The stage whose backward of a microbatch takes longest. O(ops). */
uint32_t remedy_slowest_stage(const struct program *p);
/* Is there anything to be made faster? One stage is all stages. O(ops). */
bool remedy_applies(const struct program *p, enum remedy_kind kind, size_t stages);
/* Make it twice as fast. As evaluation_context.change, `how` is a struct remedy. O(ops). */
void remedy_apply(const void *how, struct program *p);

/* "compute", "compute of stage 3", "gradient reduction"; may return `text`. */
enum { REMEDY_WORDS = 64 };
const char *remedy_words(const struct remedy *r, char text[REMEDY_WORDS]);

/* "remedies    the iteration with one part twice as fast: compute -48.2 %, ...": the three that
 * gain most, of those that gain half a percent, by the analytic engine; nothing where none does, or
 * where that engine cannot simulate the plan. It simulates the plan once, and once for compute, for
 * the slowest stage and for each purpose that compute waits for. STATUS_NOMEM. */
enum status remedies_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out) MUST_CHECK;
/* The same of a program, which is changed meanwhile, and then as before. */
enum status remedies_print_program(struct program *p, const struct evaluation_context *context,
                                   FILE *out) MUST_CHECK;

#endif
