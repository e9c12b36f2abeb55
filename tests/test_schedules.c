/* Every schedule: the checker over many shapes, closed forms on both engines, memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/measurement.h"
#include "core/data/program_check.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MOST_TEAMS = 8, MOST_REPLICAS = 4 };

/* `chunks` stages on each of `teams` x replicas devices; f = 1 ms, b = 2 ms per stage, half of the
 * backward for the weights. */
static enum status set_up(struct lowered *s, uint32_t teams, uint32_t chunks,
                          const uint32_t *replicas, uint32_t microbatches, const char *schedule)
{
    uint32_t devices = 0, first[MOST_TEAMS];
    const struct schedule *order;
    size_t stages = (size_t)teams * chunks;
    *s = (struct lowered){.model = sample_chain(stages, 1e-3, 2e-3, 4, 0)};
    for (uint32_t t = 0; t < teams; t++) {
        first[t] = devices;
        devices += replicas[t];
    }
    s->topology = sample_clique(devices + 1, 0, 1e9);
    assert_int_equal(schedule_find(schedule, &order), STATUS_OK);
    s->plan = sample_plan(&s->model, stages, 1, microbatches, schedule);
    for (size_t k = 0; k < stages; k++) {
        struct plan_stage *stage = &s->plan.stage[k];
        uint32_t team = schedule_team(order, teams, (uint32_t)k), n = replicas[team];
        stage->replicas = n;
        stage->devices = n;
        free(stage->device);
        stage->device = calloc(n, sizeof *stage->device);
        for (uint32_t r = 0; stage->device && r < n; r++)
            stage->device[r] = first[team] + r;
    }
    return plan_lower(&s->plan, &s->model, &s->topology, &s->program);
}

static void set_up_even(struct lowered *s, uint32_t teams, uint32_t chunks, uint32_t replicas,
                        uint32_t microbatches, const char *schedule)
{
    uint32_t all[MOST_TEAMS];
    for (uint32_t t = 0; t < teams; t++)
        all[t] = replicas;
    if (set_up(s, teams, chunks, all, microbatches, schedule) != STATUS_OK)
        fail_msg("%s P=%u V=%u r=%u M=%u: %s", schedule, teams, chunks, replicas, microbatches,
                 error_message());
}

static void every_schedule_passes_the_checker_for_every_shape(void **state)
{
    for (size_t k = 0; k < schedules_n; k++)
        for (uint32_t teams = 1; teams <= MOST_TEAMS; teams++)
            for (uint32_t chunks = 1; chunks <= 4; chunks++)
                for (uint32_t replicas = 1; replicas <= MOST_REPLICAS; replicas++)
                    for (uint32_t m = replicas; m <= 32; m++) {
                        struct lowered s;
                        bool even = m % replicas == 0;
                        if (!schedule_allows(schedules[k], chunks) ||
                            (schedules[k]->crossed && replicas % 2 == 1) ||
                            (!even && (chunks > 1 || schedules[k]->asynchronous)))
                            continue; /* refused: below */
                        set_up_even(&s, teams, chunks, replicas, m, schedules[k]->name);
                        lowered_free(&s);
                    }
}

static void uneven_replicas_pass_the_checker_and_get_each_microbatch_once(void **state)
{
    static const uint32_t replicas[][4] = {{4, 2, 0}, {2, 4, 0}, {3, 1, 0},    {1, 3, 0},
                                           {4, 2, 2}, {1, 4, 1}, {15, 1, 0},   {1, 15, 0},
                                           {2, 3, 1}, {3, 2, 3}, {1, 2, 4, 1}, {4, 1, 2, 3}};
    for (size_t k = 0; k < schedules_n; k++)
        for (size_t row = 0; row < sizeof replicas / sizeof *replicas; row++) {
            struct lowered s;
            uint32_t teams = 0, all[MOST_TEAMS], m = 60;
            if (!schedule_allows(schedules[k], 1))
                continue;
            while (teams < 4 && replicas[row][teams])
                all[teams] = replicas[row][teams], teams++;
            if (set_up(&s, teams, 1, all, m, schedules[k]->name) != STATUS_OK)
                fail_msg("%s row %zu: %s", schedules[k]->name, row, error_message());
            uint32_t *passes = calloc((size_t)m * teams, sizeof *passes);
            for (size_t i = 0; i < s.program.ops; i++)
                if (s.program.op[i].kind == OP_FORWARD)
                    passes[s.program.op[i].stage * m + s.program.op[i].microbatch]++;
            for (uint32_t i = 0; i < m * teams; i++)
                assert_int_equal(passes[i], 1);
            free(passes);
            lowered_free(&s);
        }
}

