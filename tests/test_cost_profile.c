/* What measured profiles of models say of costs and programs: updates, forwards made again, times
 * of layers, and times that have the sums of shards inside. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "core/base/random.h"
#include "core/cost/cost.h"
#include "core/lower/lower.h"
#include "exec/executor.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { OPS = 4, SIZES = 3 };

static double *times(double each)
{
    double *t = calloc(OPS, sizeof *t);
    assert_non_null(t);
    for (size_t i = 0; i < OPS; i++)
        t[i] = each * (double)(i + 1);
    return t;
}

static struct lowered set_up(size_t stages, uint32_t replicas, uint32_t microbatches)
{
    struct lowered s = {.model = sample_chain(OPS, 1e-3, 2e-3, 0, 1000),
                        .topology = sample_clique(stages * replicas, 0, 1e9)};
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, "gpipe");
    return s;
}

static void a_measured_update_is_what_the_update_takes(void **state)
{
    struct lowered s = set_up(1, 1, 3);
    double bare = lowered_seconds(&s, NULL);
    s.model.profile[0].update_s = times(1e-3);
    assert_near(lowered_seconds(&s, NULL), bare + 10e-3, 1e-12);
    lowered_free(&s);
}

static void what_is_made_again_takes_its_own_time(void **state)
{
    struct lowered s = set_up(1, 1, 3);
    s.plan.stage[0].recompute = RECOMPUTE_FULL;
    for (size_t i = 0; i < OPS; i++) /* what is kept besides outputs, so that it pays */
        s.model.op[i].stash_bytes = 4000;
    double forward = lowered_seconds(&s, NULL);
    s.model.profile[0].again_s = times(0);
    double free_s = lowered_seconds(&s, NULL);
    assert_true(free_s < forward);
    double again = forward - free_s; /* 3 microbatches, 1 ms each op that is made again */
    double ops = round(again / 3e-3);
    assert_near(again, 3e-3 * ops, 1e-12);
    for (size_t i = 0; i < OPS; i++)
        s.model.profile[0].again_s[i] = 0.4e-3;
    assert_near(lowered_seconds(&s, NULL), free_s + 0.4 * again, 1e-12);
    lowered_free(&s);
}

/* Between sizes and outside of them, beside the definition. */
static void times_are_linear_between_sizes(void **state)
{
    const struct device_type device = {
        .name = (char *)(uintptr_t) "any", .flops = 1, .memory_Bps = 1};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct model m = sample_chain(OPS, 1e-3, 2e-3, 0, 1000);
        const struct model_profile first = m.profile[0];
        struct model_profile *p = realloc(m.profile, SIZES * sizeof *p);
        assert_non_null(p);
        m.profile = p;
        m.profiles = SIZES;
        for (size_t k = 0; k < SIZES; k++) {
            p[k] = (struct model_profile){.samples = (double)(1 << 2 * k),
                                          .tensor_parallel = 1,
                                          .device = k ? sample_text("") : first.device};
            p[k].forward_s = times(random_unit(seed, 3 * k));
            p[k].backward_s = times(random_unit(seed, 3 * k + 1));
            p[k].again_s = k == 1 ? NULL : times(random_unit(seed, 3 * k + 2));
        }
        free(first.forward_s);
        free(first.backward_s);
        double samples = 0.5 + 24 * random_unit(seed, 99);
        struct op_cost c = cost_op(&m, &device, 2, samples, "sgd", NULL);
        size_t low = samples < 4 ? 0 : 1, high = low + 1;
        double gap = p[high].samples - p[low].samples, x = (samples - p[low].samples) / gap;
        double again[SIZES], scale = 0;
        for (size_t k = 0; k < SIZES; k++)
            again[k] = (p[k].again_s ? p[k].again_s : p[k].forward_s)[2];
        if (samples < 1 || samples > 16) {
            low = high = samples < 1 ? 0 : SIZES - 1;
            scale = samples / p[low].samples;
            x = 0;
        }
        double times_low = scale > 0 ? scale : 1 - x, times_high = x;
        assert_near(c.forward_s,
                    times_low * p[low].forward_s[2] + times_high * p[high].forward_s[2], 1e-12);
        assert_near(c.again_s, times_low * again[low] + times_high * again[high], 1e-12);
        assert_true(c.extrapolated == (scale > 0));
        model_free(&m);
    }
}

/* Two shards whose sums were measured with the passes: no op of the program sums, and nothing is
 * added to the times; what runs plans cannot do that. */
static void measured_sums_are_not_counted_again(void **state)
{
    struct lowered s = set_up(1, 2, 2);
    s.plan.stage[0].replicas = 1;
    s.plan.stage[0].tensor_parallel = 2;
    s.model.profile[0].tensor_parallel = 2;
    s.model.op[1].tensor = TENSOR_COLUMN;
    s.model.op[2].tensor = TENSOR_ROW;
    double outside = lowered_seconds(&s, NULL);
    assert_int_equal(executor_supports(&s.program), STATUS_OK);
    s.model.profile[0].sums = true;
    double inside = lowered_seconds(&s, NULL);
    assert_near(inside, 2 * OPS * 3e-3, 1e-12);
    assert_true(outside > inside);
    for (size_t i = 0; i < s.program.op_start[s.program.ranks]; i++)
        assert_false(op_is_collective(&s.program.op[i]));
    assert_int_equal(executor_supports(&s.program), STATUS_UNSUPPORTED);
    lowered_free(&s);
}

