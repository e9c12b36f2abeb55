/* What fits to published rows came to: the table of constants, and errors of rows by constants that
 * do not know them, for people and for programs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/strategy/constants.h"
#include "lab/scoreboard/published_fit.h"

/* ---- the table of constants */

enum { WORDS = 160 };

/* The rows that a constant was fitted to: "155 rows of llm_foundry_mpt", "664 rows of 11 sets". */
static void find_words(const struct published_fits *f, size_t k, char text[WORDS])
{
    if (f->on[k] == 0)
        snprintf(text, WORDS, "nothing: no row says anything of it");
    else if (f->sets_on[k] == 1)
        snprintf(text, WORDS, "%zu rows of %s", f->on[k], f->set_on[k]);
    else
        snprintf(text, WORDS, "%zu rows of %zu sets", f->on[k], f->sets_on[k]);
}

void published_fit_write(const struct published_fits *f, FILE *out)
{
    char words[CONSTANTS][WORDS];
    const char *fitted[CONSTANTS];
    for (size_t k = 0; k < CONSTANTS; k++) {
        find_words(f, k, words[k]);
        fitted[k] = words[k];
    }
    constants_write(&f->fit[0].constants, fitted, out);
}

/* ---- errors */

enum { PRIOR, SHIPPED, APART, COLUMNS };

struct fit_line {
    const char *by, *name;
    size_t rows;
    double mean[COLUMNS], median[COLUMNS];
    const struct published_fit *fit; /* that does not know the rows */
};

/* The rows that a fit does not know. */
static enum status fit_print_score(const struct published *p, const struct published_fits *f,
                                   const struct published_fit *fit, struct fit_line *out)
{
    enum status st;
    double *error = NULL;
    bool set = !strcmp(fit->by, "set");
    const double *const seconds[COLUMNS] = {f->prior_s, f->shipped_s,
                                            set ? f->set_s : f->generation_s};
    *out = (struct fit_line){.by = fit->by, .name = fit->without, .fit = fit};
    TRY(ARRAY_NEW(error, p->rows));
    for (size_t column = 0; column < COLUMNS; column++) {
        size_t n = 0;
        for (size_t i = 0; i < p->rows; i++) {
            const struct published_row *row = &p->row[i];
            const char *name = set ? row->set : published_generation(&row->config);
            if (strcmp(name, fit->without) != 0 || !(seconds[column][i] > 0) || row->left_out)
                continue;
            error[n] = fabs(seconds[column][i] / published_step_s(row) - 1);
            out->mean[column] += error[n++];
        }
        out->rows = n;
        out->mean[column] = n > 0 ? out->mean[column] / (double)n : NAN;
        out->median[column] = median(error, n);
    }
out:
    free(error);
    return st;
}

/* Lines of all sets or all generations, and their mean; *n of them. */
static enum status score_all(const struct published *p, const struct published_fits *f,
                             const char *by, struct fit_line line[PUBLISHED_FITS], size_t *n)
{
    *n = 0;
    struct fit_line all = {.by = by, .name = "mean"};
    for (size_t k = 1; k < f->fits; k++)
        if (!strcmp(f->fit[k].by, by))
            PASS(fit_print_score(p, f, &f->fit[k], &line[(*n)++]));
    for (size_t i = 0; i < *n; i++) {
        all.rows += line[i].rows;
        for (size_t column = 0; column < COLUMNS; column++) {
            all.mean[column] += line[i].mean[column] / (double)*n;
            all.median[column] += line[i].median[column] / (double)*n;
        }
    }
    line[*n] = all;
    return STATUS_OK;
}

/* Does a fit know less of the constant than is known a priori, and that of all rows more? */
static bool is_missed(const struct published_fits *f, const struct published_fit *fit, size_t k)
{
    return fit && fit->known[k] < 1 && f->fit[0].known[k] >= 1;
}

