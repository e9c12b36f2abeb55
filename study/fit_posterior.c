/* What a linearised fit says: Gaussians of the constants for each of a grid of noises, weighed by
 * how likely the runs are with it. Constants are whitened: in widths.
 *
 * Values are those of a subset of constants, the others being 0; intervals are those of all
 * constants together, so that they know of what was held. Bishop, Pattern Recognition and
 * Machine Learning (2006), 3.3 to 3.5. */
#include "study/fit_posterior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "study/least_squares.h"

enum { NOISES = 20, K = FIT_CONSTANTS, BISECTIONS = 45 };
static const double least_noise = 1e-3, most_noise = 0.3;
/* Beforehand, where all constants are asked: predictions with the right ones are off by about so
 * much, and the logarithm of that by a standard deviation. Of subsets every noise is as likely. */
static const double usual_noise = 0.05, noise_width = 0.8;
static const double stretch = 1.15; /* of intervals: the problem is not linear */

/* Of constants index[n], with a noise. */
struct fit_gaussian {
    double noise, weight, mean[K], covariance[K][K];
};

struct fit_problem {
    const struct fit_linear *l;
    double *a;                       /* [rows * K] whitened slopes */
    double gram[K][K], with[K], sum; /* a'a, a'target, target'target */
    size_t n, index[K];              /* the constants that are free */
    struct fit_gaussian at[NOISES];
};

/* One noise: the logarithm of how likely the runs are with it. */
static enum status fit_condition(const struct fit_problem *p, struct fit_gaussian *g,
                                 double *likely)
{
    double s2 = g->noise * g->noise, explained = 0, determinant;
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->n; j++)
            g->covariance[i][j] = p->gram[p->index[i]][p->index[j]] / s2 + (i == j ? 1 : 0);
    PASS(least_squares_invert(p->n, K, &g->covariance[0][0], &determinant));
    for (size_t i = 0; i < p->n; i++) {
        g->mean[i] = 0;
        for (size_t j = 0; j < p->n; j++)
            g->mean[i] += g->covariance[i][j] * p->with[p->index[j]] / s2;
        explained += g->mean[i] * p->with[p->index[i]] / s2;
    }
    *likely = -(double)p->l->rows * log(g->noise) - determinant / 2 - (p->sum / s2 - explained) / 2;
    return STATUS_OK;
}

/* All noises, weighed; `informed`: some are likelier beforehand. *all: the logarithm of how likely
 * the runs are. */
static enum status fit_weigh(struct fit_problem *p, bool informed, double *all)
{
    double likely[NOISES], most = -INFINITY, sum = 0;
    for (size_t i = 0; i < NOISES; i++) {
        struct fit_gaussian *g = &p->at[i];
        g->noise = least_noise * pow(most_noise / least_noise, (double)i / (NOISES - 1));
        PASS(fit_condition(p, g, &likely[i]));
        if (informed)
            likely[i] -= pow(log(g->noise / usual_noise) / noise_width, 2) / 2;
        most = fmax(most, likely[i]);
    }
    for (size_t i = 0; i < NOISES; i++)
        sum += p->at[i].weight = exp(likely[i] - most);
    for (size_t i = 0; i < NOISES; i++)
        p->at[i].weight /= sum;
    *all = most + log(sum);
    return STATUS_OK;
}

/* What is left of each run by those that the others say: apart [rows]. Their mean. */
static double fit_leave_out(const struct fit_problem *p, double *apart)
{
    double sum = 0;
    for (size_t i = 0; i < p->l->rows; i++) {
        const double *a = &p->a[i * K];
        apart[i] = 0;
        for (size_t s = 0; s < NOISES; s++) {
            const struct fit_gaussian *g = &p->at[s];
            double left = p->l->target[i], leverage = 0;
            if (g->weight < 1e-6)
                continue;
            for (size_t k = 0; k < p->n; k++) {
                left -= a[p->index[k]] * g->mean[k];
                for (size_t j = 0; j < p->n; j++)
                    leverage += a[p->index[k]] * g->covariance[k][j] * a[p->index[j]];
            }
            apart[i] += g->weight * left / fmax(1 - leverage / (g->noise * g->noise), 1e-9);
        }
        sum += fabs(apart[i]);
    }
    return sum / (double)p->l->rows;
}

static double fit_mean(const struct fit_problem *p, size_t k)
{
    double mean = 0;
    for (size_t s = 0; s < NOISES; s++)
        mean += p->at[s].weight * p->at[s].mean[k];
    return mean;
}

/* The value below which free constant k is with a probability. */
static double fit_quantile(const struct fit_problem *p, size_t k, double share)
{
    double low = -10, high = 10;
    for (size_t i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2, below = 0;
        for (size_t s = 0; s < NOISES; s++) {
            const struct fit_gaussian *g = &p->at[s];
            double deviation = sqrt(fmax(g->covariance[k][k], 1e-18));
            below += g->weight * erfc((g->mean[k] - middle) / deviation / sqrt(2)) / 2;
        }
        *(below < share ? &low : &high) = middle;
    }
    return low;
}

