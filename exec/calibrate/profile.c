/* Profiles of models: each op measured as it is, instead of predicted from rates.
 *
 * Ops that are alike in kind and shape cost the same: each different one is measured once, by all
 * ranks at the same time, and its median goes to all that are like it. */
#include "exec/calibrate/profile.h"
#include "core/base/array.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "exec/calibrate/probe.h"
#include "exec/device.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/sharded/sharded.h"
#include "exec/team.h"
#include "host/folder.h"

/* ---- what is measured */

struct survey {
    struct arena memory; /* of the arrays */
    const struct profile_options *options;
    size_t n;            /* ops */
    uint32_t *case_of;   /* [n] */
    size_t cases;        /* distinct layers */
    struct layer *layer; /* [cases] */
    double *call_s;      /* [case][forward, backward][rank][repeat] */
    double *median_s;    /* [case][forward, backward] */
};

static bool same_parts(const struct layer *a, const struct layer *b)
{
    bool same = true;
    for (size_t k = 0; k < LAYER_PARTS; k++)
        same = same && a->part[k].n == b->part[k].n;
    return same;
}

static bool same_windows(const struct layer *a, const struct layer *b)
{
    const struct layer_window *v = &a->window_of, *w = &b->window_of;
    return v->height == w->height && v->width == w->width && v->kernel == w->kernel &&
           v->stride == w->stride && v->padding == w->padding && a->average == b->average;
}

/* Do two layers cost the same? */
bool layers_alike(const struct layer *a, const struct layer *b)
{
    return a->kind == b->kind && a->tokens == b->tokens && a->in == b->in && a->out == b->out &&
           a->heads.n == b->heads.n && a->vocabulary == b->vocabulary &&
           a->attention.causal == b->attention.causal && a->bias == b->bias &&
           a->concat == b->concat && a->masked == b->masked && a->tied == b->tied &&
           a->borrows == b->borrows && a->inputs == b->inputs && a->input == b->input &&
           a->output == b->output && a->saved == b->saved && a->work == b->work &&
           a->shared == b->shared && a->second == b->second && same_parts(a, b) &&
           same_windows(a, b);
}

/* Compare with those found so far, quadratic in the different ops only, of which there are few. */
static enum status find_cases(struct survey *s, const struct model *m)
{
    s->n = m->n;
    PASS(ARENA_NEW(&s->memory, s->case_of, m->n));
    PASS(ARENA_NEW(&s->memory, s->layer, m->n));
    for (uint32_t i = 0; i < m->n; i++) {
        struct layer *l = &s->layer[s->cases];
        uint32_t k = 0;
        PASS(layer_shape(m, i, s->options->batch, l));
        while (!layers_alike(&s->layer[k], l))
            k++;
        s->case_of[i] = k;
        s->cases += k == s->cases;
    }
    return STATUS_OK;
}

/* Ops that strategies compute are measured in their place, between those before and behind them. */
static enum status profile_find_nodes(struct survey *s, const struct model *m)
{
    s->n = s->cases = m->n;
    PASS(ARENA_NEW(&s->memory, s->case_of, m->n));
    for (uint32_t i = 0; i < m->n; i++)
        s->case_of[i] = i;
    return STATUS_OK;
}

/* ---- measuring */

static double *calls_at(const struct survey *s, double *call_s, size_t c, bool backward,
                        size_t rank)
{
    const struct profile_options *o = s->options;
    return call_s + ((2 * c + backward) * o->ranks + rank) * o->repeats;
}

/* In the same order on all ranks, which wait for each other before every case. */
static enum status measure_cases(const struct survey *s, struct bench *b, double *number)
{
    const struct profile_options *o = s->options;
    for (size_t c = 0; c < s->cases; c++) {
        if (o->notes && b->rank == 0)
            fprintf(o->notes, "\rprofile: op %zu of %zu different ones", c + 1, s->cases);
        PASS(bench_layer(b, &s->layer[c], o->batch, calls_at(s, number, c, false, b->rank),
                         calls_at(s, number, c, true, b->rank)));
    }
    return STATUS_OK;
}

