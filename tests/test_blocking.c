/* Messages that block the loop that computes: closed forms of 1F1B and GPipe on both engines, a
 * slow walk over random stages, and random plans, which never become faster and never deadlock. */
#include <math.h>

#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/random_plan.h"
#include "tests/sample.h"
#include "topologies/write.h"

enum { STAGES = 6, MICROBATCHES = 12 };

/* Nothing of a framework but how it sends. */
static const char blocks[] = "megatron:p2p_blocking=1,step_s=0,kernel_s=0,interference=0",
                  goes_on[] = "megatron:p2p_blocking=0,step_s=0,kernel_s=0,interference=0";

static void set_framework(struct plan *p, const char *text)
{
    if (plan_set_framework(p, text) != STATUS_OK)
        fail_msg("%s", error_message());
}

static struct lowered set_up(size_t stages, uint32_t microbatches, double f, double b, double c,
                             const char *schedule)
{
    struct lowered s = {.model = sample_chain(stages, f, b, 0, (int64_t)round(c * 1e9)),
                        .topology = sample_clique(stages, 0, 1e9)};
    s.plan = sample_plan(&s.model, stages, 1, microbatches, schedule);
    return s;
}

/* A link of its own for every pair: what comes from both neighbours shares no port. */
static void own_links(struct lowered *s)
{
    s->platform = sample_text(BINARY_DIR "/blocking.xml");
    if (topology_write_platform(&s->topology, s->platform, NULL) != STATUS_OK)
        fail_msg("%s", error_message());
}

static double seconds(struct lowered *s, const char *framework)
{
    set_framework(&s->plan, framework);
    return lowered_seconds(s, NULL); /* both engines agree to 1e-6 */
}

/* Every pass but the last stage's forwards and the first one's backwards is followed by a transfer
 * in its rank: a pipeline of passes of f + c and b + c, without the c behind the last of both
 * directions; and of 1F1B, whose last stage turns around at once, without one more. */
static void closed_forms_of_gpipe_and_1f1b(void **state)
{
    static const char *const schedule[] = {"gpipe", "1f1b"};
    const double f = 2e-3, b = 4e-3;
    for (size_t k = 0; k < 2; k++)
        for (size_t p = 3; p <= STAGES; p++)
            for (uint32_t m = (uint32_t)p; m <= MICROBATCHES; m += 3)
                for (double c = 5e-4; c < 9e-3; c *= 4) {
                    struct lowered s = set_up(p, m, f, b, c, schedule[k]);
                    own_links(&s);
                    double expected = (double)(m + p - 1) * (f + b + 2 * c) - (double)(2 + k) * c;
                    double t = seconds(&s, blocks);
                    assert_near(t, expected, 1e-9 * expected);
                    assert_true(t >= seconds(&s, goes_on));
                    lowered_free(&s);
                }
}

/* A rank's passes in the order of 1F1B: forward k is k, backward k is ~k. */
static void order_1f1b(size_t stages, size_t stage, int m, int *order)
{
    int ahead = (int)(stages - stage) - 1, forward = 0, backward = 0, n = 0;
    while (backward < m) {
        bool next = forward < m && forward - backward < ahead + 1;
        order[n++] = next ? forward++ : ~backward++;
    }
}

/* Ends of all passes, over and over until none changes; a pass waits for what is sent before it. */
static double slowly(size_t stages, int m, const double *f, const double *b, double c)
{
    int order[STAGES][2 * MICROBATCHES];
    double end[STAGES][2][MICROBATCHES] = {{{0}}}, worst = 0;
    for (size_t s = 0; s < stages; s++)
        order_1f1b(stages, s, m, order[s]);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t s = 0; s < stages; s++) {
            double free_s = 0;
            for (int i = 0; i < 2 * m; i++) {
                bool back = order[s][i] < 0, sends = back ? s > 0 : s + 1 < stages;
                int k = back ? ~order[s][i] : order[s][i];
                double came = !back && s > 0           ? end[s - 1][0][k] + c
                              : back && s + 1 < stages ? end[s + 1][1][k] + c
                                                       : 0;
                double now = fmax(free_s, came) + (back ? b[s] : f[s]);
                changed |= now > end[s][back][k] * (1 + 1e-15);
                end[s][back][k] = fmax(now, end[s][back][k]);
                free_s = now + (sends ? c : 0);
                worst = fmax(worst, now);
            }
        }
    }
    return worst;
}

