/* Constants become varied platforms, these become predictions, and linearised fits follow one
 * another until the predictions are nearest to what was measured. */
#include "study/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "host/folder.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "sim/platform/properties.h"
#include "sim/platform/variant.h"
#include "sim/platform/xml_scan.h"
#include "study/evaluate.h"
#include "study/fit_posterior.h"
#include "study/pool.h"

static const double first = 0.8, later = 0.25; /* steps of derivatives, in widths */
static const double near = 0.03;    /* the rounds end where no constant moves by more, in widths */
static const double nothing = 2e-3; /* a constant is silent that changes no run by so much */
/* Of the mean error of runs left out: one more constant is taken where it falls to `better` times
 * what it was; numbers of constants are not tried further whose linear problem has `hopeless` times
 * the least; below `enough` none is added. */
static const double better = 0.98, hopeless = 2, enough = 1e-3;
enum { ROUNDS = 3, HALVINGS = 4 };

/* ---- platforms */

/* What an earlier fit says in the text. */
static enum status fit_read_earlier(struct fit_platform *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    char value[1024];
    while (xml_next(&s, &tag))
        if (xml_is(&tag, "prop") && xml_equal(xml_attribute(&tag, "id"), "fitted") &&
            xml_decode(xml_attribute(&tag, "value"), value, sizeof value) < sizeof value)
            return fitted_read(value, p->earlier);
    return STATUS_OK;
}

/* The tiers of its links, "nvlink" and "rail" of "nvlink+rail", whose links can be varied. */
static enum status fit_find_tiers(const struct topology *t, struct fit *f, struct fit_platform *p)
{
    for (size_t k = 0; k < t->tiers; k++)
        for (const char *at = t->tier[k].name; *at; at += strcspn(at, "+"), at += *at == '+') {
            char name[FIT_NAME], change[FIT_NAME + 16];
            size_t i = 0;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "+"), at);
            while (i < f->tiers && strcmp(f->tier[i].name, name) != 0)
                i++;
            if (i == FIT_TIERS || strpbrk(name, ",=*?["))
                continue;
            struct file_text text;
            snprintf(change, sizeof change, "%s.bandwidth=x1", name);
            PASS(file_text_open(&text));
            const struct platform_text own = {p->path, p->text};
            bool varied = platform_vary(&own, change, text.stream) == STATUS_OK;
            PASS(file_text_close(&text, STATUS_OK));
            free(text.text);
            if (!varied)
                continue;
            if (i == f->tiers)
                memcpy(f->tier[f->tiers++].name, name, sizeof name);
            if (!strcmp(name, t->tier[k].name) && f->tier[i].bandwidth_Bps <= 0) {
                f->tier[i].bandwidth_Bps = t->tier[k].bandwidth_Bps;
                f->tier[i].latency_s = t->tier[k].latency_s;
            }
            p->tiers |= UINT32_C(1) << i;
        }
    return STATUS_OK;
}

enum status fit_read_platform(const char *path, struct fit *f, struct fit_platform *out)
{
    enum status st;
    struct topology t = {0};
    struct fit_platform p = {0};
    size_t length;
    TRY(text_copy(path, &p.path));
    TRY(file_read(path, &p.text, &length));
    TRY(platform_read(path, &t));
    p.devices = t.n;
    TRY(fit_read_earlier(&p));
    TRY(fit_find_tiers(&t, f, &p));
    MOVE(out, p);
out:
    fit_platform_free(&p);
    topology_free(&t);
    return st;
}

void fit_platform_free(struct fit_platform *p)
{
    free(p->path);
    free(p->text);
    *p = (struct fit_platform){0};
}

/* Changes of its links, "" if there are none; and the property of its devices. Both malloc'd. */
static enum status fit_say_changes(const struct fit *f, const struct fit_platform *p,
                                   const double *times, char **links, char **property)
{
    double device[FITTED_DEVICE];
    struct file_text t = {0}, words = {0};
    memcpy(device, p->earlier, sizeof device);
    PASS(file_text_open(&t));
    for (size_t k = 0; k < f->constants; k++) {
        const struct fit_constant *c = &f->constant[k];
        if (c->what < FITTED_DEVICE)
            device[c->what] = fitted_times(device[c->what]) * times[k];
        else if (p->tiers >> c->tier & 1 && times[k] != 1)
            fprintf(t.stream, "%s%s=x%.12g", ftell(t.stream) > 0 ? "," : "", c->name, times[k]);
    }
    PASS(file_text_close(&t, STATUS_OK));
    *links = t.text;
    PASS(file_text_open(&words));
    fitted_put(device, words.stream);
    if (**links && ftell(words.stream) == 0) /* so that the platform says that it is fitted */
        fputs("products=1", words.stream);
    PASS(file_text_close(&words, STATUS_OK));
    *property = words.text;
    return STATUS_OK;
}

