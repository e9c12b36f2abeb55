/* model.h - the model graph: what has to be computed, in which order.
 *
 * A DAG of ops in topological order: every edge goes from a lower to a higher index. An op makes
 * one output tensor, which each of its consumers reads. All work and activation sizes are per
 * sample; parameter sizes are per op. Kinds are names ("linear", "attention", "Conv2d"): those that
 * foreline knows are rows of core/data/operator_table.def, all others are free. */
#ifndef CORE_DATA_MODEL_H
#define CORE_DATA_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/base/error.h"
#include "core/data/operator_table.h"

struct json_document;
struct provenance;

enum { MODEL_NO_OP = UINT32_MAX, MODEL_MAX_OPS = 1000000 };

/* What tensor parallelism of degree t does to an op. Source: Shoeybi et al., Megatron-LM, 2019. */
enum model_tensor {
    TENSOR_WHOLE,  /* every shard computes all of it; with sequence parallelism 1/t of the tokens */
    TENSOR_SPLIT,  /* works on 1/t of its channels or heads, as its neighbours do */
    TENSOR_COLUMN, /* 1/t of the outputs; gradients of the input are summed over the shards */
    TENSOR_ROW,    /* 1/t of the inputs; the output is summed over the shards */
    TENSOR_KINDS
};

struct model_attribute {
    char *name; /* owned */
    int64_t value;
};

struct model_op {
    char *name;              /* unique, owned */
    char *kind;              /* owned */
    enum operator_type type; /* of `kind`, set by model_finish(); read with model_op_type() */
    uint32_t block; /* 1 + characters of the name's block, set by model_finish(); 0: not known */
    size_t attributes;
    struct model_attribute
        *attribute; /* [attributes] shape of the layer; see exec/device/layer.h */
    double forward_flop, backward_flop;   /* per sample, >= 0 */
    double forward_bytes, backward_bytes; /* memory traffic without parameters, per sample */
    int64_t parameter_bytes;              /* own parameters */
    bool
        sparse; /* parameters are indexed (embedding): *_bytes above hold what is touched of them */
    int64_t shared_bytes; /* parameters borrowed from op `shares` (tied weights) */
    uint32_t shares;      /* op that owns them, lower index; or MODEL_NO_OP */
    enum model_tensor tensor;
    enum data_type dtype;   /* of its matrix products; DATA_ANY: the model's */
    int64_t exchange_bytes; /* experts: bytes per sample that go to them, and back again, where
                             * they are spread over replicas; 0 for other ops */
    int64_t context_bytes;  /* attention: keys and values of a sample, which those who share its
                             * tokens exchange (context parallelism); 0 for other ops */
    int64_t stash_bytes;    /* kept from forward to backward, own output included, per sample */
    int64_t output_bytes;   /* sent to each other stage that consumes the output, per sample */
};

/* Measured seconds of every op on one device type at one microbatch size. */
struct model_profile {
    char *device;                   /* type name, e.g. "V100"; owned; "" matches any device */
    double samples;                 /* microbatch size, > 0 */
    uint32_t tensor_parallel;       /* degree, >= 1 */
    double *forward_s, *backward_s; /* [n] per microbatch */
    /* [n] per microbatch, of a forward that a backward makes again; NULL: as forward_s */
    double *again_s;
    double *update_s; /* [n] per iteration, of all parameters of the op; NULL: not measured */
    bool sums;        /* tensor_parallel > 1: what shards sum over each other is in these times */
};

struct model {
    char *name;               /* owned */
    char *note;               /* where it comes from, one line; owned, may be NULL */
    double tokens_per_sample; /* 0 where the notion does not apply */
    enum data_type dtype;     /* of matrix products; DATA_ANY: not known */
    int64_t element_bytes;    /* bytes per parameter, > 0: data_type_bytes(), if it is known */
    size_t n;                 /* ops */
    struct model_op *op;      /* [n] */
    size_t edges;
    size_t *in_start, *out_start; /* [n + 1] CSR */
    uint32_t *in, *out; /* [edges] producers of each op in argument order; consumers ascending */
    size_t profiles;
    struct model_profile *profile; /* [profiles] */
};

/* Builder: append ops and edges in any order, then finish. Strings are copied. */
struct model_edge {
    uint32_t from, to;
};

