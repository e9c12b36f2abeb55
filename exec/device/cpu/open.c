/* A stage is opened: from model and program to ops, tensors and links to other stages. */
#include "exec/device/cpu/stage_parts.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/plan.h"
#include "core/lower/lower.h"
#include "exec/device.h"
#include "exec/device/cpu/gemm.h"

/* The op where training data enters or is predicted, if the model has one. */
/* O(ops) */
static uint32_t device_find_op(const struct model *m, enum operator_trait trait)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (model_op_is(&m->op[i], trait))
            return i;
    return MODEL_NO_OP;
}

/* What a sample is follows from the whole model, so that all stages agree on the data: the first
 * embedding says how many tokens, `concat` and the loss's `tokens` and `masked` what is
 * predicted. */
enum status stage_find_data(struct stage *s)
{
    const struct model *m = s->model;
    uint32_t in = device_find_op(m, OPERATOR_WORDS), out = device_find_op(m, OPERATOR_LOSS);
    struct layer embedding, loss = {0};
    if (in == MODEL_NO_OP)
        return error_set(STATUS_INVALID,
                         "model '%s' has no op of kind 'embedding' that reads training data; try "
                         "--compute paced",
                         m->name);
    PASS(layer_shape(m, in, s->layout.batch, &embedding));
    if (out != MODEL_NO_OP)
        PASS(layer_shape(m, out, s->layout.batch, &loss));
    s->layout.data = (struct batch_shape){OBJECTIVE_NEXT, s->layout.batch, embedding.tokens};
    if (embedding.concat || (loss.tokens == 1 && embedding.tokens > 1))
        s->layout.data.objective = OBJECTIVE_LAST;
    else if (loss.masked)
        s->layout.data.objective = OBJECTIVE_MASKED;
    if (s->layout.data.objective == OBJECTIVE_LAST && loss.masked)
        return error_set(
            STATUS_INVALID,
            "op '%s' has attribute 'masked', but op '%s' leaves a single target per sample",
            m->op[out].name, m->op[in].name);
    double targets = (double)s->layout.batch * (double)batch_targets(&s->layout.data);
    s->layout.loss_scale = 1.0 / ((double)s->program->microbatches * targets);
    /* without flush an update is of one microbatch of each replica */
    double streams = (double)s->share.replicas / (double)s->share.context;
    s->layout.scale =
        (real)(s->state.optimizer.loss_scale *
               (s->program->asynchronous ? 1.0 / (streams * targets) : s->layout.loss_scale));
    return batch_check(s->corpus, &s->layout.data);
}

/* Do the data fit an embedding or a loss of this stage? */
static enum status check_data(const struct stage *s, const struct stage_op *o)
{
    const struct layer *l = &o->layer;
    bool reads = (operator_table[l->kind->type].traits & OPERATOR_WORDS) != 0;
    size_t rows = reads || s->layout.data.objective != OBJECTIVE_LAST ? s->layout.data.tokens : 1;
    if (l->tokens * s->share.context != rows)
        return error_set(STATUS_INVALID,
                         "op '%s': got %zu tokens per sample, but the training data have %zu",
                         s->model->op[o->index].name, l->tokens, rows);
    if ((reads && l->concat && s->layout.data.objective != OBJECTIVE_LAST) ||
        (!reads && l->masked != (s->layout.data.objective == OBJECTIVE_MASKED)))
        return error_set(STATUS_INVALID,
                         "op '%s': attribute '%s' differs from that of an earlier op",
                         s->model->op[o->index].name, reads ? "concat" : "masked");
    return STATUS_OK;
}

