/* The kernels of an op, kind by kind: one function each, and a table of them. Formulas and what
 * their constants were fitted on: docs/reference/kernels.md. */
#include "core/cost/op_kernels.h"

#include <math.h>

#include "core/cost/kernel.h"
#include "core/data/model.h"
#include "core/data/topology.h"
#include "core/strategy/framework.h"

/* Fused attention makes its scores again: five products instead of the forward's two. */
static const double flash_backward_work = 2.5;
static const double permuted_backward = 1.5;
static const double expert_kernels_backward = 1.6, route_kernels_backward = 1.5;
/* Casts of weights: passes over them per iteration. */
static const double cast_weights = 3;

/* An op while its kernels are listed. */
struct issue {
    const struct model *m;
    const struct model_op *op;
    const struct framework *f;
    struct cost_split split;
    struct cost_part part;
    double samples, shards, context, number; /* bytes of a number that is kept */
    enum data_type dtype;
    bool backward;
    struct op_kernels *out;
};

static double op_kernels_attribute(const struct issue *i, const char *name, int64_t fallback)
{
    return (double)model_attribute(i->op, name, fallback);
}

static struct kernel *op_kernels_add(struct issue *i, enum kernel_kind kind)
{
    struct kernel *k = &i->out->kernel[i->out->n++];
    *k = (struct kernel){.kind = kind, .dtype = i->dtype, .launches = 1, .batch = 1};
    return k;
}

static void op_kernels_add_product(struct issue *i, double batch, double m, double n, double k)
{
    struct kernel *product = op_kernels_add(i, KERNEL_PRODUCT);
    product->batch = batch;
    product->m = m;
    product->n = n;
    product->k = k;
}

/* A pass over so many bytes in so many launches. */
static void op_kernels_add_pass(struct issue *i, double bytes, double launches)
{
    struct kernel *pass = op_kernels_add(i, KERNEL_PASS);
    pass->bytes = bytes;
    pass->launches = launches;
}

/* (m, k) x (k, n), or in the backward the gradients of both operands. */
static void op_kernels_add_layer(struct issue *i, double batch, double m, double n, double k)
{
    if (!i->backward) {
        op_kernels_add_product(i, batch, m, n, k);
        return;
    }
    op_kernels_add_product(i, batch, m, k, n);
    op_kernels_add_product(i, batch, n, k, m);
}

/* What becomes fp8 or fp4 of `in` numbers forward and `out` gradients backward, and once per
 * iteration the weights. */
static void add_casts(struct issue *i, double in, double out, double weights)
{
    double bytes = i->f->cast * (i->backward ? out : in), shared = i->split.microbatches;
    if (!data_type_narrow(i->dtype))
        return;
    if (!i->backward)
        bytes += cast_weights * weights / (shared > 1 ? shared : 1);
    op_kernels_add_pass(i, i->f->narrow * bytes, 1);
}

/* What the op moves forward, of `usual` numbers per number of its output `own` instead. */
static void add_elements(struct issue *i, double usual, double own)
{
    double bytes = i->samples * i->part.work * i->op->forward_bytes / usual * own;
    op_kernels_add_pass(i, i->backward ? i->f->backward * bytes : bytes, i->backward ? 4.0 / 3 : 1);
}

/* ---- kinds */

/* Does an activation follow, which adds the bias? */
static bool is_activated(const struct issue *i)
{
    size_t op = (size_t)(i->op - i->m->op);
    if (i->m->out_start[op] == i->m->out_start[op + 1])
        return false;
    return model_op_is(&i->m->op[i->m->out[i->m->out_start[op]]], OPERATOR_ADDS_BIAS);
}

static void issue_linear(struct issue *i)
{
    bool row = i->op->tensor == TENSOR_ROW, whole = i->op->tensor == TENSOR_WHOLE;
    double tokens = i->samples * op_kernels_attribute(i, "tokens", 1) / i->context;
    double in = op_kernels_attribute(i, "in", 0), out = op_kernels_attribute(i, "out", 0);
    double own = !row && i->split.sequence > 1 ? 1 / i->shards : 1; /* cast, then gathered */
    if (row)
        in /= i->shards;
    else if (!whole)
        out /= i->shards;
    else if (i->split.sequence > 1)
        tokens /= i->shards, own = 1;
    op_kernels_add_layer(i, 1, tokens, out, in);
    add_casts(i, own * tokens * in, tokens * out, in * out);
    if (i->f->bias > 0 && !row && op_kernels_attribute(i, "bias", 0) > 0 && !is_activated(i))
        op_kernels_add_pass(
            i, i->f->bias * tokens * out * i->number * (i->backward ? i->f->backward : 1), 1);
}

