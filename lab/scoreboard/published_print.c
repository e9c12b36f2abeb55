/* What became of published rows, for people and for programs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/strategy/constants.h"
#include "lab/scoreboard/published_expected.h"
#include "plots/plot.h"
#include "topologies/catalogue.h"

static const char *published_print_text_of(const char *text)
{
    return text ? text : "";
}

/* A column: what would end it, or the line, is a blank. */
static void put_column(FILE *out, const char *text, const char *end)
{
    for (text = published_print_text_of(text); *text; text++)
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    fputs(end, out);
}

/* Per cent, or a dash where there is none. */
static void put_share(FILE *out, double share)
{
    if (isfinite(share))
        fprintf(out, "\t%.1f", 100 * share);
    else
        fputs("\t-", out);
}

static void put_score(FILE *out, const char *by, const struct published_score *s)
{
    const double shares[] = {s->mean, s->median, s->p95, s->max, s->bias};
    fprintf(out, "%s\t", by);
    text_put_guard(out, s->name);
    fprintf(out, "%s\t%zu\t%zu\t%zu", s->name, s->rows, s->used, s->left_out);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        put_share(out, shares[i]);
    fprintf(out, isfinite(s->tau) ? "\t%.3f" : "\t-", s->tau);
    put_share(out, s->regret);
    fprintf(out, "\t%zu/%zu", s->best, s->groups);
    put_share(out, s->memory_median);
    fprintf(out, "\t%zu\t%zu", s->memories, s->false_oom);
    put_share(out, s->regret_first);
    put_share(out, s->roofline);
    fputc('\n', out);
}

static void put_scores(FILE *out, const struct published_table *t)
{
    fputs("by\tname\trows\tused\tleft_out\tmean_%\tmedian_%\tp95_%\tmax_%\tbias_%\ttau\tregret_%\t"
          "best\tmemory_%\tmemories\tfalse_oom\tregret_first_%\troofline_mean_%\n",
          out);
    for (size_t by = 0; by < sizeof t->kind / sizeof *t->kind; by++)
        for (size_t k = 0; k < t->kind[by].n; k++)
            put_score(out, t->kind[by].by, &t->kind[by].score[k]);
}

static void put_row_head(FILE *out)
{
    fputs("id\tmodel\tgpu\tgpus\tparallelism\tmeasured_s\tpredicted_s\terror_%\tcompute_%\t"
          "exposed_%\tidle_%\tpeak_GiB\tmemory_error_%\tmeasured_GiB\tweights_GiB\t"
          "gradients_GiB\tstate_GiB\tstash_GiB\tscratch_"
          "GiB\tassumed\ttype\tdtype\tframework\tapart_%\n",
          out);
}

/* By what runs are alike (study/expected.h), in the words of platforms and models. */
static void put_like(FILE *out, const struct published_config *c)
{
    const struct constants shipped = constants_shipped();
    char framework[PUBLISHED_PLATFORM];
    enum data_type dtype = DATA_ANY;
    const struct gpu *gpu = c->gpu ? gpu_named(c->gpu) : NULL;
    bool known = published_dtype(c, &dtype) == STATUS_OK;
    published_framework(c, &shipped, framework);
    fprintf(out, "\t%s\t%s\t%.*s", gpu ? gpu->type : "-", known ? data_type_names[dtype] : "-",
            (int)strcspn(framework, ":"), framework);
}

/* What was measured, and what the prediction consists of. */
static void published_print_put_memory(FILE *out, const struct published_measured *m,
                                       const struct published_prediction *q)
{
    const int64_t part[] = {q->weight_bytes, q->gradient_bytes, q->state_bytes, q->stash_bytes,
                            q->scratch_bytes};
    double measured = m->memory_gib > 0 ? m->memory_gib : m->last_gib;
    fprintf(out, measured > 0 ? "\t%.2f" : "\t-", measured);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        fprintf(out, "\t%.2f", (double)part[i] / 0x1p30);
    fprintf(out, "\t%s", q->assumed ? q->assumed : "-");
}

