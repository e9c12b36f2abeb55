#include "core/lower.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/cost.h"
#include "core/schedule.h"

/* What goes from one stage to another for every microbatch. */
struct edge {
    uint32_t from, to; /* stages, from < to */
    int64_t bytes;     /* per microbatch */
};

/* The growing list of one rank; dependencies are positions in the same list. */
struct list {
    size_t n, room, deps, dep_room;
    struct program_op *op;
    uint32_t *dep;
    size_t step, steps; /* progress in the schedule */
    struct schedule_step *schedule;
    bool queued;
};

struct lowering {
    const struct plan *plan;
    const struct model *model;
    const struct topology *topology;
    uint32_t *stage_of; /* [model->n] */
    size_t edges;
    struct edge *edge;            /* [edges] sorted by (from, to) */
    size_t *in_start, *out_start; /* [stages + 1] */
    uint32_t *in;                 /* [edges] edge ids by destination stage */
    uint32_t *first_rank;         /* [stages + 1] */
    uint32_t *queue;              /* [ranks] ranks that may go on */
    size_t head, length;
    struct list *list; /* [ranks] */
    /* Position + 1 in the receiver's list of the RECV of edge e and microbatch m. */
    uint32_t *arrived, *returned; /* [edges * microbatches] activations, gradients */
};

/* ---- stages and what crosses between them */

enum status crossing_ops(const struct model *m, const uint32_t *stage_of, uint32_t from,
                         uint32_t to, uint32_t **op, size_t *n)
{
    uint32_t *found = calloc(m->n + 1, sizeof *found);
    size_t count = 0;
    if (!found)
        return error_set(STATUS_NOMEM, "%zu ops", m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        if (stage_of[i] != from)
            continue;
        bool needed = false;
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
            needed = needed || stage_of[m->out[k]] == to;
        if (needed)
            found[count++] = i;
    }
    if (count == 0) {
        free(found);
        found = NULL;
    }
    *op = found;
    *n = count;
    return STATUS_OK;
}

static int by_stages(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* One entry per (op, other stage that reads it), merged per pair of stages. */
static enum status find_edges(struct lowering *l)
{
    const struct model *m = l->model;
    size_t n = 0, stages = l->plan->stages;
    uint32_t *seen = calloc(stages, sizeof *seen); /* op + 1 that was counted for a stage last */
    l->edge = calloc(m->edges + 1, sizeof *l->edge);
    if (!seen || !l->edge) {
        free(seen);
        return error_set(STATUS_NOMEM, "%zu edges", m->edges);
    }
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++) {
            uint32_t to = l->stage_of[m->out[k]];
            if (to == l->stage_of[i] || seen[to] == i + 1)
                continue;
            seen[to] = i + 1;
            l->edge[n++] =
                (struct edge){l->stage_of[i], to, m->op[i].output_bytes * l->plan->microbatch_size};
        }
    free(seen);
    qsort(l->edge, n, sizeof *l->edge, by_stages);
    for (size_t k = 0; k < n; k++) {
        struct edge *last = l->edges > 0 ? &l->edge[l->edges - 1] : NULL;
        if (last && by_stages(last, &l->edge[k]) == 0)
            last->bytes += l->edge[k].bytes;
        else
            l->edge[l->edges++] = l->edge[k];
    }
    return STATUS_OK;
}

static enum status index_edges(struct lowering *l)
{
    size_t stages = l->plan->stages;
    l->in_start = calloc(stages + 2, sizeof *l->in_start);
    l->out_start = calloc(stages + 2, sizeof *l->out_start);
    l->in = calloc(l->edges + 1, sizeof *l->in);
    if (!l->in_start || !l->out_start || !l->in)
        return error_set(STATUS_NOMEM, "%zu stages", stages);
    for (size_t e = 0; e < l->edges; e++) {
        l->in_start[l->edge[e].to + 2]++;
        l->out_start[l->edge[e].from + 1]++;
    }
    for (size_t s = 0; s < stages; s++) {
        l->in_start[s + 2] += l->in_start[s + 1];
        l->out_start[s + 1] += l->out_start[s];
    }
    for (uint32_t e = 0; e < l->edges; e++)
        l->in[l->in_start[l->edge[e].to + 1]++] = e;
    return STATUS_OK;
}

static enum status prepare(struct lowering *l)
{
    enum status st = STATUS_OK;
    const struct plan *p = l->plan;
    size_t ranks = 0;

