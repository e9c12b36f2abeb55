/* What a fit came to: rows, constants and what the runs cannot tell, as text and as JSON; the
 * platform that carries it; and the peak of memory, which is beside all that. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/platform/platform.h"
#include "sim/platform/properties.h"
#include "study/fit.h"
#include "topologies/write.h"

static const double confused = 0.5; /* correlation of two constants that runs cannot tell apart */
static const double known = 0.9;    /* of a constant's variance, which leaves nothing to confuse */

static const double badly = 0.15; /* of a fit that does not explain its runs */

static const char *const state_names[] = {
    [FIT_SILENT] = "silent", [FIT_HELD] = "held", [FIT_FREE] = "free"};

/* ---- memory */

/* The mean of what was measured less what is predicted, as sure as the rows agree. */
void fit_find_overhead(struct fit *f)
{
    double n = (double)f->memories, mean = 0, square = 0;
    for (size_t i = 0; i < f->rows; i++)
        if (f->row[i].measured_bytes > 0)
            mean += (f->row[i].measured_bytes - f->row[i].peak_bytes) / n;
    for (size_t i = 0; i < f->rows; i++)
        if (f->row[i].measured_bytes > 0)
            square += pow(f->row[i].measured_bytes - f->row[i].peak_bytes - mean, 2);
    /* Student's t at 95 % is at most 1.645 + 4.7 / (n - 1) for n >= 2 */
    double error = n > 1 ? sqrt(square / (n - 1) / n) * (1.645 + 4.7 / (n - 1)) : INFINITY;
    f->overhead_bytes = mean;
    f->overhead_low = mean - error;
    f->overhead_high = mean + error;
}

/* ---- text */

/* "0.93", or of links "41 GB/s". */
static const char *fit_text_of(const struct fit_constant *c, double times, char text[UNITS_TEXT])
{
    if (c->standard > 0)
        return units_print(c->what == FITTED_bandwidth ? UNIT_RATE : UNIT_SECONDS,
                           times * c->standard, text);
    snprintf(text, UNITS_TEXT, "%.3g", times);
    return text;
}

static void fit_print_constant(const struct fit_constant *c, FILE *out)
{
    char standard[UNITS_TEXT], value[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT];
    fprintf(out, "# %-20s %10s -> %-10s %10s to %-10s  %s\n", c->name, fit_text_of(c, 1, standard),
            fit_text_of(c, c->value, value), fit_text_of(c, c->low, low),
            fit_text_of(c, c->high, high), fitted_rows[c->what].help);
}

static void fit_print_names(const struct fit *f, enum fit_state state, const char *what, FILE *out)
{
    bool any = false;
    for (size_t k = 0; k < f->constants; k++)
        if (f->constant[k].state == state) {
            fprintf(out, "%s%s", any ? ", " : what, f->constant[k].name);
            any = true;
        }
    if (any)
        fputc('\n', out);
}

/* Can the runs not tell constant i, which is free, from j? */
static bool fit_is_confused(const struct fit *f, size_t i, size_t j)
{
    const struct fit_constant *a = &f->constant[i], *b = &f->constant[j];
    return i != j && a->state == FIT_FREE && b->state != FIT_SILENT &&
           (b->state != FIT_FREE || i < j) && fmin(a->told, b->told) < known &&
           fabs(f->correlation[i][j]) > confused;
}

/* The run that would tell them: that of the constant of which less is known. */
static const char *fit_advice(const struct fit *f, size_t i, size_t j)
{
    const struct fit_constant *a = &f->constant[i], *b = &f->constant[j];
    return fitted_rows[a->told < b->told ? a->what : b->what].more;
}

static void fit_print_memory(const struct fit *f, FILE *out)
{
    if (f->memories == 0)
        return;
    fprintf(out, "# memory: measured peaks less predicted ones are %s",
            units_of(UNIT_BYTES, f->overhead_bytes).text);
    if (isfinite(f->overhead_low))
        fprintf(out, ", %s to", units_of(UNIT_BYTES, f->overhead_low).text);
    if (isfinite(f->overhead_low))
        fprintf(out, " %s", units_of(UNIT_BYTES, f->overhead_high).text);
    fprintf(out, " (%zu run%s)\n", f->memories, f->memories == 1 ? "" : "s");
}