/* By the constants that do not know the row's set, NULL: nobody has fitted any. */
static void put_apart(FILE *out, const struct published_fits *fits, double measured_s, size_t i)
{
    put_share(out, fits && fits->set_s[i] > 0 ? fits->set_s[i] / measured_s - 1 : NAN);
    fputs("\n", out);
}

static void published_print_put_row(FILE *out, const struct published *p,
                                    const struct published_prediction *all,
                                    const struct published_table *t,
                                    const struct published_fits *fits, size_t i)
{
    const struct published_row *row = &p->row[i];
    const struct published_config *c = &row->config;
    const struct published_prediction *q = &all[i];
    char kind[64];
    put_column(out, row->id, "\t");
    put_column(out, c->name, "\t");
    put_column(out, c->gpu, "\t");
    fprintf(out, "%lld\t%s\t%.6g\t%.6g", (long long)c->gpus, published_kind(c, kind),
            t->measured_s[i], q->step_s);
    put_share(out, t->error[i]);
    put_share(out, q->busy);
    put_share(out, q->exposed);
    put_share(out, q->idle);
    fprintf(out, "\t%.2f", (double)q->peak_bytes / 0x1p30);
    put_share(out, t->memory_error[i]);
    published_print_put_memory(out, &row->measured, q);
    put_like(out, c);
    put_apart(out, fits, t->measured_s[i], i);
}

/* Tables with tabs between columns. */
void published_print(const struct published *p, const struct published_prediction *prediction,
                     const struct published_table *t, FILE *out)
{
    put_scores(out, t);
    if (t->reasons > 0)
        fputs("\nset\tleft_out\treason\n", out);
    for (size_t i = 0; i < t->reasons; i++)
        fprintf(out, "%s\t%zu\t%s\n", t->reason[i].set, t->reason[i].rows, t->reason[i].text);
    if (t->worsts > 0)
        fputc('\n', out);
    if (t->worsts > 0)
        put_row_head(out);
    for (size_t i = 0; i < t->worsts; i++)
        published_print_put_row(out, p, prediction, t, NULL, t->worst[i]);
}

/* ---- JSON */

static void put_json_score(struct json_writer *w, const char *key, const struct published_score *s)
{
    json_open_object(w, key, true);
    json_put_string(w, "name", s->name);
    json_put_integer(w, "rows", (int64_t)s->rows);
    json_put_integer(w, "used", (int64_t)s->used);
    json_put_integer(w, "left_out", (int64_t)s->left_out);
    json_put_real(w, "mean", s->mean);
    json_put_real(w, "median", s->median);
    json_put_real(w, "p95", s->p95);
    json_put_real(w, "max", s->max);
    json_put_real(w, "bias", s->bias);
    json_put_real(w, "tau", s->tau);
    json_put_integer(w, "choices", (int64_t)s->groups);
    json_put_integer(w, "best_found", (int64_t)s->best);
    json_put_real(w, "regret", s->regret);
    json_put_real(w, "regret_first", s->regret_first);
    json_put_integer(w, "memories", (int64_t)s->memories);
    json_put_real(w, "memory_median", s->memory_median);
    json_put_integer(w, "false_oom", (int64_t)s->false_oom);
    json_close(w);
}

/* "sets", then what else rows are grouped by, then "all" as an object of its own. */
static void put_json_scores(struct json_writer *w, const struct published_table *t)
{
    static const char *const keys[] = {"sets", "gpus", "dtypes", "parallelisms", "all"};
    for (size_t by = 0; by < sizeof t->kind / sizeof *t->kind; by++) {
        bool one = strcmp(keys[by], "all") == 0;
        if (!one)
            json_open_array(w, keys[by], false);
        for (size_t k = 0; k < t->kind[by].n; k++)
            put_json_score(w, one ? keys[by] : NULL, &t->kind[by].score[k]);
        if (!one)
            json_close(w);
    }
}

static void put_json_row(struct json_writer *w, const struct published_row *row,
                         const struct published_prediction *q, double measured, double error)
{
    json_open_object(w, NULL, true);
    json_put_string(w, "id", row->id);
    json_put_real(w, "measured_s", measured);
    json_put_real(w, "predicted_s", q->step_s);
    json_put_real(w, "error", error);
    json_put_real(w, "compute", q->busy);
    json_put_real(w, "exposed", q->exposed);
    json_put_real(w, "idle", q->idle);
    json_close(w);
}

