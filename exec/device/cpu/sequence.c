/* What shards exchange in a pass: sums of tensors, or, with sequence parallelism, parts of them.
 * What tensor parallelism leaves whole (norms, sums, what crosses between stages) shards then
 * divide by rows. Korthikanti et al., Reducing activation recomputation in large transformer
 * models, MLSys 2023, section 4.2.2.
 *
 * The B T rows of a microbatch are cut into as many chunks as there are shards, and each has the
 * one that an all-gather takes from it (exec/ring.h), so that tensors are gathered and scattered
 * where they are, without moving rows: who works on rows by themselves does not care which they
 * are. A column-parallel op gathers its input, and once more for the gradient of its weight; a
 * row-parallel one has its output summed and scattered. Backward the same of the gradients, with
 * both changed over. Parameters that every shard has get a sum of gradients over the rows of all.
 *
 * Experts are both: they gather rows and the router's choices, which they keep, and scatter the sum
 * of what the shards' parts of each expert make. Where backwards come in halves, what has been
 * gathered for the gradients of parameters is kept for the second one, in which nothing travels;
 * gradients of what every shard has come with the first. */
#include "exec/device/cpu/experts.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/stage_parts.h"

/* Where this shard's part of n numbers is. */
static struct ring_part sequence_own_part(const struct stage *s, size_t n)
{
    const struct layer_shard *shard = &s->share.shard;
    return s->share.part ? s->share.part(n, shard->shards, shard->shard)
                         : ring_own(n, shard->shards, shard->shard);
}

static enum status sequence_refuse(const struct model_op *op, const char *what)
{
    return error_set(STATUS_UNSUPPORTED, "op '%s': sequence parallelism does not support %s",
                     op->name, what);
}

static enum status check_tokens(const struct model_op *op, const struct layer *l, size_t shards)
{
    if (l->tokens % shards == 0)
        return STATUS_OK;
    return error_set(STATUS_UNSUPPORTED, "op '%s': %zu tokens cannot be divided over %zu shards",
                     op->name, l->tokens, shards);
}

/* Experts on other ranks are sent the rows of one shard, and see to what their shards share. */
static enum status divide_spread(const struct stage *s, const struct model_op *op, struct layer *l)
{
    size_t shards = s->share.shard.shards;
    if (layer_drops(l))
        return sequence_refuse(op, "expert parallelism with a capacity limit (dropped tokens)");
    PASS(check_tokens(op, l, shards));
    l->spread.shards = shards;
    l->spread.shard = s->share.shard.shard;
    l->reduces_input = l->reduces_output = false;
    layer_divide_tokens(l, shards);
    return STATUS_OK;
}

/* Layers see all rows of what is gathered for them; those that every shard computes a part of
 * them. */
enum status stage_divide_rows(const struct stage *s, struct stage_op *o)
{
    const struct model_op *op = &s->model->op[o->index];
    struct layer *l = &o->layer;
    size_t shards = s->share.shard.shards;
    if (!s->share.sequence)
        return STATUS_OK;
    bool experts = op->exchange_bytes > 0;
    if (experts && l->spread.ranks > 1)
        return divide_spread(s, op, l);
    o->gathers = l->reduces_input;
    o->scatters = l->reduces_output;
    if (op->tensor == TENSOR_SPLIT)
        return STATUS_OK;
    PASS(check_tokens(op, l, shards));
    if (o->gathers && !experts && (l->inputs != 1 || !l->kind->backward_weight))
        return sequence_refuse(op, "a column-parallel op that has several inputs or no weights");
    if (op->tensor != TENSOR_WHOLE)
        return STATUS_OK;
    if (l->vocabulary > 0 || l->heads.n > 0 || l->tied || l->borrows || l->kind->mixes)
        return sequence_refuse(op, "this op unless it is split over shards");
    if (layer_drops(l))
        return sequence_refuse(
            op, "experts with a capacity limit (dropped tokens) unless they are split over shards");
    layer_divide_tokens(l, shards);
    return STATUS_OK;
}

/* Is tensor t divided by rows, rather than by channels or heads? What comes from other stages
 * is. */
static bool sequence_has_rows(const struct stage *s, size_t t)
{
    if (t >= s->layout.n)
        return true;
    enum model_tensor kind = s->model->op[s->layout.op[t].index].tensor;
    return kind == TENSOR_WHOLE || kind == TENSOR_ROW;
}

/* Gradients of what every shard has are summed in the collectives of a backward, or in those of
 * another stage of the rank. */
