/* Loads that follow every move, and one walk over the steps of all teams. */
#include "partition/graph/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "core/schedule/op_kind.h"

/* Depths of the pipeline that are walked through, and microbatches at least; the rest follows. */
enum { FILLS = 2, FEWEST = 8 };

/* What crosses from one stage to another. */
struct pipeline_message {
    uint32_t to;
    double bytes;
    size_t way;
};

/* What a stage waits for before it does a microbatch forwards, or backwards. */
struct pipeline_wait {
    double ready_s; /* the last message so far */
    size_t left;    /* messages that have not come */
};

struct pipeline_load {
    double step_s[OP_BACKWARD_WEIGHT + 1]; /* by kind of step */
};

struct pipeline_team {
    double load_s, behind_s; /* of all its stages: of a microbatch, behind the last one */
    size_t next;             /* step */
    double free_s;           /* when it has ended what it last did */
    bool running;
};

void pipeline_free(struct pipeline *x)
{
    arena_free(&x->memory);
    *x = (struct pipeline){0};
}

/* ---- made once */

static enum status make_steps(struct pipeline *x, const struct plan *p,
                              const struct schedule *schedule)
{
    PASS(ARENA_NEW(&x->memory, x->step, x->teams));
    PASS(ARENA_NEW(&x->memory, x->step_n, x->teams));
    for (uint32_t team = 0; team < x->teams; team++) {
        struct schedule_place at = plan_lower_place(p, (uint32_t)x->teams, team);
        uint32_t most = FILLS * at.teams > FEWEST ? FILLS * at.teams : FEWEST / at.teams * at.teams;
        struct schedule_step *step;
        x->more = 0;
        if (at.microbatches > most && at.microbatches % at.teams == 0) {
            x->more = at.microbatches - most;
            at.microbatches = most;
        }
        x->microbatches = at.microbatches;
        PASS(ARENA_NEW(&x->memory, step, schedule_steps(schedule, &at)));
        x->step_n[team] = schedule->order(&at, step);
        x->steps += x->step_n[team];
        for (size_t k = 0; k < x->step_n[team]; k++)
            step[k].chunk = schedule_stage(schedule, (uint32_t)x->teams, team, step[k].chunk);
        x->step[team] = step;
    }
    return STATUS_OK;
}

/* The devices of every team, then those that no team has in the order of their numbers. */
static enum status make_places(struct pipeline *x, const struct plan *p)
{
    bool *used;
    PASS(ARENA_NEW(&x->memory, used, x->t->n));
    PASS(ARENA_NEW(&x->memory, x->device, x->t->n + x->width));
    for (size_t s = 0; s < x->stages; s++) {
        uint32_t *to = x->device + x->team_of[s] * x->width;
        memcpy(to, p->stage[s].device, x->width * sizeof *to);
        for (size_t k = 0; k < x->width; k++)
            used[to[k]] = true;
    }
    size_t n = x->teams * x->width;
    for (uint32_t d = 0; d < x->t->n; d++)
        if (!used[d])
            x->device[n++] = d;
    x->places = n / x->width;
    return ways_make(x->t, x->places, x->width, x->device, &x->memory, &x->ways);
}

static enum status make_arrays(struct pipeline *x)
{
    size_t stages = x->stages, types = x->u->types;
    struct arena *a = &x->memory;
    PASS(ARENA_NEW(a, x->units, stages));
    PASS(ARENA_NEW(a, x->forward_s, types * stages));
    PASS(ARENA_NEW(a, x->backward_s, types * stages));
    PASS(ARENA_NEW(a, x->update_s, types * stages));
    PASS(ARENA_NEW(a, x->held_bytes, stages));
    PASS(ARENA_NEW(a, x->summed_bytes, stages));
    PASS(ARENA_NEW(a, x->stash_bytes, stages));
    PASS(ARENA_NEW(a, x->bytes, stages * stages));
    PASS(ARENA_NEW(a, x->waiting, 2 * stages * x->microbatches));
    PASS(ARENA_NEW(a, x->team, x->teams));
    PASS(ARENA_NEW(a, x->running.event, x->teams + 1));
    PASS(ARENA_NEW(a, x->link_free_s, x->ways.links));
    for (int back = 0; back < 2; back++) {
        PASS(ARENA_NEW(a, x->message[back], stages * stages / 2 + 1));
        PASS(ARENA_NEW(a, x->message_start[back], stages + 1));
    }
    PASS(ARENA_NEW(a, x->load, stages));
    return ARENA_NEW(a, x->mark, stages);
}

