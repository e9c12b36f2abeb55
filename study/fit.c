/* Constants become a varied platform and changed plans, these become predictions, and the constants
 * are found whose predictions are nearest to what was measured. */
#include "study/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "host/folder.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "sim/platform/variant.h"
#include "study/evaluate.h"
#include "study/least_squares.h"
#include "topologies/write.h"

static const char of_framework[] = "framework.";
static const double step = 1e-4;      /* of logarithms, for derivatives */
static const double nudge = 0.05;     /* by which a constant must change some prediction */
static const double tolerance = 1e-8; /* of constants, at which a fit ends */
static const double far = 1e4;        /* times, or parts, of its first value */
enum { ITERATIONS = 60 };

static bool is_of_framework(const struct fit_constant *c)
{
    return !strncmp(c->name, of_framework, sizeof of_framework - 1);
}

/* ---- constants */

static enum status parse_constant(const char *text, size_t n, struct fit_constant *c)
{
    static const struct {
        const char *end;
        enum unit unit;
    } quantities[] = {
        {".bandwidth", UNIT_RATE}, {".latency", UNIT_SECONDS}, {".speed", UNIT_FLOPS}};
    char word[FIT_NAME];
    snprintf(word, sizeof word, "%.*s", (int)(n < FIT_NAME ? n : FIT_NAME - 1), text);
    char *value = strchr(word, '=');
    if (!value || n >= FIT_NAME)
        return error_set(STATUS_INVALID,
                         "constant '%.60s': expected NAME.bandwidth, NAME.latency, NAME.speed or "
                         "framework.FIELD, and the value that the fit begins with: "
                         "uplink.bandwidth=25Gbps",
                         word);
    *value++ = '\0';
    memcpy(c->name, word, sizeof word);
    c->plain = is_of_framework(c);
    if (c->plain && !text_real(value, &c->begin))
        return error_set(STATUS_INVALID, "constant '%s': '%.40s' is no number", word, value);
    bool known = c->plain;
    for (size_t k = 0; k < sizeof quantities / sizeof *quantities && !known; k++) {
        size_t end = strlen(quantities[k].end), all = strlen(word);
        if (all <= end || strcmp(word + all - end, quantities[k].end) != 0)
            continue;
        known = true;
        c->unit = quantities[k].unit;
        if (units_parse(c->unit, value, &c->begin) != STATUS_OK)
            return error_context(STATUS_INVALID, "constant '%s'", word);
    }
    if (!known)
        return error_set(STATUS_INVALID,
                         "constant '%s': only NAME.bandwidth, NAME.latency, NAME.speed and "
                         "framework.FIELD can be fitted",
                         word);
    if (!(c->begin > 0))
        return error_set(STATUS_INVALID, "constant '%s': a fit begins above 0", word);
    c->value = c->begin;
    return STATUS_OK;
}

static enum status parse_constants(const char *text, struct fit *f)
{
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (f->constants == FIT_CONSTANTS)
            return error_set(STATUS_INVALID, "more than %d constants", FIT_CONSTANTS);
        PASS(parse_constant(at, strcspn(at, ","), &f->constant[f->constants]));
        for (size_t k = 0; k < f->constants; k++)
            if (!strcmp(f->constant[k].name, f->constant[f->constants].name))
                return error_set(STATUS_INVALID, "constant '%s' is named twice",
                                 f->constant[k].name);
        f->constants++;
    }
    if (f->rows < FIT_ROWS_EACH * f->constants)
        return error_set(STATUS_INVALID,
                         "%zu measured iterations are enough for %zu constants, not for %zu: name "
                         "fewer, or measure more plans",
                         f->rows, f->rows / FIT_ROWS_EACH, f->constants);
    return STATUS_OK;
}

/* ---- predictions */

/* Changes of the platform, "" if there are none; malloc'd. */
static enum status platform_changes(const struct fit *f, const double *value, char **out)
{
    static const char *const unit[] = {
        [UNIT_SECONDS] = "s", [UNIT_RATE] = "Bps", [UNIT_FLOPS] = "f"};
    struct file_text t = {0};
    PASS(file_text_open(&t));
    bool any = false;
    for (size_t k = 0; k < f->constants; k++) {
        const struct fit_constant *c = &f->constant[k];
        if (c->plain)
            continue;
        fprintf(t.stream, "%s%s=%.17g%s", any ? "," : "", c->name, value[k], unit[c->unit]);
        any = true;
    }
    PASS(file_text_close(&t, STATUS_OK));
    *out = t.text;
    return STATUS_OK;
}