static enum status sequence_check_sums(const struct stage *s)
{
    const struct program *p = s->program;
    bool any = stage_whole_parameters(s) == 0;
    for (size_t k = 0; k < s->layout.n && !any; k++)
        any = s->layout.op[k].gathers || s->layout.op[k].scatters;
    for (size_t i = p->op_start[s->rank]; i < p->op_start[s->rank + 1] && !any; i++)
        any = p->op[i].kind == OP_ALLGATHER && p->op[i].purpose == FOR_TENSOR;
    return any ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED,
                           "stage %u: sequence parallelism needs an op that is split over shards; "
                           "drop --sequence-parallel",
                           s->index);
}

enum status stage_check_rows(const struct stage *s)
{
    if (s->share.sequence)
        PASS(sequence_check_sums(s));
    for (size_t k = 0; k < s->layout.n && s->share.sequence; k++) {
        const struct stage_op *o = &s->layout.op[k];
        const struct model_op *op = &s->model->op[o->index];
        bool reads = op->tensor == TENSOR_WHOLE || op->tensor == TENSOR_COLUMN || o->gathers ||
                     o->layer.spread.shards > 1;
        for (size_t i = 0; i < o->layer.inputs; i++)
            if (sequence_has_rows(s, o->input[i]) != reads)
                return sequence_refuse(op, reads ? "an input that holds all tokens, because this "
                                                   "op reads only its shard of them"
                                                 : "an input that holds a shard of the tokens, "
                                                   "because this op reads all of them");
        if (stage_sends(s, k) && !sequence_has_rows(s, k))
            return sequence_refuse(op, "a sharded output that another stage reads");
    }
    return STATUS_OK;
}

/* Parameters of op k that every shard has. */
static size_t whole_parameters(const struct stage *s, size_t k)
{
    const struct stage_op *o = &s->layout.op[k];
    return s->model->op[o->index].tensor == TENSOR_WHOLE ? o->layer.parameters : 0;
}

/* Has the backward both halves of a sum? Where no op of the stage gathers, or none scatters,
 * gradients of parameters are gathered, of every shard. */
static bool sequence_has_both_halves(const struct stage *s)
{
    bool gathers = false, scatters = false;
    for (size_t k = 0; k < s->layout.n; k++) {
        gathers = gathers || s->layout.op[k].gathers;
        scatters = scatters || s->layout.op[k].scatters;
    }
    return gathers && scatters;
}

size_t stage_whole_rows(const struct stage *s)
{
    size_t most = 0, copies = sequence_has_both_halves(s) ? 1 : s->share.shard.shards;
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        size_t in = o->gathers ? size_times(s->layout.batch, o->layer.input) : 0,
               out = o->scatters ? size_times(s->layout.batch, o->layer.output) : 0;
        if (o->gathers && o->scatters) /* both gradients, and that of the choices */
            in = size_plus(size_plus(in, out), size_times(s->layout.batch, o->layer.second));
        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    for (size_t b = 0; b < s->share.buckets && s->share.sequence; b++) {
        size_t n = 0;
        for (size_t k = s->share.bucket[b].low; k < s->share.bucket[b].high; k++)
            n = size_plus(n, size_times(copies, whole_parameters(s, k)));
        most = n > most ? n : most;
    }
    return most;
}

static void gather_rows(const struct stage *s, enum layer_move how, const real *own, real *all,
                        size_t n)
{
    const struct layer_reduction *r = s->pass.reduction;
    struct ring_part part = sequence_own_part(s, n);
    enum element e = s->layout.half;
    s->on.backend->copy(s->on.self, element_at(e, all, part.first), own, part.n * element_bytes(e));
    r->move(r->self, how, e, all, n);
}

static void scatter_rows(const struct stage *s, real *all, real *own, size_t n)
{
    const struct layer_reduction *r = s->pass.reduction;
    struct ring_part part = sequence_own_part(s, n);
    enum element e = s->layout.half;
    r->move(r->self, MOVE_SCATTER, e, all, n);
    s->on.backend->copy(s->on.self, own, element_at(e, all, part.first), part.n * element_bytes(e));
}

/* ---- operands */

size_t stage_rows_kept(const struct stage *s, size_t k)
{
    const struct stage_op *o = &s->layout.op[k];
    if (!o->gathers)
        return 0;
    return layer_room(&o->layer, size_times(s->layout.batch, o->layer.inputs > 1 ? o->layer.second
                                                             : o->delays         ? o->layer.input
                                                                                 : 0));
}

void stage_rows_forward(const struct stage *s, const struct slot *slot, size_t k,
                        struct layer_io *io)
{
    const struct stage_op *o = &s->layout.op[k];
    const struct layer *l = &o->layer;
    real *rows = s->pass.work + s->layout.rows;
    if (o->gathers) {
        gather_rows(s, MOVE_GATHER, io->x[0], rows, io->batch * l->input);
        io->x[0] = rows;
    }
    if (o->gathers && l->inputs > 1) {
        real *choices = slot->data + o->gathered;
        gather_rows(s, MOVE_GATHER, io->x[1], choices, io->batch * l->second);
        io->x[1] = choices;
    }
    if (o->scatters)
        io->y = rows + (o->gathers ? io->batch * l->input : 0);
}

