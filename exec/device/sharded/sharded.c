/* A rank's shards: memory, passes, updates. */
#include "exec/device/sharded/sharded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/strategy/optimizer.h"
#include "exec/device.h"
#include "exec/device/backend.h"
#include "exec/device/cpu/gemm.h"

/* Arrays begin at multiples of 64 bytes, as far as the memory does. */
static size_t padded(size_t n)
{
    const size_t line = 64 / sizeof(real);
    return (n + line - 1) / line * line;
}

/* ---- opening */

static bool makes_parameter(const struct operators_node *n)
{
    return !strcmp(n->kind, "parameter") || !strcmp(n->kind, "mask");
}

/* Nodes that read nothing make one tensor; the output reads one number. */
static enum status check_ends(const struct sharded *s, const struct operators_node *n)
{
    bool input = !strcmp(n->kind, "input"), output = !strcmp(n->kind, "output");
    if ((input || makes_parameter(n)) && n->reads == 0 && n->makes == 1 &&
        s->all->tensor[n->made].rank > 0)
        return STATUS_OK;
    if (output && n->reads == 1 && n->makes == 0 && s->all->tensor[n->read[0]].rank == 0)
        return STATUS_OK;
    return error_set(STATUS_UNSUPPORTED,
                     "operator '%s': foreline run cannot compute %s in plans with \"steps\"; try "
                     "--compute paced",
                     n->name, n->kind);
}

static struct operand *operand_of(const struct sharded *s, const struct operators_node *n, size_t k,
                                  size_t half)
{
    struct tensor_half *slot = &s->slot[half][n->read[k]];
    return operators_converted(s->all, n, k) ? &slot->to : &slot->own;
}

/* The views of what a node works on, and whether they fit. */
static enum status open_call(struct sharded *s, size_t node, size_t half)
{
    const struct operators_node *n = &s->all->node[node];
    const struct operator_kind *kind = s->kind[node];
    struct operator_call *c = &s->call[half][node];
    *c = (struct operator_call){
        .node = n,
        .all = s->all,
        .on = s->on,
        .does = s->on->does,
        .self = s->on->memory.self,
        .ranks = s->ranks,
        .half = half,
        .halves = s->halves,
    };
    if (!kind)
        return check_ends(s, n);
    if (n->reads < kind->least || n->reads > kind->reads || n->makes != kind->makes ||
        n->arguments < kind->arguments)
        return kind_misfit(c);
    for (size_t k = 0; k < n->reads; k++)
        c->read[k] = *operand_of(s, n, k, half);
    for (size_t k = 0; k < n->makes; k++)
        c->made[k] = s->slot[half][n->made + k].own;
    for (size_t k = 0; k < n->reads && !kind->check; k++)
        if (!view_alike(&c->read[k].view, &c->made[0].view))
            return kind_misfit(c);
    if (kind->check)
        PASS(kind->check(c));
    s->numbers_n += padded(kind->saved ? kind->saved(c) : 0);
    size_t work = kind->work ? kind->work(c) : 0;
    s->work_n = work > s->work_n ? work : s->work_n;
    return STATUS_OK;
}

/* How much a tensor needs; a replicated parameter is full where it is. */
static void open_slot(struct sharded *s, uint32_t tensor, size_t half)
{
    const struct operators_tensor *t = &s->all->tensor[tensor];
    struct tensor_half *slot = &s->slot[half][tensor];
    slot->own.view = view_of(t, t->form, s->ranks, s->me);
    slot->to.view = view_of(t, t->to == FORM_NONE ? t->form : t->to, s->ranks, s->me);
    slot->wire_n = sharded_wire(s, tensor);
    if (half > 0 && s->shared[tensor])
        return;
    size_t n = t->to != FORM_NONE ? padded(slot->to.view.n) : 0;
    if (s->shared[tensor])
        s->parameters += slot->own.view.n;
    else
        n += padded(slot->own.view.n);
    s->gradients_n += n;
    s->numbers_n += 2 * n + padded(slot->wire_n);
    s->drawn_n = slot->own.view.n > s->drawn_n ? slot->own.view.n : s->drawn_n;
}

static real *sharded_take_numbers(real **next, size_t n)
{
    real *data = *next;
    *next += padded(n);
    return data;
}

/* Where memory is given out: of numbers and of their gradients, and how many parameters have
 * theirs. */
struct operand_places {
    real *next, *gradient;
    size_t parameter;
};

