/* Collectives of a pass beside which it computes: what the replicas that share a sequence exchange
 * (context parallelism), and inputs that shards gather once more (sequence parallelism).
 *
 * Each of c replicas has 1/c of the tokens. Attention of a causal model is balanced when replica i
 * has chunks i and 2c - 1 - i of 2c: every pair of replicas then meets in equally many pairs of
 * tokens, (s / 2c)^2 twice, and all have 1/c of half the square (Liu et al., Ring Attention, 2023;
 * Transformer Engine). With v bytes of keys and values of a replica's tokens it moves
 *     ring, allgather   forward (c - 1) v; backward as many of them again, and of their gradients
 *     alltoall          (c - 1) / c of queries, keys and values of its tokens, and of the output,
 *                       in each direction; Jacobs et al., DeepSpeed Ulysses, 2023
 * as calls of collectives, merged into one op each, before the pass.
 *
 * The ring in c steps: a replica computes with one block of keys and values while the next one
 * arrives, so that of n attentions of a seconds each the pass takes n (a / c + (c - 1) max(a / c,
 * transfer)): the op `beside` takes the (c - 1) / c that may overlap, the pass itself the rest. */
#include "core/lower/summing.h"

/* Heads of keys and values that a shard has: tensor parallelism repeats what it cannot divide. */
static int64_t shard_heads(const struct stage_sum *u, const struct model_op *o, int64_t *all)
{
    int64_t shards = u->split.shards;
    *all = model_attribute(o, "kv_heads", model_attribute(o, "heads", 0));
    *all = *all > 0 ? *all : shards;
    return *all > shards ? *all / shards : 1;
}

/* Queries of a sample: `head` channels per head, where that differs from the values'. */
static int64_t query_bytes(const struct model_op *o)
{
    int64_t channels = model_attribute(o, "channels", 1), heads = model_attribute(o, "heads", 1);
    int64_t head = model_attribute(o, "head", 0);
    return head > 0 && channels > 0 ? o->output_bytes / channels * heads * head : o->output_bytes;
}

/* Queries, keys and values of a replica's tokens, which change places with heads; keys and
 * values of fewer heads than replicas go to several of these. */
int64_t sum_swapped(const struct stage_sum *u, uint32_t op)
{
    const struct model_op *o = &u->l->model->op[op];
    int64_t c = u->split.context;
    if (c < 2 || o->context_bytes == 0 || u->l->plan->context_exchange != EXCHANGE_ALLTOALL)
        return 0;
    int64_t all, heads = shard_heads(u, o, &all);
    int64_t kv = o->context_bytes / all * heads, copies = c > heads ? c / heads : 1;
    return u->l->plan->microbatch_size * (query_bytes(o) / u->split.shards + kv * copies) / c;
}

/* In with queries, keys and values, out with the output. */
static void add_alltoall(struct stage_sum *u, uint32_t op, struct lowering_exchange *to)
{
    const struct model_op *o = &u->l->model->op[op];
    int64_t in = sum_swapped(u, op), out = u->l->plan->microbatch_size *
                                           (o->output_bytes / u->split.shards) / u->split.context;
    sum_add_call(&to->gather, 1, in);
    sum_add_call(&to->gather, 1, out);
    /* sent and come, and gradients of what has come, and the output */
    int64_t scratch = 3 * in + out;
    u->context_bytes = scratch > u->context_bytes ? scratch : u->context_bytes;
}

/* A pass of op: its attention, and its exchange. */
static void context_add_pass(struct stage_sum *u, uint32_t op, double seconds, bool backward,
                             struct lowering_exchange *to)
{
    const struct model_op *o = &u->l->model->op[op];
    int64_t all, heads = shard_heads(u, o, &all), kv = o->context_bytes / all * heads;
    int64_t bytes = u->l->plan->microbatch_size * kv;
    to->seconds += seconds;
    if (u->l->plan->context_exchange == EXCHANGE_ALLTOALL) {
        add_alltoall(u, op, to);
        return;
    }
    sum_add_call(&to->gather, 1, bytes);
    if (backward)
        sum_add_call(&to->scatter, 1, bytes);
    /* as they are gathered, in their order, and their gradients */
    u->context_bytes = 3 * bytes > u->context_bytes ? 3 * bytes : u->context_bytes;
}

/* Sequence parallelism: column-parallel products keep their part of the input only and gather
 * all of it again for the gradient of the weights, while the gradient of the input is computed,
 * half of the backward (Megatron-LM, core/tensor_parallel/layers.py). */