/* ---- files */

static enum status read_text(const char *profiles, struct model *out)
{
    static const char path[] = BINARY_DIR "/test_cost_profile.json";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"format\": \"foreline-model\", \"version\": 1, \"name\": \"m\", "
          "\"tokens_per_sample\": 0, \"element_bytes\": 4, \"ops\": [",
          f);
    const char *names[OPS] = {"h0.a", "h0.b", "h1.a", "head"};
    const double flop[OPS] = {30, 10, 0, 0};
    for (size_t i = 0; i < OPS; i++)
        fprintf(f,
                "%s{\"name\": \"%s\", \"kind\": \"x\", \"inputs\": [%s%s%s], \"forward_flop\": %g, "
                "\"backward_flop\": 0, \"forward_bytes\": 0, \"backward_bytes\": 0, "
                "\"parameter_bytes\": 0, \"stash_bytes\": 0, \"output_bytes\": 0}",
                i ? ", " : "", names[i], i ? "\"" : "", i ? names[i - 1] : "", i ? "\"" : "",
                flop[i]);
    fprintf(f, "], \"profiles\": [%s]}", profiles);
    assert_int_equal(fclose(f), 0);
    return model_read(path, out);
}

static void times_of_layers_are_spread_over_their_ops(void **state)
{
    struct model m = {0};
    assert_int_equal(read_text("{\"device\": \"\", \"samples\": 1, \"layers\": true, "
                               "\"forward_s\": [4, 5, 6], \"backward_s\": [8, 9, 10], "
                               "\"update_s\": [1, 1, 1]}",
                               &m),
                     STATUS_OK);
    const double forward[OPS] = {3, 1, 5, 6}, backward[OPS] = {6, 2, 9, 10};
    for (size_t i = 0; i < OPS; i++) {
        assert_near(m.profile[0].forward_s[i], forward[i], 1e-12);
        assert_near(m.profile[0].backward_s[i], backward[i], 1e-12);
    }
    assert_near(m.profile[0].update_s[0] + m.profile[0].update_s[1], 1, 1e-12);
    assert_null(m.profile[0].again_s);
    model_free(&m);
    assert_int_equal(read_text("{\"device\": \"\", \"samples\": 1, \"layers\": true, "
                               "\"forward_s\": [4, 5], \"backward_s\": [8, 9, 10]}",
                               &m),
                     STATUS_PARSE);
    assert_message(error_message(), "times of 2 layers, expected 3 (one per layer)");
}

static void profiles_come_back_as_they_were_written(void **state)
{
    struct model m = {0}, back = {0};
    const char path[] = BINARY_DIR "/cost-profile.json";
    assert_int_equal(read_text("{\"device\": \"g\", \"samples\": 2, \"tensor_parallel\": 2, "
                               "\"tensor_sums\": true, \"forward_s\": [1, 2, 3, 4], "
                               "\"backward_s\": [5, 6, 7, 8], \"again_s\": [0.1, 0.2, 0.3, 0.4], "
                               "\"update_s\": [9, 9, 9, 9]}",
                               &m),
                     STATUS_OK);
    assert_int_equal(model_write(&m, path, &(struct provenance){"foreline", "test", NULL, 0}),
                     STATUS_OK);
    assert_int_equal(model_read(path, &back), STATUS_OK);
    unlink(path);
    const struct model_profile *p = &m.profile[0], *q = &back.profile[0];
    assert_true(p->sums && q->sums);
    assert_memory_equal(p->again_s, q->again_s, OPS * sizeof(double));
    assert_memory_equal(p->update_s, q->update_s, OPS * sizeof(double));
    model_free(&m);
    model_free(&back);
}

static void profiles_of_one_degree_are_of_one_kind(void **state)
{
    struct model m = {0};
    assert_int_equal(read_text("{\"device\": \"\", \"samples\": 1, \"tensor_parallel\": 2, "
                               "\"tensor_sums\": true, \"forward_s\": [1, 2, 3, 4], "
                               "\"backward_s\": [5, 6, 7, 8]}, "
                               "{\"device\": \"\", \"samples\": 2, \"tensor_parallel\": 2, "
                               "\"forward_s\": [1, 2, 3, 4], \"backward_s\": [5, 6, 7, 8]}",
                               &m),
                     STATUS_INVALID);
    assert_message(error_message(), "set tensor_sums");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measured_update_is_what_the_update_takes),
        cmocka_unit_test(what_is_made_again_takes_its_own_time),
        cmocka_unit_test(times_are_linear_between_sizes),
        cmocka_unit_test(measured_sums_are_not_counted_again),
        cmocka_unit_test(times_of_layers_are_spread_over_their_ops),
        cmocka_unit_test(profiles_come_back_as_they_were_written),
        cmocka_unit_test(profiles_of_one_degree_are_of_one_kind),
    };
    return cmocka_run_group_tests_name("cost_profile", tests, NULL, NULL);
}
