/* Memory of plans under a framework: closed forms of what each field adds over random plans, a slow
 * truth of what a backward gives back, and the executor's memory as a bound. */
#include "core/strategy/framework.h"

#include <string.h>

#include "core/cost/cost.h"
#include "core/data/program.h"
#include "core/data/program_check.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { TRIALS = 60, DEVICES = 8 };

/* Keeps what the model says, and no more. */
#define LEAN "eager:workspace=0"
#define BARE LEAN ",logit=0"

static const char *const specs[] = {
    "gpt2-small:layers=4,hidden=64,heads=4,tokens=32,vocabulary=1000,dtype=bf16",
    "gpt2-small:layers=4,hidden=64,heads=4,tokens=32,vocabulary=1000,dtype=bf16,flash=1",
    "llama3.2-1b:layers=4,tokens=64,dtype=bf16",
    "rmoe:layers=4,hidden=64,heads=4,tokens=16,vocabulary=100,experts=8,capacity=0,einsum=0,"
    "dtype=bf16",
};
enum { SPECS = sizeof specs / sizeof *specs };

/* What a seed stands for: a model and how it is spread. */
static const char *random_request(uint64_t seed, struct partition_request *r)
{
    uint64_t state = seed;
    uint32_t stages = 1u << random_below(&state, 3), shards = 1u << random_below(&state, 2);
    uint32_t replicas = DEVICES / stages / shards;
    bool interleaved = stages > 1 && random_below(&state, 2) == 1;
    const char *spec = specs[random_below(&state, SPECS)];
    *r = (struct partition_request){.stages = interleaved ? 2 * stages : stages,
                                    .chunks = interleaved ? 2u : 1u,
                                    .replicas = replicas,
                                    .tensor_parallel = shards,
                                    .sequence_parallel = shards > 1 && random_below(&state, 2) == 1,
                                    .zero = random_below(&state, stages > 1 ? 2u : 4u),
                                    .recompute = (enum plan_recompute)random_below(&state, 3),
                                    .microbatches = 4 * replicas,
                                    .microbatch_size = 1 + random_below(&state, 2),
                                    .schedule = interleaved ? "interleaved" : "1f1b",
                                    .optimizer = "adam",
                                    .model = spec,
                                    .platform = "p"};
    return spec;
}

static struct lowered planned(const char *spec, struct partition_request request, size_t devices,
                              const char *framework)
{
    const struct partition_algorithm *balanced;
    struct lowered s = {.topology = sample_clique(devices, 0, 1e9)};
    request.framework = framework;
    request.issue = framework_of(framework);
    if (zoo_build(spec, &s.model) != STATUS_OK ||
        partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(balanced, &s.model, &s.topology, &request, &s.plan) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    lower(&s);
    return s;
}

static struct lowered seeded(uint64_t seed, const char *framework)
{
    struct partition_request request;
    const char *spec = random_request(seed, &request);
    return planned(spec, request, DEVICES, framework);
}

static void gradients_are_as_wide_as_the_framework_keeps_them(void **state)
{
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct lowered own = seeded(seed, BARE), wide = seeded(seed, BARE ",gradient=4");
        for (uint32_t r = 0; r < own.program.ranks; r++) {
            const struct program_rank *a = &own.program.rank[r], *b = &wide.program.rank[r];
            /* numbers of 2 bytes; parts of ZeRO 2 and 3 are rounded down */
            assert_near((double)b->gradient_bytes, 2 * (double)a->gradient_bytes, 2.0);
            assert_true(b->weight_bytes == a->weight_bytes && b->state_bytes == a->state_bytes);
            assert_true(b->scratch_bytes >= a->scratch_bytes);
            assert_true(own.plan.zero >= 2 || b->scratch_bytes == a->scratch_bytes);
        }
        lowered_free(&own);
        lowered_free(&wide);
    }
}

/* Logits of the rank's shard, where it has the loss. */
static int64_t logits_of(const struct lowered *s, uint32_t rank)
{
    for (size_t k = 0; k < s->plan.stages; k++)
        for (size_t i = 0; i < s->plan.stage[k].ops; i++) {
            const struct model_op *o = &s->model.op[s->plan.stage[k].op[i]];
            bool here = false;
            for (size_t d = 0; d < s->plan.stage[k].devices; d++)
                here |= s->plan.stage[k].device[d] == s->program.rank[rank].device;
            if (here && !strcmp(o->kind, "loss"))
                return s->plan.microbatch_size * model_attribute(o, "tokens", 0) *
                       model_attribute(o, "vocabulary", 0) / s->plan.stage[k].tensor_parallel;
        }
    return 0;
}