/* Seconds of the nodes of an iteration: those that are ops of the model, in its order. What the
 * iteration begins with, inputs and clearing, is the first one's, as in a run. */
static enum status take_nodes(const struct survey *s, const struct sharded *d, uint32_t rank,
                              size_t repeat, double *number)
{
    size_t op = 0;
    for (size_t i = 0; i < d->all->nodes; i++) {
        if (!d->kind[i] || d->kind[i]->hidden)
            continue;
        for (size_t back = 0; back < 2 && op < s->cases; back++)
            calls_at(s, number, op, back, rank)[repeat] =
                d->seconds[2 * i + back] + (op == 0 && !back ? d->begin_s : 0);
        op++;
    }
    return op == s->cases
               ? STATUS_OK
               : error_set(STATUS_INVALID, "the strategy lists %zu ops, but the model has %zu", op,
                           s->cases);
}

/* Iterations of a strategy on one device, the first of them not counted. */
static enum status measure_strategy(const struct survey *s, struct bench *b, double *number)
{
    enum status st;
    struct sharded *d;
    double *seconds = NULL;
    const struct device_options options = {.learning_rate = 1e-3};
    PASS(sharded_open(&engine_cpu, s->options->strategy, 0, &options, &d));
    TRY(ARRAY_NEW(seconds, 2 * d->all->nodes));
    d->seconds = seconds;
    for (size_t k = 0; k <= b->repeats; k++) {
        memset(seconds, 0, 2 * d->all->nodes * sizeof *seconds);
        d->begin_s = 0;
        b->together(b->context);
        sharded_forward(d, UINT32_MAX, 0);
        sharded_update(d, 1);
        TRY(take_nodes(s, d, b->rank, k > 0 ? k - 1 : 0, number));
    }
out:
    free(seconds);
    sharded_close(d);
    return st;
}

static enum status profile_run_member(struct team_member *me, void *context)
{
    const struct survey *s = context;
    struct bench b = {.ranks = me->ranks,
                      .repeats = s->options->repeats,
                      .rank = me->rank,
                      .together = calibrate_together,
                      .context = me->together};
    return s->options->strategy ? measure_strategy(s, &b, me->number)
                                : measure_cases(s, &b, me->number);
}

/* The worker reads the model from a file of ours. */
static enum status measure_on_gpu(const struct survey *s, const struct model *m, size_t numbers,
                                  double limit_s)
{
    enum status st;
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE], batch[32], repeats[32];
    const struct provenance by = {.version = foreline_version, .command = "foreline model profile"};
    PASS(folder_temporary(folder));
    folder_file(folder, "model.json", path);
    snprintf(batch, sizeof batch, "%zu", s->options->batch);
    snprintf(repeats, sizeof repeats, "%zu", s->options->repeats);
    const char *const arguments[] = {
        profile_flag, path, batch, repeats, calibrate_cudnn(s->options->cudnn), NULL};
    TRY(model_write(m, path, &by));
    TRY(calibrate_gpu_worker(s->options->worker, arguments, numbers, limit_s, s->call_s));
out:
    folder_remove(folder);
    return st;
}

enum status profile_measure(struct bench *b, const struct model *m, size_t batch)
{
    enum status st;
    const struct profile_options o = {.batch = batch, .ranks = 1, .repeats = b->repeats};
    struct survey s = {.options = &o};
    b->half = layer_half(m);
    TRY(find_cases(&s, m));
    size_t n = 2 * s.cases * b->repeats;
    TRY(ARENA_NEW(&s.memory, s.call_s, n));
    TRY(measure_cases(&s, b, s.call_s));
    calibrate_print(s.call_s, n);
out:
    arena_free(&s.memory);
    return st;
}

static enum status profile_run_measure(struct survey *s, const struct model *m)
{
    const struct profile_options *o = s->options;
    size_t numbers = 2 * s->cases * o->ranks * o->repeats;
    PASS(ARENA_NEW(&s->memory, s->call_s, numbers));
    double limit_s = calibrate_within(o->repeats, s->cases);
    PASS(o->gpu ? measure_on_gpu(s, m, numbers, limit_s)
                : team_run(o->ranks, numbers, limit_s, profile_run_member, s, s->call_s));
    if (o->notes)
        fputc('\n', o->notes);
    return STATUS_OK;
}

