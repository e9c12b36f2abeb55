/* optimizer.h - what an update does with a gradient, as a plan's text says it.
 *
 *     "adam", "adam:decay=0.01"                          Adam; with decay AdamW
 *     "sgd", "sgd:momentum=0.9,nesterov=1,decay=1e-4"    gradient descent
 *
 * moment-bits=16: Adam's moments are kept as bf16 (predictions alone). clip=X scales gradients down
 * to the norm X of all of them together; loss-scale=X multiplies the loss by X before the backward
 * and divides gradients by it after. exec/device/backend.h has the equations. */
#ifndef CORE_STRATEGY_OPTIMIZER_H
#define CORE_STRATEGY_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct optimizer {
    bool adam; /* else gradient descent */
    double momentum, nesterov, decay;
    double clip;        /* 0: none */
    double loss_scale;  /* > 0; 1: none */
    double moment_bits; /* of each of Adam's moments as it is kept: 32 or 16 */
};

enum { OPTIMIZERS = 2 };

/* STATUS_INVALID says what is wrong. */
enum status optimizer_of(const char *text, struct optimizer *out) MUST_CHECK;
enum status optimizer_check(const char *text) MUST_CHECK; /* the same alone */
/* Of a text that optimizer_of() has taken: its name without numbers, and how many numbers it keeps
 * for each parameter. Searches ask for every op: no parsing where nothing follows the name. */
const char *optimizer_name_of(const char *text);
int optimizer_moments(const char *text);
int64_t optimizer_moment_bytes(const char *text); /* of each of them */
/* Numbers besides the name? */
bool optimizer_is_tuned(const char *text);
/* Name by number, NULL behind the last. */
const char *optimizer_name(size_t i);

#endif