/* A loss that takes very much is the most that a backward has, and a byte more is one per logit. */
static void losses_take_bytes_per_logit(void **state)
{
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct lowered bare = seeded(seed, BARE), much = seeded(seed, LEAN ",logit=500"),
                       more = seeded(seed, LEAN ",logit=501");
        for (uint32_t r = 0; r < bare.program.ranks; r++) {
            int64_t logits = logits_of(&bare, r), least = bare.program.rank[r].scratch_bytes;
            int64_t a = much.program.rank[r].scratch_bytes, b = more.program.rank[r].scratch_bytes;
            assert_true(b - a == logits);
            assert_true(a >= least && a <= least + 500 * logits);
        }
        lowered_free(&bare);
        lowered_free(&much);
        lowered_free(&more);
    }
}

static void workspaces_are_there_once(void **state)
{
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct lowered bare = seeded(seed, BARE),
                       with = seeded(seed, "eager:logit=0,workspace=1e9");
        for (uint32_t r = 0; r < bare.program.ranks; r++)
            assert_true(program_peak(&with.program, r, NULL) ==
                        program_peak(&bare.program, r, NULL) + 1000000000);
        lowered_free(&bare);
        lowered_free(&with);
    }
}

/* What the executor has places for, a framework has room for. */
static void no_more_than_the_executor(void **state)
{
    size_t less = 0;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct lowered own = seeded(seed, NULL), freed = seeded(seed, BARE);
        for (uint32_t r = 0; r < own.program.ranks; r++) {
            int64_t most = program_peak(&own.program, r, NULL),
                    bytes = program_peak(&freed.program, r, NULL);
            assert_true(bytes <= most);
            less += bytes < most;
        }
        lowered_free(&own);
        lowered_free(&freed);
    }
    assert_true(less > TRIALS);
}

/* What ops keep, by their kinds: Korthikanti et al. 2023, section 4.1. */
static void masks_and_weights_of_experts_are_closed_forms(void **state)
{
    struct framework bare = framework_of(BARE), masked = framework_of(BARE ",dropout=1"),
                     weighted = framework_of(BARE ",weighted=1");
    size_t squares = 0, experts = 0;
    for (size_t i = 0; i < SPECS; i++) {
        struct model m = {0};
        if (zoo_build(specs[i], &m) != STATUS_OK)
            fail_msg("%s", error_message());
        for (size_t k = 0; k < m.n; k++) {
            const struct model_op *o = &m.op[k];
            int64_t tokens = model_attribute(o, "tokens", 0), more = 0, less = 0;
            if (!strcmp(o->kind, "residual"))
                more = tokens * model_attribute(o, "channels", 0);
            if (!strcmp(o->kind, "attention") && !model_attribute(o, "flash", 0)) {
                more = 3 * tokens * tokens * model_attribute(o, "heads", 0);
                squares++;
            }
            if (!strcmp(o->kind, "experts")) {
                less =
                    2 * tokens * model_attribute(o, "top_k", 0) * model_attribute(o, "channels", 0);
                experts++;
            }
            assert_true(cost_stash(&m, o, NULL) == o->stash_bytes);
            assert_true(cost_stash(&m, o, &bare) == o->stash_bytes);
            assert_true(cost_stash(&m, o, &masked) == o->stash_bytes + more);
            assert_true(cost_stash(&m, o, &weighted) == o->stash_bytes - less);
            assert_true(less < o->stash_bytes || less == 0);
        }
        model_free(&m);
    }
    assert_true(squares > 0 && experts > 0);
}

/* The last op that reads op t; t itself: none does. */
static uint32_t last_reader(const struct model *m, uint32_t t)
{
    uint32_t last = t;
    for (size_t e = m->out_start[t]; e < m->out_start[t + 1]; e++)
        last = m->out[e] > last ? m->out[e] : last;
    return last;
}

/* At the backward of op k there are the stashes of ops up to k, gradients of outputs that a later
 * op or k reads, and one more of k's largest input that another op has begun. */
static int64_t slow_peak(const struct model *m, int64_t samples)
{
    int64_t most = 0;
    for (uint32_t k = 0; k < m->n; k++) {
        int64_t now = 0, apart = 0;
        for (uint32_t t = 0; t <= k; t++) {
            bool read = m->out_start[t] < m->out_start[t + 1];
            now += m->op[t].stash_bytes;
            now += read && last_reader(m, t) >= k ? m->op[t].output_bytes : 0;
        }
        for (size_t e = m->in_start[k]; e < m->in_start[k + 1]; e++)
            if (last_reader(m, m->in[e]) > k && m->op[m->in[e]].output_bytes > apart)
                apart = m->op[m->in[e]].output_bytes;
        most = now + apart > most ? now + apart : most;
    }
    return samples * most;
}