/* All constants that there are. */
static void fit_free_all(struct fit_problem *p)
{
    p->n = 0;
    for (size_t k = 0; k < p->l->constants; k++)
        if (p->l->width[k] > 0)
            p->index[p->n++] = k;
}

/* Covariance of all constants over all noises, as what is told of each and as correlations. */
static void fit_tell(const struct fit_problem *p, struct fit_answer *a)
{
    double all[K][K] = {{0}};
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->n; j++) {
            for (size_t s = 0; s < NOISES; s++)
                all[i][j] += p->at[s].weight *
                             (p->at[s].covariance[i][j] + p->at[s].mean[i] * p->at[s].mean[j]);
            all[i][j] -= fit_mean(p, i) * fit_mean(p, j);
        }
    for (size_t i = 0; i < p->n; i++) {
        size_t k = p->index[i];
        double middle = fit_mean(p, i), width = p->l->width[k];
        a->told[k] = 1 - fmin(all[i][i], 1);
        a->low[k] = width * (middle + stretch * (fit_quantile(p, i, 0.05) - middle));
        a->high[k] = width * (middle + stretch * (fit_quantile(p, i, 0.95) - middle));
        for (size_t j = 0; j < p->n; j++)
            a->correlation[k][p->index[j]] = all[i][j] / sqrt(all[i][i] * all[j][j]);
    }
}

/* The constants of which most is told, in *among. */
static size_t fit_rank(const struct fit_problem *p, const struct fit_answer *a, size_t *among)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = p->index[i], at = n < FIT_TRIED ? n++ : n;
        for (; at > 0 && a->told[among[at - 1]] < a->told[k]; at--)
            if (at < FIT_TRIED)
                among[at] = among[at - 1];
        if (at < FIT_TRIED)
            among[at] = k;
    }
    return n;
}

static void fit_take(struct fit_problem *p, const size_t *among, size_t n, uint32_t subset)
{
    p->n = 0;
    for (size_t i = 0; i < n; i++)
        if (subset >> i & 1)
            p->index[p->n++] = among[i];
}

/* Of all subsets of so many constants the one with which the runs are likeliest. */
static enum status fit_choose(struct fit_problem *p, const size_t *among, size_t n, size_t members)
{
    uint32_t chosen = 0;
    double most = -INFINITY, likely;
    for (uint32_t subset = 0; subset < UINT32_C(1) << n; subset++) {
        if ((size_t)__builtin_popcount(subset) != members)
            continue;
        fit_take(p, among, n, subset);
        PASS(fit_weigh(p, false, &likely));
        if (likely > most) {
            most = likely;
            chosen = subset;
        }
    }
    fit_take(p, among, n, chosen);
    return STATUS_OK;
}

static enum status fit_whiten(const struct fit_linear *l, struct fit_problem *p)
{
    PASS(ARRAY_NEW(p->a, l->rows * K));
    for (size_t i = 0; i < l->rows; i++) {
        double *a = &p->a[i * K];
        for (size_t k = 0; k < l->constants; k++)
            a[k] = l->slope[i * l->constants + k] * l->width[k];
        for (size_t k = 0; k < l->constants; k++) {
            p->with[k] += a[k] * l->target[i];
            for (size_t j = 0; j < l->constants; j++)
                p->gram[k][j] += a[k] * a[j];
        }
        p->sum += l->target[i] * l->target[i];
    }
    return STATUS_OK;
}

enum status fit_solve_linear(const struct fit_linear *l, size_t members, struct fit_answer *a)
{
    enum status st;
    size_t among[FIT_TRIED];
    double likely;
    struct fit_problem *p = NULL;
    TRY(ARRAY_NEW(p, 1));
    p->l = l;
    TRY(fit_whiten(l, p));
    double *apart = a->apart;
    *a = (struct fit_answer){.apart = apart};
    fit_free_all(p);
    TRY(fit_weigh(p, true, &likely));
    fit_tell(p, a);
    size_t tried = fit_rank(p, a, among);
    TRY(fit_choose(p, among, tried, members < tried ? members : tried));
    TRY(fit_weigh(p, false, &likely));
    a->error = fit_leave_out(p, a->apart);
    for (size_t i = 0; i < p->n; i++) {
        a->free[p->index[i]] = true;
        a->value[p->index[i]] = l->width[p->index[i]] * fit_mean(p, i);
    }
    for (size_t s = 0; s < NOISES; s++)
        a->noise += p->at[s].weight * p->at[s].noise;
out:
    if (p)
        free(p->a);
    free(p);
    return st;
}
