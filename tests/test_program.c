/* Lowering, matching and checking: known lists, faults named, memory peaks, properties. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/cost.h"
#include "core/data/program_check.h"
#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/put.h"
#include "tests/sample.h"

static struct lowered set_up(size_t stages, uint32_t replicas, uint32_t microbatches,
                             const char *schedule)
{
    struct lowered s = {.model = sample_chain(stages, 1e-3, 2e-3, 1000, 500)};
    s.topology = sample_clique(stages * replicas + 1, 1e-6, 1e9);
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, schedule);
    lower(&s);
    return s;
}

static void list_of(const struct program *p, uint32_t rank, char *text, size_t size)
{
    char label[OP_LABEL];
    text[0] = '\0';
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        size_t n = strlen(text);
        snprintf(text + n, size - n, "%s%s", n ? " " : "", op_label(&p->op[i], label));
    }
}

static void lowers_two_stages_of_1f1b_to_the_textbook_lists(void **state)
{
    char text[1024];
    struct lowered s = set_up(2, 1, 2, "1f1b");
    list_of(&s.program, 0, text, sizeof text);
    assert_string_equal(text, "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0UPDATE");
    list_of(&s.program, 1, text, sizeof text);
    assert_string_equal(text, "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1UPDATE");
    lowered_free(&s);
}

static void every_microbatch_reaches_one_replica_of_each_stage(void **state)
{
    struct lowered s = set_up(3, 2, 5, "gpipe");
    const struct program *p = &s.program;
    for (uint32_t stage = 0; stage < 3; stage++)
        for (uint32_t m = 0; m < 5; m++) {
            size_t forward = 0, backward = 0;
            for (size_t i = 0; i < p->ops; i++) {
                const struct program_op *o = &p->op[i];
                if (o->stage != stage || o->microbatch != m)
                    continue;
                forward += o->kind == OP_FORWARD;
                backward += o->kind == OP_BACKWARD;
            }
            assert_int_equal(forward, 1);
            assert_int_equal(backward, 1);
        }
    assert_int_equal(p->groups, 3);
    lowered_free(&s);
}

/* In flight at most: GPipe keeps all M microbatches, 1F1B P - s of them (Narayanan et al. 2021).
 * A stage stashes 500 bytes of its own per microbatch, 500 received with as many of their gradient,
 * and 500 of the gradient that comes back for what it sends; the first receives none, nobody sends
 * the last one any. The gradient of its output is scratch; the last one's has no reader. */
static void memory_peaks_are_the_textbook_in_flight_counts(void **state)
{
    for (size_t stages = 1; stages <= 8; stages++)
        for (uint32_t m = 1; m <= 12; m++)
            for (int gpipe = 0; gpipe < 2; gpipe++) {
                struct lowered s = set_up(stages, 1, m, gpipe ? "gpipe" : "1f1b");
                assert_int_equal(program_check(&s.program), STATUS_OK);
                for (size_t k = 0; k < stages; k++) {
                    size_t flight = gpipe || m < stages - k ? m : stages - k;
                    int64_t stash = 500 + (k > 0 ? 1000 : 0) + (k + 1 < stages ? 500 : 0);
                    assert_int_equal(program_peak(&s.program, (uint32_t)k, NULL),
                                     2 * 1000 + (int64_t)flight * stash +
                                         (k + 1 < stages ? 500 : 0));
                }
                lowered_free(&s);
            }
}

/* a -> b -> c -> d with skips a -> c and a -> d, cut into three stages {a} {b} {c, d}: stage 2
 * reads a twice but gets it once. */