static void a_backward_gives_back_what_it_has_read(void **state)
{
    for (size_t i = 0; i < SPECS; i++)
        for (uint32_t samples = 1; samples < 4; samples++) {
            const struct partition_request one = {.stages = 1,
                                                  .replicas = 1,
                                                  .microbatches = 2,
                                                  .microbatch_size = samples,
                                                  .schedule = "1f1b",
                                                  .optimizer = "adam",
                                                  .model = specs[i],
                                                  .platform = "p"};
            struct lowered s = planned(specs[i], one, 1, BARE);
            assert_true(program_peak(&s.program, 0, NULL) -
                            program_static_bytes(&s.program.rank[0]) ==
                        slow_peak(&s.model, samples));
            lowered_free(&s);
        }
}

/* Gradients of products with weights, of a microbatch of the op's stage. */
static int64_t slow_waiting(const struct lowered *s, const struct program_op *o)
{
    const struct plan_stage *stage = &s->plan.stage[o->stage];
    int64_t bytes = 0;
    for (size_t k = 0; k < stage->ops; k++)
        if (!strcmp(s->model.op[stage->op[k]].kind, "linear"))
            bytes += s->plan.microbatch_size * s->model.op[stage->op[k]].output_bytes;
    return bytes;
}

/* Most that a rank keeps when gradients wait from the first half of a backward to the second. */
static int64_t slow_halves(const struct lowered *s, uint32_t rank, size_t *halves)
{
    int64_t held = 0, most = 0, kept[DEVICES] = {0}; /* [stages] by a microbatch */
    for (size_t i = s->program.op_start[rank]; i < s->program.op_start[rank + 1]; i++) {
        const struct program_op *o = &s->program.op[i];
        if (o->kind == OP_FORWARD)
            kept[o->stage] = o->bytes;
        if (o->kind == OP_FORWARD)
            held += kept[o->stage];
        if (o->kind == OP_BACKWARD_INPUT)
            held += slow_waiting(s, o);
        most = held > most ? held : most;
        if (o->kind == OP_BACKWARD || o->kind == OP_BACKWARD_WEIGHT)
            held -= kept[o->stage];
        if (o->kind == OP_BACKWARD_WEIGHT)
            held -= slow_waiting(s, o);
        *halves += o->kind == OP_BACKWARD_WEIGHT;
    }
    assert_true(held == 0);
    return most;
}

static void gradients_wait_between_halves_of_backwards(void **state)
{
    static const char *const schedules[] = {"zb-h1", "zb-v", "dualpipe-v", "dualpipe"};
    size_t halves = 0, less = 0;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        uint64_t draw = seed;
        uint32_t which = random_below(&draw, 4), chunks = which > 0 ? 2 : 1;
        struct partition_request request = {.stages = DEVICES / 2,
                                            .chunks = chunks,
                                            .replicas = 2 * chunks,
                                            .microbatches =
                                                2 * chunks * (4 + random_below(&draw, 12)),
                                            .microbatch_size = 1 + random_below(&draw, 2),
                                            .schedule = schedules[which],
                                            .optimizer = "adam",
                                            .model = specs[seed % 2],
                                            .platform = "p"};
        struct lowered own = planned(specs[seed % 2], request, DEVICES, NULL),
                       freed = planned(specs[seed % 2], request, DEVICES, BARE);
        for (uint32_t r = 0; r < freed.program.ranks; r++) {
            const struct program_rank *rank = &freed.program.rank[r];
            int64_t peak = program_peak(&freed.program, r, NULL);
            assert_true(peak - program_static_bytes(rank) - rank->scratch_bytes ==
                        slow_halves(&freed, r, &halves));
            assert_true(peak <= program_peak(&own.program, r, NULL));
            less += peak < program_peak(&own.program, r, NULL);
        }
        lowered_free(&own);
        lowered_free(&freed);
    }
    assert_true(halves > TRIALS && less > TRIALS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_as_wide_as_the_framework_keeps_them),
        cmocka_unit_test(losses_take_bytes_per_logit),
        cmocka_unit_test(workspaces_are_there_once),
        cmocka_unit_test(no_more_than_the_executor),
        cmocka_unit_test(masks_and_weights_of_experts_are_closed_forms),
        cmocka_unit_test(a_backward_gives_back_what_it_has_read),
        cmocka_unit_test(gradients_wait_between_halves_of_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
