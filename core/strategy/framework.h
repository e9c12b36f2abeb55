/* framework.h - who issues the kernels of a model, and what that costs: a line of frameworks.def
 * each.
 *
 * A framework is named with what differs from its row, "megatron:host=0.1,flash=2". The one of
 * foreline run, "foreline", is what plans have that say nothing: ops cost what core/cost/cost.h
 * says without kernels. */
#ifndef CORE_STRATEGY_FRAMEWORK_H
#define CORE_STRATEGY_FRAMEWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/base/error.h"
#include "core/strategy/constants.h"

struct framework {
    const char *name; /* of the row, static */
    const char *summary;
    const char *launcher; /* that `plan export --to` writes for; NULL: none */
    bool splits_products; /* sums of shards behind parts of products (tensor_overlap) */
    bool by_kernel;       /* ops are lists of kernels (core/cost/op_kernels.h); false: foreline */
#define FRAMEWORK_FIELD(field, most, help) double field;
#include "core/strategy/framework_fields.def"
#undef FRAMEWORK_FIELD
};

/* Rows of the table, for their names: what is negative there is a constant (constants.h), whose
 * value framework_parse() fills in. */
extern const struct framework *const frameworks[];
extern const size_t frameworks_n;
extern const char framework_usual[];  /* of plans for GPUs of which nothing is said */
const char *framework_name(size_t i); /* NULL behind the last one */

/* A name with overrides. STATUS_INVALID with the known names, of frameworks or of what they do. */
enum status framework_parse(const char *text, struct framework *out) MUST_CHECK;
/* The same with other constants than the shipped ones. */
enum status framework_parse_with(const struct constants *c, const char *text,
                                 struct framework *out) MUST_CHECK;
/* The same of a name that was checked; NULL, and what no framework is called: foreline. */
struct framework framework_of(const char *text);
/* Bytes of a number in sums of gradients: of the type, or, DATA_ANY, as the framework (NULL:
 * foreline) has them for a model of numbers of so many bytes. */
int64_t framework_reduce_bytes(enum data_type dtype, const struct framework *f,
                               int64_t element_bytes);
/* What can be overridden, with what it means: one line each, "host  times that: ...". */
size_t framework_fields(void);
const char *framework_field(size_t i, const char **help);

#endif