void fit_print(const struct fit *f, FILE *out)
{
    size_t free = 0;
    fprintf(out, "# run, measured, predicted before, fitted, and by a fit without it: seconds\n");
    for (size_t i = 0; i < f->rows; i++) {
        const struct fit_row *r = &f->row[i];
        text_put_cell(out, r->name);
        if (r->measured_s > 0)
            fprintf(out, "\t%.6g\t%.6g\t%.6g\t%.6g\n", r->measured_s, r->begin_s, r->fitted_s,
                    r->apart_s);
        else
            fprintf(out, "\t-\t%.6g\t%.6g\t-\n", r->begin_s, r->fitted_s);
    }
    fprintf(out, "\n# %-20s %10s -> %-10s %s\n", "constant", "catalogue", "fitted",
            "90 % of what it may be");
    for (size_t k = 0; k < f->constants; k++)
        if (f->constant[k].state == FIT_FREE) {
            fit_print_constant(&f->constant[k], out);
            free++;
        }
    fit_print_names(f, FIT_HELD,
                    "# held at the catalogue's value, of which the runs say too little: ", out);
    fit_print_names(f, FIT_SILENT, "# held there, of which they say nothing: ", out);
    for (size_t i = 0; i < f->constants; i++)
        for (size_t j = 0; j < f->constants; j++)
            if (fit_is_confused(f, i, j))
                fprintf(out, "# the runs cannot tell %s from %s: add one %s\n", f->constant[i].name,
                        f->constant[j].name, fit_advice(f, i, j));
    fit_print_memory(f, out);
    fprintf(
        out,
        "# %zu run%s, %zu constant%s free: mean error %.2f %% before, %.2f %% fitted, %.2f %% of "
        "runs left out\n",
        f->measured, f->measured == 1 ? "" : "s", free, free == 1 ? "" : "s", 100 * f->begin_error,
        100 * f->error, 100 * f->apart_error);
}

/* What a fit does not say by itself: that it is none. */
void fit_warn(const struct fit *f, FILE *out)
{
    size_t free = 0, repeats = 0;
    for (size_t k = 0; k < f->constants; k++) {
        const struct fit_constant *c = &f->constant[k];
        const struct fitted_row *row = &fitted_rows[c->what];
        free += c->state == FIT_FREE;
        if (c->state == FIT_FREE && (c->value < 1.01 * row->least || c->value > 0.99 * row->most))
            fprintf(
                out,
                "warning: %s is fitted to %.3g times the catalogue value, the limit of the fit\n",
                c->name, c->value);
    }
    for (size_t i = 0; i < f->rows; i++)
        for (size_t k = 0; k < i; k++)
            repeats += f->row[i].measured_s > 0 && f->row[k].measured_s > 0 &&
                       f->row[i].begin_s == f->row[k].begin_s;
    if (repeats > 0)
        fputs("warning: one plan has several rows, so the error of held-out runs is too "
              "optimistic; give their median in one row\n",
              out);
    if (free == 0)
        fputs("warning: no constant improves the prediction of held-out runs: the platform is "
              "unchanged\n",
              out);
    if (f->error > badly)
        fprintf(out,
                "warning: after the fit, predictions are still %.0f %% off; check that iteration_s "
                "has seconds per iteration and that the plans are those that ran\n",
                100 * f->error);
}

/* ---- JSON */

static void fit_put_constants(struct json_writer *w, const struct fit *f)
{
    json_open_array(w, "constants", false);
    for (size_t k = 0; k < f->constants; k++) {
        const struct fit_constant *c = &f->constant[k];
        json_open_object(w, NULL, true);
        json_put_string(w, "name", c->name);
        json_put_string(w, "state", state_names[c->state]);
        json_put_real(w, "times", c->value);
        json_put_real(w, "low", c->low);
        json_put_real(w, "high", c->high);
        json_put_real(w, "told", c->told);
        if (c->standard > 0)
            json_put_real(w, "catalogue", c->standard);
        json_close(w);
    }
    json_close(w);
    json_open_array(w, "confused", false);
    for (size_t i = 0; i < f->constants; i++)
        for (size_t j = 0; j < f->constants; j++)
            if (fit_is_confused(f, i, j)) {
                json_open_object(w, NULL, true);
                json_put_string(w, "constant", f->constant[i].name);
                json_put_string(w, "with", f->constant[j].name);
                json_put_string(w, "add_run", fit_advice(f, i, j));
                json_close(w);
            }
    json_close(w);
}

