/* Constants fitted to published rows, with all of them and without each set and generation: times
 * are looked up by other constants (published_vary()), and what is linear in between is solved by
 * GSL. */
#include "lab/scoreboard/published_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/strategy/constants.h"
#include "study/least_squares.h"
#include "topologies/catalogue.h"

static const double usual = 0.1;      /* error of a row, which counts as one */
static const double farthest = 0.7;   /* that a constant goes at a time, of logarithms */
static const double tolerance = 1e-6; /* of logarithms, at which a search ends */
enum {
    SEARCH = 100, /* steps of a search */
    ROUNDS = 3,   /* of looking where that led */
    LARGE = 64,   /* GPUs of rows that are looked up once, for all fits: most take long, */
    MOST = 512    /* and of those that are fitted to: a row of ten thousand takes a second */
};

struct published_work {
    const struct published *p;
    struct published_fits *f;
    double *measured; /* [rows] logarithm */
    double *weight;   /* [rows * fits] 0: left out */
    double *base;     /* [rows * fits] logarithm of the time at `at`, */
    double *slope;    /* [rows * fits * CONSTANTS] and derivatives */
    bool *reached;    /* [rows * CONSTANTS] by a constant, it or others of its set */
    double at[PUBLISHED_FITS][CONSTANTS];    /* logarithms of constants, */
    double moved[PUBLISHED_FITS][CONSTANTS]; /* and how they moved there, in widths */
};

/* ---- who knows which rows */

const char *published_generation(const struct published_config *c)
{
    static const struct {
        const char *begins, *generation;
    } all[] = {{"GB", "Blackwell"},     {"B", "Blackwell"},
               {"GH", "Hopper"},        {"H", "Hopper"},
               {"MI", "AMD"},           {"A", "Ampere and Ada"},
               {"L", "Ampere and Ada"}, {"RTX", "Ampere and Ada"}};
    const struct gpu *gpu = c->gpu ? gpu_named(c->gpu) : NULL;
    for (size_t i = 0; gpu && i < sizeof all / sizeof *all; i++)
        if (!strncmp(gpu->name, all[i].begins, strlen(all[i].begins)))
            return all[i].generation;
    return "Volta and older";
}

/* Is it one of the rows that the fit does not know? */
static bool is_without(const struct published_row *row, const struct published_fit *fit)
{
    const char *name = !fit->without             ? NULL
                       : !strcmp(fit->by, "set") ? row->set
                                                 : published_generation(&row->config);
    return name && !strcmp(name, fit->without);
}

static enum status add_fit(struct published_fits *f, const char *by, const char *without)
{
    for (size_t k = 1; k < f->fits; k++)
        if (!strcmp(f->fit[k].by, by) && !strcmp(f->fit[k].without, without))
            return STATUS_OK;
    if (f->fits == PUBLISHED_FITS)
        return error_set(STATUS_UNSUPPORTED,
                         "cross-validation: the rows have more than %d sources and GPU generations",
                         PUBLISHED_FITS);
    f->fit[f->fits++] = (struct published_fit){.by = by, .without = without};
    return STATUS_OK;
}

static bool has_time(const struct published_row *row)
{
    return !row->left_out && published_step_s(row) > 0;
}

static bool is_fit(const struct published_row *row)
{
    return has_time(row) && row->config.gpus <= MOST;
}

static enum status add_fits(const struct published *p, struct published_fits *f, bool apart)
{
    f->fit[f->fits++] = (struct published_fit){.by = "all"};
    for (size_t i = 0; i < p->rows && apart; i++)
        if (has_time(&p->row[i]))
            PASS(add_fit(f, "set", p->row[i].set));
    for (size_t i = 0; i < p->rows && apart; i++)
        if (has_time(&p->row[i]))
            PASS(add_fit(f, "generation", published_generation(&p->row[i].config)));
    return STATUS_OK;
}

/* Rows with a time; of large sets every k-th. */
static enum status published_fit_choose_rows(const struct published *p, struct published_fits *f)
{
    size_t all = 0;
    for (size_t i = 0; i < p->rows; i++) {
        size_t n = 0, before = 0;
        const struct published_row *row = &p->row[i];
        if (!is_fit(row))
            continue;
        for (size_t k = 0; k < p->rows; k++)
            if (is_fit(&p->row[k]) && !strcmp(p->row[k].set, row->set)) {
                n++;
                before += k < i;
            }
        f->fitted[i] = before % ((n + PUBLISHED_FITTED - 1) / PUBLISHED_FITTED) == 0;
        all += f->fitted[i];
    }
    return all > 0 ? STATUS_OK
                   : error_set(STATUS_INFEASIBLE,
                               "no constants can be fitted: no row has a measured time");
}