/* Stage of every op; each must be in one. *out is set at once and the caller's to free. */
static enum status device_find_stages(const struct model *m, const struct program *p,
                                      uint32_t **out)
{
    size_t placed = 0;
    PASS(ARRAY_NEW(*out, m->n));
    uint32_t *stage_of = *out;
    for (size_t i = 0; i < m->n; i++)
        stage_of[i] = NOWHERE;
    for (uint32_t s = 0; s < p->stages; s++)
        for (size_t k = p->stage_start[s]; k < p->stage_start[s + 1]; k++, placed++) {
            uint32_t op = p->stage_op[k];
            if (op >= m->n || stage_of[op] != NOWHERE ||
                (k > p->stage_start[s] && p->stage_op[k - 1] >= op))
                return error_set(STATUS_INVALID, "stage %u: op %u %s", s, op,
                                 op >= m->n                ? "is not in the model"
                                 : stage_of[op] != NOWHERE ? "is listed twice"
                                                           : "follows a later op");
            stage_of[op] = s;
        }
    if (placed != m->n)
        return error_set(STATUS_INVALID, "only %zu of the %zu ops of model '%s' are in a stage",
                         placed, m->n, m->name);
    return STATUS_OK;
}

/* Tensors of 16 bits are placed in reals, and so are shards' parts of their rows. */
static enum status device_check_halves(const struct stage *s, const struct stage_op *o)
{
    size_t in = size_times(s->layout.batch, o->layer.input),
           out = size_times(s->layout.batch, o->layer.output),
           pair = 2 * (o->gathers || o->scatters ? s->share.shard.shards : 1);
    if (o->layer.half && (in % pair > 0 || out % pair > 0))
        return error_set(
            STATUS_UNSUPPORTED,
            "op '%s' has an odd number of 16-bit activations per shard, expected an even number",
            s->model->op[o->index].name);
    return STATUS_OK;
}

/* The ops of the stage, each a layer of the shard that this rank has. */
static enum status open_ops(struct stage *s)
{
    const struct program *p = s->program;
    const uint32_t *index = p->stage_op + p->stage_start[s->index];
    s->layout.n = p->stage_start[s->index + 1] - p->stage_start[s->index];
    PASS(stage_allocate(s, s->layout.n, sizeof *s->layout.op, &s->layout.op));
    for (size_t k = 0; k < s->layout.n; k++) {
        s->layout.op[k].index = index[k];
        PASS(layer_shape(s->model, index[k], s->layout.batch, &s->layout.op[k].layer));
        PASS(layer_divide(s->model, index[k], &s->share.shard, s->layout.batch,
                          &s->layout.op[k].layer));
        PASS(layer_share(&s->model->op[index[k]], s->share.context, s->share.position,
                         p->stage[s->index].exchange == EXCHANGE_ALLTOALL, s->layout.batch,
                         &s->layout.op[k].layer));
        PASS(stage_divide_rows(s, &s->layout.op[k]));
        PASS(device_check_halves(s, &s->layout.op[k]));
        if (s->on.backend->adapt)
            PASS(s->on.backend->adapt(&s->model->op[index[k]], &s->layout.op[k].layer));
        if (s->layout.op[k].layer.running > 0 && s->on.backend->remote && p->forward_only)
            return error_set(STATUS_UNSUPPORTED,
                             "op '%s': GPUs keep no running means of batch normalisation, which "
                             "--forward-only needs; try --device cpu",
                             s->model->op[index[k]].name);
        if (s->layout.op[k].layer.spread.ranks > 1)
            s->layout.op[k].rows = s->layout.spread++;
    }
    if (s->layout.spread > 0)
        PASS(stage_allocate(s, s->layout.spread, sizeof *s->pass.rows, &s->pass.rows));
    for (size_t k = 0; k < s->layout.n; k++)
        if (s->layout.op[k].layer.vocabulary > 0) {
            s->layout.reads_data = true;
            PASS(check_data(s, &s->layout.op[k]));
        }
    return STATUS_OK;
}

/* Which stages are at the other end of an edge of this one? mark [stages] */
/* mark[stage]: an edge of the model goes from or to it. O(edges of the stage). */
static void mark_neighbours(const struct stage *s, const uint32_t *stage_of, bool producers,
                            bool *mark)
{
    const struct model *m = s->model;
    const size_t *start = producers ? m->in_start : m->out_start;
    const uint32_t *end = producers ? m->in : m->out;
    for (size_t k = 0; k < s->layout.n; k++)
        for (size_t e = start[s->layout.op[k].index]; e < start[s->layout.op[k].index + 1]; e++)
            mark[stage_of[end[e]]] = stage_of[end[e]] != s->index;
}

