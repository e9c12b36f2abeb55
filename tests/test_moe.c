/* Plans for models with experts: all-to-all, ZeRO, slices, by hand on both engines; the baselines
 * of HiDup's evaluation (data parallel, FastMoE, DeepSpeed) on its cluster, against closed forms.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cost/cost.h"
#include "core/data/measurement.h"
#include "core/lower/lower.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/sample.h"
#include "topologies/write.h"

static struct model build(const char *spec)
{
    struct model m = {0};
    if (zoo_build(spec, &m) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    return m;
}

/* One stage of `replicas` on the first devices; `expert_parallel` 1: everybody has all experts. */
static struct lowered set_up(const char *spec, struct topology topology, char *platform,
                             const struct partition_request *wanted)
{
    struct lowered s = {.model = build(spec), .topology = topology, .platform = platform};
    struct partition_request request = *wanted;
    const struct partition_algorithm *balanced;
    request.stages = 1;
    request.schedule = "1f1b";
    request.model = spec;
    request.platform = "p";
    request.microbatches = request.replicas;
    if (partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(balanced, &s.model, &s.topology, &request, &s.plan) != STATUS_OK ||
        plan_lower(&s.plan, &s.model, &s.topology, &s.program) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    return s;
}

/* Seconds that rank 0's collectives of a purpose take, hidden behind compute or not. */
static double spent(const struct engine *e, const struct lowered *s, enum op_purpose purpose)
{
    struct simulation result = {0};
    double seconds = 0;
    if (e->run(&s->program, &s->topology, s->platform, NULL, &result) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    for (size_t i = 0; i < s->program.op_start[1]; i++)
        if (op_is_collective(&s->program.op[i]) && s->program.op[i].purpose == purpose)
            seconds += result.timeline.end_s[i] - result.timeline.start_s[i];
    simulation_free(&result);
    return seconds;
}

/* Bytes of the parameters of experts; of all others. */
static int64_t expert_bytes(const struct model *m, bool experts)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++)
        bytes += (m->op[i].exchange_bytes > 0) == experts ? m->op[i].parameter_bytes : 0;
    return bytes;
}

/* Four GPUs on 1 GB/s ports without latency. Two layers, of which one has 8 experts: 3 samples of 4
 * tokens of 64 channels, 2 experts each, no padding: S = 3 * 4 * 2 * 64 * 4 = 6144 bytes. An
 * all-to-all takes 3/4 S / B, two forward and two backward. Gradients: a ring over all four for
 * what everybody has; each expert is on one GPU and sums nothing. */
static void expert_parallelism_takes_the_closed_form_time(void **state)
{
    const char *spec = "rmoe:layers=2,hidden=64,heads=4,tokens=4,vocabulary=100,experts=8,"
                       "capacity=0,einsum=0";
    const struct partition_request request = {
        .replicas = 4, .expert_parallel = 4, .microbatch_size = 3, .optimizer = "sgd"};
    char *platform = sample_star_file(4, 0, 1e9);
    struct lowered s = set_up(spec, sample_clique(4, 0, 1e9), platform, &request);
    int64_t dense = expert_bytes(&s.model, false), experts = expert_bytes(&s.model, true);
    assert_int_equal(experts, 8 * (8 * 64 * 64 + 5 * 64) * 4);
    assert_int_equal(program_static_bytes(&s.program.rank[0]), 2 * (dense + experts / 4));
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct measurement m = lowered_measure(engines[e], &s);
        assert_near(m.rank[0].exposed_s[FOR_EXPERTS], 4 * 0.75 * 6144 / 1e9, 1e-11);
        assert_near(m.rank[0].exposed_s[FOR_DATA], 2 * 0.75 * (double)dense / 1e9, 1e-11);
        assert_near(m.iteration_s, m.rank[0].busy_s + m.rank[0].exposed_comm_s, 1e-12);
        measurement_free(&m);
    }
    unlink(platform);
    lowered_free(&s);
}

/* What rank 0's compute takes, and keeps of a microbatch, with the busiest rank's rows `times` the
 * mean; what only experts take and keep is in *experts_s and *experts_bytes. */
struct load {
    double busy_s, exchange_s, experts_s;
    int64_t kept, scratch;
};