static void add_inputs(const struct stage_sum *u, uint32_t op, const struct op_cost *cost,
                       struct lowering_exchange *to)
{
    const struct model *m = u->l->model;
    int64_t bytes = 0;
    if (u->split.sequence < 2 || m->op[op].tensor != TENSOR_COLUMN)
        return;
    for (size_t k = m->in_start[op]; k < m->in_start[op + 1]; k++)
        bytes += m->op[m->in[k]].output_bytes;
    bytes = bytes * u->l->plan->microbatch_size / u->split.context;
    if (bytes == 0)
        return;
    to->seconds += cost->backward_s / 2;
    sum_add_call(&to->gather, 1, bytes);
}

/* Tensor overlap: what is scattered behind row-parallel products and gathered before
 * column-parallel ones goes on beside the whole forward of both. In the backward gradients are
 * gathered beside the first half of row-parallel products (that of their input), and scattered
 * beside the second half of column-parallel ones, unless that is another pass. Embedding, head and
 * experts are not split. */
void sum_add_products(struct stage_sum *u, uint32_t op, const struct op_cost *cost, bool again,
                      struct lowering_context *to)
{
    const struct model_op *o = &u->l->model->op[op];
    bool row = o->tensor == TENSOR_ROW, column = o->tensor == TENSOR_COLUMN;
    if (!u->l->plan->tensor_overlap || u->split.sequence < 2 || o->exchange_bytes > 0 ||
        o->sparse || !model_in_block(u->l->model, op) || !(row || column))
        return;
    struct sum_bytes sum = sum_of_shards(u, op);
    struct lowering_exchange *forward = &to->products[0], *backward = &to->products[1];
    forward->seconds += cost->forward_s;
    backward->seconds +=
        (again ? cost->again_s : 0) + (row || !u->l->schedule->split ? cost->backward_s / 2 : 0);
    if (sum.forward > 0) {
        sum_add_call(&forward->scatter, 1, sum.forward);
        sum_add_call(&backward->gather, 1, sum.forward);
        if (again)
            sum_add_call(&backward->scatter, 1, sum.forward);
    }
    if (sum.backward > 0) {
        sum_add_call(&backward->scatter, 1, sum.backward);
        sum_add_call(&forward->gather, 1, sum.backward);
        if (again)
            sum_add_call(&backward->gather, 1, sum.backward);
    }
}

void sum_add_context(struct stage_sum *u, uint32_t op, const struct op_cost *cost,
                     struct lowering_exchange *again, struct lowering_context *to)
{
    const struct model_op *o = &u->l->model->op[op];
    add_inputs(u, op, cost, &to->inputs);
    if (u->split.context < 2 || o->context_bytes == 0)
        return;
    context_add_pass(u, op, cost->forward_s, false, &to->forward);
    context_add_pass(u, op, cost->backward_s, true, &to->backward);
    if (again)
        context_add_pass(u, op, cost->again_s, false, again);
}

static void calls_add(struct lowering_calls *to, const struct lowering_calls *from)
{
    to->count += from->count;
    to->bytes += from->bytes;
}

void sum_join_exchange(struct lowering_exchange *to, const struct lowering_exchange *from)
{
    to->seconds += from->seconds;
    calls_add(&to->gather, &from->gather);
    calls_add(&to->scatter, &from->scatter);
}

void sum_mean_context(struct lowering_context *c)
{
    sum_mean(&c->forward.gather);
    sum_mean(&c->backward.gather);
    sum_mean(&c->backward.scatter);
    sum_mean(&c->inputs.gather);
    for (int k = 0; k < 2; k++) {
        sum_mean(&c->products[k].gather);
        sum_mean(&c->products[k].scatter);
    }
}

/* ---- the program */

/* What the next compute op would wait for: its inputs, collectives inside the stage, parameters. */
static enum status depend_as_compute(const struct pass *a)
{
    struct lowering_list *list = a->list;
    PASS(pass_depend_on_inputs(a));
    if (list->blocked)
        PASS(list_depend(list, list->blocked - 1));
    if (list->needed && a->l->plan->zero == 3)
        PASS(list_depend(list, list->needed - 1));
    return STATUS_OK;
}

/* Collectives before a pass, one after the other, and what computes beside them. */
struct beside {
    const struct pass *pass;
    enum op_purpose purpose;
    uint32_t group, last; /* last: position + 1 of the one appended last */
    uint8_t part;
};

/* The first begins where the pass would, which is after the compute op before. */
static enum status append_calls(struct beside *b, enum op_kind kind,
                                const struct lowering_calls *calls)
{
    const struct pass *a = b->pass;
    uint32_t position;
    if (calls->count == 0)
        return STATUS_OK;
    struct program_op op =
        list_collective(kind, b->purpose, a->stage, a->s.microbatch, b->group, calls->bytes);
    op.count = calls->count;
    op.backward = a->s.kind != OP_FORWARD;
    op.part = b->part;
    PASS(list_append(a->list, &op, &position));
    if (b->last)
        PASS(list_depend(a->list, b->last - 1));
    else if (a->list->compute[0])
        PASS(list_depend(a->list, a->list->compute[0] - 1));
    if (!b->last)
        PASS(depend_as_compute(a));
    b->last = position + 1;
    return STATUS_OK;
}