/* The platform with these values, written to a stream. */
static enum status put_platform(const struct fit *f, const double *value, FILE *to)
{
    enum status st;
    const char *path = f->row[0].plan.platform;
    char *text = NULL, *changes = NULL;
    size_t length;
    TRY(file_read(path, &text, &length));
    TRY(platform_changes(f, value, &changes));
    const struct platform_text platform = {path, text};
    if (*changes)
        TRY(platform_vary(&platform, changes, to));
    else
        fputs(text, to);
out:
    free(changes);
    free(text);
    return st;
}

static enum status read_varied(const struct fit *f, const double *value, struct topology *out)
{
    enum status st;
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE];
    struct file_out file = {0};
    PASS(folder_temporary(folder));
    TRY(file_create(folder_file(folder, "platform.xml", path), &file));
    TRY(put_platform(f, value, file.stream));
    TRY(file_commit(&file));
    TRY(platform_read(path, out));
out:
    file_discard(&file);
    folder_remove(folder);
    return st;
}

/* The framework of a plan, with these values. */
static enum status vary_framework(const struct fit *f, const double *value, const char *own,
                                  struct plan *p)
{
    struct file_text t = {0};
    bool any = strchr(own, ':') != NULL;
    PASS(file_text_open(&t));
    fputs(own, t.stream);
    for (size_t k = 0; k < f->constants; k++)
        if (f->constant[k].plain) {
            fprintf(t.stream, "%c%s=%.17g", any ? ',' : ':',
                    f->constant[k].name + sizeof of_framework - 1, value[k]);
            any = true;
        }
    PASS(file_text_close(&t, STATUS_OK));
    enum status st = plan_set_framework(p, t.text);
    free(t.text);
    return st;
}

static enum status predict_row(const struct fit *f, const double *value, const struct topology *t,
                               struct fit_row *row, double *seconds)
{
    enum status st;
    const struct evaluation_context context = {
        .model = &row->plan.model, .topology = t, .platform = row->plan.platform, .no_links = true};
    struct measurement m = {0};
    struct plan p = {0};
    bool any = false;
    for (size_t k = 0; k < f->constants; k++)
        any |= f->constant[k].plain;
    TRY(plan_copy(&row->plan.plan, &p));
    if (any && !p.framework)
        FAIL(STATUS_INVALID, "%s names no framework, and framework.* is to be fitted", row->path);
    if (any)
        TRY(vary_framework(f, value, row->plan.plan.framework, &p));
    TRY(evaluate_plan(&p, &context, engine_quick(), &m, NULL, NULL));
    *seconds = m.iteration_s;
out:
    if (st != STATUS_OK)
        st = error_context(st, "%s", row->path);
    measurement_free(&m);
    plan_free(&p);
    return st;
}

/* Seconds of all rows with these values: seconds [rows]. */
static enum status fit_predict(const struct fit *f, const double *value, double *seconds)
{
    enum status st;
    struct topology t = {0};
    TRY(read_varied(f, value, &t));
    for (size_t i = 0; i < f->rows; i++)
        TRY(predict_row(f, value, &t, &f->row[i], &seconds[i]));
out:
    topology_free(&t);
    return st;
}

/* ---- the fit */

/* Rows that count. */
struct fit_problem {
    const struct fit *f;
    const bool *left_out; /* [rows] */
    double *seconds;      /* [rows] scratch */
};

/* A constant that ends beyond `far` has run away. On its way it may be there, where something pulls
 * it back; beyond the square of that all is as at the end. */
static void fit_values_of(const struct fit *f, const double *x, double *value)
{
    for (size_t k = 0; k < f->constants; k++) {
        double times = x[k] - log(f->constant[k].begin);
        value[k] = f->constant[k].begin * exp(fmax(fmin(times, 2 * log(far)), -2 * log(far)));
    }
}

static enum status check_near(const struct fit *f, const double *value)
{
    for (size_t k = 0; k < f->constants; k++) {
        double times = value[k] / f->constant[k].begin;
        if (!(times < 0.99 * far && times > 1.01 / far))
            return error_set(STATUS_INVALID,
                             "constant '%s' diverges to %s: no value of it gives what was measured",
                             f->constant[k].name, times > 1 ? "infinity" : "zero");
    }
    return STATUS_OK;
}