/* One link per neighbour; the tensors in it are still model ops. */
static enum status open_links(struct stage *s, const uint32_t *stage_of, bool producers)
{
    enum status st;
    size_t stages = s->program->stages, n = 0;
    size_t *count = producers ? &s->layout.producers : &s->layout.consumers;
    struct stage_link **link = producers ? &s->layout.producer : &s->layout.consumer;
    bool *mark;
    TRY(ARRAY_NEW(mark, stages));
    mark_neighbours(s, stage_of, producers, mark);
    for (size_t i = 0; i < stages; i++)
        n += mark[i];
    TRY(ARRAY_NEW(*link, n));
    for (uint32_t i = 0; i < stages; i++) {
        if (!mark[i])
            continue;
        struct stage_link *to = &(*link)[*count];
        to->stage = i;
        TRY(crossing_ops(s->model, stage_of, producers ? i : s->index, producers ? s->index : i,
                         &to->tensor, &to->n));
        ++*count;
    }
out:
    free(mark);
    return st;
}

/* How many shards a tensor is divided over by rows. */
static size_t rows_over(const struct stage *s, bool divided)
{
    return divided ? s->share.shard.shards : 1;
}

/* Shards pass each other parts only inside a stage, and only to ops that are divided alike. */
static enum status device_check_parts(const struct stage *s)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        for (size_t i = 0; i < o->layer.inputs; i++) {
            size_t size = s->layout.tensor[o->input[i]].size,
                   wanted = layer_room(&o->layer,
                                       size_times(s->layout.batch, layer_input(&o->layer, i))) /
                            rows_over(s, o->gathers);
            if (size != wanted)
                return error_set(
                    STATUS_UNSUPPORTED,
                    "op '%s' reads %zu elements on each of %zu shards, but the op that produces "
                    "them leaves %zu there; begin the stage at another op",
                    s->model->op[o->index].name, wanted, s->share.shard.shards, size);
        }
    }
    for (size_t c = 0; c < s->layout.consumers; c++)
        for (size_t i = 0; i < s->layout.consumer[c].n; i++) {
            size_t k = s->layout.consumer[c].tensor[i];
            const struct model_op *op = &s->model->op[s->layout.op[k].index];
            if (s->layout.tensor[k].size !=
                size_times(s->layout.batch, (size_t)op->output_bytes / 4 / s->share.context) /
                    rows_over(s, s->share.sequence))
                return error_set(STATUS_UNSUPPORTED,
                                 "the output of op '%s' is divided over %zu shards, but another "
                                 "stage reads it; begin that stage at another op",
                                 op->name, s->share.shard.shards);
        }
    return stage_check_rows(s);
}

/* Tensors: own outputs, then what comes in, producer by producer; inputs of the ops in terms of
 * them. at [m->n] is scratch: tensor of each model op. */
