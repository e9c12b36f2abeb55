/* PipeDream's dynamic program (Narayanan et al., SOSP 2019, section 3.1), exactly.
 *
 * For each level of machines, innermost first, A(i, j, m) is the slowest stage of the best
 * pipeline for what lies between states i and j on m machines of the level:
 *
 *     A(i, j, m) = min( T(i, j, m),
 *                       min over k, m' of max( A(i, k, m - m'), transfer(k), T(k + 1, j, m') ) )
 *
 * with T(i, j, m) the time of one stage replicated on m machines: compute, which is A of the
 * level below on all its machines, and the all-reduce of the weights, 4 (m - 1) |w| / (B m)
 * bytes' time, divided by m. A state stands for a down-set of the graph, so that "between" is
 * a difference of sets (states.h); where the graph is a chain this is the paper's recursion on
 * layers. `relax` is the inner minimum, `fill_row` computes all A(first, ., .), and `trace`
 * follows the minima back. */
#include "papers/pipedream/dp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

static const double default_limit_s = 600;

/* Seconds of a later stage per second on one machine, per parameter byte, per byte moved. */
struct factors {
    double compute, parameter, moved;
};

struct dp {
    const struct pipedream_states *s;
    const struct pipedream_options *o;
    const struct objective_request *r;
    double begin_s;
    bool stopped;
    double
        *best[OBJECTIVE_LEVELS]; /* [n * n] of each inner level: row = first state, column = last,
                                    on all machines of the level; INFINITY where there is none */
    struct factors factors[PIPEDREAM_MAX_MACHINES + 1]; /* [replicas] at the current level */
    struct arena memory;
};

/* ---- costs */

/* T of a pipeline of one stage. The published program divides the synchronisation by the
 * machines of the level below here, and only here; kept, since results are to be comparable. */
static double only_stage_s(const struct pipedream_level *l, double compute_s,
                           double parameter_bytes, size_t replicas)
{
    double n = (double)replicas;
    return (compute_s +
            4 * (n - 1) * parameter_bytes / (l->bandwidth_Bps * n) / (double)l->inner_machines) /
           n;
}

/* T of a stage behind a cut. */
double pipedream_later_stage_s(const struct pipedream_level *l, double compute_s,
                               double parameter_bytes, size_t replicas)
{
    double n = (double)replicas;
    return (compute_s + 4 * (n - 1) * parameter_bytes / (l->bandwidth_Bps * n)) / n;
}

/* Activations forward and gradients backward, shared by the replicas. */
double pipedream_transfer_s(const struct pipedream_level *l, double cut_bytes, size_t replicas)
{
    return 2 * cut_bytes / (l->bandwidth_Bps * (double)replicas);
}

/* Weight stashing: a stage keeps as many versions as minibatches are in flight, which is the
 * number of machines from it on over its replicas. */
bool pipedream_fits(const struct pipedream_options *o, const struct pipedream_level *l,
                    double stash_bytes, size_t machines, size_t replicas)
{
    return isnan(o->memory_bytes) ||
           ceil((double)(l->machines - machines) / (double)replicas) * stash_bytes <=
               o->memory_bytes;
}

/* Pairs of states (triples at inner levels) times pairs of machine counts: decides when to
 * contract. */
double pipedream_work(const struct pipedream_options *o, size_t n)
{
    double work = 0;
    for (size_t i = 0; i < o->levels; i++) {
        double machines = (double)o->level[i].machines, states = (double)n;
        double pairs = i + 1 < o->levels ? states * states * states / 6 : states * states / 2;
        work += pairs * (o->straight ? machines : machines * (machines + 1) / 2);
    }
    return work;
}

/* ---- one row: the best pipelines that begin with state `first` */

/* cumulative(last) - cumulative(first - 1) */
static double pipedream_dp_between(const double *sum, size_t first, size_t last)
{
    return first ? sum[last] - sum[first - 1] : sum[last];
}

static bool pipedream_dp_comes_before(const struct pipedream_states *s, size_t a, size_t b)
{
    return set_has(s->before + b * s->before_words, a);
}

