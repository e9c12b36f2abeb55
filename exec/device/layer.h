/* layer.h - what an op of each kind computes: shapes from a model's attributes, forward, backward.
 *
 * Shapes in comments: B samples of a microbatch, T tokens (rows) per sample, C channels (columns),
 * row-major. Sizes are counted in `real`s. A kind is one file with one `struct layer_kind` for
 * each of CPUs and GPUs, and one row of core/data/operator_table.def.
 *
 * Attributes by kind (n: a count >= 1; flags are 0 or 1):
 *
 *   embedding   tokens n, channels n, vocabulary >= 256, positions 0 or >= tokens, types >= 0,
 *               concat, scaled
 *   layernorm   tokens n, channels n
 *   rmsnorm     tokens n, channels n, of 1 .. channels (absent: channels), queries 1 .. of (absent:
 *               of), head n (absent: the whole part), offset
 *   linear      tokens n, in n, out n, bias, passes >= 0
 *   rope        tokens n, heads n, kv_heads n, head n (even), base n (absent: 10000); or besides
 *               turned n (even), value n: of latents, in two inputs
 *   attention   tokens n, channels n, heads n (divides channels), causal, kv_heads n (divides
 *               heads; absent: heads), head n (of keys; absent: as values), window >= 0, flash,
 *               sinks
 *   gelu        tokens n, channels n
 *   gated       tokens n, channels n, tanh
 *   gate        tokens n, channels n, experts n, top_k 1 .. experts, over_all, sigmoid, bias,
 *               correction, groups n (divides experts; absent: 1), group_top n, scale n (1000)
 *   token_gate  tokens n, channels n
 *   experts     tokens n, channels n, inner n, experts n, top_k n, slots n, gated, bias, clamped
 *   residual    tokens n, channels n
 *   relu        tokens n, channels n
 *   concat      tokens n, first n, second n
 *   convolution in n, out n, groups 1, bias, height n, width n, kernel n, stride n,
 *               padding 0 .. kernel - 1
 *   pool        channels n, height n, width n, kernel n, stride n, padding 0 .. kernel / 2, average
 *   batchnorm   channels n, positions n
 *   lstm        tokens n, in n, out 1 .. 2^24, reverse
 *   pooler      tokens n, channels n
 *   affine      tokens n, channels n
 *   neighbours  tokens n, channels n
 *   positions   tokens n, channels n, positions >= tokens, types >= 0
 *   linear with own n (less than in): a part of the weight is borrowed; exec/device/cpu/joined.c
 *   attention with relative: distances 2 tokens, learned n; exec/device/cpu/relative.c
 *   depthwise   tokens n, channels n, kernel n (odd)
 *   multiply    tokens n, width n, channels 1 .. width
 *   dynamic_convolution tokens n, channels n, heads n (divides channels), kernel n (odd)
 *   sinusoids   rows n, channels n (even), first >= 0
 *   groupnorm   channels n, positions n, groups n (divides channels)
 *   silu        tokens n, channels n
 *   upsample    channels n, height n, width n
 *   add_row     tokens n, channels n
 *   loss        tokens n, vocabulary >= 256, masked
 *
 * Flags, positions, types and window are 0 when absent; everything else must be there. */
#ifndef EXEC_DEVICE_LAYER_H
#define EXEC_DEVICE_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/element.h"

/* float, unless a test compiles the layers for double to compare with finite differences. */
#ifndef EXEC_REAL
#define EXEC_REAL float
#endif
typedef EXEC_REAL real;

/* Start values: normal(0, 0.02), 0, 1, normal(0, 2 / fan). The last: He et al., ICCV 2015. */
enum layer_fill { FILL_NORMAL, FILL_ZERO, FILL_ONE, FILL_FAN };
enum { LAYER_PARTS = 6, LAYER_INPUTS = 2, LOSS_HITS = 2 };

/* A run of own parameters with the same kind of start value. Of the whole op's parameters these are
 * numbers from .. from + run - 1, then from + stride ..., n in all; layer_shape() makes it all. */
