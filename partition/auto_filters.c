/* What `auto` does not try, and why: one function and one row for each reason. Filters only read
 * the state of the search; what they leave out is counted by auto_leaves_out(). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/cost/cost.h"
#include "core/lower/lower.h"
#include "partition/auto_search.h"

enum { DEEPER = 4 };                     /* times the ranks of a pipeline that fits */
static const double slack = 1.05;        /* the quick evaluator is not the last word */
static const double rounding = 1 - 1e-6; /* of bytes, which plans round down */

const char *const auto_level_names[AUTO_LEVELS] = {
    [AUTO_SHAPE] = "shapes", [AUTO_SCHEDULE] = "schedules", [AUTO_SAVING] = "plans"};

/* ---- shapes */

double auto_held_times(const struct cost_memory *f, uint32_t zero, double ranks)
{
    return (double)f->weights / (zero > 2 ? ranks : 1) +
           (double)f->gradients / (zero > 1 ? ranks : 1) +
           (double)f->state / (zero > 0 ? ranks : 1);
}

struct cost_memory auto_on_device(const struct auto_state *s)
{
    struct cost_memory f = partition_memory(&s->r->fixed, s->m);
    if (s->r->fixed.offload & OFFLOAD_OPTIMIZER)
        f.state = 0;
    return f;
}

/* Weights, gradients and state, spread over everything they may be. */
double auto_weight_bytes(const struct auto_state *s, const struct auto_shape *shape)
{
    struct cost_memory factor = auto_on_device(s);
    uint32_t zero = auto_given(s, KNOB_BIT(zero)) ? s->r->fixed.zero : AUTO_ZEROS - 1;
    double bytes = 0, e = shape->expert_parallel > 1 ? shape->expert_parallel : 1;
    double dense = auto_held_times(&factor, zero, shape->replicas),
           experts = auto_held_times(&factor, zero, shape->replicas / e) / e;
    for (size_t i = 0; i < s->m->n; i++)
        bytes += (double)s->m->op[i].parameter_bytes *
                 (s->m->op[i].exchange_bytes > 0 ? experts : dense);
    return bytes / shape->pipeline / shape->tensor_parallel;
}

/* On the roomiest device. */
static enum status filter_weights(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    double room = 0;
    for (size_t k = 0; k < s->t->types; k++)
        room = fmax(room, (double)s->t->type[k].memory_bytes);
    *out = auto_weight_bytes(s, &t->shape) > room;
    return STATUS_OK;
}

static enum status filter_bound(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    *out = !t->shape.uneven && t->shape.bound_s > slack * s->best_s;
    return STATUS_OK;
}

/* The same of stages that have different replicas, with no more than their compute. */
static enum status uneven(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    *out = t->shape.uneven && t->shape.bound_s > s->best_s;
    return STATUS_OK;
}

static enum status deep(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    *out = t->shape.pipeline > AUTO_DEEP && isfinite(s->best_s);
    return STATUS_OK;
}

/* A much deeper pipeline only fills for longer, when memory does not ask for it; where there are
 * few devices it can still be the best, with slow links between neighbours only. */
static enum status deeper(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    for (size_t i = s->ranked; i < s->result.n && s->t->n > AUTO_SMALL && !*out; i++) {
        const struct auto_candidate *c = &s->result.candidate[i];
        *out = c->fits && c->plan.zero <= 1 && !auto_given(s, KNOB_BIT(recompute)) &&
               c->plan.stage[0].recompute == RECOMPUTE_NONE &&
               c->plan.stage[0].tensor_parallel == t->shape.tensor_parallel &&
               c->plan.microbatch_size == t->shape.microbatch_size &&
               t->shape.pipeline / DEEPER > c->depth;
    }
    return STATUS_OK;
}

/* Sequences are divided for want of memory, or of samples to fill pipelines with: what has enough
 * of both would only exchange more. */
static enum status filter_divided(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    uint32_t streams = strategy_streams(&t->shape.own);
    for (size_t k = 0; k < s->result.n && streams < t->shape.replicas && !*out; k++) {
        const struct auto_candidate *c = &s->result.candidate[k];
        const struct plan_stage *p = &c->plan.stage[0];
        double full = AUTO_FULL * (double)(t->shape.pipeline - 1);
        *out = c->fits && c->plan.zero <= 1 && p->recompute == RECOMPUTE_NONE &&
               !auto_is_uneven(&c->plan) && plan_streams(p) > streams &&
               c->depth == t->shape.pipeline && p->tensor_parallel == t->shape.tensor_parallel &&
               p->replicas == t->shape.replicas &&
               c->plan.microbatch_size == t->shape.microbatch_size &&
               (double)c->plan.microbatches / plan_streams(p) >= full;
    }
    return STATUS_OK;
}