static struct load load_of(const struct engine *e, const char *spec, struct topology topology,
                           const char *platform, double times)
{
    const struct partition_request request = {.replicas = 4,
                                              .expert_parallel = 4,
                                              .expert_imbalance = times,
                                              .microbatch_size = 3,
                                              .optimizer = "sgd"};
    struct lowered s = set_up(spec, topology, sample_text(platform), &request);
    struct cost_split split = cost_split_of(&s.plan, &s.plan.stage[0]);
    struct measurement m = lowered_measure(e, &s);
    struct load out = {.busy_s = m.rank[0].busy_s,
                       .exchange_s = m.rank[0].exposed_s[FOR_EXPERTS],
                       .scratch = s.program.rank[0].scratch_bytes};
    for (uint32_t i = 0; i < s.model.n; i++)
        if (s.model.op[i].exchange_bytes > 0) {
            struct op_cost c = cost_op(&s.model, &s.topology.type[0], i, 3, "sgd", &split);
            out.experts_s += c.forward_s + c.backward_s;
        }
    for (size_t k = 0; k < s.program.op_start[1]; k++)
        if (s.program.op[k].kind == OP_FORWARD)
            out.kept += s.program.op[k].bytes;
    measurement_free(&m);
    lowered_free(&s);
    return out;
}

/* Everybody waits for the rank whose experts get F times their share: exchanges carry F times the
 * bytes, experts compute F times as long (launches apart, of which there are none here), and keep F
 * times what comes to them and is inside of them: 3 samples of S = 4 * 2 rows of 64 before and 2 *
 * 256 inside; what comes back is as much as was sent. With a capacity every expert works on its
 * slots whoever gets tokens. */
static void all_wait_for_the_busiest_rank(void **state)
{
    const char *options = "rmoe:layers=2,hidden=64,heads=4,tokens=4,vocabulary=100,experts=8";
    static const char *const padding[] = {",capacity=0,einsum=0", ",capacity=200,einsum=0"};
    char *platform = sample_star_file(4, 0, 1e9), spec[128];
    for (size_t i = 0; i < 2 * engines_fluid(); i++) {
        bool padded = i % 2;
        snprintf(spec, sizeof spec, "%s%s", options, padding[i % 2]);
        struct load even = load_of(engines[i / 2], spec, sample_clique(4, 0, 1e9), platform, 0);
        for (int k = 0; k <= 4; k++) {
            const double f = 1 + 0.5 * k, more = padded ? 0 : f - 1;
            struct load load = load_of(engines[i / 2], spec, sample_clique(4, 0, 1e9), platform, f);
            assert_near(load.exchange_s, (1 + more) * even.exchange_s, 1e-9);
            assert_near(load.experts_s, (1 + more) * even.experts_s, 1e-9 * even.experts_s);
            assert_near(load.busy_s, even.busy_s + more * even.experts_s, 1e-9 * even.busy_s);
            assert_int_equal(load.kept - even.kept, (int64_t)(more * 3 * 8 * (64 + 512) * 4));
            assert_int_equal(load.scratch - even.scratch, (int64_t)(more * 2 * 3 * 8 * 64 * 4));
        }
    }
    unlink(platform);
    free(platform);
}

/* The same with all experts on every GPU: all parameters are summed, nothing is exchanged. */
static void data_parallelism_sums_all_experts(void **state)
{
    const char *spec = "rmoe:layers=2,hidden=64,heads=4,tokens=4,vocabulary=100,experts=8";
    const struct partition_request request = {
        .replicas = 4, .microbatch_size = 3, .optimizer = "sgd"};
    char *platform = sample_star_file(4, 0, 1e9);
    struct lowered s = set_up(spec, sample_clique(4, 0, 1e9), platform, &request);
    double all = (double)(expert_bytes(&s.model, false) + expert_bytes(&s.model, true));
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct measurement m = lowered_measure(engines[e], &s);
        assert_near(m.rank[0].exposed_s[FOR_EXPERTS], 0, 0);
        assert_near(m.rank[0].exposed_s[FOR_DATA], 2 * 0.75 * all / 1e9, 1e-10);
        measurement_free(&m);
    }
    unlink(platform);
    lowered_free(&s);
}