enum status published_print_json(const struct published *p,
                                 const struct published_prediction *prediction,
                                 const struct published_table *t, const struct published_fits *fits,
                                 const struct published_misses *misses, FILE *out)
{
    struct json_writer w = {.stream = out};
    json_open_object(&w, NULL, false);
    put_json_scores(&w, t);
    json_open_array(&w, "left_out", false);
    for (size_t i = 0; i < t->reasons; i++) {
        json_open_object(&w, NULL, true);
        json_put_string(&w, "set", t->reason[i].set);
        json_put_integer(&w, "rows", (int64_t)t->reason[i].rows);
        json_put_string(&w, "reason", t->reason[i].text);
        json_close(&w);
    }
    json_close(&w);
    json_open_array(&w, "worst", false);
    for (size_t i = 0; i < t->worsts; i++) {
        size_t k = t->worst[i];
        put_json_row(&w, &p->row[k], &prediction[k], t->measured_s[k], t->error[k]);
    }
    json_close(&w);
    if (fits) {
        PASS(published_fits_put_json(p, fits, &w));
        PASS(published_coverage_put_json(misses, &w));
    }
    json_close(&w);
    fputc('\n', out);
    return STATUS_OK;
}

/* ---- a folder */

enum { PATH_ROOM = 4096 };

static enum status published_print_path_of(const char *folder, const char *name,
                                           char path[PATH_ROOM])
{
    return snprintf(path, PATH_ROOM, "%s/%s", folder, name) < PATH_ROOM
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "%s: path is too long, expected at most %d bytes with the file name",
                           folder, PATH_ROOM - 1);
}

static enum status write_rows(const struct published *p,
                              const struct published_prediction *prediction,
                              const struct published_table *t, const struct published_fits *fits,
                              const char *path)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    put_row_head(f.stream);
    for (size_t i = 0; i < p->rows; i++)
        if (!p->row[i].left_out)
            published_print_put_row(f.stream, p, prediction, t, fits, i);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

static enum status write_scores(const struct published_table *t, const char *path)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    put_scores(f.stream, t);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

/* The picture pairs measurements by the names of their plans, which are rows here. */
static enum status write_scatter(const struct published *p,
                                 const struct published_prediction *prediction,
                                 const struct published_table *t, const char *path,
                                 const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct measurement *m = NULL;
    const char **name = NULL;
    size_t n = 0;
    TRY(ARRAY_NEW(m, 2 * p->rows));
    TRY(ARRAY_NEW(name, 2 * p->rows));
    for (size_t i = 0; i < p->rows; i++) {
        char *id = (char *)(uintptr_t)(p->row[i].id ? p->row[i].id : p->row[i].set);
        if (isnan(t->error[i]))
            continue;
        name[n] = name[n + 1] = id;
        m[n].plan = m[n + 1].plan = id;
        m[n].engine = (char *)(uintptr_t) "analytic";
        m[n].iteration_s = prediction[i].step_s;
        m[n + 1].engine = (char *)(uintptr_t)p->row[i].set;
        m[n + 1].iteration_s = t->measured_s[i];
        n += 2;
    }
    if (n > 0)
        TRY(plot_scatter(m, name, n, path, by));
out:
    free(m);
    free(name);
    return st;
}

enum status published_write(const struct published *p,
                            const struct published_prediction *prediction,
                            const struct published_table *t, const struct published_fits *fits,
                            const char *folder, const struct provenance *by)
{
    char path[PATH_ROOM];
    PASS(published_print_path_of(folder, "rows.tsv", path));
    PASS(write_rows(p, prediction, t, fits, path));
    PASS(published_print_path_of(folder, "scores.tsv", path));
    PASS(write_scores(t, path));
    PASS(published_print_path_of(folder, "scatter.svg", path));
    return write_scatter(p, prediction, t, path, by);
}
