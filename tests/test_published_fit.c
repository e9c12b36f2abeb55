/* Constants fitted to published runs: those that made the runs are found again, what is left out is
 * left out to the bit, and the shipped ones are what the table, the catalogue and the predictions
 * say. */
#include "lab/scoreboard/published_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/cost/kernel.h"
#include "core/data/topology.h"
#include "core/strategy/constants.h"
#include "core/strategy/framework.h"
#include "lab/scoreboard/published_layers.h"
#include "tests/cmocka.h"
#include "topologies/catalogue.h"

/* ---- runs of our own */

enum { ROWS_EACH = 14 };

static void demand(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}

/* A set of random runs of one source, on GPUs of one kind, of which 1 s was measured. */
static void add_set(struct published *p, const char *set, const char *source, const char *gpu,
                    const char *dtype, uint64_t *state)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    fprintf(f, "{\"source\": {\"repo\": \"%s\"}, \"rows\": [", source);
    for (int i = 0; i < ROWS_EACH; i++) {
        int width = 1024 << below(state, 3), tp = 1 << below(state, 3),
            micro = 1 << below(state, 3);
        fprintf(f,
                "%s{\"id\": \"%s/%d\", \"model\": {\"name\": \"m\", \"layers\": %u, \"hidden\": %d,"
                " \"heads\": %d, \"ffn\": %d, \"vocab\": 32000, \"seq\": %d, \"gated_mlp\": %s},"
                " \"gpu\": \"%s\", \"gpus\": %d, \"gpus_per_node\": 8, \"dtype\": \"%s\","
                " \"tp\": %d, \"pp\": 1, \"micro_batch\": %d, \"global_batch\": %d,"
                " \"zero\": \"%s\", \"recompute\": null, \"metrics\": {\"step_time_s\": 1},"
                " \"flags\": []}",
                i ? ", " : "", set, i, 4 + 4 * below(state, 2), width, width / 128, 4 * width,
                512 << below(state, 4), below(state, 2) ? "true" : "false", gpu,
                4 << below(state, 2), dtype, tp, micro, 16 * micro,
                below(state, 2) && tp == 1 ? "zero3" : "none");
    }
    fputs("]}", f);
    fclose(f);
    char path[64];
    snprintf(path, sizeof path, "%s.json", set);
    demand(published_parse(path, text, length, p));
    free(text);
}

static struct published sample(uint64_t seed)
{
    struct published p = {0};
    add_set(&p, "first", "NVIDIA/Megatron-LM", "H100-SXM-80GB", "bf16", &seed);
    add_set(&p, "second", "mosaicml/llm-foundry", "A100-SXM-80GB", "bf16", &seed);
    add_set(&p, "third", "NVIDIA/NeMo", "B200", "fp8", &seed);
    add_set(&p, "fourth", "deepspeed", "A100-SXM-80GB", "fp16", &seed);
    return p;
}

static void seconds_of(const struct published *p, const struct constants *c, double *seconds)
{
    const struct published_variation v = {.groups = 1, .each = 1, .constants = c};
    demand(published_vary(p, &v, seconds));
}

/* Measured is what these constants say, times 1 +- noise. */
static void measure(struct published *p, const struct constants *c, double noise, uint64_t *state)
{
    double *seconds = calloc(p->rows, sizeof *seconds);
    assert_non_null(seconds);
    seconds_of(p, c, seconds);
    for (size_t i = 0; i < p->rows; i++) {
        assert_true(seconds[i] > 0);
        double part = 2 * random_unit(*state, i) - 1;
        p->row[i].measured.step_s = seconds[i] * exp(noise * part);
    }
    *state = random_mix(*state);
    free(seconds);
}

/* ---- the shipped constants */

static void the_table_is_what_the_command_writes(void **state)
{
    const char *fitted[CONSTANTS];
    const struct constants shipped = constants_shipped();
    char *text = NULL, *file = NULL;
    size_t length = 0, n = 0;
    for (size_t k = 0; k < CONSTANTS; k++) {
        const struct constant_row *r = &constant_rows[k];
        fitted[k] = r->fitted;
        assert_true(r->least < r->prior && r->prior <= r->most && r->width > 0);
        assert_true(r->least <= r->shipped && r->shipped <= r->most);
    }
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    constants_write(&shipped, fitted, f);
    fclose(f);
    demand(file_read(SOURCE_DIR "/core/strategy/constants.def", &file, &n));
    assert_string_equal(text, file);
    free(text);
    free(file);
}