static void a_tensor_crosses_once_per_destination_stage(void **state)
{
    struct model m = {.name = sample_text("skip"), .element_bytes = 4, .n = 4};
    static const struct model_edge edge[] = {{0, 1}, {1, 2}, {0, 2}, {2, 3}, {0, 3}};
    m.op = calloc(4, sizeof *m.op);
    for (size_t i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), 0};
        m.op[i] = (struct model_op){.name = sample_text(name),
                                    .kind = sample_text("Block"),
                                    .forward_flop = 1e9,
                                    .backward_flop = 2e9,
                                    .shares = MODEL_NO_OP,
                                    .output_bytes = 100 << i};
    }
    assert_int_equal(model_finish(&m, edge, 5, "skip"), STATUS_OK);
    struct topology t = sample_clique(3, 1e-6, 1e9);
    struct plan p = sample_plan(&m, 3, 1, 1, "1f1b");
    struct program program = {0};
    if (plan_lower(&p, &m, &t, &program) != STATUS_OK)
        fail_msg("%s", error_message());
    int64_t bytes[3][3] = {0};
    for (size_t i = 0; i < program.ops; i++)
        if (program.op[i].kind == OP_SEND)
            bytes[program.op[i].stage][program.op[i].peer_stage] += program.op[i].bytes;
    assert_int_equal(bytes[0][1], 100);
    assert_int_equal(bytes[0][2], 100);
    assert_int_equal(bytes[1][2], 200);
    assert_int_equal(bytes[2][0], 100); /* gradients go back the same way */
    assert_int_equal(bytes[2][1], 200);
    program_free(&program);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