void stage_rows_made(const struct stage *s, size_t k, const struct layer_io *io, real *own)
{
    if (s->layout.op[k].scatters)
        scatter_rows(s, io->y, own, io->batch * s->layout.op[k].layer.output);
}

void stage_rows_backward(const struct stage *s, const struct slot *slot, size_t k,
                         struct layer_io *io)
{
    const struct stage_op *o = &s->layout.op[k];
    const struct layer *l = &o->layer;
    real *rows = s->pass.work + s->layout.rows;
    if (o->scatters) {
        gather_rows(s, MOVE_GATHER, io->dy, rows, io->batch * l->output);
        io->dy = rows;
        rows += io->batch * l->output;
    }
    if (!o->gathers)
        return;
    io->dx[0] = rows;
    if (l->inputs > 1) {
        io->dx[1] = rows + io->batch * l->input;
        io->x[1] = slot->data + o->gathered;
    }
}

void stage_rows_returned(const struct stage *s, const struct slot *slot, size_t k, bool halves,
                         struct layer_io *io, real *const own[LAYER_INPUTS])
{
    const struct stage_op *o = &s->layout.op[k];
    const struct layer *l = &o->layer;
    for (size_t i = 0; i < l->inputs && o->gathers; i++) {
        scatter_rows(s, io->dx[i], own[i], io->batch * layer_input(l, i));
        io->dx[i] = own[i];
    }
    if (!o->gathers || !l->kind->backward_weight)
        return;
    real *all = halves && o->delays ? slot->data + o->gathered : s->pass.work + s->layout.rows;
    gather_rows(s, MOVE_GATHER_AGAIN, io->x[0], all, io->batch * l->input);
    io->x[0] = all;
}

/* ---- sums */

void stage_sum_shards(const struct stage *s, real *data, size_t size)
{
    const struct layer_reduction *r = s->pass.reduction;
    enum element e = s->layout.half;
    r->sum(r->self, e, data, e != ELEMENT_FP32 ? 2 * size : size);
}

/* To and from `packed`, one op after the other. */
static void sequence_pack(const struct stage *s, size_t low, size_t high, real *packed, bool back)
{
    real *gradient = stage_gradients(s);
    for (size_t k = low; k < high; packed += whole_parameters(s, k++)) {
        real *at = gradient + s->layout.op[k].d_at;
        s->on.backend->copy(s->on.self, back ? at : packed, back ? packed : at,
                            whole_parameters(s, k) * sizeof *at);
    }
}

size_t stage_whole_parameters(const struct stage *s)
{
    size_t n = 0;
    for (size_t k = 0; k < s->layout.n && s->share.sequence; k++)
        n += whole_parameters(s, k);
    return n;
}

/* All of the stage: backwards in halves have no parts. */
void stage_set_apart(const struct stage *s)
{
    real *gradient = stage_gradients(s);
    if (!s->pass.whole)
        return;
    sequence_pack(s, 0, s->layout.n, s->pass.whole, false);
    for (size_t k = 0; k < s->layout.n; k++)
        s->on.backend->zero(s->on.self, gradient + s->layout.op[k].d_at,
                            whole_parameters(s, k) * sizeof *gradient);
}

static void put_back(const struct stage *s)
{
    real *gradient = stage_gradients(s), *apart = s->pass.whole;
    for (size_t k = 0; k < s->layout.n && apart; apart += whole_parameters(s, k++))
        s->on.backend->add(s->on.self, gradient + s->layout.op[k].d_at, apart,
                           whole_parameters(s, k));
}

/* Where gradients are only gathered, everybody adds those of all in one order: the same bits. */
void stage_sum_whole(const struct stage *s, size_t low, size_t high)
{
    const struct layer_reduction *r = s->pass.reduction;
    size_t shards = s->share.shard.shards, n = 0;
    real *all = s->pass.work + s->layout.rows;
    for (size_t k = low; k < high; k++)
        n += whole_parameters(s, k);
    if (n == 0)
        return;
    if (sequence_has_both_halves(s)) {
        sequence_pack(s, low, high, all, false);
        r->sum(r->self, ELEMENT_FP32, all, n);
    } else {
        sequence_pack(s, low, high, all + sequence_own_part(s, shards * n).first, false);
        r->move(r->self, MOVE_GATHER, ELEMENT_FP32, all, shards * n);
        for (size_t k = 1; k < shards; k++)
            s->on.backend->add(s->on.self, all, all + k * n, n);
    }
    sequence_pack(s, low, high, all, true);
    put_back(s);
}