static enum status fit_residuals(void *self, const double *x, double *out)
{
    const struct fit_problem *p = self;
    double value[FIT_CONSTANTS];
    fit_values_of(p->f, x, value);
    PASS(fit_predict(p->f, value, p->seconds));
    for (size_t i = 0, n = 0; i < p->f->rows; i++)
        if (!p->left_out[i])
            out[n++] = log(p->seconds[i] / p->f->row[i].measured_s);
    return STATUS_OK;
}

/* The values that are best for the rows that are not left out. */
static enum status fit_solve(const struct fit *f, const bool *left_out, double *seconds,
                             double *value)
{
    struct fit_problem p = {.f = f, .left_out = left_out, .seconds = seconds};
    struct least_squares s = {.constants = f->constants,
                              .residuals = fit_residuals,
                              .self = &p,
                              .step = step,
                              .tolerance = tolerance,
                              .iterations = ITERATIONS};
    double x[FIT_CONSTANTS];
    for (size_t i = 0; i < f->rows; i++)
        s.rows += !left_out[i];
    for (size_t k = 0; k < f->constants; k++)
        x[k] = log(f->constant[k].begin);
    PASS(least_squares(&s, x));
    fit_values_of(f, x, value);
    return check_near(f, value);
}

/* Each constant must change some prediction, or nobody could say what it is. */
static enum status check_constants(const struct fit *f, double *seconds)
{
    double value[FIT_CONSTANTS];
    for (size_t k = 0; k < f->constants; k++) {
        bool changes = false;
        for (size_t i = 0; i < f->constants; i++)
            value[i] = f->constant[i].begin * (i == k ? 1 + nudge : 1);
        PASS(fit_predict(f, value, seconds));
        for (size_t i = 0; i < f->rows && !changes; i++)
            changes = fabs(seconds[i] / f->row[i].begin_s - 1) > 1e-9;
        if (!changes)
            return error_set(STATUS_INVALID,
                             "constant '%s' changes no prediction by a part in a billion: it "
                             "cannot be fitted to these plans",
                             f->constant[k].name);
    }
    return STATUS_OK;
}

/* Fits without a fold each, which predict the fold. */
static enum status cross_validate(struct fit *f, bool *left_out, double *seconds)
{
    size_t folds = f->rows < 2 * FIT_FOLDS ? f->rows : FIT_FOLDS;
    double value[FIT_CONSTANTS];
    for (size_t fold = 0; fold < folds; fold++) {
        for (size_t i = 0; i < f->rows; i++)
            left_out[i] = i % folds == fold;
        PASS(fit_solve(f, left_out, seconds, value));
        PASS(fit_predict(f, value, seconds));
        for (size_t i = fold; i < f->rows; i += folds)
            f->row[i].apart_s = seconds[i];
    }
    return STATUS_OK;
}

static double fit_error_of(double predicted_s, const struct fit_row *row)
{
    return fabs(predicted_s / row->measured_s - 1);
}

static enum status load_rows(struct fit *f)
{
    for (size_t i = 0; i < f->rows; i++) {
        PASS(load_plan_only(f->row[i].path, &f->row[i].plan));
        if (strcmp(f->row[i].plan.platform, f->row[0].plan.platform) != 0)
            return error_set(STATUS_INVALID, "%s is on %s, and %s on %s: one platform is fitted",
                             f->row[0].path, f->row[0].plan.platform, f->row[i].path,
                             f->row[i].plan.platform);
    }
    return STATUS_OK;
}

static enum status fit_all_rows(struct fit *f, bool *left_out, double *seconds)
{
    double value[FIT_CONSTANTS];
    for (size_t k = 0; k < f->constants; k++)
        value[k] = f->constant[k].begin;
    PASS(fit_predict(f, value, seconds));
    for (size_t i = 0; i < f->rows; i++)
        f->row[i].begin_s = seconds[i];
    PASS(check_constants(f, seconds));
    PASS(fit_solve(f, left_out, seconds, value));
    PASS(fit_predict(f, value, seconds));
    for (size_t i = 0; i < f->rows; i++)
        f->row[i].fitted_s = seconds[i];
    PASS(cross_validate(f, left_out, seconds));
    for (size_t k = 0; k < f->constants; k++)
        f->constant[k].value = value[k];
    for (size_t i = 0; i < f->rows; i++) {
        f->begin_error += fit_error_of(f->row[i].begin_s, &f->row[i]) / (double)f->rows;
        f->error += fit_error_of(f->row[i].fitted_s, &f->row[i]) / (double)f->rows;
        f->apart_error += fit_error_of(f->row[i].apart_s, &f->row[i]) / (double)f->rows;
    }
    return STATUS_OK;
}

