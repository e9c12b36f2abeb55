/* bench collectives - what real collectives make of numbers, and how fast they are. */
#include <math.h>
#include <stdio.h>

#include "cli/bench.h"
#include "core/collective/collective.h"
#include "exec/calibrate/trial.h"

static const char *collective_bench_name(enum op_kind kind)
{
    return collective_kind_name[op_collective[kind]];
}

/* A line for each case: rank by rank the numbers that its result has. */
static void print_values(const struct trial_result *t)
{
    printf("# rank r begins with");
    for (size_t i = 0; i < t->ranks; i++)
        printf(i == 0 ? " r" : " r+%zu", i);
    printf("; number i is rank i's own; wrong: %zu\n", t->wrong);
    for (size_t c = 0; c < TRIAL_VALUES; c++) {
        const struct program_op op = {.kind = (uint8_t)trial_values[c].kind};
        printf("%-15s %-4s", collective_bench_name(trial_values[c].kind),
               op_reduces(&op) ? op_reduction_names[trial_values[c].reduction] : "");
        for (size_t r = 0; r < t->ranks; r++) {
            bool any = false;
            printf("%s", r > 0 ? " |" : "");
            for (size_t i = 0; i < t->ranks; i++) {
                double x = t->value[(c * t->ranks + r) * t->ranks + i];
                any = any || !isnan(x);
                if (!isnan(x))
                    printf(" %g", x);
            }
            printf("%s", any ? "" : " -");
        }
        printf("\n");
    }
}

/* One rank alone sends nothing: it has no bus bandwidth. */
static void collective_bench_print_rate(bool there, double Bps)
{
    if (there)
        printf("%11.3f ", Bps / 1e9);
    else
        printf("%11s ", "-");
}

/* nccl-tests' columns; and for a reduce-scatter bandwidth by the bytes of its output, as a lecture
 * counts it. */
static void print_times(const struct trial_result *t, const struct trial_options *o)
{
    double n = (double)t->ranks;
    printf("\n# %zu ranks, %s, mean of %zu calls\n# %-13s %10s %10s %11s %11s %11s %7s\n", t->ranks,
           o->transport, o->repeats, "collective", "size (B)", "time (us)", "algbw GB/s",
           "busbw GB/s", "by output", "#wrong");
    for (size_t k = 0; k < TRIAL_TIMES; k++) {
        enum op_kind kind = trial_kinds[k / TRIAL_SIZES];
        double bytes = (double)trial_sizes[k % TRIAL_SIZES], algbw = bytes / t->time[k].seconds;
        double busbw = algbw * collective_bus_factor(op_collective[kind], t->ranks);
        printf("%-15s %10.0f %10.1f %11.3f ", collective_bench_name(kind), bytes,
               1e6 * t->time[k].seconds, algbw / 1e9);
        collective_bench_print_rate(t->ranks > 1, busbw);
        collective_bench_print_rate(t->ranks > 1 && kind == OP_REDUCESCATTER, busbw / n);
        printf("%7zu\n", t->time[k].wrong);
    }
}

enum status bench_real_collectives(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct trial_result t = {0};
    size_t wrong = 0;
    const struct trial_options o = {.ranks = a->run.ranks ? a->run.ranks : 4,
                                    .repeats = a->run.repeats,
                                    .transport = a->launch.transport};
    TRY(arguments_check(a, TAKES(BENCH_COLLECTIVES)));
    TRY(trial_run(&o, &t));
    print_values(&t);
    print_times(&t, &o);
    for (size_t k = 0; k < TRIAL_TIMES; k++)
        wrong += t.time[k].wrong;
    if (wrong + t.wrong > 0)
        st =
            error_set(STATUS_EXTERNAL,
                      "wrong results: %zu elements differ between the collectives and a plain loop",
                      wrong + t.wrong);
out:
    trial_free(&t);
    return st;
}
