/* learning_rate.h - how the learning rate changes from step to step.
 *
 *     "step:epoch=1000,every=30,factor=0.1"      factor^(epoch div every)
 *     "polynomial:epoch=1000,epochs=90,power=2"  (1 - epoch / epochs)^power, 0 from `epochs` on
 *     "exponential:epoch=1000,factor=0.97"       factor^(epoch / epochs), epochs 1 if not given
 *     "constant:warmup=5,epoch=1000"             1
 *
 * times the learning rate; in all of them `epoch` is how many steps an epoch has (1 if not given),
 * and in the first `warmup` epochs the factor is (step + 1) / steps of the warm-up instead. As
 * PipeDream's runtime has them for one step per minibatch. */
#ifndef EXEC_LEARNING_RATE_H
#define EXEC_LEARNING_RATE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum learning_rate_kind {
    RATE_CONSTANT,
    RATE_STEP,
    RATE_POLYNOMIAL,
    RATE_EXPONENTIAL,
    LEARNING_RATES
};

struct learning_rate { /* {0}: constant */
    enum learning_rate_kind kind;
    double epoch, warmup, every, factor, power, epochs;
};

/* STATUS_INVALID says what is wrong. */
enum status learning_rate_parse(const char *text, struct learning_rate *out) MUST_CHECK;
enum status learning_rate_check(const char *text) MUST_CHECK; /* the same alone */
/* Of step 0, 1, ...: what the learning rate is multiplied by. */
double learning_rate_factor(const struct learning_rate *r, uint32_t step);
/* Name by number, NULL behind the last. */
const char *learning_rate_name(size_t i);

#endif