    l->stage_of = calloc(l->model->n + 1, sizeof *l->stage_of);
    l->first_rank = calloc(p->stages + 1, sizeof *l->first_rank);
    if (!l->stage_of || !l->first_rank)
        return error_set(STATUS_NOMEM, "%zu ops", l->model->n);
    for (uint32_t s = 0; s < p->stages; s++) {
        for (size_t k = 0; k < p->stage[s].ops; k++)
            l->stage_of[p->stage[s].op[k]] = s;
        l->first_rank[s] = (uint32_t)ranks;
        ranks += p->stage[s].replicas;
    }
    l->first_rank[p->stages] = (uint32_t)ranks;
    TRY(find_edges(l));
    TRY(index_edges(l));
    if ((double)l->edges * p->microbatches * 2 >= PROGRAM_NONE)
        return error_set(STATUS_INVALID,
                         "%zu connections between stages x %u microbatches: too many", l->edges,
                         p->microbatches);
    l->list = calloc(ranks, sizeof *l->list);
    l->queue = calloc(ranks, sizeof *l->queue);
    l->arrived = calloc(l->edges * p->microbatches + 1, sizeof *l->arrived);
    l->returned = calloc(l->edges * p->microbatches + 1, sizeof *l->returned);
    if (!l->list || !l->queue || !l->arrived || !l->returned)
        st = error_set(STATUS_NOMEM, "%zu ranks", ranks);
out:
    return st;
}

static size_t ranks_of(const struct lowering *l)
{
    return l->first_rank[l->plan->stages];
}

static uint32_t rank_for(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    return l->first_rank[stage] + microbatch % l->plan->stage[stage].replicas;
}

/* ---- growing lists */

static enum status append(struct list *list, const struct program_op *op, uint32_t *position)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        struct program_op *larger = realloc(list->op, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu ops", room);
        list->op = larger;
        list->room = room;
    }
    list->op[list->n] = *op;
    list->op[list->n].dep_start = (uint32_t)list->deps;
    if (position)
        *position = (uint32_t)list->n;
    list->n++;
    return STATUS_OK;
}

/* The op appended last depends on the one at `position`. */
static enum status depend(struct list *list, uint32_t position)
{
    if (list->deps == list->dep_room) {
        size_t room = list->dep_room ? 2 * list->dep_room : 64;
        uint32_t *larger = realloc(list->dep, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu dependencies", room);
        list->dep = larger;
        list->dep_room = room;
    }
    list->dep[list->deps++] = position;
    return STATUS_OK;
}

static void wake(struct lowering *l, uint32_t rank)
{
    if (l->list[rank].queued)
        return;
    l->list[rank].queued = true;
    l->queue[(l->head + l->length++) % ranks_of(l)] = rank;
}

/* SEND in the sender's list and, in the same instant, RECV in the receiver's. */
static enum status transfer(struct lowering *l, uint32_t e, bool backward, uint32_t microbatch,
                            uint32_t computed)
{
    enum status st;
    const struct edge *edge = &l->edge[e];
    uint32_t from = backward ? edge->to : edge->from, to = backward ? edge->from : edge->to;
    uint32_t source = rank_for(l, from, microbatch), target = rank_for(l, to, microbatch);
    uint32_t channel = backward ? (uint32_t)l->edges + e : e, position;
    struct program_op op = {.kind = OP_SEND,
                            .backward = backward,
                            .stage = from,
                            .microbatch = microbatch,
                            .peer = target,
                            .peer_stage = to,
                            .tag = channel * l->plan->microbatches + microbatch,
                            .bytes = edge->bytes};
    TRY(append(&l->list[source], &op, NULL));
    TRY(depend(&l->list[source], computed));
    op.kind = OP_RECV;
    op.stage = to;
    op.peer = source;
    op.peer_stage = from;
    TRY(append(&l->list[target], &op, &position));
    uint32_t *slot = backward ? l->returned : l->arrived;
    slot[(size_t)e * l->plan->microbatches + microbatch] = position + 1;
    wake(l, target);
out:
    return st;
}

/* ---- the replay */

struct stage_cost {
    double forward_s, backward_s, update_s;
    int64_t stash_bytes, static_bytes;
};

static struct stage_cost cost_stage(const struct lowering *l, uint32_t stage, uint32_t device)
{
    struct stage_cost c = {0};
    const struct plan_stage *s = &l->plan->stage[stage];
    const struct device_type *type = topology_type(l->topology, device);
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &l->model->op[s->op[k]];
        struct op_cost cost =
            cost_op(l->model, type, s->op[k], l->plan->microbatch_size, l->plan->optimizer);
        bool copy = o->shares != MODEL_NO_OP && l->stage_of[o->shares] != stage;
        c.forward_s += cost.forward_s;
        c.backward_s += cost.backward_s;
        c.update_s += cost.update_s;
        c.stash_bytes += o->stash_bytes * l->plan->microbatch_size;
        c.static_bytes += (o->parameter_bytes + (copy ? o->shared_bytes : 0)) *
                          cost_static_factor(l->plan->optimizer);
    }
    for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
        c.stash_bytes += l->edge[l->in[k]].bytes; /* received inputs stay until the backward */
    return c;
}

