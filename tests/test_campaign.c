/* Trainings that fail: against formulas, and against a plain simulation that passes every
 * checkpoint by itself. */
#include <math.h>
#include <string.h>

#include "campaign/campaign.h"
#include "campaign/closed_form.h"
#include "campaign/storage.h"
#include "core/base/random.h"
#include "tests/cmocka.h"

enum { DRAWS = 200, COURSES = 300 };
static const double hour_s = 3600, day_s = 86400;

static double between(uint64_t key, uint64_t i, double low, double high)
{
    return low * pow(high / low, random_unit(key, i));
}

/* Software alone fails, of one node. */
static struct failures software(double between_s, double recover_s)
{
    return (struct failures){.between_s[CAUSE_SOFTWARE] = between_s, .restart_s = recover_s};
}

/* Mean of drawn courses, and its standard error. */
static double mean_wall(const struct campaign *c, uint64_t seed, double *error_s)
{
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < COURSES; i++) {
        struct course one;
        assert_int_equal(timeline_follow(c, seed + i, INFINITY, &one), STATUS_OK);
        sum += one.wall_s;
        squares += one.wall_s * one.wall_s;
    }
    double mean = sum / COURSES;
    *error_s = sqrt(fmax(0, squares / COURSES - mean * mean) / COURSES);
    return mean;
}

static void courses_take_what_dalys_formula_says(void **state)
{
    size_t off = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double mean_s = between(1, 3 * i, hour_s, 30 * day_s), error_s;
        struct failures f = software(mean_s, mean_s * between(1, 3 * i + 1, 1e-3, 0.5));
        struct campaign c = {.failures = &f,
                             .pieces[CAUSE_SOFTWARE] = 1,
                             .replicas = 1,
                             .iteration_s = 1,
                             .block_s = mean_s * between(1, 3 * i + 2, 1e-4, 0.1)};
        c.every_s = closed_form_best(c.block_s, mean_s) * between(2, i, 0.3, 3);
        c.work_s = ceil(20 * mean_s / c.every_s) * c.every_s;
        double expected = closed_form_time(c.work_s, c.every_s, c.block_s, f.restart_s, mean_s);
        double simulated = mean_wall(&c, 1000 * i, &error_s);
        off += fabs(simulated - expected) > 1.96 * error_s;
        if (fabs(simulated - expected) > 4.5 * error_s)
            fail_msg("draw %d: %g s simulated, %g by the formula, standard error %g", (int)i,
                     simulated, expected, error_s);
    }
    assert_in_range(off, 1, DRAWS / 10); /* 5 % of 95 % intervals miss */
}

/* The same job without the short cut: a step for every checkpoint, its own draws. */
static double plain_course(const struct campaign *c, uint64_t key)
{
    double rate = failures_rate(c->failures, c->pieces), t = 0, saved = 0;
    uint64_t draws = 0;
    for (;;) {
        double fails = t - log1p(-random_unit(key, draws++)) / rate, work = saved, end;
        double writing = 0, written = INFINITY; /* what is being written, until when */
        for (;;) {
            double part = fmin(c->every_s, c->work_s - work);
            double slow =
                fmax(0, fmin(isinf(written) ? 0 : written - t, part * (1 + c->interference)));
            end = t + slow + (part - slow / (1 + c->interference));
            if (work >= c->work_s) {
                if (t + c->block_s + c->drain_s <= fails)
                    return t + c->block_s + c->drain_s;
                break;
            }
            bool last = work + part >= c->work_s;
            double until = last ? end : end + c->block_s;
            if (written <= fmin(fails, until)) {
                saved = writing;
                written = INFINITY;
            }
            if (until > fails)
                break;
            t = until;
            work += part;
            if (last)
                continue;
            if (c->drain_s > 0) {
                writing = work;
                written = t + c->drain_s;
            } else
                saved = work;
        }
        t = fails;
        for (double up = 0;;) { /* until it recovers without another failure */
            up = -log1p(-random_unit(key, draws++)) / rate;
            double down = c->failures->restart_s + c->load_s;
            t += fmin(up, down);
            if (up >= down)
                break;
        }
    }
}

