/* Context parallelism by hand on both engines, and what is refused. Every link 1 GB/s without
 * latency, so that bytes are nanoseconds. */
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MEGA = 1000000 };

/* Four ops of 1 ms forward and 2 ms backward, 8 MB of parameters and outputs of 1 MB; op 1 is
 * attention of 4 heads, whose keys and values are 2 MB. Two replicas share a sequence. */
static struct lowered set_up(size_t stages, uint32_t replicas, uint32_t microbatches)
{
    struct lowered s = {.model = sample_chain(4, 1e-3, 2e-3, 8 * MEGA, MEGA)};
    struct model_op *o = &s.model.op[1];
    s.model.tokens_per_sample = 64;
    o->context_bytes = 2 * MEGA;
    o->attribute = calloc(1, sizeof *o->attribute);
    assert_non_null(o->attribute);
    o->attribute[o->attributes++] = (struct model_attribute){sample_text("heads"), 4};
    s.topology = sample_clique(stages * replicas, 0, 1e9);
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, "1f1b");
    for (size_t k = 0; k < stages; k++) {
        s.plan.stage[k].context_parallel = 2;
        for (uint32_t r = 0; r < replicas; r++)
            s.plan.stage[k].device[r] = (uint32_t)k * replicas + r;
    }
    return s;
}

/* Gradients of 32 MB over 4 replicas, 48 ms, and the optimizer: 4 bytes a parameter byte at 1
 * TB/s. */
static const double sums_s = 48e-3 + 32 * MEGA * 4 / 1e12;

/* Two streams of two replicas, a microbatch each: 2 ms forward and 4 ms backward. An all-gather
 * of 2 MB over two takes 1 ms, forward once, backward twice with the scatter. The ring: half of
 * the attention's 0.5 and 1 ms pass meanwhile. All-to-all: (1 + 2) / 2 MB in and 1 / 2 MB out,
 * of which half goes to the other, 0.75 + 0.25 ms in each direction. */
static void an_iteration_takes_the_closed_form_time(void **state)
{
    static const double forward_s[] = {1e-3 + 1.75e-3, 3e-3, 3e-3};
    static const double backward_s[] = {2e-3 + 3.5e-3, 6e-3, 5e-3};
    static const double wait_s[] = {0.75e-3 + 1.5e-3, 3e-3, 2e-3};
    for (int k = 0; k < EXCHANGE_KINDS; k++) {
        struct lowered s = set_up(1, 4, 2);
        double exposed_s[OP_PURPOSES];
        s.plan.context_exchange = (enum plan_exchange)k;
        assert_near(lowered_seconds(&s, exposed_s), forward_s[k] + backward_s[k] + sums_s, 1e-9);
        assert_near(exposed_s[FOR_CONTEXT], wait_s[k], 1e-9);
        lowered_free(&s);
    }
}

/* A tenth of the bytes pass while half of the attention computes. */
static void a_ring_hides_behind_attention(void **state)
{
    struct lowered s = set_up(1, 4, 4);
    double exposed_s[OP_PURPOSES];
    s.model.op[1].context_bytes = MEGA / 5;
    assert_near(lowered_seconds(&s, exposed_s), 2 * 6e-3 + sums_s, 1e-9);
    assert_near(exposed_s[FOR_CONTEXT], 0, 1e-12);
    s.plan.context_exchange = EXCHANGE_ALLGATHER;
    assert_near(lowered_seconds(&s, exposed_s), 2 * 6.3e-3 + sums_s, 1e-9);
    lowered_free(&s);
}

/* What is made again is exchanged again: full, 1 + 2 + 1 ms more by all-gather; selective,
 * attention alone. */