/* May a stage that begins after state first - 1 end with `last`? */
static bool may_end(const struct pipedream_states *s, size_t first, size_t last)
{
    return first == 0 || pipedream_dp_comes_before(s, first - 1, last);
}

static double compute_s(const struct dp *d, size_t level, size_t first, size_t last)
{
    return level ? d->best[level - 1][first * d->s->n + last]
                 : pipedream_dp_between(d->s->compute_s, first, last);
}

static double stash_bytes(const struct dp *d, size_t first, size_t last)
{
    return pipedream_dp_between(d->s->activation, first, last) +
           pipedream_dp_between(d->s->parameter, first, last);
}

/* Time on replicas machines without a split; INFINITY if not allowed. */
static double unsplit(const struct dp *d, size_t level, size_t first, size_t last, size_t replicas)
{
    const struct pipedream_level *l = &d->o->level[level];
    if ((d->o->straight && replicas > 1) ||
        !pipedream_fits(d->o, l, stash_bytes(d, first, last), replicas, replicas))
        return INFINITY;
    return only_stage_s(l, compute_s(d, level, first, last),
                        pipedream_dp_between(d->s->parameter, first, last), replicas);
}

/* Slower of what goes into and out of the stage k + 1 .. last, in bytes; 0 if that is free. */
static double moved_bytes(const struct dp *d, size_t k, size_t last)
{
    const struct pipedream_states *s = d->s;
    if (!d->o->charge_activations)
        return 0;
    return last + 1 < s->n && s->cut_bytes[last] > s->cut_bytes[k] ? s->cut_bytes[last]
                                                                   : s->cut_bytes[k];
}

/* What `replicas` make of the seconds, parameter bytes and moved bytes of a stage. */
static inline double stage_time(const struct factors *f, double seconds, double parameter,
                                double moved)
{
    double time = seconds * f->compute + parameter * f->parameter, move = moved * f->moved;
    return time > move ? time : move;
}

/* The slowest of the stage k + 1 .. last on `replicas` machines and what goes in and out of it. */
static double last_stage(const struct dp *d, size_t level, size_t k, size_t last, size_t replicas)
{
    return stage_time(&d->factors[replicas], compute_s(d, level, k + 1, last),
                      d->s->parameter[last] - d->s->parameter[k], moved_bytes(d, k, last));
}

/* row[m] of `last` is the best on m + 1 machines; try all splits after state k. */
static void pipedream_dp_relax(const struct dp *d, size_t level, size_t k, size_t last,
                               const double *before, double *row)
{
    const struct pipedream_level *l = &d->o->level[level];
    size_t machines = l->machines, most = d->o->straight && machines > 2 ? 2 : machines;
    double seconds = compute_s(d, level, k + 1, last);
    double parameter = d->s->parameter[last] - d->s->parameter[k];
    double moved = moved_bytes(d, k, last);
    bool limited = !isnan(d->o->memory_bytes);
    for (size_t replicas = 1; replicas < most; replicas++) {
        double time = stage_time(&d->factors[replicas], seconds, parameter, moved);
        for (size_t m = replicas; m < machines; m++) {
            double slowest = before[m - replicas] > time ? before[m - replicas] : time;
            if (slowest < row[m] &&
                (!limited || pipedream_fits(d->o, l, stash_bytes(d, k + 1, last), m + 1, replicas)))
                row[m] = slowest;
        }
    }
}

/* From here on the factors are those of `level`. */
static void set_level(struct dp *d, size_t level)
{
    const struct pipedream_level *l = &d->o->level[level];
    for (size_t replicas = 1; replicas <= l->machines; replicas++)
        d->factors[replicas] =
            (struct factors){.compute = pipedream_later_stage_s(l, 1, 0, replicas),
                             .parameter = pipedream_later_stage_s(l, 0, 1, replicas),
                             .moved = pipedream_transfer_s(l, 1, replicas)};
}