static void tied_weights_in_two_stages_are_reduced_between_them(void **state)
{
    struct model m = sample_chain(4, 1e-3, 2e-3, 1000, 500);
    m.op[3].shares = 0;
    m.op[3].shared_bytes = 400;
    m.op[3].parameter_bytes = 0;
    struct topology t = sample_clique(4, 1e-6, 1e9);
    struct plan p = sample_plan(&m, 2, 2, 4, "1f1b");
    struct program program = {0};
    if (plan_lower(&p, &m, &t, &program) != STATUS_OK)
        fail_msg("%s", error_message());
    size_t tied = 0, replica = 0;
    for (size_t i = 0; i < program.ops; i++) {
        const struct program_op *o = &program.op[i];
        tied += o->kind == OP_ALLREDUCE && o->tag == 0 && o->bytes == 400;
        replica += o->kind == OP_ALLREDUCE && o->tag == PROGRAM_NONE;
    }
    assert_int_equal(tied, 4);
    assert_int_equal(replica, 4);
    assert_int_equal(model_parameters(&m), 750);
    program_free(&program);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

/* Swap the two messages that the ranks exchange so that each waits for the other first. */
static void a_deadlock_is_reported_with_its_wait_cycle(void **state)
{
    struct lowered s = set_up(2, 1, 1, "1f1b");
    struct program *p = &s.program;
    char label[OP_LABEL];
    /* rank 0: 0F0 SEND_F0 RECV_B0 B0 UPDATE; move RECV_B0 before SEND_F0 */
    struct program_op *send = &p->op[p->op_start[0] + 1], *recv = send + 1;
    assert_string_equal(op_label(send, label), "0SEND_F0");
    assert_string_equal(op_label(recv, label), "0RECV_B0");
    struct program_op keep = *send;
    uint32_t f0 = (uint32_t)p->op_start[0];
    *send = *recv;
    *recv = keep;
    send->dep_start = recv->dep_start = send[-1].dep_start; /* the RECV has no dependencies ... */
    p->dep[recv->dep_start] = f0;                           /* ... the SEND has the forward ... */
    for (uint32_t d = recv[1].dep_start; d < recv[2].dep_start; d++)
        p->dep[d] = p->dep[d] == f0 + 2 ? f0 + 1 : p->dep[d]; /* ... and B0 the moved RECV */
    assert_int_equal(program_match(p), STATUS_OK);
    assert_int_equal(program_check(p), STATUS_INVALID);
    assert_message(error_message(), "deadlock: rank 0 (h0) at 0RECV_B0 waits for rank 1 tag 1; "
                                    "rank 1 (h1) at 1RECV_F0 waits for rank 0 tag 0");
    lowered_free(&s);
}

static void a_message_without_its_other_side_is_named(void **state)
{
    struct lowered s = set_up(2, 1, 1, "1f1b");
    for (size_t i = 0; i < s.program.ops; i++)
        if (s.program.op[i].kind == OP_RECV && !s.program.op[i].backward)
            s.program.op[i].tag = 77;
    assert_int_equal(program_match(&s.program), STATUS_INVALID);
    assert_message(error_message(),
                   "rank 0 (h0): 0SEND_F0 to/from rank 1 tag 0 has no matching RECV");
    lowered_free(&s);
}

static void a_group_of_ranks_that_do_not_exist_is_refused(void **state)
{
    struct lowered s = set_up(2, 2, 4, "1f1b");
    assert_true(s.program.groups > 0);
    s.program.member[0] = 4;
    assert_int_equal(program_match(&s.program), STATUS_INVALID);
    assert_message(error_message(), "group has rank 4 4");
    lowered_free(&s);
}

static void sizes_that_differ_between_the_two_sides_are_refused(void **state)
{
    struct lowered s = set_up(2, 1, 1, "1f1b");
    s.program.op[1].bytes++;
    assert_int_equal(program_check(&s.program), STATUS_INVALID);
    assert_message(error_message(), "has 501 bytes, its 500");
    lowered_free(&s);
}

/* Two stages of two replicas, of which only one thing is wrong. */
static void refused_division(const char *reason, void (*spoil)(struct program *p))
{
    struct lowered s = set_up(2, 2, 4, "1f1b");
    assert_int_equal(program_check(&s.program), STATUS_OK);
    spoil(&s.program);
    assert_int_equal(program_check(&s.program), STATUS_INVALID);
    if (!message_says(error_message(), reason))
        fail_msg("'%s' does not say '%s'", error_message(), reason);
    lowered_free(&s);
}

static void claim_zero(struct program *p)
{
    p->stage[1].zero = 2;
}
static void claim_zero_alone(struct program *p)
{
    p->stage[1].zero = 1;
    p->stage[1].replicas = 1;
}
static void claim_split(struct program *p)
{
    p->stage[0].split = true;
}
static void claim_one_replica(struct program *p)
{
    p->stage[0].replicas = 1;
}
static void claim_no_buckets(struct program *p)
{
    p->stage[0].buckets = 0;
}
static void claim_more_buckets(struct program *p)
{
    p->stage[1].buckets = 2;
}
static void claim_a_bucket_behind_the_ops(struct program *p)
{
    p->bucket[1].low = 7;
}
static void claim_a_part(struct program *p)
{
    for (size_t i = 0; i < p->ops; i++)
        p->op[i].part = p->op[i].kind == OP_BACKWARD && p->op[i].microbatch == 1;
}

static void what_a_program_says_of_its_stages_is_checked(void **state)
{
    refused_division("ZeRO 1 replica", claim_zero_alone);
    refused_division("1ALLREDUCE stage ZeRO 2", claim_zero);
    refused_division("backward passes are marked as split", claim_split);
    refused_division("replica 1, shard 0", claim_one_replica);
    refused_division("stage 0: 0 buckets", claim_no_buckets);
    refused_division("stage 1: 2 buckets", claim_more_buckets);
    refused_division("bucket 0 begins at op 7", claim_a_bucket_behind_the_ops);
    refused_division("no collective reduces the 1000 bytes of bucket 0", claim_a_part);
}

static void a_program_of_the_version_before_is_refused(void **state)
{
    static const char path[] = BINARY_DIR "/test_program_1.json";
    struct program p;
    put_text(path, "{\"format\": \"foreline-program\", \"version\": 1, \"stages\": [[0]]}\n");
    assert_int_equal(program_read(path, &p), STATUS_PARSE);
    assert_message(error_message(), "version 1 lacks the parallelism of each stage");
    remove(path);
}

static void every_schedule_passes_the_checker_for_many_shapes(void **state)
{
    static const char *const names[] = {"gpipe", "1f1b"};
    for (size_t k = 0; k < 2; k++)
        for (size_t stages = 1; stages <= 8; stages++)
            for (uint32_t replicas = 1; replicas <= 4; replicas++)
                for (uint32_t m = replicas; m <= 33; m += 4) {
                    struct lowered s = set_up(stages, replicas, m, names[k]); /* checks */
                    lowered_free(&s);
                }
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct lowered s = set_up(3, 2, 4, "1f1b");
    struct program p = {0};
    FOR_EACH_ALLOC_FAILURE((program_free(&p), plan_lower(&s.plan, &s.model, &s.topology, &p)));
    program_free(&p);
    lowered_free(&s);
}

static void plans_that_break_their_contract_are_refused(void **state)
{
    struct lowered s = set_up(2, 1, 2, "1f1b");
    s.plan.stage[1].device[0] = s.plan.stage[0].device[0];
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_INVALID);
    assert_message(error_message(), "schedule 1f1b 2 1");
    s.plan.stage[1].device[0] = 1;
    s.plan.stage[0].op[0] = 1; /* op1 twice, op0 nowhere */
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_INVALID);
    assert_message(error_message(), "op 'op1' is in stages 0 and 1");
    s.plan.stage[1].op[0] = 0; /* op1 before op0, which it needs */
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_INVALID);
    assert_message(error_message(), "'op1' stage 0 'op0' 1");
    lowered_free(&s);
}