struct layer_part {
    size_t n;
    enum layer_fill fill;
    size_t from, run, stride;
    size_t fan; /* FILL_FAN: how many numbers a weight's output is the sum of */
};

/* Windows of kernel x kernel positions of an image, `stride` apart, that begin `padding` before
 * it. */
struct layer_window {
    size_t height, width, kernel, stride, padding;
    size_t down, across; /* how many windows there are */
};

/* Which part of an op one of several shards computes (core/data/model.h: enum model_tensor). */
struct layer_shard {
    size_t shards, shard;
    size_t groups;        /* outputs are so many groups, each of which is divided: q, k and v */
    size_t queries, keys; /* rows of the first of three groups, and of the others; 0: all alike */
    size_t parts, part;   /* of experts, which are spread over so many ranks */
};

/* Sequence parallelism: what shards do with tensors of which each has a part of the rows. */
enum layer_move {
    MOVE_SCATTER,      /* sum them, and leave each its part */
    MOVE_GATHER,       /* everybody's part to all: for what comes next, */
    MOVE_GATHER_AGAIN, /* of an input of the forward, for the gradient of weights */
    /* not by move() but by exchange() (struct device: moved): of replicas that share sequences, */
    MOVE_CONTEXT_GATHER,
    MOVE_CONTEXT_SCATTER,
    MOVE_CONTEXT_SWAP,
    MOVE_EXPERTS, /* of experts on other ranks */
    MOVES
};
/* What exchange() is told of those. */
static inline enum op_kind layer_move_kind(enum layer_move how)
{
    return how == MOVE_CONTEXT_GATHER    ? OP_ALLGATHER
           : how == MOVE_CONTEXT_SCATTER ? OP_REDUCESCATTER
                                         : OP_ALLTOALL;
}

/* Communication inside an op, which keeps its errors to itself (exec/device.h). */
struct layer_reduction {
    void *self;
    /* Tensor parallelism: reduce `n` numbers over the shards, in place, everywhere to the same
     * bits. */
    void (*sum)(void *self, enum element e, void *data, size_t n);
    /* FOR_EXPERTS, on other ranks, and FOR_CONTEXT, replicas that share sequences: data [n] of
     * fp32, in place, over the members of that group. ALLTOALL: two halves of as many equal parts
     * as there are members; part m of the first half goes to member m, where it becomes part (this
     * member) of the second half; the own part stays as it is. Of FOR_CONTEXT also ALLGATHER: every
     * one's part of n numbers (exec/ring.h) to all; REDUCESCATTER: the sum of everybody's numbers
     * to where each has its part. */
    void (*exchange)(void *self, enum op_purpose purpose, enum op_kind kind, void *data, size_t n);
    /* Sequence parallelism: data [n], of which each shard's part is as in the exchanges. */
    void (*move)(void *self, enum layer_move how, enum element e, void *data, size_t n);
    void (*fail)(void *self, enum status st); /* the op cannot be completed: error_message() */
};

/* Memory that grows with what other ranks send. */
struct layer_array {
    real *data; /* [n], malloc */
    size_t n;
};

/* Where tokens went, over all forwards: rows of each expert that came from here, [experts]; and of
 * every call of the group, were its experts spread over 2, 4, 8, ... ranks: rows of the busiest of
 * these over their mean, summed. */
enum { LAYER_SPREADS = 10 };
struct layer_routing {
    uint64_t *rows;
    uint64_t calls;
    double busiest[LAYER_SPREADS]; /* [k]: of 2 << k ranks; 0: that does not divide the experts */
};

/* Attention, plain and relative, rope, dynamic_convolution: how rows divide into heads. */
struct layer_heads {
    size_t n;      /* heads; of attention: those of queries */
    size_t kv;     /* heads of keys and values */
    size_t depth;  /* channels of a query and of a key in a head */
    size_t value;  /* channels of a value in a head */
    size_t turned; /* rope: last channels of a head of latent attention; 0: all */
};

