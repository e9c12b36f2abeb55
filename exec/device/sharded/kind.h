/* kind.h - operators with numerics, on what a rank has of their tensors.
 *
 * The same function computes on whole tensors and on shards: which forms fit together is the
 * strategy's to know, that the shapes do is checked. A gradient has the form that is conjugate to
 * its tensor's: of a full one every rank has a summand, of a summand (reduce) all of it. So
 * backwards, being linear in the gradients of what was made, need nothing of other ranks either. */
#ifndef EXEC_DEVICE_SHARDED_KIND_H
#define EXEC_DEVICE_SHARDED_KIND_H

#include "core/data/operator_table.h"
#include "exec/device/sharded/arithmetic.h"

struct operand {
    struct view view;
    real *value, *gradient; /* [view.n] */
};

/* A node of one half of a batch, with what it works on. */
struct operator_call {
    const struct operators_node *node;
    const struct operators *all;
    const struct arithmetic_engine *on; /* who computes; all arrays are in its memory: */
    const struct arithmetic *does;      /* its own, */
    void *self;                         /* and what that is told */
    size_t ranks, half, halves;
    uint64_t key; /* of what is drawn: of the seed, the iteration and the node */
    struct operand read[OPERATORS_READS], made[OPERATORS_MAKES];
    real *saved; /* [kind->saved()] from forward to backward */
    real *work;  /* [kind->work()] shared by all */
};

/* What an input is: numbers drawn, a text's words and those that follow, classes, images of
 * them. */
enum source { SOURCE_NUMBERS, SOURCE_TOKENS, SOURCE_TARGETS, SOURCE_LABELS, SOURCE_IMAGES };

/* Start values: base +- up to spread; of an input that is no numbers, one of `of` words or
 * classes. */
struct start {
    double base, spread;
    enum source source;
    size_t of;
};
static inline struct start kind_numbers(double base, double spread)
{
    return (struct start){.base = base, .spread = spread};
}

struct operator_kind {
    bool hidden; /* no op of the model: takes one of the tensors that another has made */
    size_t reads, least, makes, arguments; /* least: reads that there must be */
    /* Do the shapes fit together? STATUS_INVALID, STATUS_UNSUPPORTED. NULL: all that is read has
     * the shape of what is made. */
    enum status (*check)(const struct operator_call *c);
    size_t (*saved)(const struct operator_call *c); /* NULL: none */
    size_t (*work)(const struct operator_call *c);  /* NULL: none */
    void (*forward)(struct operator_call *c);
    void (*backward)(struct operator_call *c); /* adds to the gradients of what was read */
    struct start (*start)(const struct operator_call *c,
                          size_t k); /* of its k-th operand; NULL: reads none */
};

/* NULL: the operator has no numerics in strategies. */
const struct operator_kind *kind_of(enum operator_type type);

#define YES(name) extern const struct operator_kind sharded_##name;
#define NO(name)
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) shards(name)
#include "core/data/operator_table.def"
#undef OPERATOR
#undef NO
#undef YES

/* "'h0.linear' (linear): shapes do not fit together". */
enum status kind_misfit(const struct operator_call *c);
/* So many products of one shape, operands and results so many numbers apart: to = alpha a b, or,
 * `adds`, to += alpha a b. For sizes of 0, too. */
struct kind_product {
    struct gemm_operand a, b;
    real alpha; /* 0: 1 */
    bool adds;
    real *to;
    size_t to_stride;
    struct product_steps steps; /* all 0: one product */
};
void kind_product(const struct operator_call *c, const struct kind_product *p);
/* to [n] = from, and to [n] += from */
void kind_copy(const struct operator_call *c, size_t n, const real *from, real *to);
void kind_increase(const struct operator_call *c, size_t n, const real *from, real *to);
/* A forward and a backward that change nothing but shapes. */
void kind_same(struct operator_call *c);
void kind_same_back(struct operator_call *c);
void kind_zero(const struct operator_call *c, size_t n, real *to);
/* y (rows, n) += factor b [n], and b [n] += factor the sums of y over rows. */
void kind_bias(const struct operator_call *c, size_t rows, size_t n, real factor, const real *b,
               real *y);
void kind_bias_back(const struct operator_call *c, size_t rows, size_t n, real factor,
                    const real *dy, real *db);

#endif
