/* promise - what foreline promises of any input, on many random ones; prints the worst.
 *
 *     promise fold [cases [seed [engine]]]        plans by their steady middle and whole
 *     promise search [cases [seed [devices]]]     what `plan` finds against simulate, baselines,
 *                                                 brute force, floors
 *     promise quick [cases [seed]]                the analytic engine against SimGrid */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/data/compare.h"
#include "sim/engines.h"
#include "tests/promise.h"

static int promise_fold_once(size_t cases, uint64_t seed, const struct engine *engine)
{
    double worst = 0;
    size_t folded = 0, long_ones = 0, wrong = 0, unsound = 0;
    for (size_t k = 0; k < cases; k++) {
        struct promise_random r = {seed + k};
        struct promise_case c;
        char text[PROMISE_TEXT];
        promise_case(&r, PROMISE_FAMILIES, 2048, &c);
        double begin = clock_cpu();
        struct promise_folding f = promise_fold(&c, engine);
        folded += f.folded;
        long_ones += c.plan.microbatches * c.plan.stages >= 512;
        wrong += f.error > 1e-9;
        unsound += !f.sound;
        worst = fmax(worst, f.error);
        if (f.error > 1e-9 || !f.sound || getenv("VERBOSE"))
            printf("%zu %s: %s %.9g %.9g error %.3g%s %s %.2f s\n", k, promise_text(&c, text),
                   f.folded ? "folded" : "whole", f.folded_s, f.whole_s, f.error,
                   f.sound ? "" : " UNSOUND", f.reason, clock_cpu() - begin);
        promise_case_free(&c);
    }
    printf("fold, %s: %zu plans, %zu long, %zu folded, worst error %.3g, %zu above 1e-9, %zu with "
           "shares that are none\n",
           engine->name, cases, long_ones, folded, worst, wrong, unsound);
    return wrong + unsound > 0;
}

static int promise_search_once(size_t cases, uint64_t seed, size_t most)
{
    double table = 0, baseline = -INFINITY, grid = -INFINITY, least = INFINITY;
    size_t slower = 0, beaten = 0, grids = 0, infeasible = 0;
    for (size_t k = 0; k < cases; k++) {
        struct promise_random r = {seed + k};
        double begin = clock_now();
        struct promise_search p = promise_search(&r, PROMISE_FAMILIES, most);
        printf("%zu %s, batch %zu, %zu devices: %s %.6g s; table off by %.2g, against the best "
               "baseline %+.2f %%, the best of %zu by brute force %+.2f %%%s%s; floors %.9f %.9f; "
               "%.1f s%s\n",
               k, p.model, p.batch, p.devices, p.winner, p.winner_s, p.table_error,
               100 * p.over_baseline, p.grid, 100 * p.over_grid, *p.grid_best ? ": " : "",
               p.grid_best, p.least_floor, p.least_true, clock_now() - begin,
               p.infeasible ? " (no fit)" : "");
        fflush(stdout);
        table = fmax(table, p.table_error);
        least = fmin(least, p.least_floor);
        infeasible += p.infeasible;
        if (p.infeasible)
            continue;
        baseline = fmax(baseline, p.over_baseline);
        slower += p.over_baseline > 1e-9;
        grid = fmax(grid, p.over_grid);
        grids += p.grid > 0;
        beaten += p.over_grid > 0.01;
    }
    printf("search: %zu inputs, %zu where nothing fits; table against simulate: worst %.3g; winner "
           "against the best baseline: worst %+.3g %%, slower %zu times; against brute force on "
           "%zu: worst %+.3g %%, beaten by more than 1 %% %zu times; least prediction over its "
           "floor %.9f\n",
           cases, infeasible, table, 100 * baseline, slower, grids, 100 * grid, beaten, least);
    return table > 1e-9 || slower > 0 || beaten > 0 || least < 1 - 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

enum { PLANS = 10 }; /* of one model on one platform */

static int promise_quick_case(size_t cases, uint64_t seed)
{
    double *error = calloc(cases + PLANS, sizeof *error), least = 1;
    size_t n = 0;
    for (size_t k = 0; n < cases && error; k++) {
        struct promise_random r = {seed + k};
        char name[PROMISE_TEXT];
        double quick_s[PLANS], true_s[PLANS], worst = 0;
        promise_quick(&r, (uint32_t)(k % PROMISE_FAMILIES), PLANS, name, quick_s, true_s);
        for (size_t i = 0; i < PLANS; i++) {
            error[n++] = fabs(quick_s[i] / true_s[i] - 1);
            worst = fmax(worst, error[n - 1]);
        }
        double tau = kendall_tau(quick_s, true_s, PLANS);
        least = fmin(least, tau);
        printf("%s: worst error %.3g %%, Kendall tau %.3f\n", name, 100 * worst, tau);
        fflush(stdout);
    }
    qsort(error, n, sizeof *error, by_size);
    double p50 = error[n / 2], p95 = error[n * 95 / 100];
    printf("quick: %zu plans: median error %.3g %%, 95th percentile %.3g %%, worst %.3g %%, least "
           "Kendall tau %.3f\n",
           n, 100 * p50, 100 * p95, 100 * error[n - 1], least);
    free(error);
    return p50 > 0.02 || p95 > 0.1 || least < 0.95;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    size_t cases = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const struct engine *engine = &engine_analytic;
    if (!strcmp(what, "search"))
        return promise_search_once(cases ? cases : 200, seed,
                                   argc > 4 ? strtoul(argv[4], NULL, 10) : 64);
    if (!strcmp(what, "quick"))
        return promise_quick_case(cases ? cases : 500, seed);
    if (argc > 4 && engine_find(argv[4], &engine) != STATUS_OK)
        return 2;
    if (!strcmp(what, "fold"))
        return promise_fold_once(cases ? cases : 500, seed, engine);
    return 2;
}
