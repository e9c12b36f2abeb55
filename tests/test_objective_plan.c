/* Plans from published objectives: every algorithm of the table, and results made by hand. */
#include <math.h>
#include <string.h>

#include "core/lower/lower.h"
#include "papers/command/objective_plan.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

static const char file[] = BINARY_DIR "/test_objective_plan.json";

static void assert_says(enum status st, enum status expected, const char *reason)
{
    assert_int_equal(st, expected);
    if (!message_says(error_message(), reason))
        fail_msg("'%s' lacks '%s'", error_message(), reason);
}

/* ---- every algorithm of every objective */

#define LINE(n, ms)                                                                                \
    "node" #n " -- Linear" #n "(8) -- forward_compute_time=" #ms ", backward_compute_time=" #ms    \
    ", activation_size=1000.0, parameter_size=4000.0\n"
static const char chain_text[] = LINE(1, 0.0) LINE(2, 4.0) LINE(3, 4.0)
    LINE(4, 2.0) "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

/* Forward 1 -> 2 -> 3, backward 13 -> 12 -> 11 of the same colours. */
#define NODE(id, ms, backward, colour)                                                             \
    "{\"id\": " #id ", \"cpuLatency\": 900, \"fpgaLatency\": " #ms                                 \
    ", \"size\": 5, \"isBackwardNode\": " #backward ", \"colorClass\": " #colour "}"
#define EDGE(a, b) "{\"sourceId\": " #a ", \"destId\": " #b ", \"cost\": 0.5}"
static const char colours_text[] =
    "{\"maxSizePerFPGA\": 100, \"maxFPGAs\": 3, \"maxCPUs\": 0, \"nodes\": [" NODE(1, 1, 0,
                                                                                   1) "," //
    NODE(2, 2, 0, 2) "," NODE(3, 4, 0, 3) "," NODE(13, 8, 1, 3) "," NODE(12, 4, 1, 2) "," //
    NODE(11, 2, 1, 1) "], \"edges\": [" EDGE(1, 2) "," EDGE(2, 3) "," EDGE(3, 13) ","     //
    EDGE(13, 12) "," EDGE(12, 11) "]}";

#define CONFIG(name, seconds, forward, backward)                                                   \
    "{\"id\": \"" name "\", \"timePerSample\": " #seconds                                          \
    ", \"parameterSize\": 10, \"memoryUsageA\": 5, \"memoryUsageB\": 5, \"syncTimeFw\": {" forward \
    "}, \"syncTimeBw\": {" backward "}}"
static const char piper_text[] =
    "{\"maxDevices\": 3, \"maxMemoryPerDevice\": 1000, \"bandwidth\": 100, \"mbsInBatch\": 6, "
    "\"nodes\": [{\"id\": 7, \"TMPCs\": {\"1\": [" CONFIG(
        "vanilla", 4, "", "\"9\": 0") "]}}, "
                                      "{\"id\": 9, \"TMPCs\": {\"1\": [" CONFIG(
                                          "activation recomp", 8, "\"7\": 0",
                                          "") "]}}], "
                                              "\"edges\": [{\"sourceId\": 7, \"destId\": 9, "
                                              "\"communicationCost\": 10}]}";

/* A small input of each objective; objectives that are not here are skipped. */
static const struct input {
    const char *objective, *text, *model; /* text NULL: a model of the zoo */
    struct objective_request request;
} inputs[] = {
    {"pipedream", chain_text, file, {.levels = 1, .machines = {4}, .bandwidth_Bps = {1e9}}},
    {"cpsc526", NULL, "two-chains:ops=9", {.devices = 3}},
    {"piper", piper_text, file, {.devices = 3}},
    {"pippy", NULL, "mlp", {.stages = 3}},
    {"pippy", chain_text, file, {.stages = 2}},
    {"placement", colours_text, file, {.devices = 3}},
};

