/* Reports of workers, checked against what is expected next, become a measurement.
 *
 * Of every step each rank reports start, end and loss; of measured steps also the times of its ops.
 * An iteration lasts until the last rank was done. The timeline is that of the step with the median
 * iteration time, in seconds from the common start. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/digest.h"
#include "core/process.h"
#include "core/text.h"
#include "exec/launch/run.h"

/* ---- taking reports */

/* When step s was over on the last rank, from its start. Each rank's times count from its own
 * start, the same moment on all: machines have different clocks. */
static double duration_of(const struct run *run, size_t s)
{
    size_t ranks = run->program->ranks;
    double longest_s = 0;
    for (size_t r = 0; r < ranks; r++)
        longest_s = fmax(longest_s,
                         run->reports.end_s[s * ranks + r] - run->reports.start_s[s * ranks + r]);
    return longest_s;
}

/* Lines for steps that all ranks have reported. */
static void show_progress(struct run *run)
{
    size_t ranks = run->program->ranks, every = run->options->progress_every;
    char text[32] = "";
    for (;; run->reports.announced++) {
        double loss = 0;
        size_t s = run->reports.announced;
        for (size_t r = 0; r < ranks; r++) {
            if (run->worker[r].steps <= s)
                return;
            loss += run->reports.loss[s * ranks + r];
        }
        if ((run->keeping.first + s + 1) % every != 0)
            continue;
        if (!launch_is_paced(run->options->device)) /* paced compute has no loss */
            snprintf(text, sizeof text, ", loss %.6g", loss);
        fprintf(run->options->notes, "step %zu of %zu: %.3g s%s%s\n",
                (size_t)run->keeping.first + s + 1, (size_t)run->keeping.first + run->steps,
                duration_of(run, s), text, s < run->options->warmup ? " (warm-up)" : "");
    }
}

/* A child of ours that we have not waited for is the rank even where /proc is not ours. */
static int hold_rank(const struct launched *w)
{
    bool child = w->child.alive && (uint32_t)w->child.pid == w->told.pid;
    return child ? process_hold_own(w->child.pid) : process_hold(&w->told);
}

/* Tell when the warm-up is over. */
static enum status check_warmup(struct run *run)
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

/* Times come in the seconds of this machine; on an emulated network the reported ones are shorter
 * by its dilation. */
enum status launch_take_step(struct run *run, uint32_t rank, const char *payload)
{
    const struct program *p = run->program;
    struct launched *w = &run->worker[rank];
    struct frame_step s;
    memcpy(&s, payload, sizeof s);
    if (s.step != w->steps || s.step >= run->steps)
        return error_set(STATUS_IO, "reports step %llu, expected %zu", (unsigned long long)s.step,
                         w->steps);
    w->steps++;
    double second_s = run->options->dilation > 0 ? run->options->dilation : 1;
    run->reports.start_s[s.step * p->ranks + rank] = s.start_s / second_s;
    run->reports.end_s[s.step * p->ranks + rank] = s.end_s / second_s;
    run->reports.loss[s.step * p->ranks + rank] = s.loss;
    for (size_t k = 0; k < 2; k++)
        run->reports.hits[2 * s.step + k] += s.hits[k];
    if (run->options->notes && run->options->progress_every > 0)
        show_progress(run);
    if (s.step < run->options->warmup)
        return check_warmup(run);
    size_t first = p->op_start[rank], n = p->op_start[rank + 1] - first;
    size_t at = (s.step - run->options->warmup) * p->ops + first;
    const char *times = payload + sizeof s;
    memcpy(run->reports.op_start_s + at, times, n * sizeof(double));
    memcpy(run->reports.op_end_s + at, times + n * sizeof(double), n * sizeof(double));
    for (size_t i = at; i < at + n; i++) {
        run->reports.op_start_s[i] /= second_s;
        run->reports.op_end_s[i] /= second_s;
    }
    return STATUS_OK;
}

/* Which part of an op's parameters a rank has: its shard's, and of experts that are spread over
 * replicas those of its replica. */
static size_t part_of(const struct run *run, uint32_t rank, uint32_t op)
{
    const struct program *p = run->program;
    const struct program_rank *me = &p->rank[rank];
    size_t at = 0, s = 0;
    while (at < run->model->n && p->stage_op[at] != op)
        at++;
    while (s + 1 < p->stages && p->stage_start[s + 1] <= at)
        s++;
    uint32_t experts = run->model->op[op].exchange_bytes > 0 ? p->stage[s].experts : 1;
    return me->shard + (experts > 1 ? me->replica % experts * (size_t)p->stage[s].shards : 0);
}

