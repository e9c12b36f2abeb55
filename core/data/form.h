/* form.h - in which form the devices hold a tensor, and what turns one form into another.
 *
 *   full       every device has all of it
 *   gather d   every device has its slice along dimension d
 *   reduce     every device has a summand; the tensor is their sum
 *   replicate  a parameter that every device has, whose gradients are still to be summed
 *
 * Source: Zhang et al., "Accelerating Large-Scale Distributed Neural Network Training with SPMD
 * Parallelism" (HiDup), SoCC 2022. */
#ifndef CORE_DATA_FORM_H
#define CORE_DATA_FORM_H

#include <stdbool.h>
#include <stdint.h>

/* A form is a uint8_t: one of the first three, or FORM_GATHER + d. */
enum {
    FORM_FULL,
    FORM_REDUCE,
    FORM_REPLICATE,
    FORM_GATHER,
    FORM_RANK = 6, /* dimensions of a tensor, at most */
    FORMS = FORM_GATHER + FORM_RANK,
    FORM_NONE = 15
};

enum form_step {
#define STEP(id, name, conjugate) STEP_##id,
#include "core/data/form_steps.def"
#undef STEP
    STEPS
};
extern const char *const form_step_names[STEPS];

/* One step after the other; STEP_NONE where there are fewer than two. */
struct form_conversion {
    enum form_step step[2];
};

static inline bool form_is_gather(uint8_t form)
{
    return form >= FORM_GATHER && form < FORMS;
}

/* What turns `from` into `to`; false: nothing does. A form is itself by nothing. */
bool form_convert(uint8_t from, uint8_t to, struct form_conversion *out);
/* What the backward does in the place of a step. */
enum form_step form_conjugate(enum form_step step);

/* 'F', 'R', 'P', or the digit of a gathered dimension, as signatures are written; FORM_NONE:
 * none. */
char form_letter(uint8_t form);
uint8_t form_of_letter(char letter);
/* "full", "gather 1", ...; borrowed, of a table. */
const char *form_name(uint8_t form);
/* FORM_NONE: there is no such form. */
uint8_t form_of_name(const char *name);

#endif