static size_t slot_of(const struct lowering *l, size_t edge, uint32_t microbatch)
{
    return edge * l->plan->microbatches + microbatch;
}

/* Is everything there that this step needs from other stages? */
static bool is_ready(const struct lowering *l, uint32_t stage, uint8_t kind, uint32_t microbatch)
{
    if (kind == OP_FORWARD) {
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            if (!l->arrived[slot_of(l, l->in[k], microbatch)])
                return false;
    } else {
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            if (!l->returned[slot_of(l, e, microbatch)])
                return false;
    }
    return true;
}

static enum status compute(struct lowering *l, uint32_t rank, uint32_t stage,
                           const struct stage_cost *cost, uint8_t kind, uint32_t microbatch,
                           uint32_t *forward /* [microbatches] position of each forward */)
{
    enum status st;
    struct list *list = &l->list[rank];
    uint32_t position;
    bool backward = kind == OP_BACKWARD;
    struct program_op op = {.kind = kind,
                            .stage = stage,
                            .microbatch = microbatch,
                            .peer = PROGRAM_NONE,
                            .peer_stage = PROGRAM_NONE,
                            .tag = PROGRAM_NONE,
                            .seconds = backward ? cost->backward_s : cost->forward_s,
                            .bytes = cost->stash_bytes};
    TRY(append(list, &op, &position));
    if (backward) {
        TRY(depend(list, forward[microbatch]));
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            TRY(depend(list, l->returned[slot_of(l, e, microbatch)] - 1));
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            TRY(transfer(l, l->in[k], true, microbatch, position));
    } else {
        forward[microbatch] = position;
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            TRY(depend(list, l->arrived[slot_of(l, l->in[k], microbatch)] - 1));
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            TRY(transfer(l, (uint32_t)e, false, microbatch, position));
    }
out:
    return st;
}