static double flash_work_of(const struct framework *f)
{
    return f->flash_work > 0 ? f->flash_work : flash_backward_work;
}

/* Scores and weighted values: fused by one of the libraries, or two products and passes over the
 * square. */
static void issue_attention(struct issue *i)
{
    double tokens = op_kernels_attribute(i, "tokens", 1),
           heads = op_kernels_attribute(i, "heads", 1);
    double head = op_kernels_attribute(i, "channels", 1) / heads, again = i->backward ? 2 : 1;
    double seen = op_kernels_attribute(i, "memory", (int64_t)tokens);
    bool wide = i->dtype == DATA_fp32 || i->dtype == DATA_tf32; /* for which nobody has fused it */
    if (model_attribute(i->op, "flash", 0) > 0 && !wide) {
        struct kernel *k = op_kernels_add(i, KERNEL_ATTENTION);
        k->tokens = tokens;
        k->k = head;
        k->flash = (enum flash)((int)i->f->flash - 1);
        k->backward = i->backward;
        k->flop = i->samples * i->part.work * i->op->forward_flop *
                  (i->backward ? flash_work_of(i->f) : 1) * (i->context > 1 ? i->f->context : 1);
        k->bytes = i->samples * i->part.work *
                   (i->backward ? i->op->backward_bytes : i->op->forward_bytes);
        return;
    }
    double batch = i->samples * heads / i->shards, rows = tokens / i->context;
    double scores = batch * rows * seen * i->number;
    op_kernels_add_product(i, again * batch, rows, seen, head);
    op_kernels_add_product(i, again * batch, rows, head, seen);
    op_kernels_add_pass(i, scores * i->f->square * (i->backward ? i->f->square_backward : 1), 3);
}

static void issue_norm(struct issue *i)
{
    add_elements(i, 2, i->f->norm);
}

static void issue_residual(struct issue *i)
{
    add_elements(i, 3, i->f->residual);
}

static void issue_gated(struct issue *i)
{
    add_elements(i, 3, i->f->gated);
}

static void issue_gelu(struct issue *i)
{
    add_elements(i, 2, i->f->gelu);
}

static void issue_rope(struct issue *i)
{
    add_elements(i, 2, i->f->rope);
}

/* Logits are moved several times and in fp32; the backward is as long as the forward. */
static void issue_loss(struct issue *i)
{
    double logits = i->samples * i->part.work * op_kernels_attribute(i, "tokens", 1) *
                    op_kernels_attribute(i, "vocabulary", 0);
    op_kernels_add_pass(i, i->f->loss * logits / 2, 3);
}

/* One pass over what it says that it moves, or what its FLOP take. */
static void issue_other(struct issue *i)
{
    double work = i->samples * i->part.work;
    double held = i->part.parameters * (double)(i->op->parameter_bytes + i->op->shared_bytes);
    double read = i->op->sparse ? 0 : held;
    double flop = i->backward ? i->op->backward_flop : i->op->forward_flop;
    double bytes = i->backward ? i->op->backward_bytes : i->op->forward_bytes;
    if (work * flop + work * bytes + read <= 0)
        return;
    op_kernels_add_pass(i, work * bytes + (i->backward ? 3 : 1) * read, 1);
    i->out->kernel[i->out->n - 1].flop = work * flop;
}

/* Scores of the experts, then what says which tokens go where. */
static void issue_gate(struct issue *i)
{
    double tokens = i->samples * i->part.work * op_kernels_attribute(i, "tokens", 1);
    double bytes = i->backward ? i->op->backward_bytes : i->op->forward_bytes;
    op_kernels_add_layer(i, 1, tokens, op_kernels_attribute(i, "experts", 1),
                         op_kernels_attribute(i, "channels", 1));
    op_kernels_add_pass(i, i->samples * i->part.work * bytes, 4);
    i->out->issued += i->f->route_kernels * (i->backward ? route_kernels_backward : 1);
}

/* Products of all experts that the rank has, each of the rows that come to it; a batch of them is
 * one launch. Rows are put in the order of experts and back. */
