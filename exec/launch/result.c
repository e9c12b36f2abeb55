/* The last reports of workers, and what all of them have reported as a measurement.
 *
 * An iteration lasts until the last rank was done. The timeline is that of the step with the median
 * iteration time, or the kept one nearest to it, in seconds from the common start. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "exec/launch/run.h"

/* ---- the last reports */

/* Which part of an op's parameters a rank has: its shard's, and of experts that are spread over
 * replicas those of its replica. */
static size_t result_part(const struct launch_state *run, uint32_t rank, uint32_t op)
{
    const struct program *p = run->program;
    const struct program_rank *me = &p->rank[rank];
    size_t at = 0, s = 0;
    while (at < run->model->n && p->stage_op[at] != op)
        at++;
    while (s + 1 < p->stages && p->stage_start[s + 1] <= at)
        s++;
    uint32_t experts = run->model->op[op].exchange_bytes > 0 ? p->stage[s].expert_parallel : 1;
    return me->shard + me->replica % experts * (size_t)p->stage[s].tensor_parallel;
}

/* The digests of the ops in own[n] of a rank; they are equal on all replicas that have the same. */
static enum status take_digests(struct launch_state *run, uint32_t rank, const uint32_t *own,
                                size_t n, const char *payload)
{
    for (size_t k = 0; k < n; k++) {
        struct frame_digest d;
        memcpy(&d, payload + k * sizeof d, sizeof d);
        if (d.op != own[k] || d.op >= run->model->n)
            return error_set(
                STATUS_IO,
                "the worker sent the parameter digest of op %llu, which its rank does not own",
                (unsigned long long)d.op);
        size_t at = d.op * run->reports.shards + result_part(run, rank, (uint32_t)d.op);
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
enum status launch_take_done(struct launch_state *run, uint32_t rank, const char *payload)
{
    struct launched *w = &run->worker[rank];
    struct frame_done done;
    size_t n = program_rank_ops(run->program, rank, NULL);
    memcpy(&done, payload, sizeof done);
    if (w->stage == WORKER_DONE || w->steps != run->steps || done.digests != n)
        return error_set(
            STATUS_IO,
            "the worker finished after %zu of %zu steps with %llu parameter digests, expected "
            "all steps and one digest per op",
            w->steps, run->steps, (unsigned long long)done.digests);
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

/* How many measured steps all ranks have reported. */
static size_t measured_steps(const struct launch_state *run)
{
    size_t warmup = run->options->warmup;
    return run->reports.complete > warmup ? run->reports.complete - warmup : 0;
}

/* Of the steps whose op times are kept, the one whose duration is the (lower) median of all n;
 * where only some are kept, the first of those that are nearest to it. O(n). */
static enum status median_step(const struct run_reports *r, size_t n, size_t *out)
{
    size_t below = 0, best = 0;
    double *copy = NULL;
    PASS(ARRAY_COPY(copy, r->duration_s, n));
    double middle_s = select_nth(copy, n, (n - 1) / 2);
    free(copy);
    for (size_t k = 0; k < n; k++)
        below += r->duration_s[k] < middle_s;
    for (size_t k = 0; k < n; k += r->stride) {
        double off = fabs(r->duration_s[k] - middle_s),
               least = fabs(r->duration_s[best * r->stride] - middle_s);
        if (r->stride == 1 && off == 0 && below++ == (n - 1) / 2)
            best = k;
        else if (r->stride > 1 && off < least)
            best = k / r->stride;
    }
    *out = best;
    return STATUS_OK;
}

/* Times of the j-th step of which they are kept, from its start. */
static void fill_timeline(const struct launch_state *run, size_t j, struct timeline *t)
{
    const struct program *p = run->program;
    memcpy(t->start_s, run->reports.kept_start_s + j * p->ops, p->ops * sizeof(double));
    memcpy(t->end_s, run->reports.kept_end_s + j * p->ops, p->ops * sizeof(double));
    timeline_join(p, t);
}

/* When that step began, on rank 0 and only if that ran here, where this process has its clock; not
 * on emulated networks, whose seconds are others. */
static void fill_clock(const struct launch_state *run, size_t j, struct timeline *t)
{
    char here[MACHINE];
    machine_name(here);
    if (run->options->dilation > 0 || strcmp(run->worker[0].machine, here) != 0)
        return;
    t->step = (uint32_t)(run->keeping.first + run->options->warmup + j * run->reports.stride);
    t->monotonic_s = run->reports.kept_began_s[j];
    t->unix_s = t->monotonic_s + clock_unix_offset();
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

/* Ranks report parts of the step's mean loss: over its part of the forwards that is a rank's
 * own. */
static enum status fill_rank_losses(const struct launch_state *run, struct measurement *out)
{
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        struct measured_rank *to = &out->rank[r];
        const struct run_loss *from = &run->reports.of_rank[r];
        if (from->share <= 0)
            continue;
        to->losses = run->reports.complete;
        PASS(ARRAY_COPY(to->loss, from->loss, to->losses));
        for (size_t s = 0; s < to->losses; s++)
            to->loss[s] /= from->share;
    }
    return STATUS_OK;
}

static enum status fill_losses(const struct launch_state *run, struct measurement *out)
{
    out->losses = run->reports.complete;
    PASS(ARRAY_COPY(out->loss, run->reports.loss, out->losses));
    return fill_rank_losses(run, out);
}

/* In all steps or in none, as the device is. */
static enum status fill_precisions(const struct launch_state *run, struct measurement *out)
{
    size_t n = run->reports.complete;
    const double *hits = run->reports.hits;
    if (isnan(hits[0]))
        return STATUS_OK;
    PASS(ARRAY_NEW(out->precision_1, n));
    PASS(ARRAY_NEW(out->precision_5, n));
    out->precisions_1 = out->precisions_5 = n;
    for (size_t s = 0; s < n; s++) {
        out->precision_1[s] = hits[2 * s];
        out->precision_5[s] = hits[2 * s + 1];
    }
    return STATUS_OK;
}

static enum status fill_parameters(const struct launch_state *run, struct measurement *out)
{
    PASS(ARRAY_NEW(out->parameters_sha256, DIGEST_HEX));
    digest_hex(run->reports.digests, run->model->n * run->reports.shards * DIGEST,
               out->parameters_sha256);
    return STATUS_OK;
}

/* More ranks than cores, or other work beside them: then times are not those of the plan. */
static enum status warn_of_load(const struct launch_state *run, struct measurement *out)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool timed = run->options->paced || launch_is_paced(run->options->device);
    if (!timed && (long)run->program->ranks > cores)
        PASS(measurement_warn(
            out, "%zu workers share %ld cores: the measured times are distorted; use fewer ranks",
            run->program->ranks, cores));
    double share = run->reports.others_cpu_s / (clock_now() - run->started_s) / (double)cores;
    share = fmin(share, 1); /* CPU times come in ticks, which are long in a short run */
    if (share > 0.05)
        PASS(measurement_warn(out,
                              "the machine was not idle: other processes used %.0f %% of its CPUs",
                              100 * share));
    return STATUS_OK;
}

/* Memory at its peak, and what only ranks that are done have told. */
static enum status fill_ends(const struct launch_state *run, bool paced, struct measurement *m)
{
    bool done = run->done == run->program->ranks;
    for (size_t r = 0; r < run->program->ranks && !paced; r++)
        m->rank[r].peak_bytes = run->worker[r].peak_bytes;
    if (!done) {
        char kept[KEPT_TEXT];
        PASS(measurement_warn(m, "interrupted after %zu of %zu steps", run->reports.complete,
                              run->steps));
        return *launch_kept(run, kept) ? measurement_warn(m, "%s", kept) : STATUS_OK;
    }
    if (paced)
        return STATUS_OK;
    PASS(fill_parameters(run, m));
    return launch_fill_routing(run, m);
}

/* Paced compute has neither losses nor parameters, and its memory is not the model's. */
enum status launch_result(struct launch_state *run, double cpu_s, struct measurement *out,
                          struct timeline *timeline)
{
    enum status st = STATUS_OK;
    const struct program *p = run->program;
    size_t n = measured_steps(run), median;
    bool paced = launch_is_paced(run->options->device);
    struct measurement m = {.cpu_s = cpu_s};
    struct timeline t = {0};
    if (n == 0)
        return error_set(STATUS_INVALID, "interrupted before the first measured step was complete");
    TRY(text_copy(launch_transport(run), &m.engine));
    TRY(timeline_init(&t, p->ops));
    TRY(median_step(&run->reports, n, &median));
    fill_timeline(run, median, &t);
    fill_clock(run, median, &t);
    TRY(measurement_from_timeline(p, &t, &m));
    TRY(fill_links(p, &t, &m)); /* shares of this step: the median may be a mean of two */
    TRY(measurement_set_iterations(&m, p, run->reports.duration_s, n));
    TRY(measurement_add_calls(&m, p, &t));
    if (!paced) {
        TRY(fill_losses(run, &m));
        TRY(fill_precisions(run, &m));
        m.forward_only = p->forward_only;
    }
    TRY(fill_ends(run, paced, &m));
    TRY(launch_fill_hardware(run, &m));
    TRY(warn_of_load(run, &m));
    MOVE(out, m);
    if (timeline)
        MOVE(timeline, t);
out:
    timeline_free(&t);
    measurement_free(&m);
    return st;
}