static void place_slot(struct sharded *s, uint32_t tensor, size_t half, struct operand_places *p)
{
    const struct operators_tensor *t = &s->all->tensor[tensor];
    struct tensor_half *slot = &s->slot[half][tensor];
    if (half > 0 && s->shared[tensor]) {
        *slot = s->slot[0][tensor];
        return;
    }
    size_t n = slot->own.view.n;
    if (s->shared[tensor]) {
        slot->own.value = s->parameter + p->parameter;
        slot->own.gradient = s->gradient + p->parameter;
        p->parameter += n;
    } else {
        slot->own.value = sharded_take_numbers(&p->next, n);
        slot->own.gradient = sharded_take_numbers(&p->gradient, n);
    }
    if (t->to != FORM_NONE) {
        slot->to.value = sharded_take_numbers(&p->next, slot->to.view.n);
        slot->to.gradient = sharded_take_numbers(&p->gradient, slot->to.view.n);
    }
    if (t->form == FORM_REPLICATE && t->to == FORM_FULL)
        slot->to.value = slot->own.value;
    slot->wire = sharded_take_numbers(&p->next, slot->wire_n);
}

static void place_call(struct sharded *s, size_t node, size_t half, real **next)
{
    struct operator_call *c = &s->call[half][node];
    if (!s->kind[node])
        return;
    for (size_t k = 0; k < c->node->reads; k++)
        c->read[k] = *operand_of(s, c->node, k, half);
    for (size_t k = 0; k < c->node->makes; k++)
        c->made[k] = s->slot[half][c->node->made + k].own;
    c->saved = sharded_take_numbers(next, s->kind[node]->saved ? s->kind[node]->saved(c) : 0);
    c->work = s->work;
}

/* Each tensor or node adds less than 2^62. */
static enum status sharded_check_size(const struct sharded *s)
{
    return s->numbers_n < (size_t)1 << 50 && s->parameters < (size_t)1 << 50
               ? STATUS_OK
               : error_set(STATUS_NOMEM, "rank %zu needs memory for more than 2^50 elements",
                           s->me);
}

static enum status sharded_measure_memory(struct sharded *s)
{
    for (size_t i = 0; i < s->all->nodes; i++) {
        const struct operators_node *n = &s->all->node[i];
        s->kind[i] = kind_of(operator_find(n->kind));
        for (uint32_t k = 0; k < n->makes; k++)
            s->shared[n->made + k] = makes_parameter(n);
    }
    for (size_t half = 0; half < s->halves; half++) {
        for (uint32_t t = 0; t < s->all->tensors; t++) {
            open_slot(s, t, half);
            PASS(sharded_check_size(s));
        }
        for (size_t i = 0; i < s->all->nodes; i++) {
            PASS(open_call(s, i, half));
            PASS(sharded_check_size(s));
        }
    }
    return STATUS_OK;
}

/* What a rank has of its engine's memory: numbers, scratch, and of parameters four or two
 * arrays. */
static enum status sharded_allocate(struct sharded *s)
{
    const struct memory *m = &s->on->memory;
    bool adam = !strcmp(s->program->optimizer, "adam");
    size_t pieces = adam ? 6 : 4, n = s->numbers_n + s->work_n + (pieces - 2) * s->parameters;
    double bytes = sizeof(real) * (double)n, most = m->backend->memory_bytes(m->self);
    struct {
        real **data;
        size_t n;
    } piece[] = {{&s->numbers, s->numbers_n},    {&s->work, s->work_n},
                 {&s->parameter, s->parameters}, {&s->gradient, s->parameters},
                 {&s->moment, s->parameters},    {&s->square, s->parameters}};
    if (bytes > most)
        return error_set(STATUS_NOMEM, "out of memory: rank %zu needs %.3g GB, the %s has %.3g GB",
                         s->me, bytes / 1e9, m->backend->remote ? "GPU" : "machine", most / 1e9);
    if (m->backend->reserve)
        PASS(m->backend->reserve(m->self, n * sizeof(real), pieces));
    for (size_t k = 0; k < pieces; k++)
        if (!(*piece[k].data = m->backend->allocate(m->self, piece[k].n * sizeof(real))))
            return error_set(STATUS_NOMEM, "out of memory: rank %zu needs a buffer of %zu bytes",
                             s->me, piece[k].n * sizeof(real));
    return m->backend->remote ? ARRAY_NEW(s->drawn, s->drawn_n) : STATUS_OK;
}