static void issue_experts(struct issue *i)
{
    double tokens = op_kernels_attribute(i, "tokens", 1),
           channels = op_kernels_attribute(i, "channels", 1);
    double inner = op_kernels_attribute(i, "inner", 1) / i->shards,
           own = op_kernels_attribute(i, "experts", 1);
    double rows =
        i->samples * op_kernels_attribute(i, "slots", (int64_t)tokens) * i->part.load / i->context;
    bool gated = op_kernels_attribute(i, "gated", 0) > 0;
    double wide = gated ? 2 * inner : inner, size = rows * channels * i->number;
    if (cost_spreads(&i->split, i->op))
        own = fmax(own / i->split.experts, 1);
    op_kernels_add_layer(i, own, rows / own, wide, channels);
    op_kernels_add_layer(i, own, rows / own, channels, inner);
    add_casts(i, rows * (channels + inner), rows * (channels + wide),
              own * (wide + inner) * channels);
    if (op_kernels_attribute(i, "einsum", 0) > 0) { /* into slots and back by products with masks */
        double slots = op_kernels_attribute(i, "slots", 1) * op_kernels_attribute(i, "group", 1);
        double all = i->samples * tokens / i->context;
        op_kernels_add_layer(i, 1, all, slots, channels);
        op_kernels_add_layer(i, 1, all, channels, slots);
    }
    double activation = rows * inner * i->number * (gated ? i->f->gated : i->f->gelu);
    double times = i->backward ? permuted_backward : 1;
    op_kernels_add_pass(i, times * (i->f->permuted * size + activation), 4);
    i->out->issued += i->f->expert_kernels * own * (i->backward ? expert_kernels_backward : 1);
}

/* By operator; NULL: of one that no row names. */
static void (*const issuers[OPERATORS])(struct issue *) = {
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) [OPERATOR_##name] = issue_##kernels,
#include "core/data/operator_table.def"
#undef OPERATOR
};

/* An imported op may lack the attributes of its kind. */
static bool has_shape(const struct model_op *op)
{
    if (model_op_is(op, OPERATOR_PRODUCT))
        return model_attribute(op, "in", 0) > 0 && model_attribute(op, "out", 0) > 0;
    if (model_op_is(op, OPERATOR_ATTENTION))
        return model_attribute(op, "heads", 0) > 0 && model_attribute(op, "channels", 0) > 0;
    return model_attribute(op, "tokens", 0) > 0;
}

/* Who issues an op of its kind and shape: nothing better than a pass may be known. */
static void (*issuer(const struct model_op *op))(struct issue *)
{
    void (*issue)(struct issue *) = issuers[model_op_type(op)];
    return issue && issue != issue_other && has_shape(op) ? issue : issue_other;
}

bool op_kernels_shaped(const struct model_op *op)
{
    return issuer(op) != issue_other;
}

/* What the numbers of a model are that does not say. */
static enum data_type op_kernels_type_of(const struct model *m, const struct model_op *op)
{
    enum data_type t = model_dtype(m, op);
    return t != DATA_ANY ? t : m->element_bytes == 4 ? DATA_fp32 : DATA_bf16;
}

static bool is_summed(const struct model_op *op)
{
    return op->tensor == TENSOR_ROW || op->tensor == TENSOR_COLUMN;
}

void op_kernels(const struct model *m, uint32_t op, double samples, const struct cost_split *split,
                bool backward, struct op_kernels *out)
{
    const struct model_op *o = &m->op[op];
    const struct framework *f = split->framework;
    struct issue i = {.m = m,
                      .op = o,
                      .f = f,
                      .split = *split,
                      .part = cost_part(o, split),
                      .samples = samples,
                      .shards = split->shards,
                      .context = split->context,
                      .number = (double)m->element_bytes,
                      .dtype = op_kernels_type_of(m, o),
                      .backward = backward,
                      .out = out};
    out->n = 0;
    out->issued = backward ? f->backward_kernels : f->forward_kernels;
    if (i.shards > 1 && is_summed(o))
        out->issued += f->sum_kernels;
    issuer(o)(&i);
}

double op_kernels_seconds(const struct device_type *type, const struct op_kernels *k)
{
    double sum_s = 0;
    for (size_t i = 0; i < k->n; i++)
        sum_s += kernel_seconds(type, &k->kernel[i]);
    return sum_s;
}

double op_kernels_host(const struct framework *f, const struct op_kernels *k)
{
    return k->issued * f->kernel_s * f->host;
}