/* The stage of every unit, as the plan has its first op. */
static enum status read_cut(struct pipeline *x, const struct plan *p)
{
    struct graph_cut cut;
    uint32_t *stage_of;
    PASS(graph_cut_new(x, &x->memory, &x->cut));
    PASS(graph_cut_new(x, &x->memory, &cut));
    PASS(ARENA_NEW(&x->memory, stage_of, x->u->ops));
    for (uint32_t s = 0; s < x->stages; s++)
        for (size_t k = 0; k < p->stage[s].ops; k++)
            stage_of[p->stage[s].op[k]] = s;
    for (size_t k = 0; k < x->u->n; k++)
        cut.stage[k] = stage_of[x->u->first[k]];
    for (uint32_t team = 0; team < x->teams; team++)
        cut.place[team] = team;
    pipeline_set(x, &cut);
    return STATUS_OK;
}

static enum status make_pipeline(struct pipeline *x, const struct plan *p)
{
    const struct schedule *schedule;
    PASS(schedule_find(p->schedule, &schedule));
    PASS(ARENA_NEW(&x->memory, x->team_of, p->stages));
    x->teams = plan_teams(p, x->team_of);
    bool alike =
        !schedule->asynchronous && !schedule->crossed && p->stages % x->teams == 0 && p->steps == 0;
    for (size_t s = 1; s < p->stages; s++)
        alike = alike && p->stage[s].devices == p->stage[0].devices &&
                p->stage[s].replicas == p->stage[0].replicas;
    if (!alike)
        return error_set(STATUS_UNSUPPORTED, "graph cuts need a schedule with a flush, and stages "
                                             "with equally many devices and replicas");
    PASS(make_places(x, p));
    PASS(make_steps(x, p, schedule));
    PASS(make_arrays(x));
    return read_cut(x, p);
}

enum status pipeline_make(const struct plan *p, const struct units *u, const struct topology *t,
                          const int64_t *reserve_bytes, struct pipeline *out)
{
    enum status st;
    struct pipeline x = {.u = u,
                         .t = t,
                         .stages = p->stages,
                         .width = p->stage[0].devices,
                         .replicas = plan_streams(&p->stage[0])};
    TRY(ARENA_NEW(&x.memory, x.room_bytes, t->types));
    for (size_t k = 0; k < t->types; k++)
        x.room_bytes[k] =
            (double)(t->type[k].memory_bytes - (reserve_bytes ? reserve_bytes[k] : 0));
    TRY(make_pipeline(&x, p));
    MOVE(out, x);
out:
    pipeline_free(&x);
    return st;
}

/* ---- cuts */

enum status graph_cut_new(const struct pipeline *x, struct arena *a, struct graph_cut *out)
{
    PASS(ARENA_NEW(a, out->stage, x->u->n));
    return ARENA_NEW(a, out->place, x->teams);
}

void graph_cut_copy(const struct pipeline *x, const struct graph_cut *from, struct graph_cut *to)
{
    memcpy(to->stage, from->stage, x->u->n * sizeof *to->stage);
    memcpy(to->place, from->place, x->teams * sizeof *to->place);
}

/* What the tensor adds to the bytes that cross, times `sign`: once for each stage that reads it. */
static void cross(struct pipeline *x, size_t tensor, double sign)
{
    const struct units *u = x->u;
    uint32_t from = x->cut.stage[u->tensor[tensor].from];
    double bytes = sign * u->tensor[tensor].bytes;
    x->mark[from] = ++x->marks;
    for (size_t r = u->reader_start[tensor]; r < u->reader_start[tensor + 1]; r++) {
        uint32_t to = x->cut.stage[u->reader[r]];
        if (x->mark[to] != x->marks)
            x->bytes[from * x->stages + to] += bytes;
        x->mark[to] = x->marks;
    }
}

