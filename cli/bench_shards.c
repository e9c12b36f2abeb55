/* bench shards - what strategies of shards cost on this machine: the constants of the search, and
 * how far what it takes for granted holds. */
#include <stdio.h>

#include "cli/bench.h"
#include "core/base/limit.h"
#include "core/base/units.h"
#include "core/collective/collective.h"
#include "core/data/measurement.h"
#include "exec/calibrate/overlap.h"
#include "exec/calibrate/trial.h"
#include "host/folder.h"
#include "model/papers.h"
#include "study/point.h"

/* The artifact's: 11 iterations before those that count; medians of five runs. */
enum {
    WARM_UP = 11,
    RUNS = 5,
    ROWS = 256,
    MORE = 20,
    EXPERT_ROWS = 2560,
    CHANNELS = 192,
    INNER = 768
};
static const char usual_model[] =
    "ttransformer:layers=2,batch=8,seq=64,hidden=128,inner=512,heads=4";

/* A step of training on one device: seconds, and the work as the published code counts it. */
static enum status measure_step(const struct invocation *in, const char *model, double *flop,
                                struct measurement *m)
{
    enum status st;
    const struct papers_of_models *papers;
    const struct point_run how = {.engine = "local",
                                  .launch.device = "cpu",
                                  .compute = "real",
                                  .launch.steps = in->a.run.repeats,
                                  .launch.warmup = WARM_UP,
                                  .launch.timeout_s = limit_wait(WAIT_MEASURE),
                                  .by = &in->by};
    char dir[FOLDER_TEMPORARY], plan[FOLDER_FILE], path[FOLDER_FILE];
    PASS(papers_load_models(&papers));
    PASS(papers->flop(model, flop));
    PASS(folder_temporary(dir));
    folder_file(dir, "plan.json", plan);
    folder_file(dir, "run.json", path);
    TRY(point_plan_alone(model, 0, plan, &in->by));
    TRY(point_measure(plan, &how, path));
    TRY(measurement_read(path, m));
out:
    folder_remove(dir);
    return st;
}

static enum status print_step(const struct invocation *in)
{
    const char *model = in->a.model ? in->a.model : usual_model;
    struct measurement m = {0};
    double flop = 0;
    PASS(measure_step(in, model, &flop, &m));
    printf("device_flops    %.6g   # %s: %s a step, median of %zu after %d\n", flop / m.iteration_s,
           model, units_of(UNIT_SECONDS, m.iteration_s).text, in->a.run.repeats, WARM_UP);
    measurement_free(&m);
    return STATUS_OK;
}

static const char *const published[TRIAL_SHARDS] = {"all_reduce", "reduce_scatter", "all_gather",
                                                    "all_to_all"};

/* Bytes of the whole tensor per second, size by size, and their mean. */
static enum status print_bandwidths(const struct trial_options *o)
{
    struct trial_result t = {0};
    size_t wrong = 0;
    PASS(trial_run(o, &t));
    printf("# bytes of the whole tensor per second: mean, then of");
    for (size_t s = 0; s < TRIAL_SIZES; s++)
        printf(" %s", units_of(UNIT_BYTES, (double)o->whole[s]).text);
    printf("; %zu ranks, %s, median of %zu runs of %zu\n", o->ranks, o->transport, o->runs,
           o->repeats);
    for (size_t k = 0; k < TRIAL_SHARDS; k++) {
        double rate[TRIAL_SIZES], sum = 0;
        for (size_t s = 0; s < TRIAL_SIZES; s++) {
            rate[s] = (double)o->whole[s] / t.time[k * TRIAL_SIZES + s].seconds;
            sum += rate[s];
            wrong += t.time[k * TRIAL_SIZES + s].wrong;
        }
        printf("%-15s %.6g  ", published[k], sum / TRIAL_SIZES);
        for (size_t s = 0; s < TRIAL_SIZES; s++)
            printf(" %10.4g", rate[s]);
        printf("\n");
    }
    trial_free(&t);
    return wrong
               ? error_set(
                     STATUS_EXTERNAL,
                     "wrong results: %zu elements differ between the collectives and a plain loop",
                     wrong)
               : STATUS_OK;
}

static enum status print_interference(const struct trial_options *o)
{
    struct interference i = {0};
    const size_t small[TRIAL_SIZES] = {o->whole[0], o->whole[0], o->whole[1], o->whole[1]};
    const struct trial_options local = {
        .ranks = o->ranks, .repeats = MORE * o->repeats, .whole = small, .transport = "local"};
    PASS(overlap_interfere(ROWS, &local, &i));
    printf("# interference: times as long beside the other as alone, ranks that are threads\n");
    printf("product         %.3f   # %d x %d x %d, %s alone, %zu beside\n",
           i.product_beside_s / i.product_s, ROWS, ROWS, ROWS,
           units_of(UNIT_SECONDS, i.product_s).text, i.products);
    for (size_t k = 0; k < TRIAL_SHARDS; k++)
        printf("%-15s %.3f\n", published[k], i.collective_beside_s[k] / i.collective_s[k]);
    return STATUS_OK;
}

static enum status print_slices(size_t repeats)
{
    double flops[OVERLAP_SLICES];
    PASS(overlap_slice(EXPERT_ROWS, CHANNELS, INNER, repeats, flops));
    printf("# slices: FLOP/s of an expert's products, %d x %d x %d, and share of the whole's\n",
           EXPERT_ROWS, CHANNELS, INNER);
    for (size_t s = 0, parts = 1; s < OVERLAP_SLICES; s++, parts *= 4)
        printf("1/%-13zu %.4g   %.3f\n", parts, flops[s], flops[s] / flops[0]);
    return STATUS_OK;
}

enum status bench_shards(struct invocation *in)
{
    const struct arguments *a = &in->a;
    size_t sizes[TRIAL_SIZES];
    const struct trial_options o = {.ranks = a->run.ranks ? a->run.ranks : 2,
                                    .repeats = a->run.repeats,
                                    .runs = RUNS,
                                    .whole = sizes,
                                    .transport = a->launch.transport};
    PASS(arguments_check(a, TAKES(BENCH_SHARDS)));
    for (size_t s = TRIAL_SIZES, bytes = (size_t)a->measure.largest_bytes; s-- > 0; bytes /= 4)
        sizes[s] = bytes;
    if (sizes[0] < 4 * TRIAL_RANKS * TRIAL_RANKS || a->measure.largest_bytes > 4e9)
        return error_set(STATUS_USAGE, "--largest: got %s, expected 64 KiB to 4 GB",
                         units_of(UNIT_BYTES, (double)a->measure.largest_bytes).text);
    PASS(print_step(in));
    PASS(print_bandwidths(&o));
    PASS(print_interference(&o));
    return print_slices(a->run.repeats);
}