enum status fit_put_platform(const struct fit *f, const struct fit_platform *p, const double *times,
                             FILE *to)
{
    enum status st;
    char id[] = "fitted", *links = NULL, *words = NULL;
    struct file_text varied = {0};
    TRY(fit_say_changes(f, p, times, &links, &words));
    TRY(file_text_open(&varied));
    const struct platform_text own = {p->path, p->text};
    if (*links)
        st = platform_vary(&own, links, varied.stream);
    else
        fputs(p->text, varied.stream);
    TRY(file_text_close(&varied, st));
    const struct platform_text text = {p->path, varied.text};
    const struct platform_property_text property = {id, words};
    TRY(platform_set_properties(&text, &property, *words ? 1 : 0, to));
out:
    free(links);
    free(words);
    free(varied.text);
    return st;
}

static enum status fit_read_varied(const struct fit *f, const struct fit_platform *p,
                                   const double *times, struct topology *out)
{
    enum status st;
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE];
    struct file_out file = {0};
    PASS(folder_temporary(folder));
    TRY(file_create(folder_file(folder, "platform.xml", path), &file));
    TRY(fit_put_platform(f, p, times, file.stream));
    TRY(file_commit(&file));
    TRY(platform_read(path, out));
out:
    file_discard(&file);
    folder_remove(folder);
    return st;
}

/* ---- predictions */

struct fit_prediction {
    double seconds, bytes;
};

struct fit_predictor {
    const struct fit *f;
    struct topology *topology; /* [platforms] */
    bool all;                  /* rows without a time, too */
};

static enum status fit_predict_row(void *context, size_t i, void *slot)
{
    const struct fit_predictor *w = context;
    struct fit_prediction *out = slot;
    const struct fit_row *row = &w->f->row[i];
    struct measurement m = {0};
    if (!w->all && row->measured_s <= 0)
        return STATUS_OK;
    const struct evaluation_context at = {.model = &row->plan.model,
                                          .topology = &w->topology[row->platform],
                                          .platform = row->plan.platform,
                                          .simulated_only = true,
                                          .fold_from = 2,
                                          .no_links = true};
    enum status st = evaluate_plan(&row->plan.plan, &at, engine_quick(), &m, NULL, NULL);
    out->seconds = m.iteration_s;
    for (size_t r = 0; r < m.ranks; r++)
        out->bytes = fmax(out->bytes, (double)m.rank[r].peak_bytes);
    measurement_free(&m);
    if (st == STATUS_OK && !(out->seconds > 0))
        st = error_set(STATUS_INFEASIBLE, "the predicted iteration time is 0 s");
    return st == STATUS_OK ? st : error_context(st, "%s:%zu: %s", w->f->path, row->line, row->name);
}

/* What rows come to with these times [constants]: out [rows]. `all`: also those without a time. */
static enum status fit_predict(const struct fit *f, const double *times, bool all,
                               struct fit_prediction *out)
{
    enum status st;
    struct fit_predictor w = {.f = f, .all = all};
    TRY(ARRAY_NEW(w.topology, f->platforms));
    for (size_t i = 0; i < f->platforms; i++)
        TRY(fit_read_varied(f, &f->platform[i], times, &w.topology[i]));
    memset(out, 0, f->rows * sizeof *out);
    TRY(pool_for(0, f->rows, sizeof *out, out, fit_predict_row, &w));
out:
    for (size_t i = 0; w.topology && i < f->platforms; i++)
        topology_free(&w.topology[i]);
    free(w.topology);
    return st;
}

/* ---- rounds */