/* A set of n rows counts as sqrt(n) rows; sets of one fit. */
static void published_fit_weigh_rows(const struct published_work *w, size_t fit)
{
    const struct published *p = w->p;
    const struct published_fits *f = w->f;
    for (size_t i = 0; i < p->rows; i++) {
        size_t n = 0;
        double *weight = &w->weight[i * f->fits + fit];
        *weight = 0;
        if (!f->fitted[i] || is_without(&p->row[i], &f->fit[fit]))
            continue;
        for (size_t k = 0; k < p->rows; k++)
            n += f->fitted[k] && !strcmp(p->row[k].set, p->row[i].set) &&
                 !is_without(&p->row[k], &f->fit[fit]);
        *weight = 1 / sqrt((double)n);
    }
}

/* ---- times by other constants */

/* By how much a constant is changed for a difference: a width, up or, at its bound, down. */
static double step_of(const struct published_work *w, size_t fit, size_t k)
{
    const struct constant_row *r = &constant_rows[k];
    return w->at[fit][k] + r->width <= log(r->most) ? r->width : -r->width;
}

/* Seconds of the rows that are wanted where each of the groups is, and, behind that, with each
 * constant a width away. */
static enum status published_fit_find(const struct published_work *w, size_t groups, bool slopes,
                                      const bool *want, double *seconds)
{
    enum status st;
    size_t each = slopes ? 1 + CONSTANTS : 1;
    struct constants *constants = NULL;
    TRY(ARRAY_NEW(constants, groups * each));
    for (size_t g = 0; g < groups; g++)
        for (size_t v = 0; v < each; v++)
            for (size_t k = 0; k < CONSTANTS; k++)
                constants[g * each + v].value[k] =
                    exp(w->at[g][k] + (v == k + 1 ? step_of(w, g, k) : 0));
    const struct published_variation v = {
        .groups = groups, .each = each, .constants = constants, .want = want};
    TRY(published_vary(w->p, &v, seconds));
out:
    free(constants);
    return st;
}

/* What a constant does to a row of a set, it may do to its others elsewhere. */
static void find_reached(const struct published_work *w)
{
    const struct published *p = w->p;
    for (size_t i = 0; i < p->rows; i++)
        for (size_t n = 0; n < p->rows && w->f->fitted[i]; n++)
            for (size_t k = 0; k < CONSTANTS; k++)
                if (w->f->fitted[n] && !strcmp(p->row[i].set, p->row[n].set))
                    w->reached[i * CONSTANTS + k] |=
                        fabs(w->slope[n * w->f->fits * CONSTANTS + k]) > 1e-6;
}

/* Everything at the values a priori, where all fits begin. Rows without a prediction are no longer
 * fitted to, nor are those that took less than half or more than twice as long: something else than
 * these constants was at work. */
static enum status published_fit_begin(const struct published_work *w)
{
    enum status st;
    size_t fits = w->f->fits, rows = w->p->rows, each = 1 + CONSTANTS;
    double *seconds = NULL;
    TRY(ARRAY_NEW(seconds, rows * each));
    TRY(published_fit_find(w, 1, true, w->f->fitted, seconds));
    for (size_t at = 0; at < rows * fits; at++) {
        size_t i = at / fits;
        const double *own = &seconds[i * each];
        w->f->fitted[i] =
            own[0] > 0 && fabs(log(own[0] / published_step_s(&w->p->row[i]))) <= log(2);
        w->f->prior_s[i] = own[0];
        if (!w->f->fitted[i])
            continue;
        w->measured[i] = log(published_step_s(&w->p->row[i]));
        w->base[at] = log(own[0]);
        for (size_t k = 0; k < CONSTANTS; k++)
            w->slope[at * CONSTANTS + k] = log(own[1 + k] / own[0]) / step_of(w, 0, k);
    }
    find_reached(w);
out:
    free(seconds);
    return st;
}

/* A row took others seconds than its derivatives say: the smallest change of them that would have
 * said so (Broyden 1965), of constants in widths. */
static void published_fit_learn(const struct published_work *w, size_t row, size_t fit,
                                double seconds)
{
    size_t at = row * w->f->fits + fit;
    double missed = log(seconds) - w->base[at], all = 0;
    const double *moved = w->moved[fit];
    for (size_t k = 0; k < CONSTANTS; k++)
        all += w->reached[row * CONSTANTS + k] ? moved[k] * moved[k] : 0;
    for (size_t k = 0; k < CONSTANTS && all > 1e-4; k++)
        if (w->reached[row * CONSTANTS + k])
            w->slope[at * CONSTANTS + k] += missed * moved[k] / all / constant_rows[k].width;
    w->base[at] = log(seconds);
}