/* Does the rank's list have every collective that its tensors need, and no other? */
static enum status check_list(const struct sharded *s, uint32_t rank)
{
    const struct program *p = s->program;
    size_t wanted = 0, found = 0;
    for (uint32_t t = 0; t < s->all->tensors; t++)
        for (int back = 0; back < 2; back++) {
            enum form_step step = sharded_step(s, t, back);
            bool alone = step == STEP_NONE || step == STEP_SLICE || step == STEP_REPLICATE;
            wanted += alone ? 0 : s->shared[t] ? 1 : s->halves;
        }
    static const enum op_kind kinds[STEPS] = {[STEP_ALLGATHER] = OP_ALLGATHER,
                                              [STEP_ALLREDUCE] = OP_ALLREDUCE,
                                              [STEP_REDUCESCATTER] = OP_REDUCESCATTER,
                                              [STEP_ALLTOALL] = OP_ALLTOALL};
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (op_computes(o))
            continue;
        if (!op_is_collective(o) || o->tag >= s->all->tensors || o->microbatch >= s->halves ||
            kinds[sharded_step(s, o->tag, o->backward)] != o->kind)
            return error_set(
                STATUS_INVALID,
                "rank %u: collective %zu of the program (from 0) converts no tensor of the plan",
                rank, found);
        found++;
    }
    return found == wanted ? STATUS_OK
                           : error_set(STATUS_INVALID,
                                       "rank %u: the program has %zu collectives, but converting "
                                       "the plan's tensors takes %zu",
                                       rank, found, wanted);
}

static enum status open_memory(struct sharded *s)
{
    PASS(ARRAY_NEW(s->kind, s->all->nodes));
    PASS(ARRAY_NEW(s->shared, s->all->tensors));
    for (size_t half = 0; half < s->halves; half++) {
        PASS(ARRAY_NEW(s->slot[half], s->all->tensors));
        PASS(ARRAY_NEW(s->call[half], s->all->nodes));
    }
    PASS(sharded_measure_memory(s));
    PASS(sharded_allocate(s));
    struct operand_places places = {s->numbers + s->gradients_n, s->numbers, 0};
    for (size_t half = 0; half < s->halves; half++) {
        for (uint32_t t = 0; t < s->all->tensors; t++)
            place_slot(s, t, half, &places);
        for (size_t i = 0; i < s->all->nodes; i++)
            place_call(s, i, half, &places.next);
    }
    return STATUS_OK;
}

enum status sharded_open(const struct arithmetic_engine *on, const struct program *p, uint32_t rank,
                         const struct device_options *o, struct sharded **out)
{
    enum status st;
    struct sharded *s;
    TRY(ARRAY_NEW(s, 1));
    s->program = p;
    s->on = on;
    s->part = o->part ? o->part : ring_own;
    s->all = &p->operators;
    s->me = p->rank[rank].shard;
    s->ranks = p->stage[p->rank[rank].stage].tensor_parallel;
    s->halves = p->microbatches;
    s->learning_rate = o->learning_rate;
    if (o->policy)
        s->policy = *o->policy;
    s->corpus = o->corpus ? o->corpus : corpus_shipped();
    if (optimizer_is_tuned(p->optimizer))
        FAIL(STATUS_UNSUPPORTED,
             "plans with \"steps\" support optimizer '%s' only without settings, got '%s'",
             optimizer_name_of(p->optimizer), p->optimizer);
    if (s->all->nodes == 0)
        FAIL(STATUS_UNSUPPORTED, "the plan with \"steps\" lists no operators to compute");
    if (s->halves > HALVES)
        FAIL(STATUS_UNSUPPORTED,
             "got %zu microbatches, expected at most %d in a plan with \"steps\"", s->halves,
             HALVES);
    TRY(gemm_single_thread());
    TRY(open_memory(s));
    TRY(check_list(s, rank));
    TRY(sharded_find_inputs(s));
    sharded_start(s);
    MOVE(out, s);
out:
    sharded_close(s);
    return st;
}

void sharded_close(struct sharded *s)
{
    for (size_t half = 0; s && half < HALVES; half++) {
        free(s->slot[half]);
        free(s->call[half]);
    }
    if (s) {
        const struct memory *m = &s->on->memory;
        real *const piece[] = {s->parameter, s->gradient, s->moment,
                               s->square,    s->numbers,  s->work};
        for (size_t k = 0; k < sizeof piece / sizeof *piece; k++)
            m->backend->release(m->self, piece[k]);
        free(s->kind);
        free(s->shared);
        free(s->drawn);
        free(s->token);
        free(s->target);
    }
    free(s);
}

/* ---- passes */