static enum status solve(const struct objective *o, const struct objective_algorithm *algorithm,
                         const struct input *in, struct objective_result *out)
{
    enum status st = STATUS_OK;
    struct model m = {0};
    struct topology t = {0};
    struct objective_request r = in->request;
    r.spec = in->model;
    r.memory_bytes = NAN;
    r.time_limit_s = 2;
    if (!o->own_format) {
        TRY((o->nodes_apart ? load_model_apart : load_model)(in->model, &m));
        r.model = &m;
    }
    if (algorithm->on_devices) {
        t = sample_clique(4, 1e-6, 1e9);
        r.topology = &t;
    }
    TRY(objective_solve(o, algorithm->name, &r, out));
out:
    topology_free(&t);
    model_free(&m);
    return st;
}

/* A plan of the result lowers to a program, or the reason why there is none is said. */
static enum status lower(const struct objective *o, const struct input *in,
                         const struct objective_result *r)
{
    enum status st;
    struct model m = {0};
    struct import_members members = {0};
    struct topology t = sample_clique(4, 1e-6, 1e9);
    struct plan p = {0};
    struct program program = {0};
    size_t rounded;
    TRY(load_model_members(in->model, &m, &members));
    const struct objective_plan_request q = {.objective = o,
                                             .result = r,
                                             .model = &m,
                                             .members = &members,
                                             .topology = &t,
                                             .model_name = in->model,
                                             .platform_name = "clique",
                                             .optimizer = "adam",
                                             .seed = 1};
    TRY(objective_plan(&q, &p, &rounded));
    TRY(plan_lower(&p, &m, &t, &program));
out:
    program_free(&program);
    plan_free(&p);
    topology_free(&t);
    import_members_free(&members);
    model_free(&m);
    return st;
}

static void plans_of_all_algorithms_run_or_say_why_not(void **state)
{
    size_t plans = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const struct objective *o;
        if (inputs[i].text)
            put_text(file, inputs[i].text);
        assert_int_equal(objective_find(inputs[i].objective, &o), STATUS_OK);
        const struct objective_algorithm *a;
        for (size_t k = 0; (a = objective_algorithm(o, k)); k++) {
            struct objective_result r = {0};
            enum status st = solve(o, a, &inputs[i], &r);
            if (st == STATUS_UNSUPPORTED) /* METIS is not in this build */
                continue;
            if (st != STATUS_OK)
                fail_msg("%s %s: %s", o->name, a->name, error_message());
            st = lower(o, &inputs[i], &r);
            if (st != STATUS_OK && st != STATUS_INFEASIBLE)
                fail_msg("%s %s: %s", o->name, a->name, error_message());
            plans += st == STATUS_OK;
            objective_result_free(&r);
        }
    }
    assert_true(plans >= sizeof inputs / sizeof *inputs);
}

/* ---- results by hand */

static const struct objective seconds = {.name = "seconds", .unit_s = 1};

struct hand {
    struct model m;
    struct topology t;
    struct import_members members;
    struct objective_result r;
};

/* Op i of a chain is in part digits[i] - '0'; other characters: in none. */
static struct hand hand(const char *digits, size_t n)
{
    struct hand h = {.m = sample_chain(strlen(digits), 1, 2, 100, 100),
                     .t = sample_clique(n, 1e-6, 1e9),
                     .r = {.algorithm = "hand", .value = 2}};
    const struct objective_ops ops = {h.m.n, .model = &h.m};
    uint32_t part_of[16], parts = 0;
    for (size_t i = 0; digits[i]; i++) {
        part_of[i] = (uint32_t)digits[i] - '0';
        parts = digits[i] >= '0' && part_of[i] >= parts ? part_of[i] + 1 : parts;
    }
    for (uint32_t part = 0; part < parts; part++)
        assert_int_equal(objective_add_part(&h.r, &ops, part_of, part, NULL), STATUS_OK);
    return h;
}

static void hand_free(struct hand *h)
{
    objective_result_free(&h->r);
    topology_free(&h->t);
    model_free(&h->m);
}

static enum status plan_of(const struct hand *h, struct plan *p, size_t *rounded)
{
    const struct objective_plan_request q = {.objective = &seconds,
                                             .result = &h->r,
                                             .model = &h->m,
                                             .members = &h->members,
                                             .topology = &h->t,
                                             .model_name = "chain",
                                             .platform_name = "clique",
                                             .optimizer = "sgd",
                                             .seed = 7};
    return objective_plan(&q, p, rounded);
}