static void load(struct pipeline *x, uint32_t unit, double sign)
{
    const struct units *u = x->u;
    uint32_t s = x->cut.stage[unit];
    for (size_t k = 0; k < u->types; k++) {
        x->forward_s[k * x->stages + s] += sign * u->forward_s[k * u->n + unit];
        x->backward_s[k * x->stages + s] += sign * u->backward_s[k * u->n + unit];
        x->update_s[k * x->stages + s] += sign * u->update_s[k * u->n + unit];
    }
    x->held_bytes[s] += sign * u->held_bytes[unit];
    x->summed_bytes[s] += sign * u->summed_bytes[unit];
    x->stash_bytes[s] += sign * u->stash_bytes[unit];
}

void pipeline_set(struct pipeline *x, const struct graph_cut *cut)
{
    size_t stages = x->stages, types = x->u->types;
    graph_cut_copy(x, cut, &x->cut);
    memset(x->units, 0, stages * sizeof *x->units);
    memset(x->forward_s, 0, types * stages * sizeof *x->forward_s);
    memset(x->backward_s, 0, types * stages * sizeof *x->backward_s);
    memset(x->update_s, 0, types * stages * sizeof *x->update_s);
    memset(x->held_bytes, 0, stages * sizeof *x->held_bytes);
    memset(x->summed_bytes, 0, stages * sizeof *x->summed_bytes);
    memset(x->stash_bytes, 0, stages * sizeof *x->stash_bytes);
    memset(x->bytes, 0, stages * stages * sizeof *x->bytes);
    for (uint32_t k = 0; k < x->u->n; k++) {
        x->units[cut->stage[k]]++;
        load(x, k, 1);
    }
    for (size_t k = 0; k < x->u->tensors; k++)
        cross(x, k, 1);
}

static void cross_all(struct pipeline *x, uint32_t unit, double sign)
{
    const struct units *u = x->u;
    for (size_t k = u->made_start[unit]; k < u->made_start[unit + 1]; k++)
        cross(x, k, sign);
    for (size_t k = u->read_start[unit]; k < u->read_start[unit + 1]; k++)
        cross(x, u->read[k], sign);
}

void pipeline_move(struct pipeline *x, uint32_t unit, uint32_t stage)
{
    cross_all(x, unit, -1);
    load(x, unit, -1);
    x->units[x->cut.stage[unit]]--;
    x->cut.stage[unit] = stage;
    x->units[stage]++;
    load(x, unit, 1);
    cross_all(x, unit, 1);
}

void pipeline_place(struct pipeline *x, uint32_t team, uint32_t place)
{
    for (size_t k = 0; k < x->teams; k++)
        if (x->cut.place[k] == place)
            x->cut.place[k] = x->cut.place[team];
    x->cut.place[team] = place;
}

/* ---- seconds */

static const uint32_t *place_of(const struct pipeline *x, size_t stage)
{
    return x->device + x->cut.place[x->team_of[stage]] * x->width;
}