/* Fill row [n * machines] for every last state up to `end`. */
static void pipedream_dp_fill_row(struct dp *d, size_t level, size_t first, size_t end, double *row)
{
    const struct pipedream_states *s = d->s;
    size_t machines = d->o->level[level].machines;
    for (size_t last = first; last <= end && !d->stopped; last++) {
        double *own = row + last * machines;
        if (!may_end(s, first, last))
            continue;
        for (size_t m = 0; m < machines; m++)
            own[m] = unsplit(d, level, first, last, m + 1);
        for (size_t k = first; k < last; k++)
            if (pipedream_dp_comes_before(s, k, last) && may_end(s, first, k))
                pipedream_dp_relax(d, level, k, last, row + k * machines, own);
        for (size_t m = 1; m < machines && d->o->fewer_machines; m++)
            own[m] = own[m - 1] < own[m] ? own[m - 1] : own[m];
        d->stopped = objective_must_stop(d->r, d->begin_s, default_limit_s);
    }
}

/* best[level] from all rows. */
static enum status solve_inner(struct dp *d, size_t level)
{
    size_t n = d->s->n, machines = d->o->level[level].machines;
    double *row;
    PASS(ARENA_NEW(&d->memory, row, n * machines));
    PASS(ARENA_NEW(&d->memory, d->best[level], n * n));
    set_level(d, level);
    for (size_t first = 0; first < n && !d->stopped; first++) {
        double *best = d->best[level] + first * n;
        pipedream_dp_fill_row(d, level, first, n - 1, row);
        for (size_t last = 0; last < n; last++)
            best[last] = last >= first && may_end(d->s, first, last)
                             ? row[last * machines + machines - 1]
                             : INFINITY;
    }
    return STATUS_OK;
}

/* ---- the way back */

/* Append text; what does not fit becomes "...". */
static void append_text(struct pipedream_solution *out, const char *text)
{
    static const char dots[] = " ...";
    size_t used = strlen(out->text), length = strlen(text);
    if (used + length + sizeof dots <= sizeof out->text)
        strcpy(out->text + used, text);
    else if (used < sizeof dots || strcmp(out->text + used + 1 - sizeof dots, dots) != 0)
        strcpy(out->text + used, dots);
}

static enum status pipedream_dp_append_stage(struct pipedream_stage stage,
                                             struct pipedream_solution *out)
{
    PASS(ARRAY_ROOM(out->stage, out->stages));
    out->stage[out->stages++] = stage;
    return STATUS_OK;
}

/* Cut the best pipeline first .. *last on *machines (row filled) before its last stage: *last and
 * *machines become those of the rest, none left when the pipeline is one stage. */
static struct pipedream_stage cut_last_stage(const struct dp *d, size_t level, size_t first,
                                             const double *row, size_t *last, size_t *machines)
{
    size_t all = d->o->level[level].machines, m = *machines - 1, j = *last;
    double value = row[j * all + m];
    while (d->o->fewer_machines && m > 0 && row[j * all + m - 1] == value)
        m--;
    struct pipedream_stage stage = {(uint32_t)first, (uint32_t)j, (uint32_t)m + 1};
    *machines = 0;
    if (unsplit(d, level, first, j, m + 1) == value)
        return stage;
    for (size_t k = first; k < j; k++) {
        if (!pipedream_dp_comes_before(d->s, k, j) || !may_end(d->s, first, k))
            continue;
        for (size_t replicas = 1; replicas <= (d->o->straight ? 1 : m); replicas++) {
            double slowest =
                fmax(row[k * all + m - replicas], last_stage(d, level, k, j, replicas));
            if (slowest != value || !pipedream_fits(d->o, &d->o->level[level],
                                                    stash_bytes(d, k + 1, j), m + 1, replicas))
                continue;
            *last = k;
            *machines = m + 1 - replicas;
            return (struct pipedream_stage){(uint32_t)k + 1, (uint32_t)j, (uint32_t)replicas};
        }
    }
    return stage;
}