/* ---- models */

static void a_cycle_is_named(void **state)
{
    struct model m = sample_chain(3, 1, 1, 0, 0);
    static const struct model_edge edge[] = {{0, 1}, {1, 2}, {2, 1}};
    free(m.in_start);
    free(m.out_start);
    free(m.in);
    free(m.out);
    m.in_start = m.out_start = NULL;
    m.in = m.out = NULL;
    assert_int_equal(model_finish(&m, edge, 3, "loop.json"), STATUS_INVALID);
    assert_message(error_message(), "loop.json cycle");
    assert_null(m.op);
}

static void ops_in_any_order_are_sorted_with_branches_together(void **state)
{
    /* e -> c -> a, e -> d -> b, a and b -> f, given as a b c d e f */
    struct model m = {.name = sample_text("branch"), .element_bytes = 4, .n = 6};
    static const struct model_edge edge[] = {{4, 2}, {2, 0}, {4, 3}, {3, 1}, {0, 5}, {1, 5}};
    m.op = calloc(6, sizeof *m.op);
    for (size_t i = 0; i < 6; i++) {
        char name[2] = {(char)('a' + i), 0};
        m.op[i] = (struct model_op){
            .name = sample_text(name), .kind = sample_text("x"), .shares = MODEL_NO_OP};
    }
    assert_int_equal(model_finish(&m, edge, 6, "branch"), STATUS_OK);
    char order[7] = "";
    for (size_t i = 0; i < 6; i++)
        order[i] = m.op[i].name[0];
    assert_string_equal(order, "ecadbf");
    assert_int_equal(m.in_start[6] - m.in_start[5], 2);
    assert_string_equal(m.op[m.in[m.in_start[5]]].name, "a");
    model_free(&m);
}

/* ---- costs */

static void the_roofline_takes_the_slower_of_compute_and_memory(void **state)
{
    struct model m = sample_chain(1, 0, 0, 0, 0);
    m.profiles = 0;
    free(m.profile[0].device);
    free(m.profile[0].forward_s);
    free(m.profile[0].backward_s);
    m.op[0].forward_flop = 4e9;
    m.op[0].backward_flop = 1e9;
    m.op[0].backward_bytes = 3e9;
    struct topology t = sample_clique(1, 0, 1);
    t.type[0].launch_s = 1e-5;
    struct op_cost c = cost_op(&m, &t.type[0], 0, 2, "adam", NULL);
    assert_near(c.forward_s, 1e-5 + 8e9 / 1e12, 1e-15);
    assert_near(c.backward_s, 1e-5 + 6e9 / 1e12, 1e-15);
    assert_near(c.update_s, 0, 0);
    topology_free(&t);
    model_free(&m);
}

