/* What `plan --executable` takes is what the device opens, on every rank. */
#include "study/point.h"

#include <stdio.h>
#include <string.h>

#include "core/base/random.h"
#include "core/lower/lower.h"
#include "exec/device.h"
#include "exec/executor.h"
#include "model/import.h"
#include "model/zoo.h"
#include "study/evaluate.h"
#include "tests/cmocka.h"
#include "tests/point_device.h"
#include "tests/sample.h"

enum { DEVICES = 8, DRAWS = 40 };

static void load(const char *spec, struct model *out)
{
    char path[4096];
    const char *colon = strchr(spec, ':');
    const struct import_options o = {.minibatch_size = 1, .choices = colon};
    snprintf(path, sizeof path, SOURCE_DIR "/tests/models/%.*s", (int)strcspn(spec, ":"), spec);
    enum status st = strstr(spec, ".json") ? model_import(path, &o, out) : zoo_build(spec, out);
    if (st != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
}

static struct partition_request draw(uint64_t *seed)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "pipedream"};
    struct partition_request r = {.model = "m",
                                  .platform = "p",
                                  .optimizer = "adam",
                                  .microbatches = 8,
                                  .microbatch_size = (uint32_t)(1 + random_next(seed) % 2),
                                  .schedule = schedules[random_next(seed) % 4]};
    r.tensor_parallel = 1 + random_next(seed) % 2;
    r.stages = 1 + random_next(seed) % 2;
    r.replicas = 1 + random_next(seed) % 2;
    r.sequence_parallel = r.tensor_parallel > 1 && random_next(seed) % 2 == 0;
    r.context_parallel = random_next(seed) % 3 == 0 ? r.replicas : 1;
    r.expert_parallel = random_next(seed) % 3 == 0 ? r.replicas : 1;
    r.zero = r.replicas > 1 ? random_next(seed) % 4 : 0;
    r.recompute = (enum plan_recompute)(random_next(seed) % RECOMPUTE_KINDS);
    return r;
}

/* The slow truth: run supports the program, and all of its ranks open, memory included. */
static enum status open_all(const struct model *m, const struct program *p)
{
    enum status st = executor_supports(p);
    for (uint32_t r = 0; r < p->ranks && st == STATUS_OK; r++) {
        void *self = NULL;
        st = point_device->open(m, p, r, &(struct device_options){.learning_rate = 1e-3}, &self);
        if (st == STATUS_OK)
            point_device->close(self);
    }
    return st;
}

/* Whether the folded program of the plan runs, as searches have it, is whether the whole one
 * opens. */
static void compare(const struct model *m, const char *spec, const struct partition_request *r,
                    size_t count[2])
{
    struct topology t = sample_clique(DEVICES, 1e-6, 1e9);
    struct plan plan = {0};
    struct program whole = {0}, folded = {0};
    const struct partition_algorithm *balanced;
    char refused[EVALUATION_REFUSED] = "", why[EVALUATION_REFUSED];
    assert_int_equal(partition_find("balanced", &balanced), STATUS_OK);
    if (partition_run(balanced, m, &t, r, &plan) == STATUS_OK &&
        plan_lower(&plan, m, &t, &whole) == STATUS_OK) {
        assert_int_equal(plan_lower_folded(&plan, m, &t, NULL, &folded), STATUS_OK);
        enum status st = open_all(m, &whole);
        snprintf(why, sizeof why, "%s", st == STATUS_OK ? "" : error_message());
        enum status found = point_runs(point_device->name, m, &plan, &folded, refused);
        if (found != st || (*why && strncmp(why, "rank ", 5) != 0 && strcmp(why, refused) != 0))
            fail_msg("%s: '%s', opened: '%s'", spec, refused, why);
        count[st == STATUS_OK]++;
    }
    program_free(&folded);
    program_free(&whole);
    plan_free(&plan);
    topology_free(&t);
}

static void a_plan_runs_where_every_rank_opens(void **state)
{
    static const char *const models[] = {
        "xlnet.json:tokens=16",
        "albert.json:tokens=16",
        "mixtral.json:tokens=16",
        "convbert.json:tokens=16",
        "unet:side=32,width=4,groups=2,classes=256",
        "gpt-tiny:layers=2,hidden=32,tokens=16",
        "gpt-tiny:layers=2,hidden=32,tokens=16,tied=1",
        "gpt-tiny:layers=2,hidden=32,tokens=16,dtype=bf16",
        "gpt-tiny:layers=2,hidden=30,heads=2,tokens=15,dtype=fp16"};
    size_t all[2] = {0};
    uint64_t seed = 20261123;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        struct model m = {0};
        size_t count[2] = {0};
        load(models[k], &m);
        for (size_t i = 0; i < DRAWS; i++) {
            struct partition_request r = draw(&seed);
            compare(&m, models[k], &r, count);
        }
        print_message("%s: %zu plans run, %zu are refused\n", models[k], count[1], count[0]);
        assert_true(count[1] > 0);
        all[0] += count[0];
        all[1] += count[1];
        model_free(&m);
    }
    assert_true(all[0] >= DRAWS && all[1] >= DRAWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_runs_where_every_rank_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