/* Attention: which scores count, and which are kept. */
struct layer_attention {
    size_t window; /* tokens that a token looks back at, itself included; 0: all */
    bool causal;   /* a token sees none after it */
    bool flash;    /* the backward makes the scores again; else they are saved */
    bool sinks;    /* a learned score per head, of nothing */
};

/* A mixture of experts: of gate the first two, of experts all. */
struct layer_moe {
    size_t experts; /* experts of the whole layer */
    size_t top_k;   /* experts that a token is sent to */
    size_t inner;   /* channels between an expert's two products */
    size_t slots;   /* tokens that all experts take of a sample, together */
    bool gated;     /* two first products, one of which gates the other */
    bool clamped;   /* gated as gpt-oss has it */
};

/* Gate: how it chooses experts and weighs them (exec/device/cpu/gate.c). */
struct layer_gate {
    size_t groups;    /* groups that the experts are in */
    size_t group_top; /* groups from which a token may take experts: the best ones */
    double scale;     /* factor of all weights */
    bool over_all;    /* weights are parts of a softmax over all experts, not the chosen ones */
    bool sigmoid;     /* scores are sigmoids */
    bool correction;  /* a bias is for the choice alone */
};

/* Experts on several ranks; 1, 0: all of them, or all of the tokens, are here. */
struct layer_spread {
    size_t ranks, rank;   /* over how many ranks the experts are, which of them this is */
    size_t shards, shard; /* over how many shards the tokens of such experts are, which this is */
};

/* Context parallelism: replicas that share every sequence. */
struct layer_context {
    size_t replicas; /* how many; 0 is as good as 1 */
    size_t position; /* which of them this is */
    size_t sequence; /* tokens of all of it; the layer's are what this one has (layer_position()) */
    bool swaps;      /* they change tokens for heads: all-to-all */
};

/* One op of the model as a device computes it: its attributes, read and checked, of the part that
 * this rank has. (A layer of a transformer is several of these; model_begins_layer().) Members of
 * which no kind is said are of all kinds that have such an attribute. */
struct layer {
    const struct layer_kind *kind;
    size_t tokens;
    size_t in, out; /* channels of an input row and of an output row */
    struct layer_heads heads;
    struct layer_attention attention;
    struct layer_moe moe;
    struct layer_gate gate;
    struct layer_spread spread;
    struct layer_context context;
    size_t vocabulary;            /* embedding, loss: words */
    size_t positions, types;      /* embedding, positions: rows of these tables; 0: there is none */
    size_t passed;                /* linear: last channels of in and out, which are no product's */
    size_t normal, queries, head; /* rmsnorm: channels that it changes, the first part of them, and
                                   * channels with a root of their own; rope: base in `normal` */
    size_t groups;                /* groupnorm: of channels */
    size_t second;                /* numbers of the second input per sample; 0: `input` */
    size_t first[LAYER_PARTS];    /* shards: first row of each table, or first class of the loss */
    size_t shards, shard;         /* 1, 0: all of the op */
    bool reduces_output;          /* shards: the output is the sum of theirs, */
    bool reduces_input;           /* the gradient of the input is */
    bool bias, concat, masked;
    bool scaled;  /* embedding: rows times sqrt(channels) */
    bool offset;  /* rmsnorm: weights are 1 + parameter */
    bool tanh;    /* gated: gelu in its tanh form, else silu */
    bool reverse; /* lstm: from the last token to the first */
    bool average; /* pool: the mean of a window, else its largest */
    /* convolution, pool: of an image of `in` channels; depthwise, dynamic_convolution: `kernel`
     * tokens, the rest is 0 */
    struct layer_window window_of;
    /* numbers from one row of the output (the loss: of the input) to the next; 0: it has as many */
    size_t row;
    /* what x, y, dy and dx are, of 16 bits two in the place of a real, as the model's numbers are;
     * fp32: reals */
    enum element half;
    /* ... and who rounds to them what its kind computes in fp32 (exec/device/cpu/half.h); NULL: the
     * kind */
    const struct backend *rounds;
    bool tied;    /* its weight is another op's */
    bool borrows; /* all of its parameters are; its kind need not know: layer_borrow() */
    struct layer_part part[LAYER_PARTS];
    size_t parameters; /* own: all parts, unless it borrows them */
    size_t shared;     /* borrowed: the first so many of the owner's */
    size_t inputs;     /* in-edges */
    size_t input;      /* per sample, of each of them */
    size_t output;     /* per sample; 0 for the loss */
    size_t saved;      /* per sample, kept from forward to backward besides inputs and output */
    size_t work;       /* scratch of one call, whatever the batch */
    size_t running; /* means and variances over the microbatches so far: half of it each, 0: none */
};