static void measured_rates_are_interpolated_and_flagged_outside(void **state)
{
    struct model m = sample_chain(1, 0, 0, 0, 0);
    m.profiles = 0;
    free(m.profile[0].device);
    free(m.profile[0].forward_s);
    free(m.profile[0].backward_s);
    m.op[0].forward_flop = 1e7;
    struct topology t = sample_clique(1, 0, 1);
    t.type[0].rates = 1;
    t.type[0].rate = calloc(1, sizeof *t.type[0].rate);
    struct topology_rate *r = t.type[0].rate;
    *r = (struct topology_rate){sample_text("Block.forward"), 2, calloc(2, 8), calloc(2, 8)};
    r->flop[0] = 1e6;
    r->flop[1] = 1e8;
    r->flops[0] = 1e9;
    r->flops[1] = 3e9;
    struct op_cost c = cost_op(&m, &t.type[0], 0, 1, "sgd", NULL); /* 1e7: half way in the log */
    assert_near(c.forward_s, 1e7 / 2e9, 1e-12);
    assert_false(c.extrapolated);
    c = cost_op(&m, &t.type[0], 0, 100, "sgd", NULL);
    assert_near(c.forward_s, 1e9 / 3e9, 1e-12);
    assert_true(c.extrapolated);
    topology_free(&t);
    model_free(&m);
}

/* The slow way: both ends of every message sorted by (from, to, tag). */
static void lowering_matches_as_sorting_does(void **state)
{
    for (uint32_t replicas = 1; replicas <= 3; replicas++) {
        struct lowered s = set_up(5, replicas, 7 * replicas, "1f1b");
        struct program *p = &s.program;
        uint32_t *match = calloc(2 * p->ops, sizeof *match), *channel = match + p->ops;
        struct program_channel *between = calloc(p->channels, sizeof *between);
        assert_true(match && between);
        for (size_t i = 0; i < p->ops; i++) {
            match[i] = p->op[i].match;
            channel[i] = p->op[i].channel;
        }
        size_t channels = p->channels;
        memcpy(between, p->channel, channels * sizeof *between);
        assert_int_equal(program_match(p), STATUS_OK);
        assert_int_equal(p->channels, channels);
        assert_memory_equal(p->channel, between, channels * sizeof *between);
        for (size_t i = 0; i < p->ops; i++) {
            assert_int_equal(p->op[i].match, match[i]);
            assert_int_equal(p->op[i].channel, channel[i]);
        }
        free(match);
        free(between);
        lowered_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowering_matches_as_sorting_does),
        cmocka_unit_test(lowers_two_stages_of_1f1b_to_the_textbook_lists),
        cmocka_unit_test(every_microbatch_reaches_one_replica_of_each_stage),
        cmocka_unit_test(memory_peaks_are_the_textbook_in_flight_counts),
        cmocka_unit_test(a_tensor_crosses_once_per_destination_stage),
        cmocka_unit_test(tied_weights_in_two_stages_are_reduced_between_them),
        cmocka_unit_test(a_deadlock_is_reported_with_its_wait_cycle),
        cmocka_unit_test(a_message_without_its_other_side_is_named),
        cmocka_unit_test(a_group_of_ranks_that_do_not_exist_is_refused),
        cmocka_unit_test(sizes_that_differ_between_the_two_sides_are_refused),
        cmocka_unit_test(what_a_program_says_of_its_stages_is_checked),
        cmocka_unit_test(a_program_of_the_version_before_is_refused),
        cmocka_unit_test(every_schedule_passes_the_checker_for_many_shapes),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
        cmocka_unit_test(plans_that_break_their_contract_are_refused),
        cmocka_unit_test(a_cycle_is_named),
        cmocka_unit_test(ops_in_any_order_are_sorted_with_branches_together),
        cmocka_unit_test(the_roofline_takes_the_slower_of_compute_and_memory),
        cmocka_unit_test(measured_rates_are_interpolated_and_flagged_outside),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
