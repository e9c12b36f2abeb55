/* Factors of layers, heads and steps, fitted to some runs of a set: Gauss and Newton by way of GSL,
 * as logarithms of times are nearly linear in those of factors. */
#include "lab/scoreboard/published_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/strategy/constants.h"
#include "study/least_squares.h"

static const double nudge = 0.05;     /* of logarithms of factors, for derivatives */
static const double farthest = 1;     /* that a factor goes from where derivatives were taken */
static const double tolerance = 1e-6; /* of logarithms, at which a search ends */
static const double slack = 0.01;     /* of times, which pulls as hard as */
static const double width = 1;        /* this of a factor */
enum { ROUNDS = 6, SEARCH = 50, WAYS = 1 + PUBLISHED_PACES };

/* A row's factors; the order of PUBLISHED_PACES. */
struct places {
    size_t factor[PUBLISHED_PACES];
};

struct layer_fit_work {
    const struct published *p;
    bool *asked;          /* [rows] of the set, with a time */
    bool *fitted;         /* [rows] and fitted to */
    bool *known;          /* [rows] and predicted */
    struct places *place; /* [rows] numbers of factors */
    size_t factors;
    double *at;                  /* [factors] logarithms */
    double *seconds;             /* [rows * WAYS] at `at`, and beside it */
    double *slope;               /* [rows * PUBLISHED_PACES] */
    struct published_pace *pace; /* [rows * WAYS] */
};

/* ---- which runs have what in common */

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

/* Is the kind's factor the same? */
static bool shares(const struct published_row *a, const struct published_row *b, int kind)
{
    const struct published_config *x = &a->config, *y = &b->config;
    bool ends = x->hidden == y->hidden && x->heads == y->heads && x->ffn == y->ffn &&
                x->seq == y->seq && x->gated == y->gated && x->experts == y->experts &&
                x->tp == y->tp && x->cp == y->cp && x->ep == y->ep && same_text(x->gpu, y->gpu) &&
                same_text(x->dtype, y->dtype);
    return strcmp(a->set, b->set) == 0 &&
           (kind == PACE_STEP ||
            (ends && (kind == PACE_HEAD || (x->micro_batch == y->micro_batch &&
                                            same_text(x->recompute, y->recompute)))));
}

/* Numbers of factors, of all rows with a time. */
static enum status layer_fit_count(struct layer_fit_work *w)
{
    for (size_t i = 0; i < w->p->rows; i++)
        for (int kind = 0; kind < PUBLISHED_PACES && w->asked[i]; kind++) {
            size_t k = 0;
            while (k < i && !(w->asked[k] && shares(&w->p->row[k], &w->p->row[i], kind)))
                k++;
            if (k < i) {
                w->place[i].factor[kind] = w->place[k].factor[kind];
                continue;
            }
            w->place[i].factor[kind] = w->factors++;
        }
    return ARRAY_NEW(w->at, w->factors);
}

/* n of the rows of each set that are asked for, in an order that the seed fixes. */
static void layer_fit_draw(struct layer_fit_work *w, size_t n, uint64_t seed)
{
    const struct published *p = w->p;
    for (size_t i = 0; i < p->rows; i++) {
        size_t before = 0; /* rows of the set that are drawn earlier */
        for (size_t k = 0; k < p->rows && w->asked[i]; k++)
            if (w->asked[k] && !strcmp(p->row[k].set, p->row[i].set)) {
                uint64_t own = random_at(seed, i), other = random_at(seed, k);
                before += other < own || (other == own && k < i);
            }
        w->fitted[i] = w->asked[i] && before < n;
    }
}

/* ---- times */

/* Seconds of the rows that are wanted, seconds[rows * ways]: by the factors, and in the ways after
 * the first one with the factor of one kind times e^nudge. */
static enum status layer_fit_find(struct layer_fit_work *w, const bool *wanted, size_t ways,
                                  double *seconds)
{
    enum status st;
    struct constants constants[WAYS];
    bool *want = NULL;
    TRY(ARRAY_NEW(want, w->p->rows * ways));
    for (size_t k = 0; k < ways; k++)
        constants[k] = constants_shipped();
    for (size_t i = 0; i < w->p->rows; i++)
        for (size_t k = 0; k < ways && wanted[i]; k++) {
            want[i * ways + k] = true;
            for (size_t kind = 0; kind < PUBLISHED_PACES; kind++)
                w->pace[i * ways + k].times[kind] =
                    exp(w->at[w->place[i].factor[kind]] + (kind + 1 == k ? nudge : 0));
        }
    const struct published_variation v = {
        .groups = ways, .each = 1, .constants = constants, .want = want, .pace = w->pace};
    TRY(published_vary(w->p, &v, seconds));
out:
    free(want);
    return st;
}