/* Take ownership of op[n] and profiles (already in *m, with m->n set), sort everything into a
 * topological order (depth first, so that branches stay together; deterministic; an order that is
 * topological already is kept), fill the CSR arrays from edge[edges] and check the contract:
 * unique names, finite non-negative numbers, no cycle (named in the message), no duplicate edge,
 * valid `shares`. `path` starts the messages. On failure *m is freed.
 * O((n + edges) log n). Returns STATUS_INVALID, STATUS_NOMEM. */
enum status model_finish(struct model *m, const struct model_edge *edge, size_t edges,
                         const char *path) MUST_CHECK;

enum status model_read(const char *path, struct model *out) MUST_CHECK;
/* The same from a document that has been parsed without a format; checks "format" and "version". */
enum status model_from_json(const struct json_document *d, struct model *out) MUST_CHECK;
enum status model_write(const struct model *m, const char *path,
                        const struct provenance *p) MUST_CHECK;
void model_free(struct model *m);                 /* accepts {0}; leaves {0} */
void model_profile_free(struct model_profile *p); /* likewise */
/* Take over *p, whose arrays are as long as m->op, in place of a profile of the same device,
 * samples and degree of tensor parallelism; leaves *p {0}. STATUS_NOMEM. */
enum status model_put_profile(struct model *m, struct model_profile *p) MUST_CHECK;

/* Are ops, edges and sizes equal, whatever the models are called? Models with profiles are not.
 * O(ops + edges). */
bool model_same(const struct model *a, const struct model *b);
/* Index of the op called `name`, MODEL_NO_OP if there is none; O(n). */
uint32_t model_find(const struct model *m, const char *name);
/* Type of the op's matrix products. */
static inline enum data_type model_dtype(const struct model *m, const struct model_op *op)
{
    return op->dtype == DATA_ANY ? m->dtype : op->dtype;
}
/* Bytes of a number as products of the model's type read it. */
static inline int64_t model_operand(const struct model *m)
{
    return m->dtype == DATA_ANY ? m->element_bytes : data_type_operand(m->dtype);
}
/* The operator that op->kind names, OPERATOR_UNKNOWN if none; O(1) once a model is finished. */
static inline enum operator_type model_op_type(const struct model_op *op)
{
    return op->type != OPERATOR_UNREAD ? op->type : operator_find(op->kind);
}
/* Has the op any of these traits (enum operator_trait)? */
static inline bool model_op_is(const struct model_op *op, uint32_t traits)
{
    return (operator_table[model_op_type(op)].traits & traits) != 0;
}
/* Attribute by name, `fallback` if absent. */
int64_t model_attribute(const struct model_op *op, const char *name, int64_t fallback);
/* Parameters (not bytes); tied weights counted once. */
int64_t model_parameters(const struct model *m);
/* FLOP of one sample, forward and backward. */
double model_sample_flop(const struct model *m);
/* The same by one of two conventions: attention of pairs of tokens that a causal mask hides is left
 * out, or counted, whatever its kernel does; ops without attributes count as they are. */
enum model_convention { MODEL_CAUSAL, MODEL_SQUARE };
double model_convention_flop(const struct model *m, enum model_convention convention);
/* Those that a token meets: of ops of kind "experts", attributes top_k out of experts. */
int64_t model_active_parameters(const struct model *m);

/* Layers, by the names of the ops. The block of a name is what stands before '.' or '/' up to the
 * first part that is a number ("h.3" of "h.3.attn.proj"), or else that ends in a digit ("h3" of
 * "h3.ln1"). Ops in a row that share their block are a layer, and an op of no block is one by
 * itself: a model whose names have no blocks has a layer for each op. O(length of the names). */
uint32_t model_block(const char *name); /* characters of its block; 0: it has none */
bool model_in_block(const struct model *m, size_t i);
bool model_same_layer(const struct model *m, size_t a, size_t b); /* of a block */
bool model_begins_layer(const struct model *m, size_t i);
/* What the name says behind the block, "attn.proj"; "" without one. Borrowed. */
const char *model_in_layer(const struct model *m, size_t i);
/* The part of op i in what ops [begin, end) take together, by their FLOP, and where these have none
 * by their bytes. O(end - begin). */
double model_layer_share(const struct model *m, size_t begin, size_t end, size_t i);

#endif