static void random_stages_agree_with_a_slow_walk(void **state)
{
    uint64_t seed = 316;
    for (int round = 0; round < 60; round++) {
        size_t stages = 2 + random_below(&seed, STAGES - 1);
        uint32_t m = (uint32_t)stages + random_below(&seed, (uint32_t)(MICROBATCHES + 1 - stages));
        double c = 1e-4 * (1 + random_below(&seed, 30)), f[STAGES], b[STAGES];
        struct lowered s = set_up(stages, m, 1, 1, c, "1f1b");
        for (size_t k = 0; k < stages; k++) {
            s.model.profile[0].forward_s[k] = f[k] = 1e-4 * (1 + random_below(&seed, 50));
            s.model.profile[0].backward_s[k] = b[k] = 1e-4 * (1 + random_below(&seed, 90));
        }
        double expected = slowly(stages, (int)m, f, b, c);
        set_framework(&s.plan, blocks);
        lower(&s);
        struct measurement a = lowered_measure(&engine_analytic, &s);
        assert_near(a.iteration_s, expected, 1e-9 * expected);
        measurement_free(&a);
        lowered_free(&s);
    }
}

/* plan_lower() checks what it made: a circle would be refused. Without links that are shared, more
 * to wait for is never faster. */
static void random_plans_lower_and_are_never_faster(void **state)
{
    uint64_t seed = 20261122;
    int lowered = 0;
    struct lowered s = {.topology = sample_clique(16, 1e-6, 1e9)};
    for (int tries = 0; lowered < 500 && tries < 20000; tries++) {
        char text[RANDOM_PLAN_TEXT];
        s.model = random_model(&seed);
        s.plan = random_plan(&seed, &s.model, 16);
        random_plan_print(&s.plan, text);
        set_framework(&s.plan, goes_on);
        if (plan_lower(&s.plan, &s.model, &s.topology, &s.program) == STATUS_OK) {
            struct measurement over = lowered_measure(&engine_analytic, &s), blocked;
            set_framework(&s.plan, blocks);
            lower(&s);
            blocked = lowered_measure(&engine_analytic, &s);
            if (blocked.iteration_s < over.iteration_s * (1 - 1e-9))
                fail_msg("%s: blocked %.12g s, overlapped %.12g", text, blocked.iteration_s,
                         over.iteration_s);
            measurement_free(&over);
            measurement_free(&blocked);
            lowered++;
        }
        program_free(&s.program);
        plan_free(&s.plan);
        model_free(&s.model);
    }
    assert_int_equal(lowered, 500);
    topology_free(&s.topology);
}

/* Collectives beside compute: every part of a backward that sums go beside becomes longer by a
 * share of the shorter of both. Two replicas of one stage of two ops in two buckets: the first
 * bucket's sum goes beside the second op's backward. */
static void compute_beside_collectives_takes_a_share_more(void **state)
{
    for (int64_t bytes = 1000000; bytes <= 16000000; bytes *= 4) {
        struct lowered s = {.model = sample_chain(2, 1e-3, 4e-3, bytes, 0),
                            .topology = sample_clique(2, 0, 1e9)};
        s.plan = sample_plan(&s.model, 1, 2, 2, "1f1b");
        s.plan.bucket_bytes = bytes;
        double sum = (double)bytes / 1e9, plain = seconds(&s, goes_on),
               share = seconds(&s, "megatron:p2p_blocking=0,step_s=0,kernel_s=0,interference=0.5");
        double beside = fmin(sum, 4e-3), last = 4e-3 + 0.5 * beside;
        assert_near(share - plain, fmax(last, sum) - fmax(4e-3, sum), 1e-8);
        assert_true(share > plain || sum > 4e-3 * 1.5);
        lowered_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_of_gpipe_and_1f1b),
        cmocka_unit_test(random_stages_agree_with_a_slow_walk),
        cmocka_unit_test(random_plans_lower_and_are_never_faster),
        cmocka_unit_test(compute_beside_collectives_takes_a_share_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