static uint32_t stage_of_rank(const struct lowering *l, uint32_t rank)
{
    uint32_t low = 0, high = (uint32_t)l->plan->stages;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (l->first_rank[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The steps of every rank, in its own list's terms. */
static enum status schedule_ranks(struct lowering *l)
{
    enum status st;
    const struct schedule *schedule;
    const struct plan *p = l->plan;

    TRY(schedule_find(p->schedule, &schedule));
    for (uint32_t rank = 0; rank < ranks_of(l); rank++) {
        uint32_t stage = stage_of_rank(l, rank), replica = rank - l->first_rank[stage];
        uint32_t replicas = p->stage[stage].replicas;
        size_t mine = (p->microbatches - replica + replicas - 1) / replicas;
        struct list *list = &l->list[rank];
        list->steps = 2 * mine;
        list->schedule = calloc(list->steps + 1, sizeof *list->schedule);
        if (!list->schedule)
            return error_set(STATUS_NOMEM, "schedule of %zu steps", list->steps);
        schedule->steps(p->stages, stage, mine, list->schedule);
        wake(l, rank);
    }
out:
    return st;
}

static enum status replay(struct lowering *l, const struct stage_cost *cost /* [ranks] */)
{
    enum status st = STATUS_OK;
    size_t remaining = ranks_of(l);
    uint32_t *forward = calloc((size_t)ranks_of(l) + l->plan->microbatches * l->plan->stages + 1,
                               sizeof *forward); /* a microbatch has one rank per stage */
    if (!forward)
        return error_set(STATUS_NOMEM, "%u microbatches", l->plan->microbatches);
    while (l->length > 0) {
        uint32_t rank = l->queue[l->head], stage = stage_of_rank(l, rank);
        uint32_t replicas = l->plan->stage[stage].replicas, replica = rank - l->first_rank[stage];
        struct list *list = &l->list[rank];
        l->head = (l->head + 1) % ranks_of(l);
        l->length--;
        list->queued = false;
        if (list->step == list->steps)
            continue;
        struct schedule_step s = list->schedule[list->step];
        uint32_t microbatch = s.microbatch * replicas + replica;
        if (!is_ready(l, stage, s.kind, microbatch))
            continue;
        TRY(compute(l, rank, stage, &cost[rank], s.kind, microbatch,
                    forward + (size_t)stage * l->plan->microbatches));
        remaining -= ++list->step == list->steps;
        wake(l, rank); /* one step per turn: RECVs stand near where they are needed */
    }
    if (remaining > 0)
        st = error_set(STATUS_INVALID,
                       "schedule %s cannot run on these stages: %zu ranks wait for "
                       "each other",
                       l->plan->schedule, remaining);
out:
    free(forward);
    return st;
}

/* ---- the end of the iteration */

/* Groups: one per stage with replicas, then one per (owner of tied weights, replica). */
struct grouping {
    size_t groups, members, room;
    size_t *start;    /* [groups + 1] */
    uint32_t *member; /* [members] */
    uint32_t *tag;    /* [groups] owner op or PROGRAM_NONE */
    int64_t *bytes;   /* [groups] */
};

static void close_group(struct grouping *g, uint32_t tag, int64_t bytes)
{
    g->tag[g->groups] = tag;
    g->bytes[g->groups++] = bytes;
    g->start[g->groups] = g->members;
}

static int64_t stage_parameter_bytes(const struct lowering *l, uint32_t stage)
{
    int64_t bytes = 0;
    const struct plan_stage *s = &l->plan->stage[stage];
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &l->model->op[s->op[k]];
        bool copy = o->shares != MODEL_NO_OP && l->stage_of[o->shares] != stage;
        bytes += o->parameter_bytes + (copy ? o->shared_bytes : 0);
    }
    return bytes;
}

/* Stages other than the owner's in which an op borrows parameters of `owner`; tied[] marks them. */
static size_t tied_stages(const struct lowering *l, uint32_t owner, bool *tied, int64_t *bytes)
{
    size_t n = 0;
    memset(tied, 0, l->plan->stages * sizeof *tied);
    for (size_t i = owner + 1; i < l->model->n; i++) {
        const struct model_op *o = &l->model->op[i];
        if (o->shares != owner || l->stage_of[i] == l->stage_of[owner] || tied[l->stage_of[i]])
            continue;
        tied[l->stage_of[i]] = true;
        *bytes = o->shared_bytes > *bytes ? o->shared_bytes : *bytes;
        n++;
    }
    return n;
}

static enum status tie_groups(const struct lowering *l, struct grouping *g, bool *tied)
{
    const struct plan *p = l->plan;
    for (uint32_t owner = 0; owner < l->model->n; owner++) {
        int64_t bytes = 0;
        uint32_t home = l->stage_of[owner];
        if (l->model->op[owner].parameter_bytes == 0 || !tied_stages(l, owner, tied, &bytes))
            continue;
        tied[home] = true;
        for (uint32_t s = 0; s < p->stages; s++)
            if (tied[s] && p->stage[s].replicas != p->stage[home].replicas)
                return error_set(STATUS_UNSUPPORTED,
                                 "op '%s' shares its parameters between stages %u and %u, which "
                                 "need equally many replicas",
                                 l->model->op[owner].name, home, s);
        for (uint32_t replica = 0; replica < p->stage[home].replicas; replica++) {
            for (uint32_t s = 0; s < p->stages; s++)
                if (tied[s])
                    g->member[g->members++] = l->first_rank[s] + replica;
            close_group(g, owner, bytes);
        }
    }
    return STATUS_OK;
}

/* How many groups and members there can be at most: replicas, and tied weights. */
static enum status make_groups(const struct lowering *l, struct grouping *g)
{
    enum status st = STATUS_OK;
    size_t ranks = ranks_of(l), owners = 0;
    bool *tied = calloc(l->plan->stages, sizeof *tied);
    for (uint32_t i = 0; i < l->model->n; i++)
        owners += l->model->op[i].shares != MODEL_NO_OP; /* at most so many distinct owners */
    g->start = calloc(l->plan->stages + owners * ranks + 2, sizeof *g->start);
    g->tag = calloc(l->plan->stages + owners * ranks + 1, sizeof *g->tag);
    g->bytes = calloc(l->plan->stages + owners * ranks + 1, sizeof *g->bytes);
    g->member = calloc((owners + 1) * ranks + 1, sizeof *g->member);
    if (!tied || !g->start || !g->tag || !g->bytes || !g->member) {
        st = error_set(STATUS_NOMEM, "groups of %zu ranks", ranks);
        goto out;
    }
    for (uint32_t s = 0; s < l->plan->stages; s++) {
        int64_t bytes = stage_parameter_bytes(l, s);
        if (l->plan->stage[s].replicas < 2 || bytes == 0)
            continue;
        for (uint32_t r = l->first_rank[s]; r < l->first_rank[s + 1]; r++)
            g->member[g->members++] = r;
        close_group(g, PROGRAM_NONE, bytes);
    }
    if (owners > 0)
        TRY(tie_groups(l, g, tied));
out:
    free(tied);
    return st;
}

static enum status finish_ranks(struct lowering *l, const struct grouping *g,
                                const struct stage_cost *cost)
{
    enum status st = STATUS_OK;
    /* Group by group, so that every rank meets its groups in the same global order. The first
     * collective of a rank waits for its last backward, a later one for the one before. */
    for (size_t k = 0; k < g->groups; k++)
        for (size_t i = g->start[k]; i < g->start[k + 1]; i++) {
            struct list *list = &l->list[g->member[i]];
            uint32_t position = (uint32_t)list->n - 1;
            while (list->op[position].kind != OP_BACKWARD && list->op[position].kind < OP_ALLREDUCE)
                position--; /* skip the last SENDs */
            struct program_op op = {.kind = OP_ALLREDUCE,
                                    .stage = stage_of_rank(l, g->member[i]),
                                    .microbatch = PROGRAM_NONE,
                                    .peer = (uint32_t)k,
                                    .peer_stage = PROGRAM_NONE,
                                    .tag = g->tag[k],
                                    .bytes = g->bytes[k]};
            TRY(append(list, &op, NULL));
            TRY(depend(list, position));
        }
    for (uint32_t rank = 0; rank < ranks_of(l); rank++) {
        struct list *list = &l->list[rank];
        uint32_t last = (uint32_t)list->n - 1;
        struct program_op op = {.kind = OP_UPDATE,
                                .stage = stage_of_rank(l, rank),
                                .microbatch = PROGRAM_NONE,
                                .peer = PROGRAM_NONE,
                                .peer_stage = PROGRAM_NONE,
                                .tag = PROGRAM_NONE,
                                .seconds = cost[rank].update_s};
        TRY(append(list, &op, NULL));
        if (list->op[last].kind >= OP_ALLREDUCE)
            TRY(depend(list, last));
    }
out:
    return st;
}

/* ---- flattening */

static enum status copy_stages(const struct lowering *l, struct program *out)
{
    const struct plan *p = l->plan;
    size_t n = 0;
    out->stages = p->stages;
    out->stage_start = calloc(p->stages + 1, sizeof *out->stage_start);
    out->stage_op = calloc(l->model->n + 1, sizeof *out->stage_op);
    if (!out->stage_start || !out->stage_op)
        return error_set(STATUS_NOMEM, "%zu stages", p->stages);
    for (size_t s = 0; s < p->stages; s++) {
        memcpy(out->stage_op + n, p->stage[s].op, p->stage[s].ops * sizeof *out->stage_op);
        n += p->stage[s].ops;
        out->stage_start[s + 1] = n;
    }
    return STATUS_OK;
}

static enum status copy_text(const char *text, char **out)
{
    size_t length = strlen(text) + 1;
    *out = malloc(length);
    if (!*out)
        return error_set(STATUS_NOMEM, "out of memory");
    memcpy(*out, text, length);
    return STATUS_OK;
}

static enum status copy_ranks(const struct lowering *l, const struct stage_cost *cost,
                              struct program *out)
{
    enum status st = STATUS_OK;
    out->rank = calloc(ranks_of(l), sizeof *out->rank);
    out->op_start = calloc(ranks_of(l) + 1, sizeof *out->op_start);
    if (!out->rank || !out->op_start)
        return error_set(STATUS_NOMEM, "%zu ranks", (size_t)ranks_of(l));
    out->ranks = ranks_of(l);
    for (uint32_t r = 0; r < out->ranks; r++) {
        uint32_t stage = stage_of_rank(l, r), replica = r - l->first_rank[stage];
        uint32_t device = l->plan->stage[stage].device[replica];
        out->rank[r].device = device;
        out->rank[r].stage = stage;
        out->rank[r].replica = replica;
        out->rank[r].static_bytes = cost[r].static_bytes;
        TRY(copy_text(l->topology->device[device], &out->rank[r].name));
        out->op_start[r + 1] = out->op_start[r] + l->list[r].n;
        out->deps += l->list[r].deps;
    }
    out->ops = out->op_start[out->ranks];
out:
    return st;
}

static enum status copy_ops(struct lowering *l, struct program *out)
{
    size_t deps = 0;
    out->op = calloc(out->ops + 1, sizeof *out->op);
    out->dep = calloc(out->deps + 1, sizeof *out->dep);
    if (!out->op || !out->dep)
        return error_set(STATUS_NOMEM, "program of %zu ops", out->ops);
    for (size_t r = 0; r < out->ranks; r++) {
        struct list *list = &l->list[r];
        size_t base = out->op_start[r];
        for (size_t i = 0; i < list->n; i++) {
            out->op[base + i] = list->op[i];
            out->op[base + i].dep_start += (uint32_t)deps;
        }
        for (size_t d = 0; d < list->deps; d++)
            out->dep[deps++] = (uint32_t)base + list->dep[d];
        free(list->op);
        free(list->dep);
        list->op = NULL;
        list->dep = NULL;
    }
    out->op[out->ops].dep_start = (uint32_t)deps;
    return STATUS_OK;
}

static enum status flatten(struct lowering *l, const struct stage_cost *cost, struct grouping *g,
                           struct program *out)
{
    enum status st;
    TRY(copy_stages(l, out));
    TRY(copy_ranks(l, cost, out));
    TRY(copy_ops(l, out));
    out->groups = g->groups;
    out->group_start = g->start;
    out->member = g->member;
    g->start = NULL;
    g->member = NULL;
    out->microbatches = l->plan->microbatches;
    out->microbatch_size = l->plan->microbatch_size;
    out->tokens_per_sample = l->model->tokens_per_sample;
    out->seed = l->plan->seed;
    TRY(copy_text(l->plan->optimizer, &out->optimizer));
    TRY(program_match(out));
    TRY(program_check(out, NULL));
out:
    return st;
}

static void lowering_free(struct lowering *l)
{
    for (size_t r = 0; l->list && r < ranks_of(l); r++) {
        free(l->list[r].op);
        free(l->list[r].dep);
        free(l->list[r].schedule);
    }
    free(l->list);
    free(l->queue);
    free(l->arrived);
    free(l->returned);
    free(l->edge);
    free(l->in_start);
    free(l->out_start);
    free(l->in);
    free(l->first_rank);
    free(l->stage_of);
}

enum status plan_lower(const struct plan *p, const struct model *m, const struct topology *t,
                       struct program *out)
{
    enum status st;
    struct lowering l = {.plan = p, .model = m, .topology = t};
    struct grouping g = {0};
    struct stage_cost *cost = NULL;
    struct program program = {0};

    TRY(plan_check(p, m, t));
    for (size_t s = 0; s < p->stages; s++)
        if (p->stage[s].tensor_parallel != 1 || p->stage[s].recompute)
            return error_set(STATUS_UNSUPPORTED, "stage %zu: %s is not simulated yet", s,
                             p->stage[s].recompute ? "recomputation" : "tensor parallelism");
    TRY(prepare(&l));
    cost = calloc(ranks_of(&l), sizeof *cost);
    if (!cost) {
        st = error_set(STATUS_NOMEM, "%zu ranks", (size_t)ranks_of(&l));
        goto out;
    }
    for (uint32_t r = 0; r < ranks_of(&l); r++) {
        uint32_t stage = stage_of_rank(&l, r);
        cost[r] = cost_stage(&l, stage, p->stage[stage].device[r - l.first_rank[stage]]);
    }
    TRY(schedule_ranks(&l));
    TRY(replay(&l, cost));
    TRY(make_groups(&l, &g));
    TRY(finish_ranks(&l, &g, cost));
    TRY(flatten(&l, cost, &g, &program));
    *out = program;
    program = (struct program){0};
out:
    program_free(&program);
    free(g.start);
    free(g.member);
    free(g.tag);
    free(g.bytes);
    free(cost);
    lowering_free(&l);
    return st;
}