static void assert_refused(struct hand *h, const char *reason)
{
    struct plan p = {0};
    size_t rounded;
    assert_says(plan_of(h, &p, &rounded), STATUS_INFEASIBLE, reason);
    hand_free(h);
}

/* Op 0 is in no part: it joins its reader. Parts stand against the order of the chain. */
static void parts_become_stages_in_the_order_of_the_tensors(void **state)
{
    struct hand h = hand("-1100", 4);
    struct plan p;
    size_t rounded;
    h.r.part[0].replicas = 2;
    h.r.part[0].recompute = true;
    assert_int_equal(plan_of(&h, &p, &rounded), STATUS_OK);
    assert_int_equal(p.stages, 2);
    assert_int_equal(p.stage[0].ops, 3);
    assert_int_equal(p.stage[0].devices, 1);
    assert_int_equal(p.stage[1].devices, 2);
    assert_int_equal(p.stage[1].device[1], 2);
    assert_int_equal(p.stage[1].recompute, RECOMPUTE_FULL);
    assert_int_equal(rounded, 1);
    assert_int_equal(p.microbatches, 8);
    assert_string_equal(p.algorithm, "seconds/hand");
    assert_string_equal(p.schedule, "1f1b");
    assert_true(p.objective_s == 2);
    plan_free(&p);
    hand_free(&h);
}

static void parts_that_take_turns_become_virtual_stages(void **state)
{
    struct hand h = hand("001101", 2);
    struct plan p;
    size_t rounded;
    assert_int_equal(plan_of(&h, &p, &rounded), STATUS_OK);
    assert_int_equal(p.stages, 4);
    assert_int_equal(p.stage[2].op[0], 4);
    assert_int_equal(p.stage[2].device[0], p.stage[0].device[0]);
    assert_string_equal(p.schedule, "interleaved");
    plan_free(&p);
    hand_free(&h);
}

static void says_what_a_plan_cannot_say(void **state)
{
    struct hand h = hand("0100", 2);
    assert_refused(&h, "parts 0 and 1 read each other's outputs");
    h = hand("0011", 1);
    assert_refused(&h, "the parts 2 devices, clique has 1");
    h = hand("0011", 2);
    char cpu[] = "cpu1";
    h.r.part[1].device = cpu;
    assert_refused(&h, "part 1 is on a CPU");
    h = hand("01", 2);
    struct import_member node[] = {{"7", "node7", h.m.op[0].name}, {"8", "node8", h.m.op[0].name}};
    char seven[] = "op0", *id = seven;
    h.members = (struct import_members){.n = 2, .member = node};
    h.r.part[1].op = &id;
    assert_refused(&h, "parts 0 and 1 have nodes of op 'op0'");
    h = hand("00", 2);
    char eight[] = "node8", *unknown[] = {eight, eight};
    h.r.part[0].op = unknown;
    struct plan p;
    size_t rounded;
    assert_says(plan_of(&h, &p, &rounded), STATUS_INVALID, "chain has no op 'node8'");
    hand_free(&h);
}

static enum status plan_once(const struct hand *h)
{
    struct plan p = {0};
    size_t rounded;
    enum status st = plan_of(h, &p, &rounded);
    plan_free(&p);
    return st;
}

static void survives_failing_allocations(void **state)
{
    struct hand h = hand("001101", 2);
    FOR_EACH_ALLOC_FAILURE(plan_once(&h));
    hand_free(&h);
}

static void a_gap_is_no_rounding(void **state)
{
    static const struct {
        double value, bound, gap;
    } all[] = {{1, 1, 0}, {1, 1 + 6.66e-16, 0}, {1, 1 - 6.66e-16, 0}, {4, 3, 25}, {0, 0, 0},
               {3, 4, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct objective_result r = {.value = all[i].value, .lower_bound = all[i].bound};
        assert_true(objective_gap(&r) == all[i].gap);
        assert_false(signbit(objective_gap(&r)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_all_algorithms_run_or_say_why_not),
        cmocka_unit_test(a_gap_is_no_rounding),
        cmocka_unit_test(parts_become_stages_in_the_order_of_the_tensors),
        cmocka_unit_test(parts_that_take_turns_become_virtual_stages),
        cmocka_unit_test(says_what_a_plan_cannot_say),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("objective_plan", tests, NULL, NULL);
}