/* ---- schedules */

/* The first schedule of a cut has shown how long it takes; of m microbatches, without the time that
 * its d ranks fill and drain m / (m + d - 1) of that. Another cut, with other chunks, may be more
 * even and need less memory. */
static enum status filter_fill(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    double m = auto_microbatches(s, &t->shape);
    *out =
        t->begun && (isinf(t->least_s) || t->least_s * m / (m + t->shape.pipeline - 1) > s->best_s);
    return STATUS_OK;
}

/* DualPipe is DualPipe-V with a message for every microbatch at the turn, both ways: at best as
 * fast, with as much memory (unit.schedule_orders). */
static enum status crossed(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    *out = t->schedule->crossed && !s->r->fixed.schedule;
    return STATUS_OK;
}

/* ---- ways to save memory and to hide sums of gradients */

/* Others keep more activations than the usual schedule, kept parameters are more than gathered
 * ones, and parts of a group's more than of all replicas'. */
static enum status lighter(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    (void)s;
    struct auto_saving saving = auto_savings[t->saving], less = saving;
    *out = t->too_big & auto_memory_bit(&saving);
    less.keep = false;
    *out = *out || (saving.keep && (t->too_big & auto_memory_bit(&less)));
    less.hybrid = saving.hybrid = false;
    *out = *out || (t->too_big & (auto_memory_bit(&less) | auto_memory_bit(&saving)));
    return STATUS_OK;
}

/* What is made again takes time, which pays only if less is sent for it: a bit for each
 * auto_spread() that sends no more. ZeRO 1 costs nothing, but what is sent inside of nodes only, or
 * before the first pass of an iteration, which hides it, may cost less; gradients of backwards in
 * halves are more in memory with ZeRO 2 and 3 than without. What does not keep its parameters sends
 * for every microbatch with ZeRO 2 and 3, and once with ZeRO 1. */
static const uint32_t no_slower[AUTO_SPREADS] = {0x03, 0x03, 0x04, 0x0f, 0x10, 0x30, 0x54, 0xff};

enum { NOT_SPREAD = 3 }; /* auto_spread() of ZeRO 0 and 1 */
static enum status enough(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    const struct auto_saving *saving = &auto_savings[t->saving];
    bool once = auto_microbatches(s, &t->shape) <= 1;
    for (int less = 0; less < (int)saving->recompute; less++)
        *out = *out || (t->fits[less] & no_slower[auto_spread(saving)]);
    *out = *out || (saving->zero > 1 && !saving->keep && !saving->hybrid && !once &&
                    t->fits[saving->recompute] & NOT_SPREAD);
    return STATUS_OK;
}

/* A plan of the same cut and schedule that makes no more again has shown how long it takes; without
 * its sums of gradients it would take as long as the others at least. On few devices those near the
 * best are finalists, too, and become better than their score. */
static enum status filter_sums(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    double from_s = (s->t->n <= AUTO_SMALL ? slack : 1) * s->best_s;
    for (int kind = 0; kind <= (int)auto_savings[t->saving].recompute; kind++)
        *out = *out || t->bare_s[kind] > from_s;
    return STATUS_OK;
}

/* The bound of the shape, with what is made again. */
static enum status filter_recompute(const struct auto_state *s, const struct auto_trial *t,
                                    bool *out)
{
    double again_s = t->shape.again_s[auto_savings[t->saving].recompute];
    *out = again_s > 0 && t->shape.bound_s + again_s > slack * s->best_s;
    return STATUS_OK;
}

/* Microbatches of a stream that fill a pipeline of the shape, so that ranks keep as many as ever:
 * the first one is back when as many are behind it as there are ranks, with chunks twice as many,
 * and at the latest when all stages have had two. */
static uint32_t filling(const struct auto_state *s, const struct auto_trial *t)
{
    uint32_t ranks = t->shape.pipeline, n = 2 * ranks * t->shape.chunks;
    if (t->schedule == &schedule_one_f_one_b || t->schedule == &schedule_zb_h1)
        n = ranks + 1;
    if (t->schedule == &schedule_interleaved)
        n = 2 * ranks;
    double most = auto_microbatches(s, &t->shape);
    return n < most && t->schedule != &schedule_gpipe ? n : (uint32_t)most;
}