/* The digests of the ops in own[n] of a rank; they are equal on all replicas that have the same. */
static enum status take_digests(struct run *run, uint32_t rank, const uint32_t *own, size_t n,
                                const char *payload)
{
    for (size_t k = 0; k < n; k++) {
        struct frame_digest d;
        memcpy(&d, payload + k * sizeof d, sizeof d);
        if (d.op != own[k] || d.op >= run->model->n)
            return error_set(STATUS_IO, "sends the digest of an op that is not its own");
        size_t at = d.op * run->reports.shards + part_of(run, rank, (uint32_t)d.op);
        uint8_t *known = run->reports.digests + at * DIGEST;
        if (run->reports.digested[at] && memcmp(known, d.digest, DIGEST))
            return error_set(STATUS_INVALID,
                             "the parameters of op '%s' differ from another replica's",
                             run->model->op[d.op].name);
        memcpy(known, d.digest, DIGEST);
        run->reports.digested[at] = true;
    }
    return STATUS_OK;
}

/* The last report of a rank: memory at its peak, and digests of the parameters of its ops. */
enum status launch_take_done(struct run *run, uint32_t rank, const char *payload)
{
    struct launched *w = &run->worker[rank];
    struct frame_done done;
    size_t n = program_rank_ops(run->program, rank, NULL);
    memcpy(&done, payload, sizeof done);
    if (w->stage == WORKER_DONE || w->steps != run->steps || done.digests != n)
        return error_set(STATUS_IO, "is done after %zu of %zu steps with %llu digests", w->steps,
                         run->steps, (unsigned long long)done.digests);
    w->stage = WORKER_DONE;
    w->peak_bytes = done.peak_bytes;
    run->done++;
    uint32_t *own = NULL;
    PASS(ARRAY_NEW(own, n));
    program_rank_ops(run->program, rank, own);
    enum status st = take_digests(run, rank, own, n, payload + sizeof done);
    free(own);
    return st;
}

/* ---- the measurement */

/* The measured step whose duration is the (lower) median. */
static size_t median_step(const double *duration_s, size_t n)
{
    size_t best = 0;
    for (size_t k = 0; k < n; k++) {
        size_t below = 0;
        for (size_t i = 0; i < n; i++)
            below += duration_s[i] < duration_s[k] || (duration_s[i] == duration_s[k] && i < k);
        if (below == (n - 1) / 2)
            best = k;
    }
    return best;
}

/* Times of measured step k from its start. */
static void fill_timeline(const struct run *run, size_t k, struct timeline *t)
{
    const struct program *p = run->program;
    for (size_t r = 0; r < p->ranks; r++) {
        double zero_s = run->reports.start_s[(run->options->warmup + k) * p->ranks + r];
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            t->start_s[i] = run->reports.op_start_s[k * p->ops + i] - zero_s;
            t->end_s[i] = run->reports.op_end_s[k * p->ops + i] - zero_s;
        }
    }
    timeline_join(p, t);
}

/* When measured step k began, on rank 0 and only if that ran here, where this process has its clock; not
 * on emulated networks, whose seconds are others. */
static void fill_clock(const struct run *run, size_t k, struct timeline *t)
{
    char here[MACHINE];
    size_t s = run->options->warmup + k;
    machine_name(here);
    if (run->options->dilation > 0 || strcmp(run->worker[0].machine, here) != 0)
        return;
    t->step = (uint32_t)(run->keeping.first + s);
    t->monotonic_s = run->reports.start_s[s * run->program->ranks];
    t->unix_s = t->monotonic_s + clock_unix_offset();
}

/* Seconds of measured step k: until the last rank was done; without flush the pace of its middle,
 * as of simulations. `t` is scratch. */
static double iteration_of(const struct run *run, size_t k, struct timeline *t)
{
    bool settled;
    if (!run->program->asynchronous)
        return duration_of(run, run->options->warmup + k);
    fill_timeline(run, k, t);
    return timeline_iteration(run->program, t, &settled);
}

/* What each channel and ring edge carries in an iteration, and how much of it. */
static enum status fill_links(const struct program *p, const struct timeline *t,
                              struct measurement *out)
{
    size_t n = p->channels;
    PASS(ARRAY_NEW(out->link, n));
    for (size_t c = 0; c < n; c++) {
        char name[256];
        snprintf(name, sizeof name, "%.120s->%.120s", p->rank[p->channel[c].from].name,
                 p->rank[p->channel[c].to].name);
        PASS(text_copy(name, &out->link[c].name));
        out->links++;
    }
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_RECV) {
            struct measured_link *l = &out->link[p->op[i].channel];
            l->bytes += (double)p->op[i].bytes;
            l->busy_fraction += (t->end_s[i] - t->start_s[i]) / out->iteration_s;
        }
    for (size_t c = 0; c < n; c++)
        out->link[c].busy_fraction = fmin(1, out->link[c].busy_fraction);
    measurement_sort_links(out);
    return STATUS_OK;
}

/* Forwards of a rank through the one stage that has a loss; 0: its loss is told by another shard or
 * not that of samples of its own, or it has none. */
static size_t lossy_forwards(const struct run *run, uint32_t rank, size_t stage)
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
static size_t lossy_stage(const struct run *run)
{
    const struct program *p = run->program;
    size_t found = p->stages;
    for (size_t s = 0; s < p->stages; s++) {
        bool lossy = false;
        for (size_t k = p->stage_start[s]; k < p->stage_start[s + 1]; k++)
            lossy = lossy || !strcmp(run->model->op[p->stage_op[k]].kind, "loss");
        if (lossy && found < p->stages)
            return p->stages;
        found = lossy ? s : found;
    }
    return found;
}

