/* operators_time.h - seconds of captured operators: measured ones from a table, others by shape. */
#ifndef CORE_COST_OPERATORS_TIME_H
#define CORE_COST_OPERATORS_TIME_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/data/capture.h"

struct device_type;

/* What was measured of a call. */
struct operator_time {
    char *key; /* of struct capture_operator; owned */
    double seconds;
};

struct operator_times {
    size_t n;
    struct operator_time *row; /* [n] by key */
};

/* JSON, format "foreline-operators", as `foreline capture --profile` writes it. STATUS_IO,
 * STATUS_PARSE (a key twice, too), STATUS_NOMEM. */
enum status operator_times_read(const char *path, struct operator_times *out) MUST_CHECK;
void operator_times_free(struct operator_times *t); /* accepts {0}; leaves {0} */
/* The row of a key, NULL: it was not measured. O(log n). */
const struct operator_time *operator_times_find(const struct operator_times *t, const char *key);

/* Is its kernel one whose time follows from its shape: a product or attention? Others are one pass
 * over their bytes. */
bool operator_is_shaped(const struct capture_operator *o);
/* Seconds on a device: by core/cost/kernel.h where its kernels are known, else what its FLOP or its
 * bytes take at the stated speeds, and the fixed cost of an op. What moves and computes nothing
 * takes none. */
double operator_seconds(const struct capture_operator *o, const struct device_type *type);

#endif