/* ZeRO over 4 replicas, experts over pairs of them: dense D bytes on everybody and sharded over 4,
 * experts X bytes (half of all) on each and sharded over the 2 that have the same. Adam's state is
 * twice the parameters. One microbatch each; at 1 GB/s gathers and scatters take 3/4 D and 1/2 X:
 * one scatter, one gather (ZeRO 1, 2) or two (ZeRO 3). On SimGrid what ZeRO 2 and 3 scatter and
 * gather while the backward goes on shares ports with tokens and with each other. */
static void zero_shards_experts_over_the_replicas_that_have_the_same(void **state)
{
    const char *spec = "rmoe:layers=2,hidden=64,heads=4,tokens=4,vocabulary=100,experts=8";
    for (uint32_t zero = 1; zero <= 3; zero++) {
        const struct partition_request request = {.replicas = 4,
                                                  .expert_parallel = 2,
                                                  .zero = zero,
                                                  .microbatch_size = 3,
                                                  .optimizer = "adam"};
        char *platform = sample_star_file(4, 0, 1e9);
        struct lowered s = set_up(spec, sample_clique(4, 0, 1e9), platform, &request);
        int64_t d = expert_bytes(&s.model, false), x = expert_bytes(&s.model, true) / 2;
        int64_t part = d / 4 + x / 2, all = d + x;
        const int64_t held[] = {0, 2 * all + 2 * part, all + 3 * part, 4 * part};
        assert_int_equal(program_static_bytes(&s.program.rank[0]), held[zero]);
        double once = 0.75e-9 * (double)d + 0.5e-9 * (double)x;
        for (size_t e = 0; e < engines_fluid(); e++) {
            bool meets = zero >= 2 && engines[e] == &engine_simgrid;
            double tokens = meets ? spent(engines[e], &s, FOR_EXPERTS) : 0;
            double scatters = spent(engines[e], &s, FOR_DATA);
            double gathers = spent(engines[e], &s, FOR_SHARDS), moved = zero < 3 ? once : 2 * once;
            bool beside = meets && zero == 3;
            assert_true(scatters > once - 1e-10 && gathers > moved - 1e-10);
            assert_near(scatters, once, tokens + (beside ? gathers : 0) + 1e-10);
            assert_near(gathers, moved, beside ? tokens + scatters : 1e-10);
        }
        FOR_EACH_ALLOC_FAILURE(
            (program_free(&s.program), plan_lower(&s.plan, &s.model, &s.topology, &s.program)));
        unlink(platform);
        lowered_free(&s);
    }
}

/* Experts over two shards: outputs summed forward (embedding, two attentions, one feed-forward, one
 * set of experts: 5, and three numbers of each row for the loss), gradients of inputs backward (two
 * qkv, one fc, the experts, the decoder: 5). Bytes of a backward call: x everywhere, for the
 * experts also the weights of the choices. */
static void tensor_parallelism_splits_each_expert(void **state)
{
    const char *spec = "rmoe:layers=2,hidden=64,heads=4,tokens=4,vocabulary=100,experts=8,"
                       "capacity=0,einsum=0";
    const struct partition_request request = {
        .replicas = 1, .tensor_parallel = 2, .microbatch_size = 3, .optimizer = "sgd"};
    char *platform = sample_star_file(2, 0, 1e9);
    struct lowered s = set_up(spec, sample_clique(2, 0, 1e9), platform, &request);
    const int64_t rows = 3 * 4, x = rows * 64 * 4, weights = rows * 2 * 2 * 4;
    const int64_t seen_of_rows = rows * 3 * 2 * 4; /* of each shard */
    size_t seen = 0;
    for (size_t i = 0; i < s.program.op_start[1]; i++) {
        const struct program_op *o = &s.program.op[i];
        if (o->kind != OP_ALLREDUCE || o->purpose != FOR_TENSOR)
            continue;
        assert_int_equal(o->count, seen > 0 ? 5 : 6);
        assert_int_equal(o->bytes, seen > 0 ? (5 * x + weights) / 5 : (5 * x + seen_of_rows) / 6);
        seen++;
    }
    assert_int_equal(seen, 2);
    unlink(platform);
    lowered_free(&s);
}