/* The first op of an iteration finds nothing of the last one. */
static void sharded_begin_step(struct sharded *s)
{
    if (s->begun)
        return;
    double start_s = s->seconds ? clock_now() : 0;
    s->begun = true;
    const struct memory *m = &s->on->memory;
    m->backend->zero(m->self, s->numbers, s->gradients_n * sizeof(real));
    m->backend->zero(m->self, s->gradient, s->parameters * sizeof(real));
    for (size_t half = 0; half < s->halves; half++) {
        s->forward[half] = 0;
        s->backward[half] = s->all->nodes;
        s->step_in[half] = 0;
        s->step_out[half] = UINT32_MAX;
    }
    sharded_inputs(s);
    if (s->seconds)
        s->begin_s += clock_now() - start_s;
}

/* What the tensors of a step need of nobody else. What halves share is the first one's, which comes
 * first forward and last backward. */
static void convert_step(struct sharded *s, uint32_t step, size_t half, bool backward)
{
    for (uint32_t t = 0; t < s->all->tensors; t++)
        if (s->all->tensor[t].to != FORM_NONE && s->all->tensor[t].step == step &&
            (half == 0 || !s->shared[t]))
            sharded_convert(s, t, half, backward);
}

/* The loss, and its gradient, which is all of it on every rank. */
static void sharded_end_loss(struct sharded *s, const struct operators_node *n, size_t half)
{
    const struct operand *o = operand_of(s, n, 0, half);
    double samples = (double)s->halves * s->program->microbatch_size;
    s->on->does->end(s->on->memory.self, o->value, samples, o->gradient, &s->loss);
}

static void sharded_compute_node(struct sharded *s, size_t node, size_t half, bool backward)
{
    struct operator_call *c = &s->call[half][node];
    double start_s = s->seconds ? clock_now() : 0;
    backward ? s->kind[node]->backward(c) : s->kind[node]->forward(c);
    if (s->seconds)
        s->seconds[2 * node + backward] += clock_now() - start_s;
}

void sharded_forward(struct sharded *s, uint32_t step, size_t half)
{
    sharded_begin_step(s);
    size_t *at = &s->forward[half];
    for (; *at < s->all->nodes && s->all->node[*at].step <= step; ++*at) {
        const struct operators_node *n = &s->all->node[*at];
        for (; s->step_in[half] <= n->step; s->step_in[half]++)
            convert_step(s, s->step_in[half], half, false);
        struct operator_call *c = &s->call[half][*at];
        c->key = random_key(random_key(s->program->seed, s->updates), *at);
        if (s->kind[*at])
            sharded_compute_node(s, *at, half, false);
        else if (n->reads > 0)
            sharded_end_loss(s, n, half);
    }
}

void sharded_backward(struct sharded *s, uint32_t step, size_t half)
{
    size_t *at = &s->backward[half];
    uint32_t last = s->all->node[s->all->nodes - 1].step;
    sharded_forward(s, last, half); /* the output, where its step has no ops */
    s->step_out[half] = s->step_out[half] > last ? last + 1 : s->step_out[half];
    while (*at > 0 && s->all->node[*at - 1].step >= step) {
        const struct operators_node *n = &s->all->node[--*at];
        for (; s->step_out[half] > n->step + 1; s->step_out[half]--)
            convert_step(s, s->step_out[half] - 1, half, true);
        if (s->kind[*at])
            sharded_compute_node(s, *at, half, true);
    }
    for (; s->step_out[half] > step; s->step_out[half]--)
        convert_step(s, s->step_out[half] - 1, half, true);
}

/* All but masks, whose gradients nobody makes, are trained. */
static void sharded_adam(struct sharded *s, double factor)
{
    double t = (double)(s->updates + 1), unbiased = 1 - pow(ADAM_BETA1, t);
    struct optimizer_step o = {
        .n = s->parameters,
        .parameter = s->parameter,
        .gradient = s->gradient,
        .moment = s->moment,
        .square = s->square,
        .rate = (real)(s->learning_rate * factor / (s->moment ? unbiased : 1)),
        .unbias = (real)(1 / sqrt(1 - pow(ADAM_BETA2, t))),
        .scale = 1,
    };
    s->on->memory.backend->update(s->on->memory.self, &o);
}

static void go_back(struct sharded *s)
{
    for (size_t half = s->halves; half-- > 0;)
        sharded_backward(s, 0, half);
}

void sharded_update(struct sharded *s, double factor)
{
    go_back(s);
    sharded_adam(s, factor);
    s->updates++;
    s->begun = false;
}

/* Nothing is learned from gradients of 0, and nobody's part of a tensor has come. */
void sharded_rehearse(struct sharded *s)
{
    sharded_adam(s, 0);
    for (size_t half = 0; half < s->halves; half++)
        sharded_forward(s, UINT32_MAX, half);
    go_back(s);
    s->begun = false;
    s->loss = 0;
}