/* Who sends to whom, forwards and backwards. Rounding leaves bytes where none are. */
static void find_messages(struct pipeline *x)
{
    size_t n[2] = {0, 0}, places = x->places;
    for (uint32_t a = 0; a < x->stages; a++)
        for (int back = 0; back < 2; back++) {
            size_t from = x->cut.place[x->team_of[a]];
            x->message_start[back][a] = n[back];
            for (uint32_t b = back ? 0 : a + 1; b < (back ? a : x->stages); b++) {
                double bytes = back ? x->bytes[b * x->stages + a] : x->bytes[a * x->stages + b];
                size_t to = x->cut.place[x->team_of[b]];
                if (bytes >= 0.5)
                    x->message[back][n[back]++] =
                        (struct pipeline_message){b, bytes, from * places + to};
            }
        }
    x->message_start[0][x->stages] = n[0];
    x->message_start[1][x->stages] = n[1];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* It leaves at `at` or when all links of its way are free; returns when it is there. */
static double arrival(struct pipeline *x, size_t way, double bytes, double at)
{
    const struct ways *w = &x->ways;
    double slowest_s = 0;
    for (size_t k = w->start[way]; k < w->start[way + 1]; k++)
        at = larger(at, x->link_free_s[w->link[k].link]);
    for (size_t k = w->start[way]; k < w->start[way + 1]; k++) {
        double seconds = bytes * w->link[k].byte_s;
        x->link_free_s[w->link[k].link] = at + seconds;
        slowest_s = larger(slowest_s, seconds);
    }
    return at + slowest_s + w->latency_s[way];
}

static struct pipeline_wait *wait_of(const struct pipeline *x, size_t stage, uint32_t m, bool back)
{
    return &x->waiting[(stage * x->microbatches + m) * 2 + back];
}

/* The team begins with its next step, if all that it waits for has come. */
static void begin(struct pipeline *x, uint32_t team)
{
    struct pipeline_team *t = &x->team[team];
    if (t->running || t->next == x->step_n[team])
        return;
    const struct schedule_step *step = &x->step[team][t->next];
    const struct pipeline_wait *w =
        wait_of(x, step->chunk, step->microbatch, step->kind != OP_FORWARD);
    if (step->kind != OP_BACKWARD_WEIGHT) {
        if (w->left > 0)
            return;
        t->free_s = larger(t->free_s, w->ready_s);
    }
    t->free_s += x->load[step->chunk].step_s[step->kind];
    t->running = true;
    events_put(&x->running, t->free_s, team);
}

/* What a stage has done forwards goes to who reads it, backwards to whom it has read. */
static void send(struct pipeline *x, size_t stage, uint32_t m, bool back, double at)
{
    for (size_t k = x->message_start[back][stage]; k < x->message_start[back][stage + 1]; k++) {
        const struct pipeline_message *message = &x->message[back][k];
        struct pipeline_wait *w = wait_of(x, message->to, m, back);
        w->ready_s = larger(w->ready_s, arrival(x, message->way, message->bytes, at));
        if (--w->left == 0)
            begin(x, x->team_of[message->to]);
    }
}

/* How many messages every stage waits for. */
static void count_messages(struct pipeline *x)
{
    memset(x->waiting, 0, 2 * x->stages * x->microbatches * sizeof *x->waiting);
    for (int back = 0; back < 2; back++)
        for (size_t k = 0; k < x->message_start[back][x->stages]; k++)
            for (uint32_t m = 0; m < x->microbatches; m++)
                wait_of(x, x->message[back][k].to, m, back)->left++;
}

/* All steps of all teams, in the order in which they end. */
static void run_steps(struct pipeline *x)
{
    count_messages(x);
    for (uint32_t team = 0; team < x->teams; team++)
        begin(x, team);
    while (x->running.n > 0) {
        uint32_t team = events_take(&x->running);
        struct pipeline_team *t = &x->team[team];
        const struct schedule_step *step = &x->step[team][t->next++];
        t->running = false;
        if (step->kind != OP_BACKWARD_WEIGHT)
            send(x, step->chunk, step->microbatch, step->kind != OP_FORWARD, t->free_s);
        begin(x, team);
    }
}

/* Seconds behind the last backward: gradients are summed over the replicas, and the update. */
static double behind(const struct pipeline *x, size_t stage, size_t type)
{
    const uint32_t *device = place_of(x, stage);
    double sums = 0;
    if (x->replicas > 1 && x->width > 1) {
        const struct topology_tier *tier = topology_between(x->t, device[0], device[x->width - 1]);
        sums = 2 * (x->replicas - 1) / x->replicas * x->summed_bytes[stage] / tier->bandwidth_Bps;
    }
    return sums + x->update_s[type * x->stages + stage];
}

/* Two teams that have the same weights sum their gradients, when both have ended: what each sends
 * of two halves, and gets, is once all. */
static void sum_ties(struct pipeline *x)
{
    for (size_t k = 0; k < x->u->ties; k++) {
        const struct unit_tie *tie = &x->u->tie[k];
        uint32_t a = x->team_of[x->cut.stage[tie->owner]],
                 b = x->team_of[x->cut.stage[tie->borrower]];
        if (a == b)
            continue;
        size_t way = x->cut.place[a] * x->places + x->cut.place[b];
        double at = larger(x->team[a].free_s, x->team[b].free_s);
        x->team[a].free_s = x->team[b].free_s = arrival(x, way, tie->bytes, at);
    }
}

/* Times by how much what is needed is more than there is: nothing fits that way. */
static double excess(const struct pipeline *x, size_t stage, size_t type)
{
    double flight = fmin(x->microbatches, (double)(x->stages - stage));
    double need = x->held_bytes[stage] + flight * x->stash_bytes[stage];
    return need > x->room_bytes[type] ? need / x->room_bytes[type] : 0;
}

/* What every stage takes on its place, and every team; returns what the slowest team computes of a
 * microbatch. *over: by how much memory is exceeded. */
static double find_loads(struct pipeline *x, double *over)
{
    double slowest_s = 0;
    memset(x->team, 0, x->teams * sizeof *x->team);
    for (size_t s = 0; s < x->stages; s++) {
        size_t type = x->t->type_of[*place_of(x, s)], i = type * x->stages + s;
        struct pipeline_team *team = &x->team[x->team_of[s]];
        double forward_s = x->forward_s[i], backward_s = x->backward_s[i];
        double *step_s = x->load[s].step_s;
        step_s[OP_FORWARD] = forward_s;
        step_s[OP_BACKWARD] = backward_s;
        step_s[OP_BACKWARD_INPUT] = step_s[OP_BACKWARD_WEIGHT] = backward_s / 2;
        team->load_s += forward_s + backward_s;
        team->behind_s += behind(x, s, type);
        *over += excess(x, s, type);
    }
    for (size_t k = 0; k < x->teams; k++)
        slowest_s = larger(slowest_s, x->team[k].load_s);
    return slowest_s;
}

double pipeline_seconds(struct pipeline *x, double limit_s)
{
    double end_s = 0, squares = 0, over = 0, slowest_s = find_loads(x, &over);
    double least_s = slowest_s * (x->microbatches + x->more) * (1 + over);
    if (least_s > limit_s)
        return least_s;
    memset(x->link_free_s, 0, x->ways.links * sizeof *x->link_free_s);
    find_messages(x);
    run_steps(x);
    sum_ties(x);
    x->walked += (double)x->steps;
    for (size_t k = 0; k < x->teams; k++) {
        squares += x->team[k].load_s * x->team[k].load_s;
        end_s = larger(end_s, x->team[k].free_s + x->team[k].behind_s);
    }
    return (end_s + x->more * slowest_s) * (1 + over) + 1e-6 * sqrt(squares);
}

double pipeline_crossing(const struct pipeline *x)
{
    double bytes = 0;
    for (size_t k = 0; k < x->stages * x->stages; k++)
        bytes += x->bytes[k];
    return bytes;
}

double pipeline_balance(const struct pipeline *x)
{
    double slowest_s = 0, sum_s = 0;
    for (size_t k = 0; k < x->teams; k++) {
        slowest_s = larger(slowest_s, x->team[k].load_s);
        sum_s += x->team[k].load_s;
    }
    return sum_s > 0 ? slowest_s * (double)x->teams / sum_s : 1;
}

/* ---- plans */

/* Room for the ops of every stage, none yet. */
static enum status empty_stages(const struct pipeline *x, const struct graph_cut *cut,
                                struct plan *out)
{
    enum status st = STATUS_OK;
    size_t *ops = NULL;
    TRY(ARRAY_NEW(ops, x->stages));
    for (size_t k = 0; k < x->u->n; k++)
        ops[cut->stage[k]] += x->u->first[k + 1] - x->u->first[k];
    for (size_t s = 0; s < x->stages; s++) {
        struct plan_stage *stage = &out->stage[s];
        free(stage->op);
        stage->ops = 0;
        TRY(ARRAY_NEW(stage->op, ops[s]));
    }
out:
    free(ops);
    return st;
}

enum status pipeline_plan(const struct pipeline *x, const struct graph_cut *cut,
                          const struct plan *p, struct plan *out)
{
    enum status st;
    struct plan copy = {0};
    TRY(plan_copy(p, &copy));
    TRY(empty_stages(x, cut, &copy));
    for (size_t k = 0; k < x->u->n; k++) {
        struct plan_stage *stage = &copy.stage[cut->stage[k]];
        for (uint32_t i = x->u->first[k]; i < x->u->first[k + 1]; i++)
            stage->op[stage->ops++] = i;
    }
    for (size_t s = 0; s < x->stages; s++)
        memcpy(copy.stage[s].device, x->device + cut->place[x->team_of[s]] * x->width,
               x->width * sizeof *copy.stage[s].device);
    MOVE(out, copy);
out:
    plan_free(&copy);
    return st;
}