/* How many microbatches of each chunk a rank has between forward and backward when it has most. */
static void count_flight(const struct schedule_step *step, size_t n, uint32_t chunks,
                         uint16_t *flight)
{
    uint16_t now[AUTO_CHUNKS] = {0};
    size_t all = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        if (step[i].kind == OP_FORWARD) {
            now[step[i].chunk]++;
            all++;
        } else if (step[i].kind != OP_BACKWARD_WEIGHT) {
            now[step[i].chunk]--;
            all--;
        }
        if (all > most) {
            most = all;
            memcpy(flight, now, chunks * sizeof *now);
        }
    }
}

enum status auto_count_flight(const struct auto_state *s, struct auto_trial *t)
{
    const struct auto_shape *shape = &t->shape;
    const struct schedule *schedule = t->schedule;
    struct schedule_step *step = NULL;
    uint32_t filled = filling(s, t);
    t->counted = shape->chunks <= AUTO_CHUNKS && !shape->uneven && !schedule->asynchronous &&
                 (size_t)shape->pipeline * shape->chunks <= AUTO_STAGES && filled < UINT16_MAX &&
                 !(s->r->fixed.offload & OFFLOAD_ACTIVATIONS);
    if (!t->counted)
        return STATUS_OK;
    struct plan full = *t->cut; /* borrows all */
    full.microbatches = filled * plan_streams(&full.stage[0]);
    for (uint32_t k = 0; k < shape->pipeline; k++) {
        struct schedule_place at = plan_lower_place(&full, shape->pipeline, k);
        if (!step)
            PASS(ARRAY_NEW(step, schedule_steps(schedule, &at)));
        count_flight(step, schedule->order(&at, step), at.chunks, &t->flight[k * at.chunks]);
    }
    free(step);
    return STATUS_OK;
}

/* Microbatches whose activations of a chunk a rank keeps at the peak, at least. */
static double in_flight(const struct auto_state *s, const struct auto_trial *t, size_t rank,
                        uint32_t chunk)
{
    double most = auto_microbatches(s, &t->shape), filled = 0;
    if (t->counted)
        return t->flight[rank * t->shape.chunks + chunk];
    for (size_t k = rank; k < t->shape.pipeline; k++)
        filled += t->cut->stage[k].replicas;
    filled = floor(filled / t->cut->stage[rank].replicas);
    bool ordered = t->schedule == &schedule_one_f_one_b || t->schedule == &schedule_zb_h1;
    if (s->r->fixed.offload & OFFLOAD_ACTIVATIONS)
        return 1;
    if (t->schedule == &schedule_gpipe)
        return most;
    return t->shape.chunks > 1 || !ordered ? 1 : fmin(filled, most);
}

/* Bytes of a stage: of its parameters, of activations that are kept, of the unit that is made
 * again. */
struct least {
    double own, kept, unit;
};

static bool is_least_of(const struct auto_least *x, const struct cost_split *split,
                        uint32_t samples, uint32_t modules)
{
    return x->split.shards == split->shards && x->split.sequence == split->sequence &&
           x->split.experts == split->experts && x->split.context == split->context &&
           x->samples == samples && x->modules == modules;
}

/* Of each op, with the trial's saving. */
static const struct auto_op_bytes *
least_of_ops(const struct auto_state *s, const struct auto_trial *t, const struct cost_split *split)
{
    enum plan_recompute kind = auto_savings[t->saving].recompute;
    const struct auto_again *again = &s->again[kind];
    struct auto_least *x = again->least;
    bool larger = kind == RECOMPUTE_FULL && s->r->fixed.recompute_unit > 1;
    struct plan_stage how = {.own = t->shape.own};
    struct strategy shared = t->shape.shared;
    how.recompute = kind;
    strategy_settle(&shared, &how.own);
    if (is_least_of(x, split, t->shape.microbatch_size, how.recompute_modules))
        return x->op;
    x->split = *split;
    x->samples = t->shape.microbatch_size;
    x->modules = how.recompute_modules;
    for (uint32_t i = 0; i < s->m->n; i++) {
        const struct model_op *op = &s->m->op[i];
        struct cost_part part = cost_part(op, split);
        bool alone = again->unit[i] == 0, kept = alone ? !larger : again->kept[i];
        int64_t keeps = cost_stash(s->m, op, split->framework);
        double bytes = t->shape.microbatch_size * part.stash,
               stash = bytes * (double)(keeps - plan_part_again(&how, s->m, i).bytes),
               output = kept ? bytes * (double)op->output_bytes : 0;
        if (how.recompute_modules > 0) /* what is not read again is not kept either */
            output = fmin(output, bytes * (double)keeps);
        x->op[i] = (struct auto_op_bytes){part.parameters, alone && kept ? stash : output,
                                          alone ? 0 : bytes * (double)keeps - output};
    }
    return x->op;
}

