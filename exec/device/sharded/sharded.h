/* sharded.h - a rank of a plan whose steps say what every device does, executed: its shards of all
 * tensors, what its nodes make of them, and what collectives carry between their forms.
 *
 * Every tensor has an operand in its form and, where it is converted, one in its other form, of
 * each half of the batch; parameters are shared by both. Between the collectives of the program the
 * rank needs nobody: what has no collective (slices, copies of what is there) is converted when the
 * step's nodes are computed. In terms of `real`, so that tests check gradients in double.
 *
 * The loss is the mean over samples of what the output reads, its gradient 1 / samples. */
#ifndef EXEC_DEVICE_SHARDED_SHARDED_H
#define EXEC_DEVICE_SHARDED_SHARDED_H

#include "core/data/form.h"
#include "core/data/program.h"
#include "exec/corpus.h"
#include "exec/device/sharded/kind.h"
#include "exec/learning_rate.h"

enum { HALVES = 2 };

/* A tensor of one half. */
struct tensor_half {
    struct operand own, to; /* to: in the form that it is converted to */
    real *wire;             /* [wire_n] what a collective carries */
    size_t wire_n;
};

struct sharded {
    const struct program *program;
    const struct operators *all;
    const struct arithmetic_engine
        *on; /* who computes, in whose memory all numbers are but the inputs' words */
    struct ring_part (*part)(size_t n, size_t members, size_t me); /* of what is scattered */
    size_t ranks, me, halves;
    double learning_rate;
    struct learning_rate policy;        /* how it changes from step to step */
    const struct operator_kind **kind;  /* [nodes] NULL: of inputs, parameters and the output */
    struct tensor_half *slot[HALVES];   /* [tensors] */
    struct operator_call *call[HALVES]; /* [nodes] */
    bool *shared;                       /* [tensors] parameters and masks, which halves share */
    size_t parameters;                  /* of this rank */
    real *parameter, *gradient, *moment, *square; /* [parameters]; moment: NULL without Adam */
    real *numbers, *work;                         /* all others, gradients first */
    size_t numbers_n, gradients_n, work_n;
    real *drawn; /* [drawn_n] on the host, where what is drawn begins; NULL: in its place */
    size_t drawn_n;
    uint64_t updates;
    bool begun;             /* the iteration: its inputs are there, gradients of tensors are zero */
    size_t forward[HALVES]; /* nodes computed so far, */
    size_t backward[HALVES];  /* and still to be gone back through */
    uint32_t step_in[HALVES]; /* steps whose tensors have been converted as far as this rank can */
    uint32_t step_out[HALVES];
    double loss;
    /* [nodes][forward, backward] that what a node computes has taken is added to; NULL */
    double *seconds;
    double begin_s; /* likewise what iterations begin with, where there are seconds */
    const struct corpus *corpus;
    struct batch_shape words; /* of a batch; 0 samples: it has none */
    int32_t *token, *target;  /* of the iteration */
    size_t classes;           /* of images; 0: there are none */
};

struct device_options;
/* Of the options those of learning, of the corpus and of what is scattered count. STATUS_INVALID,
 * STATUS_UNSUPPORTED (a kind, heads, too few words for a text), STATUS_NOMEM also where it would
 * be more than the machine or the card has. Engine, program and corpus stay alive. O(nodes +
 * numbers). */
enum status sharded_open(const struct arithmetic_engine *on, const struct program *p, uint32_t rank,
                         const struct device_options *o, struct sharded **out) MUST_CHECK;
void sharded_close(struct sharded *s); /* accepts NULL */
/* Everything that a step computes, once, with numbers that are forgotten: before the first step. */
void sharded_rehearse(struct sharded *s);

/* All nodes up to step `step` of a half; and back through those from it on. */
void sharded_forward(struct sharded *s, uint32_t step, size_t half);
void sharded_backward(struct sharded *s, uint32_t step, size_t half);
/* The optimizer's step at `factor` times the learning rate; the iteration is over. */
void sharded_update(struct sharded *s, double factor);

/* ---- convert.c */

/* What a tensor's conversion is, in its forward or its backward; STEP_NONE, STEP_SLICE and
 * STEP_REPLICATE need nobody else, as nothing does on one rank. */
enum form_step sharded_step(const struct sharded *s, uint32_t tensor, bool backward);
size_t sharded_wire(const struct sharded *s, uint32_t tensor); /* numbers at most */
/* The array that the collective carries, filled; and what it has brought put in its place. */
void sharded_pack(struct sharded *s, uint32_t tensor, size_t half, bool backward, real **data,
                  size_t *n);
void sharded_unpack(struct sharded *s, uint32_t tensor, size_t half, bool backward);
/* What needs nobody. */
void sharded_convert(struct sharded *s, uint32_t tensor, size_t half, bool backward);

/* ---- start.c, data.c */

/* Keys below the seed. */
enum { STREAM_PARAMETERS = 1, STREAM_INPUTS, STREAM_LABELS, STREAM_IMAGES };

/* Numbers of a view of a tensor, drawn by their place in all of it, so that forms and ranks do not
 * matter: base +- spread. */
void sharded_draw(uint64_t key, const struct view *v, const struct start *from, real *to);
/* Where the host draws an operand's numbers; and then they are in their place. */
real *sharded_draws(struct sharded *s, const struct operand *o);
void sharded_drew(struct sharded *s, const struct operand *o);
/* How the first node that reads a tensor wants it to begin. */
struct start sharded_start_of(const struct sharded *s, uint32_t tensor);
void sharded_start(struct sharded *s); /* parameters */
/* What inputs there are; STATUS_UNSUPPORTED, STATUS_INVALID: a text is too short; STATUS_NOMEM. */
enum status sharded_find_inputs(struct sharded *s) MUST_CHECK;
void sharded_inputs(struct sharded *s); /* of the iteration */

#endif