static void asynchronous_checkpoints_are_those_of_a_plain_simulation(void **state)
{
    for (uint64_t i = 0; i < DRAWS / 2; i++) {
        double mean_s = between(3, 5 * i, hour_s, 10 * day_s), error_s, sum = 0, squares = 0;
        struct failures f = software(mean_s, mean_s * between(3, 5 * i + 1, 1e-3, 0.2));
        struct campaign c = {.failures = &f,
                             .pieces[CAUSE_SOFTWARE] = 1,
                             .replicas = 1,
                             .iteration_s = 1,
                             .load_s = 60,
                             .interference = random_unit(4, i)};
        c.every_s = mean_s * between(3, 5 * i + 2, 1e-2, 1);
        c.block_s = c.every_s * between(3, 5 * i + 3, 1e-3, 0.2);
        c.drain_s = c.every_s * between(3, 5 * i + 4, 1e-2, 0.9);
        c.work_s = 10.3 * mean_s;
        double simulated = mean_wall(&c, 1000 * i, &error_s);
        for (uint64_t k = 0; k < COURSES; k++) {
            double one = plain_course(&c, random_key(5 + i, k));
            sum += one;
            squares += one * one;
        }
        double plain = sum / COURSES;
        double error = hypot(error_s, sqrt(fmax(0, squares / COURSES - plain * plain) / COURSES));
        if (fabs(simulated - plain) > 4.5 * error)
            fail_msg("draw %d: %g s, %g plainly, standard error %g", (int)i, simulated, plain,
                     error);
    }
}

static void the_best_interval_is_the_minimum_of_the_formula(void **state)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        double mean_s = between(6, 2 * i, 1, 1e7), save = mean_s * between(6, 2 * i + 1, 1e-6, 3);
        double best = closed_form_best(save, mean_s), low = 1e-9 * mean_s, high = mean_s;
        for (size_t k = 0; k < 200; k++) { /* ternary search */
            double a = low + (high - low) / 3, b = high - (high - low) / 3;
            if (closed_form_time(1, a, save, 0, mean_s) < closed_form_time(1, b, save, 0, mean_s))
                high = b;
            else
                low = a;
        }
        assert_true(fabs(best / low - 1) < 1e-4);
        if (save < 0.1 * mean_s)
            assert_true(fabs(closed_form_daly(save, mean_s) / best - 1) < 0.02);
        if (save < 1e-4 * mean_s)
            assert_true(fabs(closed_form_young(save, mean_s) / best - 1) < 0.02);
    }
}

/* Everything at once, drawn. */
static struct campaign drawn_campaign(uint64_t i, struct failures *f)
{
    struct campaign c = {.failures = f,
                         .devices = 64,
                         .replicas = 8,
                         .iteration_s = 5,
                         .block_s = 10 * random_unit(7, 9 * i),
                         .drain_s = i % 2 ? 60 * random_unit(7, 9 * i + 1) : 0,
                         .interference = random_unit(7, 9 * i + 2),
                         .load_s = 30,
                         .swap_s = 20,
                         .recovery = (enum recovery)(i % RECOVERIES),
                         .spares = (uint32_t)(i % 4)};
    *f = (struct failures){.detect_s = 60, .hang = 0.2, .timeout_s = 600, .restart_s = 200};
    for (size_t k = 0; k < CAUSES; k++) {
        f->between_s[k] = between(8, CAUSES * i + k, 1 * day_s, 100 * day_s);
        c.pieces[k] = 8;
    }
    f->repair_s = between(7, 9 * i + 3, hour_s, 5 * day_s);
    f->slow_s = i % 3 ? 600 * day_s : 0;
    f->slower = 0.3;
    f->slow_found_s = 2 * hour_s;
    c.every_s = between(7, 9 * i + 4, 100, 20000);
    c.work_s = 20 * day_s;
    return c;
}

static void the_parts_of_a_course_add_up(void **state)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct failures f;
        struct course o;
        const struct campaign c = drawn_campaign(i, &f);
        assert_int_equal(timeline_follow(&c, i, INFINITY, &o), STATUS_OK);
        double sum = o.work_s + o.saving_s + o.waiting_s + o.reduced_s + o.slow_s;
        for (size_t k = 0; k < CAUSES; k++) {
            sum += o.lost_s[k] + o.down_s[k];
            assert_true(o.lost_s[k] >= 0 && o.down_s[k] >= 0);
            if (c.recovery == RECOVER_HOT && causes[k].takes_node && c.spares > 0 && f.repair_s < 1)
                assert_true(o.lost_s[k] <= o.failures[k] * c.iteration_s);
        }
        assert_true(o.work_s == c.work_s);
        if (fabs(sum - o.wall_s) > 1e-6 * o.wall_s)
            fail_msg("draw %d: parts take %.9g s, the course %.9g", (int)i, sum, o.wall_s);
        assert_true(c.recovery == RECOVER_SHRINK || o.reduced_s == 0);
    }
}

enum { TABLE = 64 };
static enum status by_table(void *shrink, uint32_t lost, double *out)
{
    *out = lost < TABLE ? ((const double *)shrink)[lost] : INFINITY;
    return STATUS_OK;
}