/* Operands of one call; backward uses what forward was given and has left in y and saved. */
struct layer_io {
    size_t batch;                   /* B */
    const real *x[LAYER_INPUTS];    /* [inputs] (B, T, in) */
    real *y;                        /* (B, T, out) */
    real *saved;                    /* (B, saved) */
    real *work;                     /* [work] */
    const real *parameter, *shared; /* [parameters], [shared] */
    const real *half, *half_shared; /* the same in 16 bits if the layer is `half` */
    const int32_t *token, *target;  /* (B, T); target < 0: predicts nothing */
    const real *dy;                 /* (B, T, out) */
    real *dx[LAYER_INPUTS];         /* [inputs] (B, T, in): overwritten, or, of the first */
    bool adds;                      /* input, added to */
    real *d_parameter, *d_shared;   /* added to */
    real scale;                     /* loss: weight of one target in the gradient */
    real loss_scale;                /* and in the step's loss, where backends sum it: */
    double loss;                    /* others' forward sets the unweighted sum, */
    bool again;                     /* which counts already: the forward is made again */
    double hits[LOSS_HITS];         /* likewise: targets that have the largest logit of their
                                              * row, and that are among the five largest; NAN: a
                                              * shard does not know */
    const struct layer_reduction *reduction; /* NULL at most where no other rank has a part of the
                                              * layer: shards, experts, the sequence */
    real *running;  /* [running] from 0 and 1, moved by each forward that is not made again, */
    bool evaluates; /* or used as they are, in place of the microbatch's own; NULL: nobody asks */
    struct layer_array *rows, *parts; /* experts that are spread: kept from forward to
                                              * backward, and of one call; else NULL */
    int64_t *bytes;                   /* of all such arrays together, else NULL */
    struct layer_routing *routing;    /* of experts; NULL: nobody asks */
    void *on;                         /* the backend's state (backend.h) */
};