static enum status open_tensors(struct stage *s, uint32_t *at)
{
    const struct model *m = s->model;
    size_t n = s->layout.n;
    for (size_t p = 0; p < s->layout.producers; p++)
        n += s->layout.producer[p].n;
    PASS(stage_allocate(s, n, sizeof *s->layout.tensor, &s->layout.tensor));
    PASS(stage_allocate(s, n, sizeof *s->pass.begun, &s->pass.begun));
    for (; s->layout.tensors < s->layout.n; s->layout.tensors++) {
        at[s->layout.op[s->layout.tensors].index] = (uint32_t)s->layout.tensors;
        const struct layer *l = &s->layout.op[s->layout.tensors].layer;
        s->layout.tensor[s->layout.tensors].size =
            layer_room(l, size_times(s->layout.batch, l->output)) /
            rows_over(s, s->layout.op[s->layout.tensors].scatters);
    }
    for (size_t p = 0; p < s->layout.producers; p++)
        for (size_t i = 0; i < s->layout.producer[p].n; i++, s->layout.tensors++) {
            uint32_t op = s->layout.producer[p].tensor[i];
            at[op] = (uint32_t)s->layout.tensors;
            s->layout.tensor[s->layout.tensors].size =
                size_times(s->layout.batch, (size_t)m->op[op].output_bytes / 4 / s->share.context) /
                rows_over(s, s->share.sequence); /* checked */
            s->layout.producer[p].tensor[i] = at[op];
        }
    for (size_t c = 0; c < s->layout.consumers; c++)
        for (size_t i = 0; i < s->layout.consumer[c].n; i++)
            s->layout.consumer[c].tensor[i] = at[s->layout.consumer[c].tensor[i]];
    for (size_t k = 0; k < s->layout.n; k++) {
        const uint32_t *in = m->in + m->in_start[s->layout.op[k].index];
        for (size_t i = 0; i < s->layout.op[k].layer.inputs; i++)
            s->layout.op[k].input[i] = at[in[i]];
    }
    return device_check_parts(s);
}

