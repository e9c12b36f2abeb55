/* Calibration: what it measures is what the zoo's models are made of, and the result is usable. */
#include "exec/calibrate/calibrate.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/collective/collective.h"
#include "core/cost/cost.h"
#include "exec/calibrate/probe.h"
#include "exec/device.h"
#include "exec/team.h"
#include "model/layers.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

/* Kinds of today's models: half as many heads of keys and values as of queries, two experts a
 * token. */
static void build_today(const struct probe *p, struct graph *g)
{
    const char *kind = p->kind;
    const struct attention_shape heads = {.tokens = p->tokens,
                                          .heads = p->heads,
                                          .kv_heads = p->heads / 2,
                                          .head = p->channels / (p->heads ? p->heads : 1),
                                          .value = p->channels / (p->heads ? p->heads : 1),
                                          .causal = true,
                                          .flash = true};
    const struct experts_shape experts = {.tokens = p->tokens,
                                          .channels = p->channels,
                                          .inner = p->out,
                                          .experts = p->heads,
                                          .top_k = 2,
                                          .group = 1,
                                          .gated = true,
                                          .unbiased = true};
    if (!strcmp(kind, "rmsnorm"))
        layer_rmsnorm(g, "op", 0,
                      &(struct rms_shape){
                          .tokens = p->tokens, .width = p->channels, .channels = p->channels});
    else if (!strcmp(kind, "rope"))
        layer_rope(g, "op", 0, &heads);
    else if (!strcmp(kind, "flash"))
        layer_attention(g, "op", 0, MODEL_NO_OP, &heads);
    else if (!strcmp(kind, "gated"))
        layer_gated(g, "op", 0, p->tokens, p->channels, false, TENSOR_WHOLE);
    else if (!strcmp(kind, "gate"))
        layer_gate(g, "op", 0, &experts);
    else if (!strcmp(kind, "experts"))
        layer_experts(g, "op", 0, 0, &experts);
    else
        fail_msg("kind '%s' is not in this test", kind);
}

/* The same layer built by the zoo's own functions. */
static void build(const struct probe *p, struct graph *g)
{
    uint32_t in = 0;
    const char *kind = p->kind;
    if (!strcmp(kind, "embedding"))
        layer_embedding(g, "op",
                        &(struct embedding_shape){.tokens = p->tokens,
                                                  .channels = p->channels,
                                                  .vocabulary = 256,
                                                  .positions = p->tokens});
    else if (!strcmp(kind, "layernorm"))
        layer_norm(g, "op", in, p->tokens, p->channels);
    else if (!strcmp(kind, "linear"))
        layer_linear(g, "op", in,
                     &(struct linear_shape){p->tokens, p->channels, p->out, true, MODEL_NO_OP,
                                            TENSOR_WHOLE});
    else if (!strcmp(kind, "attention"))
        layer_attention(g, "op", in, MODEL_NO_OP,
                        &(struct attention_shape){.tokens = p->tokens,
                                                  .heads = p->heads,
                                                  .kv_heads = p->heads,
                                                  .head = p->channels / p->heads,
                                                  .value = p->channels / p->heads,
                                                  .causal = true});
    else if (!strcmp(kind, "gelu"))
        layer_gelu(g, "op", in, p->tokens, p->channels, TENSOR_WHOLE);
    else if (!strcmp(kind, "residual"))
        layer_residual(g, "op", in, in, p->tokens, p->channels);
    else if (!strcmp(kind, "loss"))
        layer_loss(g, "op", in, p->tokens, p->channels, false);
    else
        build_today(p, g);
}