struct layer_kind {
    enum operator_type type;
    size_t inputs;
    /* Read the attributes of op (model.h) into *l and set its sizes; `kind` and `inputs` are set,
     * the rest is zero. STATUS_INVALID. */
    enum status (*shape)(const struct model_op *op, struct layer *l);
    void (*forward)(const struct layer *l, struct layer_io *io);
    void (*backward)(const struct layer *l, struct layer_io *io);
    /* The forward together with that of the op that reads its output next, both outputs included;
     * false: not with this one, and nothing has been done. NULL: never. A kind that has it does not
     * forget. */
    bool (*forward_with)(const struct layer *l, struct layer_io *io, const struct layer *next,
                         struct layer_io *of_next);
    /* The backward, of an op of one input, together with that of the op `before` it, whose output
     * it alone reads: of_before->dx is made instead of dx. False, NULL: as of forward_with(). */
    bool (*backward_with)(const struct layer *l, struct layer_io *io, const struct layer *before,
                          struct layer_io *of_before);
    /* Where the gradients of the parameters can be made apart: from x, y, saved (as backward()
     * leaves it) and dy, later; what backward() then leaves out. NULL: backward() makes them
     * too. */
    void (*backward_weight)(const struct layer *l, struct layer_io *io);
    /* Make *l, of the whole op, that of one shard; op->tensor is not TENSOR_WHOLE, `part` is
     * complete. STATUS_UNSUPPORTED when it cannot be divided so. NULL: never. */
    enum status (*divide)(const struct model_op *op, const struct layer_shard *s, size_t batch,
                          struct layer *l);
    /* May the forward leave the gradient of the input in the place of the input, which `before` has
     * made? layer_io.dx then is x in both passes, and the backward makes nothing. NULL: never. */
    bool (*overwrites)(const struct layer *l, const struct layer *before);
    /* How far the rows of its input are better apart, if `before` has made them and nobody else
     * sees them; 0: as it has them. NULL: always. */
    size_t (*row)(const struct layer *l, const struct layer *before);
    /* What the kind has to add to *l when `tokens` and all that grows with them have become fewer.
     * NULL: nothing. */
    void (*resize)(struct layer *l);
    /* Make *l, with `context` and fewer tokens already, that of replicas that share every
     * sequence, where tokens meet. NULL: they do not. STATUS_UNSUPPORTED. */
    enum status (*share)(const struct model_op *op, size_t batch, struct layer *l);
    /* GPUs: what is kept, and scratch, of *l as the CPU's kind of the same type has made it; may
     * set another kind. NULL: as on the CPU. */
    void (*sizes)(struct layer *l);
    bool exact;        /* its parameters are read in fp32 where activations have 16 bits */
    bool forgets;      /* the backward reads no input again */
    bool reads_output; /* the backward reads the output again, which stays then */
    bool passes; /* both inputs have the gradient of the output: dx may be dy, and then stays so */
    bool adds;   /* the backward knows layer_io.adds */
    bool mixes; /* a row of the output depends on more than that row of the inputs: no rank computes
                   * a part of the rows. Attention knows how it does */
};

/* Is op `op` of the model of its owner's kind, and without parameters of its own? Then it has all
 * of the owner's. */
bool layer_borrows(const struct model *m, uint32_t op);
/* What is borrowed takes the place of own parameters. */
static inline void layer_borrow(const struct layer *l, struct layer_io *io)
{
    if (!l->borrows)
        return;
    io->parameter = io->shared;
    io->half = io->half_shared;
    io->d_parameter = io->d_shared;
}

/* The whole backward, in both halves where there are two. */
static inline void layer_backward(const struct layer *l, struct layer_io *io)
{
    l->kind->backward(l, io);
    if (l->kind->backward_weight)
        l->kind->backward_weight(l, io);
}

/* Numbers per sample of input i. */
static inline size_t layer_input(const struct layer *l, size_t i)
{
    return i == 1 && l->second > 0 ? l->second : l->input;
}

/* Experts: have they fewer slots than a sample has choices? */
static inline bool layer_drops(const struct layer *l)
{
    return l->moe.slots > 0 && l->moe.slots != l->tokens * l->moe.top_k;
}

/* Room in reals for n activations. A stage refuses odd numbers of 16 bits. */
static inline size_t layer_room(const struct layer *l, size_t n)
{
    return l->half ? n / 2 : n;
}

/* At least n numbers, whose values are lost when it grows; NULL: there is no memory, and the
 * reduction has been told. */
real *layer_grow(const struct layer_io *io, struct layer_array *a, size_t n);

/* What the numbers of a model's activations are. */
enum element layer_half(const struct model *m);

/* NULL when the CPU has no numerics for the operator. */
const struct layer_kind *layer_kind_of(enum operator_type type);
static inline const char *layer_kind_name(const struct layer_kind *kind)
{
    return operator_table[kind->type].name;
}

/* Shape of op `op` of the model for microbatches of `batch` samples, checked against everything the
 * model says of it: attributes, parameter_bytes, shared_bytes, output_bytes (element_bytes a
 * number), its producers' output_bytes. The model is untrusted: sizes that do not fit are errors
 * too. STATUS_INVALID and STATUS_UNSUPPORTED (kind without numerics) name the op. O(attributes +
 * in). */
enum status layer_shape(const struct model *m, uint32_t op, size_t batch,
                        struct layer *out) MUST_CHECK;

