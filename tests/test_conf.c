/* Files of PipeDream's runtime: plans that are written and read again are equal, over seeded random
 * plans; what is wrong is named with its line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "study/frameworks/setup.h"
#include "study/load.h"
#include "study/settings.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"

enum { PLANS = 300, DEVICES = 32 };

static const struct arguments none = {.optimizer = "adam"};

/* A plan from a text, whose modules are what a->split_at says. */
static enum status import(const char *text, const struct arguments *a, const struct model *m,
                          const struct topology *t, struct plan *out)
{
    enum status st;
    struct keys k = {0};
    struct setup s = {.keys = &k};
    const struct dialect *f;
    TRY(keys_parse("conf.json", text, strlen(text), &k));
    TRY(dialect_recognise(&k, &f));
    TRY(f->after(&s));
    if (m)
        TRY(f->to_plan(&s, a, m, t, out));
out:
    keys_free(&k);
    return st;
}

static struct model model_of(const char *name)
{
    struct model m;
    assert_int_equal(load_model(name, &m), STATUS_OK);
    return m;
}

static struct topology many_devices(void)
{
    struct topology t;
    char *path = NULL;
    assert_int_equal(load_topology("rail:nodes=4,gpus=8,type=H100", &t, &path), STATUS_OK);
    free(path);
    return t;
}

/* Stages of op after op on random devices, with depths or without. */
static struct plan random_conf(uint64_t *state, const struct model *m)
{
    struct plan p = {.objective_s = NAN, .microbatches = 1, .microbatch_size = 2};
    uint32_t device[DEVICES], left = DEVICES, op = 0;
    bool depths = random_below(state, 2);
    for (uint32_t i = 0; i < DEVICES; i++)
        device[i] = i;
    size_t stages = 1 + random_below(state, 5);
    assert_int_equal(ARRAY_NEW(p.stage, stages), STATUS_OK);
    for (; p.stages < stages; p.stages++) {
        struct plan_stage *s = &p.stage[p.stages];
        *s = (struct plan_stage){.replicas = 1 + random_below(state, 4),
                                 .tensor_parallel = 1,
                                 .expert_parallel = 1,
                                 .context_parallel = 1,
                                 .recompute_unit = 1,
                                 .depth = depths ? 1 + random_below(state, 3) : 0};
        size_t ops = p.stages + 1 == stages
                         ? m->n - op
                         : 1 + random_below(state, (uint32_t)(m->n - op - (stages - p.stages)));
        assert_int_equal(ARRAY_NEW(s->op, ops), STATUS_OK);
        assert_int_equal(ARRAY_NEW(s->device, s->replicas), STATUS_OK);
        while (s->ops < ops)
            s->op[s->ops++] = op++;
        for (; s->devices < s->replicas; s->devices++) {
            uint32_t k = random_below(state, left--);
            s->device[s->devices] = device[k];
            device[k] = device[left];
        }
        p.microbatches *= s->replicas; /* as many for each of a stage */
    }
    assert_int_equal(text_copy("pipedream", &p.schedule), STATUS_OK);
    assert_int_equal(text_copy("adam", &p.optimizer), STATUS_OK);
    return p;
}

/* --split-at where the plan's stages begin, and the criterion that is no stage by itself. */
static void split_of(const struct plan *p, const struct model *m, char *text, size_t size)
{
    size_t n = 0;
    *text = '\0';
    for (size_t s = 1; s < p->stages; s++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", n ? "," : "",
                              m->op[p->stage[s].op[0]].name);
    if (p->stage[p->stages - 1].ops > 1)
        snprintf(text + n, size - n, "%s%s", n ? "," : "", m->op[m->n - 1].name);
}

/* Ranks are the devices' order, so that devices keep their order only. */
static uint32_t rank_of(const struct plan *p, uint32_t device)
{
    uint32_t rank = 0;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].devices; k++)
            rank += p->stage[s].device[k] < device;
    return rank;
}

static void assert_same(const struct plan *a, const struct plan *b)
{
    assert_int_equal(a->stages, b->stages);
    for (size_t s = 0; s < a->stages; s++) {
        const struct plan_stage *x = &a->stage[s], *y = &b->stage[s];
        assert_int_equal(x->depth, y->depth);
        assert_int_equal(x->ops, y->ops);
        assert_memory_equal(x->op, y->op, x->ops * sizeof *x->op);
        assert_int_equal(x->devices, y->devices);
        for (size_t k = 0; k < x->devices; k++)
            assert_int_equal(rank_of(a, x->device[k]), y->device[k]);
    }
}