/* Where each fit is by now, of rows that it knows and that are not large. */
static enum status look_again(const struct published_work *w)
{
    enum status st;
    size_t fits = w->f->fits, rows = w->p->rows;
    double *seconds = NULL;
    bool *want = NULL;
    TRY(ARRAY_NEW(seconds, rows * fits));
    TRY(ARRAY_NEW(want, rows * fits));
    for (size_t i = 0; i < rows * fits; i++)
        want[i] = w->weight[i] > 0 && w->p->row[i / fits].config.gpus <= LARGE;
    TRY(published_fit_find(w, fits, false, want, seconds));
    for (size_t i = 0; i < rows * fits; i++)
        if (want[i] && seconds[i] > 0)
            published_fit_learn(w, i / fits, i % fits, seconds[i]);
out:
    free(seconds);
    free(want);
    return st;
}

/* ---- the fit */

struct published_problem {
    const struct published_work *w;
    size_t fit;
};

/* Within bounds, and not far from where it is. */
static double published_fit_bounded(const struct published_problem *p, size_t k, double x)
{
    const struct constant_row *r = &constant_rows[k];
    double at = p->w->at[p->fit][k];
    return fmin(fmin(fmax(fmax(x, at - farthest), log(r->least)), at + farthest), log(r->most));
}

/* The square of it is Huber's function. */
static double huber(double x)
{
    return fabs(x) <= 1 ? x : copysign(sqrt(2 * fabs(x) - 1), x);
}

static enum status published_fit_residuals(void *self, const double *x, double *out)
{
    const struct published_problem *p = self;
    const struct published_work *w = p->w;
    double moved[CONSTANTS];
    size_t n = 0;
    for (size_t k = 0; k < CONSTANTS; k++) {
        out[n++] = (x[k] - log(constant_rows[k].prior)) / constant_rows[k].width;
        moved[k] = published_fit_bounded(p, k, x[k]) - w->at[p->fit][k];
    }
    for (size_t i = 0; i < w->p->rows; i++) {
        size_t at = i * w->f->fits + p->fit;
        if (w->weight[at] <= 0)
            continue;
        double off = w->base[at] - w->measured[i];
        for (size_t k = 0; k < CONSTANTS; k++)
            off += w->slope[at * CONSTANTS + k] * moved[k];
        out[n++] = sqrt(w->weight[at]) * huber(off / usual);
    }
    return STATUS_OK;
}

/* A fit goes to where the sum is least, and rows are expected to do what their derivatives say. */
static enum status published_fit_solve(struct published_work *w, size_t fit)
{
    struct published_problem p = {w, fit};
    struct least_squares s = {.rows = CONSTANTS,
                              .constants = CONSTANTS,
                              .residuals = published_fit_residuals,
                              .self = &p,
                              .tolerance = tolerance,
                              .iterations = SEARCH};
    double x[CONSTANTS];
    for (size_t i = 0; i < w->p->rows; i++)
        s.rows += w->weight[i * w->f->fits + fit] > 0;
    memcpy(x, w->at[fit], sizeof x);
    PASS(least_squares(&s, x));
    for (size_t k = 0; k < CONSTANTS; k++)
        x[k] = published_fit_bounded(&p, k, x[k]);
    for (size_t i = 0; i < w->p->rows; i++) {
        size_t at = i * w->f->fits + fit;
        for (size_t k = 0; k < CONSTANTS; k++)
            w->base[at] += w->slope[at * CONSTANTS + k] * (x[k] - w->at[fit][k]);
    }
    for (size_t k = 0; k < CONSTANTS; k++)
        w->moved[fit][k] = (x[k] - w->at[fit][k]) / constant_rows[k].width;
    memcpy(w->at[fit], x, sizeof x);
    return STATUS_OK;
}

static enum status solve_all(struct published_work *w)
{
    for (size_t fit = 0; fit < w->f->fits; fit++)
        PASS(published_fit_solve(w, fit));
    return STATUS_OK;
}

/* Rows that the fit of all knows, of a constant; those of a set are beside each other. */
static void count_on(const struct published_work *w, size_t k)
{
    struct published_fits *f = w->f;
    const char *last = "";
    for (size_t i = 0; i < w->p->rows; i++) {
        const char *set = w->p->row[i].set;
        size_t at = i * f->fits;
        if (w->weight[at] <= 0 || fabs(w->slope[at * CONSTANTS + k]) < 1e-3)
            continue;
        f->on[k]++;
        f->sets_on[k] += strcmp(set, last) != 0;
        f->set_on[k] = f->set_on[k] ? f->set_on[k] : set;
        last = set;
    }
}

