/* How far predictions of published rows are off: errors, rank correlations and regrets of groups of
 * rows that share a set, a GPU, a type of numbers or a kind of parallelism. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/order.h"
#include "core/base/statistics.h"
#include "core/data/compare.h"
#include "lab/scoreboard/published.h"
#include "topologies/catalogue.h"

double published_step_s(const struct published_row *row)
{
    const struct published_measured *m = &row->measured;
    const struct published_config *c = &row->config;
    double tokens = m->tokens_per_s > 0 ? m->tokens_per_s : m->tokens_if;
    if (m->step_s > 0)
        return m->step_s;
    if (m->samples_per_s > 0 && c->global_batch > 0)
        return (double)c->global_batch / m->samples_per_s;
    if (tokens > 0 && c->global_batch > 0 && c->gpus > 0)
        return (double)c->global_batch * (double)c->seq / (double)c->gpus / tokens;
    return m->derived_s;
}

const char *published_kind(const struct published_config *c, char text[64])
{
    int64_t zero = 0;
    const struct {
        const char *name;
        bool is;
    } all[] = {{"zero3", published_zero(c, &zero) == STATUS_OK && zero == 3},
               {"tp", c->tp > 1},
               {"pp", c->pp > 1},
               {"cp", c->cp > 1},
               {"ep", c->ep > 1}};
    text[0] = '\0';
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].is)
            snprintf(text + strlen(text), 64 - strlen(text), "%s%s", text[0] ? "+" : "",
                     all[i].name);
    if (!text[0])
        snprintf(text, 64, "%s", c->gpus > 1 ? "dp" : "one");
    return text;
}

/* ---- by what rows are grouped */

enum { BY_SET, BY_GPU, BY_DTYPE, BY_KIND, BY_ALL, KINDS };
static const char *const kind_names[KINDS] = {"set", "gpu", "dtype", "parallelism", "all"};

static const char *published_score_key_of(const struct published_row *row, int by, char text[64])
{
    enum data_type dtype = DATA_ANY;
    const struct gpu *gpu = row->config.gpu ? gpu_named(row->config.gpu) : NULL;
    if (by == BY_KIND)
        return published_kind(&row->config, text);
    if (by == BY_DTYPE)
        snprintf(text, 64, "%s",
                 published_dtype(&row->config, &dtype) == STATUS_OK ? data_type_names[dtype] : "?");
    else
        snprintf(text, 64, "%s",
                 by == BY_SET   ? row->set
                 : by == BY_ALL ? "all"
                 : gpu          ? gpu->name
                                : "?");
    return text;
}

/* ---- choices: rows of equal model, GPUs and batch */

static bool same_choice(const struct published_row *a, const struct published_row *b)
{
    const struct published_config *x = &a->config, *y = &b->config;
    return strcmp(a->set, b->set) == 0 && x->layers == y->layers && x->hidden == y->hidden &&
           x->heads == y->heads && x->ffn == y->ffn && x->seq == y->seq && x->gpus == y->gpus &&
           x->global_batch == y->global_batch && x->experts == y->experts &&
           strcmp(x->gpu ? x->gpu : "", y->gpu ? y->gpu : "") == 0 &&
           strcmp(x->dtype ? x->dtype : "", y->dtype ? y->dtype : "") == 0;
}

/* What scoring a group needs. */
struct scoring {
    const struct published *p;
    const struct published_prediction *prediction, *roofline;
    const struct published_table *t;
    bool *in;              /* [rows] of the group, with a time */
    double *value, *x, *y; /* [rows] */
};

/* The rows of the choice that row i is of, into x and y. Rows of one prediction are one plan that
 * was measured several times, which counts by its mean. */