/* The op of what computes meanwhile. */
static enum status append_beside(const struct beside *b, double beside_s)
{
    const struct pass *a = b->pass;
    struct program_op op = list_op((enum op_kind)a->s.kind, b->purpose, a->stage, a->s.microbatch);
    op.part = b->part;
    op.seconds = (1 + a->cost->slowdown) * beside_s;
    PASS(list_append(a->list, &op, NULL));
    return depend_as_compute(a);
}

static enum status context_exchange_calls(const struct pass *a, const struct lowering_exchange *e,
                                          uint8_t part, double *beside_s)
{
    const struct lowering *l = a->l;
    struct beside b = {a, FOR_CONTEXT, l->groups.context[a->rank], 0, part};
    enum plan_exchange how = l->plan->context_exchange;
    if (b.group == PROGRAM_NONE || e->gather.count == 0)
        return STATUS_OK;
    PASS(append_calls(&b, how == EXCHANGE_ALLTOALL ? OP_ALLTOALL : OP_ALLGATHER, &e->gather));
    PASS(append_calls(&b, OP_REDUCESCATTER, &e->scatter));
    if (how == EXCHANGE_RING) {
        *beside_s = e->seconds * (l->shape.context - 1) / l->shape.context;
        PASS(append_beside(&b, *beside_s));
    }
    a->list->blocked = b.last;
    return STATUS_OK;
}

static enum status gather_inputs(const struct pass *a, const struct lowering_exchange *e,
                                 uint8_t part, double *beside_s)
{
    const struct lowering *l = a->l;
    struct beside b = {a, FOR_TENSOR, l->groups.tensor[a->replica - l->replay.replica], 0, part};
    if (b.group == PROGRAM_NONE || e->gather.count == 0 || a->slower)
        return STATUS_OK;
    *beside_s = e->seconds;
    PASS(append_calls(&b, OP_ALLGATHER, &e->gather));
    PASS(append_beside(&b, *beside_s));
    a->list->blocked = b.last;
    return STATUS_OK;
}

/* All but one of as many parts as there are shards: that one is behind the pass (replay.c). */
static int64_t all_but_one(int64_t bytes, uint32_t shards)
{
    return bytes / shards * (shards - 1);
}

/* The last parts of all are one call: their latencies are those of the parts before them. */
struct lowering_calls lowering_left(const struct lowering_calls *all,
                                    const struct lowering_calls *gone, uint32_t shards)
{
    struct lowering_calls left = *all;
    if (all->count == 0 || gone->count == 0)
        return left;
    left.count = all->count - gone->count + 1;
    left.bytes =
        (all->count * all->bytes - gone->count * all_but_one(gone->bytes, shards)) / left.count;
    return left;
}

static enum status sum_products(const struct pass *a, const struct lowering_exchange *e,
                                uint8_t part, double most_s, double *beside_s)
{
    const struct lowering *l = a->l;
    struct beside b = {a, FOR_TENSOR, l->groups.tensor[a->replica - l->replay.replica], 0, part};
    uint32_t shards = l->plan->stage[a->stage].tensor_parallel;
    struct lowering_calls scatter = e->scatter, gather = e->gather;
    if (b.group == PROGRAM_NONE || scatter.count + gather.count == 0 || a->slower)
        return STATUS_OK;
    scatter.bytes = all_but_one(scatter.bytes, shards);
    gather.bytes = all_but_one(gather.bytes, shards);
    *beside_s = e->seconds * (shards - 1) / shards;
    *beside_s = *beside_s < most_s ? *beside_s : most_s;
    PASS(append_calls(&b, OP_REDUCESCATTER, &scatter));
    PASS(append_calls(&b, OP_ALLGATHER, &gather));
    PASS(append_beside(&b, *beside_s));
    a->list->blocked = b.last;
    return STATUS_OK;
}

enum status pass_exchange(const struct pass *a, const struct lowering_context *c, bool forward,
                          uint8_t part, double slower, double *seconds)
{
    double beside_s[3] = {0};
    if (!forward)
        PASS(gather_inputs(a, &c->inputs, part, &beside_s[0]));
    PASS(context_exchange_calls(a, forward ? &c->forward : &c->backward, part, &beside_s[1]));
    double left_s = *seconds / slower - beside_s[0] - beside_s[1];
    PASS(sum_products(a, &c->products[!forward], part, left_s > 0 ? left_s : 0, &beside_s[2]));
    *seconds -= slower * (beside_s[0] + beside_s[1] + beside_s[2]);
    return STATUS_OK;
}