/* A time that milliseconds with six decimals and a division by 1000 give back exactly. */
static double whole_ns(double seconds)
{
    return round(seconds * 1e9) / 1e6 / 1e3;
}

/* Adds mean and standard deviation of value[n]. */
static void add_moments(const double *value, size_t n, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += value[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (value[i] - sum) * (value[i] - sum);
    *mean += sum;
    *deviation += n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

/* Over the repetitions of all ranks together: a pipeline waits for all of them. */
static enum status take_medians(struct survey *s, struct calibrate_spread *spread)
{
    const struct profile_options *o = s->options;
    size_t n = 2 * s->cases;
    double *apart = NULL, mean_s = 0, deviation_s = 0;
    const size_t calls = o->ranks * o->repeats;
    PASS(ARENA_NEW(&s->memory, apart, n));
    PASS(ARENA_NEW(&s->memory, s->median_s, n));
    for (size_t k = 0; k < n; k++) {
        double *call_s = calls_at(s, s->call_s, k / 2, k % 2, 0);
        add_moments(call_s, calls, &mean_s, &deviation_s);
        s->median_s[k] = whole_ns(sorted_middle(call_s, calls, &apart[k]));
    }
    spread->jitter = mean_s > 0 ? deviation_s / mean_s : 0;
    spread->median = sorted_middle(apart, n, &spread->worst);
    spread->worst = apart[n - 1];
    return STATUS_OK;
}

/* ---- the profile */

static enum status make_profile(const struct survey *s, struct model_profile *out)
{
    enum status st;
    struct model_profile p = {.samples = (double)s->options->batch, .tensor_parallel = 1};
    TRY(ARRAY_NEW(p.forward_s, s->n));
    TRY(ARRAY_NEW(p.backward_s, s->n));
    TRY(text_copy(s->options->gpu ? "cuda" : "cpu", &p.device));
    for (size_t i = 0; i < s->n; i++) {
        p.forward_s[i] = s->median_s[2 * s->case_of[i]];
        p.backward_s[i] = s->median_s[2 * s->case_of[i] + 1];
    }
    MOVE(out, p);
out:
    model_profile_free(&p);
    return st;
}

static enum status put_profile(struct model *m, const struct survey *s)
{
    struct model_profile p;
    PASS(make_profile(s, &p));
    enum status st = model_put_profile(m, &p);
    model_profile_free(&p);
    return st;
}

const char profile_flag[] = "--profile";

/* What cannot be measured is refused before any process is started. */
enum status profile_ops(struct model *m, const struct profile_options *o,
                        struct calibrate_spread *spread)
{
    enum status st;
    struct survey s = {.options = o};
    if (o->batch < 1 || o->ranks < 1 || o->ranks > TEAM_MOST || o->repeats < 1 ||
        o->repeats > CALIBRATE_REPEATS)
        return error_set(STATUS_INVALID,
                         "got %zu samples per microbatch, %zu ranks and %zu repeats, expected at "
                         "least 1 sample, 1 to %d ranks and 1 to %d repeats",
                         o->batch, o->ranks, o->repeats, TEAM_MOST, CALIBRATE_REPEATS);
    if (m->element_bytes != sizeof(real) && !(o->gpu && m->element_bytes == 2))
        return error_set(
            STATUS_UNSUPPORTED,
            "model '%s' has %lld bytes per parameter, but the %s device supports only %s", m->name,
            (long long)m->element_bytes, o->gpu ? "CUDA" : "CPU", o->gpu ? "4 and 2" : "4");
    if (o->gpu && o->ranks != 1)
        return error_set(STATUS_UNSUPPORTED,
                         "got --ranks %zu, expected 1: GPUs are measured one at a time", o->ranks);
    TRY((o->strategy ? profile_find_nodes : find_cases)(&s, m));
    TRY(profile_run_measure(&s, m));
    TRY(take_medians(&s, spread));
    TRY(put_profile(m, &s));
out:
    arena_free(&s.memory);
    return st;
}