static void fit_print_line(const struct published_fits *f, const struct fit_line *l, FILE *out)
{
    bool any = false;
    fprintf(out, "%s\t%s\t%zu", l->by, l->name, l->rows);
    for (size_t column = 0; column < COLUMNS; column++)
        fprintf(out, "\t%.1f\t%.1f", 100 * l->mean[column], 100 * l->median[column]);
    fputc('\t', out);
    for (size_t k = 0; k < CONSTANTS; k++)
        if (is_missed(f, l->fit, k)) {
            fprintf(out, "%s%s", any ? ", " : "", constant_rows[k].name);
            any = true;
        }
    fputs(any ? "\n" : "-\n", out);
}

static enum status fit_print_lines(const struct published *p, const struct published_fits *f,
                                   const char *by, FILE *out)
{
    struct fit_line line[PUBLISHED_FITS + 1];
    size_t n;
    PASS(score_all(p, f, by, line, &n));
    for (size_t i = 0; i <= n; i++)
        fit_print_line(f, &line[i], out);
    return STATUS_OK;
}

enum status published_fits_print(const struct published *p, const struct published_fits *f,
                                 FILE *out)
{
    fputs("without\tname\trows\tprior_mean_%\tprior_median_%\tshipped_mean_%\tshipped_median_%\t"
          "apart_mean_%\tapart_median_%\ta_priori_there\n",
          out);
    PASS(fit_print_lines(p, f, "set", out));
    PASS(fit_print_lines(p, f, "generation", out));
    fputs("\nconstant\tprior\tshipped\tfitted\tleast_apart\tmost_apart\trows\tprior_from\n", out);
    for (size_t k = 0; k < CONSTANTS; k++) {
        const struct constant_row *r = &constant_rows[k];
        double least = INFINITY, most = 0;
        for (size_t i = 1; i < f->fits; i++) {
            least = fmin(least, f->fit[i].constants.value[k]);
            most = fmax(most, f->fit[i].constants.value[k]);
        }
        fprintf(out, "%s\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t%zu\t%s\n", r->name, r->prior, r->shipped,
                f->fit[0].constants.value[k], least, most, f->on[k], r->source);
    }
    return STATUS_OK;
}

/* ---- JSON */

static void put_json_line(struct json_writer *w, const struct published_fits *f,
                          const struct fit_line *l)
{
    static const char *const names[COLUMNS] = {"a_priori", "shipped", "apart"};
    json_open_object(w, NULL, true);
    json_put_string(w, "name", l->name);
    json_put_integer(w, "rows", (int64_t)l->rows);
    for (size_t column = 0; column < COLUMNS; column++) {
        json_open_object(w, names[column], true);
        json_put_real(w, "mean", l->mean[column]);
        json_put_real(w, "median", l->median[column]);
        json_close(w);
    }
    json_open_array(w, "a_priori_there", true);
    for (size_t k = 0; k < CONSTANTS; k++)
        if (is_missed(f, l->fit, k))
            json_put_string(w, NULL, constant_rows[k].name);
    json_close(w);
    json_close(w);
}

enum status published_fits_put_json(const struct published *p, const struct published_fits *f,
                                    struct json_writer *w)
{
    static const char *const by[][2] = {{"set", "without_set"},
                                        {"generation", "without_generation"}};
    struct fit_line line[PUBLISHED_FITS + 1];
    size_t n;
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        PASS(score_all(p, f, by[i][0], line, &n));
        json_open_array(w, by[i][1], false);
        for (size_t k = 0; k <= n; k++)
            put_json_line(w, f, &line[k]);
        json_close(w);
    }
    json_open_array(w, "constants", false);
    for (size_t k = 0; k < CONSTANTS; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "name", constant_rows[k].name);
        json_put_real(w, "a_priori", constant_rows[k].prior);
        json_put_real(w, "shipped", constant_rows[k].shipped);
        json_put_real(w, "fitted", f->fit[0].constants.value[k]);
        json_put_integer(w, "rows", (int64_t)f->on[k]);
        json_close(w);
    }
    json_close(w);
    return STATUS_OK;
}