/* What a stage needs at least: its parameters with all that belongs to them, the activations of so
 * many microbatches, and of the largest unit what is made again. */
static struct least stage_bytes(const struct auto_state *s, const struct auto_trial *t,
                                const struct plan_stage *stage, double holds)
{
    const struct auto_saving *saving = &auto_savings[t->saving];
    const uint32_t *of = s->again[saving->recompute].unit;
    const struct cost_split split = cost_split_of(t->cut, stage);
    const struct auto_op_bytes *bytes = least_of_ops(s, t, &split);
    struct cost_memory f = auto_on_device(s);
    uint32_t zero = saving->keep ? 2 : saving->zero;
    double ranks = saving->hybrid ? auto_group(s, &t->shape) : t->shape.replicas,
           times = auto_held_times(&f, zero, ranks),
           experts = auto_held_times(&f, zero, ranks / stage->expert_parallel);
    struct least least = {0};
    double unit = 0;
    for (size_t i = 0; i < stage->ops; i++) {
        uint32_t k = stage->op[i];
        const struct model_op *op = &s->m->op[k];
        if (i == 0 || of[k] != of[stage->op[i - 1]])
            unit = 0;
        least.own += (op->exchange_bytes > 0 ? experts : times) * (double)op->parameter_bytes *
                     bytes[k].parameters;
        least.kept += holds * bytes[k].kept;
        unit += bytes[k].again;
        least.unit = unit > least.unit ? unit : least.unit;
    }
    if (split.framework) /* what it makes again takes the place of what it has given back */
        least.unit = 0;
    return least;
}

double auto_room(const struct auto_state *s, size_t type)
{
    return (double)(s->t->type[type].memory_bytes -
                    (s->r->reserve_bytes ? s->r->reserve_bytes[type] : 0));
}

/* What every rank keeps at least, without what it receives and gathers. */
double auto_least_lack(const struct auto_state *s, const struct auto_trial *t)
{
    const struct plan *p = t->cut;
    double lack = -INFINITY;
    for (size_t rank = 0; rank < t->shape.pipeline; rank++) {
        double bytes = 0, most = 0;
        for (uint32_t k = 0; k < t->shape.chunks; k++) {
            uint32_t at = schedule_stage(t->schedule, t->shape.pipeline, (uint32_t)rank, k);
            struct least least = stage_bytes(s, t, &p->stage[at], in_flight(s, t, rank, k));
            bytes += least.own + least.kept;
            most = fmax(most, least.unit);
        }
        lack = fmax(lack, (bytes + most) * rounding -
                              auto_room(s, s->t->type_of[p->stage[rank].device[0]]));
    }
    return lack;
}

static enum status hopeless(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    *out = auto_least_lack(s, t) > 0;
    return STATUS_OK;
}

/* The same iteration with fewer microbatches, enough to fill the pipeline twice, has at most as
 * many activations at its peak. What cannot be lowered is not for this to say. */
enum status auto_peak_lack(const struct auto_state *s, const struct auto_trial *t,
                           const struct auto_saving *saving, double *lack)
{
    enum status st;
    struct plan plan = {0};
    int64_t *peak = NULL;
    double work = 0;
    *lack = -INFINITY;
    TRY(ARRAY_NEW(peak, s->t->types));
    TRY(auto_make_plan(s, t, saving, &plan));
    uint32_t streams = plan_streams(&plan.stage[0]);
    if (plan.microbatches / streams > filling(s, t))
        plan.microbatches = streams * filling(s, t);
    st = plan_lower_peaks(&plan, s->m, s->t, s->e->costs, peak, &work);
    auto_count(s, work);
    for (size_t k = 0; st == STATUS_OK && k < s->t->types; k++)
        *lack = fmax(*lack, (double)peak[k] - auto_room(s, k));
    st = st == STATUS_NOMEM ? st : STATUS_OK;
out:
    free(peak);
    plan_free(&plan);
    return st;
}