static void plans_and_back_are_equal(void **state)
{
    uint64_t seed = 17;
    struct model m = model_of("gpt-tiny:layers=2,hidden=32,tokens=16");
    struct topology t = many_devices();
    for (size_t i = 0; i < PLANS; i++) {
        struct plan p = random_conf(&seed, &m), back = {0};
        struct file_text text = {0};
        char split[512];
        split_of(&p, &m, split, sizeof split);
        struct arguments a = {.optimizer = "adam", .split_at = *split ? split : NULL};
        a.microbatches = p.microbatches;
        assert_int_equal(file_text_open(&text), STATUS_OK);
        assert_int_equal(dialect_pipedream.of_plan(&p, &m, text.stream), STATUS_OK);
        assert_int_equal(file_text_close(&text, STATUS_OK), STATUS_OK);
        if (import(text.text, &a, &m, &t, &back) != STATUS_OK)
            fail_msg("%zu: %s (split at %s)\n%s", i, error_message(), split, text.text);
        assert_same(&p, &back);
        free(text.text);
        plan_free(&back);
        plan_free(&p);
    }
    topology_free(&t);
    model_free(&m);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *message;
    } all[] = {
        {"{\"module_to_stage_map\": [0, 1],\n \"stage_to_rank_map\": {\"0\": [0], 1: [1]}}",
         "conf.json:2:"},
        {"{\"module_to_stage_map\": []}", "no modules"},
        {"{\"module_to_stage_map\": [0, 2, 2]}", "stage 1 has no module"},
        {"{\"module_to_stage_map\": [0, -1]}", "conf.json:1:"},
        {"{\"module_to_stage_map\": [0]}", "stage_to_rank_map"},
        {"{\"module_to_stage_map\": [0], \"stage_to_rank_map\": [0]}", "expected stages"},
        {"{\"module_to_stage_map\": [0], \"stage_to_rank_map\": {\"1\": [0]}}", "stages 0 to 0"},
        {"{\"module_to_stage_map\": [0], \"stage_to_rank_map\": {\"0\": []}}", "has no ranks"},
        {"{\"module_to_stage_map\": [0], \"stage_to_rank_map\": {\"0\": [1, 1]}}", "rank 1 twice"},
        {"{\"module_to_stage_map\": [0, 1], \"stage_to_rank_map\": {\"0\": [1]}}",
         "stage 1 has no ranks"},
        {"{\"module_to_stage_map\": [0], \"stage_to_rank_map\": {\"0\": [1], \"00\": [2]}}",
         "stage 0 twice"},
        {"{\"module_to_stage_map\": [0], \"stage_to_rank_map\": {\"0\": [1]},\n"
         "\"stage_to_depth_map\": {\"0\": -1}}",
         "conf.json:2:"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(import(all[i].text, &none, NULL, NULL, NULL), STATUS_PARSE);
        if (!message_says(error_message(), all[i].message))
            fail_msg("%zu: '%s' lacks '%s'", i, error_message(), all[i].message);
    }
}

static const char hybrid[] = "{\"module_to_stage_map\": [0, 1, 1], \"stage_to_rank_map\": "
                             "{\"0\": [0, 1, 2], \"1\": [3]}, \"stage_to_depth_map\": "
                             "{\"0\": 1, \"1\": 0}}";

static void modules_must_be_those_of_the_model(void **state)
{
    struct model m = model_of("gpt-tiny:layers=1,hidden=32,tokens=16");
    struct topology t = many_devices();
    struct arguments a = {.optimizer = "adam", .split_at = "h0.ln2"};
    struct plan p = {0};
    assert_int_equal(import(hybrid, &none, &m, &t, &p), STATUS_INVALID);
    assert_message(error_message(), "--split-at");
    assert_int_equal(import(hybrid, &a, &m, &t, &p), STATUS_OK);
    assert_int_equal(p.microbatches, 9); /* three for each of three replicas */
    assert_int_equal(p.stage[0].depth, 2);
    plan_free(&p);
    a.split_at = "loss"; /* which is the criterion, so that nothing is left for the second module */
    assert_int_equal(import("{\"module_to_stage_map\": [0, 1, 2], \"stage_to_rank_map\": "
                            "{\"0\": [0], \"1\": [3], \"2\": [2]}}",
                            &a, &m, &t, &p),
                     STATUS_INVALID);
    assert_message(error_message(), "no op");
    topology_free(&t);
    model_free(&m);
}

static enum status attempt(const struct model *m, const struct topology *t)
{
    const struct arguments a = {.optimizer = "adam", .split_at = "h0.ln2"};
    struct plan p = {0};
    enum status st = import(hybrid, &a, m, t, &p);
    plan_free(&p);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    struct model m = model_of("gpt-tiny:layers=1,hidden=32,tokens=16");
    struct topology t = many_devices();
    FOR_EACH_ALLOC_FAILURE(attempt(&m, &t));
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_and_back_are_equal),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(modules_must_be_those_of_the_model),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
