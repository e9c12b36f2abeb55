/* Forecasts of a campaign. */
#include "campaign/campaign.h"

#include <math.h>
#include <stdlib.h>

#include "campaign/closed_form.h"
#include "core/base/array.h"
#include "core/base/statistics.h"

enum { BATCH = 100, COMPARED = 200 };

double campaign_between(const struct campaign *c)
{
    double rate = failures_rate(c->failures, c->pieces);
    return rate > 0 ? 1 / rate : INFINITY;
}

double campaign_recovery(const struct campaign *c)
{
    const struct failures *f = c->failures;
    return f->hang * f->timeout_s + (1 - f->hang) * f->detect_s + f->restart_s + c->load_s;
}

double campaign_save_cost(const struct campaign *c)
{
    return c->block_s + c->drain_s * c->interference / (1 + c->interference);
}

/* A failure while a checkpoint is being written costs the interval before it, too. The formula does
 * not know that; it hardly moves the optimum. */
double campaign_best_interval(const struct campaign *c)
{
    double between = campaign_between(c);
    double best = closed_form_best(campaign_save_cost(c), between);
    if (isinf(between) || best >= c->work_s)
        return c->work_s;
    return fmax(1, ceil(fmax(best, c->drain_s) / c->iteration_s - 0.5)) * c->iteration_s;
}

static enum status campaign_check(const struct campaign *c)
{
    if (!(c->work_s > 0) || !(c->iteration_s > 0) || !(c->every_s > 0) || !(c->replicas >= 1))
        return error_set(STATUS_INVALID, "a campaign needs tokens, an iteration time and a "
                                         "checkpoint interval above 0, and at least one replica");
    return STATUS_OK;
}

static void add(double *sum, const double *one, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += one[i];
}

/* All members of a course are doubles. */
enum { COURSE_NUMBERS = sizeof(struct course) / sizeof(double) };

static enum status draw_courses(const struct campaign *c, uint64_t seed, size_t from, size_t to,
                                double *wall_s, struct course *sum)
{
    for (size_t i = from; i < to; i++) {
        struct course one;
        PASS(timeline_follow(c, seed + i, CAMPAIGN_TOO_LONG * c->work_s, &one));
        if (wall_s)
            wall_s[i] = one.work_s < c->work_s ? INFINITY : one.wall_s;
        add((double *)sum, (const double *)&one, COURSE_NUMBERS);
    }
    return STATUS_OK;
}

static void divide(struct course *sum, size_t n)
{
    for (size_t i = 0; i < COURSE_NUMBERS; i++)
        ((double *)sum)[i] /= (double)n;
}

/* How far the 95 % confidence interval of a quantile reaches, as a share: order statistics whose
 * ranks are 1.96 standard deviations of a binomial away. */
static double uncertainty(const double *sorted, size_t n, double q)
{
    double d = 1.96 * sqrt(q * (1 - q) / (double)n), value = quantile_sorted(sorted, n, q);
    double low = quantile_sorted(sorted, n, fmax(0, q - d));
    double high = quantile_sorted(sorted, n, fmin(1, q + d));
    return isinf(high) ? INFINITY : fmax(high - value, value - low) / value;
}

static double quantiles_find(const double *wall_s, size_t n, struct campaign_forecast *f)
{
    f->p5_s = quantile_sorted(wall_s, n, 0.05);
    f->p50_s = quantile_sorted(wall_s, n, 0.5);
    f->p95_s = quantile_sorted(wall_s, n, 0.95);
    return fmax(uncertainty(wall_s, n, 0.5),
                fmax(uncertainty(wall_s, n, 0.05), uncertainty(wall_s, n, 0.95)));
}

enum status campaign_forecast(const struct campaign *c, uint64_t seed, double within,
                              struct campaign_forecast *out)
{
    enum status st;
    struct campaign_forecast f = {0};
    double *wall_s = NULL, *sorted = NULL;
    TRY(campaign_check(c));
    TRY(ARRAY_NEW(wall_s, CAMPAIGN_COURSES_MOST));
    do {
        size_t n = f.courses + (f.courses < BATCH ? BATCH : f.courses);
        n = n < CAMPAIGN_COURSES_MOST ? n : CAMPAIGN_COURSES_MOST;
        TRY(draw_courses(c, seed, f.courses, n, wall_s, &f.mean));
        f.courses = n;
        free(sorted);
        TRY(ARRAY_COPY(sorted, wall_s, n));
        qsort(sorted, n, sizeof *sorted, by_value);
        f.within = quantiles_find(sorted, n, &f);
    } while (f.within > within && !isinf(f.p50_s) && f.courses < CAMPAIGN_COURSES_MOST);
    for (size_t i = f.courses; i > 0 && isinf(sorted[i - 1]); i--)
        f.unfinished++;
    divide(&f.mean, f.courses);
    *out = f;
out:
    free(sorted);
    free(wall_s);
    return st;
}

enum status campaign_mean(const struct campaign *c, uint64_t seed, size_t courses,
                          struct course *out)
{
    struct course sum = {0};
    PASS(campaign_check(c));
    PASS(draw_courses(c, seed, 0, courses, NULL, &sum));
    divide(&sum, courses);
    *out = sum;
    return STATUS_OK;
}

enum status campaign_best_spares(const struct campaign *c, double nodes, uint32_t most,
                                 uint64_t seed, uint32_t *out)
{
    struct campaign tried = *c;
    double best = INFINITY;
    *out = 0;
    if (closed_form_time(c->work_s, c->every_s, campaign_save_cost(c), campaign_recovery(c),
                         campaign_between(c)) > CAMPAIGN_TOO_LONG * c->work_s)
        return STATUS_OK; /* no number of them helps */
    for (uint32_t n = 0, worse = 0; n <= most && worse < 3; n += 1 + n / 4) {
        struct course mean;
        tried.spares = n;
        PASS(campaign_mean(&tried, seed, COMPARED, &mean));
        double price = mean.wall_s * (nodes + n) * fmax(1, c->work_s / mean.work_s);
        worse = price < best ? 0 : worse + 1;
        *out = price < best ? n : *out;
        best = fmin(best, price);
    }
    return STATUS_OK;
}