static void recomputation_exchanges_again(void **state)
{
    struct lowered s = set_up(1, 4, 2);
    double exposed_s[OP_PURPOSES];
    s.plan.context_exchange = EXCHANGE_ALLGATHER;
    s.plan.stage[0].recompute = RECOMPUTE_FULL;
    for (size_t i = 0; i < 4;
         i++) /* ops outside of layers are made again where that frees memory */
        s.model.op[i].stash_bytes = 2 * MEGA;
    assert_near(lowered_seconds(&s, exposed_s), 9e-3 + 2e-3 + 1e-3 + sums_s, 1e-9);
    assert_near(exposed_s[FOR_CONTEXT], 4e-3, 1e-9);
    s.plan.stage[0].recompute = RECOMPUTE_SELECTIVE;
    for (size_t i = 0; i < 4; i++)
        s.model.op[i].stash_bytes = i == 1 ? 2 * MEGA : MEGA;
    assert_near(lowered_seconds(&s, exposed_s), 9e-3 + 0.5e-3 + 1e-3 + sums_s, 1e-9);
    lowered_free(&s);
}

/* ZeRO 3 and buckets: the passes come in parts, of which one has the attention; all bytes are
 * there. */
static void parts_of_passes_exchange_their_own(void **state)
{
    for (uint32_t zero = 0; zero <= 3; zero++)
        for (int k = 0; k < EXCHANGE_KINDS; k++) {
            struct lowered s = set_up(1, 4, 2);
            double moved[2] = {0, 0}, computed = 0;
            s.plan.zero = zero;
            s.plan.bucket_bytes = 8 * MEGA;
            s.plan.context_exchange = (enum plan_exchange)k;
            assert_int_equal(plan_lower(&s.plan, &s.model, &s.topology, &s.program), STATUS_OK);
            for (size_t i = s.program.op_start[0]; i < s.program.op_start[1]; i++) {
                const struct program_op *o = &s.program.op[i];
                if (op_is_collective(o) && o->purpose == FOR_CONTEXT)
                    moved[o->backward] += (double)o->count * (double)o->bytes;
                computed += op_computes(o) && o->kind != OP_UPDATE ? o->seconds : 0;
            }
            assert_near(moved[0], 2 * MEGA, 1);
            assert_near(moved[1], k == EXCHANGE_ALLTOALL ? 2 * MEGA : 4 * MEGA, 1);
            assert_near(computed, 6e-3, 1e-12);
            lowered_free(&s);
        }
}

/* Two stages: each position sends its half of the boundary's 1 MB to its like. */
static void stages_exchange_their_own_tokens(void **state)
{
    struct lowered s = set_up(2, 2, 3);
    size_t messages = 0;
    assert_int_equal(plan_lower(&s.plan, &s.model, &s.topology, &s.program), STATUS_OK);
    for (uint32_t r = 0; r < s.program.ranks; r++)
        for (size_t i = s.program.op_start[r]; i < s.program.op_start[r + 1]; i++)
            if (s.program.op[i].kind == OP_SEND) {
                assert_int_equal(s.program.op[i].bytes, MEGA / 2);
                assert_int_equal(s.program.op[i].peer % 2, r % 2);
                messages++;
            }
    assert_int_equal(messages, 3 * 2 * 2);
    assert_int_equal(s.program.stage[0].context_parallel, 2);
    lowered_free(&s);
}

/* Whole, column, split, row over two shards with sequence parallelism: 2 + 4 ms; a scatter and a
 * gather of 1 MB forward, 1 ms, and of the column's input backward. Its second gather passes
 * beside half of the column's backward of 1 ms. */