/* Frameworks and devices as they are are those of the shipped constants, and change with them. */
static void what_ships_has_the_shipped_constants(void **state)
{
    const struct constants shipped = constants_shipped(), prior = constants_prior();
    bool all;
    for (size_t i = 0; framework_name(i); i++) {
        struct framework now, with, other;
        demand(framework_parse(framework_name(i), &now));
        demand(framework_parse_with(&shipped, framework_name(i), &with));
        demand(framework_parse_with(&prior, framework_name(i), &other));
        assert_memory_equal(&now, &with, sizeof now);
        if (!now.by_kernel ||
            !strcmp(framework_name(i), "worker")) /* which is counted, not fitted */
            continue;
        assert_true(other.narrow == prior.value[CONSTANT_narrow]);
        assert_true(other.kernel_s == prior.value[CONSTANT_kernel_s]);
    }
    for (size_t i = 0; i < gpus_n; i++) {
        struct device_type t = {.flops = gpus[i].flops, .memory_Bps = gpus[i].memory_Bps};
        memcpy(t.peak, gpus[i].peak, sizeof t.peak);
        t.kernels = kernels_derive(&t);
        if (gpus[i].kernels)
            demand(kernels_read(gpus[i].kernels, &t.kernels));
        const struct device_kernels same = kernels_vary(&t, DATA_fp8, &shipped);
        for (size_t k = 0; k < FLASH_KINDS; k++)
            assert_true(same.flash[k] == t.kernels.flash[k]);
        for (size_t k = 0; k < DATA_TYPES; k++)
            assert_true(t.kernels.product[k] <= 0 || same.product[k] == t.kernels.product[k]);
        assert_true(gpu_varied(gpus[i].type, &shipped, &all) == 1);
    }
}

static const struct gpu *gpu_of(const char *name)
{
    const struct gpu *gpu = gpu_named(name);
    assert_non_null(gpu);
    return gpu;
}

/* Figures of the catalogue that are constants, as they are typed there: to 1 %. */
static void the_catalogue_has_the_shipped_constants(void **state)
{
    const struct constants c = constants_shipped();
    double slower = gpu_of("H100-HBM2E")->flops / gpu_of("H100")->flops;
    double faster = gpu_of("GB300")->flops / gpu_of("GB200")->flops;
    assert_true(fabs(slower / pow(500.0 / 700, c.value[CONSTANT_power]) - 1) < 0.01);
    assert_true(fabs(faster / c.value[CONSTANT_gb300] - 1) < 0.01);
}

/* ---- other constants */

/* What is not computed again, as a constant does not reach a row, is what computing it says. */
static void constants_that_do_not_reach_a_row_change_nothing(void **state)
{
    struct published p = sample(1);
    enum { EACH = 1 + CONSTANTS };
    struct constants c[EACH];
    double *together = calloc(p.rows * EACH, sizeof *together);
    double *alone = calloc(p.rows * EACH, sizeof *alone);
    struct published_prediction *q = calloc(p.rows, sizeof *q);
    size_t same = 0;
    assert_true(together && alone && q);
    for (size_t k = 0; k < EACH; k++) {
        c[k] = constants_shipped();
        if (k > 0)
            c[k].value[k - 1] *= 1.3;
    }
    const struct published_variation v = {.groups = 1, .each = EACH, .constants = c};
    const struct published_variation w = {.groups = EACH, .each = 1, .constants = c};
    demand(published_vary(&p, &v, together));
    demand(published_vary(&p, &w, alone));
    demand(published_predict(&p, NULL, q));
    for (size_t i = 0; i < p.rows; i++) {
        assert_true(together[i * EACH] == q[i].step_s);
        for (size_t k = 0; k < EACH; k++) {
            assert_true(together[i * EACH + k] == alone[i * EACH + k]);
            same += k > 0 && together[i * EACH + k] == together[i * EACH];
        }
    }
    assert_true(same > p.rows && same < p.rows * CONSTANTS);
    free(together);
    free(alone);
    free(q);
    published_free(&p);
}