/* Ranks report parts of the step's mean loss: over its part of the forwards that is a rank's own. */
static enum status fill_rank_losses(const struct run *run, struct measurement *out)
{
    const struct program *p = run->program;
    size_t stage = lossy_stage(run), all = 0;
    for (uint32_t r = 0; stage < p->stages && r < p->ranks; r++)
        all += lossy_forwards(run, r, stage);
    for (uint32_t r = 0; all > 0 && r < p->ranks; r++) {
        struct measured_rank *to = &out->rank[r];
        double share = (double)lossy_forwards(run, r, stage) / (double)all;
        if (share <= 0)
            continue;
        PASS(ARRAY_NEW(to->loss, run->steps));
        to->losses = run->steps;
        for (size_t s = 0; s < run->steps; s++)
            to->loss[s] = run->reports.loss[s * p->ranks + r] / share;
    }
    return STATUS_OK;
}

static enum status fill_losses(const struct run *run, struct measurement *out)
{
    size_t ranks = run->program->ranks;
    PASS(ARRAY_NEW(out->loss, run->steps));
    out->losses = run->steps;
    for (size_t s = 0; s < run->steps; s++)
        for (size_t r = 0; r < ranks; r++)
            out->loss[s] += run->reports.loss[s * ranks + r];
    return fill_rank_losses(run, out);
}

/* In all steps or in none, as the device is. */
static enum status fill_precisions(const struct run *run, struct measurement *out)
{
    const double *hits = run->reports.hits;
    if (isnan(hits[0]))
        return STATUS_OK;
    PASS(ARRAY_NEW(out->precision_1, run->steps));
    PASS(ARRAY_NEW(out->precision_5, run->steps));
    out->precisions_1 = out->precisions_5 = run->steps;
    for (size_t s = 0; s < run->steps; s++) {
        out->precision_1[s] = hits[2 * s];
        out->precision_5[s] = hits[2 * s + 1];
    }
    return STATUS_OK;
}

static enum status fill_parameters(const struct run *run, struct measurement *out)
{
    PASS(ARRAY_NEW(out->parameters_sha256, DIGEST_HEX));
    digest_hex(run->reports.digests, run->model->n * run->reports.shards * DIGEST,
               out->parameters_sha256);
    return STATUS_OK;
}

/* More ranks than cores, or other work beside them: then times are not those of the plan. */
static enum status warn_of_load(const struct run *run, struct measurement *out)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool timed = run->options->paced || launch_is_paced(run->options->device);
    if (!timed && (long)run->program->ranks > cores)
        PASS(measurement_warn(out, "%zu workers on %ld cores: times are not comparable",
                              run->program->ranks, cores));
    double share = run->reports.others_cpu_s / (clock_now() - run->started_s) / (double)cores;
    share = fmin(share, 1); /* CPU times come in ticks, which are long in a short run */
    if (share > 0.05)
        PASS(measurement_warn(out, "the machine was not idle: other work took %.0f %% of its CPUs",
                              100 * share));
    return STATUS_OK;
}

/* Paced compute has neither losses nor parameters, and its memory is not the model's. */
enum status launch_result(struct run *run, double cpu_s, struct measurement *out,
                          struct timeline *timeline)
{
    enum status st = STATUS_OK;
    const struct program *p = run->program;
    size_t n = run->options->steps;
    bool paced = launch_is_paced(run->options->device);
    struct measurement m = {.cpu_s = cpu_s};
    struct timeline t = {0};
    double *duration_s = NULL;
    TRY(ARRAY_NEW(duration_s, n));
    TRY(text_copy(launch_transport(run), &m.engine));
    TRY(timeline_init(&t, p->ops));
    for (size_t k = 0; k < n; k++)
        duration_s[k] = iteration_of(run, k, &t);
    size_t median = median_step(duration_s, n);
    fill_timeline(run, median, &t);
    fill_clock(run, median, &t);
    TRY(measurement_from_timeline(p, &t, &m));
    TRY(fill_links(p, &t, &m)); /* shares of this step: the median may be a mean of two */
    TRY(measurement_set_iterations(&m, p, duration_s, n));
    for (size_t r = 0; r < p->ranks && !paced; r++)
        m.rank[r].peak_bytes = run->worker[r].peak_bytes;
    TRY(measurement_add_calls(&m, p, &t));
    if (!paced) {
        TRY(fill_losses(run, &m));
        TRY(fill_precisions(run, &m));
        m.forward_only = p->forward_only;
        TRY(fill_parameters(run, &m));
        TRY(launch_fill_routing(run, &m));
    }
    TRY(launch_fill_hardware(run, &m));
    TRY(warn_of_load(run, &m));
    MOVE(out, m);
    if (timeline)
        MOVE(timeline, t);
out:
    timeline_free(&t);
    measurement_free(&m);
    free(duration_s);
    return st;
}