static void inputs_are_gathered_again_beside_their_gradients(void **state)
{
    static const enum model_tensor kind[] = {TENSOR_WHOLE, TENSOR_COLUMN, TENSOR_SPLIT, TENSOR_ROW};
    const double update_s = 20 * MEGA * 4 / 1e12;
    struct lowered s = set_up(1, 2, 1);
    for (size_t i = 0; i < 4; i++)
        s.model.op[i].tensor = kind[i];
    s.plan.stage[0].replicas = s.plan.stage[0].context_parallel = 1;
    s.plan.stage[0].tensor_parallel = 2;
    s.plan.sequence_parallel = true;
    double exposed_s[OP_PURPOSES];
    assert_near(lowered_seconds(&s, exposed_s), 6e-3 + 1e-3 + 1e-3 + update_s, 1e-9);
    s.model.op[0].output_bytes = 3 * MEGA; /* 1.5 ms beside 0.5 ms */
    assert_near(lowered_seconds(&s, exposed_s), 6e-3 + 1e-3 + 3e-3 + 1e-3 + update_s, 1e-9);
    s.plan.sequence_parallel = false; /* an all-reduce of the same time, of whole inputs */
    assert_near(lowered_seconds(&s, exposed_s), 6e-3 + 1.5e-3 + 1e-3 + 3e-3 + update_s, 1e-9);
    lowered_free(&s);
}

/* Two stages of two shards, a boundary of 1 MB: in parts 0.5 ms on the way and as long to gather,
 * on links that are all alike; half of the bytes leave each shard. */
static void boundaries_are_sent_in_parts_and_gathered(void **state)
{
    double exposed_s[OP_PURPOSES], whole_s = 0;
    for (int scatter = 0; scatter <= 1; scatter++) {
        struct lowered s = set_up(2, 2, 3);
        size_t messages = 0, gathers = 0;
        for (size_t k = 0; k < 2; k++) {
            s.plan.stage[k].replicas = s.plan.stage[k].context_parallel = 1;
            s.plan.stage[k].tensor_parallel = 2;
        }
        s.plan.p2p_scatter = scatter;
        double took_s = lowered_seconds(&s, exposed_s);
        for (size_t i = 0; i < s.program.ops; i++) {
            const struct program_op *o = &s.program.op[i];
            messages += o->kind == OP_SEND && o->bytes == (scatter ? MEGA / 2 : MEGA);
            gathers += o->kind == OP_ALLGATHER && o->purpose == FOR_PIPELINE && o->bytes == MEGA;
        }
        assert_int_equal(messages, 2 * 2 * 3);
        assert_int_equal(gathers, scatter ? 2 * 2 * 3 : 0);
        if (scatter)
            assert_near(took_s, whole_s, 1e-9);
        whole_s = took_s;
        lowered_free(&s);
    }
}

static void what_cannot_be_divided_is_refused(void **state)
{
    struct lowered s = set_up(1, 4, 2);
    s.plan.stage[0].context_parallel = 3;
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_INVALID);
    s.plan.stage[0].context_parallel = 2;
    s.model.tokens_per_sample = 62;
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_UNSUPPORTED);
    assert_message(error_message(), "62 tokens two equal chunks");
    s.model.tokens_per_sample = 64;
    s.plan.context_exchange = EXCHANGE_ALLTOALL;
    s.model.op[1].attribute[0].value = 3;
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_UNSUPPORTED);
    assert_message(error_message(), "3 2 replicas");
    s.model.op[1].context_bytes = 0;
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_UNSUPPORTED);
    assert_message(error_message(), "attention");
    free(s.model.op[1].kind);
    s.model.op[1].kind = sample_text("attention");
    s.model.op[1].type = OPERATOR_UNREAD;
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_UNSUPPORTED);
    assert_message(error_message(), s.model.op[1].name);
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_iteration_takes_the_closed_form_time),
        cmocka_unit_test(a_ring_hides_behind_attention),
        cmocka_unit_test(recomputation_exchanges_again),
        cmocka_unit_test(parts_of_passes_exchange_their_own),
        cmocka_unit_test(stages_exchange_their_own_tokens),
        cmocka_unit_test(boundaries_are_sent_in_parts_and_gathered),
        cmocka_unit_test(inputs_are_gathered_again_beside_their_gradients),
        cmocka_unit_test(what_cannot_be_divided_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