/* ---- fits */

static double mean_error(const struct published *p, const double *seconds)
{
    double sum = 0;
    for (size_t i = 0; i < p->rows; i++)
        sum += fabs(seconds[i] / p->row[i].measured.step_s - 1) / (double)p->rows;
    return sum;
}

/* Runs by constants that are off by 1.5 standard deviations of what is known a priori: what many
 * rows know is found again, and the errors with it. */
static void constants_that_made_the_runs_are_found_again(void **state)
{
    static const enum constant varied[] = {CONSTANT_kernel_s, CONSTANT_backward, CONSTANT_share_16,
                                           CONSTANT_flash_first, CONSTANT_interference};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t stream = random_mix(seed);
        struct published p = sample(seed);
        struct published_fits f = {0};
        struct constants truth = constants_prior();
        for (size_t k = 0; k < sizeof varied / sizeof *varied; k++) {
            const struct constant_row *r = &constant_rows[varied[k]];
            double off = random_unit(stream, 100 + k) < 0.5 ? -1.5 * r->width : 1.5 * r->width;
            truth.value[varied[k]] = fmin(fmax(r->prior * exp(off), r->least), r->most);
        }
        measure(&p, &truth, 0, &stream);
        double *own = calloc(2 * p.rows, sizeof *own);
        assert_non_null(own);
        demand(published_fit(&p, NULL, &f));
        const struct constants two[] = {constants_prior(), f.fit[0].constants};
        seconds_of(&p, &two[0], own);
        seconds_of(&p, &two[1], own + p.rows);
        double before = mean_error(&p, own), after = mean_error(&p, own + p.rows);
        free(own);
        assert_true(after < 0.03 && after < 0.5 * before);
        for (size_t k = 0; k < CONSTANTS; k++) {
            double off = fabs(log(f.fit[0].constants.value[k] / truth.value[k]));
            if (f.fit[0].known[k] < 1e-9) /* of which no row says anything */
                assert_true(off < 1e-6);
            if (f.fit[0].known[k] > 30)
                assert_true(off < 0.5 * constant_rows[k].width);
        }
        published_fits_free(&f);
        published_free(&p);
    }
}

/* Times of a set, and of a generation, are changed as much as one likes: what is predicted for them
 * by fits that do not know them is the same to the bit, and others' predictions are not. */
static void what_is_left_out_is_left_out(void **state)
{
    uint64_t stream = 5;
    struct published p = sample(7);
    struct published_fits f = {0}, g = {0};
    const struct constants truth = constants_prior();
    size_t changed = 0;
    measure(&p, &truth, 0.1, &stream);
    struct published_prediction *shipped = calloc(p.rows, sizeof *shipped);
    assert_non_null(shipped);
    demand(published_predict(&p, NULL, shipped));
    demand(published_fit(&p, shipped, &f));
    for (size_t i = 0; i < p.rows; i++)
        if (!strcmp(p.row[i].set, "third")) /* all that there is of Blackwell */
            p.row[i].measured.step_s *= 1.5 + random_unit(3, i);
    demand(published_fit(&p, shipped, &g));
    free(shipped);
    assert_int_equal(f.fits, 1 + 4 + 3);
    for (size_t i = 0; i < p.rows; i++) {
        bool third = !strcmp(p.row[i].set, "third");
        assert_true(f.prior_s[i] == g.prior_s[i] && f.shipped_s[i] == g.shipped_s[i]);
        assert_true(f.set_s[i] > 0 && f.generation_s[i] > 0);
        if (third)
            assert_true(f.set_s[i] == g.set_s[i] && f.generation_s[i] == g.generation_s[i]);
        changed += !third && f.set_s[i] != g.set_s[i];
    }
    assert_true(changed > 0);
    assert_memory_not_equal(&f.fit[0].constants, &g.fit[0].constants, sizeof(struct constants));
    published_fits_free(&f);
    published_fits_free(&g);
    published_free(&p);
}

/* Runs whose layers and heads take up to 1.6 times as long as expected, or as short, by width,
 * shards and microbatch: a part of them says so for the others. What was measured of these does not
 * count. */