struct fit_rounds {
    struct fit *f;
    const struct simulation_watch *watch;
    size_t done, all;                  /* predictions of all rows */
    struct fit_prediction *at, *other; /* [rows] at x, and elsewhere */
    double x[FIT_CONSTANTS];           /* logarithms of times */
    double *slope, *target; /* [measured * constants] and [measured]: a linear problem at x */
    bool silent[FIT_CONSTANTS];
};

static enum status fit_look(struct fit_rounds *r, const double *x, bool all,
                            struct fit_prediction *out)
{
    double times[FIT_CONSTANTS];
    for (size_t k = 0; k < r->f->constants; k++)
        times[k] = exp(x[k]);
    PASS(fit_predict(r->f, times, all, out));
    if (r->watch)
        (void)r->watch->tick(r->watch->context, ++r->done, r->all);
    return STATUS_OK;
}

static const struct fitted_row *fit_expected(const struct fit_rounds *r, size_t k)
{
    return &fitted_rows[r->f->constant[k].what];
}

/* Derivatives of log(predicted) at x, and what is left there. */
static enum status fit_linearise(struct fit_rounds *r, bool begins)
{
    const struct fit *f = r->f;
    for (size_t k = 0; k < f->constants; k++) {
        double x[FIT_CONSTANTS], width = fit_expected(r, k)->width;
        double step = (begins ? first : later) * width;
        memcpy(x, r->x, sizeof x);
        x[k] += step;
        if (!r->silent[k])
            PASS(fit_look(r, x, false, r->other));
        bool any = false;
        for (size_t i = 0, n = 0; i < f->rows; i++)
            if (f->row[i].measured_s > 0) {
                double *s = &r->slope[n++ * f->constants + k];
                *s = r->silent[k] ? 0 : log(r->other[i].seconds / r->at[i].seconds) / step;
                any |= fabs(*s) * width > nothing;
            }
        r->silent[k] |= begins && !any;
    }
    return STATUS_OK;
}

static void fit_aim(const struct fit_rounds *r)
{
    const struct fit *f = r->f;
    for (size_t i = 0, n = 0; i < f->rows; i++)
        if (f->row[i].measured_s > 0) {
            r->target[n] = log(f->row[i].measured_s / r->at[i].seconds);
            for (size_t k = 0; k < f->constants; k++)
                r->target[n] += r->slope[n * f->constants + k] * r->x[k];
            n++;
        }
}

/* Sum of squares of what is left, without a square of one constant. */
static double fit_left(const struct fit *f, const struct fit_prediction *at)
{
    double sum = 0;
    for (size_t i = 0; i < f->rows; i++)
        if (f->row[i].measured_s > 0)
            sum += pow(log(f->row[i].measured_s / at[i].seconds), 2);
    return sum;
}

/* Go to y, or part of the way if there is more left there. */
static enum status fit_step(struct fit_rounds *r, const double *to, double *moved)
{
    const struct fit *f = r->f;
    double y[FIT_CONSTANTS], share = 1, before = fit_left(f, r->at);
    for (size_t h = 0; h < HALVINGS; h++, share /= 2) {
        *moved = 0;
        for (size_t k = 0; k < f->constants; k++) {
            const struct fitted_row *e = fit_expected(r, k);
            y[k] = r->x[k] + share * (to[k] - r->x[k]);
            y[k] = fmax(fmin(y[k], log(e->most)), log(e->least));
            *moved = fmax(*moved, fabs(y[k] - r->x[k]) / e->width);
        }
        PASS(fit_look(r, y, false, r->other));
        if (fit_left(f, r->other) <= before * 1.02 + 1e-9)
            break;
    }
    memcpy(r->x, y, sizeof y);
    memcpy(r->at, r->other, f->rows * sizeof *r->at);
    return STATUS_OK;
}

static struct fit_linear fit_linear_of(const struct fit_rounds *r)
{
    struct fit_linear l = {.rows = r->f->measured,
                           .constants = r->f->constants,
                           .slope = r->slope,
                           .target = r->target};
    for (size_t k = 0; k < r->f->constants; k++)
        l.width[k] = r->silent[k] ? 0 : fit_expected(r, k)->width;
    return l;
}