/* Does any rank need more than its device has? */
static enum status outgrows(const struct auto_state *s, const struct auto_trial *t,
                            const struct auto_saving *saving, bool *out)
{
    double lack;
    PASS(auto_peak_lack(s, t, saving, &lack));
    *out = lack > 0;
    return STATUS_OK;
}

/* Small platforms' plans are simulated about as quickly. */
static bool asks_for_room(const struct auto_state *s, const struct auto_trial *t)
{
    return !t->shape.uneven && s->t->n > AUTO_SMALL;
}

static enum status memory(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    return asks_for_room(s, t) ? outgrows(s, t, &auto_savings[t->saving], out) : STATUS_OK;
}

/* Backwards in halves keep what the second half needs, whatever is made again: where they do not
 * fit with the least and the most that is saved, no other saving is tried. */
static enum status filter_halves(const struct auto_state *s, const struct auto_trial *t, bool *out)
{
    struct auto_saving ways[] = {{.zero = 1},
                                 {.zero = 1, .recompute = RECOMPUTE_FULL},
                                 {.zero = 3, .recompute = RECOMPUTE_FULL}};
    *out = t->schedule->split && asks_for_room(s, t);
    for (size_t k = 0; k < sizeof ways / sizeof *ways && *out; k++) {
        if (auto_given(s, KNOB_BIT(recompute)))
            ways[k].recompute = s->r->fixed.recompute;
        if (auto_given(s, KNOB_BIT(zero)))
            ways[k].zero = s->r->fixed.zero;
        PASS(outgrows(s, t, &ways[k], out));
    }
    return STATUS_OK;
}

const struct auto_filter auto_filters[] = {
    {"weights", "their weights, gradients and optimizer state alone do not fit", AUTO_SHAPE,
     filter_weights},
    {"bound", "compute and a part of the fill alone take longer than the best plan", AUTO_SHAPE,
     filter_bound},
    {"uneven", "replicas that differ: compute alone takes longer than the best plan", AUTO_SHAPE,
     uneven},
    {"deep", "pipelines of more than 64 ranks, and shallower ones fit", AUTO_SHAPE, deep},
    {"deeper", "more than four times as deep as one that fits without recomputation and ZeRO 2",
     AUTO_SHAPE, deeper},
    {"divided", "sequences divided further than where as many ranks fit and are kept busy",
     AUTO_SHAPE, filter_divided},
    {"fill", "slower than the best plan even without the fill of the first schedule", AUTO_SCHEDULE,
     filter_fill},
    {"crossed", "dualpipe-v without what dualpipe sends at the turn", AUTO_SCHEDULE, crossed},
    {"halves", "backwards in halves do not fit, with and without all that is saved", AUTO_SCHEDULE,
     filter_halves},
    {"lighter", "1f1b did not fit with so little saved", AUTO_SAVING, lighter},
    {"enough", "less recomputed fits already", AUTO_SAVING, enough},
    {"sums", "slower than the best plan even without any sums of gradients", AUTO_SAVING,
     filter_sums},
    {"again", "compute with what is made again takes longer than the best plan", AUTO_SAVING,
     filter_recompute},
    {"hopeless", "what every rank keeps at least does not fit", AUTO_SAVING, hopeless},
    {"memory", "a shorter iteration does not fit", AUTO_SAVING, memory},
};
const size_t auto_filters_n = sizeof auto_filters / sizeof *auto_filters;
_Static_assert(sizeof auto_filters / sizeof *auto_filters <= AUTO_MOST_FILTERS, "room in results");

enum status auto_leaves_out(struct auto_state *s, enum auto_level level, const struct auto_trial *t,
                            bool *out)
{
    bool dropped = false;
    for (size_t i = 0; i < auto_filters_n && !dropped; i++) {
        if (auto_filters[i].level != level || (s->r->without >> i & 1))
            continue;
        PASS(auto_filters[i].drops(s, t, &dropped));
        s->result.left_out[i] += dropped;
    }
    *out = dropped;
    return STATUS_OK;
}

size_t auto_shapes_left_out(const struct auto_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < auto_filters_n; i++)
        n += auto_filters[i].level == AUTO_SHAPE ? r->left_out[i] : 0;
    return n;
}