/* What the rows of a fit say of a constant, beside what is known a priori. */
static void find_known(const struct published_work *w, size_t fit)
{
    for (size_t k = 0; k < CONSTANTS; k++) {
        double sum = 0;
        for (size_t i = 0; i < w->p->rows; i++) {
            size_t at = i * w->f->fits + fit;
            double slope = w->slope[at * CONSTANTS + k] * constant_rows[k].width / usual;
            sum += w->weight[at] * slope * slope;
        }
        w->f->fit[fit].known[k] = sum;
    }
}

static enum status fit_all(struct published_work *w)
{
    for (size_t fit = 0; fit < w->f->fits; fit++)
        for (size_t k = 0; k < CONSTANTS; k++)
            w->at[fit][k] = log(constant_rows[k].prior);
    PASS(published_fit_begin(w));
    for (size_t fit = 0; fit < w->f->fits; fit++)
        published_fit_weigh_rows(w, fit);
    PASS(solve_all(w));
    for (int round = 0; round < ROUNDS; round++) {
        PASS(look_again(w));
        PASS(solve_all(w));
    }
    for (size_t k = 0; k < CONSTANTS; k++)
        count_on(w, k);
    for (size_t fit = 0; fit < w->f->fits; fit++) {
        find_known(w, fit);
        for (size_t k = 0; k < CONSTANTS; k++)
            w->f->fit[fit].constants.value[k] = exp(w->at[fit][k]);
    }
    return STATUS_OK;
}

/* ---- what comes of it */

/* Every row by the constants that are of interest for it: those a priori, where they are not known
 * yet, and those that do not know its set, or its generation. */
static enum status predict_rows(const struct published *p, struct published_fits *f)
{
    enum status st;
    size_t groups = f->fits; /* the first one of constants a priori, not those of all rows */
    struct constants *constants = NULL;
    double *seconds = NULL;
    bool *want = NULL;
    TRY(ARRAY_NEW(constants, groups));
    TRY(ARRAY_NEW(seconds, p->rows * groups));
    TRY(ARRAY_NEW(want, p->rows * groups));
    constants[0] = constants_prior();
    for (size_t g = 1; g < groups; g++)
        constants[g] = f->fit[g].constants;
    for (size_t i = 0; i < p->rows; i++)
        for (size_t g = 0; g < groups; g++)
            want[i * groups + g] = published_step_s(&p->row[i]) > 0 &&
                                   (g ? is_without(&p->row[i], &f->fit[g]) : f->prior_s[i] <= 0);
    const struct published_variation v = {
        .groups = groups, .each = 1, .constants = constants, .want = want};
    TRY(published_vary(p, &v, seconds));
    for (size_t i = 0; i < p->rows; i++) {
        const double *own = &seconds[i * groups];
        f->prior_s[i] = fmax(f->prior_s[i], own[0]);
        for (size_t g = 1; g < groups; g++)
            if (want[i * groups + g])
                *(!strcmp(f->fit[g].by, "set") ? &f->set_s[i] : &f->generation_s[i]) = own[g];
    }
out:
    free(constants);
    free(seconds);
    free(want);
    return st;
}

static enum status published_fit_all_rows(const struct published *p, struct published_fits *f)
{
    enum status st;
    struct published_work w = {.p = p, .f = f};
    TRY(ARRAY_NEW(w.measured, p->rows));
    TRY(ARRAY_NEW(w.weight, p->rows * f->fits));
    TRY(ARRAY_NEW(w.base, p->rows * f->fits));
    TRY(ARRAY_NEW(w.slope, p->rows * f->fits * CONSTANTS));
    TRY(ARRAY_NEW(w.reached, p->rows * CONSTANTS));
    TRY(fit_all(&w));
out:
    free(w.measured);
    free(w.weight);
    free(w.base);
    free(w.slope);
    free(w.reached);
    return st;
}

enum status published_fit(const struct published *p, const struct published_prediction *shipped,
                          struct published_fits *out)
{
    enum status st;
    struct published_fits f = {.rows = p->rows};
    double **const seconds[] = {&f.prior_s, &f.shipped_s, &f.set_s, &f.generation_s};
    TRY(ARRAY_NEW(f.fitted, p->rows));
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        TRY(ARRAY_NEW(*seconds[i], p->rows));
    TRY(published_fit_choose_rows(p, &f));
    TRY(add_fits(p, &f, shipped != NULL));
    TRY(published_fit_all_rows(p, &f));
    if (shipped)
        TRY(predict_rows(p, &f));
    for (size_t i = 0; i < p->rows && shipped; i++)
        f.shipped_s[i] = has_time(&p->row[i]) ? shipped[i].step_s : 0;
    *out = f;
    f = (struct published_fits){0};
out:
    published_fits_free(&f);
    return st;
}

void published_fits_free(struct published_fits *f)
{
    free(f->fitted);
    free(f->prior_s);
    free(f->shipped_s);
    free(f->set_s);
    free(f->generation_s);
    *f = (struct published_fits){0};
}