/* What a shard keeps of a microbatch, op by op: of experts the rows that it is given, of fp8 a byte
 * a number, and gives, whole, and its part of what is inside of them; all of it for its part of the tokens. */
static void shards_keep_the_rows_of_experts_whole(void **state)
{
    static const char *const spec[] = {"mixtral-8x7b:layers=2,tokens=1024",
                                       "deepseek-v3:layers=5,tokens=1024,dtype=fp8",
                                       "mixtral-8x7b:layers=1,tokens=512,dtype=fp8"};
    for (int i = 0; i < 3 * 6; i++) {
        const uint32_t shards = 1U << i / 3 % 3, parts = 1 + (uint32_t)(i / 9);
        const struct partition_request request = {.replicas = parts,
                                                  .context_parallel = parts,
                                                  .tensor_parallel = shards,
                                                  .microbatch_size = 2,
                                                  .optimizer = "sgd"};
        struct lowered s =
            set_up(spec[i % 3], sample_clique(parts * shards, 0, 1e9), NULL, &request);
        double kept = 0;
        for (uint32_t k = 0; k < s.model.n; k++) {
            const struct model_op *o = &s.model.op[k];
            bool experts = !strcmp(o->kind, "experts");
            double numbers =
                (double)model_attribute(o, "slots", 0) * (double)model_attribute(o, "channels", 0);
            double rows = experts ? numbers * (strstr(spec[i % 3], "fp8") ? 1 + 2 : 2 + 2) : 0;
            bool whole = !experts && (o->tensor == TENSOR_WHOLE || o->tensor == TENSOR_ROW);
            kept += 2 * (rows + ((double)o->stash_bytes - rows) / (whole ? 1 : shards)) / parts;
        }
        size_t seen = 0;
        for (size_t k = 0; k < s.program.op_start[1]; k++)
            if (s.program.op[k].kind == OP_FORWARD && s.program.op[k].bytes > 0 && ++seen)
                assert_true(fabs((double)s.program.op[k].bytes - kept) <=
                            1e-9 * kept + (double)s.model.n);
        assert_int_equal(seen, parts);
        lowered_free(&s);
    }
}

/* ---- HiDup's cluster */