static void a_few_runs_say_what_the_layers_of_others_take(void **state)
{
    for (uint64_t seed = 1; seed <= (test_everything() ? 2 : 1); seed++) {
        struct published p = {0};
        uint64_t stream = seed;
        for (int k = 0; k < 8; k++) /* one set of them all */
            add_set(&p, "set", "NVIDIA/Megatron-LM", "H100-SXM-80GB", "bf16", &stream);
        size_t bytes = p.rows * sizeof(struct published_prediction), known = 0;
        double before = 0, after = 0;
        struct published_prediction *q = calloc(1, bytes), *r = calloc(1, bytes);
        struct published_pace *pace = calloc(p.rows, sizeof *pace);
        double *seconds = calloc(p.rows, sizeof *seconds);
        const struct constants shipped = constants_shipped();
        assert_true(q && r && pace && seconds);
        for (size_t i = 0; i < p.rows; i++) {
            const struct published_config *c = &p.row[i].config;
            uint64_t ends = (uint64_t)(c->hidden * 64 + c->tp * 8 + c->seq * 512 + c->gated);
            pace[i].times[PACE_LAYERS] =
                exp(random_unit(ends * 8 + (uint64_t)c->micro_batch, 1) - 0.5);
            pace[i].times[PACE_HEAD] = exp(random_unit(ends, 2) - 0.5);
            pace[i].times[PACE_STEP] = 1.5;
        }
        const struct published_variation v = {
            .groups = 1, .each = 1, .constants = &shipped, .pace = pace};
        demand(published_vary(&p, &v, seconds));
        for (size_t i = 0; i < p.rows; i++)
            p.row[i].measured.step_s = seconds[i];
        demand(published_predict(&p, NULL, q));
        memcpy(r, q, bytes);
        demand(published_fit_layers(&p, 80, seed, q));
        for (size_t i = 0; i < p.rows; i++)
            if (!p.row[i].left_out) {
                known++;
                before += fabs(r[i].step_s / seconds[i] - 1);
                after += fabs(q[i].step_s / seconds[i] - 1);
                p.row[i].measured.step_s *= 3;
            }
        for (size_t i = 0; i < p.rows; i++)
            if (p.row[i].left_out)
                p.row[i].left_out = NULL;
        demand(published_fit_layers(&p, 80, seed, r));
        assert_true(known > 5 && after < 0.02 * (double)known && after < 0.2 * before);
        for (size_t i = 0; i < p.rows; i++)
            assert_true(q[i].step_s == r[i].step_s);
        free(q);
        free(r);
        free(pace);
        free(seconds);
        published_free(&p);
    }
}

static void rows_without_times_cannot_be_fitted(void **state)
{
    struct published p = sample(2);
    struct published_fits f = {0};
    for (size_t i = 0; i < p.rows; i++)
        p.row[i].measured.step_s = 0;
    assert_int_equal(published_fit(&p, NULL, &f), STATUS_INFEASIBLE);
    published_free(&p);
}

static void gpus_are_of_generations(void **state)
{
    static const char *const names[][2] = {{"A100-SXM-80GB", "Ampere and Ada"},
                                           {"H100-SXM-80GB", "Hopper"},
                                           {"GH200", "Hopper"},
                                           {"GB200", "Blackwell"},
                                           {"B300", "Blackwell"},
                                           {"AMD_Instinct_MI210", "AMD"},
                                           {"Tesla_V100-PCIE-32GB", "Volta and older"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct published_config c = {.gpu = names[i][0]};
        assert_string_equal(published_generation(&c), names[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_what_the_command_writes),
        cmocka_unit_test(what_ships_has_the_shipped_constants),
        cmocka_unit_test(the_catalogue_has_the_shipped_constants),
        cmocka_unit_test(constants_that_do_not_reach_a_row_change_nothing),
        cmocka_unit_test(constants_that_made_the_runs_are_found_again),
        cmocka_unit_test(what_is_left_out_is_left_out),
        cmocka_unit_test(a_few_runs_say_what_the_layers_of_others_take),
        cmocka_unit_test(rows_without_times_cannot_be_fitted),
        cmocka_unit_test(gpus_are_of_generations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
