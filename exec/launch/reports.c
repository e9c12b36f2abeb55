/* Reports of steps, checked against what is expected next.
 *
 * Of every step each rank reports start, end, loss and the times of its ops. What all ranks have
 * reported is summed up at once: a duration and a loss are kept of every step, times of ops of
 * every step only as far as REPORT_STEPS and REPORT_TIMES go, else of every few. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "exec/launch/run.h"

/* ---- room */

/* Forwards of a rank through the one stage that has a loss; 0: its loss is told by another shard or
 * not that of samples of its own, or it has none. */
static size_t lossy_forwards(const struct launch_state *run, uint32_t rank, size_t stage)
{
    const struct program *p = run->program;
    size_t n = 0;
    if (p->rank[rank].shard > 0 || p->stage[stage].stepped)
        return 0;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++)
        n += p->op[i].kind == OP_FORWARD && p->op[i].stage == stage;
    return n;
}

/* The stage with losses; p->stages: none, or several. */
static size_t lossy_stage(const struct launch_state *run)
{
    const struct program *p = run->program;
    size_t found = p->stages;
    for (size_t s = 0; s < p->stages; s++) {
        bool lossy = false;
        for (size_t k = p->stage_start[s]; k < p->stage_start[s + 1]; k++)
            lossy = lossy || model_op_is(&run->model->op[p->stage_op[k]], OPERATOR_LOSS);
        if (lossy && found < p->stages)
            return p->stages;
        found = lossy ? s : found;
    }
    return found;
}

/* The losses of ranks that have one of samples of their own. */
static enum status allocate_losses(struct launch_state *run)
{
    const struct program *p = run->program;
    struct run_reports *to = &run->reports;
    size_t stage = lossy_stage(run), all = 0;
    PASS(ARENA_NEW(&to->memory, to->of_rank, p->ranks));
    if (launch_is_paced(run->options->device))
        return STATUS_OK;
    for (uint32_t r = 0; stage < p->stages && r < p->ranks; r++)
        all += lossy_forwards(run, r, stage);
    for (uint32_t r = 0; all > 0 && r < p->ranks; r++) {
        to->of_rank[r].share = (double)lossy_forwards(run, r, stage) / (double)all;
        if (to->of_rank[r].share > 0)
            PASS(ARENA_NEW(&to->memory, to->of_rank[r].loss, run->steps));
    }
    return STATUS_OK;
}

static enum status allocate_step(struct launch_state *run, struct launch_step *s)
{
    size_t ranks = run->program->ranks, ops = run->program->ops;
    struct arena *memory = &run->reports.memory;
    PASS(ARENA_NEW(memory, s->start_s, ranks));
    PASS(ARENA_NEW(memory, s->end_s, ranks));
    PASS(ARENA_NEW(memory, s->loss, ranks));
    PASS(ARENA_NEW(memory, s->hits, 2 * ranks));
    PASS(ARENA_NEW(memory, s->op_start_s, ops));
    return ARENA_NEW(memory, s->op_end_s, ops);
}

/* Before anything is started: a run of hours does not end for want of memory. */
enum status launch_allocate_reports(struct launch_state *run)
{
    struct run_reports *to = &run->reports;
    size_t steps = run->steps, measured = run->options->steps, ops = run->program->ops;
    size_t most = ops > 0 && REPORT_TIMES / ops > REPORT_STEPS ? REPORT_TIMES / ops : REPORT_STEPS;
    to->stride = (measured + most - 1) / most;
    size_t kept = (measured + to->stride - 1) / to->stride;
    PASS(ARENA_NEW(&to->memory, to->duration_s, measured));
    PASS(ARENA_NEW(&to->memory, to->loss, steps));
    PASS(ARENA_NEW(&to->memory, to->hits, 2 * steps));
    PASS(ARENA_NEW(&to->memory, to->kept_began_s, kept));
    PASS(ARENA_NEW(&to->memory, to->kept_start_s, kept * ops));
    PASS(ARENA_NEW(&to->memory, to->kept_end_s, kept * ops));
    for (size_t k = 0; k < REPORT_AHEAD; k++)
        PASS(allocate_step(run, &to->open[k]));
    PASS(timeline_init(&to->scratch, ops));
    return allocate_losses(run);
}

/* ---- a step that all ranks have reported */

/* When it was over on the last rank, from its start. Each rank's times count from its own start,
 * the same moment on all: machines have different clocks. */
static double duration_of(const struct launch_state *run, const struct launch_step *s)
{
    double longest_s = 0;
    for (size_t r = 0; r < run->program->ranks; r++)
        longest_s = fmax(longest_s, s->end_s[r] - s->start_s[r]);
    return longest_s;
}

static void show_progress(const struct launch_state *run, size_t number,
                          const struct launch_step *s)
{
    const struct launch_options *o = run->options;
    size_t first = (size_t)run->keeping.first;
    char text[32] = "";
    if (!o->notes || o->progress_every == 0 || (first + number + 1) % o->progress_every != 0)
        return;
    if (!launch_is_paced(o->device)) /* paced compute has no loss */
        snprintf(text, sizeof text, ", loss %.6g", run->reports.loss[number]);
    fprintf(o->notes, "step %zu of %zu: %.3g s%s%s\n", first + number + 1, first + run->steps,
            duration_of(run, s), text, number < o->warmup ? " (warm-up)" : "");
}

