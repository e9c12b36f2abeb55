/* Non-contiguous placement on 50 problems that nobody has tuned anything to: random contractions
 * and perturbations of the published graphs, or of random graphs of their shape where these are not
 * at hand, beside an exact solver with a long limit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "papers/bench/partition_random.h"
#include "tests/placement_exact.h"
#include "tests/placement_inputs.h"

enum { PATH = 4096 };

static const char *const published[] = {
    "layers/bert24_inference",     "layers/bert24_training",       "layers/gnmt_inference",
    "layers/resnet50_inference",   "layers/resnet50_training",     "operators/bert_l-3_inference",
    "operators/bert_l-3_training", "operators/resnet50_inference",
};
enum { PUBLISHED = sizeof published / sizeof *published };

/* Problem number i: three of four are contracted to 10 to 49 colours, all are perturbed. */
static enum status random_bench_generate(const char *folder, size_t i, const char *path, char *name)
{
    enum status st;
    char source[PATH + 64];
    struct placement_problem p = {0};
    struct placement_input in = {0};
    if (folder) {
        snprintf(name, 64, "%s", published[i % PUBLISHED]);
        snprintf(source, sizeof source, "%s/placement/%s.json", folder, name);
        const struct objective_request r = {.spec = source, .memory_bytes = NAN};
        TRY(placement_read(&r, &p));
        TRY(placement_input_copy(&p, i, &in));
    } else {
        snprintf(name, 64, "random");
        TRY(placement_input_random(i, 20 + 13 * i % 150, &in));
    }
    if (i / PUBLISHED % 4 != 3)
        TRY(placement_input_contract(&in, 10 + i * 7 % 40));
    placement_input_perturb(&in);
    TRY(placement_input_write(&in, path));
out:
    placement_input_free(&in);
    placement_free(&p);
    return st;
}

/* What an earlier run with the same limit has found in PREFIX.exact. */
static bool random_bench_recall(const char *prefix, double limit_s, struct placement_exact *out)
{
    char path[PATH + 16];
    double limit = 0;
    snprintf(path, sizeof path, "%s.exact", prefix);
    FILE *f = fopen(path, "r");
    bool found =
        f && fscanf(f, "%lf %lf %lf %lf", &limit, &out->value, &out->bound, &out->cpu_s) == 4;
    if (f)
        fclose(f);
    return found && (limit >= limit_s || out->bound >= out->value * (1 - 1e-9));
}

static void random_bench_remember(const char *prefix, double limit_s,
                                  const struct placement_exact *e)
{
    char path[PATH + 16];
    snprintf(path, sizeof path, "%s.exact", prefix);
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "%.17g %.17g %.17g %.17g\n", limit_s, e->value, e->bound, e->cpu_s);
        fclose(f);
    }
}

static enum status random_bench_compare(const char *folder, size_t i,
                                        const struct random_options *o, double *worst)
{
    enum status st;
    char prefix[PATH], path[PATH + 16], name[64];
    struct placement_problem p = {0};
    struct objective_result found = {0};
    struct placement_exact exact = {.value = INFINITY};
    snprintf(prefix, sizeof prefix, "%s/%zu", o->work, i);
    snprintf(path, sizeof path, "%s.json", prefix);
    const struct objective_request r = {
        .spec = path, .memory_bytes = NAN, .seed = 1, .time_limit_s = o->limit_s};
    TRY(random_bench_generate(folder, i, path, name));
    TRY(placement_read(&r, &p));
    if (o->exact_s > 0 && !random_bench_recall(prefix, o->exact_s, &exact)) {
        st = placement_exact_cbc(&p, prefix, o->exact_s, &exact);
        if (st == STATUS_UNSUPPORTED)
            st = placement_exact_glpk(&p, prefix, o->exact_s, &exact);
        TRY(st);
        random_bench_remember(prefix, o->exact_s, &exact);
    }
    if (o->limit_s >= 0) {
        TRY(objective_solve(&objective_placement, "noncontiguous", &r, &found));
        *worst = fmax(*worst, found.value / exact.value);
        printf("%zu\t%s\t%zu\t%zu\t%zu+%zu\t%.10g\t%.10g\t%.10g\t%.6f\t%.2f\t%.2f\t%s\n", i, name,
               p.n, p.colours, p.accelerators, p.cpus, found.value, exact.value,
               fmax(exact.bound, found.lower_bound), found.value / exact.value, found.cpu_s,
               exact.cpu_s,
               found.proved_optimal                     ? "proved"
               : exact.bound < exact.value * (1 - 1e-6) ? ""
                                                        : "exact");
        fflush(stdout);
    }
out:
    objective_result_free(&found);
    placement_free(&p);
    return st;
}

enum status random_compare(const char *folder, const struct random_options *o)
{
    double worst = 0;
    printf(
        "# problem\tof\tnodes\tcolours\tdevices\tours\texact\tbound\tratio\tcpu\texact_cpu\tnote\n"
        "#\t\t\t\t\t\t\t\t\ts\ts\t\n");
    for (size_t i = o->first; i < o->last; i++)
        PASS(random_bench_compare(folder, i, o, &worst));
    printf("# worst ratio %.6f\n", worst);
    return STATUS_OK;
}