static void fit_keep(const struct fit_rounds *r, const struct fit_answer *a)
{
    struct fit *f = r->f;
    f->noise = a->noise;
    memcpy(f->correlation, a->correlation, sizeof f->correlation);
    for (size_t k = 0; k < f->constants; k++) {
        struct fit_constant *c = &f->constant[k];
        c->value = exp(r->x[k]);
        c->low = fmin(exp(a->low[k]), c->value);
        c->high = fmax(exp(a->high[k]), c->value);
        c->told = a->told[k];
        c->state = r->silent[k] ? FIT_SILENT : a->free[k] ? FIT_FREE : FIT_HELD;
    }
    for (size_t i = 0, n = 0; i < f->rows; i++) {
        struct fit_row *row = &f->row[i];
        row->fitted_s = r->at[i].seconds;
        if (row->measured_s > 0) {
            row->apart_s = row->measured_s * exp(-a->apart[n++]);
            f->begin_error += fabs(row->begin_s / row->measured_s - 1) / (double)f->measured;
            f->error += fabs(row->fitted_s / row->measured_s - 1) / (double)f->measured;
            f->apart_error += fabs(row->apart_s / row->measured_s - 1) / (double)f->measured;
        }
    }
}

/* Rounds of linear problems with so many free constants, each at the answer of the one before; the
 * first is at the catalogue's values, whose derivatives `begin` has. */
static enum status fit_go_with(struct fit_rounds *r, size_t members, const struct fit_rounds *begin,
                               struct fit_answer *a)
{
    const struct fit *f = r->f;
    double moved = 1;
    memset(r->x, 0, sizeof r->x);
    memcpy(r->at, begin->at, f->rows * sizeof *r->at);
    memcpy(r->slope, begin->slope, f->measured * f->constants * sizeof *r->slope);
    for (size_t round = 0; round < ROUNDS; round++) {
        if (round > 0)
            PASS(fit_linearise(r, false));
        fit_aim(r);
        const struct fit_linear l = fit_linear_of(r);
        PASS(fit_solve_linear(&l, members, a));
        if (moved <= near)
            break;
        PASS(fit_step(r, a->value, &moved));
    }
    return STATUS_OK;
}

static enum status fit_rounds_open(const struct fit_rounds *from, struct fit_rounds *out)
{
    const struct fit *f = from->f;
    *out = *from;
    out->at = out->other = NULL;
    out->slope = out->target = NULL;
    PASS(ARRAY_NEW(out->at, f->rows));
    PASS(ARRAY_NEW(out->other, f->rows));
    PASS(ARRAY_NEW(out->slope, f->measured * f->constants));
    return ARRAY_NEW(out->target, f->measured);
}

static void fit_rounds_close(struct fit_rounds *r)
{
    free(r->at);
    free(r->other);
    free(r->slope);
    free(r->target);
}

/* No constant free, one, ...: as many as are best for runs that are left out. */
static enum status fit_go(struct fit_rounds *begin)
{
    enum status st;
    struct fit *f = begin->f;
    struct fit_rounds r = {0};
    struct fit_answer a = {0}, best = {.error = INFINITY};
    double x[FIT_CONSTANTS], linear[FIT_FREED + 1], least = INFINITY;
    TRY(ARRAY_NEW(a.apart, f->measured));
    TRY(ARRAY_NEW(best.apart, f->measured));
    TRY(fit_rounds_open(begin, &r));
    TRY(fit_look(begin, begin->x, true, begin->at));
    for (size_t i = 0; i < f->rows; i++) {
        f->row[i].begin_s = begin->at[i].seconds;
        f->row[i].peak_bytes = begin->at[i].bytes;
    }
    TRY(fit_linearise(begin, true));
    memcpy(r.silent, begin->silent, sizeof r.silent);
    fit_aim(begin);
    const struct fit_linear l = fit_linear_of(begin);
    for (size_t n = 0; n <= FIT_FREED && n < f->measured; n++) {
        TRY(fit_solve_linear(&l, n, &a));
        linear[n] = a.error;
        least = fmin(least, linear[n]);
    }
    for (size_t n = 0; n <= FIT_FREED && n < f->measured && best.error > enough; n++) {
        if (linear[n] > hopeless * least + enough)
            continue;
        r.done = begin->done;
        TRY(fit_go_with(&r, n, begin, &a));
        begin->done = r.done;
        if (a.error > better * best.error)
            continue;
        double *apart = best.apart;
        memcpy(apart, a.apart, f->measured * sizeof *apart);
        best = a;
        best.apart = apart;
        memcpy(x, r.x, sizeof x);
    }
    memcpy(r.x, x, sizeof x);
    TRY(fit_look(&r, r.x, true, r.at));
    fit_keep(&r, &best);
out:
    free(a.apart);
    free(best.apart);
    fit_rounds_close(&r);
    return st;
}