static void counts_work_like_the_models(void **state)
{
    for (size_t k = 0; k < bench_task.probes; k++) {
        struct graph g = {.model = {.element_bytes = 4}};
        struct model_attribute attribute[PROBE_ATTRIBUTES];
        struct model_op op;
        if (probe_updates(&bench_task.probe[k]))
            continue;
        probe_describe(&bench_task.probe[k], attribute, &op);
        build(&bench_task.probe[k], &g);
        assert_int_equal(g.status, STATUS_OK);
        const struct model_op *zoo_op = &g.model.op[0];
        assert_string_equal(op.kind, zoo_op->kind);
        assert_true(op.forward_flop == zoo_op->forward_flop);
        assert_true(op.backward_flop == zoo_op->backward_flop);
        assert_int_equal(op.parameter_bytes, zoo_op->parameter_bytes);
        assert_int_equal(op.output_bytes, zoo_op->output_bytes);
        assert_true(probe_flop(&bench_task.probe[k], true) ==
                    zoo_op->backward_flop * (double)bench_task.probe[k].batch);
        for (size_t a = 0; a < op.attributes; a++)
            assert_int_equal(model_attribute(zoo_op, attribute[a].name, -1), attribute[a].value);
        graph_free(&g);
    }
}

static void probes_of_a_kind_stand_together_in_order_of_work(void **state)
{
    for (size_t k = 1; k < bench_task.probes; k++) {
        if (!strcmp(bench_task.probe[k].kind, bench_task.probe[k - 1].kind)) {
            assert_true(probe_flop(&bench_task.probe[k], false) >=
                        probe_flop(&bench_task.probe[k - 1], false));
            continue;
        }
        for (size_t i = 0; i + 1 < k; i++)
            assert_string_not_equal(bench_task.probe[k].kind, bench_task.probe[i].kind);
    }
}

static void every_kind_the_cpu_computes_is_measured(void **state)
{
    static const char *const kinds[] = {"embedding", "layernorm", "linear", "attention",
                                        "gelu",      "residual",  "loss",   "rmsnorm",
                                        "rope",      "gated",     "gate",   "experts"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct layer layer;
        size_t i = 0;
        while (i < bench_task.probes && strcmp(bench_task.probe[i].kind, kinds[k]) != 0)
            i++;
        assert_true(i < bench_task.probes);
        assert_int_equal(probe_layer(&bench_task.probe[i], &layer), STATUS_OK);
    }
}

static void check_rate(const struct topology_rate *r)
{
    assert_true(r->n >= 1);
    for (size_t i = 0; i < r->n; i++) {
        assert_true(r->flops[i] > 0 && isfinite(r->flops[i]));
        assert_true(r->flop[i] > (i ? r->flop[i - 1] : 0));
    }
}

/* Little of everything, for what is done often. */
static const struct probe few[] = {PROBE("linear", 32, 32, 32, 0, 1),
                                   PROBE("adam", 1, 1 << 10, 0, 0, 1)};
static const int64_t small[] = {4 << 10, 1 << 20};
static const struct bench_task little = {
    .probes = 2, .probe = few, .sizes = 2, .size = small, .copy_bytes = 1 << 16};

static void check_type(const struct device_type *type)
{
    assert_string_equal(type->name, "cpu");
    assert_true(type->flops > 0 && type->memory_Bps > 0 && type->memory_bytes > 0);
    assert_true(type->launch_s > 0);
    for (size_t k = 0; k < type->rates; k++)
        check_rate(&type->rate[k]);
}

static void check_timings(const struct calibration *c, const struct bench_task *task)
{
    assert_int_equal(c->timings, (1 + BENCH_SUMS) * task->sizes);
    for (size_t k = 0; k < c->timings; k++) {
        const struct calibrate_timing *t = &c->timing[k];
        assert_true(t->seconds > 0 && isfinite(t->seconds));
        assert_true(t->model_s > 0 && isfinite(t->model_s));
        assert_int_equal(t->bytes, task->size[k % task->sizes]);
        assert_int_equal(t->collective, k >= task->sizes);
    }
}

static void measures_a_topology_that_costs_can_be_taken_from(void **state)
{
    struct calibration c = {0};
    const struct calibrate_options o = {.ranks = 2, .repeats = 1};
    if (calibrate_task(&little, &o, &c) != STATUS_OK)
        fail_msg("%s", error_message());
    const struct topology *t = &c.topology;
    assert_true(c.noise.share > 0 && c.noise.share < 1.1 && c.noise.others >= 0);
    assert_true(c.noise.spread.median >= 0 && c.noise.spread.worst >= c.noise.spread.median);
    assert_int_equal(t->n, 2);
    assert_string_equal(t->device[1], "rank1");
    assert_int_equal(t->types, 1);
    assert_int_equal(t->tiers, 1);
    assert_int_equal(t->type[0].rates, 2 + 1); /* exec.calibrate has all */
    check_type(&t->type[0]);
    const struct topology_tier *tier = topology_between(t, 0, 1);
    assert_true(tier->latency_s >= 0 && tier->bandwidth_Bps > 0);
    assert_true(isfinite(cost_transfer(t, 0, 1, 1e6)));
    check_timings(&c, &little);
    calibration_free(&c);
}