static size_t take_choice(const struct scoring *g, size_t i)
{
    size_t n = 0;
    for (size_t k = i; k < g->p->rows; k++) {
        if (!g->in[k] || !same_choice(&g->p->row[i], &g->p->row[k]))
            continue;
        double predicted = g->prediction[k].step_s;
        size_t at = 0;
        g->in[k] = false;
        while (at < n && fabs(g->x[at] / predicted - 1) > 1e-9)
            at++;
        if (at == n) {
            g->x[n] = predicted;
            g->y[n] = 0;
            g->value[n++] = 0;
        }
        g->value[at]++;
        g->y[at] += (g->t->measured_s[k] - g->y[at]) / g->value[at];
    }
    return n;
}

/* Regrets of choices of two or more. */
static void score_choices(const struct scoring *g, struct published_score *s)
{
    double sum = 0, first = 0;
    for (size_t i = 0; i < g->p->rows; i++) {
        size_t n = g->in[i] ? take_choice(g, i) : 0;
        if (n < 2)
            continue;
        double cost = regret(g->x, g->y, n, 1);
        s->groups++;
        s->best += cost <= 0;
        sum += cost;
        first += regret(g->x, g->y, n, REGRET_FIRST);
    }
    s->regret = s->groups > 0 ? sum / (double)s->groups : NAN;
    s->regret_first = s->groups > 0 ? first / (double)s->groups : NAN;
}

/* Rows that ran need memory that their devices have. */
static void score_memory(const struct scoring *g, struct published_score *s, int by)
{
    size_t n = 0;
    char text[64];
    for (size_t i = 0; i < g->p->rows; i++) {
        const struct published_prediction *q = &g->prediction[i];
        if (strcmp(published_score_key_of(&g->p->row[i], by, text), s->name) != 0 || q->step_s <= 0)
            continue;
        s->false_oom += q->device_bytes > 0 && q->peak_bytes > q->device_bytes;
        if (!isnan(g->t->memory_error[i]))
            g->value[n++] = fabs(g->t->memory_error[i]);
    }
    s->memories = n;
    s->memory_median = median(g->value, n);
}

static void published_score_group(const struct scoring *g, struct published_score *s, int by)
{
    size_t n = 0;
    char text[64];
    double sum = 0, signed_sum = 0, roofline = 0;
    for (size_t i = 0; i < g->p->rows; i++) {
        bool is = strcmp(published_score_key_of(&g->p->row[i], by, text), s->name) == 0;
        g->in[i] = is && !isnan(g->t->error[i]);
        s->rows += is;
        s->used += is && !g->p->row[i].left_out;
        if (!g->in[i])
            continue;
        g->x[n] = g->prediction[i].step_s;
        g->y[n] = g->t->measured_s[i];
        g->value[n++] = fabs(g->t->error[i]);
        sum += fabs(g->t->error[i]);
        signed_sum += g->t->error[i];
        roofline += g->roofline ? fabs(g->roofline[i].step_s / g->t->measured_s[i] - 1) : NAN;
    }
    s->left_out = s->rows - s->used;
    s->mean = n > 0 ? sum / (double)n : NAN;
    s->roofline = n > 0 ? roofline / (double)n : NAN;
    s->bias = n > 0 ? signed_sum / (double)n : NAN;
    s->median = median(g->value, n);
    s->p95 = quantile(g->value, n, 0.95);
    s->max = quantile(g->value, n, 1);
    s->tau = n >= COMPARE_RANKED ? kendall_tau(g->x, g->y, n) : NAN;
    score_choices(g, s);
    score_memory(g, s, by);
}

/* The groups in the order of their first rows. */
static enum status published_score_find_groups(const struct published *p, struct published_table *t,
                                               int by)
{
    char text[64];
    t->kind[by].by = kind_names[by];
    for (size_t i = 0; i < p->rows; i++) {
        size_t k = 0;
        published_score_key_of(&p->row[i], by, text);
        while (k < t->kind[by].n && strcmp(t->kind[by].score[k].name, text) != 0)
            k++;
        if (k < t->kind[by].n)
            continue;
        PASS(ARRAY_ROOM(t->kind[by].score, k));
        snprintf(t->kind[by].score[k].name, sizeof text, "%s", text);
        t->kind[by].n++;
    }
    return STATUS_OK;
}