/* Append the stages of the best pipeline for state range `of` of a level, all machines of it. */
static enum status pipedream_dp_trace(struct dp *d, size_t level, struct pipedream_stage of,
                                      struct pipedream_solution *out)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    size_t machines = d->o->level[level].machines, left = machines, last = of.last, n = 0;
    double *row;
    struct pipedream_stage *stage;
    TRY(ARENA_NEW(&scratch, row, d->s->n * machines));
    TRY(ARENA_NEW(&scratch, stage, machines));
    set_level(d, level);
    pipedream_dp_fill_row(d, level, of.first, last, row);
    while (left > 0 && !d->stopped)
        stage[n++] = cut_last_stage(d, level, of.first, row, &last, &left);
    while (n-- > 0 && !d->stopped) {
        char text[24];
        snprintf(text, sizeof text, "x%u", stage[n].replicas);
        append_text(out, text);
        stage[n].replicas *= of.replicas;
        if (level == 0) {
            TRY(pipedream_dp_append_stage(stage[n], out));
        } else {
            append_text(out, "[");
            TRY(pipedream_dp_trace(d, level - 1, stage[n], out));
            append_text(out, "]");
        }
        if (n > 0)
            append_text(out, " ");
    }
out:
    arena_free(&scratch);
    return st;
}

/* One machine, and everything replicated at every level. */
static void pipedream_dp_compare(const struct dp *d, struct pipedream_solution *out)
{
    const struct pipedream_states *s = d->s;
    out->single_s = out->parallel_s = s->compute_s[s->n - 1];
    for (size_t i = 0; i < d->o->levels; i++)
        out->parallel_s = only_stage_s(&d->o->level[i], out->parallel_s, s->parameter[s->n - 1],
                                       d->o->level[i].machines);
}

/* Every level replicates everything. */
static enum status replicate_all(struct dp *d, struct pipedream_solution *out)
{
    struct pipedream_stage stage = {0, (uint32_t)d->s->n - 1, 1};
    if (d->o->straight)
        return error_set(STATUS_INFEASIBLE,
                         "timeout: no unreplicated pipeline was found in time; raise --time-limit");
    for (size_t i = 0; i < d->o->levels; i++)
        stage.replicas *= (uint32_t)d->o->level[i].machines;
    out->value_s = out->parallel_s;
    out->interrupted = true;
    out->stages = 0;
    strcpy(out->text, "all data-parallel");
    return pipedream_dp_append_stage(stage, out);
}

/* At the outermost level only pipelines that begin with the first state are needed: one row. */
static enum status solve_outer(struct dp *d, struct pipedream_solution *out)
{
    size_t outer = d->o->levels - 1, machines = d->o->level[outer].machines, last = d->s->n - 1;
    double *row;
    PASS(ARENA_NEW(&d->memory, row, d->s->n * machines));
    set_level(d, outer);
    pipedream_dp_fill_row(d, outer, 0, last, row);
    out->value_s = row[last * machines + machines - 1];
    if (d->stopped)
        return STATUS_OK;
    if (isinf(out->value_s))
        return error_set(STATUS_INFEASIBLE,
                         "no %spipeline uses all %zu machines of level %zu: the graph can be cut "
                         "at only %zu places%s",
                         d->o->straight ? "unreplicated " : "", machines, outer + 1, d->s->n - 1,
                         isnan(d->o->memory_bytes) ? "" : ", or the memory is too small");
    return pipedream_dp_trace(d, outer, (struct pipedream_stage){0, (uint32_t)last, 1}, out);
}

/* Inner levels keep their whole table for the next level; out of time, everything is
 * replicated. */
enum status pipedream_solve_states(const struct pipedream_states *s,
                                   const struct pipedream_options *o,
                                   const struct objective_request *r, double begin_s,
                                   struct pipedream_solution *out)
{
    enum status st = STATUS_OK;
    struct dp d = {.s = s, .o = o, .r = r, .begin_s = begin_s};
    pipedream_dp_compare(&d, out);
    for (size_t level = 0; level + 1 < o->levels && !d.stopped; level++)
        TRY(solve_inner(&d, level));
    if (!d.stopped)
        TRY(solve_outer(&d, out));
    if (d.stopped)
        TRY(replicate_all(&d, out));
out:
    arena_free(&d.memory);
    return st;
}

void pipedream_solution_free(struct pipedream_solution *s)
{
    free(s->stage);
    *s = (struct pipedream_solution){0};
}