void fit_print_json(const struct fit *f, const struct provenance *by, FILE *out)
{
    struct json_writer w = {.stream = out};
    json_put_header(&w, "foreline-fit", 1, by);
    json_put_real(&w, "error_before", f->begin_error);
    json_put_real(&w, "error_fitted", f->error);
    json_put_real(&w, "error_left_out", f->apart_error);
    json_put_real(&w, "noise", f->noise);
    if (f->memories > 0) {
        json_put_real(&w, "memory_overhead_bytes", f->overhead_bytes);
        json_put_real(&w, "memory_overhead_low", f->overhead_low);
        json_put_real(&w, "memory_overhead_high", f->overhead_high);
    }
    fit_put_constants(&w, f);
    json_open_array(&w, "runs", false);
    for (size_t i = 0; i < f->rows; i++) {
        const struct fit_row *r = &f->row[i];
        bool measured = r->measured_s > 0;
        json_open_object(&w, NULL, true);
        json_put_string(&w, "name", r->name);
        json_put_real(&w, "measured_s", measured ? r->measured_s : NAN);
        json_put_real(&w, "before_s", r->begin_s);
        json_put_real(&w, "fitted_s", r->fitted_s);
        json_put_real(&w, "left_out_s", measured ? r->apart_s : NAN);
        json_put_real(&w, "peak_bytes", r->peak_bytes);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    fputc('\n', out);
}

/* ---- the platform */

/* That of the rows with the most devices. */
static const struct fit_platform *fit_largest(const struct fit *f)
{
    const struct fit_platform *largest = &f->platform[0];
    for (size_t i = 1; i < f->platforms; i++)
        if (f->platform[i].devices > largest->devices)
            largest = &f->platform[i];
    return largest;
}

static enum status fit_put_file(const struct fit *f, const struct fit_platform *p, FILE *to)
{
    enum status st;
    double times[FIT_CONSTANTS];
    char id[] = "framework_memory", value[32];
    struct file_text text = {0};
    for (size_t k = 0; k < f->constants; k++)
        times[k] = f->constant[k].value;
    TRY(file_text_open(&text));
    TRY(file_text_close(&text, fit_put_platform(f, p, times, text.stream)));
    snprintf(value, sizeof value, "%.0fB", f->overhead_bytes);
    const struct platform_text own = {p->path, text.text};
    const struct platform_property_text property = {id, value};
    TRY(platform_set_properties(&own, &property, f->memories > 0 && f->overhead_bytes > 0, to));
out:
    free(text.text);
    return st;
}

/* What is fitted is fitted beside what the runs' platforms say. */
static enum status fit_check_other(const struct fit *f, const struct fit_platform *other)
{
    if (memcmp(other->earlier, f->platform[0].earlier, sizeof other->earlier) != 0)
        return error_set(STATUS_INVALID,
                         "%s has other fitted constants than the platforms of the runs; give the "
                         "original platform file",
                         other->path);
    for (size_t k = 0; k < f->constants; k++) {
        const struct fit_constant *c = &f->constant[k];
        if (c->state == FIT_FREE && c->what >= FITTED_DEVICE && !(other->tiers >> c->tier & 1))
            fprintf(stderr,
                    "warning: %s: constant %s applies to no link of this platform and stays "
                    "unchanged\n",
                    other->path, c->name);
    }
    return STATUS_OK;
}

enum status fit_write_platform(struct fit *f, const char *platform, const char *path,
                               const struct provenance *by)
{
    enum status st;
    char *found = NULL;
    struct file_out o = {0};
    struct fit_platform other = {0};
    const struct fit_platform *p = fit_largest(f);
    if (platform) {
        TRY(load_platform(platform, &found));
        TRY(fit_read_platform(found, f, &other));
        TRY(fit_check_other(f, &other));
        p = &other;
    }
    TRY(file_create(path, &o));
    TRY(fit_put_file(f, p, o.stream));
    fputs("<!-- written by ", o.stream);
    write_comment(o.stream, by->version);
    fputs(": ", o.stream);
    write_comment(o.stream, by->command);
    fprintf(o.stream, ", fitted to %zu runs; mean error of those left out %.3g %% -->\n",
            f->measured, 100 * f->apart_error);
    TRY(file_commit(&o));
out:
    free(found);
    fit_platform_free(&other);
    file_discard(&o);
    return st;
}