static struct lowered baseline(const char *spec, const struct partition_request *request)
{
    struct topology t = {0};
    char *platform = NULL;
    if (topology_resolve("hidup-8xv100", &platform) != STATUS_OK ||
        platform_read(platform, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    return set_up(spec, t, platform, request);
}

/* On both engines; they agree within 5 %, as where nodes share a port the analytic engine knows how
 * many ports there are. */
static struct measurement on_hidup(const char *routing, uint32_t gpus, bool spread)
{
    char spec[100];
    snprintf(spec, sizeof spec, "rmoe:experts=%u%s", 2 * gpus, routing);
    const struct partition_request request = {.replicas = gpus,
                                              .expert_parallel = spread ? gpus : 1,
                                              .microbatch_size = 32,
                                              .optimizer = "adam"};
    struct lowered s = baseline(spec, &request);
    assert_int_equal(s.program.ranks, gpus);
    struct measurement a = lowered_measure(&engine_analytic, &s),
                       b = lowered_measure(&engine_simgrid, &s);
    if (fabs(a.iteration_s - b.iteration_s) > 0.05 * b.iteration_s)
        fail_msg("%s: analytic %g, simgrid %g", spec, a.iteration_s, b.iteration_s);
    measurement_free(&a);
    lowered_free(&s);
    return b;
}

/* The artifact's profile (exp/config.py) of eight GPUs: bytes of the full tensor per second. Only
 * with one GPU in each node can the all-to-all be so fast: each sends 7/64 of the tensor. Ports
 * without protocol overheads and software give what was measured or up to a quarter more. */
static void collectives_on_hidups_cluster_are_close_to_what_was_measured(void **state)
{
    static const struct {
        enum collective_kind kind;
        int64_t bytes; /* of nccl-tests, for a full tensor of 64 MiB */
        double measured_Bps;
    } profile[] = {{COLLECTIVE_ALLGATHER, 64 << 20, 1224592728},
                   {COLLECTIVE_ALLREDUCE, 64 << 20, 611692856},
                   {COLLECTIVE_REDUCESCATTER, 64 << 20, 1130230706},
                   {COLLECTIVE_ALLTOALL, 8 << 20, 10701240728}};
    const struct collective_options options = {.algorithm = "ring", .nics = 1};
    struct collective_group g = {0};
    struct topology t = {0};
    uint32_t first[8];
    char *platform = NULL;
    assert_int_equal(topology_resolve("hidup-8xv100", &platform), STATUS_OK);
    assert_int_equal(platform_read(platform, &t), STATUS_OK);
    for (uint32_t node = 0; node < 8; node++)
        first[node] = 8 * node;
    assert_int_equal(collective_group_make(&t, first, 8, &g), STATUS_OK);
    for (size_t k = 0; k < sizeof profile / sizeof *profile; k++) {
        struct collective_shape shape = {0};
        assert_int_equal(
            collective_shape_make(&g, profile[k].kind, profile[k].bytes, &options, &shape),
            STATUS_OK);
        double predicted = (64 << 20) / shape.seconds, measured = profile[k].measured_Bps;
        if (!(predicted > measured && predicted < 1.25 * measured))
            fail_msg("%s: predicted %g B/s, measured %g", collective_kind_name[profile[k].kind],
                     predicted, measured);
        collective_shape_free(&shape);
    }
    collective_group_free(&g);
    topology_free(&t);
    free(platform);
}

/* Across nodes of 8 GPUs the port of 9.71 Gb/s = 1.21375 GB/s decides. With n GPUs, k = n / 8
 * nodes, S = 32 * 256 * 768 * 4 bytes sent by each GPU, an all-to-all has 8 S (k - 1) / k leave
 * each node; there are 4 layers with experts, 2 calls forward and 2 backward: 16 calls. Latencies
 * (50 us across) and what NVLink takes are below 1 %. */
static void all_to_all_on_hidups_cluster_is_bound_by_the_port_of_a_node(void **state)
{
    for (uint32_t gpus = 16; gpus <= 64; gpus *= 2) {
        double nodes = gpus / 8, sent = 32.0 * 256 * 768 * 4;
        double expected = 16 * 8 * sent * (nodes - 1) / nodes / 1.21375e9;
        struct measurement m = on_hidup(",capacity=0,einsum=0", gpus, true);
        assert_near(m.rank[0].exposed_s[FOR_EXPERTS], expected, 0.01 * expected);
        measurement_free(&m);
    }
}

/* Inside a node everything is fast and the plans are alike; across nodes the order is that of the
 * bytes: all experts' gradients, padded slots, tokens. */
static void baselines_of_hidup_rank_by_their_bytes(void **state)
{
    for (uint32_t gpus = 8; gpus <= 64; gpus *= 2) {
        struct measurement data = on_hidup("", gpus, false);
        struct measurement fastmoe = on_hidup(",capacity=0,einsum=0", gpus, true);
        struct measurement deepspeed = on_hidup(",group=32", gpus, true);
        assert_true(fastmoe.iteration_s < deepspeed.iteration_s);
        if (gpus == 8)
            assert_true(data.iteration_s < 1.5 * fastmoe.iteration_s);
        else
            assert_true(data.iteration_s > 1.5 * deepspeed.iteration_s);
        assert_true(data.rank[0].peak_bytes > fastmoe.rank[0].peak_bytes);
        measurement_free(&data);
        measurement_free(&fastmoe);
        measurement_free(&deepspeed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expert_parallelism_takes_the_closed_form_time),
        cmocka_unit_test(all_wait_for_the_busiest_rank),
        cmocka_unit_test(data_parallelism_sums_all_experts),
        cmocka_unit_test(zero_shards_experts_over_the_replicas_that_have_the_same),
        cmocka_unit_test(tensor_parallelism_splits_each_expert),
        cmocka_unit_test(shards_keep_the_rows_of_experts_whole),
        cmocka_unit_test(collectives_on_hidups_cluster_are_close_to_what_was_measured),
        cmocka_unit_test(all_to_all_on_hidups_cluster_is_bound_by_the_port_of_a_node),
        cmocka_unit_test(baselines_of_hidup_rank_by_their_bytes),
    };
    return cmocka_run_group_tests_name("moe", tests, NULL, NULL);
}