/* From failure to failure, none of which is repaired. */
static double plain_shrinking(const struct campaign *c, uint64_t seed)
{
    const double *times = c->shrink;
    double rate = failures_rate(c->failures, c->pieces), fails = timeline_gap(seed, 0, rate);
    double goes_on = 0, saved = 0;
    for (uint32_t lost = 0;;) {
        double end = goes_on + (c->work_s - saved) * times[lost];
        if (end <= fails)
            return end;
        if (fails > goes_on)
            saved += floor((fails - goes_on) / times[lost] / c->every_s) * c->every_s;
        goes_on = fails + c->failures->restart_s;
        fails += timeline_gap(seed, ++lost, rate);
    }
}

static void a_shrinking_job_is_that_of_a_plain_simulation(void **state)
{
    size_t shrunk = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double times[TABLE], mean_s = between(9, 3 * i, hour_s, day_s);
        double per_replica = 1 + floor(4 * random_unit(9, 3 * i + 1));
        struct failures f = {.between_s[CAUSE_NODE] = mean_s, .restart_s = 0.1 * mean_s};
        struct course o;
        for (uint32_t lost = 0; lost < TABLE; lost++)
            times[lost] = 100 / (100 - ceil(lost / per_replica));
        struct campaign c = {.failures = &f,
                             .pieces[CAUSE_NODE] = 1,
                             .replicas = 100,
                             .iteration_s = 1,
                             .every_s = mean_s * between(9, 3 * i + 2, 0.01, 0.3),
                             .work_s = 10 * mean_s,
                             .recovery = RECOVER_SHRINK,
                             .shrunk = by_table,
                             .shrink = times};
        f.repair_s = 1e9 * mean_s;
        assert_int_equal(timeline_follow(&c, i, INFINITY, &o), STATUS_OK);
        assert_true(fabs(o.wall_s / plain_shrinking(&c, i) - 1) < 1e-9);
        shrunk += o.reduced_s > 0;
    }
    assert_true(shrunk > DRAWS / 2);
}

/* Two nodes fail, and are repaired one after the other: a start with more replicas for each that
 * shortens iterations. */
static void nodes_are_taken_in_when_they_shorten_iterations(void **state)
{
    double by_one[TABLE] = {1, 1.5, 2}, by_two[TABLE] = {1, 2, 2};
    struct failures f = {.between_s[CAUSE_NODE] = 1000, .restart_s = 1, .repair_s = 1000};
    struct campaign c = {.failures = &f,
                         .pieces[CAUSE_NODE] = 1,
                         .replicas = 4,
                         .iteration_s = 1,
                         .every_s = 10,
                         .work_s = 5000,
                         .recovery = RECOVER_SHRINK,
                         .shrunk = by_table};
    struct course one, two;
    uint64_t seed = 0;
    while (timeline_gap(seed, 0, 1e-3) > 100 || timeline_gap(seed, 1, 1e-3) > 100 ||
           timeline_gap(seed, 1, 1e-3) < 10 || timeline_gap(seed, 2, 1e-3) < 6500)
        seed++;
    c.shrink = by_one;
    assert_int_equal(timeline_follow(&c, seed, INFINITY, &one), STATUS_OK);
    c.shrink = by_two;
    assert_int_equal(timeline_follow(&c, seed, INFINITY, &two), STATUS_OK);
    assert_true(one.failures[CAUSE_NODE] > 1.5 && one.failures[CAUSE_NODE] < 2.5);
    assert_true(fabs(one.waiting_s - 2) < 1e-9 && fabs(two.waiting_s - 1) < 1e-9);
}

/* Of paired draws: another policy, more spares, rarer failures do not lengthen the mean. */
static void better_machines_are_not_slower(void **state)
{
    for (uint64_t i = 0; i < 12; i++) {
        struct failures f, rarer;
        struct course mean, more, seldom;
        struct campaign c = drawn_campaign(i, &f);
        assert_int_equal(campaign_mean(&c, 1, COURSES, &mean), STATUS_OK);
        c.spares += 8;
        assert_int_equal(campaign_mean(&c, 1, COURSES, &more), STATUS_OK);
        assert_true(more.wall_s <= mean.wall_s * 1.01);
        rarer = f;
        for (size_t k = 0; k < CAUSES; k++)
            rarer.between_s[k] *= 2;
        c.failures = &rarer;
        assert_int_equal(campaign_mean(&c, 1, COURSES, &seldom), STATUS_OK);
        assert_true(seldom.wall_s < more.wall_s);
    }
}

static void quantiles_are_as_sure_as_they_are_said_to_be(void **state)
{
    struct failures f;
    struct campaign c = drawn_campaign(4, &f);
    struct campaign_forecast one, again, many;
    assert_int_equal(campaign_forecast(&c, 1, 0.01, &one), STATUS_OK);
    assert_int_equal(campaign_forecast(&c, 1, 0.01, &again), STATUS_OK);
    assert_memory_equal(&one, &again, sizeof one);
    assert_int_equal(campaign_forecast(&c, 100000, 1e-9, &many), STATUS_OK);
    assert_int_equal(many.courses, CAMPAIGN_COURSES_MOST);
    assert_true(one.within <= 0.01);
    assert_true(fabs(one.p5_s / many.p5_s - 1) < 0.015);
    assert_true(fabs(one.p50_s / many.p50_s - 1) < 0.015);
    assert_true(fabs(one.p95_s / many.p95_s - 1) < 0.015);
}

