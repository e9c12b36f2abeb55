/* Context parallelism: what the replicas that share a sequence exchange in a pass.
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
static int64_t shard_heads(const struct sum *u, const struct model_op *o, int64_t *all)
{
    int64_t shards = u->split.tensor_parallel;
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

/* Tokens change places with heads: in with queries, keys and values, out with the output; keys and
 * values of fewer heads than replicas go to several of these. */
static void add_alltoall(const struct sum *u, const struct model_op *o, int64_t kv, int64_t heads,
                         struct lowering_exchange *to)
{
    int64_t c = u->split.context_parallel, shards = u->split.tensor_parallel;
    int64_t samples = u->l->plan->microbatch_size, copies = c > heads ? c / heads : 1;
    int64_t in = samples * (query_bytes(o) / shards + kv * copies) / c,
            out = samples * (o->output_bytes / shards) / c;
    sum_add_call(&to->gather, 1, in, in);
    sum_add_call(&to->gather, 1, out, out);
}

/* A pass of op: its attention, and its exchange. */
static void add_pass(struct sum *u, const struct model_op *o, double seconds, bool backward,
                     struct lowering_exchange *to)
{
    int64_t all, heads = shard_heads(u, o, &all), kv = o->context_bytes / all * heads;
    int64_t bytes = u->l->plan->microbatch_size * kv;
    to->seconds += seconds;
    if (u->l->plan->context_exchange == EXCHANGE_ALLTOALL) {
        add_alltoall(u, o, kv, heads, to);
        return;
    }
    sum_add_call(&to->gather, 1, bytes, bytes);
    if (backward)
        sum_add_call(&to->scatter, 1, bytes, bytes);
    /* as they are gathered, in their order, and their gradients */
    u->context_bytes = 3 * bytes > u->context_bytes ? 3 * bytes : u->context_bytes;
}

void sum_add_context(struct sum *u, uint32_t op, const struct op_cost *cost,
                     struct lowering_exchange *again, struct lowering_context *to)
{
    const struct model_op *o = &u->l->model->op[op];
    if (u->split.context_parallel < 2 || o->context_bytes == 0)
        return;
    add_pass(u, o, cost->forward_s, false, &to->forward);
    add_pass(u, o, cost->backward_s, true, &to->backward);
    if (again)
        add_pass(u, o, cost->forward_s, false, again);
}

static void join(struct lowering_calls *to, const struct lowering_calls *from)
{
    to->count += from->count;
    to->bytes += from->bytes;
    to->reduced_bytes += from->reduced_bytes;
}

void sum_join_exchange(struct lowering_exchange *to, const struct lowering_exchange *from)
{
    to->seconds += from->seconds;
    join(&to->gather, &from->gather);
    join(&to->scatter, &from->scatter);
}

void sum_mean_context(struct lowering_context *c)
{
    sum_mean(&c->forward.gather);
    sum_mean(&c->backward.gather);
    sum_mean(&c->backward.scatter);
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

/* The first begins where the pass would, which is after the compute op before; *last, the position
 * + 1 of the one before it, moves on. */
static enum status append_calls(const struct pass *a, enum op_kind kind, uint8_t part,
                                const struct lowering_calls *calls, uint32_t *last)
{
    uint32_t position;
    if (calls->count == 0)
        return STATUS_OK;
    struct program_op op = list_collective(kind, FOR_CONTEXT, a->stage, a->s.microbatch,
                                           a->l->groups.context[a->rank], calls->bytes);
    op.count = calls->count;
    op.backward = a->s.kind != OP_FORWARD;
    op.part = part;
    PASS(list_append(a->list, &op, &position));
    if (*last)
        PASS(list_depend(a->list, *last - 1));
    else if (a->list->compute[0])
        PASS(list_depend(a->list, a->list->compute[0] - 1));
    if (!*last)
        PASS(depend_as_compute(a));
    *last = position + 1;
    return STATUS_OK;
}

enum status pass_exchange(const struct pass *a, const struct lowering_exchange *e, uint8_t part,
                          double slower, double *seconds)
{
    const struct lowering *l = a->l;
    uint32_t last = 0, c = l->shape.context;
    enum plan_exchange how = l->plan->context_exchange;
    if (l->groups.context[a->rank] == PROGRAM_NONE || e->gather.count == 0)
        return STATUS_OK;
    PASS(append_calls(a, how == EXCHANGE_ALLTOALL ? OP_ALLTOALL : OP_ALLGATHER, part, &e->gather,
                      &last));
    PASS(append_calls(a, OP_REDUCESCATTER, part, &e->scatter, &last));
    if (how == EXCHANGE_RING) {
        double beside_s = e->seconds * (c - 1) / c;
        struct program_op op =
            list_op((enum op_kind)a->s.kind, FOR_PIPELINE, a->stage, a->s.microbatch);
        op.part = part;
        op.beside = true;
        op.seconds = (1 + a->cost->slowdown) * beside_s;
        *seconds -= slower * beside_s;
        PASS(list_append(a->list, &op, NULL));
        PASS(depend_as_compute(a));
    }
    a->list->blocked = last;
    return STATUS_OK;
}