/* ---- rows */

/* The error of each row, or why it has none. */
static enum status judge_row(struct published *p, size_t i, const struct published_prediction *q,
                             struct published_table *t)
{
    struct published_row *row = &p->row[i];
    double measured = published_step_s(row), gib = row->measured.memory_gib;
    t->error[i] = t->memory_error[i] = NAN;
    if (row->left_out)
        return STATUS_OK;
    if (q->step_s <= 0)
        return published_leave_out(p, row, "%s", q->reason[0] ? q->reason : "no prediction");
    if (gib > 0)
        t->memory_error[i] = (double)q->peak_bytes / 0x1p30 / gib - 1;
    else if (row->measured.last_gib > 0)
        t->memory_error[i] = (double)q->last_bytes / 0x1p30 / row->measured.last_gib - 1;
    if (measured > 0) {
        t->measured_s[i] = measured;
        t->error[i] = q->step_s / measured - 1;
    } else if (isnan(t->memory_error[i])) {
        return published_leave_out(p, row, "neither a time nor memory was measured");
    }
    return STATUS_OK;
}

static enum status count_reason(struct published_table *t, const struct published_row *row)
{
    size_t k = 0;
    if (!row->left_out)
        return STATUS_OK;
    while (k < t->reasons && (strcmp(t->reason[k].text, row->left_out) != 0 ||
                              strcmp(t->reason[k].set, row->set) != 0))
        k++;
    if (k == t->reasons) {
        PASS(ARRAY_ROOM(t->reason, k));
        t->reason[t->reasons++] = (struct published_reason){row->set, row->left_out, 0};
    }
    t->reason[k].rows++;
    return STATUS_OK;
}

/* Largest errors first. */
static void find_worst(const struct published *p, struct published_table *t)
{
    enum { MOST = sizeof t->worst / sizeof *t->worst };
    for (size_t i = 0; i < p->rows; i++) {
        size_t at = t->worsts;
        if (isnan(t->error[i]))
            continue;
        while (at > 0 && fabs(t->error[t->worst[at - 1]]) < fabs(t->error[i]))
            at--;
        if (at == MOST)
            continue;
        t->worsts += t->worsts < MOST;
        memmove(&t->worst[at + 1], &t->worst[at], (t->worsts - at - 1) * sizeof *t->worst);
        t->worst[at] = i;
    }
}

enum status published_tabulate(struct published *p, const struct published_prediction *prediction,
                               const struct published_prediction *roofline,
                               struct published_table *out)
{
    enum status st;
    struct published_table t = {0};
    struct scoring g = {.p = p, .prediction = prediction, .roofline = roofline, .t = &t};
    TRY(ARRAY_NEW(t.error, p->rows));
    TRY(ARRAY_NEW(t.memory_error, p->rows));
    TRY(ARRAY_NEW(t.measured_s, p->rows));
    TRY(ARRAY_NEW(g.in, p->rows));
    TRY(ARRAY_NEW(g.value, p->rows));
    TRY(ARRAY_NEW(g.x, p->rows));
    TRY(ARRAY_NEW(g.y, p->rows));
    for (size_t i = 0; i < p->rows; i++) {
        TRY(judge_row(p, i, &prediction[i], &t));
        TRY(count_reason(&t, &p->row[i]));
    }
    for (int by = 0; by < KINDS; by++) {
        TRY(published_score_find_groups(p, &t, by));
        for (size_t k = 0; k < t.kind[by].n; k++)
            published_score_group(&g, &t.kind[by].score[k], by);
    }
    find_worst(p, &t);
    MOVE(out, t);
out:
    free(g.in);
    free(g.value);
    free(g.x);
    free(g.y);
    published_table_free(&t);
    return st;
}

void published_table_free(struct published_table *t)
{
    free(t->error);
    free(t->memory_error);
    free(t->measured_s);
    for (int by = 0; by < KINDS; by++)
        free(t->kind[by].score);
    free(t->reason);
    *t = (struct published_table){0};
}