/* Times of its ops, each from the start of its own rank. */
static void copy_times(const struct launch_state *run, const struct launch_step *s, double *start_s,
                       double *end_s)
{
    const struct program *p = run->program;
    for (size_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            start_s[i] = s->op_start_s[i] - s->start_s[r];
            end_s[i] = s->op_end_s[i] - s->start_s[r];
        }
}

/* Seconds of an iteration: until the last rank was done; without flush the pace of its middle, as
 * of simulations. */
static double iteration_of(struct launch_state *run, const struct launch_step *s)
{
    bool settled;
    struct timeline *t = &run->reports.scratch;
    if (!run->program->asynchronous)
        return duration_of(run, s);
    copy_times(run, s, t->start_s, t->end_s);
    timeline_join(run->program, t);
    return timeline_iteration(run->program, t, &settled);
}

static void reports_measure(struct launch_state *run, size_t k, const struct launch_step *s)
{
    struct run_reports *to = &run->reports;
    size_t kept = k / to->stride, ops = run->program->ops;
    to->duration_s[k] = iteration_of(run, s);
    if (k % to->stride != 0)
        return;
    to->kept_began_s[kept] = s->start_s[0];
    copy_times(run, s, to->kept_start_s + kept * ops, to->kept_end_s + kept * ops);
}

/* Sums in the order of the ranks, whoever reports first. */
static void reports_complete(struct launch_state *run)
{
    struct run_reports *to = &run->reports;
    size_t number = to->complete++;
    struct launch_step *s = &to->open[number % REPORT_AHEAD];
    for (size_t r = 0; r < run->program->ranks; r++) {
        to->loss[number] += s->loss[r];
        if (to->of_rank[r].loss)
            to->of_rank[r].loss[number] = s->loss[r];
        for (size_t k = 0; k < 2; k++)
            to->hits[2 * number + k] += s->hits[2 * r + k];
    }
    show_progress(run, number, s);
    if (number >= run->options->warmup)
        reports_measure(run, number - run->options->warmup, s);
    s->ranks = 0;
}

/* ---- reports */

/* A child of ours that we have not waited for is the rank even where /proc is not ours. */
static int hold_rank(const struct launched *w)
{
    bool child = w->child.alive && (uint32_t)w->child.pid == w->told.pid;
    return child ? process_hold_own(w->child.pid) : process_hold(&w->told);
}

/* Tell when the warm-up is over. */
static enum status check_warmup(struct launch_state *run)
{
    const struct launch_options *o = run->options;
    size_t ranks = run->program->ranks;
    if (run->reports.measuring || !o->measuring)
        return STATUS_OK;
    for (size_t r = 0; r < ranks; r++)
        if (run->worker[r].steps < o->warmup)
            return STATUS_OK;
    int *held = NULL;
    PASS(ARRAY_NEW(held, ranks));
    for (size_t r = 0; r < ranks; r++)
        held[r] = hold_rank(&run->worker[r]);
    run->reports.measuring = true;
    o->measuring(o->measuring_context, held, ranks);
    for (size_t r = 0; r < ranks; r++)
        if (held[r] >= 0)
            close(held[r]);
    free(held);
    return STATUS_OK;
}

bool launch_is_ahead(const struct launch_state *run, uint32_t rank)
{
    return run->worker[rank].steps >= run->reports.complete + REPORT_AHEAD;
}

/* Times come in the seconds of this machine; on an emulated network the reported ones are shorter
 * by its dilation. */
enum status launch_take_step(struct launch_state *run, uint32_t rank, const char *payload)
{
    const struct program *p = run->program;
    struct launched *w = &run->worker[rank];
    struct frame_step f;
    memcpy(&f, payload, sizeof f);
    if (f.step != w->steps || f.step >= run->steps || launch_is_ahead(run, rank))
        return error_set(STATUS_IO, "the worker reported the end of step %llu, expected step %zu",
                         (unsigned long long)f.step, w->steps);
    w->steps++;
    w->peak_bytes = f.peak_bytes;
    struct launch_step *s = &run->reports.open[f.step % REPORT_AHEAD];
    double second_s = run->options->dilation > 0 ? run->options->dilation : 1;
    s->start_s[rank] = f.start_s / second_s;
    s->end_s[rank] = f.end_s / second_s;
    s->loss[rank] = f.loss;
    memcpy(s->hits + 2 * (size_t)rank, f.hits, sizeof f.hits);
    size_t first = p->op_start[rank], n = p->op_start[rank + 1] - first;
    const char *times = payload + sizeof f;
    memcpy(s->op_start_s + first, times, n * sizeof(double));
    memcpy(s->op_end_s + first, times + n * sizeof(double), n * sizeof(double));
    for (size_t i = first; i < first + n; i++) {
        s->op_start_s[i] /= second_s;
        s->op_end_s[i] /= second_s;
    }
    if (++s->ranks == p->ranks)
        reports_complete(run);
    return check_warmup(run);
}