static void three_ranks_have_three_pairs_and_a_matrix_from_0_to_1(void **state)
{
    struct calibration c = {0};
    const struct calibrate_options o = {.ranks = 3, .repeats = 2};
    const char path[] = BINARY_DIR "/calibrate-matrix.tsv";
    char line[256];
    double least = 1, most = 0, sum = 0;
    size_t lines = 0;
    if (calibrate_task(&little, &o, &c) != STATUS_OK)
        fail_msg("%s", error_message());
    check_timings(&c, &little);
    assert_int_equal(c.pairs, 3);
    assert_int_equal(c.pair[2].from, 1);
    assert_int_equal(c.pair[2].to, 2);
    assert_int_equal(calibration_write_matrix(&c, path), STATUS_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (; fgets(line, sizeof line, f); lines++) {
        unsigned from, to;
        double latency_s, Bps, normal;
        assert_int_equal(
            sscanf(line, "rank%u\trank%u\t%lf\t%lf\t%lf", &from, &to, &latency_s, &Bps, &normal),
            5);
        assert_true(from == lines / 3 && to == lines % 3 && latency_s >= 0);
        assert_true(from == to ? Bps == 0 && normal == 0 : Bps > 0 && normal > 0);
        least = fmin(least, normal);
        most = fmax(most, normal);
        sum += from < to ? Bps : from > to ? -Bps : 0; /* symmetric */
    }
    fclose(f);
    assert_int_equal(lines, 9);
    char *text, *name = c.topology.device[2];
    size_t n;
    c.topology.device[2] = (char[]){"=1"}; /* no formula in a spreadsheet */
    assert_int_equal(calibration_write_matrix(&c, path), STATUS_OK);
    assert_int_equal(file_read(path, &text, &n), STATUS_OK);
    assert_non_null(strstr(text, "\n'=1\t'=1\t"));
    c.topology.device[2] = name;
    free(text);
    remove(path);
    assert_true(least == 0 && most == 1 && fabs(sum) < 1);
    calibration_free(&c);
}

static void one_rank_has_no_links_and_no_collectives(void **state)
{
    struct calibration c = {0};
    const struct calibrate_options o = {.ranks = 1, .repeats = 1};
    assert_int_equal(calibrate_task(&little, &o, &c), STATUS_OK);
    check_type(&c.topology.type[0]);
    assert_int_equal(c.topology.tiers, 0);
    assert_int_equal(c.pairs, 0);
    assert_int_equal(c.timings, 0);
    calibration_free(&c);
}

static double seconds_of(const struct collective_group *g, enum collective_kind kind, int64_t bytes)
{
    struct collective_shape shape = {0};
    assert_int_equal(collective_shape_make(g, kind, bytes, NULL, &shape), STATUS_OK);
    double seconds = shape.seconds;
    collective_shape_free(&shape);
    return seconds;
}

static void assert_near_or_not(bool near, double a, double b)
{
    assert_true((fabs(a / b - 1) < 1e-9) == near);
}

static void sizes_end_where_they_are_told(void **state)
{
    struct bench_task task;
    assert_int_equal(bench_task_up_to(256 << 20, &task), STATUS_OK);
    assert_int_equal(task.sizes, bench_task.sizes + 1);
    assert_int_equal(task.size[task.sizes - 1], 256 << 20);
    assert_int_equal(bench_task_up_to(100 << 10, &task), STATUS_OK);
    assert_int_equal(task.sizes, 3);
    assert_int_equal(bench_task_up_to((16 << 10) - 1, &task), STATUS_INVALID);
    assert_int_equal(bench_task_up_to((1 << 30) + 1, &task), STATUS_INVALID);
}

/* As many as cuda.calibrate expects (exec/device/cuda/CMakeLists.txt), which no machine without a
 * GPU counts. */
static void one_gpu_has_81_figures(void **state)
{
    struct bench_shapes shapes;
    assert_int_equal(bench_shapes_make(NULL, 1, INT64_C(4) << 30, &shapes), STATUS_OK);
    struct bench b = {.task = &shapes.task, .ranks = 1, .repeats = 1};
    assert_int_equal(bench_numbers(&b), 81);
    bench_shapes_free(&shapes);
}

/* Seconds of a link that is exactly latency + bytes / bandwidth, and rings of it. */
static void the_fit_of_an_exact_link_is_that_link(void **state)
{
    const double latency_s = 5e-5, Bps = 2e9;
    double number[256];
    struct bench b = {.task = &little, .ranks = 3, .repeats = 2, .number = number};
    struct calibration c = {0};
    assert_true(bench_numbers(&b) <= 256);
    for (size_t k = 0; k < bench_numbers(&b); k++)
        number[k] = 1e-3;
    for (size_t pair = 0; pair < 3; pair++)
        for (size_t s = 0; s < little.sizes; s++)
            for (size_t r = 0; r < b.repeats; r++)
                ways_of(&b, pair, s)[r] =
                    2 * (taken_of(&b, pair, s)[r] = latency_s / 2 + (double)small[s] / 2 / Bps);
    for (size_t sum = 0; sum < BENCH_SUMS;
         sum++) /* 2 (n - 1) steps of a third each, or half; at once */
        for (size_t s = 0; s < little.sizes; s++)
            for (size_t k = 0; k < 3 * b.repeats; k++)
                sums_of(&b, sum, s, 0)[k] =
                    (sum == 0 ? 4 : 2) * (double)small[s] / 3 / Bps + (sum == 0            ? 4
                                                                       : sum < BENCH_RINGS ? 2
                                                                                           : 1) *
                                                                          latency_s;
    assert_int_equal(calibrate_fit(&b, &c), STATUS_OK);
    for (size_t pair = 0; pair < 3; pair++) {
        assert_true(fabs(c.pair[pair].latency_s / latency_s - 1) < 1e-9);
        assert_true(fabs(c.pair[pair].bandwidth_Bps / Bps - 1) < 1e-9);
    }
    assert_true(fabs(c.topology.type->message_s / (latency_s / 2) - 1) < 1e-9);
    assert_true(fabs(c.topology.type->message_Bps / (2 * Bps) - 1) < 1e-9);
    for (size_t k = 0; k < c.timings; k++)
        assert_true(fabs(c.timing[k].seconds / c.timing[k].model_s - 1) < 1e-9);
    assert_true(c.noise.spread.median == 0 && c.noise.spread.worst == 0);
    calibration_free(&c);
}

/* What is costed by the topology's curves is what was measured, of sizes that were and, a straight
 * line in logarithms, between them; without curves it is what the tier says. */
static void curves_are_what_was_measured(void **state)
{
    double number[256];
    uint64_t dice = 3;
    const uint32_t device[] = {0, 1, 2};
    for (int curves = 0; curves < 2; curves++) {
        struct bench b = {
            .task = &little, .ranks = 3, .repeats = 1, .number = number, .curves = curves};
        struct calibration c = {0};
        struct collective_group g = {0};
        assert_true(bench_numbers(&b) <= 256);
        for (size_t k = 0; k < bench_numbers(&b); k++)
            number[k] = 1e-4 * (1 + (double)(random_next(&dice) % 1000));
        assert_int_equal(calibrate_fit(&b, &c), STATUS_OK);
        assert_int_equal(c.topology.type->curves, curves ? BENCH_SUMS : 0);
        assert_int_equal(collective_group_make(&c.topology, device, 3, &g), STATUS_OK);
        for (size_t k = little.sizes; k < c.timings; k++) {
            const struct calibrate_timing *t = &c.timing[k];
            assert_near_or_not(curves, seconds_of(&g, t->kind, t->bytes), t->seconds);
            if (k % little.sizes == 1)
                assert_near_or_not(curves, seconds_of(&g, t->kind, 64 << 10),
                                   sqrt(t[-1].seconds * t->seconds));
        }
        collective_group_free(&g);
        calibration_free(&c);
    }
}

/* Of four GPUs: groups of two and of four, each kind a curve of its own, whose points are what was
 * measured. */
static void collectives_of_gpus_become_curves_and_what_they_slow_down_is_kept(void **state)
{
    const double latency_s = 1e-5, Bps = 2e11;
    double number[1024];
    struct bench_task task = little;
    struct bench b = {.task = &task, .ranks = 4, .repeats = 2, .number = number};
    struct calibration c = {0};
    task.gpus = true;
    assert_int_equal(bench_layouts(&b), 2);
    assert_int_equal(bench_members(&b, 0), 2);
    assert_int_equal(bench_members(&b, 1), 4);
    assert_true(bench_numbers(&b) <= 1024);
    for (size_t k = 0; k < bench_numbers(&b); k++)
        number[k] = 1e-3;
    for (size_t k = 0; k < 4 * b.repeats; k++) {
        calls_of(&b, 2 * task.probes + FIGURE_BESIDE, 0)[k] = 0.25;
        calls_of(&b, 2 * task.probes + FIGURE_WATTS, 0)[k] = 612;
        calls_of(&b, 2 * task.probes + FIGURE_HOST, 0)[k] = 3e-3;
    }
    for (size_t pair = 0; pair < 6; pair++)
        for (size_t k = 0; k < task.sizes * b.repeats; k++)
            ways_of(&b, pair, 0)[k] = latency_s + (double)small[k / b.repeats] / Bps;
    for (size_t series = 0; series < 2 * BENCH_SUMS_GPU; series++)
        for (size_t s = 0; s < task.sizes; s++)
            for (size_t k = 0; k < 4 * b.repeats; k++)
                sums_of(&b, series, s, 0)[k] = 1e-3 * (double)(1 + series) * (double)(1 + s);
    assert_int_equal(calibrate_fit(&b, &c), STATUS_OK);
    const struct device_type *type = c.topology.type;
    assert_string_equal(type->name, "cuda");
    assert_true(type->slowdown == 0.25 && type->watts == 612 && type->launch_s == 3e-3);
    assert_string_equal(c.topology.tier->name, "nvlink");
    assert_true(fabs(c.topology.tier->bandwidth_Bps / Bps - 1) < 1e-9);
    assert_int_equal(type->curves, 2 * BENCH_SUMS_GPU);
    for (size_t series = 0; series < type->curves; series++) {
        const struct fabric_curve *curve = &type->curve[series];
        size_t members = series < BENCH_SUMS_GPU ? 2 : 4;
        assert_int_equal(curve->kind, bench_sums[series % BENCH_SUMS_GPU].kind);
        assert_int_equal(curve->members, members);
        assert_int_equal(curve->per_node, members);
        assert_int_equal(curve->n, task.sizes);
        for (size_t s = 0; s < curve->n; s++) {
            assert_true(curve->bytes[s] == (double)small[s]);
            assert_true(fabs(curve->seconds[s] / (1e-3 * (double)(1 + series) * (double)(1 + s)) -
                             1) < 1e-9);
        }
    }
    for (size_t k = 0; k < c.timings; k++) /* what plans are predicted with is what was measured */
        assert_true(fabs(c.timing[k].seconds / c.timing[k].model_s - 1) < 1e-9);
    calibration_free(&c);
}

/* A large message that seems faster than a small one: no latency, and the bandwidth of the line
 * through the origin, sum(x t w) / sum(x x w) with w = 1 / t^2. */
static void a_fit_that_would_be_negative_is_all_bandwidth(void **state)
{
    double number[128];
    struct bench b = {.task = &little, .ranks = 2, .repeats = 1, .number = number};
    struct calibration c = {0};
    assert_true(bench_numbers(&b) <= 128);
    for (size_t k = 0; k < bench_numbers(&b); k++)
        number[k] = 1e-3;
    *ways_of(&b, 0, 1) = 5e-4; /* 1 MiB in half the time of 4 KiB */
    assert_int_equal(calibrate_fit(&b, &c), STATUS_OK);
    double x = 4096, y = 1048576;
    double slope = (x / 1e-3 + y / 5e-4) / (x * x / 1e-6 + y * y / 2.5e-7);
    assert_true(c.pair[0].latency_s == 0);
    assert_true(fabs(c.pair[0].bandwidth_Bps * slope - 1) < 1e-9);
    calibration_free(&c);
}

/* Nothing is said, or what is expected. */
static void assert_doubt(const char *text, const char *words)
{
    if (*words)
        assert_message(text, words);
    else
        assert_string_equal(text, "");
}

/* Samples of an idle machine, then with one thing wrong at a time, up to each bound and beyond
 * it. */
static void a_machine_that_is_not_idle_is_doubted_then_refused(void **state)
{
    static const struct {
        double apart; /* three of eight repetitions by so much below the median, three above */
        double share, others;
        enum calibrate_verdict verdict;
        const char *says;
    } cases[] = {
        {0.01, 0.99, 0.2, CALIBRATE_IDLE, ""},
        {0.09, 0.951, 2.2, CALIBRATE_IDLE, ""},
        {0.11, 0.99, 0.2, CALIBRATE_DOUBTFUL, "repetitions 22 %"},
        {0.01, 0.94, 0.2, CALIBRATE_DOUBTFUL, "rank 94 %"},
        {0.01, 0.99, 2.3, CALIBRATE_DOUBTFUL, "other used 2.3 of 4 cores"},
        {0.49, 0.76, 3.9, CALIBRATE_DOUBTFUL, "repetitions 98 % 76 % 3.9 4"},
        {0.51, 0.99, 0.2, CALIBRATE_USELESS, "repetitions 102 %"},
        {0.01, 0.125, 3.9, CALIBRATE_USELESS, "12 % 3.9 4 cores"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double number[512];
        char text[CALIBRATE_DOUBT];
        struct bench b = {.task = &little, .ranks = 2, .repeats = 8, .number = number};
        struct calibration c = {0};
        assert_true(bench_numbers(&b) <= 512);
        for (size_t k = 0; k < bench_numbers(&b); k++) {
            double off = k % 8 < 3 ? -1 : k % 8 < 5 ? 0 : 1;
            number[k] = 1e-3 * (1 + cases[i].apart * off);
        }
        for (size_t r = 0; r < 2; r++)
            for (size_t k = 0; k < 8; k++) /* the worse rank counts */
                calls_of(&b, 2 * little.probes + FIGURE_SHARE, r)[k] = r ? cases[i].share : 1;
        assert_int_equal(calibrate_fit(&b, &c), STATUS_OK);
        c.noise.others = cases[i].others;
        c.noise.cores = 4;
        assert_int_equal(calibrate_judge(&c.noise, text), cases[i].verdict);
        assert_doubt(text, cases[i].says);
        calibration_free(&c);
    }
}

/* Cores take ranks in turn: 1 1 2 2, the sum of four ends on two cores, is the least. */
static void more_ranks_than_cores_are_judged_before(void **state)
{
    static const struct {
        size_t ranks, cores;
        enum calibrate_verdict verdict;
        const char *says;
    } cases[] = {
        {1, 1, CALIBRATE_IDLE, ""},
        {2, 4, CALIBRATE_IDLE, ""},
        {64, 64, CALIBRATE_IDLE, ""},
        {5, 4, CALIBRATE_DOUBTFUL, "83 % 5 ranks 4"},
        {3, 2, CALIBRATE_DOUBTFUL, "75 % 3 ranks 2"},
        {4, 2, CALIBRATE_USELESS, "67 % 4 ranks 2"},
        {2, 1, CALIBRATE_USELESS, "67 % 2 ranks 1"},
        {12, 2, CALIBRATE_USELESS, "29 % 12 ranks 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[CALIBRATE_DOUBT];
        assert_int_equal(calibrate_foresee(cases[i].ranks, cases[i].cores, text), cases[i].verdict);
        assert_doubt(text, cases[i].says);
    }
    for (size_t ranks = 1; ranks <= 40; ranks++)
        for (size_t cores = 1; cores <= 10;
             cores++) { /* against the sum, one end after the other */
            double ends = 0, worst;
            char text[CALIBRATE_DOUBT];
            for (size_t i = 0; i < ranks; i++)
                ends += (double)(i / cores + 1);
            worst = (double)ranks / ends;
            assert_int_equal(calibrate_foresee(ranks, cores, text), worst < 0.75 ? CALIBRATE_USELESS
                                                                    : ranks > cores
                                                                        ? CALIBRATE_DOUBTFUL
                                                                        : CALIBRATE_IDLE);
        }
}

static void rejects_no_ranks_no_repeats_and_no_such_transport(void **state)
{
    struct calibration c = {0};
    static const struct calibrate_options bad[] = {
        {.repeats = 1}, {.ranks = 1}, {.ranks = TEAM_MOST + 1, .repeats = 1}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(calibrate_cpu(&bad[k], &c), STATUS_INVALID);
    assert_int_equal(
        calibrate_cpu(&(struct calibrate_options){.ranks = 1, .repeats = 1, .transport = "pigeon"},
                      &c),
        STATUS_UNSUPPORTED);
}

static void what_mpirun_prints_is_checked(void **state)
{
    double number[2];
    static const char *const bad[] = {"",
                                      "hello",
                                      "foreline calibration, figures: 3\n1\n2\n3\n",
                                      "foreline calibration, figures: 2\n1\n",
                                      "foreline calibration, figures: 2\n1\nnan\n",
                                      "foreline calibration, figures: 2\n1\n-2\n"};
    assert_int_equal(calibrate_parse("foreline calibration, figures: 2\n1\n0.25\n", 2, number),
                     STATUS_OK);
    assert_true(number[0] == 1 && number[1] == 0.25);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(calibrate_parse(bad[k], 2, number), STATUS_EXTERNAL);
}

/* Least of everything: the loop below does it some hundred times. */
static const int64_t smallest[] = {4 << 10};
static const struct bench_task least = {
    .probes = 1, .probe = few, .sizes = 1, .size = smallest, .copy_bytes = 1 << 12};

/* Ranks allocate as well, and inherit the countdown: whoever runs out first is reported. */
static void running_out_of_memory_anywhere_is_said_and_leaves_nothing(void **state)
{
    const struct calibrate_options o = {.ranks = 2, .repeats = 1};
    struct calibration c = {0};
    enum status st = STATUS_NOMEM;
    long k = 0;
    for (; st == STATUS_NOMEM; k++) {
        fault_countdown = k;
        st = calibrate_task(&least, &o, &c);
        fault_countdown = LONG_MAX;
        assert_true(st == STATUS_OK || st == STATUS_NOMEM);
        if (st == STATUS_NOMEM)
            assert_int_equal(c.timings, 0);
    }
    assert_int_equal(st, STATUS_OK);
    assert_true(k > 60); /* of layers, programs, transports, results */
    calibration_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_work_like_the_models),
        cmocka_unit_test(probes_of_a_kind_stand_together_in_order_of_work),
        cmocka_unit_test(every_kind_the_cpu_computes_is_measured),
        cmocka_unit_test(measures_a_topology_that_costs_can_be_taken_from),
        cmocka_unit_test(three_ranks_have_three_pairs_and_a_matrix_from_0_to_1),
        cmocka_unit_test(one_rank_has_no_links_and_no_collectives),
        cmocka_unit_test(the_fit_of_an_exact_link_is_that_link),
        cmocka_unit_test(curves_are_what_was_measured),
        cmocka_unit_test(collectives_of_gpus_become_curves_and_what_they_slow_down_is_kept),
        cmocka_unit_test(a_fit_that_would_be_negative_is_all_bandwidth),
        cmocka_unit_test(sizes_end_where_they_are_told),
        cmocka_unit_test(one_gpu_has_81_figures),
        cmocka_unit_test(a_machine_that_is_not_idle_is_doubted_then_refused),
        cmocka_unit_test(more_ranks_than_cores_are_judged_before),
        cmocka_unit_test(rejects_no_ranks_no_repeats_and_no_such_transport),
        cmocka_unit_test(what_mpirun_prints_is_checked),
        cmocka_unit_test(running_out_of_memory_anywhere_is_said_and_leaves_nothing),
    };
    return cmocka_run_group_tests_name("calibrate", tests, NULL, NULL);
}
