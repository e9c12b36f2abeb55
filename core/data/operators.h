/* operators.h - a model as fine operators on shards: what a plan whose steps say what every device
 * does (plan.steps) gives to those who execute it.
 *
 * Nodes stand in the order in which they are computed; each reads tensors of earlier ones and makes
 * tensors, which are numbered in that order. Inputs and parameters are nodes that read nothing, the
 * output is one that makes nothing. A tensor has one form (core/data/form.h), and from the
 * beginning of step `step` on perhaps another one. Sizes are of whole tensors, of one microbatch.
 * Source: Zhang et al., HiDup, SoCC 2022. */
#ifndef CORE_DATA_OPERATORS_H
#define CORE_DATA_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct json_at;
struct json_writer;

enum { OPERATORS_READS = 10, OPERATORS_MAKES = 4, OPERATORS_RANK = 6, OPERATORS_ARGUMENTS = 2 };

struct operators_tensor {
    size_t rank;
    int64_t size[OPERATORS_RANK];
    uint8_t form, to; /* to: FORM_NONE where nobody reads it in another form */
    uint32_t step;    /* that converts it */
};

struct operators_node {
    char *name, *kind; /* "h0.linear", "linear"; owned */
    uint32_t step;     /* that computes it */
    size_t reads, arguments;
    uint32_t read[OPERATORS_READS]; /* tensors */
    uint8_t form[OPERATORS_READS];  /* in which they are read */
    int64_t argument[OPERATORS_ARGUMENTS];
    uint32_t made, makes; /* tensors made .. made + makes - 1 */
};

/* Empty, {0}: not known. */
struct operators {
    size_t nodes, tensors;
    struct operators_node *node;
    struct operators_tensor *tensor;
};

/* Is a tensor of the node read in the form that it was converted to? */
static inline bool operators_converted(const struct operators *o, const struct operators_node *n,
                                       size_t k)
{
    return n->form[k] != o->tensor[n->read[k]].form;
}

/* The field "operators" of a plan's or program's object, absent: *out stays empty. STATUS_PARSE
 * also for what operators_check() refuses. */
enum status operators_get(const struct json_at *root, struct operators *out) MUST_CHECK;
void operators_put(struct json_writer *w, const struct operators *o); /* nothing where empty */
/* Are numbers in range, forms and conversions possible, nodes and steps in order? Devices look at
 * shapes. STATUS_INVALID. O(nodes). */
enum status operators_check(const struct operators *o) MUST_CHECK;
enum status operators_copy(const struct operators *o, struct operators *out) MUST_CHECK;
void operators_free(struct operators *o); /* accepts {0}; leaves {0} */

#endif