/* Make *l, as layer_shape() has it, the part of one shard; s->groups is not looked at. Nothing for
 * one shard and for ops that every shard computes. STATUS_UNSUPPORTED names the op. */
enum status layer_divide(const struct model *m, uint32_t op, const struct layer_shard *s,
                         size_t batch, struct layer *l) MUST_CHECK;
/* Part of n rows that a shard has; the first n % shards ones have one more. */
static inline size_t shard_first(size_t n, const struct layer_shard *s)
{
    size_t rest = n % s->shards;
    return s->shard * (n / s->shards) + (s->shard < rest ? s->shard : rest);
}
static inline size_t shard_rows(size_t n, const struct layer_shard *s)
{
    return n / s->shards + (s->shard < n % s->shards);
}

/* Make *l, as layer_divide() has it, that of one of `context` replicas that share every sequence:
 * chunks `position` and 2 context - 1 - position of 2 context, which balances causal attention.
 * STATUS_UNSUPPORTED names the op. */
enum status layer_share(const struct model_op *op, size_t context, size_t position, bool swaps,
                        size_t batch, struct layer *l) MUST_CHECK;
/* Where token `row` of those that replica `position` has is in the sequence. */
static inline size_t layer_place(const struct layer *l, size_t position, size_t row)
{
    size_t chunk = l->tokens / 2;
    if (l->context.replicas < 2)
        return row;
    return row < chunk ? position * chunk + row
                       : (2 * l->context.replicas - 1 - position) * chunk + row - chunk;
}
static inline size_t layer_position(const struct layer *l, size_t row)
{
    return layer_place(l, l->context.position, row);
}

/* For shape(): attribute `name` in low .. high. Without `fallback` (< 0) it must be there. */
enum status layer_attribute(const struct model_op *op, const char *name, int64_t fallback,
                            int64_t low, size_t *out) MUST_CHECK;
enum status layer_flag(const struct model_op *op, const char *name, bool *out) MUST_CHECK;

/* Saturating arithmetic of sizes: SIZE_MAX when the result does not fit. */
static inline size_t size_times(size_t a, size_t b)
{
    return b > 0 && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}
static inline size_t size_plus(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* Linear: channels of the product; some may pass it by. */
static inline size_t layer_product_in(const struct layer *l)
{
    return l->in - l->passed;
}
static inline size_t layer_product_out(const struct layer *l)
{
    return l->out - l->passed;
}

/* Attention: the first of a token's keys, which follow its queries, and the width of its keys and
 * values side by side. */
static inline size_t layer_first_key(const struct layer *l)
{
    return l->heads.n * l->heads.depth;
}
static inline size_t layer_key_width(const struct layer *l)
{
    return l->heads.kv * (l->heads.depth + l->heads.value);
}

/* Attention: the first token that the one at `place` of the sequence looks back at. */
static inline size_t layer_first_seen(const struct layer *l, size_t place)
{
    size_t window = l->attention.window;
    return window > 0 && place + 1 > window ? place + 1 - window : 0;
}

/* Convolution: numbers of a window, and whether a window is one position: the images themselves are
 * the matrix. */
static inline size_t layer_window_numbers(const struct layer *l)
{
    return size_times(size_times(l->window_of.kernel, l->window_of.kernel), l->in);
}
static inline bool layer_is_pointwise(const struct layer *l)
{
    return l->window_of.kernel == 1 && l->window_of.stride == 1 && l->window_of.padding == 0;
}

/* LSTM: the token whose turn is number k. */
static inline size_t layer_token_at(const struct layer *l, size_t k)
{
    return l->reverse ? l->tokens - 1 - k : k;
}

/* Write the start values of the parameters of op number `op`: a function of (seed, op, position in
 * the whole op) only, so every rank that holds them holds the same. n <= l->parameters values from
 * the first on. */
void layer_start(const struct layer *l, uint64_t seed, uint32_t op, size_t n, real *parameter);

#endif