enum status fit_measured(const char *rows, const char *constants, struct fit *out)
{
    enum status st;
    struct fit f = {0};
    bool *left_out = NULL;
    double *seconds = NULL;
    TRY(fit_read_rows(rows, &f));
    TRY(parse_constants(constants, &f));
    TRY(load_rows(&f));
    TRY(ARRAY_NEW(left_out, f.rows));
    TRY(ARRAY_NEW(seconds, f.rows));
    TRY(fit_all_rows(&f, left_out, seconds));
    *out = f;
    f = (struct fit){0};
out:
    fit_free(&f);
    free(left_out);
    free(seconds);
    return st;
}

/* ---- what comes out */

static const char *fit_text_of(const struct fit_constant *c, double value, char text[UNITS_TEXT])
{
    if (!c->plain)
        return units_print(c->unit, value, text);
    snprintf(text, UNITS_TEXT, "%.4g", value);
    return text;
}

/* Constants of a framework are of plans: no platform has them. */
static void put_framework(const struct fit *f, FILE *out)
{
    const char *own = f->row[0].plan.plan.framework;
    bool any = false;
    for (size_t k = 0; k < f->constants; k++) {
        const struct fit_constant *c = &f->constant[k];
        if (!c->plain)
            continue;
        if (!any)
            fprintf(out, "# plan and simulate take it by --framework %s", own);
        fprintf(out, "%c%s=%.4g", any || strchr(own, ':') ? ',' : ':',
                c->name + sizeof of_framework - 1, c->value);
        any = true;
    }
    if (any)
        fputc('\n', out);
}

void fit_print(const struct fit *f, FILE *out)
{
    char begin[UNITS_TEXT], value[UNITS_TEXT];
    fprintf(out, "# plan, measured, predicted before, fitted, and by a fit without it\n");
    for (size_t i = 0; i < f->rows; i++) {
        const struct fit_row *r = &f->row[i];
        text_put_cell(out, r->path);
        fprintf(out, "\t%.6g\t%.6g\t%.6g\t%.6g\n", r->measured_s, r->begin_s, r->fitted_s,
                r->apart_s);
    }
    for (size_t k = 0; k < f->constants; k++)
        fprintf(out, "# %s: %s -> %s\n", f->constant[k].name,
                fit_text_of(&f->constant[k], f->constant[k].begin, begin),
                fit_text_of(&f->constant[k], f->constant[k].value, value));
    put_framework(f, out);
    fprintf(out,
            "# mean error of %zu rows: %.2f %% before, %.2f %% fitted, %.2f %% of rows that were "
            "left out\n",
            f->rows, 100 * f->begin_error, 100 * f->error, 100 * f->apart_error);
}

enum status fit_write_platform(const struct fit *f, const char *path, const struct provenance *by)
{
    enum status st;
    struct file_out o = {0};
    double value[FIT_CONSTANTS];
    for (size_t k = 0; k < f->constants; k++)
        value[k] = f->constant[k].value;
    TRY(file_create(path, &o));
    TRY(put_platform(f, value, o.stream));
    fputs("<!-- written by ", o.stream);
    write_comment(o.stream, by->version);
    fputs(": ", o.stream);
    write_comment(o.stream, by->command);
    fprintf(o.stream,
            ", fitted to %zu measured iterations; mean error of those left out %.3g %% -->\n",
            f->rows, 100 * f->apart_error);
    TRY(file_commit(&o));
out:
    file_discard(&o);
    return st;
}

void fit_free(struct fit *f)
{
    for (size_t i = 0; i < f->rows; i++) {
        free(f->row[i].path);
        loaded_plan_free(&f->row[i].plan);
    }
    free(f->row);
    *f = (struct fit){0};
}