uint32_t stage_find(const struct stage *s, uint32_t index)
{
    size_t low = 0, high = s->layout.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->layout.op[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->layout.n && s->layout.op[low].index == index ? (uint32_t)low : NOWHERE;
}

/* Last op of stage `to` that reads the output of op `index`. */
static uint32_t last_reader(const struct model *m, const uint32_t *stage_of, uint32_t index,
                            uint32_t to)
{
    uint32_t last = 0;
    for (size_t e = m->out_start[index]; e < m->out_start[index + 1]; e++)
        if (stage_of[m->out[e]] == to)
            last = m->out[e]; /* ascending */
    return last;
}

static int latest_first(const void *a, const void *b)
{
    const struct stage_remote *x = a, *y = b;
    return x->consumer > y->consumer ? -1 : x->consumer < y->consumer;
}

/* Shares of other stages in the gradients of own outputs; layout is done. */
static enum status open_remotes(struct stage *s, const uint32_t *stage_of)
{
    size_t n = 0;
    for (size_t c = 0; c < s->layout.consumers; c++)
        n += s->layout.consumer[c].n;
    PASS(stage_allocate(s, s->layout.n + 2, sizeof *s->layout.remote_start,
                        &s->layout.remote_start));
    PASS(stage_allocate(s, s->layout.n, sizeof *s->pass.next, &s->pass.next));
    PASS(stage_allocate(s, n, sizeof *s->layout.remote, &s->layout.remote));
    for (size_t c = 0; c < s->layout.consumers; c++)
        for (size_t i = 0; i < s->layout.consumer[c].n; i++)
            s->layout.remote_start[s->layout.consumer[c].tensor[i] + 2]++;
    for (size_t k = 0; k < s->layout.n; k++)
        s->layout.remote_start[k + 2] += s->layout.remote_start[k + 1];
    for (size_t c = 0; c < s->layout.consumers; c++) {
        const struct stage_link *link = &s->layout.consumer[c];
        size_t area = link->area;
        for (size_t i = 0; i < link->n; i++) {
            uint32_t k = link->tensor[i];
            uint32_t last = last_reader(s->model, stage_of, s->layout.op[k].index, link->stage);
            s->layout.remote[s->layout.remote_start[k + 1]++] = (struct stage_remote){last, area};
            area += s->layout.tensor[k].size;
        }
    }
    for (size_t k = 0; k < s->layout.n; k++)
        qsort(s->layout.remote + s->layout.remote_start[k],
              s->layout.remote_start[k + 1] - s->layout.remote_start[k], sizeof *s->layout.remote,
              latest_first);
    return STATUS_OK;
}

/* Without flush an update is of one microbatch of each replica. The loss has weighted its gradients
 * as a mean over the replicas of its own stage, which becomes that over those of this one; stages
 * of more replicas, which update less often, take longer steps, as in PipeDream's runtime: by r / r
 * of the first stage. */
static void scale_updates(struct stage *s, const uint32_t *stage_of)
{
    const struct program *p = s->program;
    uint32_t loss = device_find_op(s->model, OPERATOR_LOSS);
    s->state.scale /= s->state.optimizer.loss_scale;
    if (!p->asynchronous || loss == MODEL_NO_OP)
        return;
    double own = p->stage[s->index].replicas;
    s->state.scale *= p->stage[stage_of[loss]].replicas / own;
    s->state.learning_rate *= own / p->stage[0].replicas;
}

/* On the host, for tests and calibration; the first rank that has the stage. */
enum status stage_open(const struct model *m, const struct program *p, uint32_t index,
                       const struct corpus *c, double learning_rate, struct stage *out)
{
    const struct device_options o = {.corpus = c, .learning_rate = learning_rate};
    uint32_t rank = 0;
    while (rank + 1 < p->ranks && p->rank[rank].stage != index)
        rank++;
    if (index < p->stages && p->stage[index].zero >= 2)
        return error_set(STATUS_UNSUPPORTED, "stage %u: ZeRO %u needs more than one replica", index,
                         p->stage[index].zero);
    return stage_open_on(&(struct memory){&backend_cpu, NULL}, m, p, index, rank, &o, out);
}

/* fp32 everywhere, activations of 32 bits or of 16. */
static enum status check_numbers(const struct model *m)
{
    if (m->dtype != DATA_ANY && m->dtype != DATA_fp32 && m->dtype != DATA_bf16 &&
        m->dtype != DATA_fp16)
        return error_set(STATUS_UNSUPPORTED,
                         "model '%s' has data type %s; this device supports fp32, bf16 and fp16",
                         m->name, data_type_names[m->dtype]);
    if (m->element_bytes == 4 || m->element_bytes == 2)
        return STATUS_OK;
    return error_set(
        STATUS_UNSUPPORTED,
        "model '%s' has %lld bytes per parameter; this device supports 4 (fp32) and 2 (16 bits)",
        m->name, (long long)m->element_bytes);
}

enum status stage_open_on(const struct memory *on, const struct model *m, const struct program *p,
                          uint32_t index, uint32_t rank, const struct device_options *o,
                          struct stage *out)
{
    enum status st;
    uint32_t *stage_of = NULL, *at = NULL;
    struct stage s = {.model = m,
                      .program = p,
                      .on = *on,
                      .corpus = o->corpus ? o->corpus : corpus_shipped(),
                      .index = index,
                      .rank = rank,
                      .layout.batch = p->microbatch_size,
                      .layout.half = layer_half(m),
                      .state = {.learning_rate = o->learning_rate, .factor = 1, .scale = 1}};
    if (o->policy)
        s.state.policy = *o->policy;
    if (on->backend->allocate)
        PASS(gemm_single_thread());
    if (s.index >= p->stages || p->microbatches < 1 || s.layout.batch < 1)
        return error_set(STATUS_INVALID,
                         "got stage %u of %zu, %u microbatches and %zu samples each, expected an "
                         "existing stage and at least one microbatch of one sample",
                         s.index, p->stages, p->microbatches, s.layout.batch);
    PASS(optimizer_of(p->optimizer, &s.state.optimizer));
    TRY(check_numbers(m));
    s.share.part = o->part;
    TRY(stage_find_shares(&s));
    TRY(device_find_stages(m, p, &stage_of));
    TRY(stage_find_data(&s));
    scale_updates(&s, stage_of);
    TRY(open_ops(&s));
    TRY(open_links(&s, stage_of, true));
    TRY(open_links(&s, stage_of, false));
    TRY(ARRAY_NEW(at, m->n));
    TRY(open_tensors(&s, at));
    TRY(stage_layout(&s));
    TRY(open_remotes(&s, stage_of));
    *out = s;
    s = (struct stage){0};
out:
    free(at);
    free(stage_of);
    stage_close(&s);
    return st;
}