static enum status layer_fit_check(struct layer_fit_work *w)
{
    PASS(layer_fit_find(w, w->fitted, WAYS, w->seconds));
    for (size_t i = 0; i < w->p->rows; i++) {
        const double *s = &w->seconds[i * WAYS];
        w->known[i] = w->fitted[i] && s[0] > 0;
        for (size_t kind = 0; kind < PUBLISHED_PACES && w->known[i]; kind++)
            w->slope[i * PUBLISHED_PACES + kind] = log(s[kind + 1] / s[0]) / nudge;
    }
    return STATUS_OK;
}

/* ---- the fit */

static double layer_fit_bounded(const struct layer_fit_work *w, size_t k, double x)
{
    return fmin(fmax(x, w->at[k] - farthest), w->at[k] + farthest);
}

static enum status layer_fit_residuals(void *self, const double *x, double *out)
{
    const struct layer_fit_work *w = self;
    size_t n = 0;
    for (size_t k = 0; k < w->factors; k++)
        out[n++] = x[k] * slack / width;
    for (size_t i = 0; i < w->p->rows; i++) {
        if (!w->known[i])
            continue;
        double off = log(w->seconds[i * WAYS] / published_step_s(&w->p->row[i]));
        for (size_t kind = 0; kind < PUBLISHED_PACES; kind++) {
            size_t k = w->place[i].factor[kind];
            off +=
                w->slope[i * PUBLISHED_PACES + kind] * (layer_fit_bounded(w, k, x[k]) - w->at[k]);
        }
        out[n++] = off;
    }
    return STATUS_OK;
}

static enum status layer_fit_solve(struct layer_fit_work *w)
{
    enum status st;
    double *x = NULL;
    struct least_squares s = {.rows = w->factors,
                              .constants = w->factors,
                              .residuals = layer_fit_residuals,
                              .self = w,
                              .tolerance = tolerance,
                              .iterations = SEARCH};
    for (size_t i = 0; i < w->p->rows; i++)
        s.rows += w->known[i];
    TRY(ARRAY_COPY(x, w->at, w->factors));
    TRY(least_squares(&s, x));
    for (size_t k = 0; k < w->factors; k++)
        x[k] = layer_fit_bounded(w, k, x[k]);
    memcpy(w->at, x, w->factors * sizeof *x);
out:
    free(x);
    return st;
}

/* ---- what comes of it */

/* Is a row with the same layers fitted to? */
static bool layer_fit_is_known(const struct layer_fit_work *w, size_t row)
{
    size_t k = 0;
    while (k < w->p->rows &&
           !(w->fitted[k] && w->place[k].factor[PACE_LAYERS] == w->place[row].factor[PACE_LAYERS]))
        k++;
    return k < w->p->rows;
}

static enum status layer_fit_conclude(struct layer_fit_work *w, struct published *p,
                                      struct published_prediction *prediction)
{
    PASS(layer_fit_find(w, w->asked, 1, w->seconds));
    for (size_t i = 0; i < p->rows; i++) {
        prediction[i].step_s = w->asked[i] ? w->seconds[i] : prediction[i].step_s;
        if (w->fitted[i])
            PASS(published_leave_out(p, &p->row[i], "one of those that layers were fitted to"));
        else if (w->asked[i] && !layer_fit_is_known(w, i))
            PASS(published_leave_out(p, &p->row[i], "no run that was fitted to has such layers"));
    }
    return STATUS_OK;
}

enum status published_fit_layers(struct published *p, size_t n, uint64_t seed,
                                 struct published_prediction *prediction)
{
    enum status st;
    struct layer_fit_work w = {.p = p};
    TRY(ARRAY_NEW(w.asked, p->rows));
    TRY(ARRAY_NEW(w.fitted, p->rows));
    TRY(ARRAY_NEW(w.place, p->rows));
    TRY(ARRAY_NEW(w.known, p->rows));
    TRY(ARRAY_NEW(w.seconds, p->rows * WAYS));
    TRY(ARRAY_NEW(w.slope, p->rows * PUBLISHED_PACES));
    TRY(ARRAY_NEW(w.pace, p->rows * WAYS));
    for (size_t i = 0; i < p->rows; i++)
        w.asked[i] =
            !p->row[i].left_out && prediction[i].step_s > 0 && published_step_s(&p->row[i]) > 0;
    TRY(layer_fit_count(&w));
    layer_fit_draw(&w, n, seed);
    for (int round = 0; round < ROUNDS && w.factors > 0; round++) {
        TRY(layer_fit_check(&w));
        TRY(layer_fit_solve(&w));
    }
    TRY(layer_fit_conclude(&w, p, prediction));
out:
    free(w.asked);
    free(w.fitted);
    free(w.known);
    free(w.place);
    free(w.at);
    free(w.seconds);
    free(w.slope);
    free(w.pace);
    return st;
}