static double iteration(const struct engine *e, const struct lowered *s)
{
    struct simulation result = {0};
    bool settled;
    char *platform = sample_star_file(s->topology.n, 0, 1e9);
    if (e->run(&s->program, &s->topology, platform, NULL, &result) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    double t = timeline_iteration(&s->program, &result.timeline, &settled);
    assert_true(settled);
    simulation_free(&result);
    unlink(platform);
    free(platform);
    return t;
}

struct closed_form {
    const char *schedule;
    uint32_t chunks;
    double bubble; /* in units of (P - 1) times f = 1 ms of one of `chunks` stages */
};

/* M V (f + b) + bubble: GPipe, 1F1B (P - 1)(f + b); interleaved and breadth-first (P - 1)(f + b)
 * of one chunk, 1 / V of the 1F1B with as much work per device (Narayanan et al. 2021); ZB-H1
 * (P - 1)(f + bi - bw), with f = bi = bw a third of 1F1B's (Qi et al. 2024). M a multiple of P, and
 * for ZB-H1 at least 2 P - 1... all are. */
static void bubbles_are_the_published_ones(void **state)
{
    static const struct closed_form row[] = {
        {"gpipe", 1, 3},       {"1f1b", 1, 3},          {"interleaved", 1, 3},
        {"interleaved", 2, 3}, {"interleaved", 4, 3},   {"breadth-first", 2, 3},
        {"zb-h1", 1, 1},       {"breadth-first", 4, 3}, {"zb-v", 2, 1},
        {"dualpipe-v", 2, 2},
    };
    for (size_t e = 0; e < engines_fluid(); e++)
        for (size_t k = 0; k < sizeof row / sizeof *row; k++)
            for (uint32_t teams = 1; teams <= 8; teams *= 2) {
                struct lowered s;
                uint32_t m = 2 * teams;
                set_up_even(&s, teams, row[k].chunks, 1, m, row[k].schedule);
                double expected = 1e-3 * (3.0 * m * row[k].chunks + (teams - 1) * row[k].bubble);
                double got = iteration(engines[e], &s);
                double tolerance = engines[e] == &engine_analytic ? 1e-9 : 1e-6;
                if (fabs(got - expected) > tolerance * expected + 1e-9)
                    fail_msg("%s %s P=%u V=%u: %.9g, expected %.9g", engines[e]->name,
                             row[k].schedule, teams, row[k].chunks, got, expected);
                lowered_free(&s);
            }
}

static void sequential_stages_never_overlap(void **state)
{
    struct lowered s;
    set_up_even(&s, 4, 1, 1, 6, "sequential");
    assert_near(iteration(&engine_analytic, &s), 6 * 4 * 3e-3, 1e-9);
    lowered_free(&s);
}

/* max over stages of (f + b + sync) / replicas: stages of 3 ms, syncs of four bytes. */
static void pipedream_settles_at_the_pace_of_its_slowest_stage(void **state)
{
    static const uint32_t replicas[][4] = {{1, 1, 1, 1}, {2, 1}, {4, 2, 2}, {3, 1}, {15, 1}};
    static const uint32_t teams[] = {4, 2, 3, 2, 2};
    for (size_t e = 0; e < engines_fluid(); e++)
        for (size_t k = 0; k < sizeof teams / sizeof *teams; k++) {
            struct lowered s;
            uint32_t m = 240;
            double slowest = 0, update = 4 * 4 / 1e12; /* sgd, four bytes of parameters, 1 TB/s */
            for (uint32_t t = 0; t < teams[k]; t++) {
                double r = replicas[k][t], sum = 2 * (r - 1) / r * 4 / 1e9;
                slowest = fmax(slowest, (3e-3 + sum + update) / r);
            }
            assert_int_equal(set_up(&s, teams[k], 1, replicas[k], m, "pipedream"), STATUS_OK);
            double expected = m * slowest;
            double got = iteration(engines[e], &s);
            if (fabs(got - expected) > (engines[e] == &engine_analytic ? 1e-9 : 1e-6) * expected)
                fail_msg("%s row %zu: %.9g, expected %.9g", engines[e]->name, k, got, expected);
            lowered_free(&s);
        }
}

/* max over stages of (f + b + sync) / replicas: three replicas of the first stage sum 3 MB at 1
 * GB/s after every backward, 2 * 2/3 * 3 = 4 ms: 7 / 3 ms, faster than the 3 ms of the single
 * second stage; with 12 MB 19 / 3 ms, slower. */
static void pipedream_pays_for_the_sum_of_every_microbatch(void **state)
{
    static const int64_t megabytes[] = {3, 12};
    static const double slowest_s[] = {3e-3, 19e-3 / 3};
    for (size_t e = 0; e < engines_fluid(); e++)
        for (size_t k = 0; k < 2; k++) {
            struct lowered s;
            uint32_t replicas[] = {3, 1}, m = 240;
            assert_int_equal(set_up(&s, 2, 1, replicas, m, "pipedream"), STATUS_OK);
            program_free(&s.program);
            s.model.op[0].parameter_bytes = megabytes[k] * 1000000;
            assert_int_equal(plan_lower(&s.plan, &s.model, &s.topology, &s.program), STATUS_OK);
            double update = 4.0 * (double)megabytes[k] * 1e6 / 1e12;
            double expected = m * (slowest_s[k] + (k == 1 ? update / 3 : 16e-12));
            double got = iteration(engines[e], &s);
            if (fabs(got - expected) > (engines[e] == &engine_analytic ? 1e-9 : 1e-6) * expected)
                fail_msg("%s %lld MB: %.9g, expected %.9g", engines[e]->name,
                         (long long)megabytes[k], got, expected);
            lowered_free(&s);
        }
}

/* Halves of 2 P (zb-v) and 2 P + 1 stages at once (Qi et al. 2024, DeepSeek 2024). A rank keeps
 * room for the most of either chunk, which zb-v needs at different times: program_peak() has one
 * more. */
static void schedules_in_a_v_hold_what_is_published(void **state)
{
    static const char *const name[] = {"zb-v", "dualpipe-v", "dualpipe"};
    for (size_t k = 0; k < 3; k++)
        for (uint32_t teams = 1; teams <= 8; teams++)
            for (uint32_t m = 2 * teams; m <= 32; m++) {
                struct lowered s;
                set_up_even(&s, teams, 2, k < 2 ? 1 : 2, k < 2 ? m : 2 * m, name[k]);
                for (size_t r = 0; r < s.program.ranks; r++) {
                    int64_t held = 0, most = 0, unit = s.model.op[0].stash_bytes;
                    for (size_t i = s.program.op_start[r]; i < s.program.op_start[r + 1]; i++) {
                        const struct program_op *o = &s.program.op[i];
                        held += o->kind == OP_FORWARD ? o->bytes : op_computes(o) ? -o->bytes : 0;
                        most = held > most ? held : most;
                    }
                    assert_int_equal(most, (2 * teams + (k > 0)) * unit);
                }
                lowered_free(&s);
            }
}

/* Microbatches between forward and backward on one rank at most. A stage stashes 500 bytes of its
 * own and, but for the first, none received (messages are empty). */
static size_t in_flight(const struct program *p, uint32_t rank)
{
    return (size_t)(program_peak(p, rank, NULL) - program_static_bytes(&p->rank[rank]));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void memory_peaks_are_the_textbook_in_flight_counts(void **state)
{
    for (uint32_t teams = 1; teams <= 8; teams++)
        for (uint32_t m = teams; m <= 32; m += teams) /* interleaved: groups of P */
            for (size_t k = 0; k < schedules_n; k++) {
                uint32_t chunks = schedules[k]->vee ? 2 : schedules[k]->chunked ? 3 : 1;
                struct lowered s;
                if (schedules[k]->vee && m < 2 * teams)
                    continue; /* fewer at once */
                set_up_even(&s, teams, chunks, schedules[k]->crossed ? 2 : 1,
                            schedules[k]->crossed ? 2 * m : m, schedules[k]->name);
                int64_t unit = s.model.op[0].stash_bytes;
                for (uint32_t t = 0; t < teams; t++) {
                    const char *name = schedules[k]->name;
                    size_t ahead = teams - t;
                    size_t count =
                        !strcmp(name, "sequential")      ? 1
                        : !strcmp(name, "gpipe")         ? m
                        : !strcmp(name, "zb-h1")         ? least(m, teams)
                        : !strcmp(name, "breadth-first") ? (size_t)m * chunks
                        : schedules[k]->vee              ? 2 * teams + 1
                        : !strcmp(name, "interleaved")
                            ? least((size_t)m * chunks, 2 * (ahead - 1) + (chunks - 1) * teams + 1)
                            : least(m, ahead);
                    uint32_t rank = schedules[k]->crossed ? 2 * t : t;
                    if (in_flight(&s.program, rank) != count * (size_t)unit)
                        fail_msg("%s P=%u M=%u rank %u: %zu, expected %zu x %lld", name, teams, m,
                                 t, in_flight(&s.program, rank), count, (long long)unit);
                }
                lowered_free(&s);
            }
}

/* PipeDream keeps as many versions of the weights as microbatches are in flight: w + 1 with warm-up
 * depth w = floor((R - 1 - replicas before) / replicas) (its runtime; 15-1: 1, 0; 4-2-2: 1, 1, 0;
 * straight 4: 3, 2, 1, 0). */
static void pipedream_stashes_a_version_for_each_microbatch_in_flight(void **state)
{
    static const uint32_t replicas[][4] = {{15, 1}, {4, 2, 2}, {1, 1, 1, 1}};
    static const int64_t versions[][4] = {{2, 1}, {2, 2, 1}, {4, 3, 2, 1}};
    static const uint32_t teams[] = {2, 3, 4};
    for (size_t k = 0; k < 3; k++) {
        struct lowered s;
        assert_int_equal(set_up(&s, teams[k], 1, replicas[k], 60, "pipedream"), STATUS_OK);
        for (uint32_t r = 0; r < s.program.ranks; r++) {
            const struct program_rank *rank = &s.program.rank[r];
            int64_t wanted = versions[k][rank->stage];
            assert_int_equal(program_static_bytes(rank),
                             wanted * 4 + 4); /* gradients; sgd: no state */
            assert_int_equal(in_flight(&s.program, r),
                             (size_t)(wanted * s.model.op[0].stash_bytes));
        }
        lowered_free(&s);
    }
}

static void what_cannot_be_scheduled_is_refused_with_the_reason(void **state)
{
    struct lowered s;
    uint32_t uneven[] = {2, 1}, even[] = {2, 2}, odd[] = {3, 3};
    assert_int_equal(set_up(&s, 2, 3, even, 4, "zb-v"), STATUS_INVALID);
    assert_message(error_message(), "needs two stages on each pipeline rank");
    lowered_free(&s);
    assert_int_equal(set_up(&s, 2, 2, odd, 6, "dualpipe"), STATUS_INVALID);
    assert_message(error_message(), "this needs even number of replicas");
    lowered_free(&s);
    assert_int_equal(set_up(&s, 2, 2, even, 4, "interleaved"), STATUS_OK);
    free(s.plan.schedule);
    s.plan.schedule = sample_text("zb-v");
    program_free(&s.program);
    assert_int_equal(plan_lower(&s.plan, &s.model, &s.topology, &s.program), STATUS_INVALID);
    assert_message(error_message(), "on the pipeline rank of stage");
    lowered_free(&s);
    assert_int_equal(set_up(&s, 2, 2, even, 5, "interleaved"), STATUS_UNSUPPORTED);
    assert_message(error_message(), "several stages on a device replicas");
    lowered_free(&s);
    assert_int_equal(set_up(&s, 2, 2, uneven, 4, "interleaved"), STATUS_UNSUPPORTED);
    lowered_free(&s);
    assert_int_equal(set_up(&s, 2, 2, even, 4, "1f1b"), STATUS_INVALID);
    assert_message(error_message(), "devices for every stage");
    lowered_free(&s);
    assert_int_equal(set_up(&s, 2, 1, uneven, 5, "pipedream"), STATUS_UNSUPPORTED);
    assert_message(error_message(), "5 microbatches 2");
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_passes_the_checker_for_every_shape),
        cmocka_unit_test(uneven_replicas_pass_the_checker_and_get_each_microbatch_once),
        cmocka_unit_test(bubbles_are_the_published_ones),
        cmocka_unit_test(sequential_stages_never_overlap),
        cmocka_unit_test(pipedream_settles_at_the_pace_of_its_slowest_stage),
        cmocka_unit_test(pipedream_pays_for_the_sum_of_every_microbatch),
        cmocka_unit_test(memory_peaks_are_the_textbook_in_flight_counts),
        cmocka_unit_test(schedules_in_a_v_hold_what_is_published),
        cmocka_unit_test(pipedream_stashes_a_version_for_each_microbatch_in_flight),
        cmocka_unit_test(what_cannot_be_scheduled_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
}