/* ---- constants */

static bool fit_wanted(const char *only, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, n) && (at[n] == ',' || at[n] == '\0'))
            return true;
    return !only;
}

/* All that the platforms have, or those of a list. */
static enum status fit_choose_constants(struct fit *f, const char *only)
{
    size_t named = only ? 1 : 0;
    for (const char *at = only; at && *at; at++)
        named += *at == ',';
    for (size_t i = 0; i < FITTED_ROWS; i++)
        for (size_t tier = 0; tier < (i < FITTED_DEVICE ? 1 : f->tiers); tier++) {
            struct fit_constant c = {.what = (enum fitted_constant)i, .tier = tier, .value = 1};
            if (i < FITTED_DEVICE)
                snprintf(c.name, sizeof c.name, "%s", fitted_rows[i].name);
            else if (snprintf(c.name, sizeof c.name, "%s.%s", f->tier[tier].name,
                              fitted_rows[i].name) >= FIT_NAME)
                continue;
            if (i >= FITTED_DEVICE)
                c.standard =
                    i == FITTED_bandwidth ? f->tier[tier].bandwidth_Bps : f->tier[tier].latency_s;
            if (fit_wanted(only, c.name) && f->constants < FIT_CONSTANTS)
                f->constant[f->constants++] = c;
        }
    if (!only || f->constants == named)
        return STATUS_OK;
    struct file_text t;
    PASS(file_text_open(&t));
    for (size_t i = 0; i < FITTED_DEVICE; i++)
        fprintf(t.stream, "%s, ", fitted_rows[i].name);
    for (size_t k = 0; k < f->tiers; k++)
        fprintf(t.stream, "%s%s.bandwidth, %s.latency", k ? ", " : "", f->tier[k].name,
                f->tier[k].name);
    PASS(file_text_close(&t, STATUS_OK));
    enum status st =
        error_set(STATUS_INVALID, "--fit: unknown constant '%.80s'; known on these platforms: %s",
                  only, t.text);
    free(t.text);
    return st;
}

/* Each platform once. */
static enum status fit_find_platforms(struct fit *f)
{
    for (size_t i = 0; i < f->rows; i++) {
        struct fit_row *row = &f->row[i];
        while (row->platform < f->platforms &&
               strcmp(f->platform[row->platform].path, row->plan.platform) != 0)
            row->platform++;
        topology_free(&row->plan.topology); /* varied ones take its place */
        if (row->platform < f->platforms)
            continue;
        PASS(ARRAY_ROOM(f->platform, f->platforms));
        PASS(fit_read_platform(row->plan.platform, f, &f->platform[f->platforms]));
        f->platforms++;
    }
    return STATUS_OK;
}

enum status fit_measured(const struct fit_options *o, struct fit *out)
{
    enum status st;
    struct fit f = {0};
    struct fit_rounds r = {0};
    TRY(fit_read_rows(o->rows, o->notes, &f));
    if (f.measured < 2)
        FAIL(STATUS_INVALID, "%s: got %zu measured run%s, a fit needs at least two", o->rows,
             f.measured, f.measured == 1 ? "" : "s");
    TRY(fit_find_platforms(&f));
    TRY(fit_choose_constants(&f, o->only));
    TRY(fit_rounds_open(&(struct fit_rounds){.f = &f, .watch = o->watch}, &r));
    r.all = 2 * ROUNDS * (f.constants + 1);
    TRY(fit_go(&r));
    fit_find_overhead(&f);
    MOVE(out, f);
out:
    fit_rounds_close(&r);
    fit_free(&f);
    return st;
}

void fit_free(struct fit *f)
{
    for (size_t i = 0; i < f->rows; i++) {
        free(f->row[i].name);
        loaded_plan_free(&f->row[i].plan);
    }
    for (size_t i = 0; i < f->platforms; i++)
        fit_platform_free(&f->platform[i]);
    free(f->row);
    free(f->platform);
    free(f->path);
    *f = (struct fit){0};
}