static void a_job_that_cannot_end_is_given_up(void **state)
{
    struct failures f = software(60, 30);
    struct campaign_forecast out;
    struct campaign c = {.failures = &f,
                         .pieces[CAUSE_SOFTWARE] = 1,
                         .replicas = 1,
                         .iteration_s = 1,
                         .every_s = INFINITY,
                         .work_s = 20 * hour_s};
    assert_int_equal(campaign_forecast(&c, 1, 0.01, &out), STATUS_OK);
    assert_int_equal(out.unfinished, out.courses);
    assert_true(isinf(out.p50_s));
    c.work_s = 0;
    assert_int_equal(campaign_forecast(&c, 1, 0.01, &out), STATUS_INVALID);
}

static void rates_are_published_ones_or_given(void **state)
{
    struct failures f;
    const char *text;
    for (size_t i = 0; failures_preset(i, &text); i++)
        assert_int_equal(failures_read(failures_preset(i, &text), &f), STATUS_OK);
    assert_int_equal(failures_read("llama3", &f), STATUS_OK);
    const double pieces[CAUSES] = {16384, 2048, 16384, 16384, 0, 2048};
    assert_true(fabs(failures_rate(&f, pieces) * 54 * day_s - 419) < 1e-6);
    assert_int_equal(failures_read("llama3:scale=2", &f), STATUS_OK);
    assert_true(fabs(failures_rate(&f, pieces) * 54 * day_s - 2 * 419) < 1e-6);
    assert_int_equal(failures_read("llama3:gpu=1000h,repair=2d,switch=0", &f), STATUS_OK);
    assert_true(f.between_s[CAUSE_GPU] == 1000 * hour_s && f.repair_s == 2 * day_s);
    static const char *const wrong[][2] = {
        {"llama4", "llama3"},          {"llama3:gpu=5", "unit missing"},
        {"llama3:gpu=-1h", "gpu"},     {"llama3:fan=1h", "known"},
        {"llama3:hang=2", "hang"},     {"llama3:gpu=1h,gpu=1h", "twice"},
        {"none:repair=9e9h", "repair"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(failures_read(wrong[i][0], &f), STATUS_INVALID);
        if (!message_says(error_message(), wrong[i][1]))
            fail_msg("'%s' does not say '%s'", error_message(), wrong[i][1]);
    }
}

static void storage_is_as_fast_as_its_narrowest_part(void **state)
{
    struct storage s;
    double save_s, load_s;
    struct storage_load l = {.total = 1e12,
                             .most_node = 2e10,
                             .load_total = 8e12,
                             .load_most_node = 1e11,
                             .network_s = 7};
    assert_int_equal(storage_read("shared:rate=100GBps,node=10GBps", &s), STATUS_OK);
    assert_int_equal(storage_times(&s, &l, &save_s, &load_s), STATUS_OK);
    assert_true(save_s == 10 && load_s == 80);
    assert_int_equal(storage_read("disk:node=10GBps", &s), STATUS_OK);
    assert_int_equal(storage_times(&s, &l, &save_s, &load_s), STATUS_OK);
    assert_true(save_s == 7 && load_s == 10);
    assert_int_equal(storage_read("peer:space=3TB", &s), STATUS_OK);
    assert_int_equal(storage_times(&s, &l, &save_s, &load_s), STATUS_INVALID);
    assert_int_equal(storage_read("peer:rate=1GBps", &s), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(courses_take_what_dalys_formula_says),
        cmocka_unit_test(asynchronous_checkpoints_are_those_of_a_plain_simulation),
        cmocka_unit_test(the_best_interval_is_the_minimum_of_the_formula),
        cmocka_unit_test(the_parts_of_a_course_add_up),
        cmocka_unit_test(a_shrinking_job_is_that_of_a_plain_simulation),
        cmocka_unit_test(nodes_are_taken_in_when_they_shorten_iterations),
        cmocka_unit_test(better_machines_are_not_slower),
        cmocka_unit_test(quantiles_are_as_sure_as_they_are_said_to_be),
        cmocka_unit_test(a_job_that_cannot_end_is_given_up),
        cmocka_unit_test(rates_are_published_ones_or_given),
        cmocka_unit_test(storage_is_as_fast_as_its_narrowest_part),
    };
    return cmocka_run_group_tests_name("campaign", tests, NULL, NULL);
}
